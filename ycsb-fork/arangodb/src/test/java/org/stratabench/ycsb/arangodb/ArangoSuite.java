// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.arangodb.ArangoCollection;
import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.stratabench.ycsb.ExitCode;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.SetupException;
import org.stratabench.ycsb.db.AsyncSession;
import org.stratabench.ycsb.db.Session;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Request;
import org.stratabench.ycsb.workload.RequestGenerator;
import org.stratabench.ycsb.workload.Shard;
import org.stratabench.ycsb.workload.WorkloadSpec;

/** What the binding has to do against any ArangoDB; subclasses say against which one. */
@Timeout(120)
abstract class ArangoSuite {
  private static final int RECORDS = 150;
  private static final int SAMPLES = 40;
  private static final long ABSENT = 1_000_000;

  @TempDir
  private Path output;

  private final String table = "strata_suite_" + Long.toString(System.nanoTime(), Character.MAX_RADIX);
  private final Model model = new Model();
  private ArangoDatabase database;
  private Session session;
  private RequestGenerator generator;
  private Connection direct;

  /** How to reach it: {@code arangodb.*} properties. */
  abstract Properties connection();

  private Properties properties(String... more) {
    Properties properties = new Properties();
    for (String pair : List.of("recordcount=" + RECORDS, "fieldcount=3", "fieldlength=24", "maxscanlength=60", "scanproportion=1",
        "insertproportion=1", "deleteproportion=1", "readmodifywriteproportion=1", "multigetproportion=1", "batchinsertproportion=1",
        "filteredscanproportion=1", "filteredscan.selectivity=0.6", "secondarylookupproportion=1", "secondary.limit=12",
        "traversalproportion=1", "traversal.depth=2", "arangodb.batchSize=7", "table=" + table)) {
      put(properties, pair);
    }
    properties.putAll(connection());
    for (String pair : more) {
      put(properties, pair);
    }
    return properties;
  }

