// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.IOException;
import java.util.Arrays;
import org.stratabench.ycsb.ExitCode;
import org.stratabench.ycsb.Options;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.db.Database;
import org.stratabench.ycsb.measure.ClientCost;

/** The threads of a run and the database that they share, from connecting to disconnecting; none is waited for without end. */
final class WorkerThreads {
  private static final long SECOND_NS = 1_000_000_000L;
  // The agent kills a client 15 s after a signal (agent/jobs.py): these two together, and writing the summary, must stay below that.
  private static final long GRACE_NS = 2 * SECOND_NS;
  private static final long HUNG_NS = 10 * SECOND_NS;
  private static final long DISCONNECT_NS = 5 * SECOND_NS;
  private static final long LEAVING_POLL_MS = 50;

  private final RunPlan plan;
  private final Database database;
  private final Gate gate;
  private final RunControl control;
  private final Worker[] workers;
  private final Thread[] threads;

  WorkerThreads(Worker.Shared shared) {
    this.plan = shared.plan();
    this.database = shared.database();
    this.gate = shared.gate();
    this.control = shared.control();
    this.workers = new Worker[plan.threads()];
    this.threads = new Thread[plan.threads()];
    for (int i = 0; i < workers.length; i++) {
      workers[i] = plan.asynchronous() ? new AsyncWorker(shared, i) : new BlockingWorker(shared, i);
      threads[i] = daemon(workers[i], ClientCost.THREAD_PREFIX + i);
    }
  }

  /** Begins to connect, first the database, then each thread; the gate tells when they have, or that they could not. */
  void connect(Settings settings) {
    // a thread of its own, for a driver may take longer to give up than we want to wait
    daemon(() -> openDatabase(settings), "connect").start();
  }

  private void openDatabase(Settings settings) {
    try {
      database.open(settings, plan.spec(), plan.phase() == Options.Phase.LOAD);
    } catch (Exception | Error e) {
      gate.connected(e);
      return;
    }
    for (Thread thread : threads) {
      thread.start();
    }
  }

  private static Thread daemon(Runnable task, String name) {
    Thread thread = new Thread(task, name);
    thread.setDaemon(true);
    return thread;
  }

  /**
   * Waits for the threads of a run that was stopped; those that do not come back from the database are interrupted and then left behind.
   *
   * @param begun whether they have been let begin: there is nothing to wait for else
   */
  void end(boolean begun) throws InterruptedException {
    if (!control.stopped()) {
      return;
    }
    if (!gate.awaitFinished(System.nanoTime() + (begun ? GRACE_NS : 0))) {
      control.interrupting();
      for (Thread thread : threads) {
        thread.interrupt();
      }
      gate.awaitFinished(System.nanoTime() + (begun ? HUNG_NS : 0));
    }
  }

  /** Hands to the operation log's file what the threads that were left behind have gathered. */
  void flushLeftBehind() throws IOException {
    for (int i = 0; i < workers.length; i++) {
      if (threads[i].isAlive() && control.isInterrupting()) {
        workers[i].flush();
      }
    }
  }

  /** How long the clients have taken part in the measured window, each up to its own end, added up. */
  long activeNs() {
    return Arrays.stream(workers).flatMap(Worker::clients).mapToLong(LogicalClient::activeNs).sum();
  }

  /** How many operations of all clients together are due in the measured window before an instant; a thread left behind does nothing more, either. */
  long dueBefore(Window window, long endMonoNs) {
    // on all processors: what has not begun may be hundreds of millions, and who stops a run waits some seconds only for its summary
    return Arrays.stream(workers).flatMap(Worker::clients).toList().parallelStream()
        .mapToLong(client -> client.dueBefore(window, endMonoNs)).sum();
  }

  /**
   * Bindings written for YCSB may send only now what they have held back, so a run that ends in order takes the time
   * that they need.
   */
  void closeSessions() throws InterruptedException {
    gate.release();
    long begin = System.nanoTime();
    for (Thread thread : threads) {
      while (thread.isAlive() && !control.stopped()) {
        thread.join(LEAVING_POLL_MS);
        if (plan.hangNs() > 0 && System.nanoTime() - begin > plan.hangNs()) {
          control.stop(ExitCode.ERRORS, thread.getName() + " has been closing its session for "
              + plan.hangNs() / SECOND_NS
              + " s; what it held back may be lost; raise error.hang.seconds if it may take that long");
        }
      }
    }
  }

  /** Closes what is still open. */
  void disconnect() throws InterruptedException {
    gate.release();
    long until = System.nanoTime() + DISCONNECT_NS;
    for (Thread thread : threads) {
      thread.join(Math.max(1, (until - System.nanoTime()) / 1_000_000));
    }
    Thread closing = daemon(this::closeDatabase, "close");
    closing.start();
    closing.join(Math.max(1, (until - System.nanoTime()) / 1_000_000));
  }

  private void closeDatabase() {
    try {
      database.close();
    } catch (Exception e) {
      // results are complete by now, and a connection that will not close ends with the process
    }
  }
}
