// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Path;
import org.stratabench.ycsb.measure.HdrLogs;
import org.stratabench.ycsb.measure.Interval;

/** Keeps the boundaries of the measured window's intervals and writes them to the histogram logs, if there are any. */
final class IntervalWriter implements Closeable {
  private final HdrLogs logs;
  private long beginNs;
  private long endNs;

  /** @param directory null for no logs */
  IntervalWriter(Path directory, long startUnixNs) {
    this.logs = directory == null ? null : new HdrLogs(directory, startUnixNs);
  }

  /** Writes the interval that ends at {@code toNs} after the window's start. */
  void write(Interval interval, long toNs) throws IOException {
    beginNs = endNs;
    endNs = toNs;
    if (logs != null) {
      logs.write(interval, beginNs, endNs);
    }
  }

  /** End of the last interval, nanoseconds since the window's start. */
  long endNs() {
    return endNs;
  }

  /** Length of the last interval. */
  long lastLengthNs() {
    return endNs - beginNs;
  }

  @Override
  public void close() throws IOException {
    if (logs != null) {
      logs.close();
    }
  }
}
