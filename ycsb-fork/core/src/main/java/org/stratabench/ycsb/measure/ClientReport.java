// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.OptionalLong;
import org.HdrHistogram.Histogram;
import org.stratabench.ycsb.workload.OperationType;

/**
 * How well the client itself did in the measured window, and what of it may have distorted the result.
 *
 * @param cost processor and collector time it used
 * @param processors how many it could use
 * @param waitingShare share of their time, each one's from the window's start to its own last answer, that its logical clients spent waiting for the
 *     database, in [0, 1]; NaN in an open loop
 *     and where that is not known
 * @param startErrors how late operations began by its own fault, in nanoseconds; null in a closed loop
 * @param notBegun operations that were due before the window's end and not begun, so that no time contains their wait; empty in a closed loop
 * @param warnings one sentence each
 */
public record ClientReport(ClientCost cost, int processors, double waitingShare, Histogram startErrors, OptionalLong notBegun,
    List<String> warnings) {
  private static final double MOST_CPU_SHARE = 0.9;
  private static final double MOST_GC_SHARE = 0.02;
  private static final double MOST_RUN_QUEUE_SHARE = 0.02;
  private static final double LEAST_WAITING_SHARE = 0.9;
  private static final double MOST_START_SHARE = 0.1;
  private static final double NOTICEABLE_NS = 10_000;
  private static final double LEAST_OF_TARGET = 0.95;

  /**
   * Judges a window.
   *
   * @param measuredNs its length
   * @param threads number of client threads
   * @param activeNs how long its logical clients had something to do, each up to its own last answer, added up
   * @param targetPerSecond scheduled rate, or 0 in a closed loop
   * @param due operations due before the window's end; empty in a closed loop
   * @param cutOff whether operations were under way when the window ended, whose wait is in no time
   */
  public static ClientReport of(Measurements measurements, ClientCost cost, long measuredNs, int threads, long activeNs,
      double targetPerSecond, OptionalLong due, boolean cutOff) {
    int processors = Runtime.getRuntime().availableProcessors();
    Histogram starts = measurements.startErrors();
    OptionalLong notBegun = OptionalLong.empty();
    if (due.isPresent()) {
      // every operation that begins leaves a start error; one that begins in the very instant of a stop may have been due after it
      notBegun = OptionalLong.of(Math.max(0, due.getAsLong() - (starts == null ? 0 : starts.getTotalCount())));
    }
    Histogram real = operations(measurements, false);
    boolean openLoop = targetPerSecond > 0;
    if (measuredNs == 0 || !openLoop && real.getTotalCount() == 0) {
      return new ClientReport(cost, processors, Double.NaN, starts, notBegun, List.of());
    }
    double waiting =
        openLoop || cutOff ? Double.NaN : real.getMean() * real.getTotalCount() / activeNs;
    List<String> warnings = new ArrayList<>();
    double cpu = (double) cost.cpuNs() / measuredNs;
    if (cpu > MOST_CPU_SHARE * processors) {
      warn(warnings, "the client used %.1f of %d processors: it, and not the database, may have set the pace", cpu, processors);
    }
    double runQueue = cost.runQueueNs().orElse(0) / ((double) threads * measuredNs);
    if (runQueue > MOST_RUN_QUEUE_SHARE) {
      warn(warnings, "the client's threads waited for a processor in %.1f %% of the window: all times contain that wait", 100 * runQueue);
    }
    if (waiting < LEAST_WAITING_SHARE) {
      warn(warnings, "the clients waited for the database in only %.0f %% of their time: the rest is the client's own work", 100 * waiting);
    }
    if (cost.gcNs() > MOST_GC_SHARE * measuredNs) {
      warn(warnings, "the client's garbage collections took %.1f %% of the window", 100.0 * cost.gcNs() / measuredNs);
    }
    if (starts != null) {
      compareStartErrors(warnings, starts, operations(measurements, true));
    }
    double achieved = measurements.done() * 1e9 / measuredNs;
    if (openLoop && achieved < LEAST_OF_TARGET * targetPerSecond) {
      warn(warnings, "%.1f operations a second were done of the %.1f scheduled: intended times contain the backlog", achieved,
          targetPerSecond);
    }
    return new ClientReport(cost, processors, waiting, starts, notBegun, List.copyOf(warnings));
  }

  /** The same with warnings that were known before. */
  public ClientReport warning(List<String> more) {
    List<String> all = new ArrayList<>(more);
    all.addAll(warnings);
    return new ClientReport(cost, processors, waitingShare, startErrors, notBegun, List.copyOf(all));
  }

  private static void compareStartErrors(List<String> warnings, Histogram starts, Histogram intended) {
    for (double percentile : new double[] {50, 99}) {
      double late = starts.getValueAtPercentile(percentile);
      double time = intended.getValueAtPercentile(percentile);
      if (late > NOTICEABLE_NS && late > MOST_START_SHARE * time) {
        warn(warnings, "operations began late by the client's fault: the %.0fth percentile, %.1f us, is %.0f %% of the intended time's, %.1f us",
            percentile, late / 1e3, 100 * late / time, time / 1e3);
      }
    }
  }

  /** All whole operations, failed ones included. */
  private static Histogram operations(Measurements measurements, boolean intended) {
    Histogram all = new Histogram(ThreadRecorder.SIGNIFICANT_DIGITS);
    for (OperationType type : OperationType.values()) {
      for (boolean failed : new boolean[] {false, true}) {
        Histogram one = measurements.total(Series.position(type, failed, intended));
        if (one != null) {
          all.add(one);
        }
      }
    }
    return all;
  }

  private static void warn(List<String> warnings, String format, Object... figures) {
    warnings.add(String.format(Locale.ROOT, format, figures));
  }
}
