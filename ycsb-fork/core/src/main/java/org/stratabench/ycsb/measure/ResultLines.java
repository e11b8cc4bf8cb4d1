// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.HdrHistogram.Histogram;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.workload.OperationType;

/**
 * The results as YCSB prints them: a section, a name and a value each, times in microseconds. What is not known is left out, for those who parse
 * these lines expect a number in each.
 */
public final class ResultLines {
  private static final String EXPORTERS = "site.ycsb.measurements.exporter.";

  /** The forms that YCSB's exporters give the lines. */
  private enum Form { TEXT, JSON, JSON_ARRAY }

  private record Line(String section, String name, Number value) { }

  private final Form form;
  private final double[] percentiles;
  private final List<Line> lines = new ArrayList<>();

  /** Understands YCSB's {@code exporter} and {@code hdrhistogram.percentiles}. */
  public ResultLines(Settings settings) {
    String exporter = settings.text("exporter", EXPORTERS + "TextMeasurementsExporter");
    form = switch (exporter.substring(exporter.lastIndexOf('.') + 1)) {
      case "TextMeasurementsExporter" -> Form.TEXT;
      case "JSONMeasurementsExporter" -> Form.JSON;
      case "JSONArrayMeasurementsExporter" -> Form.JSON_ARRAY;
      default -> {
        settings.reject("exporter", exporter, "must be " + EXPORTERS + "{Text,JSON,JSONArray}MeasurementsExporter");
        yield Form.TEXT;
      }
    };
    String[] wanted = settings.text("hdrhistogram.percentiles", "50,95,99,99.9").split(",");
    percentiles = new double[wanted.length];
    for (int i = 0; i < wanted.length; i++) {
      try {
        percentiles[i] = Double.parseDouble(wanted[i].trim());
      } catch (NumberFormatException e) {
        percentiles[i] = -1;
      }
      if (!(percentiles[i] > 0 && percentiles[i] <= 100)) {
        settings.reject("hdrhistogram.percentiles", String.join(",", wanted), "must be numbers above 0 and up to 100");
      }
    }
  }

  /**
   * Puts all sections into words.
   *
   * @param measuredNs length of the measured window
   */
  public String of(Measurements measurements, long measuredNs, ClientReport client) {
    line("OVERALL", "RunTime(ms)", measuredNs / 1e6);
    line("OVERALL", "Throughput(ops/sec)", measuredNs > 0 ? measurements.done() * 1e9 / measuredNs : Double.NaN);
    addClient(client, measuredNs);
    for (int position = 0; position < Series.ALL.size(); position++) {
      Histogram histogram = measurements.total(position);
      if (histogram != null) {
        addSeries(measurements, Series.ALL.get(position), histogram);
      }
    }
    return switch (form) {
      case TEXT -> text();
      case JSON -> json("", "\n", "\n");
      case JSON_ARRAY -> json("[", ",\n", "]\n");
    };
  }

  private void addClient(ClientReport client, long measuredNs) {
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
    if (client.notBegun().isPresent()) {
      count("CLIENT", "NotBegun", client.notBegun().getAsLong());
    }
    count("CLIENT", "Warnings", client.warnings().size());
  }

  private void addSeries(Measurements measurements, Series series, Histogram histogram) {
    String section = series.label();
    count(section, "Operations", histogram.getTotalCount());
    line(section, "AverageLatency(us)", histogram.getMean() / 1e3);
    line(section, "MinLatency(us)", histogram.getMinValue() / 1e3);
    line(section, "MaxLatency(us)", histogram.getMaxValue() / 1e3);
    for (double percentile : percentiles) {
      line(section, ordinal(percentile) + "PercentileLatency(us)", histogram.getValueAtPercentile(percentile) / 1e3);
    }
    if (series.countsOperations()) {
      addReturns(measurements, series, histogram.getTotalCount());
    }
  }

  /** YCSB's name of a percentile: 1st, 95th, 99.9. */
  private static String ordinal(double percentile) {
    if (percentile != Math.rint(percentile)) {
      return Double.toString(percentile);
    }
    int whole = (int) percentile;
    boolean teen = whole / 10 == 1;
    return whole + switch (teen ? 0 : whole % 10) {
      case 1 -> "st";
      case 2 -> "nd";
      case 3 -> "rd";
      default -> "th";
    };
  }

  private void addReturns(Measurements measurements, Series series, long count) {
    OperationType type = series.type();
    if (series.failed()) {
      measurements.failureCauses(type).forEach((cause, failures) -> count(series.label(), "Return=" + cause, failures));
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
    lines.add(new Line(section, name, value));
  }

  private void line(String section, String name, double value) {
    if (!Double.isNaN(value)) {
      lines.add(new Line(section, name, value));
    }
  }

  private String text() {
    StringBuilder text = new StringBuilder();
    for (Line line : lines) {
      String value = line.value instanceof Double number ? String.format(Locale.ROOT, "%.3f", number) : line.value.toString();
      text.append('[').append(line.section).append("], ").append(line.name).append(", ").append(value).append('\n');
    }
    return text.toString();
  }

  private String json(String before, String between, String after) {
    List<String> objects = new ArrayList<>();
    for (Line line : lines) {
      Map<String, Object> object = new LinkedHashMap<>();
      object.put("metric", line.section);
      object.put("measurement", line.name);
      object.put("value", line.value);
      objects.add(Json.line(object));
    }
    return before + String.join(between, objects) + after;
  }
}
