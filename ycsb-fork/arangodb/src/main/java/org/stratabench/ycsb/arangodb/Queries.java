// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.stratabench.ycsb.workload.Request;

/**
 * The AQL of the operations that name no single key. Everything that varies is a bind parameter.
 *
 * <p>AQL compares strings by the collation of the server's language, in which {@code a < B}. Keys have one prefix and decimal digits after it,
 * which every collation of ICU orders as their character codes do. Field values have letters of both cases, so a filter compares hexadecimal
 * spellings, whose order is that of the bytes in every such collation; as many characters as the bound has decide the comparison.
 */
final class Queries {
  static final String SCAN = "FOR d IN @@collection FILTER d._key >= @start SORT d._key LIMIT @limit RETURN ";
  static final String FILTERED_SCAN = "FOR d IN @@collection FILTER d._key >= @start"
      + " FILTER TO_HEX(LEFT(d.@field, @length)) < @below SORT d._key LIMIT @limit RETURN ";
  static final String LOOKUP = "FOR d IN @@collection FILTER d.@field == @value LIMIT @limit RETURN ";
  /** Every record within so many edges once, whatever number of paths leads to it; deleted records leave edges that lead nowhere. */
  static final String TRAVERSAL = "WITH @@collection FOR d IN 1..@depth OUTBOUND @start @@edges"
      + " OPTIONS {order: \"bfs\", uniqueVertices: \"global\"} FILTER d != null RETURN d";
  static final String WHOLE = "d";
  static final String KEPT = "KEEP(d, @fields)";

  /**
   * A query and its parameters.
   *
   * @param batch most records that are of use at a time
   */
  record Query(String text, Map<String, Object> parameters, int batch) { }

  private final String collection;
  private final String edges;
  private final String secondaryField;
  private final int batchSize;

  /**
   * @param secondaryField the secondary field's name, or null
   * @param batchSize most records that the server sends at a time
   */
  Queries(String collection, String edges, String secondaryField, int batchSize) {
    this.collection = collection;
    this.edges = edges;
    this.secondaryField = secondaryField;
    this.batchSize = batchSize;
  }

  Query of(Request request) {
    Map<String, Object> parameters = new HashMap<>();
    parameters.put("@collection", collection);
    String text = switch (request.type()) {
      case SCAN -> {
        parameters.put("start", request.key().toString());
        yield SCAN;
      }
      case FILTERED_SCAN -> {
        String below = request.filter().belowText();
        parameters.put("start", request.key().toString());
        parameters.put("field", request.filter().field());
        parameters.put("length", below.length());
        parameters.put("below", HexFormat.of().formatHex(below.getBytes(StandardCharsets.UTF_8)));
        yield FILTERED_SCAN;
      }
      case SECONDARY_LOOKUP -> {
        parameters.put("field", secondaryField);
        parameters.put("value", request.secondary());
        yield LOOKUP;
      }
      case TRAVERSAL -> {
        parameters.put("@edges", edges);
        parameters.put("start", collection + "/" + request.key());
        parameters.put("depth", request.limit());
        yield TRAVERSAL;
      }
      default -> throw new IllegalArgumentException(request.type().label());
    };
    if (text.equals(TRAVERSAL)) {
      return new Query(text, parameters, batchSize);
    }
    parameters.put("limit", request.limit());
    if (request.fields() == null) {
      return new Query(text + WHOLE, parameters, Math.min(batchSize, request.limit()));
    }
    parameters.put("fields", request.fields());
    return new Query(text + KEPT, parameters, Math.min(batchSize, request.limit()));
  }
}
