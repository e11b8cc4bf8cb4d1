// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.Vector;
import java.util.zip.Deflater;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.stratabench.ycsb.workload.AcknowledgedInserts;
import org.stratabench.ycsb.workload.Key;
import org.stratabench.ycsb.workload.KeyNames;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Request;
import org.stratabench.ycsb.workload.RequestGenerator;
import org.stratabench.ycsb.workload.Shard;
import org.stratabench.ycsb.workload.WorkloadSpec;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.RandomByteIterator;
import site.ycsb.Status;
import site.ycsb.generator.AcknowledgedCounterGenerator;
import site.ycsb.generator.HotspotIntegerGenerator;
import site.ycsb.generator.NumberGenerator;
import site.ycsb.generator.ScrambledZipfianGenerator;

/**
 * Fourteen things that are wrong in YCSB 0.17.0 and right here. Where YCSB's own class can be asked, the test shows first that it is wrong there.
 */
class YcsbDefectsTest {
  private static final int DRAWS = 400_000;

  @TempDir
  private Path output;

  /** Slow to connect and slow to leave. */
  public static final class SlowDb extends DB {
    @Override
    public void init() throws DBException {
      pause();
    }

    @Override
    public void cleanup() {
      pause();
    }

    private static void pause() {
      try {
        Thread.sleep(600);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }

    @Override
    public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
      return Status.OK;
    }

    @Override
    public Status scan(String table, String startKey, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
      return Status.OK;
    }

    @Override
    public Status update(String table, String key, Map<String, ByteIterator> values) {
      return Status.OK;
    }

    @Override
    public Status insert(String table, String key, Map<String, ByteIterator> values) {
      return Status.OK;
    }

    @Override
    public Status delete(String table, String key) {
      return Status.OK;
    }
  }

  @Test
  void defect1TheHottestOfAThousandZipfianKeysGetsItsTrueShare() {
    // 1 / (1 + 2^-0.99 + ... + 1000^-0.99)
    double due = 0.1296;
    NumberGenerator ycsb = new ScrambledZipfianGenerator(1000);
    assertTrue(hottestShare(() -> ycsb.nextValue().longValue()) < due / 2);
    assertEquals(due, hottestShare(keys("requestdistribution", "zipfian")), 0.004);
  }

  @Test
  void defect2InsertsOfSeveralClientsNeverCollide() {
    Set<Integer> keys = new HashSet<>();
    for (int shard = 0; shard < 3; shard++) {
      Path own = output.resolve("shard" + shard);
      ClientProcess client = ClientProcess.run(own, "run noop -p recordcount=1000 -p operationcount=999 -p readproportion=0"
          + " -p updateproportion=0 -p insertproportion=1 -threads 3 -shard " + shard + "/3");
      assertEquals(ExitCode.OK, client.code(), client.err());
      OperationLogFile.read(own.resolve("ops.bin")).rows().forEach(row -> assertTrue(keys.add(row.keyHash())));
    }
    assertEquals(999, keys.size());
  }

  @Test
  void defect3AScanThatFindsNothingIsAnAnswer() {
    ClientProcess client = ClientProcess.run(output, "run noop -p recordcount=10 -p operationcount=100 -p readproportion=0"
        + " -p updateproportion=0 -p scanproportion=1");
    assertEquals(ExitCode.OK, client.code(), client.err());
    JsonObject scan = ClientProcess.summary(output).getAsJsonObject("operations").getAsJsonObject("SCAN");
    assertEquals(100, scan.get("ok").getAsInt());
    assertEquals(0, scan.get("records").getAsInt());
  }

  @Test
  void defect4NoConnectionIsAFailure() {
    assertEquals(ExitCode.SETUP,
        ClientProcess.run("run noop -p noop.fail.connect=true -p recordcount=10 -p operationcount=10 -threads 3").code());
    assertEquals(ExitCode.SETUP, ClientProcess.run("run no.such.Binding -p recordcount=10 -p operationcount=10").code());
  }

  @Test
  void defect5OneOperationASecondOnFourThreadsKeepsItsSchedule() {
    ClientProcess client = ClientProcess.run(output, "run noop -p recordcount=10 -p operationcount=3 -threads 4 -target 1");
    assertEquals(ExitCode.OK, client.code(), client.err());
    assertEquals(2e9, ClientProcess.summary(output).get("measured_ns").getAsLong(), 0.2e9);
  }

