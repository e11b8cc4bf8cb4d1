// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.util.function.Predicate;
import org.HdrHistogram.Histogram;

/** The merged values of one interval. */
public final class Interval {
  private final Histogram[] histograms;

  /** @param histograms by position of the series; null where the series never had a value */
  Interval(Histogram[] histograms) {
    this.histograms = histograms;
  }

  /** The values of one series, or null. */
  Histogram histogram(int position) {
    return histograms[position];
  }

  /** Operations finished in the interval. */
  public long operations() {
    return count(Series::countsOperations);
  }

  /** Operations that failed in the interval. */
  public long failures() {
    return count(series -> series.countsOperations() && series.failed());
  }

  /** 99th percentile over all operations that did not fail, in microseconds; null when there were none. */
  public Double p99Us() {
    Histogram all = new Histogram(ThreadRecorder.SIGNIFICANT_DIGITS);
    for (int i = 0; i < histograms.length; i++) {
      Series series = Series.ALL.get(i);
      if (histograms[i] != null && series.countsOperations() && !series.failed()) {
        all.add(histograms[i]);
      }
    }
    return all.getTotalCount() == 0 ? null : all.getValueAtPercentile(99) / 1e3;
  }

  private long count(Predicate<Series> wanted) {
    long sum = 0;
    for (int i = 0; i < histograms.length; i++) {
      if (histograms[i] != null && wanted.test(Series.ALL.get(i))) {
        sum += histograms[i].getTotalCount();
      }
    }
    return sum;
  }
}
