// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.util.BitSet;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;

class ScatterTest {
  @Property(tries = 300)
  void everyElementOccursOnce(@ForAll @IntRange(min = 1, max = 5000) int size) {
    Scatter scatter = new Scatter(size);
    BitSet seen = new BitSet();
    for (int i = 0; i < size; i++) {
      int at = (int) scatter.apply(i);
      assertTrue(at >= 0 && at < size);
      assertFalse(seen.get(at));
      seen.set(at);
    }
  }

  @Property(tries = 500)
  void isMultiplicationModuloTheSizeUpToTheLargest(@ForAll @LongRange(min = 2, max = 1L << 50) long size, @ForAll @LongRange(min = 0) long any) {
    Scatter scatter = new Scatter(size);
    long element = any % size;
    BigInteger exact = BigInteger.valueOf(scatter.apply(1)).multiply(BigInteger.valueOf(element)).mod(BigInteger.valueOf(size));
    assertEquals(exact.longValueExact(), scatter.apply(element));
  }

  @Test
  void neighboursLieFarApartAndEvenly() {
    int size = 1_000_000;
    int popular = 1_000;
    Scatter scatter = new Scatter(size);
    long[] inTenth = new long[10];
    for (int i = 0; i < popular; i++) {
      inTenth[(int) (scatter.apply(i) * 10 / size)]++;
    }
    for (long count : inTenth) {
      assertEquals(popular / 10, count, 3);
    }
  }
}
