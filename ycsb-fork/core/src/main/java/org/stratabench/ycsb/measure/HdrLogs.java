// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogWriter;

/**
 * The {@code <OP>.hdr} files: one mergeable histogram log for each series that had a value.
 *
 * <p>Values are nanoseconds. Interval times are seconds since the measured window's start, which the header gives in unix seconds as
 * start and base time; the interval maximum printed in clear is in milliseconds, the format's custom.
 */
public final class HdrLogs implements Closeable {
  private final Path directory;
  private final double startUnixSeconds;
  private final PrintStream[] streams = new PrintStream[Series.ALL.size()];
  private final HistogramLogWriter[] writers = new HistogramLogWriter[Series.ALL.size()];

  /** @param startUnixNs the measured window's first instant */
  public HdrLogs(Path directory, long startUnixNs) {
    this.directory = directory;
    this.startUnixSeconds = startUnixNs / 1e9;
  }

  /**
   * Appends one interval to every series.
   *
   * @param fromNs start of the interval, since the start of the window
   * @param toNs its end
   * @throws IOException when the disk does not take it
   */
  public void write(Interval interval, long fromNs, long toNs) throws IOException {
    for (int i = 0; i < writers.length; i++) {
      Histogram histogram = interval.histogram(i);
      if (histogram == null) {
        continue;
      }
      if (writers[i] == null) {
        open(i);
      }
      writers[i].outputIntervalHistogram(fromNs / 1e9, toNs / 1e9, histogram);
      check(i);
    }
  }

  private void open(int position) throws IOException {
    Path file = directory.resolve(fileName(position));
    streams[position] = new PrintStream(new BufferedOutputStream(Files.newOutputStream(file)), false, StandardCharsets.UTF_8);
    HistogramLogWriter writer = new HistogramLogWriter(streams[position]);
    writer.outputLogFormatVersion();
    writer.outputComment("[times in nanoseconds; interval maximum in milliseconds]");
    writer.outputStartTime((long) (startUnixSeconds * 1e3));
    writer.outputBaseTime((long) (startUnixSeconds * 1e3));
    writer.outputLegend();
    writers[position] = writer;
  }

  private static String fileName(int position) {
    return Series.ALL.get(position).label() + ".hdr";
  }

  /** A print stream keeps its errors to itself until asked. */
  private void check(int position) throws IOException {
    if (streams[position].checkError()) {
      throw new IOException("cannot write " + fileName(position) + " (disk full?)");
    }
  }

  @Override
  public void close() throws IOException {
    for (int i = 0; i < streams.length; i++) {
      if (streams[i] != null) {
        check(i);
        streams[i].close();
      }
    }
  }
}
