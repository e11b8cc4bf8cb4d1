// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.io.PrintStream;
import java.util.Locale;
import java.util.Map;
import org.HdrHistogram.Histogram;
import org.stratabench.ycsb.workload.OperationType;

/** The results as YCSB's lines, {@code [SECTION], Name, value}; times in microseconds. */
public final class ResultLines {
  private static final double[] PERCENTILES = {50, 95, 99, 99.9};

  private final PrintStream out;

  public ResultLines(PrintStream out) {
    this.out = out;
  }

  /**
   * Prints all sections.
   *
   * @param measuredNs length of the measured window
   */
  public void print(Measurements measurements, long measuredNs, ClientReport client) {
    line("OVERALL", "RunTime(ms)", measuredNs / 1e6);
    line("OVERALL", "Throughput(ops/sec)", measuredNs > 0 ? measurements.done() * 1e9 / measuredNs : Double.NaN);
    printClient(client, measuredNs);
    for (int position = 0; position < Series.ALL.size(); position++) {
      Histogram histogram = measurements.total(position);
      if (histogram != null) {
        printSeries(measurements, Series.ALL.get(position), histogram);
      }
    }
  }

  private void printClient(ClientReport client, long measuredNs) {
    line("CLIENT", "CpuTime(ms)", client.cost().cpuNs() / 1e6);
    line("CLIENT", "CpuUse(processors)", measuredNs > 0 ? (double) client.cost().cpuNs() / measuredNs : Double.NaN);
    line("CLIENT", "GcTime(ms)", client.cost().gcNs() / 1e6);
    line("CLIENT", "RunQueueWait(ms)", client.cost().runQueueNs().isPresent() ? client.cost().runQueueNs().getAsLong() / 1e6 : Double.NaN);
    line("CLIENT", "WaitingForDatabase(%)", 100 * client.waitingShare());
    Histogram starts = client.startErrors();
    if (starts != null) {
      line("CLIENT", "WakeupError50thPercentile(us)", starts.getValueAtPercentile(50) / 1e3);
      line("CLIENT", "WakeupError99thPercentile(us)", starts.getValueAtPercentile(99) / 1e3);
    }
    count("CLIENT", "Warnings", client.warnings().size());
  }

  private void printSeries(Measurements measurements, Series series, Histogram histogram) {
    String section = series.label();
    count(section, "Operations", histogram.getTotalCount());
    line(section, "AverageLatency(us)", histogram.getMean() / 1e3);
    line(section, "MinLatency(us)", histogram.getMinValue() / 1e3);
    line(section, "MaxLatency(us)", histogram.getMaxValue() / 1e3);
    for (double percentile : PERCENTILES) {
      String name = percentile == Math.rint(percentile) ? Integer.toString((int) percentile) : Double.toString(percentile);
      line(section, name + "thPercentileLatency(us)", histogram.getValueAtPercentile(percentile) / 1e3);
    }
    if (series.countsOperations()) {
      printReturns(measurements, series, histogram.getTotalCount());
    }
  }

  private void printReturns(Measurements measurements, Series series, long count) {
    OperationType type = series.type();
    if (series.failed()) {
      for (Map.Entry<String, Long> cause : measurements.failureCauses(type).entrySet()) {
        count(series.label(), "Return=" + cause.getKey(), cause.getValue());
      }
      return;
    }
    long notFound = measurements.notFound(type);
    if (count > notFound) {
      count(series.label(), "Return=OK", count - notFound);
    }
    if (notFound > 0) {
      count(series.label(), "Return=NOT_FOUND", notFound);
    }
  }

  private void count(String section, String name, long value) {
    out.println("[" + section + "], " + name + ", " + value);
  }

  /** What is not known is left out: those who parse these lines expect a number in each. */
  private void line(String section, String name, double value) {
    if (!Double.isNaN(value)) {
      out.println("[" + section + "], " + name + ", " + String.format(Locale.ROOT, "%.3f", value));
    }
  }
}
