// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.SplittableRandom;

/** Gives each type its exact count in a seeded random order: a permutation of the operation numbers, cut at the cumulative counts. */
final class ExactMix implements OperationMix {
  private static final OperationType[] TYPES = OperationType.values();

  private final Permutation order;
  private final long[] upTo = new long[TYPES.length];

  /**
   * @param operations how many operations there are, at least 1
   * @param proportions by ordinal of the type, not all zero
   */
  ExactMix(long operations, double[] proportions, long seed) {
    this.order = new Permutation(operations, seed);
    long[] counts = Apportionment.split(operations, proportions);
    long sum = 0;
    for (int i = 0; i < counts.length; i++) {
      sum += counts[i];
      upTo[i] = sum;
    }
  }

  @Override
  public OperationType type(long index, SplittableRandom random) {
    long at = order.apply(index);
    int i = 0;
    while (at >= upTo[i]) {
      i++;
    }
    return TYPES[i];
  }
}
