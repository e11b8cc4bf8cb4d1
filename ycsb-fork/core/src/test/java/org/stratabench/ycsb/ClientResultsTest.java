// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.HdrHistogram.EncodableHistogram;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogReader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.stratabench.ycsb.workload.Key;
import org.stratabench.ycsb.workload.KeyNames;

/** What a run leaves behind agrees with itself and with what was asked for. */
class ClientResultsTest {
  private static final long SECOND = 1_000_000_000L;
  /** Enough for a client whose code has not run before, on a busy machine. */
  private static final long START_IN = 4 * SECOND;

  @TempDir
  private Path output;

  @ParameterizedTest
  @ValueSource(ints = {1, 3, 7, 64})
  void summaryHistogramsAndLogAgreeAndTheMixIsExact(int threads) throws IOException {
    ClientProcess client = ClientProcess.run(output, "run noop -p recordcount=1000 -p operationcount=10007 -p operation.mix=exact"
        + " -p readproportion=0.6 -p updateproportion=0 -p insertproportion=0.34 -p deleteproportion=0.06"
        + " -p requestdistribution=latest -p warmup.operations=500 -p noop.fail.every=50 -p error.bound=0.1 -threads " + threads);
    assertEquals(ExitCode.OK, client.code(), client.err());
    JsonObject operations = ClientProcess.summary(output).getAsJsonObject("operations");
    OperationLogFile log = OperationLogFile.read(output.resolve("ops.bin"));
    // 10007 * (0.6, 0.34, 0.06) = (6004.2, 3402.38, 600.42); the one left over goes to the largest remainder
    int[] expected = {6004, 3402, 601};
    String[] names = {"READ", "INSERT", "DELETE"};
    for (int i = 0; i < names.length; i++) {
      JsonObject operation = operations.getAsJsonObject(names[i]);
      assertEquals(expected[i], operation.get("count").getAsLong());
      assertEquals(expected[i], log.count(names[i]));
      assertEquals(expected[i] - operation.get("failed").getAsLong(), histogramCount(names[i]));
      assertEquals(operation.get("failed").getAsLong(), histogramCount(names[i] + "-FAILED"));
      assertTrue(client.out().contains("[" + names[i] + "], Operations, " + histogramCount(names[i])));
    }
    assertEquals(3, operations.size());
    assertEquals(10007, log.rows().size());
    assertEquals(threads, log.rows().stream().map(OperationLogFile.Row::thread).distinct().count());
    assertTrue(log.rows().stream().allMatch(row -> row.delayNs() == -1));
    assertFalse(Files.exists(output.resolve("Intended-READ.hdr")));
  }

  private long histogramCount(String name) throws IOException {
    long count = 0;
    try (HistogramLogReader reader = new HistogramLogReader(output.resolve(name + ".hdr").toFile())) {
      for (EncodableHistogram next = reader.nextIntervalHistogram(); next != null; next = reader.nextIntervalHistogram()) {
        count += ((Histogram) next).getTotalCount();
      }
    }
    return count;
  }

  @Test
  void intervalsAreWholeSecondsFromTheStartAndHoldTheLogsOperations() throws IOException {
    ClientProcess client =
        ClientProcess.run(output, "run noop -p recordcount=10 -p operationcount=250 -p readproportion=1 -p updateproportion=0 -target 100");
    assertEquals(ExitCode.OK, client.code());
    double start = ClientProcess.summary(output).get("start_unix_ns").getAsLong() / 1e9;
    intervalsHoldTheLogsOperations(start);
    assertEquals(250, histogramCount("Intended-READ"));
  }

  private void intervalsHoldTheLogsOperations(double start) throws IOException {
    OperationLogFile log = OperationLogFile.read(output.resolve("ops.bin"));
    long startNs = ClientProcess.summary(output).get("start_unix_ns").getAsLong();
    try (HistogramLogReader reader = new HistogramLogReader(output.resolve("READ.hdr").toFile())) {
      for (int second = 0; second < 3; second++) {
        Histogram interval = (Histogram) reader.nextIntervalHistogram();
        assertEquals(start + second, interval.getStartTimeStamp() / 1e3, 0.002);
        int now = second;
        assertEquals(second < 2 ? 100 : 50, log.rows().stream()
            .filter(row -> (log.toUnix(row.startNs() - row.delayNs()) - startNs) / SECOND == now).count());
        // one that had ended and was not yet noted may be in another
        assertEquals(log.rows().stream().filter(row -> (log.toUnix(row.startNs() + row.latencyNs()) - startNs) / SECOND == now).count(),
            interval.getTotalCount(), 1);
      }
      assertEquals(null, reader.nextIntervalHistogram());
    }
  }

