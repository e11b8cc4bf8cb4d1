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

  /** The random stream of one thread of one shard; {@code purpose} keeps several streams of a thread apart. */
  public static SplittableRandom stream(long seed, int shard, int thread, int purpose) {
    return new SplittableRandom(seed(seed, shard, thread, purpose));
  }

  /** A seed that differs in every argument. */
  static long seed(long seed, int shard, int thread, int purpose) {
    return mix(mix(mix(mix(seed + GOLDEN) + shard + GOLDEN) + thread + GOLDEN) + purpose + GOLDEN);
  }
}
