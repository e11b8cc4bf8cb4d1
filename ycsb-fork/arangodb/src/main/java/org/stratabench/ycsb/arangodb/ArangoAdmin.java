// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import com.arangodb.ArangoCollection;
import com.arangodb.ArangoDBException;
import com.arangodb.ArangoDatabase;
import com.arangodb.Request;
import com.arangodb.entity.BaseDocument;
import com.arangodb.entity.ServerRole;
import com.arangodb.model.CollectionCreateOptions;
import com.arangodb.model.DocumentCreateOptions;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.stratabench.ycsb.DatabaseAdmin;
import org.stratabench.ycsb.SetupException;

/** Maintenance of an ArangoDB cluster or server. */
public final class ArangoAdmin implements DatabaseAdmin {
  private static final String PROBE = "strata_probe";

  @Override
  public Map<String, Object> perform(String verb, Properties properties) throws SetupException {
    ArangoSettings settings = new ArangoSettings(properties);
    try (Connection connection = Connection.open(settings)) {
      ArangoDatabase database = connection.driver().db(settings.database());
      return switch (verb) {
        case "probe" -> probe(database, settings);
        case "count" -> answer(settings, "rows", existing(database, settings).count().getCount());
        case "flush" -> flush(existing(database, settings), settings);
        case "drop" -> drop(database, settings);
        case "status" -> status(connection, database, settings);
        default -> throw new IllegalArgumentException(verb);
      };
    } catch (ArangoDBException e) {
      throw new SetupException(verb + " failed: " + Failures.describe(e), e);
    }
  }

  /** Writes, reads and deletes one document of a collection of its own, with the time of each in nanoseconds, and leaves nothing behind. */
  private static Map<String, Object> probe(ArangoDatabase database, ArangoSettings settings) throws SetupException {
    boolean newDatabase = !database.exists();
    if (newDatabase) {
      database.create();
    }
    try {
      ArangoCollection collection = database.collection(PROBE);
      if (!collection.exists()) {
        database.createCollection(PROBE, new CollectionCreateOptions().replicationFactor(settings.replicationFactor())
            .writeConcern(settings.writeConcern()));
      }
      Map<String, Object> answer = timed(collection, settings.waitForSync());
      collection.drop();
      return answer;
    } finally {
      if (newDatabase) {
        database.drop();
      }
    }
  }

  private static Map<String, Object> timed(ArangoCollection collection, boolean waitForSync) throws SetupException {
    BaseDocument document = new BaseDocument("probe" + System.nanoTime());
    document.addAttribute("value", "strata");
    long begin = System.nanoTime();
    collection.insertDocument(document, new DocumentCreateOptions().waitForSync(waitForSync).silent(true));
    long put = System.nanoTime();
    BaseDocument found = collection.getDocument(document.getKey(), BaseDocument.class);
    long got = System.nanoTime();
    collection.deleteDocument(document.getKey());
    long deleted = System.nanoTime();
    if (found == null || !document.getAttribute("value").equals(found.getAttribute("value"))) {
      throw new SetupException("probe failed: what was read is not what was written");
    }
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("ok", true);
    answer.put("table", PROBE);
    answer.put("put_ns", put - begin);
    answer.put("get_ns", got - put);
    answer.put("delete_ns", deleted - got);
    return answer;
  }

  /** The HTTP API of ArangoDB documents no call that writes memory to disk. */
  private static Map<String, Object> flush(ArangoCollection collection, ArangoSettings settings) {
    Map<String, Object> answer = answer(settings, "flushed", false);
    answer.put("documents", collection.count().getCount());
    answer.put("reason", "ArangoDB documents no call that flushes; its storage engine flushes by itself");
    return answer;
  }

  private static Map<String, Object> drop(ArangoDatabase database, ArangoSettings settings) {
    boolean dropped = false;
    if (database.exists()) {
      for (String name : List.of(settings.edgeCollection(), settings.collection())) {
        ArangoCollection collection = database.collection(name);
        if (collection.exists()) {
          collection.drop();
          dropped |= name.equals(settings.collection());
        }
      }
    }
    return answer(settings, "dropped", dropped);
  }

  private static ArangoCollection existing(ArangoDatabase database, ArangoSettings settings) throws SetupException {
    if (!database.exists() || !database.collection(settings.collection()).exists()) {
      throw new SetupException("collection " + settings.collection() + " of database " + settings.database()
          + " does not exist; run the load phase first");
    }
    return database.collection(settings.collection());
  }

  private static Map<String, Object> status(Connection connection, ArangoDatabase database, ArangoSettings settings) {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("ok", true);
    answer.put("version", get(connection, settings.database(), "/_api/version", Map.of()).path("version").asText());
    JsonNode health = health(connection);
    answer.put("cluster", health != null);
    if (health != null) {
      answer.put("coordinators", servers(health, "COORDINATOR", true));
      answer.put("live_servers", servers(health, "DBSERVER", true));
      answer.put("dead_servers", servers(health, "DBSERVER", false));
      answer.put("dead_coordinators", servers(health, "COORDINATOR", false));
    }
    answer.put("database", settings.database());
    answer.put("table", settings.collection());
    boolean exists = database.exists() && database.collection(settings.collection()).exists();
    answer.put("table_shards", exists && health != null ? shards(connection, settings, health) : null);
    return answer;
  }

  /** The cluster's view of its servers, or null when there is no cluster. */
  private static JsonNode health(Connection connection) {
    return connection.driver().getRole() == ServerRole.COORDINATOR
        ? get(connection, "_system", "/_admin/cluster/health", Map.of()).get("Health") : null;
  }

  private static JsonNode get(Connection connection, String database, String path, Map<String, String> query) {
    Request<?> request = Request.builder().db(database).method(Request.Method.GET).path(path).queryParams(query).build();
    return connection.driver().execute(request, JsonNode.class).getBody();
  }

  private static List<String> servers(JsonNode health, String role, boolean good) {
    List<String> endpoints = new ArrayList<>();
    for (JsonNode server : health) {
      if (server.path("Role").asText().equalsIgnoreCase(role) && server.path("Status").asText().equals("GOOD") == good) {
        endpoints.add(server.path("Endpoint").asText());
      }
    }
    return endpoints.stream().sorted().toList();
  }

  /** Shards of the collection by the DB-Server that leads them. */
  private static Map<String, Integer> shards(Connection connection, ArangoSettings settings, JsonNode health) {
    Map<String, Integer> leaders = new TreeMap<>();
    String path = "/_api/collection/" + settings.collection() + "/shards";
    for (JsonNode servers : get(connection, settings.database(), path, Map.of("details", "true")).path("shards")) {
      String leader = servers.path(0).asText();
      leaders.merge(health.path(leader).path("Endpoint").asText(leader), 1, Integer::sum);
    }
    return leaders;
  }

  private static Map<String, Object> answer(ArangoSettings settings, String member, Object value) {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("ok", true);
    answer.put("table", settings.collection());
    answer.put(member, value);
    return answer;
  }
}
