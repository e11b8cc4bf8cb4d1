// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;

/** What the coordinators of {@link ArangoStandIn} share: databases, collections and documents in memory. Not ArangoDB. */
final class StandInStore {
  /** A refusal as ArangoDB's HTTP API spells it. */
  static final class Refusal extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final int status;
    private final int number;

    Refusal(int status, int number, String message) {
      super(message);
      this.status = status;
      this.number = number;
    }

    int status() {
      return status;
    }

    ObjectNode body() {
      return JsonNodeFactory.instance.objectNode().put("error", true).put("code", status).put("errorNum", number)
          .put("errorMessage", getMessage());
    }
  }

  /** One collection; its documents are in the order of their keys' bytes. */
  static final class Collection {
    private final ObjectNode properties;
    private final TreeMap<String, ObjectNode> documents = new TreeMap<>();
    private final List<ObjectNode> indexes = new ArrayList<>();

    Collection(ObjectNode properties) {
      this.properties = properties;
    }

    ObjectNode properties() {
      return properties;
    }

    TreeMap<String, ObjectNode> documents() {
      return documents;
    }

    List<ObjectNode> indexes() {
      return indexes;
    }
  }

  private static final int EDGES = 3;

  private final Map<String, Map<String, Collection>> databases = new TreeMap<>(Map.of("_system", new TreeMap<>()));
  private final AtomicLong revision = new AtomicLong();

  Map<String, Collection> database(String name) {
    Map<String, Collection> found = databases.get(name);
    if (found == null) {
      throw new Refusal(404, 1228, "database not found");
    }
    return found;
  }

  void createDatabase(String name) {
    if (databases.putIfAbsent(name, new TreeMap<>()) != null) {
      throw new Refusal(409, 1207, "duplicate name");
    }
  }

  void dropDatabase(String name) {
    database(name);
    databases.remove(name);
  }

  boolean hasDatabase(String name) {
    return databases.containsKey(name);
  }

  Collection collection(String database, String name) {
    Collection found = database(database).get(name);
    if (found == null) {
      throw new Refusal(404, 1203, "collection or view not found: " + name);
    }
    return found;
  }

  ObjectNode createCollection(String database, ObjectNode asked) {
    String name = asked.path("name").asText();
    if (database(database).containsKey(name)) {
      throw new Refusal(409, 1207, "duplicate name");
    }
    if (asked.path("writeConcern").asInt(1) > asked.path("replicationFactor").asInt(1)) {
      throw new Refusal(400, 10, "bad parameter: writeConcern must not exceed replicationFactor");
    }
    ObjectNode properties = JsonNodeFactory.instance.objectNode();
    properties.put("id", Long.toString(revision.incrementAndGet())).put("name", name).put("isSystem", false).put("status", 3);
    properties.put("type", asked.path("type").asInt(2));
    properties.put("replicationFactor", asked.path("replicationFactor").asInt(1));
    properties.put("numberOfShards", asked.path("numberOfShards").asInt(1));
    properties.put("writeConcern", asked.path("writeConcern").asInt(1));
    database(database).put(name, new Collection(properties));
    return properties;
  }

  /** Adds a document and returns its metadata. */
  ObjectNode insert(String database, String collection, ObjectNode document) {
    Collection into = collection(database, collection);
    String key = document.path("_key").asText("");
    if (key.isEmpty()) {
      throw new Refusal(400, 1221, "illegal document key");
    }
    if (into.properties().path("type").asInt() == EDGES && !(document.path("_from").asText().matches("[^/]+/[^/]+")
        && document.path("_to").asText().matches("[^/]+/[^/]+"))) {
      throw new Refusal(400, 1233, "edge attribute missing or invalid");
    }
    if (into.documents().containsKey(key)) {
      throw new Refusal(409, 1210, "unique constraint violated");
    }
    ObjectNode stored = document.deepCopy();
    stored.put("_id", collection + "/" + key).put("_rev", nextRevision());
    into.documents().put(key, stored);
    return metadata(stored);
  }

  ObjectNode find(String database, String collection, String key) {
    ObjectNode found = collection(database, collection).documents().get(key);
    if (found == null) {
      throw new Refusal(404, 1202, "document not found");
    }
    return found;
  }

  ObjectNode update(String database, String collection, String key, ObjectNode change) {
    ObjectNode found = find(database, collection, key);
    found.setAll(change);
    found.put("_rev", nextRevision());
    return metadata(found);
  }

  ObjectNode delete(String database, String collection, String key) {
    ObjectNode found = find(database, collection, key);
    collection(database, collection).documents().remove(key);
    return metadata(found);
  }

  private String nextRevision() {
    return "_r" + revision.incrementAndGet();
  }

  private static ObjectNode metadata(JsonNode document) {
    ObjectNode metadata = JsonNodeFactory.instance.objectNode();
    for (String name : List.of("_id", "_key", "_rev")) {
      metadata.set(name, document.get(name));
    }
    return metadata;
  }
}
