// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/** The few AQL queries that {@link ArangoStandIn} understands, evaluated as ArangoDB's manual describes them; it refuses every other one. */
final class StandInQueries {
  /** Where a string sorts in a collation of ICU: punctuation, digits, letters of either case; only then upper case before lower. */
  static final Comparator<String> COLLATION = Comparator.<String, String>comparing(StandInQueries::primary)
      .thenComparing(Comparator.naturalOrder());

  private static final String RETURNED = "RETURN (?<returned>d|KEEP\\(d, @fields\\))";
  private static final Pattern SCAN =
      Pattern.compile("FOR d IN @@collection FILTER d\\._key >= @start SORT d\\._key LIMIT @limit " + RETURNED);
  private static final Pattern FILTERED = Pattern.compile("FOR d IN @@collection FILTER d\\._key >= @start "
      + "FILTER (?<left>TO_HEX\\(LEFT\\(d\\.@field, @length\\)\\)|d\\.@field) < @below SORT d\\._key LIMIT @limit " + RETURNED);
  private static final Pattern LOOKUP = Pattern.compile("FOR d IN @@collection FILTER d\\.@field == @value LIMIT @limit " + RETURNED);
  private static final Pattern TRAVERSAL = Pattern.compile("WITH @@collection FOR d IN 1\\.\\.@depth OUTBOUND @start @@edges "
      + "OPTIONS \\{order: \"bfs\", uniqueVertices: \"global\"\\} FILTER d != null RETURN d");

  private final StandInStore store;
  private final String database;
  private final JsonNode parameters;

  private StandInQueries(StandInStore store, String database, JsonNode parameters) {
    this.store = store;
    this.database = database;
    this.parameters = parameters;
  }

  /** All results of a query. */
  static List<JsonNode> evaluate(StandInStore store, String database, String text, JsonNode parameters) {
    return new StandInQueries(store, database, parameters).evaluate(text);
  }

  private List<JsonNode> evaluate(String text) {
    if (TRAVERSAL.matcher(text).matches()) {
      return traverse();
    }
    for (Pattern shape : List.of(SCAN, FILTERED, LOOKUP)) {
      Matcher matcher = shape.matcher(text);
      if (matcher.matches()) {
        Stream<ObjectNode> found = collection().values().stream().filter(condition(shape, matcher));
        if (shape != LOOKUP) {
          found = found.sorted(Comparator.comparing(document -> document.path("_key").asText(), COLLATION));
        }
        boolean whole = matcher.group("returned").equals("d");
        return found.limit(bound("limit").asLong()).<JsonNode>map(document -> whole ? document : keep(document)).toList();
      }
    }
    throw new StandInStore.Refusal(400, 1501, "the stand-in does not know this query: " + text);
  }

  private Predicate<ObjectNode> condition(Pattern shape, Matcher matcher) {
    if (shape == LOOKUP) {
      return document -> document.path(bound("field").asText()).isNumber()
          && document.path(bound("field").asText()).asLong() == bound("value").asLong();
    }
    Predicate<ObjectNode> fromStart = document -> COLLATION.compare(document.path("_key").asText(), bound("start").asText()) >= 0;
    if (shape == SCAN) {
      return fromStart;
    }
    boolean hexadecimal = matcher.group("left").startsWith("TO_HEX");
    return fromStart.and(document -> {
      String value = document.path(bound("field").asText()).asText();
      String left = hexadecimal ? hex(value.substring(0, Math.min(value.length(), bound("length").asInt()))) : value;
      return COLLATION.compare(left, bound("below").asText()) < 0;
    });
  }

  private List<JsonNode> traverse() {
    TreeMap<String, ObjectNode> edges = store.collection(database, bound("@edges").asText()).documents();
    String collection = bound("@collection").asText();
    Deque<String> level = new ArrayDeque<>(List.of(bound("start").asText()));
    Set<String> visited = new HashSet<>(level);
    List<JsonNode> reached = new ArrayList<>();
    for (int depth = 1; depth <= bound("depth").asInt(); depth++) {
      Deque<String> next = new ArrayDeque<>();
      for (String from : level) {
        edges.values().stream().filter(edge -> edge.path("_from").asText().equals(from)).map(edge -> edge.path("_to").asText())
            .filter(visited::add).forEach(next::add);
      }
      for (String id : next) {
        ObjectNode vertex = store.collection(database, collection).documents().get(id.substring(id.indexOf('/') + 1));
        if (vertex != null) {
          reached.add(vertex);
        }
      }
      level = next;
    }
    return reached;
  }

  private TreeMap<String, ObjectNode> collection() {
    return store.collection(database, bound("@collection").asText()).documents();
  }

  private JsonNode bound(String name) {
    JsonNode value = parameters.get(name);
    if (value == null) {
      throw new StandInStore.Refusal(400, 1551, "no value specified for declared bind parameter '" + name + "'");
    }
    return value;
  }

  private ObjectNode keep(ObjectNode document) {
    ObjectNode kept = JsonNodeFactory.instance.objectNode();
    bound("fields").forEach(field -> kept.set(field.asText(), document.get(field.asText())));
    return kept;
  }

  private static String hex(String text) {
    return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
  }

  private static String primary(String text) {
    StringBuilder weights = new StringBuilder();
    for (char c : text.toCharArray()) {
      weights.append((char) ((Character.isLetter(c) ? 2000 : Character.isDigit(c) ? 1000 : 0) + Character.toLowerCase(c)));
    }
    return weights.toString();
  }
}
