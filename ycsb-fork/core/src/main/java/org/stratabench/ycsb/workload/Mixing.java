// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.SplittableRandom;

/** Derives independent random streams and hashes from seeds. */
public final class Mixing {
  /** 2^64 divided by the golden ratio: consecutive multiples spread evenly over the 64-bit range. */
  static final long GOLDEN = 0x9E3779B97F4A7C15L;

  private Mixing() {
  }

  /** A bijective 64-bit finaliser (the one of SplitMix64, Steele, Lea and Flood 2014). */
  static long mix(long value) {
    long z = value;
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
    return z ^ (z >>> 31);
  }

  /**
   * A uniform number in [0, {@code bound}), {@code bound} at least 1: the high half of a product, without a division
   * (Lemire, "Fast random integer generation in an interval", 2019).
   */
  static long below(long bound, SplittableRandom random) {
    while (true) {
      long bits = random.nextLong();
      long low = bits * bound;
      // the low half tells the bits of the 2^64 mod bound surplus cases, which would make small numbers a little too frequent
      if (Long.compareUnsigned(low, bound) >= 0 || Long.compareUnsigned(low, Long.remainderUnsigned(-bound, bound)) >= 0) {
        return highHalf(bits, bound);
      }
    }
  }

  /** Bits 64 to 127 of the product of an unsigned number and one that is not negative. */
  static long highHalf(long unsigned, long positive) {
    return Math.multiplyHigh(unsigned, positive) + (unsigned >> 63 & positive);
  }

  /** The random stream of one logical client of one shard; {@code purpose} keeps several streams of a client apart. */
  public static SplittableRandom stream(long seed, int shard, int client, int purpose) {
    return new SplittableRandom(seed(seed, shard, client, purpose));
  }

  /** A seed that differs in every argument. */
  static long seed(long seed, int shard, int client, int purpose) {
    return mix(mix(mix(mix(seed + GOLDEN) + shard + GOLDEN) + client + GOLDEN) + purpose + GOLDEN);
  }
}
