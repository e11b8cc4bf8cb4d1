// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.util.LinkedHashMap;
import java.util.Map;
import org.HdrHistogram.Histogram;
import org.stratabench.ycsb.workload.OperationType;

/** The totals of a run as {@code summary.json} holds them. */
public final class Results {
  private final Measurements measurements;

  public Results(Measurements measurements) {
    this.measurements = measurements;
  }

  /** Operation name to its counts and times, for every operation that occurred. */
  public Map<String, Object> operations() {
    Map<String, Object> operations = new LinkedHashMap<>();
    for (OperationType type : OperationType.values()) {
      Histogram answered = measurements.total(new Series(type, false, false));
      Histogram failed = measurements.total(new Series(type, true, false));
      if (answered == null && failed == null) {
        continue;
      }
      long answers = answered == null ? 0 : answered.getTotalCount();
      long failures = failed == null ? 0 : failed.getTotalCount();
      long notFound = measurements.notFound(type);
      Map<String, Object> operation = new LinkedHashMap<>();
      operation.put("count", answers + failures);
      operation.put("ok", answers - notFound);
      operation.put("not_found", notFound);
      operation.put("failed", failures);
      operation.put("errors", measurements.failureCauses(type));
      operation.put("latency_ns", times(answered));
      operation.put("intended_ns", times(measurements.total(new Series(type, false, true))));
      operations.put(type.label(), operation);
    }
    return operations;
  }

  private static Map<String, Object> times(Histogram histogram) {
    if (histogram == null) {
      return null;
    }
    Map<String, Object> times = new LinkedHashMap<>();
    times.put("mean", histogram.getMean());
    times.put("min", histogram.getMinValue());
    times.put("max", histogram.getMaxValue());
    times.put("p50", histogram.getValueAtPercentile(50));
    times.put("p95", histogram.getValueAtPercentile(95));
    times.put("p99", histogram.getValueAtPercentile(99));
    times.put("p999", histogram.getValueAtPercentile(99.9));
    return times;
  }

  /** 50th and 99th percentile of the lateness after waiting for a scheduled start, in nanoseconds; null when nobody waited. */
  public Map<String, Object> wakeupErrors() {
    Histogram errors = measurements.wakeupErrors();
    if (errors == null) {
      return null;
    }
    return Map.of("p50", errors.getValueAtPercentile(50), "p99", errors.getValueAtPercentile(99));
  }
}
