// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * A record's key: {@code user} and a number in decimal digits, kept as ASCII bytes in a buffer that the next request reuses.
 *
 * <p>No key allocates anything until a binding asks for bytes or a string of its own.
 */
public final class Key {
  private static final byte[] PREFIX = "user".getBytes(StandardCharsets.US_ASCII);
  private static final int MOST_DIGITS = 20;
  private static final int QUADS = 10_000;
  private static final long EIGHT_DIGITS = 100_000_000L;
  private static final VarHandle INTS = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  /** Four decimal digits of every number below 10,000, as the four bytes that spell them. */
  private static final int[] DIGITS = quads();

  private byte[] buffer = new byte[PREFIX.length + MOST_DIGITS];
  private int from;
  private long number;

  private static int[] quads() {
    int[] quads = new int[QUADS];
    for (int i = 0; i < QUADS; i++) {
      quads[i] = ('0' + i / 1000) | ('0' + i / 100 % 10) << 8 | ('0' + i / 10 % 10) << 16 | ('0' + i % 10) << 24;
    }
    return quads;
  }

  /**
   * Takes another number.
   *
   * @param digits the number, zero or more
   * @param width least number of digits, filled with leading zeros
   */
  void set(long digits, int width) {
    number = digits;
    if (buffer.length < PREFIX.length + Math.max(width, MOST_DIGITS)) {
      buffer = new byte[PREFIX.length + width];
    }
    int end = buffer.length;
    int start = Math.min(writeDigits(digits, end), end - width);
    Arrays.fill(buffer, start, Math.max(start, end - MOST_DIGITS), (byte) '0');
    from = start - PREFIX.length;
    System.arraycopy(PREFIX, 0, buffer, from, PREFIX.length);
  }

  /** Writes twenty digits before {@code end}, leading zeros included, and returns where the first one that counts stands. */
  private int writeDigits(long digits, int end) {
    long high = digits / EIGHT_DIGITS;
    int low = (int) (digits - high * EIGHT_DIGITS);
    long top = high / EIGHT_DIGITS;
    int middle = (int) (high - top * EIGHT_DIGITS);
    INTS.set(buffer, end - 4, DIGITS[low % QUADS]);
    INTS.set(buffer, end - 8, DIGITS[low / QUADS]);
    INTS.set(buffer, end - 12, DIGITS[middle % QUADS]);
    INTS.set(buffer, end - 16, DIGITS[middle / QUADS]);
    INTS.set(buffer, end - 20, DIGITS[(int) top]);
    int start = end - MOST_DIGITS;
    while (start < end - 1 && buffer[start] == '0') {
      start++;
    }
    return start;
  }

  /** Length in bytes. */
  public int length() {
    return buffer.length - from;
  }

  /** The byte at {@code index}, 0-based. */
  public byte byteAt(int index) {
    return buffer[from + index];
  }

  /** A copy of the key's bytes. */
  public byte[] toBytes() {
    return Arrays.copyOfRange(buffer, from, buffer.length);
  }

  /** Copies the key into {@code target} from {@code offset} on and returns the offset after it. */
  public int writeTo(byte[] target, int offset) {
    System.arraycopy(buffer, from, target, offset, length());
    return offset + length();
  }

  /** The key as text. */
  @Override
  public String toString() {
    return new String(buffer, from, length(), StandardCharsets.ISO_8859_1);
  }

  /** The operation log's {@code key_hash}: the SplitMix64 finaliser of the key's number, its halves folded by exclusive or. */
  public int hash() {
    long hash = Mixing.mix(number + Mixing.GOLDEN);
    return (int) (hash ^ (hash >>> 32));
  }
}
