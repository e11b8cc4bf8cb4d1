// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.stratabench.ycsb.ExitCode;

/** Ends a run early, from whichever thread notices that it must; the first reason counts. */
public final class RunControl {
  private record Stop(ExitCode code, String reason, long atMonoNs) { }

  private final AtomicReference<Stop> stop = new AtomicReference<>();
  private final CountDownLatch written = new CountDownLatch(1);
  private volatile boolean interrupting;

  /** Asks every thread to end. */
  public void stop(ExitCode code, String reason) {
    stop.compareAndSet(null, new Stop(code, reason, System.nanoTime()));
  }

  /** Whether the run is to end early. */
  public boolean stopped() {
    return stop.get() != null;
  }

  /** {@link ExitCode#OK} unless stopped. */
  ExitCode code() {
    return stopped() ? stop.get().code() : ExitCode.OK;
  }

  /** Why the run ended early, or null. */
  String reason() {
    return stopped() ? stop.get().reason() : null;
  }

  /** Monotonic instant of the stop; only to be asked when stopped. */
  long stoppedAtMonoNs() {
    return stop.get().atMonoNs();
  }

  /** Announces that operations still under way will be cut off, so that their failures are ours and not the database's. */
  void interrupting() {
    interrupting = true;
  }

  boolean isInterrupting() {
    return interrupting;
  }

  /** Says that everything measured is on disk. */
  public void written() {
    written.countDown();
  }

  /** Waits until everything is on disk; false when that took longer than {@code seconds}. */
  public boolean awaitWritten(long seconds) throws InterruptedException {
    return written.await(seconds, TimeUnit.SECONDS);
  }
}
