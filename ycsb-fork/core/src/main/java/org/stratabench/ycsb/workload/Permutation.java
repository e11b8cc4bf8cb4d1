// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

/**
 * A seeded bijection of [0, size) onto itself without a table.
 *
 * <p>An unbalanced Feistel network works on the smallest power of two that holds the range; what falls outside is sent through
 * again ("cycle walking"), which keeps it a bijection and needs fewer than two passes on average.
 */
public final class Permutation {
  private static final int ROUNDS = 6;

  private final long size;
  private final int lowBits;
  private final long lowMask;
  private final long highMask;
  private final long[] roundKeys = new long[ROUNDS];

  /**
   * @param size number of elements, at least 1
   * @param seed equal seeds give equal permutations
   */
  public Permutation(long size, long seed) {
    if (size < 1) {
      throw new IllegalArgumentException("size " + size);
    }
    this.size = size;
    int bits = 64 - Long.numberOfLeadingZeros(size - 1);
    this.lowBits = bits / 2;
    this.lowMask = (1L << lowBits) - 1;
    this.highMask = (1L << (bits - lowBits)) - 1;
    for (int i = 0; i < ROUNDS; i++) {
      roundKeys[i] = Mixing.mix(seed + i * Mixing.GOLDEN);
    }
  }

  /** Where {@code element} goes. */
  public long apply(long element) {
    long at = element;
    do {
      at = onePass(at);
    } while (at >= size);
    return at;
  }

  private long onePass(long value) {
    long low = value & lowMask;
    long high = value >>> lowBits;
    for (int i = 0; i < ROUNDS; i += 2) {
      high ^= Mixing.mix(low + roundKeys[i]) & highMask;
      low ^= Mixing.mix(high + roundKeys[i + 1]) & lowMask;
    }
    return (high << lowBits) | low;
  }
}