  /** As on a machine with too few processors: who takes the intervals comes 0.4 s late. */
  @Test
  void anIntervalThatIsTakenLateHoldsNoOperationOfTheNext() throws IOException {
    OutputStream slow = new OutputStream() {
      @Override
      public void write(int letter) {
        // nobody reads it
      }

      @Override
      public void write(byte[] bytes, int from, int length) {
        if (new String(bytes, from, length, StandardCharsets.UTF_8).contains("current ops/sec")) {
          LockSupport.parkNanos(7 * SECOND / 5);
        }
      }
    };
    ExitCode code = new Client().run(("run noop -p recordcount=10 -p operationcount=250 -p readproportion=1 -p updateproportion=0 -target 100"
        + " -s -p status.interval=1 -output " + output).split(" "), InputStream.nullInputStream(),
        new PrintStream(OutputStream.nullOutputStream()), new PrintStream(slow, true, StandardCharsets.UTF_8));
    assertEquals(ExitCode.OK, code);
    intervalsHoldTheLogsOperations(ClientProcess.summary(output).get("start_unix_ns").getAsLong() / 1e9);
  }

  @Test
  void theRunStartsAtTheInstantGivenAndNotBefore() {
    long startAt = System.currentTimeMillis() * 1_000_000 + START_IN;
    ClientProcess client =
        ClientProcess.run(output, "run noop -p recordcount=10 -p operationcount=100 -threads 4 -start-at " + startAt);
    assertEquals(ExitCode.OK, client.code(), client.err());
    assertEquals(startAt, ClientProcess.summary(output).get("start_unix_ns").getAsLong());
    OperationLogFile log = OperationLogFile.read(output.resolve("ops.bin"));
    long first = log.rows().stream().mapToLong(row -> log.toUnix(row.startNs())).min().orElseThrow();
    assertTrue(first >= startAt && first < startAt + SECOND / 2, "first operation " + (first - startAt) + " ns after the start");
  }

  @Test
  void aWarmupByTimeMovesTheMeasuredWindowAndAppearsNowhere() {
    long startAt = System.currentTimeMillis() * 1_000_000 + START_IN;
    ClientProcess client = ClientProcess.run(output,
        "run noop -p recordcount=10 -p operationcount=100 -p warmup.seconds=1.5 -threads 2 -target 1000 -start-at " + startAt);
    assertEquals(ExitCode.OK, client.code(), client.err());
    JsonObject summary = ClientProcess.summary(output);
    assertEquals(startAt + 3 * SECOND / 2, summary.get("start_unix_ns").getAsLong());
    OperationLogFile log = OperationLogFile.read(output.resolve("ops.bin"));
    assertEquals(100, log.rows().size());
    assertTrue(log.rows().stream().allMatch(row -> log.toUnix(row.startNs()) >= startAt + 3 * SECOND / 2));
    // 100 operations at 1000 a second: the last one is due 99 ms after the window's start
    assertTrue(summary.get("measured_ns").getAsLong() >= 99_000_000L);
    assertTrue(summary.get("measured_ns").getAsLong() < SECOND);
  }

  @Test
  void aStallShowsInFullInTheIntendedLatency() {
    runOnAProcessorOfItsOwn("run noop -p recordcount=10 -p operationcount=20000 -target 1000 -p noop.stall.ms=500 -p noop.stall.at.ms=1000"
        + " -p readproportion=1 -p updateproportion=0");
    JsonObject read = ClientProcess.summary(output).getAsJsonObject("operations").getAsJsonObject("READ");
    // operations due in the stall wait 500, 499, ... 1 ms; the 200 longest of 20,000 are above 300 ms
    assertEquals(300e6, read.getAsJsonObject("intended_ns").get("p99").getAsDouble(), 0.05 * 300e6);
    // one thread: a single operation sees the stall itself
    assertTrue(read.getAsJsonObject("latency_ns").get("p99").getAsDouble() < 30e6);
    OperationLogFile log = OperationLogFile.read(output.resolve("ops.bin"));
    long delayed = log.rows().stream().filter(row -> row.delayNs() > 250_000_000L).count();
    assertEquals(250, delayed, 25);
  }

