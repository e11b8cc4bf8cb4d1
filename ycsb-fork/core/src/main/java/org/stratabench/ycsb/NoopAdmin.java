// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** Maintenance of the database that is none: every verb succeeds and there is never a row. */
public final class NoopAdmin implements DatabaseAdmin {
  @Override
  public Map<String, Object> perform(String verb, Properties properties) {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("ok", true);
    switch (verb) {
      case "count" -> answer.put("rows", 0);
      case "drop" -> answer.put("dropped", false);
      case "status" -> {
        answer.put("version", null);
        answer.put("live_servers", List.of());
        answer.put("regions", Map.of());
      }
      default -> { }
    }
    return answer;
  }
}
