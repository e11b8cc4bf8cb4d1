// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.Comparator;

/** Splits a whole number by proportions so that the parts add up to it (largest remainder, also known as Hamilton's method). */
public final class Apportionment {
  private Apportionment() {
  }

  /**
   * Parts of {@code total} by {@code weights}.
   *
   * <p>Every part is the floor of its exact quota; what is left goes, one each, to the largest remainders, the first of equals winning.
   * The arithmetic is exact on the decimal values as written, so 0.1 is a tenth.
   *
   * @param total what to split, zero or more
   * @param weights zero or more each, not all zero
   */
  public static long[] split(long total, double[] weights) {
    BigInteger[] scaled = toIntegers(weights);
    BigInteger sum = Arrays.stream(scaled).reduce(BigInteger.ZERO, BigInteger::add);
    if (sum.signum() <= 0) {
      throw new IllegalArgumentException("weights " + Arrays.toString(weights));
    }
    long[] parts = new long[weights.length];
    BigInteger[] remainders = new BigInteger[weights.length];
    long left = total;
    for (int i = 0; i < weights.length; i++) {
      BigInteger[] quota = scaled[i].multiply(BigInteger.valueOf(total)).divideAndRemainder(sum);
      parts[i] = quota[0].longValueExact();
      remainders[i] = quota[1];
      left -= parts[i];
    }
    Integer[] byRemainder = new Integer[weights.length];
    Arrays.setAll(byRemainder, i -> i);
    // the sort is stable, so equal remainders stay in the order given
    Arrays.sort(byRemainder, Comparator.comparing((Integer i) -> remainders[i]).reversed());
    for (int i = 0; i < left; i++) {
      parts[byRemainder[i]]++;
    }
    return parts;
  }

  private static BigInteger[] toIntegers(double[] weights) {
    BigDecimal[] decimals = Arrays.stream(weights).mapToObj(BigDecimal::valueOf).toArray(BigDecimal[]::new);
    int scale = Arrays.stream(decimals).mapToInt(BigDecimal::scale).max().orElse(0);
    return Arrays.stream(decimals).map(d -> d.setScale(scale).unscaledValue()).toArray(BigInteger[]::new);
  }
}