  @ParameterizedTest
  @CsvSource({"constant, -threads 1", "poisson, -threads 3", "poisson, -threads 2 -p clients=8"})
  void operationsThatAStallAtTheEndKeptFromBeginningAreCounted(String arrival, String clients) {
    String commandLine = "run noop -p recordcount=10 -target 200 -p seed=7 -p maxexecutiontime=2 -p arrival=" + arrival + " " + clients;
    ClientProcess calm = ClientProcess.run(output, commandLine);
    assertEquals(ExitCode.OK, calm.code(), calm.err());
    long due = operations() + notBegun();
    if (arrival.equals("constant")) {
      assertEquals(400, due);
    }
    ClientProcess stalled = ClientProcess.run(output, commandLine + " -p noop.stall.at.ms=500 -p noop.stall.ms=2000");
    assertEquals(ExitCode.OK, stalled.code(), stalled.err());
    assertEquals(due, operations() + notBegun());
    // the stall takes three quarters of the time
    assertTrue(notBegun() > due / 2, notBegun() + " of " + due);
    assertTrue(stalled.out().contains("[CLIENT], NotBegun, " + notBegun() + "\n"), stalled.out());
  }

  private long operations() {
    return ClientProcess.summary(output).getAsJsonObject("operations").entrySet().stream()
        .mapToLong(entry -> entry.getValue().getAsJsonObject().get("count").getAsLong()).sum();
  }

  private long notBegun() {
    return ClientProcess.summary(output).getAsJsonObject("client").get("not_begun").getAsLong();
  }

  /** Of nine operations one client does two, and the others have nothing more to do by then. */
  @ParameterizedTest
  @ValueSource(strings = {"", " -p clients=8"})
  void clientsThatEndBeforeOthersHaveNotWaitedTooLittle(String clients) {
    ClientProcess client =
        ClientProcess.run(output, "run noop -p recordcount=10 -p operationcount=9 -p noop.delay.us=500000 -threads 8" + clients);
    assertEquals(ExitCode.OK, client.code(), client.err());
    JsonObject judged = ClientProcess.summary(output).getAsJsonObject("client");
    assertEquals(1, judged.get("waiting_share").getAsDouble(), 0.1);
    assertFalse(judged.getAsJsonArray("warnings").toString().contains("waited for the database"), judged.toString());
  }

  @Test
  void whereNothingIsScheduledNothingIsDue() {
    ClientProcess client = ClientProcess.run(output, "run noop -p recordcount=10 -p operationcount=10");
    assertTrue(ClientProcess.summary(output).getAsJsonObject("client").get("not_begun").isJsonNull());
    assertFalse(client.out().contains("NotBegun"), client.out());
  }

  /** On a busy machine the client itself says that it had to wait for a processor; such a run proves nothing and is repeated. */
  private void runOnAProcessorOfItsOwn(String commandLine) {
    boolean waited = true;
    for (int runs = 0; waited && runs < 3; runs++) {
      ClientProcess process = ClientProcess.run(output, commandLine);
      assertEquals(ExitCode.OK, process.code(), process.err());
      JsonObject client = ClientProcess.summary(output).getAsJsonObject("client");
      waited = client.getAsJsonArray("warnings").toString().contains("for a processor");
    }
    assumeFalse(waited, "the machine is too busy: the client's threads had to wait for a processor in three runs");
  }

  @Test
  void shardsLoadDisjointKeysThatTogetherAreAll() {
    Set<Integer> hashes = new HashSet<>();
    for (int shard = 0; shard < 3; shard++) {
      Path own = output.resolve("shard" + shard);
      assertEquals(ExitCode.OK, ClientProcess.run(own, "load noop -p recordcount=1000 -threads 4 -shard " + shard + "/3").code());
      OperationLogFile log = OperationLogFile.read(own.resolve("ops.bin"));
      JsonObject summary = ClientProcess.summary(own);
      assertEquals(1000 * shard / 3, summary.get("key_start").getAsInt());
      assertEquals(1000 * (shard + 1) / 3, summary.get("key_end").getAsInt());
      log.rows().forEach(row -> assertTrue(hashes.add(row.keyHash())));
    }
    KeyNames names = new KeyNames(true, 1);
    assertEquals(IntStream.range(0, 1000).map(i -> hash(names, i)).boxed().collect(Collectors.toSet()), hashes);
  }

