// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.stratabench.ycsb.arangodb.StandInStore.Collection;
import org.stratabench.ycsb.arangodb.StandInStore.Refusal;

/** The calls of ArangoDB's documented HTTP API that one coordinator of {@link ArangoStandIn} answers. Cursors belong to the coordinator. */
final class StandInApi {
  /** An HTTP status and a JSON body. */
  record Reply(int status, JsonNode body) { }

  /** A query under way: what is left of its results. */
  private record Cursor(Iterator<JsonNode> rest, int batch) { }

  private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

  private final StandInStore store;
  private final Map<String, BooleanSupplier> coordinators;
  private final Map<String, BooleanSupplier> dbServers;
  private final Map<String, Cursor> cursors = new HashMap<>();
  private long cursorId;

  /**
   * @param coordinators endpoints of all of them, and whether they live
   * @param dbServers likewise
   */
  StandInApi(StandInStore store, Map<String, BooleanSupplier> coordinators, Map<String, BooleanSupplier> dbServers) {
    this.store = store;
    this.coordinators = coordinators;
    this.dbServers = new TreeMap<>(dbServers);
  }

  /**
   * Answers one call.
   *
   * @param path without {@code /_db/NAME}
   */
  Reply answer(String method, String database, String path, Map<String, String> query, JsonNode body) {
    // the coordinators are as many threads on one store
    synchronized (store) {
      try {
        String[] parts = path.substring(1).split("/");
        String call = parts[0] + "/" + parts[1];
        return switch (call) {
          case "_api/version" -> new Reply(200, JSON.objectNode().put("server", "arango").put("version", "stand-in").put("license", "community"));
          case "_admin/server" -> new Reply(200, JSON.objectNode().put("role", "COORDINATOR"));
          case "_admin/cluster" -> new Reply(200, JSON.objectNode().set("Health", health()));
          case "_api/cluster" -> new Reply(200, JSON.objectNode().set("endpoints", endpointList()));
          case "_api/database" -> database(method, database, parts, body);
          case "_api/collection" -> collection(method, database, parts, body);
          case "_api/index" -> index(method, database, query.get("collection"), body);
          case "_api/document" -> parts.length == 4 ? document(method, database, parts[2], parts[3], query, body)
              : documents(method, database, parts[2], query, body);
          case "_api/cursor" -> cursor(method, database, parts, body);
          default -> throw new Refusal(404, 404, "the stand-in does not know " + method + " " + path);
        };
      } catch (Refusal e) {
        return new Reply(e.status(), e.body());
      } catch (RuntimeException e) {
        return new Reply(500, new Refusal(500, 4, "the stand-in cannot do " + method + " " + path + ": " + e).body());
      }
    }
  }

  private ObjectNode health() {
    ObjectNode health = JSON.objectNode();
    addServers(health, "CRDN-", "COORDINATOR", coordinators);
    addServers(health, "PRMR-", "DBServer", dbServers);
    return health;
  }

  private static void addServers(ObjectNode health, String prefix, String role, Map<String, BooleanSupplier> servers) {
    int number = 0;
    for (Map.Entry<String, BooleanSupplier> one : servers.entrySet()) {
      number++;
      health.set(prefix + number, server(role, one.getKey(), one.getValue().getAsBoolean() ? "GOOD" : "FAILED"));
    }
  }

  private static ObjectNode server(String role, String endpoint, String status) {
    return JSON.objectNode().put("Role", role).put("Endpoint", endpoint).put("Status", status);
  }

  private ArrayNode endpointList() {
    ArrayNode list = JSON.arrayNode();
    coordinators.keySet().forEach(endpoint -> list.addObject().put("endpoint", endpoint));
    return list;
  }

  private Reply database(String method, String database, String[] parts, JsonNode body) {
    switch (method) {
      case "GET" -> {
        store.database(database);
        return new Reply(200, JSON.objectNode().set("result", JSON.objectNode().put("name", database).put("isSystem", false)));
      }
      case "POST" -> {
        store.createDatabase(body.path("name").asText());
        return new Reply(201, JSON.objectNode().put("result", true));
      }
      default -> {
        store.dropDatabase(parts[2]);
        return new Reply(200, JSON.objectNode().put("result", true));
      }
    }
  }

