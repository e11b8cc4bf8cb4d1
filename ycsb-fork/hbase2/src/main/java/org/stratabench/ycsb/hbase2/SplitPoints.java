// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.stratabench.ycsb.Settings;

/**
 * Where to cut a table so that YCSB's keys spread evenly over its regions.
 *
 * <p>Hashed keys are {@code user} and the decimal digits of a number uniform in [0, 2^63), without leading zeros, and HBase orders them as
 * text. Let Y be a key's digits read as 19 digits (shorter numbers filled up with zeros on the right). Up to Y = 2^63 numbers of every
 * length from 1 to 19 digits occur, above only those of 18 or fewer, so the share of keys below Y is, with a precision of 10^-17,
 * <pre>
 *   (Y - 10^18) * 10/9 / 2^63                         for Y up to 2^63
 *   ((2^63 - 10^18) * 10/9 + (Y - 2^63) / 9) / 2^63   above
 * </pre>
 * Solved for cut j of n regions (j = 1..n-1), in whole numbers rounded down:
 * <pre>
 *   Y = 10^18 + 9 * j * 2^63 / (10 * n)
 *   if Y is above 2^63: Y = 9 * j * 2^63 / n - 9 * 2^63 + 10^19
 *   cut = "user" + the first 6 digits of Y
 * </pre>
 * With {@code zeropadding} of 19 or more all keys have equal length and cut j is {@code user} and j * 2^63 / n, padded alike. With
 * {@code insertorder=ordered} cut j is the padded key number {@code j * recordcount / n}; that needs padding to at least the digits of the
 * highest key, since text and numbers sort differently otherwise, and a record for each region.
 */
public final class SplitPoints {
  private static final String REGIONS = "hbase.table.splits";
  private static final String POINTS = "hbase.table.splitpoints";
  private static final Pattern REGION_COUNT = Pattern.compile("(\\d{1,9})(-per-server)?");
  private static final int MOST_REGIONS = 10_000;
  private static final int HASH_DIGITS = 19;
  private static final int CUT_DIGITS = 6;
  private static final String PREFIX = "user";
  private static final BigInteger HASHES = BigInteger.TWO.pow(63);
  private static final BigInteger NINE = BigInteger.valueOf(9);

  private SplitPoints() {
  }

  /**
   * The cuts that the properties ask for: {@code hbase.table.splitpoints}, or as many as {@code hbase.table.splits} regions need.
   *
   * @param servers live region servers, for a number of regions on each
   */
  public static List<String> from(Settings settings, int servers) {
    String given = settings.text(POINTS, "");
    if (!given.isEmpty()) {
      return given(given);
    }
    int regions = regions(settings, servers);
    int padding = (int) settings.wholeNumber("zeropadding", 1, 0, 1000);
    if (settings.text("insertorder", "hashed").equals("ordered")) {
      return ordered(regions, padding, settings.count("recordcount", 0), settings.text(REGIONS, "1"));
    }
    return padding < HASH_DIGITS ? hashed(regions) : padded(regions, padding, HASHES);
  }

  private static List<String> given(String given) {
    List<String> cuts = Arrays.stream(given.split(",", -1)).map(String::trim).toList();
    if (cuts.contains("") || new HashSet<>(cuts).size() < cuts.size()) {
      throw Settings.refuse(POINTS, given, "must be different keys, separated by commas");
    }
    return cuts;
  }

  private static int regions(Settings settings, int servers) {
    String wanted = settings.text(REGIONS, "1");
    Matcher number = REGION_COUNT.matcher(wanted);
    if (!number.matches()) {
      throw Settings.refuse(REGIONS, wanted, "is neither a number of regions nor N-per-server");
    }
    long regions = Long.parseLong(number.group(1)) * (number.group(2) == null ? 1 : Math.max(1, servers));
    if (regions < 1 || regions > MOST_REGIONS) {
      throw Settings.refuse(REGIONS, wanted, "makes " + regions + " regions; must lie between 1 and " + MOST_REGIONS);
    }
    return (int) regions;
  }

  /** The cuts for hashed keys without padding. */
  public static List<String> hashed(int regions) {
    List<String> cuts = new ArrayList<>();
    BigInteger smallest = BigInteger.TEN.pow(HASH_DIGITS - 1);
    for (int j = 1; j < regions; j++) {
      BigInteger weight = NINE.multiply(BigInteger.valueOf(j)).multiply(HASHES);
      BigInteger y = smallest.add(weight.divide(BigInteger.valueOf(10L * regions)));
      if (y.compareTo(HASHES) > 0) {
        y = weight.divide(BigInteger.valueOf(regions)).subtract(NINE.multiply(HASHES)).add(BigInteger.TEN.pow(HASH_DIGITS));
      }
      cuts.add(PREFIX + y.toString().substring(0, CUT_DIGITS));
    }
    return cuts;
  }

  private static List<String> ordered(int regions, int padding, long records, String wanted) {
    if (regions > 1 && padding < Long.toString(Math.max(0, records - 1)).length()) {
      throw Settings.refuse(REGIONS, Integer.toString(regions), "with insertorder=ordered needs zeropadding of at least "
          + Long.toString(Math.max(0, records - 1)).length() + "; or give hbase.table.splitpoints");
    }
    if (regions > 1 && regions > records) {
      // two cuts would be the same key, which HBase refuses
      throw Settings.refuse(REGIONS, wanted, "with insertorder=ordered makes " + regions + " regions of recordcount=" + records
          + " records; make it " + records + " at most, or give hbase.table.splitpoints");
    }
    return padded(regions, padding, BigInteger.valueOf(records));
  }

  private static List<String> padded(int regions, int padding, BigInteger numbers) {
    List<String> cuts = new ArrayList<>();
    for (int j = 1; j < regions; j++) {
      String digits = numbers.multiply(BigInteger.valueOf(j)).divide(BigInteger.valueOf(regions)).toString();
      cuts.add(PREFIX + "0".repeat(Math.max(0, padding - digits.length())) + digits);
    }
    return cuts;
  }
}
