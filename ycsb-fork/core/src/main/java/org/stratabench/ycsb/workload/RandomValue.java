// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import site.ycsb.ByteIterator;

/** Random bytes that no compression makes smaller, produced eight at a time when they are read; equal seeds give equal bytes. */
final class RandomValue extends ByteIterator {
  private final long seed;
  private final int length;
  private int position;

  RandomValue(long seed, int length) {
    this.seed = seed;
    this.length = length;
  }

  @Override
  public boolean hasNext() {
    return position < length;
  }

  @Override
  public byte nextByte() {
    long word = word(position >>> 3);
    int shift = (position & 7) << 3;
    position++;
    return (byte) (word >>> shift);
  }

  @Override
  public int nextBuf(byte[] buffer, int offset) {
    int at = offset;
    while (at < buffer.length && position < length) {
      buffer[at++] = nextByte();
    }
    return at;
  }

  @Override
  public long bytesLeft() {
    return length - position;
  }

  @Override
  public void reset() {
    position = 0;
  }

  @Override
  public byte[] toArray() {
    byte[] bytes = new byte[length - position];
    int at = 0;
    while (at < bytes.length && (position & 7) != 0) {
      bytes[at++] = nextByte();
    }
    while (at + Long.BYTES <= bytes.length) {
      long word = word(position >>> 3);
      for (int i = 0; i < Long.BYTES; i++) {
        bytes[at + i] = (byte) (word >>> (i << 3));
      }
      at += Long.BYTES;
      position += Long.BYTES;
    }
    while (at < bytes.length) {
      bytes[at++] = nextByte();
    }
    return bytes;
  }

  private long word(int index) {
    return Mixing.mix(seed + (index + 1L) * Mixing.GOLDEN);
  }
}
