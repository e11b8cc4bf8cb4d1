// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.atomic.LongAdder;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.SingleWriterRecorder;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Outcome;

/** What one thread measured; only that thread records, so nothing is shared on the way. */
public final class ThreadRecorder {
  static final int SIGNIFICANT_DIGITS = 3;

  // made when the first value arrives: most threads see two or three of the many series
  private final AtomicReferenceArray<SingleWriterRecorder> recorders = new AtomicReferenceArray<>(Series.ALL.size());
  private final Histogram[] recycled = new Histogram[Series.ALL.size()];
  private final AtomicLongArray notFound = new AtomicLongArray(OperationType.values().length);
  private final Map<OperationType, Map<String, LongAdder>> failures = new ConcurrentHashMap<>();
  private final SingleWriterRecorder wakeupErrors = new SingleWriterRecorder(SIGNIFICANT_DIGITS);

  /**
   * Records one finished operation.
   *
   * @param latencyNs from the real start to the answer
   * @param intendedNs from the scheduled start to the answer, or -1 without a schedule
   */
  public void record(OperationType type, Outcome outcome, long latencyNs, long intendedNs) {
    boolean failed = outcome == Outcome.FAILED;
    if (outcome == Outcome.NOT_FOUND) {
      notFound.lazySet(type.ordinal(), notFound.get(type.ordinal()) + 1);
    }
    recorder(Series.position(type, failed, false)).recordValue(latencyNs);
    if (intendedNs >= 0) {
      recorder(Series.position(type, failed, true)).recordValue(intendedNs);
    }
  }

  /** Counts the cause of a failure that is also recorded. */
  public void countFailure(OperationType type, String cause) {
    failures.computeIfAbsent(type, t -> new ConcurrentHashMap<>()).computeIfAbsent(cause, c -> new LongAdder()).increment();
  }

  /** Records how late, in nanoseconds, the thread woke from waiting for a scheduled start. */
  public void recordWakeup(long lateNs) {
    wakeupErrors.recordValue(Math.max(0, lateNs));
  }

  private SingleWriterRecorder recorder(int position) {
    SingleWriterRecorder recorder = recorders.get(position);
    if (recorder == null) {
      recorder = new SingleWriterRecorder(SIGNIFICANT_DIGITS);
      recorders.set(position, recorder);
    }
    return recorder;
  }

  /** The values of one series since the last call, or null when the series never had one; valid until the next call. */
  Histogram takeInterval(int position) {
    SingleWriterRecorder recorder = recorders.get(position);
    if (recorder == null) {
      return null;
    }
    recycled[position] = recorder.getIntervalHistogram(recycled[position]);
    return recycled[position];
  }

  long notFound(OperationType type) {
    return notFound.get(type.ordinal());
  }

  Map<String, LongAdder> failures(OperationType type) {
    return failures.getOrDefault(type, Map.of());
  }

  Histogram wakeupErrors() {
    return wakeupErrors.getIntervalHistogram();
  }
}
