// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.stratabench.ycsb.ExitCode;
import org.stratabench.ycsb.SetupException;

/** What the client asks of the server, as the stand-in recorded it. */
@Timeout(60)
class SentArgumentsTest {
  @TempDir
  private Path output;
  private ArangoStandIn standIn;

  @BeforeEach
  void start() {
    standIn = ArangoStandIn.start(2);
  }

  @AfterEach
  void stop() {
    standIn.close();
  }

  private ClientRun client(String phase, String... more) {
    return ClientRun.of(phase, output.resolve(phase + System.nanoTime()), properties(more));
  }

  private Properties properties(String... more) {
    Properties properties = ArangoSuite.of(Map.of("arangodb.hosts", standIn.hosts(), "recordcount", "20", "operationcount", "60",
        "fieldcount", "2", "fieldlength", "10"));
    for (String pair : more) {
      properties.setProperty(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
    }
    return properties;
  }

  private JsonNode created(String collection) {
    return standIn.calls("POST", "/_api/collection").map(ArangoStandIn.Call::body)
        .filter(body -> body.path("name").asText().equals(collection)).findFirst().orElseThrow();
  }

  @Test
  void copiesShardsAndConcernAreThoseAskedFor() {
    ClientRun load = client("load", "arangodb.replicationFactor=3", "arangodb.numberOfShards=6", "arangodb.writeConcern=2",
        "traversalproportion=1");
    assertEquals(ExitCode.OK, load.code(), load.err());
    for (String collection : List.of("usertable", "usertable_edges")) {
      assertEquals(3, created(collection).path("replicationFactor").asInt());
      assertEquals(6, created(collection).path("numberOfShards").asInt());
      assertEquals(2, created(collection).path("writeConcern").asInt());
    }
    assertEquals(2, created("usertable").path("type").asInt(), "a document collection");
    assertEquals(3, created("usertable_edges").path("type").asInt(), "an edge collection");
  }

  @Test
  void oneCopyIsTheDefaultAndTheRestTheServers() {
    assertEquals(ExitCode.OK, client("load").code());
    assertEquals(1, created("usertable").path("replicationFactor").asInt());
    assertFalse(created("usertable").has("numberOfShards"));
    assertFalse(created("usertable").has("writeConcern"));
    assertFalse(standIn.calls("POST", "/_api/index").findAny().isPresent());
    assertFalse(standIn.calls("POST", "/_api/collection").anyMatch(call -> call.body().path("name").asText().endsWith("_edges")));
  }

  @Test
  void everyKindOfWriteWaitsForSyncWhenToldSo() {
    for (String wait : List.of("true", "false")) {
      assertEquals(ExitCode.OK, client("load", "arangodb.waitForSync=" + wait, "table=t" + wait).code());
      ClientRun run = client("run", "arangodb.waitForSync=" + wait, "table=t" + wait, "readproportion=0", "updateproportion=1",
          "insertproportion=1", "deleteproportion=1", "batchinsertproportion=1", "operation.mix=exact");
      assertEquals(ExitCode.OK, run.code(), run.err());
      for (String method : List.of("POST", "PATCH", "DELETE")) {
        List<ArangoStandIn.Call> writes = standIn.calls(method, "/_api/document/t" + wait).toList();
        assertTrue(writes.size() > 5, method + " " + writes.size());
        assertTrue(writes.stream().allMatch(call -> wait.equals(call.query().get("waitForSync"))), method);
      }
    }
  }

  @Test
  void aBatchIsOneRequest() {
    assertEquals(ExitCode.OK, client("load").code());
    long before = standIn.calls().count();
    ClientRun run = client("run", "readproportion=0", "updateproportion=0", "multigetproportion=1", "multiget.size=9", "operationcount=5");
    assertEquals(ExitCode.OK, run.code(), run.err());
    List<ArangoStandIn.Call> gets = standIn.calls("PUT", "/_api/document/usertable").toList();
    assertEquals(5, gets.size());
    assertTrue(gets.stream().allMatch(call -> "true".equals(call.query().get("onlyget")) && call.body().size() == 9));
    assertTrue(standIn.calls().count() - before < 5 + 10);
  }

  @Test
  void queriesAreStreamedAndBound() {
    assertEquals(ExitCode.OK, client("load").code());
    ClientRun run = client("run", "readproportion=0", "updateproportion=0", "scanproportion=1", "maxscanlength=10", "operationcount=5");
    assertEquals(ExitCode.OK, run.code(), run.err());
    List<JsonNode> queries = standIn.calls("POST", "/_api/cursor").map(ArangoStandIn.Call::body).filter(body -> body.has("query")).toList();
    assertEquals(5, queries.size());
    assertEquals(1, queries.stream().map(body -> body.path("query").asText()).distinct().count(), "what varies is bound");
    for (JsonNode query : queries) {
      assertTrue(query.path("options").path("stream").asBoolean(), query.toString());
      assertTrue(query.path("bindVars").path("start").asText().startsWith("user"));
      assertEquals(query.path("bindVars").path("limit").asInt(), query.path("batchSize").asInt());
    }
  }

  @Test
  void otherCopiesThanAskedForAreRefused() {
    assertEquals(ExitCode.OK, client("load").code());
    ClientRun run = client("run", "arangodb.replicationFactor=2");
    assertEquals(ExitCode.SETUP, run.code());
    assertTrue(run.err().contains("replicationFactor 1, not 2"), run.err());
    assertEquals(ExitCode.OK, client("run").code());
  }

  @Test
  void droppingBeforeTheLoadStartsAnew() throws SetupException {
    assertEquals(ExitCode.OK, client("load").code());
    assertEquals(ExitCode.ERRORS, client("load").code(), "the records are there already");
    assertEquals(ExitCode.OK, client("load", "arangodb.dropDBBeforeRun=true").code());
    assertEquals(20L, new ArangoAdmin().perform("count", properties()).get("rows"));
    ClientRun run = client("run", "arangodb.dropDBBeforeRun=true");
    assertEquals(ExitCode.USAGE, run.code());
    assertEquals(20L, new ArangoAdmin().perform("count", properties()).get("rows"));
  }

  @Test
  void statusTellsServersByRole() throws SetupException {
    assertEquals(ExitCode.OK, client("load", "arangodb.numberOfShards=4").code());
    Map<String, Object> status = new ArangoAdmin().perform("status", properties());
    assertEquals(2, ((List<?>) status.get("coordinators")).size());
    assertEquals(List.of("tcp://192.0.2.1:8530"), status.get("live_servers"));
    assertEquals(List.of("tcp://192.0.2.2:8530"), status.get("dead_servers"));
    assertEquals(Map.of("tcp://192.0.2.1:8530", 4), status.get("table_shards"));
  }

  @Test
  void theProbeLeavesNothingBehind() throws SetupException {
    new ArangoAdmin().perform("probe", properties());
    assertFalse(standIn.hasDatabase("ycsb"));
  }
}
