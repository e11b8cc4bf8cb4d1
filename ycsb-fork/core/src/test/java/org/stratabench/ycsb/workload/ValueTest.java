// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Properties;
import java.util.SplittableRandom;
import java.util.zip.Deflater;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.stratabench.ycsb.Settings;

class ValueTest {
  @Property(tries = 200)
  void bytesAreTheSameWhereverTheyAreWritten(@ForAll long seed, @ForAll @IntRange(max = 100) int length, @ForAll @IntRange(max = 10) int offset) {
    Value value = value(seed, length, length);
    byte[] whole = value.toBytes();
    assertEquals(length, whole.length);
    byte[] target = new byte[offset + length + 1];
    assertEquals(offset + length, value.writeTo(target, offset));
    assertArrayEquals(whole, Arrays.copyOfRange(target, offset, offset + length));
    assertEquals(0, target[offset + length]);
    // a shorter value of the same seed is the beginning of a longer one
    assertArrayEquals(Arrays.copyOf(whole, length / 2), value(seed, length / 2, length / 2).toBytes());
  }

  @Test
  void everyByteValueIsEquallyLikely() {
    long[] observed = new long[256];
    for (byte b : value(5, 1 << 20, 1 << 20).toBytes()) {
      observed[b & 255]++;
    }
    double[] expected = new double[256];
    Arrays.fill(expected, 1.0 / 256);
    ChiSquare.assertFits(expected, observed);
  }

  @Test
  void deflateFindsNothingToSave() {
    assertTrue(deflated(value(1, 1 << 20, 1 << 20).toBytes()) >= 1 << 20);
  }

  @ParameterizedTest
  @ValueSource(doubles = {0, 0.25, 0.5, 0.75, 0.95})
  void aDatabasesBlocksCompressAsAskedFor(double compressibility) {
    Properties properties = new Properties();
    properties.setProperty("value.compressibility", Double.toString(compressibility));
    WorkloadSpec spec = new WorkloadSpec(new Settings(properties));
    int length = 1000;
    byte[] block = new byte[64 * length];
    for (int i = 0; i < 64; i++) {
      value(i, length, spec.randomBytes(length)).writeTo(block, i * length);
    }
    assertEquals(1 - compressibility, (double) deflated(block) / block.length, 0.02);
  }

  private static int deflated(byte[] bytes) {
    Deflater deflater = new Deflater(Deflater.BEST_COMPRESSION);
    deflater.setInput(bytes);
    deflater.finish();
    int size = deflater.deflate(new byte[bytes.length * 2]);
    deflater.end();
    return size;
  }

  @Test
  void textHasTheSameLengthAndItsAlphabetIsInOrder() {
    String text = value(3, 100_000, 100_000).toText();
    assertEquals(100_000, text.length());
    assertEquals(64, text.chars().distinct().count());
    assertTrue(text.chars().allMatch(c -> c < 128 && (Character.isLetterOrDigit(c) || c == '-' || c == '_')));
    for (int i = 1; i < 64; i++) {
      assertTrue(Value.letter(i - 1) < Value.letter(i));
    }
    long[] observed = new long[64];
    text.chars().forEach(c -> observed["-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz".indexOf(c)]++);
    double[] expected = new double[64];
    Arrays.fill(expected, 1.0 / 64);
    ChiSquare.assertFits(expected, observed);
  }

  @ParameterizedTest
  @ValueSource(doubles = {0.001, 0.1, 0.5, 0.9})
  void aFilterSelectsItsShareOfBytesAndOfText(double selectivity) {
    Filter filter = Filter.selecting("field0", selectivity);
    SplittableRandom random = new SplittableRandom(8);
    int values = 200_000;
    long[] bytes = new long[2];
    long[] text = new long[2];
    for (int i = 0; i < values; i++) {
      Value value = value(random.nextLong(), 20, 20);
      bytes[Arrays.compareUnsigned(value.toBytes(), filter.below()) < 0 ? 0 : 1]++;
      text[Arrays.compareUnsigned(value.toText().getBytes(StandardCharsets.US_ASCII),
          filter.belowText().getBytes(StandardCharsets.US_ASCII)) < 0 ? 0 : 1]++;
    }
    ChiSquare.assertFits(new double[] {selectivity, 1 - selectivity}, bytes);
    ChiSquare.assertFits(new double[] {selectivity, 1 - selectivity}, text);
  }

  private static Value value(long seed, int length, int random) {
    Value value = new Value();
    value.set(seed, length, random);
    return value;
  }
}
