// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Properties that remember what they were asked for.
 *
 * <p>A binding may have properties that only it knows, so an unknown name is no error, as in YCSB. But one that nobody has asked for and that is
 * almost one that somebody has is a slip of the pen, and the run is not what its user believes.
 */
public final class WatchedProperties extends Properties {
  private static final long serialVersionUID = 1L;
  private static final int SHORT = 5;
  private static final int LONG = 8;

  private final transient Set<String> asked = ConcurrentHashMap.newKeySet();

  /** The other form of this method comes here, too. */
  @Override
  public String getProperty(String key) {
    asked.add(key);
    return super.getProperty(key);
  }

  /** A sentence for each slip among the names given. */
  public List<String> slips() {
    List<String> slips = new ArrayList<>();
    Set<String> known = new TreeSet<>(asked);
    for (String given : new TreeSet<>(stringPropertyNames())) {
      String meant = known.contains(given) ? null : nearest(given, known);
      if (meant != null) {
        slips.add("nobody has read the property " + given + "; is " + meant + " meant?");
      }
    }
    return slips;
  }

  /** The name that a given one almost is, or null: case and separators make no difference, nor do one or two letters of a long name. */
  private static String nearest(String given, Set<String> known) {
    String letters = letters(given);
    int most = letters.length() < SHORT ? 0 : letters.length() < LONG ? 1 : 2;
    String nearest = null;
    for (String name : known) {
      int distance = distance(letters, letters(name));
      if (distance <= most) {
        nearest = name;
        most = distance - 1;
      }
    }
    return nearest;
  }

  private static String letters(String name) {
    return name.toLowerCase(Locale.ROOT).replaceAll("[._-]", "");
  }

  /** How many letters must be put in, left out or replaced to make one word of the other (Levenshtein 1966). */
  private static int distance(String one, String other) {
    int[] before = new int[other.length() + 1];
    for (int j = 0; j < before.length; j++) {
      before[j] = j;
    }
    for (int i = 1; i <= one.length(); i++) {
      int[] row = new int[before.length];
      row[0] = i;
      for (int j = 1; j < row.length; j++) {
        int replaced = before[j - 1] + (one.charAt(i - 1) == other.charAt(j - 1) ? 0 : 1);
        row[j] = Math.min(replaced, Math.min(before[j], row[j - 1]) + 1);
      }
      before = row;
    }
    return before[other.length()];
  }
}
