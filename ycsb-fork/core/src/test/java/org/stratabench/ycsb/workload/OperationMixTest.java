// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;

class OperationMixTest {
  private static final double[] MESSENGER = proportions(0.6, 0, 0.34, 0.06);

  private static double[] proportions(double... first) {
    return Arrays.copyOf(first, OperationType.values().length);
  }

  @Test
  void exactMixHoldsEveryTypeExactly() {
    long[] counts = Apportionment.split(100_000, MESSENGER);
    assertArrayEquals(new long[] {60_000, 0, 34_000, 6_000}, Arrays.copyOf(counts, 4));
    assertArrayEquals(counts, draw(OperationMix.exact(counts, new SplittableRandom(1)), 100_000));
  }

  @Property(tries = 200)
  void theClientsPartsAddUpAndFollowTheirNumberOfOperations(
      @ForAll @Size(11) List<@LongRange(max = 1_000) Long> list, @ForAll @IntRange(min = 1, max = 70) int clients) {
    long[] counts = list.stream().mapToLong(Long::longValue).toArray();
    long total = Arrays.stream(counts).sum();
    long[] sum = new long[counts.length];
    for (int client = 0; client < clients; client++) {
      long[] part = OperationMix.part(counts, client, clients);
      long operations = 0;
      for (long index = client; index < total; index += clients) {
        operations++;
      }
      assertEquals(operations, Arrays.stream(part).sum());
      for (int i = 0; i < sum.length; i++) {
        sum[i] += part[i];
      }
    }
    assertArrayEquals(counts, sum);
  }

  @Test
  void exactMixIsShuffledAndDependsOnTheSeed() {
    assertNotEquals(order(1), order(2));
    // in the first tenth, the reads must be about 60 %: they do not all come first
    long reads = order(1).subList(0, 1000).stream().filter(type -> type == OperationType.READ).count();
    assertTrue(reads > 540 && reads < 660, reads + " reads");
  }

  private static List<OperationType> order(long seed) {
    OperationMix mix = OperationMix.exact(Apportionment.split(10_000, MESSENGER), new SplittableRandom(seed));
    return Stream.generate(mix::next).limit(10_000).toList();
  }

  @Test
  void randomMixFitsItsProportions() {
    ChiSquare.assertFits(MESSENGER, draw(OperationMix.random(MESSENGER, new SplittableRandom(3)), 1_000_000));
    double[] unscaled = proportions(6, 0, 3.4, 0.6);
    ChiSquare.assertFits(MESSENGER, draw(OperationMix.random(unscaled, new SplittableRandom(4)), 1_000_000));
  }

  private static long[] draw(OperationMix mix, int operations) {
    long[] counts = new long[OperationType.values().length];
    for (int i = 0; i < operations; i++) {
      counts[mix.next().ordinal()]++;
    }
    return counts;
  }
}
