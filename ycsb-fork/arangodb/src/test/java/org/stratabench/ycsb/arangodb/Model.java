// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.stratabench.ycsb.workload.Filter;
import org.stratabench.ycsb.workload.Item;

/** What should be in the database, kept from the requests that were sent: the suite's source of truth. */
final class Model {
  /** One record. */
  record Row(Map<String, String> fields, long secondary, List<String> edges) { }

  private final TreeMap<String, Row> rows = new TreeMap<>();

  void insert(Item item) {
    List<String> edges = new ArrayList<>();
    for (int i = 0; i < item.edgeCount(); i++) {
      edges.add(item.edge(i).toString());
    }
    rows.put(item.key().toString(), new Row(fields(item), item.secondary(), edges));
  }

  void update(Item item) {
    rows.get(item.key().toString()).fields().putAll(fields(item));
  }

  void delete(String key) {
    rows.remove(key);
  }

  private static Map<String, String> fields(Item item) {
    Map<String, String> fields = new HashMap<>();
    for (int i = 0; i < item.fields().size(); i++) {
      fields.put(item.fields().get(i), item.value(i).toText());
    }
    return fields;
  }

  Row row(String key) {
    return rows.get(key);
  }

  Set<String> keys() {
    return rows.keySet();
  }

  /** Keys from {@code start} on, in order. */
  List<String> scan(String start, int limit) {
    return rows.tailMap(start, true).keySet().stream().limit(limit).toList();
  }

  /** The same of the records whose field is less than the bound, byte for byte. */
  List<String> filteredScan(String start, int limit, Filter filter) {
    byte[] bound = filter.belowText().getBytes(StandardCharsets.UTF_8);
    return rows.tailMap(start, true).entrySet().stream()
        .filter(row -> Arrays.compareUnsigned(row.getValue().fields().get(filter.field()).getBytes(StandardCharsets.UTF_8), bound) < 0)
        .map(Map.Entry::getKey).limit(limit).toList();
  }

  long withSecondary(long number) {
    return rows.values().stream().filter(row -> row.secondary() == number).count();
  }

  /** Records, the start apart, that at most {@code depth} edges lead to. Records that are gone have kept their edges. */
  Set<String> reached(String start, int depth, Map<String, List<String>> edges) {
    Set<String> visited = new HashSet<>(Set.of(start));
    Deque<String> level = new ArrayDeque<>(visited);
    for (int i = 0; i < depth; i++) {
      Deque<String> next = new ArrayDeque<>();
      for (String from : level) {
        edges.getOrDefault(from, List.of()).stream().filter(visited::add).forEach(next::add);
      }
      level = next;
    }
    visited.remove(start);
    visited.retainAll(rows.keySet());
    return visited;
  }

  /** Edges of all records as they are now. */
  Map<String, List<String>> edges() {
    Map<String, List<String>> edges = new HashMap<>();
    rows.forEach((key, row) -> edges.put(key, row.edges()));
    return edges;
  }
}
