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
  private final long[][][] seen = new long[Series.ALL.size()][LatencyCounts.PAGES][];
  private final Histogram[] totals = new Histogram[Series.ALL.size()];
  private long done;
  private long failed;

  /** A recorder for the calling thread. */
  public ThreadRecorder newThread() {
    ThreadRecorder recorder = new ThreadRecorder();
    threads.add(recorder);
    return recorder;
  }

  /** Takes what was recorded since the last call. */
  public Interval takeInterval() {
    Histogram[] merged = new Histogram[totals.length];
    for (int position = 0; position < merged.length; position++) {
      merged[position] = growth(position, seen[position]);
      if (merged[position] == null) {
        continue;
      }
      if (totals[position] == null) {
        totals[position] = new Histogram(ThreadRecorder.SIGNIFICANT_DIGITS);
      }
      totals[position].add(merged[position]);
    }
    Interval interval = new Interval(merged);
    done += interval.operations();
    failed += interval.failures();
    return interval;
  }

  /**
   * What the sum of all threads' counts of a series has grown by since it was {@code before}, which is brought up to date.
   *
   * @return null when the series has never had a value
   */
  private Histogram growth(int series, long[][] before) {
    Histogram growth = null;
    long[] sum = new long[LatencyCounts.CELLS_PER_PAGE];
    for (int page = 0; page < LatencyCounts.PAGES; page++) {
      boolean any = false;
      for (ThreadRecorder thread : threads) {
        any |= thread.counts().addPage(series, page, sum);
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
    return growth(ThreadRecorder.START_ERRORS, new long[LatencyCounts.PAGES][]);
  }

  /** Monotonic instant of the last recorded answer; {@link Long#MIN_VALUE} before the first. */
  public long lastEndMonoNs() {
    return threads.stream().mapToLong(ThreadRecorder::lastEndMonoNs).max().orElse(Long.MIN_VALUE);
  }
}
