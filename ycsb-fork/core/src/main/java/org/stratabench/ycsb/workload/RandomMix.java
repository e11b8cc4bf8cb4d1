// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.SplittableRandom;

/** Draws every type independently with its proportion, so counts vary from run to run. */
final class RandomMix implements OperationMix {
  private static final OperationType[] TYPES = OperationType.values();

  private final double[] upTo = new double[TYPES.length];
  private final int last;

  /** @param proportions by ordinal of the type, not all zero; they need not add up to 1 */
  RandomMix(double[] proportions) {
    double sum = 0;
    int lastUsed = 0;
    for (int i = 0; i < TYPES.length; i++) {
      sum += proportions[i];
      upTo[i] = sum;
      lastUsed = proportions[i] > 0 ? i : lastUsed;
    }
    this.last = lastUsed;
  }

  @Override
  public OperationType type(long index, SplittableRandom random) {
    double at = random.nextDouble() * upTo[last];
    for (int i = 0; i < last; i++) {
      if (at < upTo[i]) {
        return TYPES[i];
      }
    }
    return TYPES[last];
  }
}
