// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.zip.Deflater;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;

class RandomValueTest {
  @Property(tries = 200)
  void bytesAreTheSameHoweverTheyAreRead(@ForAll long seed, @ForAll @IntRange(max = 100) int length,
      @ForAll @IntRange(max = 10) int readBefore) {
    byte[] whole = new RandomValue(seed, length).toArray();
    assertEquals(length, whole.length);
    RandomValue value = new RandomValue(seed, length);
    byte[] pieces = new byte[length];
    int at = 0;
    while (at < Math.min(readBefore, length)) {
      pieces[at++] = value.nextByte();
    }
    assertEquals(length - at, value.bytesLeft());
    byte[] rest = value.toArray();
    System.arraycopy(rest, 0, pieces, at, rest.length);
    assertArrayEquals(whole, pieces);
    assertFalse(value.hasNext());
    value.reset();
    byte[] buffer = new byte[length];
    assertEquals(length, value.nextBuf(buffer, 0));
    assertArrayEquals(whole, buffer);
  }

  @Test
  void deflateFindsNothingToSave() {
    byte[] bytes = new RandomValue(1, 1 << 20).toArray();
    Deflater deflater = new Deflater(Deflater.BEST_COMPRESSION);
    deflater.setInput(bytes);
    deflater.finish();
    int size = deflater.deflate(new byte[bytes.length * 2]);
    deflater.end();
    assertTrue(size >= bytes.length, "deflated to " + size);
  }
}
