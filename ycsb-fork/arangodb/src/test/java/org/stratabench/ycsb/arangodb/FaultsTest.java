// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.stratabench.ycsb.ExitCode;

/** Hosts, credentials and coordinators that fail, played by the stand-in. */
@Timeout(90)
class FaultsTest {
  private static final String SECRET = "correct-horse-battery";

  @TempDir
  private Path output;
  private ArangoStandIn standIn;

  @BeforeEach
  void start() {
    standIn = ArangoStandIn.start(3);
  }

  @AfterEach
  void stop() {
    standIn.close();
  }

  private ClientRun client(String phase, String... more) {
    return client(standIn, phase, more);
  }

  private ClientRun client(ArangoStandIn against, String phase, String... more) {
    Properties properties = ArangoSuite.of(Map.of("arangodb.hosts", against.hosts(), "recordcount", "30", "operationcount", "300",
        "fieldcount", "2", "fieldlength", "10"));
    for (String pair : more) {
      properties.setProperty(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
    }
    return ClientRun.of(phase, output.resolve(phase + System.nanoTime()), properties);
  }

  private void all(ArangoStandIn.Fault fault) {
    standIn.coordinators().forEach(coordinator -> coordinator.behave(fault));
  }

  private int[] requests() {
    return standIn.coordinators().stream().mapToInt(ArangoStandIn.Coordinator::requests).toArray();
  }

  private boolean allOf(int[] counts, IntPredicate condition) {
    return IntStream.of(counts).allMatch(condition);
  }

  @ParameterizedTest
  @ValueSource(strings = {"HTTP2_JSON", "HTTP_JSON"})
  void roundRobinUsesEveryCoordinatorAlike(String protocol) {
    ClientRun load = client("load", "arangodb.loadBalancing=ROUND_ROBIN", "arangodb.protocol=" + protocol);
    assertEquals(ExitCode.OK, load.code(), load.err());
    int[] before = requests();
    // one thread: the driver (7.26) counts its turns without synchronisation, and threads that race take some twice
    assertEquals(ExitCode.OK, client("run", "arangodb.loadBalancing=ROUND_ROBIN", "arangodb.protocol=" + protocol).code());
    int[] after = requests();
    for (int i = 0; i < 3; i++) {
      assertEquals(100, after[i] - before[i], 10, "coordinator " + i);
    }
  }

  @Test
  void withoutBalancingOneCoordinatorServes() {
    assertEquals(ExitCode.OK, client("load").code());
    assertEquals(ExitCode.OK, client("run").code());
    int[] counts = requests();
    assertTrue(counts[0] > 300 && counts[1] == 0 && counts[2] == 0, List.of(counts[0], counts[1], counts[2]).toString());
  }

  @Test
  void theClusterCanNameItsCoordinators() {
    String first = "arangodb.hosts=127.0.0.1:" + standIn.coordinator(0).port();
    ClientRun load = client("load", first, "arangodb.acquireHostList=true", "arangodb.loadBalancing=ROUND_ROBIN");
    assertEquals(ExitCode.OK, load.code(), load.err());
    assertTrue(allOf(requests(), count -> count > 5));
  }

  @Test
  void aDeadCoordinatorInTheListIsPassedOver() {
    standIn.coordinator(0).die();
    assertEquals(ExitCode.OK, client("load").code());
    assertEquals(ExitCode.OK, client("run").code());
    assertTrue(standIn.coordinator(1).requests() > 300);
  }

  @ParameterizedTest
  @ValueSource(strings = {"HTTP2_JSON", "HTTP_JSON"})
  void aCoordinatorThatDiesInTheRunCostsWhatWasUnderWay(String protocol) {
    assertEquals(ExitCode.OK, client("load").code());
    standIn.delay(2);
    CompletableFuture<Void> death = standIn.after(200, standIn.coordinator(1)::die);
    ClientRun run = client("run", "arangodb.protocol=" + protocol, "arangodb.loadBalancing=ROUND_ROBIN", "threadcount=4", "target=400",
        "operationcount=1000", "error.bound=0.05", "readproportion=0.5", "updateproportion=0.5");
    death.join();
    assertEquals(ExitCode.OK, run.code(), run.err());
    assertEquals(1000, run.count());
    assertTrue(standIn.coordinator(1).requests() > 50);
  }

  @Test
  void whenAllHaveDiedTheRunEndsAndKeepsWhatItMeasured() {
    assertEquals(ExitCode.OK, client("load").code());
    CompletableFuture<Void> death = standIn.after(200, () -> standIn.coordinators().forEach(ArangoStandIn.Coordinator::die));
    ClientRun run = client("run", "arangodb.loadBalancing=ROUND_ROBIN", "threadcount=2", "target=200", "operationcount=100000",
        "error.bound=0.2");
    death.join();
    assertEquals(ExitCode.ERRORS, run.code(), run.err());
    assertEquals("failed", run.summary().path("status").asText());
    assertTrue(run.count() > 100, run.count() + " measured");
    assertTrue(run.failures("ConnectException") > 10, run.summary().path("operations").toString());
  }

  @Test
  void a503IsTriedElsewhere() {
    assertEquals(ExitCode.OK, client("load").code());
    standIn.coordinator(0).behave(ArangoStandIn.Fault.UNAVAILABLE);
    ClientRun run = client("run");
    assertEquals(ExitCode.OK, run.code(), run.err());
    assertTrue(standIn.coordinator(0).requests() > 0 && standIn.coordinator(1).requests() > 200);
  }

  @Test
  void a503EverywhereIsAFailure() {
    assertEquals(ExitCode.OK, client("load").code());
    CompletableFuture<Void> fault = standIn.after(200, () -> all(ArangoStandIn.Fault.UNAVAILABLE));
    ClientRun run = client("run", "target=100", "operationcount=100000", "error.bound=0.3");
    fault.join();
    assertEquals(ExitCode.ERRORS, run.code(), run.err());
    assertTrue(run.failures("ArangoDB-503") > 10, run.summary().path("operations").toString());
  }

  @Test
  void answersThatBreakOffAreFailures() {
    assertEquals(ExitCode.OK, client("load").code());
    CompletableFuture<Void> fault = standIn.after(200, () -> standIn.coordinator(0).behave(ArangoStandIn.Fault.BREAK_OFF));
    ClientRun run = client("run", "arangodb.hosts=127.0.0.1:" + standIn.coordinator(0).port(), "target=100", "operationcount=100000",
        "readproportion=0", "updateproportion=1", "error.bound=0.3");
    fault.join();
    assertEquals(ExitCode.ERRORS, run.code(), run.err());
    assertTrue(run.failures("HttpClosedException") > 10, run.summary().path("operations").toString());
  }

  @ParameterizedTest
  @ValueSource(strings = {"threadcount=2", "clients=8"})
  void noAnswerEndsWithTheTimeOfARequest(String clients) {
    assertEquals(ExitCode.OK, client("load").code());
    CompletableFuture<Void> fault = standIn.after(200, () -> all(ArangoStandIn.Fault.SILENT));
    ClientRun run = client("run", clients, "arangodb.timeout.ms=300", "operationcount=1000000", "target=100", "error.silence.seconds=2",
        "error.bound=1");
    fault.join();
    assertEquals(ExitCode.ERRORS, run.code(), run.err());
    assertTrue(run.failures("TimeoutException") > 2, run.summary().path("operations").toString());
  }

  @Test
  void aSilentHostIsGivenUpInTime() {
    all(ArangoStandIn.Fault.SILENT);
    long begin = System.nanoTime();
    ClientRun run = client("load", "arangodb.connect.timeout.ms=700");
    assertEquals(ExitCode.SETUP, run.code());
    assertTrue(run.err().contains("within 700 ms") && run.err().contains("arangodb.hosts"), run.err());
    assertTrue(System.nanoTime() - begin < 10_000_000_000L);
  }

  @Test
  void anUnreachableHostIsNamed() {
    standIn.coordinators().forEach(ArangoStandIn.Coordinator::die);
    ClientRun run = client("run");
    assertEquals(ExitCode.SETUP, run.code());
    assertTrue(run.err().contains(standIn.hosts()) && run.err().contains("ConnectException"), run.err());
    assertEquals(1, run.err().lines().count(), run.err());
  }

  @Test
  void wrongCredentialsAreToldAndNeverShown() {
    try (ArangoStandIn guarded = ArangoStandIn.guarded("bench", SECRET, null)) {
      ClientRun run = client(guarded, "load", "arangodb.user=bench", "arangodb.password=wrong-" + SECRET);
      assertEquals(ExitCode.SETUP, run.code());
      assertTrue(run.err().contains("refuses user bench") && run.err().contains("arangodb.password"), run.err());
      assertFalse((run.err() + run.out() + run.summary()).contains(SECRET));
    }
  }

  @Test
  void passwordsComeFromPropertiesOrFiles() throws IOException {
    Path file = Files.writeString(output.resolve("password"), SECRET + "\n");
    try (ArangoStandIn guarded = ArangoStandIn.guarded("bench", SECRET, null)) {
      ClientRun run = client(guarded, "load", "arangodb.user=bench", "arangodb.passwordFile=" + file);
      assertEquals(ExitCode.OK, run.code(), run.err());
      run = client(guarded, "run", "arangodb.user=bench", "arangodb.password=" + SECRET);
      assertEquals(ExitCode.OK, run.code(), run.err());
      assertFalse((run.err() + run.out() + run.summary()).contains(SECRET));
      assertEquals(ExitCode.USAGE, client(guarded, "run", "arangodb.password=x", "arangodb.passwordFile=" + file).code());
      assertEquals(ExitCode.USAGE, client(guarded, "run", "arangodb.passwordFile=" + file + ".none").code());
    }
  }

  @Test
  void aTokenReplacesThePassword() throws IOException {
    Path file = Files.writeString(output.resolve("token"), "aaa.bbb.ccc\n");
    try (ArangoStandIn guarded = ArangoStandIn.guarded(null, null, "aaa.bbb.ccc")) {
      assertEquals(ExitCode.OK, client(guarded, "load", "arangodb.jwtFile=" + file).code());
      ClientRun run = client(guarded, "run", "arangodb.jwt=aaa.bbb.ddd");
      assertEquals(ExitCode.SETUP, run.code());
      assertTrue(run.err().contains("refuses the token"), run.err());
      assertFalse((run.err() + run.summary()).contains("aaa.bbb.ddd"));
    }
  }
}
