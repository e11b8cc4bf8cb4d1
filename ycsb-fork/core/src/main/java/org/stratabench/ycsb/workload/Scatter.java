// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

/**
 * A fixed bijection of [0, size) onto itself that spreads neighbours evenly: multiplication by a number near size / golden ratio, modulo size.
 *
 * <p>The same for all shards, seeds and runs: the popular keys are the same keys everywhere.
 */
public final class Scatter {
  /** Largest size: up to here the quotient of the reduction is right to within one when estimated in double precision. */
  static final long MOST = 1L << 50;
  private static final double GOLDEN_RATIO = (1 + Math.sqrt(5)) / 2;

  private final long size;
  private final long factor;
  private final double factorPerSize;

  /** @param size number of elements, from 1 to 2^50 */
  public Scatter(long size) {
    if (size < 1 || size > MOST) {
      throw new IllegalArgumentException("size " + size);
    }
    long candidate = Math.max(1, Math.round(size / GOLDEN_RATIO));
    while (gcd(candidate, size) != 1) {
      candidate++;
    }
    this.size = size;
    this.factor = candidate;
    this.factorPerSize = (double) candidate / size;
  }

  private static long gcd(long a, long b) {
    return b == 0 ? a : gcd(b, a % b);
  }

  /** Where {@code element} goes. */
  public long apply(long element) {
    long quotient = (long) (element * factorPerSize);
    // exact modulo 2^64, and the true remainder differs from it by at most one size
    long rest = element * factor - quotient * size;
    if (rest < 0) {
      return rest + size;
    }
    return rest >= size ? rest - size : rest;
  }
}
