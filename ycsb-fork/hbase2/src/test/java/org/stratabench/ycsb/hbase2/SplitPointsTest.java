// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.stream.LongStream;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.UsageException;
import org.stratabench.ycsb.workload.KeyNames;

class SplitPointsTest {
  @Test
  void tenThousandKeysSpreadEvenlyOverTwelveRegions() {
    assertSpread(SplitPoints.hashed(12), new KeyNames(true, 1), 10_000, 0.12);
  }

  @Test
  void aMillionKeysSpreadWithinTwoPercentOverTwelveRegions() {
    assertSpread(SplitPoints.hashed(12), new KeyNames(true, 1), 1_000_000, 0.02);
  }

  @Test
  void manyRegionsReachBeyondTheHighestFirstDigits() {
    // 400 regions of 2500 keys each: four standard deviations of a region are 8 %
    assertSpread(SplitPoints.hashed(400), new KeyNames(true, 1), 1_000_000, 0.09);
  }

  @Test
  void paddedKeysSpreadToo() {
    assertSpread(SplitPoints.from(settings("hbase.table.splits", "7", "zeropadding", "24"), 3), new KeyNames(true, 24), 100_000, 0.05);
  }

  @Test
  void orderedKeysSpreadExactly() {
    List<String> cuts = SplitPoints.from(settings("hbase.table.splits", "4", "insertorder", "ordered", "zeropadding", "10",
        "recordcount", "1000"), 3);
    assertEquals(List.of("user0000000250", "user0000000500", "user0000000750"), cuts);
  }

  @Test
  void orderedKeysWithoutPaddingAreRefused() {
    Settings settings = settings("hbase.table.splits", "4", "insertorder", "ordered", "recordcount", "1000");
    assertTrue(assertThrows(UsageException.class, () -> SplitPoints.from(settings, 3)).getMessage().contains("zeropadding of at least 3"));
  }

  @Test
  void moreRegionsThanOrderedKeysAreRefused() {
    String[] four = {"hbase.table.splits", "4", "insertorder", "ordered", "zeropadding", "10", "recordcount", "4"};
    List<String> cuts = SplitPoints.from(settings(four), 1);
    assertEquals(List.of("user0000000001", "user0000000002", "user0000000003"), cuts);
    four[1] = "2-per-server";
    String message = assertThrows(UsageException.class, () -> SplitPoints.from(settings(four), 3)).getMessage();
    assertTrue(message.startsWith("property hbase.table.splits=2-per-server ") && message.contains("6 regions of recordcount=4"), message);
  }

  @Test
  void explicitPointsWin() {
    assertEquals(List.of("a", "b"), SplitPoints.from(settings("hbase.table.splits", "4", "hbase.table.splitpoints", "a, b"), 3));
  }

  @Test
  void regionsPerServerFollowTheClusterAndAPlainNumberDoesNot() {
    assertEquals(SplitPoints.hashed(12), SplitPoints.from(settings("hbase.table.splits", "4-per-server"), 3));
    assertEquals(SplitPoints.hashed(4), SplitPoints.from(settings("hbase.table.splits", "4"), 3));
    assertEquals(List.of(), SplitPoints.from(settings(), 3));
  }

  @ParameterizedTest
  @ValueSource(strings = {"0", "-1", "x", "3-per-host", "4000-per-server", "10001", "", "1.5"})
  void otherCountsAreRefusedByName(String count) {
    Settings settings = settings("hbase.table.splits", count);
    String message = assertThrows(UsageException.class, () -> SplitPoints.from(settings, 3)).getMessage();
    assertTrue(message.startsWith("property hbase.table.splits=" + count + " "), message);
  }

  @ParameterizedTest
  @ValueSource(strings = {"a,,b", "a,b,a", ",a", "a,"})
  void cutsThatHBaseWouldRefuseAreRefusedBefore(String points) {
    Settings settings = settings("hbase.table.splitpoints", points);
    assertTrue(assertThrows(UsageException.class, () -> SplitPoints.from(settings, 3)).getMessage().contains("must be different keys"));
  }

  @Property
  void cutsAscendAndAreOneFewerThanRegions(@ForAll @IntRange(min = 1, max = 10_000) int regions) {
    List<String> cuts = SplitPoints.hashed(regions);
    assertEquals(regions - 1, cuts.size());
    for (int i = 1; i < cuts.size(); i++) {
      assertTrue(cuts.get(i - 1).compareTo(cuts.get(i)) < 0);
    }
  }

  /** The same list lets other implementations of the formula check themselves. */
  @Test
  void twelveRegionsAreAsPublished() throws IOException {
    try (BufferedReader lines = new BufferedReader(
        new InputStreamReader(getClass().getResourceAsStream("/splitpoints-12.txt"), StandardCharsets.UTF_8))) {
      assertEquals(lines.lines().toList(), SplitPoints.hashed(12));
    }
  }

  private static void assertSpread(List<String> cuts, KeyNames names, int keys, double tolerance) {
    long[] regions = new long[cuts.size() + 1];
    LongStream.range(0, keys).mapToObj(names::name)
        .forEach(key -> regions[region(cuts, key)]++);
    double even = (double) keys / regions.length;
    for (int i = 0; i < regions.length; i++) {
      assertEquals(even, regions[i], tolerance * even, "keys in region " + i);
    }
  }

  /** A region holds its own first key and ends before the next region's. */
  private static int region(List<String> cuts, String key) {
    int found = Collections.binarySearch(cuts, key);
    return found >= 0 ? found + 1 : -found - 1;
  }

  private static Settings settings(String... pairs) {
    Properties properties = new Properties();
    for (int i = 0; i < pairs.length; i += 2) {
      properties.setProperty(pairs[i], pairs[i + 1]);
    }
    return new Settings(properties);
  }
}