  private Reply collection(String method, String database, String[] parts, JsonNode body) {
    if (method.equals("POST")) {
      return new Reply(200, store.createCollection(database, (ObjectNode) body));
    }
    Collection found = store.collection(database, parts[2]);
    if (method.equals("DELETE")) {
      store.database(database).remove(parts[2]);
      return new Reply(200, JSON.objectNode().put("id", found.properties().path("id").asText()));
    }
    ObjectNode answer = found.properties().deepCopy();
    String about = parts.length > 3 ? parts[3] : "";
    if (about.equals("count")) {
      answer.put("count", found.documents().size());
    } else if (about.equals("shards")) {
      ObjectNode shards = answer.putObject("shards");
      for (int i = 0; i < answer.path("numberOfShards").asInt(); i++) {
        shards.putArray("s" + i).add("PRMR-1");
      }
    }
    return new Reply(200, answer);
  }

  private Reply index(String method, String database, String collection, JsonNode body) {
    List<ObjectNode> indexes = store.collection(database, collection).indexes();
    if (method.equals("POST")) {
      ObjectNode index = ((ObjectNode) body).deepCopy().put("id", collection + "/" + indexes.size());
      indexes.removeIf(other -> other.path("fields").equals(index.path("fields")));
      indexes.add(index);
      return new Reply(201, index);
    }
    ArrayNode list = JSON.arrayNode();
    list.addObject().put("id", collection + "/0").put("type", "primary").putArray("fields").add("_key");
    list.addAll(indexes);
    return new Reply(200, JSON.objectNode().set("indexes", list));
  }

  private Reply document(String method, String database, String collection, String key, Map<String, String> query, JsonNode body) {
    ObjectNode answer = switch (method) {
      case "GET" -> store.find(database, collection, key);
      case "PATCH" -> silent(query, store.update(database, collection, key, (ObjectNode) body));
      case "DELETE" -> silent(query, store.delete(database, collection, key));
      default -> throw new Refusal(405, 405, "method not supported");
    };
    return new Reply(method.equals("PATCH") ? 202 : 200, answer);
  }

  private Reply documents(String method, String database, String collection, Map<String, String> query, JsonNode body) {
    if (method.equals("PUT") && "true".equals(query.get("onlyget"))) {
      ArrayNode answer = JSON.arrayNode();
      body.forEach(key -> answer.add(orError(() -> store.find(database, collection, key.asText()))));
      return new Reply(200, answer);
    }
    if (!body.isArray()) {
      return new Reply(202, silent(query, store.insert(database, collection, (ObjectNode) body)));
    }
    ArrayNode answer = JSON.arrayNode();
    boolean errors = false;
    for (JsonNode document : body) {
      ObjectNode one = orError(() -> store.insert(database, collection, (ObjectNode) document));
      errors |= one.has("errorNum");
      if (one.has("errorNum") || !"true".equals(query.get("silent"))) {
        answer.add(one);
      }
    }
    return new Reply(202, "true".equals(query.get("silent")) && !errors ? JSON.objectNode() : answer);
  }

  private static ObjectNode orError(Supplier<ObjectNode> one) {
    try {
      return one.get();
    } catch (Refusal e) {
      return e.body();
    }
  }

  private static ObjectNode silent(Map<String, String> query, ObjectNode metadata) {
    return "true".equals(query.get("silent")) ? JSON.objectNode() : metadata;
  }

  private Reply cursor(String method, String database, String[] parts, JsonNode body) {
    if (parts.length == 2) {
      List<JsonNode> results = StandInQueries.evaluate(store, database, body.path("query").asText(), body.path("bindVars"));
      cursorId++;
      String id = Long.toString(cursorId);
      cursors.put(id, new Cursor(List.copyOf(results).iterator(), body.path("batchSize").asInt(1000)));
      return new Reply(201, nextBatch(id));
    }
    if (!cursors.containsKey(parts[2])) {
      throw new Refusal(404, 1600, "cursor not found");
    }
    if (method.equals("DELETE")) {
      cursors.remove(parts[2]);
      return new Reply(202, JSON.objectNode().put("id", parts[2]));
    }
    return new Reply(200, nextBatch(parts[2]));
  }

  /** As of a streaming query, whose server learns from an incomplete batch that there is nothing more. */
  private ObjectNode nextBatch(String id) {
    Cursor cursor = cursors.get(id);
    ObjectNode answer = JSON.objectNode();
    ArrayNode result = answer.putArray("result");
    while (cursor.rest().hasNext() && result.size() < cursor.batch()) {
      result.add(cursor.rest().next());
    }
    boolean more = result.size() == cursor.batch();
    answer.put("hasMore", more);
    if (more) {
      answer.put("id", id);
    } else {
      cursors.remove(id);
    }
    return answer;
  }

  /** Cursors that were neither read to their end nor closed. */
  int openCursors() {
    synchronized (store) {
      return cursors.size();
    }
  }
}
