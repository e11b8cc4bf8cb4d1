// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** The points where the threads of a run and the thread that directs it wait for each other. */
final class Gate {
  private static final long POLL_MS = 50;

  private final RunControl control;
  private final CountDownLatch connected;
  private final CountDownLatch started = new CountDownLatch(1);
  private final CountDownLatch warm;
  private final CountDownLatch finished;
  private final CountDownLatch released = new CountDownLatch(1);
  private final AtomicReference<Throwable> connectFailure = new AtomicReference<>();
  private volatile long startMonoNs;
  private volatile long measureMonoNs;

  Gate(int threads, RunControl control) {
    this.control = control;
    this.connected = new CountDownLatch(threads);
    this.warm = new CountDownLatch(threads);
    this.finished = new CountDownLatch(threads);
  }

  /** A thread's connection stands, or could not be made. */
  void connected(Throwable failure) {
    if (failure != null) {
      connectFailure.compareAndSet(null, failure);
    }
    connected.countDown();
  }

  /** Waits for all connections or the first that fails; false when the run was stopped. */
  boolean awaitConnected() throws InterruptedException {
    while (!control.stopped()) {
      if (connected.await(POLL_MS, TimeUnit.MILLISECONDS) || connectFailure.get() != null) {
        return true;
      }
    }
    return false;
  }

  /** The first failure to connect, or null. */
  Throwable connectFailure() {
    return connectFailure.get();
  }

  /**
   * Lets the threads begin.
   *
   * @param start monotonic instant of the first operation
   * @param warmupNs length of a warm-up by time; 0 for none or for a warm-up by count, which ends when its last thread has
   */
  void start(long start, long warmupNs) {
    startMonoNs = start;
    measureMonoNs = start + warmupNs;
    started.countDown();
  }

  boolean awaitStarted() throws InterruptedException {
    return await(started);
  }

  long startMonoNs() {
    return startMonoNs;
  }

  /** A thread has done its share of a warm-up by count; the last one's instant begins the measured window. */
  void warm() {
    synchronized (this) {
      if (warm.getCount() == 1) {
        measureMonoNs = System.nanoTime();
      }
      warm.countDown();
    }
  }

  boolean awaitWarm() throws InterruptedException {
    return await(warm);
  }

  /** Whether the warm-up by count is over. */
  boolean isWarm() {
    return warm.getCount() == 0;
  }

  /** Monotonic instant at which the measured window begins; known once {@link #awaitWarm} has returned true, or without a warm-up by count. */
  long measureMonoNs() {
    return measureMonoNs;
  }

  /** A thread has done its last operation. */
  void finished() {
    finished.countDown();
  }

  /** Waits up to an instant of the monotonic clock for all threads to finish. */
  boolean awaitFinished(long untilMonoNs) throws InterruptedException {
    return finished.await(Math.max(0, untilMonoNs - System.nanoTime()), TimeUnit.NANOSECONDS);
  }

  /** Lets the threads disconnect: nothing is measured any more. */
  void release() {
    released.countDown();
  }

  void awaitReleased() throws InterruptedException {
    released.await();
  }

  private boolean await(CountDownLatch latch) throws InterruptedException {
    while (!control.stopped()) {
      if (latch.await(POLL_MS, TimeUnit.MILLISECONDS)) {
        return true;
      }
    }
    return false;
  }
}
