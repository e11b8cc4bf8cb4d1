// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.IOException;
import java.util.stream.Stream;
import org.stratabench.ycsb.ExitCode;
import org.stratabench.ycsb.db.Database;
import org.stratabench.ycsb.measure.Measurements;
import org.stratabench.ycsb.measure.OperationLog;
import org.stratabench.ycsb.measure.ThreadRecorder;

/** One client thread: connects, warms up, measures, disconnects. How it drives its logical clients is the subclasses' business. */
abstract class Worker implements Runnable {
  /**
   * What all threads of a run share.
   *
   * @param log null when there is to be no operation log
   */
  record Shared(RunPlan plan, Database database, Gate gate, RunControl control, Measurements measurements, OperationLog log,
      LogicalClient.Shared clients) { }

  private final Shared shared;
  private final int thread;
  private volatile OperationLog.Writer log;

  Worker(Shared shared, int thread) {
    this.shared = shared;
    this.thread = thread;
  }

  /** Makes the sessions of this thread's clients. */
  abstract void connect(ThreadRecorder recorder, OperationLog.Writer writer) throws Exception;

  /** Does the operations of one window. */
  abstract void perform(Window window) throws IOException;

  /** The clients that this thread drives, once it has connected. */
  abstract Stream<LogicalClient> clients();

  /** Closes the sessions. */
  abstract void disconnect() throws Exception;

  Shared shared() {
    return shared;
  }

  /** Number of this thread, 0-based. */
  int thread() {
    return thread;
  }

  @Override
  public final void run() {
    try {
      log = shared.log() == null ? null : shared.log().new Writer();
      connect(shared.measurements().newThread(), log);
      shared.gate().connected(null);
    } catch (Exception | Error e) {
      shared.gate().connected(e);
      return;
    }
    try {
      work();
    } catch (InterruptedException e) {
      // only an ending run interrupts its threads
    } catch (IOException e) {
      shared.control().stop(ExitCode.ABORTED, "cannot write ops.bin: " + e.getMessage() + "; free the disk or choose another -output");
    } catch (RuntimeException | Error e) {
      shared.control().stop(ExitCode.ABORTED, "client thread " + thread + " was lost: " + e);
    } finally {
      shared.gate().finished();
    }
    release();
  }

  private void release() {
    try {
      shared.gate().awaitReleased();
      disconnect();
    } catch (InterruptedException e) {
      // only an ending run interrupts its threads
    } catch (Exception | Error e) {
      // a session may have held back what it was given until now
      String reason = e instanceof Error || e.getMessage() == null ? e.toString() : e.getMessage();
      shared.control().stop(ExitCode.ERRORS, Thread.currentThread().getName() + " could not close its session: "
          + reason + "; what it held back may be lost");
    }
  }

  private void work() throws InterruptedException, IOException {
    RunPlan plan = shared.plan();
    Gate gate = shared.gate();
    if (!gate.awaitStarted()) {
      return;
    }
    new Waiter(shared.control()::stopped).await(gate.startMonoNs());
    if (plan.warmupOperations() > 0) {
      perform(new Window(gate.startMonoNs(), Long.MAX_VALUE, plan.warmupOperations(), false));
      if (shared.control().stopped()) {
        // it has not done its share: the measured window does not open
        return;
      }
      gate.warm();
      if (!gate.awaitWarm()) {
        return;
      }
    } else if (plan.warmupNs() > 0) {
      perform(new Window(gate.startMonoNs(), gate.measureMonoNs(), Long.MAX_VALUE, false));
    }
    long start = gate.measureMonoNs();
    new Waiter(shared.control()::stopped).await(start);
    long until = plan.limitNs() == Long.MAX_VALUE ? Long.MAX_VALUE : start + plan.limitNs();
    try {
      perform(new Window(start, until, plan.planned(), true));
    } finally {
      // a thread that is lost has measured, too
      flush();
    }
  }

  /** Hands what the operation log has gathered to the file. */
  final void flush() throws IOException {
    if (log != null) {
      log.flush();
    }
  }
}