  @Test
  void aShardWithoutAKeyIsNotJudged() {
    ClientProcess client = ClientProcess.run(output, "load noop -p recordcount=3 -shard 0/7");
    assertEquals(ExitCode.OK, client.code(), client.err());
    assertEquals("", client.err());
    assertEquals(0, ClientProcess.summary(output).getAsJsonObject("operations").size());
  }

  private static int hash(KeyNames names, int number) {
    Key key = new Key();
    names.name(number, key);
    return key.hash();
  }

  @Test
  void equalSeedsGiveEqualRequests() {
    String commandLine = "run noop -p recordcount=1000 -p operationcount=2000 -p requestdistribution=zipfian -threads 2 -p seed=";
    assertEquals(requests("a", commandLine + 5), requests("b", commandLine + 5));
    assertFalse(requests("c", commandLine + 5).equals(requests("d", commandLine + 6)));
  }

  private String requests(String folder, String commandLine) {
    Path own = output.resolve(folder);
    assertEquals(ExitCode.OK, ClientProcess.run(own, commandLine).code());
    OperationLogFile log = OperationLogFile.read(own.resolve("ops.bin"));
    StringBuilder requests = new StringBuilder();
    for (int thread = 0; thread < 2; thread++) {
      for (OperationLogFile.Row row : log.rows()) {
        if (row.thread() == thread) {
          requests.append(row.operation()).append(row.keyHash()).append(' ');
        }
      }
    }
    return requests.toString();
  }

  @Test
  void secretsAreMaskedEverywhere() throws IOException {
    ClientProcess client = ClientProcess.run(output,
        "run noop -s -p recordcount=10 -p operationcount=10 -p db.passwd=hush -p my.secret=hush -p auth.token=hush -p user=name");
    String everything = client.out() + client.err() + Files.readString(output.resolve("summary.json"));
    assertFalse(everything.contains("hush"));
    assertEquals("name", ClientProcess.summary(output).getAsJsonObject("properties").get("user").getAsString());
  }

  @Test
  void statusLinesAreJsonInTheOrderOfTheRun() {
    ClientProcess client =
        ClientProcess.run("run noop -status-json -p recordcount=10 -p operationcount=150 -target 100 -p warmup.operations=20");
    String states = Arrays.stream(client.err().split("\n"))
        .map(line -> JsonParser.parseString(line).getAsJsonObject().get("state").getAsString())
        .distinct().collect(Collectors.joining(" "));
    assertEquals("connecting ready warmup measuring done", states);
  }

  @Test
  void ycsbsExportersAndPercentilesAreUnderstood() throws IOException {
    Path file = output.resolve("export.json");
    ClientProcess client = ClientProcess.run("run noop -p recordcount=10 -p operationcount=10 -p hdrhistogram.percentiles=90,99.99 -p exportfile="
        + file + " -p exporter=site.ycsb.measurements.exporter.JSONArrayMeasurementsExporter");
    assertEquals(ExitCode.OK, client.code(), client.err());
    assertEquals("", client.out());
    Set<String> names = new HashSet<>();
    JsonParser.parseString(Files.readString(file)).getAsJsonArray().forEach(line -> {
      JsonObject object = line.getAsJsonObject();
      assertTrue(object.get("value").getAsDouble() >= 0);
      names.add(object.get("metric").getAsString() + " " + object.get("measurement").getAsString());
    });
    assertTrue(names.containsAll(Set.of("OVERALL RunTime(ms)", "READ Operations", "READ 90thPercentileLatency(us)",
        "READ 99.99PercentileLatency(us)", "READ Return=OK")), names.toString());
    assertFalse(names.contains("READ 95thPercentileLatency(us)"));
  }

  @Test
  void resultsOfAnEarlierRunDoNotStay() throws IOException {
    Files.writeString(output.resolve("SCAN.hdr"), "old");
    assertEquals(ExitCode.OK, ClientProcess.run(output, "run noop -p recordcount=10 -p operationcount=10").code());
    assertFalse(Files.exists(output.resolve("SCAN.hdr")));
  }

  @Test
  void moreThreadsThanOperationsAndSlowTargetsWork() {
    ClientProcess client = ClientProcess.run(output, "run noop -p recordcount=10 -p operationcount=3 -threads 8 -target 4");
    assertEquals(ExitCode.OK, client.code(), client.err());
    // the third operation is due half a second after the first, whatever the number of threads
    long measured = ClientProcess.summary(output).get("measured_ns").getAsLong();
    assertEquals(0.5e9, measured, 0.1e9);
  }
}
