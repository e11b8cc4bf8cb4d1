// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import java.util.Arrays;
import java.util.Map;
import java.util.Properties;

/** Typed, checked access to the properties of a run; every refusal names the property and its value. */
public final class Settings {
  /** Most bytes that one value may have: 1 GiB. */
  public static final int MOST_BYTES = 1 << 30;

  private final Properties properties;
  private final Map<String, String> wrong;

  public Settings(Properties properties) {
    this(properties, null);
  }

  /** @param wrong takes what is wrong with each property, which then counts as absent; null for an end with the first one that is */
  public Settings(Properties properties, Map<String, String> wrong) {
    this.properties = properties;
    this.wrong = wrong;
  }

  /** The properties as given. */
  public Properties properties() {
    return properties;
  }

  /** The value without surrounding blanks, or {@code fallback} when the property is absent. */
  public String text(String key, String fallback) {
    String value = properties.getProperty(key);
    return value == null ? fallback : value.trim();
  }

  /** A whole number in [{@code min}, {@code max}]. */
  public long wholeNumber(String key, long fallback, long min, long max) {
    String value = text(key, null);
    if (value == null) {
      return fallback;
    }
    long number;
    try {
      number = Long.parseLong(value);
    } catch (NumberFormatException e) {
      reject(key, value, "is not a whole number");
      return fallback;
    }
    if (number < min || number > max) {
      reject(key, value, max == Long.MAX_VALUE ? "must be at least " + min : "must lie between " + min + " and " + max);
      return fallback;
    }
    return number;
  }

  /** A count of things, zero or more. */
  public long count(String key, long fallback) {
    return wholeNumber(key, fallback, 0, Long.MAX_VALUE);
  }

  /** A finite number in [{@code min}, {@code max}]. */
  public double number(String key, double fallback, double min, double max) {
    String value = text(key, null);
    if (value == null) {
      return fallback;
    }
    double number;
    try {
      number = Double.parseDouble(value);
    } catch (NumberFormatException e) {
      reject(key, value, "is not a number");
      return fallback;
    }
    if (!(number >= min && number <= max) || Double.isInfinite(number)) {
      reject(key, value, max == Double.MAX_VALUE ? "must be at least " + min : "must lie between " + min + " and " + max);
      return fallback;
    }
    return number;
  }

  /** {@code true} or {@code false}, in any case. */
  public boolean flag(String key, boolean fallback) {
    String value = text(key, null);
    if (value == null) {
      return fallback;
    }
    if (!value.equalsIgnoreCase("true") && !value.equalsIgnoreCase("false")) {
      reject(key, value, "must be true or false");
      return fallback;
    }
    return value.equalsIgnoreCase("true");
  }

  /** One of {@code allowed}. */
  public String choice(String key, String fallback, String... allowed) {
    String value = text(key, fallback);
    if (!Arrays.asList(allowed).contains(value)) {
      reject(key, value, "must be one of " + String.join(", ", allowed));
      return fallback;
    }
    return value;
  }

  /** Refuses one property; comes back only where all that is wrong is gathered, and keeps what was said of the property first. */
  public void reject(String key, String value, String why) {
    UsageException refusal = refuse(key, value, why);
    if (wrong == null) {
      throw refusal;
    }
    wrong.putIfAbsent(key, refusal.getMessage());
  }

  /** Does a part of a check; where all that is wrong is gathered, its refusal is noted and does not end the parts after it. */
  public void part(Runnable check) {
    try {
      check.run();
    } catch (UsageException e) {
      if (wrong == null || e instanceof UnreadableFileException) {
        throw e;
      }
      wrong.putIfAbsent(e.getMessage(), e.getMessage());
    }
  }

  /** The refusal of one property, in the words all refusals share. */
  public static UsageException refuse(String key, String value, String why) {
    return new UsageException(words(key, value, why));
  }

  /** The refusal of a property that names a file which cannot be read, or is not there. */
  public static UnreadableFileException unreadable(String key, String file, String why) {
    return new UnreadableFileException(words(key, file, "cannot be read" + why));
  }

  private static String words(String key, String value, String why) {
    return "property " + key + "=" + Secrets.shown(key, value) + " " + why;
  }
}
