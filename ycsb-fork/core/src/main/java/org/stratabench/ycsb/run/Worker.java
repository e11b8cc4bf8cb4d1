// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.IOException;
import java.util.Properties;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.LongAdder;
import org.stratabench.ycsb.Binding;
import org.stratabench.ycsb.ExitCode;
import org.stratabench.ycsb.Options;
import org.stratabench.ycsb.measure.OperationLog;
import org.stratabench.ycsb.measure.ThreadRecorder;
import org.stratabench.ycsb.workload.AcknowledgedInserts;
import org.stratabench.ycsb.workload.KeyNames;
import org.stratabench.ycsb.workload.Mixing;
import org.stratabench.ycsb.workload.OperationMix;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Outcome;
import org.stratabench.ycsb.workload.Requests;
import site.ycsb.DB;

/** One client thread: connects, warms up, measures, disconnects. */
final class Worker implements Runnable {
  private static final int PURPOSE_REQUESTS = 0;

  /**
   * What all threads of a run share.
   *
   * @param inserts null in the load phase
   * @param warmupDone operations finished in the warm-up
   * @param warmupFailed failures among them
   */
  record Shared(RunPlan plan, Binding binding, Properties properties, Gate gate, RunControl control, AcknowledgedInserts inserts,
      OperationMix mix, LongAdder warmupDone, LongAdder warmupFailed) { }

  private final Shared shared;
  private final RunPlan plan;
  private final RunControl control;
  private final int thread;
  private final ThreadRecorder recorder;
  private final OperationLog.Writer log;
  private final SplittableRandom random;
  private Requests requests;
  private volatile long lastEndMonoNs = Long.MIN_VALUE;

  /** @param log null when there is to be no operation log */
  Worker(Shared shared, int thread, ThreadRecorder recorder, OperationLog.Writer log) {
    this.shared = shared;
    this.plan = shared.plan();
    this.control = shared.control();
    this.thread = thread;
    this.recorder = recorder;
    this.log = log;
    this.random = Mixing.stream(plan.seed(), plan.shard().index(), thread, PURPOSE_REQUESTS);
  }

  @Override
  public void run() {
    DB db = connect();
    if (db == null) {
      return;
    }
    try {
      work(db);
    } catch (InterruptedException e) {
      // only an ending run interrupts its threads
    } catch (IOException e) {
      control.stop(ExitCode.ABORTED, "cannot write ops.bin: " + e.getMessage() + "; free the disk or choose another -output");
    } catch (RuntimeException | Error e) {
      control.stop(ExitCode.ABORTED, "client thread " + thread + " was lost: " + e);
    } finally {
      shared.gate().finished();
    }
    disconnect(db);
  }

  private DB connect() {
    try {
      DB db = shared.binding().newDb();
      db.setProperties(shared.properties());
      db.init();
      shared.gate().connected(null);
      return db;
    } catch (Exception | Error e) {
      shared.gate().connected(e);
      return null;
    }
  }

  private void disconnect(DB db) {
    try {
      shared.gate().awaitReleased();
      db.cleanup();
    } catch (Exception e) {
      // results are complete by now, and a connection that will not close ends with the process
    }
  }

  private void work(DB db) throws InterruptedException, IOException {
    boolean load = plan.phase() == Options.Phase.LOAD;
    requests = load ? Requests.forLoad(plan.spec(), db, random)
        : Requests.forRun(plan.spec(), db, shared.inserts(), plan.shard(), thread, plan.threads(), random);
    if (!shared.gate().awaitStarted()) {
      return;
    }
    Pacer warmupPacer = new Pacer(control, shared.gate().startMonoNs(), plan.targetPerSecond());
    warmupPacer.await(shared.gate().startMonoNs());
    if (plan.hasWarmup()) {
      warmUp(warmupPacer);
    }
    if (plan.warmupOperations() > 0) {
      shared.gate().warm();
      if (!shared.gate().awaitWarm()) {
        return;
      }
    }
    measure();
    if (log != null) {
      log.flush();
    }
  }

  private void warmUp(Pacer pacer) {
    OperationMix mix = plan.spec().randomMix();
    long count = plan.warmupOperations() > 0 ? plan.warmupOperations() : Long.MAX_VALUE;
    long until = plan.warmupNs() > 0 ? shared.gate().measureMonoNs() : Long.MAX_VALUE;
    for (long index = thread; index < count && !control.stopped(); index += plan.threads()) {
      long due = pacer.due(index);
      if (due >= until) {
        return;
      }
      pacer.await(due);
      if (System.nanoTime() >= until) {
        return;
      }
      requests.prepare(mix.type(index, random));
      if (requests.execute() == Outcome.FAILED) {
        shared.warmupFailed().increment();
      }
      shared.warmupDone().increment();
    }
  }

  private void measure() throws IOException {
    long start = shared.gate().measureMonoNs();
    long until = plan.limitNs() == Long.MAX_VALUE ? Long.MAX_VALUE : start + plan.limitNs();
    Pacer pacer = new Pacer(control, start, plan.targetPerSecond());
    pacer.await(start);
    for (long index = thread; index < plan.planned() && !control.stopped(); index += plan.threads()) {
      OperationType type = prepare(index);
      long due = pacer.due(index);
      boolean waited = pacer.await(due);
      long begin = System.nanoTime();
      if (control.stopped() || begin >= until) {
        return;
      }
      if (waited) {
        recorder.recordWakeup(begin - due);
      }
      Outcome outcome = requests.execute();
      long end = System.nanoTime();
      if (outcome == Outcome.FAILED && control.isInterrupting()) {
        return;
      }
      note(type, outcome, begin, end, plan.openLoop() ? due : -1);
    }
  }

  private OperationType prepare(long index) {
    if (plan.phase() == Options.Phase.LOAD) {
      requests.prepareLoad(plan.keyStart() + index);
      return OperationType.INSERT;
    }
    OperationType type = shared.mix().type(index, random);
    requests.prepare(type);
    return type;
  }

  /** @param due scheduled start, or -1 in a closed loop */
  private void note(OperationType type, Outcome outcome, long begin, long end, long due) throws IOException {
    boolean scheduled = due != -1;
    if (log != null) {
      log.add(begin, end - begin, scheduled ? begin - due : -1, KeyNames.foldedHash(requests.key()), type, outcome);
    }
    if (outcome == Outcome.FAILED) {
      recorder.countFailure(type, requests.failureCause());
    }
    recorder.record(type, outcome, end - begin, scheduled ? end - due : -1);
    lastEndMonoNs = end;
  }

  /** Monotonic instant of the last recorded answer; {@link Long#MIN_VALUE} before the first. */
  long lastEndMonoNs() {
    return lastEndMonoNs;
  }

  /** Writes what a thread that hangs in the database has gathered; only for threads that will not write any more. */
  void flushForHungThread() throws IOException {
    if (log != null) {
      log.flush();
    }
  }
}
