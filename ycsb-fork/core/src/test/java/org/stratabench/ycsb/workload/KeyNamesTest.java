// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
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

  @Test
  void theLogsHashIsFnv1aFolded() {
    // offset and prime from the FNV specification, the arithmetic in unbounded integers
    BigInteger hash = new BigInteger("14695981039346656037");
    for (byte b : "user42".getBytes(StandardCharsets.US_ASCII)) {
      hash = hash.xor(BigInteger.valueOf(b)).multiply(new BigInteger("1099511628211")).mod(BigInteger.TWO.pow(64));
    }
    BigInteger folded = hash.shiftRight(32).xor(hash).mod(BigInteger.TWO.pow(32));
    assertEquals(folded.longValueExact(), Integer.toUnsignedLong(KeyNames.foldedHash("user42")));
  }
}
