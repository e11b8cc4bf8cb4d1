// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.BitSet;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;

class PermutationTest {
  @Property(tries = 200)
  void everyElementOccursOnce(@ForAll @IntRange(min = 1, max = 5000) int size, @ForAll long seed) {
    Permutation permutation = new Permutation(size, seed);
    BitSet seen = new BitSet();
    for (int i = 0; i < size; i++) {
      int at = (int) permutation.apply(i);
      assertTrue(at >= 0 && at < size);
      assertFalse(seen.get(at));
      seen.set(at);
    }
  }

  @Property(tries = 200)
  void stays64BitClean(@ForAll @LongRange(min = 1) long size, @ForAll long seed) {
    long at = new Permutation(size, seed).apply(size - 1);
    assertTrue(at >= 0 && at < size);
  }

  @Test
  void neighboursAreScattered() {
    Permutation permutation = new Permutation(1_000_000, 3);
    double sum = 0;
    for (int i = 0; i < 10_000; i++) {
      sum += permutation.apply(i);
    }
    // the mean of a fair sample of [0, n) is n/2, with a standard deviation of n / sqrt(12 * 10000)
    assertTrue(Math.abs(sum / 10_000 - 500_000) < 4 * 1_000_000 / Math.sqrt(120_000));
  }
}
