// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class OperationMixTest {
  private static final double[] MESSENGER = {0.6, 0, 0.34, 0.06, 0, 0};

  @Test
  void exactMixHoldsEveryTypeExactly() {
    assertArrayEquals(new long[] {60_000, 0, 34_000, 6_000, 0, 0}, counts(new ExactMix(100_000, MESSENGER, 1), 100_000));
  }

  @Test
  void exactMixIsShuffledAndDependsOnTheSeed() {
    assertNotEquals(order(1), order(2));
    // in the first tenth, the reads must be about 60 %: they do not all come first
    long reads = order(1).subList(0, 1000).stream().filter(type -> type == OperationType.READ).count();
    assertTrue(reads > 540 && reads < 660, reads + " reads");
  }

  private static List<OperationType> order(long seed) {
    ExactMix mix = new ExactMix(10_000, MESSENGER, seed);
    List<OperationType> order = new ArrayList<>();
    for (int i = 0; i < 10_000; i++) {
      order.add(mix.type(i, null));
    }
    return order;
  }

  @Test
  void randomMixFitsItsProportions() {
    ChiSquare.assertFits(MESSENGER, counts(new RandomMix(MESSENGER), 1_000_000));
    double[] unscaled = {6, 0, 3.4, 0.6, 0, 0};
    ChiSquare.assertFits(MESSENGER, counts(new RandomMix(unscaled), 1_000_000));
  }

  private static long[] counts(OperationMix mix, int operations) {
    SplittableRandom random = new SplittableRandom(3);
    long[] counts = new long[OperationType.values().length];
    for (int i = 0; i < operations; i++) {
      counts[mix.type(i, random).ordinal()]++;
    }
    return counts;
  }
}
