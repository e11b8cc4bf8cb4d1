// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.regex.Pattern;

/** Keeps passwords and keys out of everything the client writes. */
public final class Secrets {
  private static final String WORDS = "(?:passw|passphrase|pwd|secret|token|credential"
      + "|(?:api|access|private|primary|secondary|account|shared)[._-]?key|jwt)";
  /** Too short to be looked for within other words. */
  private static final String WHOLE_WORDS = "(?:pass|key)";
  private static final Pattern SECRET = Pattern.compile("(?i).*" + WORDS + ".*|(?:.*[._-])?" + WHOLE_WORDS);
  /** Up to the last at sign of the authority, for a password may have one that nobody has escaped. */
  private static final Pattern URL_PASSWORD = Pattern.compile("(://[^/@:\\s]*:)[^/\\s]*(?=@)");
  private static final Pattern PARAMETER =
      Pattern.compile("(?i)((?:^|[?&;])(?:[^=?&;]*" + WORDS + "[^=?&;]*|" + WHOLE_WORDS + ")=)[^&;]*");

  private Secrets() {
  }

  /** All properties, sorted by name; stars replace the values of those that sound like a secret, and secrets in URLs. */
  public static Map<String, String> masked(Properties properties) {
    Map<String, String> masked = new TreeMap<>();
    for (String name : properties.stringPropertyNames()) {
      masked.put(name, shown(name, properties.getProperty(name)));
    }
    return masked;
  }

  /** The value of one property as it may be shown. */
  static String shown(String name, String value) {
    return SECRET.matcher(name).matches() ? "***" : withoutSecrets(value);
  }

  private static String withoutSecrets(String value) {
    return PARAMETER.matcher(URL_PASSWORD.matcher(value).replaceAll("$1***")).replaceAll("$1***");
  }
}
