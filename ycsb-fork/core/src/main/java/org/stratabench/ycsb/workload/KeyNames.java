// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

/** Turns key numbers into YCSB's keys, byte for byte: {@code user} and the number or its hash in decimal digits. */
public final class KeyNames {
  private static final String PREFIX = "user";
  private static final long FNV_OFFSET = 0xCBF29CE484222325L;
  private static final long FNV_PRIME = 1099511628211L;

  private final boolean hashed;
  private final int zeroPadding;

  /**
   * @param hashed whether consecutive numbers are scattered ({@code insertorder=hashed})
   * @param zeroPadding least number of digits, filled with leading zeros
   */
  public KeyNames(boolean hashed, int zeroPadding) {
    this.hashed = hashed;
    this.zeroPadding = zeroPadding;
  }

  /** The key of a key number. */
  public String name(long keyNumber) {
    String digits = Long.toString(hashed ? fnv64(keyNumber) : keyNumber);
    if (digits.length() >= zeroPadding) {
      return PREFIX.concat(digits);
    }
    return PREFIX + "0".repeat(zeroPadding - digits.length()) + digits;
  }

  /** FNV-1a over the number's eight bytes, lowest first, without its sign. */
  static long fnv64(long number) {
    long hash = FNV_OFFSET;
    long rest = number;
    for (int i = 0; i < Long.BYTES; i++) {
      hash = (hash ^ (rest & 0xff)) * FNV_PRIME;
      rest >>= 8;
    }
    return Math.abs(hash);
  }

  /** FNV-1a 64 of a key's characters (all ASCII), folded to 32 bits: the operation log's {@code key_hash}. */
  public static int foldedHash(String key) {
    long hash = FNV_OFFSET;
    for (int i = 0; i < key.length(); i++) {
      hash = (hash ^ (key.charAt(i) & 0xff)) * FNV_PRIME;
    }
    return (int) (hash ^ (hash >>> 32));
  }
}
