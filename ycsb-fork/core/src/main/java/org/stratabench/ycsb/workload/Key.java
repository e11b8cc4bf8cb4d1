// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.stream.LongStream;

/**
 * A record's key: {@code user} and a number in decimal digits, kept as ASCII bytes in a buffer that the next request reuses.
 *
 * <p>No key allocates anything until a binding asks for bytes or a string of its own.
 */
public final class Key {
  /** The bytes {@code user} as one number. */
  private static final int PREFIX = 'u' | 's' << 8 | 'e' << 16 | 'r' << 24;
  private static final int PREFIX_BYTES = Integer.BYTES;
  private static final int MOST_DIGITS = 20;
  private static final int QUADS = 10_000;
  private static final long EIGHT_DIGITS = 100_000_000L;
  private static final VarHandle INTS = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  /** Four decimal digits of every number below 10,000, as the four bytes that spell them. */
  private static final int[] DIGITS = quads();

  private static final long[] POWERS_OF_TEN = LongStream.iterate(1, power -> power * 10).limit(19).toArray();

  private byte[] buffer = new byte[PREFIX_BYTES + MOST_DIGITS];
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
    int end = buffer.length;
    if (end < PREFIX_BYTES + width) {
      end = PREFIX_BYTES + width;
      buffer = new byte[end];
    }
    int start = end - writeDigits(digits, end);
    if (end - start < width) {
      // the zeros before the twenty digits that are always written
      Arrays.fill(buffer, end - width, Math.max(end - width, end - MOST_DIGITS), (byte) '0');
      start = end - width;
    }
    from = start - PREFIX_BYTES;
    INTS.set(buffer, from, PREFIX);
  }

  /** Writes twenty digits before {@code end}, leading zeros included, and returns how many of them count, at least one. */
  private int writeDigits(long digits, int end) {
    long high = digits / EIGHT_DIGITS;
    int low = (int) (digits - high * EIGHT_DIGITS);
    int top = (int) (high / EIGHT_DIGITS);
    int middle = (int) (high - top * EIGHT_DIGITS);
    int lowHigh = low / QUADS;
    int middleHigh = middle / QUADS;
    INTS.set(buffer, end - 4, DIGITS[low - lowHigh * QUADS]);
    INTS.set(buffer, end - 8, DIGITS[lowHigh]);
    INTS.set(buffer, end - 12, DIGITS[middle - middleHigh * QUADS]);
    INTS.set(buffer, end - 16, DIGITS[middleHigh]);
    INTS.set(buffer, end - 20, DIGITS[top]);
    return digitsOf(digits);
  }

  /** How many decimal digits a number has, at least one: by the length of its binary form, which leaves two to choose from. */
  private static int digitsOf(long digits) {
    // 1233 / 4096 is the logarithm of 2 to base 10, right for all 64 lengths
    long positive = digits | 1;
    int atLeast = (Long.SIZE - Long.numberOfLeadingZeros(positive)) * 1233 >>> 12;
    // one more from the power of ten on: the sign of a difference, for a branch here would be mispredicted every tenth time
    return atLeast + (int) (POWERS_OF_TEN[atLeast] - 1 - positive >>> 63);
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
