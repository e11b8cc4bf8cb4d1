// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * The value of one field: random bytes, produced eight at a time when a binding asks for them; equal seeds give equal bytes.
 *
 * <p>Where {@code value.compressibility} asks for it, the end of the value is one repeated byte, which any compression removes. As text a
 * value has the same length in characters of a 64-letter alphabet whose order is that of their codes: 6 random bits a character.
 */
public final class Value {
  private static final VarHandle LONGS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final byte[] ALPHABET =
      "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".getBytes(StandardCharsets.US_ASCII);
  private static final byte FILLER = 'x';
  private static final long SCRAMBLER = 0xD1B54A32D192ED03L;

  private long seed;
  private int length;
  private int random;

  /**
   * Becomes another value.
   *
   * @param newSeed decides the bytes
   * @param newLength in bytes
   * @param randomBytes how many of them are random, from the front
   */
  void set(long newSeed, int newLength, int randomBytes) {
    seed = newSeed;
    length = newLength;
    random = randomBytes;
  }

  /** Length in bytes, and in characters as text. */
  public int length() {
    return length;
  }

  /** A new array that holds the value. */
  public byte[] toBytes() {
    byte[] bytes = new byte[length];
    writeTo(bytes, 0);
    return bytes;
  }

  /** Writes the value into {@code target} from {@code offset} on and returns the offset after it. */
  public int writeTo(byte[] target, int offset) {
    int at = offset;
    long state = seed;
    for (int last = offset + random - Long.BYTES; at <= last; at += Long.BYTES) {
      state += Mixing.GOLDEN;
      LONGS.set(target, at, scramble(state));
    }
    long rest = scramble(state + Mixing.GOLDEN);
    for (; at < offset + random; at++) {
      target[at] = (byte) rest;
      rest >>>= Byte.SIZE;
    }
    Arrays.fill(target, offset + random, offset + length, FILLER);
    return offset + length;
  }

  /** Eight random bytes of a counter: both halves of a product of 128 bits, which costs half of what {@link Mixing#mix} does. */
  private static long scramble(long state) {
    long other = state ^ SCRAMBLER;
    return state * other ^ Math.multiplyHigh(state, other);
  }

  /** The value as text. */
  public String toText() {
    byte[] text = toBytes();
    for (int i = 0; i < random; i++) {
      text[i] = ALPHABET[text[i] & 63];
    }
    return new String(text, StandardCharsets.ISO_8859_1);
  }

  /** The character of the alphabet at a rank in [0, 64). */
  static char letter(int rank) {
    return (char) ALPHABET[rank];
  }
}
