// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertTrue;

/** Pearson's goodness-of-fit test at a significance of one in ten thousand. */
final class ChiSquare {
  private static final double NORMAL_QUANTILE = 3.719;
  private static final double LEAST_EXPECTED = 10;

  private ChiSquare() {
  }

  /** Fails when {@code observed} does not look drawn from {@code probabilities}; rare cells are pooled with their neighbours. */
  static void assertFits(double[] probabilities, long[] observed) {
    long total = 0;
    for (long count : observed) {
      total += count;
    }
    double statistic = 0;
    int cells = 0;
    double expected = 0;
    double seen = 0;
    for (int i = 0; i < probabilities.length; i++) {
      expected += probabilities[i] * total;
      seen += observed[i];
      boolean last = i == probabilities.length - 1;
      if (expected >= LEAST_EXPECTED || last) {
        assertTrue(expected > 0 || seen == 0, "values where none can be");
        if (expected > 0) {
          statistic += (seen - expected) * (seen - expected) / expected;
          cells++;
        }
        expected = 0;
        seen = 0;
      }
    }
    double freedom = cells - 1;
    // Wilson and Hilferty's approximation of the chi-square quantile
    double bound = freedom * Math.pow(1 - 2 / (9 * freedom) + NORMAL_QUANTILE * Math.sqrt(2 / (9 * freedom)), 3);
    assertTrue(statistic < bound, "chi-square " + statistic + " over " + bound + " at " + freedom + " degrees of freedom");
  }
}
