// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonArray;
import com.google.gson.JsonParser;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;

class JsonTest {
  @Property
  void everyStringComesBack(@ForAll String text) {
    String unpaired = text.replaceAll("[\\ud800-\\udfff]", "");
    assertEquals(unpaired, JsonParser.parseString(Json.line(unpaired)).getAsString());
  }

  @Test
  void numbersNullsAndNestingComeBack() {
    Map<String, Object> value = Map.of("list", Arrays.asList(1L, 2.5, null, true, Double.NaN), "empty", List.of());
    for (String text : List.of(Json.line(value), Json.indented(value))) {
      JsonArray list = JsonParser.parseString(text).getAsJsonObject().getAsJsonArray("list");
      assertEquals("[1,2.5,null,true,null]", list.toString());
    }
  }
}
