// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAdder;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Outcome;

/** What one thread measured; only that thread records, so nothing is shared on the way. */
public final class ThreadRecorder {
  static final int SIGNIFICANT_DIGITS = 3;

  /** Stands behind the series of operations. */
  static final int START_ERRORS = Series.ALL.size();

  /** Seconds take turns at so many counts: those of one second rest for the next one, so that who reads them late reads no other's. */
  static final int TURNS = 2;

  private static final long SECOND_NS = 1_000_000_000L;

  private final LatencyCounts[] turns = {new LatencyCounts(START_ERRORS + 1), new LatencyCounts(START_ERRORS + 1)};
  private LatencyCounts counts = turns[0];
  private long windowMonoNs;
  private long secondMonoNs;
  private final AtomicLongArray notFound = new AtomicLongArray(OperationType.values().length);
  private final AtomicLongArray records = new AtomicLongArray(OperationType.values().length);
  private final Map<OperationType, Map<String, LongAdder>> failures = new ConcurrentHashMap<>();
  private final AtomicLong lastEndMonoNs = new AtomicLong(Long.MIN_VALUE);

  /** Lets seconds count from the start of a window. */
  public void begin(long startMonoNs) {
    windowMonoNs = startMonoNs;
    secondMonoNs = startMonoNs;
    counts = turns[0];
  }

  private void turnTo(long endMonoNs) {
    if (Long.compareUnsigned(endMonoNs - secondMonoNs, SECOND_NS) >= 0) {
      long second = (endMonoNs - windowMonoNs) / SECOND_NS;
      secondMonoNs = windowMonoNs + second * SECOND_NS;
      counts = turns[Math.floorMod(second, TURNS)];
    }
  }

  /**
   * Records one finished operation.
   *
   * @param latencyNs from the real start to the answer
   * @param intendedNs from the scheduled start to the answer, or -1 without a schedule
   * @param endMonoNs monotonic instant of the answer
   */
  public void record(OperationType type, Outcome outcome, long latencyNs, long intendedNs, long endMonoNs) {
    boolean failed = outcome == Outcome.FAILED;
    if (outcome == Outcome.NOT_FOUND) {
      add(notFound, type, 1);
    }
    turnTo(endMonoNs);
    counts.add(Series.position(type, failed, false), latencyNs);
    if (intendedNs >= 0) {
      counts.add(Series.position(type, failed, true), intendedNs);
    }
    extend(endMonoNs);
  }

  /**
   * Records one part of a read-modify-write.
   *
   * @param part READ or UPDATE
   * @param intendedNs as for the whole; -1 also where the part has no scheduled start of its own
   * @param endMonoNs monotonic instant of its answer
   */
  public void recordPart(OperationType part, Outcome outcome, long latencyNs, long intendedNs, long endMonoNs) {
    boolean failed = outcome == Outcome.FAILED;
    turnTo(endMonoNs);
    counts.add(Series.partPosition(part, failed, false), latencyNs);
    if (intendedNs >= 0) {
      counts.add(Series.partPosition(part, failed, true), intendedNs);
    }
  }

  /** Counts the cause of a failure that is also recorded. */
  public void countFailure(OperationType type, String cause) {
    failures.computeIfAbsent(type, t -> new ConcurrentHashMap<>()).computeIfAbsent(cause, c -> new LongAdder()).increment();
  }

  /** Counts records that an operation returned. */
  public void countRecords(OperationType type, long received) {
    if (received > 0) {
      add(records, type, received);
    }
  }

  /** Records how much later, in nanoseconds, an operation began than its schedule and the operation before it allowed. */
  public void recordStartError(long lateNs) {
    counts.add(START_ERRORS, lateNs);
  }

  /** Extends the window up to an instant at which the last of this thread's work was done. */
  public void extend(long endMonoNs) {
    lastEndMonoNs.lazySet(Math.max(lastEndMonoNs.getPlain(), endMonoNs));
  }

  private static void add(AtomicLongArray counters, OperationType type, long count) {
    counters.lazySet(type.ordinal(), counters.getPlain(type.ordinal()) + count);
  }

  /** The counts of all series, at their positions, and of {@link #START_ERRORS}, that seconds of one turn go to. */
  LatencyCounts counts(int turn) {
    return turns[turn];
  }

  long notFound(OperationType type) {
    return notFound.get(type.ordinal());
  }

  long records(OperationType type) {
    return records.get(type.ordinal());
  }

  Map<String, LongAdder> failures(OperationType type) {
    return failures.getOrDefault(type, Map.of());
  }

  /** Monotonic instant of the last recorded answer; {@link Long#MIN_VALUE} before the first. */
  public long lastEndMonoNs() {
    return lastEndMonoNs.get();
  }
}