  @Test
  void defect6MoreThreadsThanOperationsKeepTheTargetOfAll() {
    ClientProcess client = ClientProcess.run(output, "run noop -p recordcount=10 -p operationcount=5 -threads 8 -target 10");
    assertEquals(ExitCode.OK, client.code(), client.err());
    assertEquals(0.4e9, ClientProcess.summary(output).get("measured_ns").getAsLong(), 0.1e9);
  }

  @Test
  void defect7TheWriteOfAReadModifyWriteDoesNotContainTheRead() {
    ClientProcess client = ClientProcess.run(output, "run noop -p recordcount=10 -p operationcount=60 -p readproportion=0"
        + " -p updateproportion=0 -p readmodifywriteproportion=1 -p noop.delay.us=4000 -target 60");
    assertEquals(ExitCode.OK, client.code(), client.err());
    JsonObject whole = ClientProcess.summary(output).getAsJsonObject("operations").getAsJsonObject("READ-MODIFY-WRITE");
    JsonObject parts = whole.getAsJsonObject("parts");
    assertEquals(60, parts.getAsJsonObject("UPDATE").get("count").getAsInt());
    double read = p50Ms(parts.getAsJsonObject("READ"), "latency_ns");
    double write = p50Ms(parts.getAsJsonObject("UPDATE"), "latency_ns");
    assertTrue(read >= 4 && write >= 4);
    assertEquals(p50Ms(whole, "latency_ns"), read + write, 0.3 * (read + write));
    assertTrue(p50Ms(whole, "intended_ns") >= 8);
    assertTrue(write < 0.75 * p50Ms(whole, "intended_ns"));
    assertTrue(parts.getAsJsonObject("UPDATE").get("intended_ns").isJsonNull());
    assertFalse(Files.exists(output.resolve("Intended-RMW-UPDATE.hdr")));
  }

  private static double p50Ms(JsonObject operation, String times) {
    return operation.getAsJsonObject(times).get("p50").getAsDouble() / 1e6;
  }

  @Test
  void defect8CountsAndKeysPass32Bits() {
    ClientProcess client = ClientProcess.run(output, "load noop -p recordcount=9000000000 -p insertstart=8999999990 -p insertorder=ordered");
    assertEquals(ExitCode.OK, client.code(), client.err());
    Set<Integer> loaded = new HashSet<>();
    OperationLogFile.read(output.resolve("ops.bin")).rows().forEach(row -> loaded.add(row.keyHash()));
    KeyNames names = new KeyNames(false, 1);
    Key key = new Key();
    for (long number = 8_999_999_990L; number < 9_000_000_000L; number++) {
      names.name(number, key);
      assertTrue(loaded.remove(key.hash()));
    }
    assertTrue(loaded.isEmpty());
    ClientProcess endless = ClientProcess.run(output,
        "run noop -p recordcount=9000000000 -p operationcount=8000000000 -p maxexecutiontime=1 -p requestdistribution=zipfian -p oplog=false");
    assertEquals(ExitCode.OK, endless.code(), endless.err());
    assertEquals(8_000_000_000L, ClientProcess.summary(output).get("planned_operations").getAsLong());
  }

  @Test
  void defect9ThroughputIsOfTheMeasuredWindowOnly() {
    ClientProcess client = ClientProcess.run(output, "run " + SlowDb.class.getName()
        + " -p recordcount=10 -p operationcount=101 -p warmup.seconds=0.5 -target 500");
    assertEquals(ExitCode.OK, client.code(), client.err());
    // 101 operations at 500 a second take 0.2 s; connecting, warming up and leaving another 1.7 s
    assertEquals(505, ClientProcess.summary(output).get("throughput_ops_per_s").getAsDouble(), 60);
  }

  @Test
  void defect10FastThreadsAreStaggered() {
    ClientProcess client = ClientProcess.run(output, "run noop -p recordcount=10 -p operationcount=4000 -threads 2 -target 4000");
    assertEquals(ExitCode.OK, client.code(), client.err());
    OperationLogFile log = OperationLogFile.read(output.resolve("ops.bin"));
    long[] due = log.rows().stream().mapToLong(row -> row.startNs() - row.delayNs()).sorted().toArray();
    for (int i = 1; i < due.length; i++) {
      assertEquals(250_000, due[i] - due[i - 1], 1);
    }
  }

