// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.regex.Pattern;

/** Keeps passwords and keys out of everything the client writes. */
public final class Secrets {
  private static final String WORDS =
      "(?:passw|passphrase|pwd|secret|token|credential|api[._-]?key|access[._-]?key|private[._-]?key|jwt)";
  private static final Pattern SECRET = Pattern.compile("(?i).*" + WORDS + ".*");
  private static final Pattern URL_PASSWORD = Pattern.compile("(://[^/@:\\s]*:)[^/@\\s]*(?=@)");
  private static final Pattern URL_PARAMETER = Pattern.compile("(?i)([?&;][^=?&;]*" + WORDS + "[^=?&;]*=)[^&;]*");

  private Secrets() {
  }

  /** All properties, sorted by name; stars replace the values of those that sound like a secret, and secrets in URLs. */
  public static Map<String, String> masked(Properties properties) {
    Map<String, String> masked = new TreeMap<>();
    for (String name : properties.stringPropertyNames()) {
      masked.put(name, SECRET.matcher(name).matches() ? "***" : withoutSecrets(properties.getProperty(name)));
    }
    return masked;
  }

  private static String withoutSecrets(String value) {
    return URL_PARAMETER.matcher(URL_PASSWORD.matcher(value).replaceAll("$1***")).replaceAll("$1***");
  }
}
