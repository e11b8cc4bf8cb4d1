// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.util.Locale;
import java.util.function.Predicate;
import org.HdrHistogram.Histogram;

/** The merged values of one interval. */
public final class Interval {
  private final Histogram[] histograms;

  /** @param histograms by position of the series; null where the series never had a value */
  Interval(Histogram[] histograms) {
    this.histograms = histograms;
  }

  /** An interval without any value. */
  public static Interval empty() {
    return new Interval(new Histogram[Series.ALL.size()]);
  }

  /** Adds another interval's values to this one's. */
  public void add(Interval other) {
    for (int i = 0; i < histograms.length; i++) {
      if (other.histograms[i] != null) {
        if (histograms[i] == null) {
          histograms[i] = new Histogram(ThreadRecorder.SIGNIFICANT_DIGITS);
        }
        histograms[i].add(other.histograms[i]);
      }
    }
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

  /** The figures of every operation in microseconds, as YCSB's status lines show them. */
  public String statusText() {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < histograms.length; i++) {
      Histogram histogram = histograms[i];
      if (histogram != null && histogram.getTotalCount() > 0 && Series.ALL.get(i).countsOperations()) {
        text.append(String.format(Locale.ROOT, "[%s: Count=%d, Max=%d, Min=%d, Avg=%.2f, 90=%d, 99=%d, 99.9=%d, 99.99=%d] ",
            Series.ALL.get(i).label(), histogram.getTotalCount(), histogram.getMaxValue() / 1000, histogram.getMinValue() / 1000,
            histogram.getMean() / 1e3, histogram.getValueAtPercentile(90) / 1000, histogram.getValueAtPercentile(99) / 1000,
            histogram.getValueAtPercentile(99.9) / 1000, histogram.getValueAtPercentile(99.99) / 1000));
      }
    }
    return text.toString().trim();
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
