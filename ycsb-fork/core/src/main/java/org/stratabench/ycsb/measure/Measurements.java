// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.HdrHistogram.Histogram;
import org.stratabench.ycsb.workload.OperationType;

/** Merges what the threads recorded, interval by interval; every value appears in exactly one interval and in the totals. */
public final class Measurements {
  private final ThreadRecorder[] threads;
  private final Histogram[] totals = new Histogram[Series.ALL.size()];
  private long done;
  private long failed;

  /** @param threads how many threads record */
  public Measurements(int threads) {
    this.threads = IntStream.range(0, threads).mapToObj(i -> new ThreadRecorder()).toArray(ThreadRecorder[]::new);
  }

  /** The recorder of one thread. */
  public ThreadRecorder thread(int index) {
    return threads[index];
  }

  /** Takes what was recorded since the last call. */
  public Interval takeInterval() {
    Histogram[] merged = new Histogram[totals.length];
    for (int position = 0; position < merged.length; position++) {
      merged[position] = mergeThreads(position);
      if (merged[position] != null) {
        if (totals[position] == null) {
          totals[position] = new Histogram(ThreadRecorder.SIGNIFICANT_DIGITS);
        }
        totals[position].add(merged[position]);
      }
    }
    Interval interval = new Interval(merged);
    done += interval.operations();
    failed += interval.failures();
    return interval;
  }

  private Histogram mergeThreads(int position) {
    Histogram merged = null;
    for (ThreadRecorder thread : threads) {
      Histogram part = thread.takeInterval(position);
      if (part == null) {
        continue;
      }
      if (merged == null) {
        merged = new Histogram(ThreadRecorder.SIGNIFICANT_DIGITS);
      }
      merged.add(part);
    }
    return merged;
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
  Histogram total(Series series) {
    Histogram total = totals[Series.position(series.type(), series.failed(), series.intended())];
    return total == null || total.getTotalCount() == 0 ? null : total;
  }

  long notFound(OperationType type) {
    long sum = 0;
    for (ThreadRecorder thread : threads) {
      sum += thread.notFound(type);
    }
    return sum;
  }

  Map<String, Long> failureCauses(OperationType type) {
    Map<String, Long> causes = new TreeMap<>();
    for (ThreadRecorder thread : threads) {
      thread.failures(type).forEach((cause, count) -> causes.merge(cause, count.sum(), Long::sum));
    }
    return causes;
  }

  /** Lateness of all waits for a scheduled start, in nanoseconds; null when nobody waited. */
  Histogram wakeupErrors() {
    Histogram all = new Histogram(ThreadRecorder.SIGNIFICANT_DIGITS);
    for (ThreadRecorder thread : threads) {
      all.add(thread.wakeupErrors());
    }
    return all.getTotalCount() == 0 ? null : all;
  }
}
