// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import net.jqwik.api.Assume;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;

class ApportionmentTest {
  /** Weights are whole numbers here, so the exact quota is a fraction of longs that the test can work out for itself. */
  @Property(tries = 500)
  void partsAddUpAndEachIsItsQuotaRoundedDownOrUp(@ForAll @LongRange(min = 0, max = 1_000_000_000) long total,
      @ForAll @Size(min = 1, max = 6) List<@IntRange(min = 0, max = 1000) Integer> drawn) {
    int[] weights = drawn.stream().mapToInt(Integer::intValue).toArray();
    long sum = Arrays.stream(weights).asLongStream().sum();
    Assume.that(sum > 0);
    long[] parts = Apportionment.split(total, Arrays.stream(weights).asDoubleStream().toArray());
    assertEquals(total, Arrays.stream(parts).sum());
    for (int i = 0; i < weights.length; i++) {
      long floor = total * weights[i] / sum;
      boolean exact = total * weights[i] % sum == 0;
      assertTrue(parts[i] == floor || !exact && parts[i] == floor + 1, "part " + i + " of " + Arrays.toString(parts));
    }
  }

  @Property(tries = 500)
  void noOneWithASmallerRemainderIsServedFirst(@ForAll @LongRange(min = 0, max = 1_000_000) long total,
      @ForAll @Size(min = 2, max = 6) List<@IntRange(min = 0, max = 1000) Integer> drawn) {
    int[] weights = drawn.stream().mapToInt(Integer::intValue).toArray();
    long sum = Arrays.stream(weights).asLongStream().sum();
    Assume.that(sum > 0);
    long[] parts = Apportionment.split(total, Arrays.stream(weights).asDoubleStream().toArray());
    for (int i = 0; i < weights.length; i++) {
      for (int j = 0; j < weights.length; j++) {
        boolean iWasServed = parts[i] > total * weights[i] / sum;
        boolean jWasNot = parts[j] == total * weights[j] / sum;
        long remainderI = total * weights[i] % sum;
        long remainderJ = total * weights[j] % sum;
        if (iWasServed && jWasNot) {
          assertTrue(remainderI > remainderJ || remainderI == remainderJ && i < j);
        }
      }
    }
  }

  @Test
  void tiesGoToTheFirst() {
    assertArrayEquals(new long[] {1, 0}, Apportionment.split(1, new double[] {0.5, 0.5}));
    assertArrayEquals(new long[] {4, 3, 3}, Apportionment.split(10, new double[] {1, 1, 1}));
  }

  @Test
  void decimalsMeanWhatTheySay() {
    // 0.6 + 0.34 + 0.06 is not 1 in binary; as decimals the quotas are whole
    assertArrayEquals(new long[] {600_000, 340_000, 60_000}, Apportionment.split(1_000_000, new double[] {0.6, 0.34, 0.06}));
    assertArrayEquals(new long[] {18, 10, 2}, Apportionment.split(30, new double[] {0.6, 0.34, 0.06}));
  }
}
