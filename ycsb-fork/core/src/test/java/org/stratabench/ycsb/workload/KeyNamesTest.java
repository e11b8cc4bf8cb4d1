// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.SplittableRandom;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;
import site.ycsb.Utils;

class KeyNamesTest {
  @Property(tries = 500)
  void hashedKeysAreYcsbs(@ForAll @LongRange(min = 0) long number) {
    assertEquals("user" + Utils.hash(number), new KeyNames(true, 1).name(number));
  }

  @Property(tries = 200)
  void orderedKeysArePaddedToTheirWidth(@ForAll @LongRange(min = 0) long number, @ForAll @IntRange(min = 1, max = 30) int padding) {
    assertEquals("user" + String.format("%0" + padding + "d", number), new KeyNames(false, padding).name(number));
  }

  @Property(tries = 300)
  void aReusedKeyIsTheSameInEveryForm(@ForAll @Size(min = 1, max = 5) List<@LongRange(min = 0) Long> numbers,
      @ForAll @IntRange(max = 40) int padding) {
    KeyNames names = new KeyNames(false, padding);
    Key key = new Key();
    for (long number : numbers) {
      names.name(number, key);
      String expected = "user" + (padding == 0 ? Long.toString(number) : String.format("%0" + padding + "d", number));
      assertEquals(expected, key.toString());
      assertEquals(expected, new String(key.toBytes(), StandardCharsets.US_ASCII));
      byte[] target = new byte[key.length() + 3];
      assertEquals(key.length() + 2, key.writeTo(target, 2));
      StringBuilder bytes = new StringBuilder();
      for (int i = 0; i < key.length(); i++) {
        assertEquals(target[2 + i], key.byteAt(i));
        bytes.append((char) key.byteAt(i));
      }
      assertEquals(expected, bytes.toString());
    }
  }

  @Test
  void theLogsHashIsSplitMixFolded() {
    // the first number that SplitMix64 gives from a seed is the finaliser of the seed plus the golden gamma
    long hash = new SplittableRandom(42).nextLong();
    Key key = new Key();
    new KeyNames(false, 1).name(42, key);
    assertEquals((int) (hash ^ hash >>> 32), key.hash());
  }
}
