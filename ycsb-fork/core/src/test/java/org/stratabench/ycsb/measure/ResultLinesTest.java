// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Outcome;
import site.ycsb.measurements.OneMeasurementHdrHistogram;
import site.ycsb.measurements.exporter.MeasurementsExporter;

/** Scripts that look for YCSB's lines find them: held against YCSB's own class. */
class ResultLinesTest {
  private static final String PERCENTILES =
      IntStream.rangeClosed(1, 100).mapToObj(Integer::toString).collect(Collectors.joining(","))
          + ",0.5,50.0,99.9,99.99,99.999";

  /** Remembers the names it is given. */
  private static final class Names implements MeasurementsExporter {
    private final List<String> written = new ArrayList<>();

    @Override
    public void write(String metric, String measurement, int i) {
      written.add("[" + metric + "], " + measurement);
    }

    @Override
    public void write(String metric, String measurement, long i) {
      written.add("[" + metric + "], " + measurement);
    }

    @Override
    public void write(String metric, String measurement, double d) {
      written.add("[" + metric + "], " + measurement);
    }

    @Override
    public void close() {
    }
  }

  @Test
  void operationsHaveYcsbsLinesInYcsbsOrder() throws Exception {
    Properties properties = new Properties();
    properties.setProperty("hdrhistogram.percentiles", PERCENTILES);
    OneMeasurementHdrHistogram ycsb = new OneMeasurementHdrHistogram("READ", properties);
    ycsb.measure(1);
    ycsb.reportStatus(site.ycsb.Status.OK);
    Names names = new Names();
    ycsb.exportMeasurements(names);
    Measurements measurements = new Measurements();
    measurements.newThread().record(OperationType.READ, Outcome.OK, 1_000, -1, 1_000);
    measurements.takeInterval();
    ClientCost cost = new ClientCost(0, 0, OptionalLong.empty());
    ClientReport client = ClientReport.of(measurements, cost, 1_000, 1, 1_000, 0, OptionalLong.empty(), false);
    List<String> lines = new ResultLines(new Settings(properties)).of(measurements, 1_000, client).lines()
        .filter(line -> line.startsWith("[READ]")).map(line -> line.substring(0, line.lastIndexOf(", "))).toList();
    assertEquals(names.written, lines);
  }
}
