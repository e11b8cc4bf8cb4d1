// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

/** Turns key numbers into YCSB's keys, byte for byte: {@code user} and the number or its hash in decimal digits. */
public final class KeyNames {
  private static final long FNV_OFFSET = 0xCBF29CE484222325L;
  private static final long FNV_PRIME = 1099511628211L;
  private static final long FNV_PRIME_TO_4 = FNV_PRIME * FNV_PRIME * FNV_PRIME * FNV_PRIME;

  private final boolean hashed;
  private final int width;

  /**
   * @param hashed whether consecutive numbers are scattered ({@code insertorder=hashed})
   * @param width least number of digits, filled with leading zeros
   */
  public KeyNames(boolean hashed, int width) {
    this.hashed = hashed;
    this.width = width;
  }

  /** Makes {@code key} the key of a key number. */
  public void name(long keyNumber, Key key) {
    spell(digits(keyNumber), key);
  }

  /** The number that a key number's key shows. */
  long digits(long keyNumber) {
    return hashed ? fnv64(keyNumber) : keyNumber;
  }

  /** Makes {@code key} the key that shows a number. */
  void spell(long digits, Key key) {
    key.set(digits, width);
  }

  /** The key of a key number, as text. */
  public String name(long keyNumber) {
    Key key = new Key();
    name(keyNumber, key);
    return key.toString();
  }

  /** FNV-1a over the number's eight bytes, lowest first, without its sign. */
  static long fnv64(long number) {
    long hash = fourBytes(FNV_OFFSET, number);
    // zero bytes change nothing but for the multiplications, which are done at once
    hash = number >>> 32 == 0 ? hash * FNV_PRIME_TO_4 : fourBytes(hash, number >>> 32);
    return Math.abs(hash);
  }

  private static long fourBytes(long before, long bytes) {
    long hash = (before ^ (bytes & 0xff)) * FNV_PRIME;
    hash = (hash ^ (bytes >>> 8 & 0xff)) * FNV_PRIME;
    hash = (hash ^ (bytes >>> 16 & 0xff)) * FNV_PRIME;
    return (hash ^ (bytes >>> 24 & 0xff)) * FNV_PRIME;
  }
}