  private static void put(Properties properties, String pair) {
    properties.setProperty(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
  }

  @BeforeEach
  void load() throws Exception {
    open(true, properties());
    for (int i = 0; i < RECORDS; i++) {
      generator.prepareLoad(i);
      assertEquals(Answer.OK, session.execute(generator.request()));
      model.insert(generator.request().item(0));
    }
    database.close();
    open(false, properties());
  }

  private void open(boolean load, Properties properties) throws SetupException {
    Settings settings = new Settings(properties);
    WorkloadSpec spec = new WorkloadSpec(settings);
    database = new ArangoDatabase();
    database.open(settings, spec, load);
    session = database.session();
    generator = new RequestGenerator(new RequestGenerator.Shared(spec, Shard.WHOLE), 0, 1, new SplittableRandom(1));
    if (direct == null) {
      direct = Connection.open(new ArangoSettings(properties));
    }
  }

  @AfterEach
  void drop() throws SetupException {
    database.close();
    direct.close();
    new ArangoAdmin().perform("drop", properties());
  }

  private ArangoCollection collection() {
    return direct.driver().db(new ArangoSettings(properties()).database()).collection(table);
  }

  /** The request of a record that was never loaded. */
  private Request absent(OperationType type) {
    generator.prepareLoad(ABSENT);
    return generator.request().as(type);
  }

  private Request prepare(OperationType type) {
    generator.prepare(type);
    return generator.request();
  }

  /** What the query of a request returns, by another way than the binding's session. */
  private List<JsonNode> results(Request request) {
    ArangoSettings settings = new ArangoSettings(properties());
    Queries.Query query = new Queries(table, settings.edgeCollection(), "secondary", 1000).of(request);
    return collection().db().query(query.text(), JsonNode.class, query.parameters()).asListRemaining();
  }

  private static List<String> keys(List<JsonNode> documents) {
    return documents.stream().map(document -> document.path("_key").asText()).toList();
  }

  @Test
  void loadedRecordsAreThereFieldByField() throws Exception {
    assertEquals(RECORDS, collection().count().getCount());
    for (String key : model.keys()) {
      JsonNode found = collection().getDocument(key, JsonNode.class);
      model.row(key).fields().forEach((field, value) -> assertEquals(value, found.path(field).asText()));
      assertEquals(model.row(key).secondary(), found.path("secondary").asLong(-1));
      assertEquals(3 + 1 + 3, found.size(), "three fields, the secondary one, _key, _id, _rev");
    }
    Request read = prepare(OperationType.READ);
    assertEquals(Answer.OK, session.execute(read));
    assertEquals(1, read.received());
  }

  @Test
  void whatIsNotThereIsAnAnswer() throws Exception {
    for (OperationType type : List.of(OperationType.READ, OperationType.UPDATE, OperationType.DELETE, OperationType.MULTI_GET)) {
      Request request = absent(type);
      assertEquals(Answer.NOT_FOUND, session.execute(request), type.label());
      assertEquals(0, request.received());
    }
    assertEquals(RECORDS, collection().count().getCount());
  }

  @Test
  void anUpdateChangesWhatItNamesAndNothingElse() throws Exception {
    for (int i = 0; i < SAMPLES; i++) {
      Request update = prepare(OperationType.UPDATE);
      assertEquals(1, update.item(0).fields().size());
      assertEquals(Answer.OK, session.execute(update));
      model.update(update.item(0));
    }
    loadedRecordsAreThereFieldByField();
  }

  @Test
  void aDeletedRecordIsGone() throws Exception {
    Request delete = prepare(OperationType.DELETE);
    assertEquals(Answer.OK, session.execute(delete));
    assertEquals(Answer.NOT_FOUND, session.execute(delete.as(OperationType.READ)));
    assertEquals(RECORDS - 1, collection().count().getCount());
  }

  @Test
  void insertingTwiceFailsByItsCause() throws Exception {
    assertEquals(Answer.OK, session.execute(absent(OperationType.INSERT)));
    assertEquals(Answer.failed("ArangoDB-1210"), session.execute(generator.request()));
    assertEquals(Answer.OK, session.execute(prepare(OperationType.BATCH_INSERT)));
    assertEquals(Answer.failed("ArangoDB-1210"), session.execute(generator.request()));
  }

  @Test
  void scansReturnWhatFollowsInOrder() throws Exception {
    for (int i = 0; i < SAMPLES; i++) {
      Request scan = prepare(OperationType.SCAN);
      List<String> expected = model.scan(scan.key().toString(), scan.limit());
      assertEquals(Answer.OK, session.execute(scan));
      assertEquals(expected.size(), scan.received());
      assertEquals(expected, keys(results(scan)));
    }
  }

  @Test
  void filtersCompareBytes() throws Exception {
    for (int i = 0; i < SAMPLES; i++) {
      Request scan = prepare(OperationType.FILTERED_SCAN);
      List<String> expected = model.filteredScan(scan.key().toString(), scan.limit(), scan.filter());
      assertEquals(Answer.OK, session.execute(scan));
      assertEquals(expected.size(), scan.received());
      assertEquals(expected, keys(results(scan)));
    }
  }

  @Test
  void queriesReturnOnlyTheFieldsAskedFor() throws Exception {
    database.close();
    open(false, properties("readallfields=false"));
    for (OperationType type : List.of(OperationType.SCAN, OperationType.FILTERED_SCAN, OperationType.SECONDARY_LOOKUP)) {
      Request request = prepare(type);
      assertEquals(Answer.OK, session.execute(request));
      List<JsonNode> results = results(request);
      assertEquals(results.size(), request.received());
      for (JsonNode result : results) {
        assertEquals(1, result.size());
        assertTrue(result.has(request.fields().get(0)));
      }
    }
  }

  @Test
  void aMultiGetCountsWhatItFound() throws Exception {
    for (int i = 0; i < SAMPLES; i++) {
      Request get = prepare(OperationType.MULTI_GET);
      int there = 0;
      for (int k = 0; k < get.size(); k++) {
        there += model.row(get.item(k).key().toString()) == null ? 0 : 1;
      }
      assertEquals(there == 0 ? Answer.NOT_FOUND : Answer.OK, session.execute(get));
      assertEquals(there, get.received());
      String gone = get.key().toString();
      if (model.row(gone) != null) {
        collection().deleteDocument(gone);
        model.delete(gone);
      }
    }
    assertTrue(model.keys().size() < RECORDS);
  }

  @Test
  void aBatchIsInsertedWithItsEdges() throws Exception {
    Request batch = prepare(OperationType.BATCH_INSERT);
    for (int i = 0; i < batch.size(); i++) {
      model.insert(batch.item(i));
    }
    assertEquals(Answer.OK, session.execute(batch));
    assertEquals(RECORDS + batch.size(), collection().count().getCount());
    for (int i = 0; i < batch.size(); i++) {
      String key = batch.item(i).key().toString();
      assertEquals(model.row(key).fields().get("field1"), collection().getDocument(key, JsonNode.class).path("field1").asText());
    }
    assertEquals(3 * model.keys().size(), collection().db().collection(table + "_edges").count().getCount());
  }

  @Test
  void lookupsFindByTheSecondaryField() throws Exception {
    Set<Long> limited = new TreeSet<>();
    for (int i = 0; i < SAMPLES; i++) {
      Request lookup = prepare(OperationType.SECONDARY_LOOKUP);
      long there = model.withSecondary(lookup.secondary());
      assertEquals(Answer.OK, session.execute(lookup));
      assertEquals(Math.min(lookup.limit(), there), lookup.received());
      limited.add(lookup.received());
      for (JsonNode result : results(lookup)) {
        assertEquals(lookup.secondary(), result.path("secondary").asLong());
      }
    }
    assertTrue(limited.size() > 1, "all lookups found " + limited);
    assertTrue(collection().getIndexes().stream().anyMatch(index -> List.copyOf(index.getFields()).equals(List.of("secondary"))));
  }

  @Test
  void traversalsReachWhatTheEdgesLeadTo() throws Exception {
    Map<String, List<String>> edges = model.edges();
    for (int i = 0; i < SAMPLES; i++) {
      Request traversal = prepare(OperationType.TRAVERSAL);
      Set<String> expected = model.reached(traversal.key().toString(), traversal.limit(), edges);
      assertEquals(Answer.OK, session.execute(traversal));
      assertEquals(expected.size(), traversal.received());
      assertEquals(new TreeSet<>(expected), new TreeSet<>(keys(results(traversal))));
      // what has gone leaves edges that lead nowhere
      expected.stream().findFirst().ifPresent(gone -> {
        collection().deleteDocument(gone);
        model.delete(gone);
      });
    }
  }

  @Test
  void asynchronousSessionsAnswerTheSame() throws Exception {
    assertTrue(database.asynchronous());
    AsyncSession asynchronous = database.asyncSession();
    for (OperationType type : List.of(OperationType.READ, OperationType.SCAN, OperationType.FILTERED_SCAN, OperationType.MULTI_GET,
        OperationType.SECONDARY_LOOKUP, OperationType.TRAVERSAL)) {
      Request request = prepare(type);
      assertEquals(Answer.OK, session.execute(request));
      long received = request.received();
      request.received(-1);
      CompletableFuture<Answer> answer = new CompletableFuture<>();
      asynchronous.submit(request, answer::complete);
      assertEquals(Answer.OK, answer.get(30, TimeUnit.SECONDS), type.label());
      assertEquals(received, request.received(), type.label());
    }
    CompletableFuture<Answer> missing = new CompletableFuture<>();
    asynchronous.submit(absent(OperationType.READ), missing::complete);
    assertEquals(Answer.NOT_FOUND, missing.get(30, TimeUnit.SECONDS));
  }

  @Test
  void theRunPhaseCreatesNothing() {
    SetupException refused = assertThrows(SetupException.class, () -> open(false, properties("table=" + table + "_none")));
    assertTrue(refused.getMessage().contains(table + "_none") && refused.getMessage().contains("load phase"), refused.getMessage());
  }

  @Test
  void theLoadPhaseCreatesNothingWhenToldSo() {
    ClientRun run = ClientRun.of("load", output, properties("table=" + table + "_none", "arangodb.create=false"));
    assertEquals(ExitCode.SETUP, run.code());
    assertTrue(run.err().contains(table + "_none"), run.err());
  }

  @Test
  void theClientLoadsAndRunsTheWholeMix() throws SetupException {
    new ArangoAdmin().perform("drop", properties());
    ClientRun load = ClientRun.of("load", output.resolve("load"), properties("threadcount=4"));
    assertEquals(ExitCode.OK, load.code(), load.err());
    assertEquals((long) RECORDS, new ArangoAdmin().perform("count", properties()).get("rows"));
    for (String how : List.of("threadcount=4", "clients=40")) {
      ClientRun run = ClientRun.of("run", output.resolve(how),
          properties(how, "operationcount=600", "operation.mix=exact", "batchinsertproportion=0", "insertproportion=0"));
      assertEquals(ExitCode.OK, run.code(), run.err());
      for (OperationType type : OperationType.values()) {
        boolean wanted = type != OperationType.INSERT && type != OperationType.BATCH_INSERT;
        assertEquals(wanted, run.count(type.label()) > 0, type.label() + " in " + run.summary().path("operations"));
      }
    }
  }

  @Test
  void maintenanceWorks() throws SetupException {
    Map<String, Object> probe = new ArangoAdmin().perform("probe", properties());
    assertTrue((long) probe.get("put_ns") > 0 && (long) probe.get("get_ns") > 0 && (long) probe.get("delete_ns") > 0);
    assertFalse(collection().db().collection("strata_probe").exists());
    assertEquals((long) RECORDS, new ArangoAdmin().perform("count", properties()).get("rows"));
    assertEquals(false, new ArangoAdmin().perform("flush", properties()).get("flushed"));
    Map<String, Object> status = new ArangoAdmin().perform("status", properties());
    assertTrue(status.get("version") instanceof String);
    assertEquals(true, new ArangoAdmin().perform("drop", properties()).get("dropped"));
    assertEquals(false, new ArangoAdmin().perform("drop", properties()).get("dropped"));
    assertThrows(SetupException.class, () -> new ArangoAdmin().perform("count", properties()));
  }

  /** Properties from pairs. */
  static Properties of(Map<String, String> pairs) {
    Properties properties = new Properties();
    properties.putAll(pairs);
    return properties;
  }
}
