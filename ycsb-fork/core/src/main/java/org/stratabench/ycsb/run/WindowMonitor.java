// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.IOException;
import java.nio.file.Path;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.stratabench.ycsb.ExitCode;
import org.stratabench.ycsb.measure.ClientCost;
import org.stratabench.ycsb.measure.Clock;
import org.stratabench.ycsb.measure.Interval;
import org.stratabench.ycsb.measure.Measurements;

/**
 * Watches warm-up and measured window while the threads work: takes an interval each second, has progress shown, and stops the run when too
 * much has failed. Afterwards it knows how long the window was.
 */
final class WindowMonitor {
  private static final long SECOND_NS = 1_000_000_000L;

  private final RunPlan plan;
  private final Gate gate;
  private final RunControl control;
  private final Measurements measurements;
  private final Progress progress;
  private final ErrorBound measuredErrors;
  private final ErrorBound warmupErrors;
  private final LongAdder warmupDone = new LongAdder();
  private final LongAdder warmupFailed = new LongAdder();

  private ClientCost costAtStart;
  private IntervalWriter intervals;
  private long nextWarmupLineNs;

  WindowMonitor(RunPlan plan, Gate gate, RunControl control, Measurements measurements, Progress progress) {
    this.plan = plan;
    this.gate = gate;
    this.control = control;
    this.measurements = measurements;
    this.progress = progress;
    this.measuredErrors = new ErrorBound(plan.errorBound(), plan.silenceNs(), plan.planned());
    this.warmupErrors = new ErrorBound(plan.errorBound(), plan.silenceNs(), Long.MAX_VALUE);
  }

  /** Counts the operations of the warm-up, which are not measured. */
  LongAdder warmupDone() {
    return warmupDone;
  }

  /** Counts those of them that failed. */
  LongAdder warmupFailed() {
    return warmupFailed;
  }

  /**
   * Watches the threads, once a second, until they have finished or must stop.
   *
   * @param output folder for the histogram logs, or null for none
   */
  void watch(Clock clock, Path output) throws InterruptedException, IOException {
    if (!awaitMeasuredWindow()) {
      return;
    }
    costAtStart = ClientCost.now();
    long start = gate.measureMonoNs();
    intervals = new IntervalWriter(output, clock.toUnix(start));
    long nextTick = start + SECOND_NS;
    while (!gate.awaitFinished(nextTick) && !control.stopped()) {
      // a late wake-up ends the interval at the last whole second, so that intervals stay aligned to the start
      long elapsed = (System.nanoTime() - start) / SECOND_NS * SECOND_NS;
      if (elapsed > intervals.endNs()) {
        takeUpTo(elapsed);
        stopOn(measuredErrors.excess(elapsed, measurements.done(), measurements.failed()));
        progress.measuring(elapsed);
        nextTick = start + elapsed + SECOND_NS;
      }
    }
  }

  private boolean awaitMeasuredWindow() throws InterruptedException {
    boolean byCount = plan.warmupOperations() > 0;
    while (true) {
      boolean stopped = control.stopped();
      long now = stopped ? control.stoppedAtMonoNs() : System.nanoTime();
      // a run may be stopped within the window before this thread has seen that it is open: what was measured counts
      if (byCount ? gate.isWarm() : now >= gate.measureMonoNs()) {
        return true;
      }
      if (stopped) {
        return false;
      }
      long left = byCount ? Long.MAX_VALUE : gate.measureMonoNs() - System.nanoTime();
      TimeUnit.NANOSECONDS.sleep(Math.min(left, SECOND_NS / 50));
      warmupProgress();
    }
  }

  private void warmupProgress() {
    long now = System.nanoTime();
    if (!plan.hasWarmup() || now < gate.startMonoNs() || now < nextWarmupLineNs) {
      return;
    }
    nextWarmupLineNs = now + progress.intervalNs();
    long done = warmupDone.sum();
    stopOn(warmupErrors.excess(now - gate.startMonoNs(), done, warmupFailed.sum()));
    progress.warmup(done, warmupFailed.sum());
  }

  /** Takes the second that has passed; where several have, all there is. */
  private void takeUpTo(long endNs) throws IOException {
    boolean one = endNs - intervals.endNs() == SECOND_NS;
    add(one ? measurements.takeSecond(intervals.endNs() / SECOND_NS) : measurements.takeInterval(), endNs);
  }

  private void add(Interval interval, long endNs) throws IOException {
    progress.add(interval);
    if (interval.operations() > 0 || endNs > intervals.endNs()) {
      intervals.write(interval, Math.max(endNs, intervals.endNs()));
    }
  }

  private void stopOn(String excess) {
    if (excess != null) {
      control.stop(ExitCode.ERRORS, excess);
    }
  }

  /** Whether the measured window was opened before the run ended. */
  boolean opened() {
    return intervals != null;
  }

  /** Length of the measured window: up to the last answer, or to the stop of a run that was cut short. */
  long measuredNs() {
    long start = gate.measureMonoNs();
    long end = control.stopped() ? Math.max(start, control.stoppedAtMonoNs()) : start;
    return Math.max(end, measurements.lastEndMonoNs()) - start;
  }

  /** What the client has used since the window began. */
  ClientCost cost() {
    return ClientCost.now().since(costAtStart);
  }

  /** Operations whose time came before no operation began any more; empty in a closed loop. */
  OptionalLong due(WorkerThreads threads) {
    if (!plan.openLoop()) {
      return OptionalLong.empty();
    }
    long start = gate.measureMonoNs();
    long limit = plan.limitNs() == Long.MAX_VALUE ? Long.MAX_VALUE : start + plan.limitNs();
    long end = control.stopped() ? Math.min(limit, control.stoppedAtMonoNs()) : limit;
    if (end == Long.MAX_VALUE) {
      return OptionalLong.of(plan.planned());
    }
    return OptionalLong.of(plan.poisson() ? threads.dueBefore(new Window(start, limit, plan.planned(), true), end)
        : Schedule.constantBefore(plan, start, end));
  }

  /** Takes the last interval, and the second before it where the threads had finished before it could be taken. */
  void close(long measuredNs) throws IOException {
    long next = intervals.endNs() + SECOND_NS;
    try {
      if (next < measuredNs && measuredNs <= next + SECOND_NS) {
        takeUpTo(next);
      }
    } finally {
      // the summary counts what has been taken, be there room for it in the logs or not
      add(measurements.takeInterval(), measuredNs);
    }
    intervals.close();
  }

  /** Lets the whole window's failures decide. */
  void judgeErrors() {
    stopOn(measuredErrors.finalExcess(measurements.done(), measurements.failed()));
  }
}
