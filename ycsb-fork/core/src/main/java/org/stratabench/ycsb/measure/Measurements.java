// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.ToLongFunction;
import org.HdrHistogram.Histogram;
import org.stratabench.ycsb.workload.OperationType;

/** Merges what the threads recorded, interval by interval; every value appears in exactly one interval and in the totals. */
public final class Measurements {
  // each thread makes its own recorder, so that no two share a cache line
  private final List<ThreadRecorder> threads = new CopyOnWriteArrayList<>();
  private final long[][][][] seen = new long[ThreadRecorder.TURNS][Series.ALL.size()][LatencyCounts.PAGES][];
  private final Histogram[] totals = new Histogram[Series.ALL.size()];
  private long done;
  private long failed;

  /** A recorder for the calling thread. */
  public ThreadRecorder newThread() {
    ThreadRecorder recorder = new ThreadRecorder();
    threads.add(recorder);
    return recorder;
  }

  /** Takes all that was recorded and not taken before. */
  public Interval takeInterval() {
    return take(0, ThreadRecorder.TURNS);
  }

  /**
   * Takes one second of the window, and what of earlier ones threads had not yet recorded when they were taken.
   *
   * @param second 0-based; the one after it may have begun, but not ended
   */
  public Interval takeSecond(long second) {
    int turn = Math.floorMod(second, ThreadRecorder.TURNS);
    return take(turn, turn + 1);
  }

  private Interval take(int firstTurn, int endTurn) {
    Histogram[] merged = new Histogram[totals.length];
    for (int position = 0; position < merged.length; position++) {
      for (int turn = firstTurn; turn < endTurn; turn++) {
        merged[position] = growth(merged[position], position, turn, seen[turn][position]);
      }
      if (totals[position] == null) {
        totals[position] = merged[position] == null ? null : merged[position].copy();
      } else if (merged[position] == null) {
        merged[position] = new Histogram(ThreadRecorder.SIGNIFICANT_DIGITS);
      } else {
        totals[position].add(merged[position]);
      }
    }
    Interval interval = new Interval(merged);
    done += interval.operations();
    failed += interval.failures();
    return interval;
  }

  /**
   * Adds what the sum of all threads' counts of a series in one turn has grown by since it was {@code before}, which is brought up to date.
   *
   * @param others what it is added to, or null
   * @return null when that was and there has never been a value
   */
  private Histogram growth(Histogram others, int series, int turn, long[][] before) {
    Histogram growth = others;
    long[] sum = new long[LatencyCounts.CELLS_PER_PAGE];
    for (int page = 0; page < LatencyCounts.PAGES; page++) {
      boolean any = false;
      for (ThreadRecorder thread : threads) {
        any |= thread.counts(turn).addPage(series, page, sum);
      }
      if (!any) {
        continue;
      }
      growth = growth == null ? new Histogram(ThreadRecorder.SIGNIFICANT_DIGITS) : growth;
      if (before[page] == null) {
        before[page] = new long[LatencyCounts.CELLS_PER_PAGE];
      }
      for (int cell = 0; cell < sum.length; cell++) {
        long added = sum[cell] - before[page][cell];
        if (added > 0) {
          growth.recordValueWithCount(LatencyCounts.leastValue(page, cell), added);
          before[page][cell] = sum[cell];
        }
      }
      Arrays.fill(sum, 0);
    }
    return growth;
  }

  /** Operations in all intervals taken so far. */
  public long done() {
    return done;
  }

  /** Failures among them. */
  public long failed() {
    return failed;
  }

  /** All values of a series so far, or null when it had none. */
  Histogram total(int position) {
    Histogram total = totals[position];
    return total == null || total.getTotalCount() == 0 ? null : total;
  }

  long notFound(OperationType type) {
    return sum(thread -> thread.notFound(type));
  }

  /** Records that operations of a type returned. */
  long records(OperationType type) {
    return sum(thread -> thread.records(type));
  }

  private long sum(ToLongFunction<ThreadRecorder> count) {
    return threads.stream().mapToLong(count).sum();
  }

  Map<String, Long> failureCauses(OperationType type) {
    Map<String, Long> causes = new TreeMap<>();
    for (ThreadRecorder thread : threads) {
      thread.failures(type).forEach((cause, count) -> causes.merge(cause, count.sum(), Long::sum));
    }
    return causes;
  }

  /** How late operations began by the client's own fault, in nanoseconds; null in a closed loop. */
  Histogram startErrors() {
    Histogram all = null;
    for (int turn = 0; turn < ThreadRecorder.TURNS; turn++) {
      all = growth(all, ThreadRecorder.START_ERRORS, turn, new long[LatencyCounts.PAGES][]);
    }
    return all;
  }

  /** Monotonic instant of the last recorded answer; {@link Long#MIN_VALUE} before the first. */
  public long lastEndMonoNs() {
    return threads.stream().mapToLong(ThreadRecorder::lastEndMonoNs).max().orElse(Long.MIN_VALUE);
  }
}