  @Test
  void defect11OnlyAcknowledgedInsertsAreReadAndNoneIsForgotten() {
    AcknowledgedCounterGenerator ycsb = new AcknowledgedCounterGenerator(0);
    AcknowledgedInserts ours = new AcknowledgedInserts(0, Shard.WHOLE, true);
    ours.take(2);
    ycsb.nextValue();
    // YCSB has no way to say that an insert failed: its key becomes readable
    ycsb.acknowledge(0);
    assertEquals(0, ycsb.lastValue());
    ours.answered(0, 1, false);
    ours.answered(1, 1, true);
    assertEquals(2, ours.frontier());
    assertFalse(ours.acknowledged(0));
    assertTrue(ours.acknowledged(1));
  }

  @Test
  void defect12LatestFollowsTheNumberOfRecordsExactly() {
    Properties properties = new Properties();
    properties.setProperty("recordcount", "50");
    properties.setProperty("requestdistribution", "latest");
    properties.setProperty("insertorder", "ordered");
    WorkloadSpec spec = new WorkloadSpec(new Settings(properties));
    RequestGenerator generator = new RequestGenerator(new RequestGenerator.Shared(spec, Shard.WHOLE), 0, 1, new SplittableRandom(2));
    for (int i = 0; i < 950; i++) {
      generator.prepare(OperationType.INSERT);
      generator.answered(true);
    }
    generator.prepare(OperationType.READ);
    long newest = 0;
    for (int i = 0; i < DRAWS; i++) {
      generator.prepare(OperationType.READ);
      newest += generator.request().key().toString().equals("user999") ? 1 : 0;
    }
    assertEquals(0.1296, (double) newest / DRAWS, 0.004);
  }

  @Test
  void defect13TheHotSetIsSpreadOverTheKeys() {
    NumberGenerator ycsb = new HotspotIntegerGenerator(0, 999, 0.1, 0.9);
    assertTrue(shareOfFirstTenth(() -> ycsb.nextValue().longValue()) > 0.85);
    KeySource ours = keys("requestdistribution", "hotspot", "hotspotdatafraction", "0.1", "hotspotopnfraction", "0.9");
    assertEquals(0.1, shareOfFirstTenth(ours), 0.03);
  }

  @Test
  void defect14ValuesDoNotCompress() {
    assertTrue(deflated(new RandomByteIterator(100_000).toArray()) < 85_000);
    Properties properties = new Properties();
    properties.setProperty("recordcount", "1");
    properties.setProperty("fieldlength", "100000");
    WorkloadSpec spec = new WorkloadSpec(new Settings(properties));
    RequestGenerator generator = new RequestGenerator(new RequestGenerator.Shared(spec, Shard.WHOLE), 0, 1, new SplittableRandom(2));
    generator.prepareLoad(0);
    assertTrue(deflated(generator.request().item(0).value(0).toBytes()) >= 100_000);
    assertNull(generator.request().fields());
  }

  private static int deflated(byte[] bytes) {
    Deflater deflater = new Deflater(Deflater.BEST_COMPRESSION);
    deflater.setInput(bytes);
    deflater.finish();
    int size = deflater.deflate(new byte[2 * bytes.length]);
    deflater.end();
    return size;
  }

  private interface KeySource {
    long next();
  }

  /** Key numbers of reads of a thousand records. */
  private static KeySource keys(String... pairs) {
    Properties properties = new Properties();
    properties.setProperty("recordcount", "1000");
    properties.setProperty("insertorder", "ordered");
    for (int i = 0; i < pairs.length; i += 2) {
      properties.setProperty(pairs[i], pairs[i + 1]);
    }
    WorkloadSpec spec = new WorkloadSpec(new Settings(properties));
    RequestGenerator generator = new RequestGenerator(new RequestGenerator.Shared(spec, Shard.WHOLE), 0, 1, new SplittableRandom(1));
    Request request = generator.request();
    return () -> {
      generator.prepare(OperationType.READ);
      return Long.parseLong(request.key().toString().substring(4));
    };
  }

  private static double hottestShare(KeySource keys) {
    long[] observed = new long[1001];
    for (int i = 0; i < DRAWS; i++) {
      observed[(int) keys.next()]++;
    }
    return Arrays.stream(observed).max().orElseThrow() / (double) DRAWS;
  }

  private static double shareOfFirstTenth(KeySource keys) {
    long first = 0;
    for (int i = 0; i < DRAWS; i++) {
      first += keys.next() < 100 ? 1 : 0;
    }
    return first / (double) DRAWS;
  }
}
