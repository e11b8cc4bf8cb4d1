// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.HdrHistogram.Histogram;
import org.stratabench.ycsb.workload.OperationType;

/** The totals of a run as {@code summary.json} holds them. */
public final class Results {
  private static final Set<OperationType> RETURN_SEVERAL = EnumSet.of(OperationType.SCAN, OperationType.MULTI_GET,
      OperationType.FILTERED_SCAN, OperationType.SECONDARY_LOOKUP, OperationType.TRAVERSAL);

  private final Measurements measurements;

  public Results(Measurements measurements) {
    this.measurements = measurements;
  }

  /** Operation name to its counts and times, for every operation that occurred. */
  public Map<String, Object> operations() {
    Map<String, Object> operations = new LinkedHashMap<>();
    for (OperationType type : OperationType.values()) {
      Histogram answered = measurements.total(Series.position(type, false, false));
      Histogram failed = measurements.total(Series.position(type, true, false));
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
      operation.put("intended_ns", times(measurements.total(Series.position(type, false, true))));
      if (RETURN_SEVERAL.contains(type)) {
        operation.put("records", measurements.records(type));
      }
      if (type == OperationType.READ_MODIFY_WRITE) {
        operation.put("parts", parts());
      }
      operations.put(type.label(), operation);
    }
    return operations;
  }

  /** The read and the write inside the read-modify-writes; the write has no scheduled start of its own. */
  private Map<String, Object> parts() {
    Map<String, Object> parts = new LinkedHashMap<>();
    for (OperationType part : List.of(OperationType.READ, OperationType.UPDATE)) {
      Histogram answered = measurements.total(Series.partPosition(part, false, false));
      Histogram failed = measurements.total(Series.partPosition(part, true, false));
      Map<String, Object> figures = new LinkedHashMap<>();
      figures.put("count", (answered == null ? 0 : answered.getTotalCount()) + (failed == null ? 0 : failed.getTotalCount()));
      figures.put("failed", failed == null ? 0 : failed.getTotalCount());
      figures.put("latency_ns", times(answered));
      figures.put("intended_ns", times(measurements.total(Series.partPosition(part, false, true))));
      parts.put(part.label(), figures);
    }
    return parts;
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
}
