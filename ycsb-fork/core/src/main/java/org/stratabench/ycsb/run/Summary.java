// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import org.HdrHistogram.Histogram;
import org.stratabench.ycsb.ExitCode;
import org.stratabench.ycsb.Options;
import org.stratabench.ycsb.Secrets;
import org.stratabench.ycsb.measure.ClientReport;
import org.stratabench.ycsb.measure.Measurements;
import org.stratabench.ycsb.measure.Results;

/** The contents of {@code summary.json}; what is not known is null. */
final class Summary {
  private static final int SCHEMA_VERSION = 1;

  /**
   * The measured window.
   *
   * @param startUnixNs its first instant
   * @param measuredNs its length on the monotonic clock
   * @param client how the client did in it
   */
  record Measured(long startUnixNs, long measuredNs, ClientReport client) { }

  private final Options options;
  private final RunPlan plan;
  private final Properties properties;
  private final Measurements measurements;
  private final Map<String, Long> counters;

  Summary(Options options, RunPlan plan, Properties properties, Measurements measurements, Map<String, Long> counters) {
    this.options = options;
    this.plan = plan;
    this.properties = properties;
    this.measurements = measurements;
    this.counters = counters;
  }

  /** @param window null when the run ended before it began */
  Map<String, Object> toMap(RunControl control, Measured window) {
    boolean load = plan.phase() == Options.Phase.LOAD;
    Results results = new Results(measurements);
    Map<String, Object> summary = new LinkedHashMap<>();
    summary.put("schema_version", SCHEMA_VERSION);
    summary.put("status", status(control.code()));
    summary.put("reason", control.reason());
    summary.put("phase", plan.phase().name().toLowerCase(Locale.ROOT));
    summary.put("binding", options.binding().name());
    summary.put("shard", plan.shard().index());
    summary.put("shards", plan.shard().count());
    summary.put("threads", plan.threads());
    summary.put("clients", plan.clients());
    summary.put("target_ops_per_s", plan.openLoop() ? plan.targetPerSecond() : null);
    summary.put("arrival", !plan.openLoop() ? null : plan.poisson() ? "poisson" : "constant");
    summary.put("seed", plan.seed());
    summary.put("key_start", load ? plan.keyStart() : null);
    summary.put("key_end", load ? plan.keyStart() + plan.planned() : null);
    summary.put("planned_operations", plan.counted() ? plan.planned() : null);
    summary.put("start_unix_ns", window == null ? null : window.startUnixNs());
    summary.put("end_unix_ns", window == null ? null : window.startUnixNs() + window.measuredNs());
    summary.put("measured_ns", window == null ? null : window.measuredNs());
    summary.put("operations", results.operations());
    summary.put("throughput_ops_per_s",
        window == null || window.measuredNs() == 0 ? null : measurements.done() * 1e9 / window.measuredNs());
    summary.put("client", window == null ? null : client(window.client(), window.measuredNs()));
    summary.put("database", counters);
    summary.put("java_version", System.getProperty("java.version"));
    summary.put("properties", Secrets.masked(properties));
    return summary;
  }

  private static String status(ExitCode code) {
    return switch (code) {
      case OK -> "complete";
      case ABORTED, INTERRUPTED -> "aborted";
      default -> "failed";
    };
  }

  private static Map<String, Object> client(ClientReport report, long measuredNs) {
    Map<String, Object> client = new LinkedHashMap<>();
    client.put("cpu_ns", report.cost().cpuNs());
    client.put("gc_ns", report.cost().gcNs());
    client.put("run_queue_ns", report.cost().runQueueNs().isPresent() ? report.cost().runQueueNs().getAsLong() : null);
    client.put("processors", report.processors());
    client.put("cpu_use", measuredNs > 0 ? (double) report.cost().cpuNs() / measuredNs : null);
    client.put("waiting_share", report.waitingShare());
    Histogram errors = report.startErrors();
    client.put("wakeup_error_ns",
        errors == null ? null : Map.of("p50", errors.getValueAtPercentile(50), "p99", errors.getValueAtPercentile(99)));
    client.put("not_begun", report.notBegun().isPresent() ? report.notBegun().getAsLong() : null);
    client.put("warnings", report.warnings());
    return client;
  }
}
