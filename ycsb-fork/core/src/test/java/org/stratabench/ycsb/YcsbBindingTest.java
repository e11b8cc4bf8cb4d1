// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.measurements.Measurements;

/** A binding written for YCSB may hold back writes until it is cleaned up, as those for JDBC and HBase do. */
class YcsbBindingTest {
  private static final AtomicInteger WRITTEN = new AtomicInteger();

  @TempDir
  private Path output;

  /** Writes nothing before it is cleaned up. */
  public static final class Batching extends DB {
    private int heldBack;

    @Override
    public Status insert(String table, String key, Map<String, ByteIterator> values) {
      heldBack++;
      return Status.BATCHED_OK;
    }

    @Override
    public void cleanup() throws DBException {
      switch (getProperties().getProperty("batching.cleanup", "quick")) {
        case "slow" -> pause(5_500);
        case "stuck" -> pause(2_000);
        case "refused" -> throw new DBException("the last batch was refused");
        case "broken" -> throw new NoClassDefFoundError("org/example/Batch");
        case "measured" -> Measurements.getMeasurements().measure("UPDATE", 1);
        default -> { }
      }
      WRITTEN.addAndGet(heldBack);
    }

    private static void pause(long ms) {
      try {
        TimeUnit.MILLISECONDS.sleep(ms);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }

    @Override
    public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
      return Status.NOT_FOUND;
    }

    @Override
    public Status scan(String table, String startKey, int count, Set<String> fields,
        Vector<HashMap<String, ByteIterator>> result) {
      return Status.OK;
    }

    @Override
    public Status update(String table, String key, Map<String, ByteIterator> values) {
      return Status.OK;
    }

    @Override
    public Status delete(String table, String key) {
      return Status.OK;
    }
  }

  @BeforeEach
  void nothingIsWritten() {
    WRITTEN.set(0);
  }

  private ClientProcess load(String cleanup) {
    return ClientProcess.run(output, "load " + Batching.class.getName()
        + " -p recordcount=100 -threads 3 -p error.hang.seconds=10 -p batching.cleanup=" + cleanup);
  }

  @Test
  void whatItHoldsBackArrivesHoweverLongThatTakes() {
    ClientProcess client = load("slow");
    assertEquals(ExitCode.OK, client.code(), client.err());
    assertEquals(100, WRITTEN.get());
    assertTrue(ClientProcess.summary(output).get("measured_ns").getAsLong() < 5_000_000_000L);
  }

  @Test
  void whatItCannotWriteInTheEndFailsTheRun() {
    for (String cleanup : new String[] {"refused", "broken"}) {
      ClientProcess client = load(cleanup);
      assertEquals(ExitCode.ERRORS, client.code(), client.err());
      assertEquals("failed", ClientProcess.summary(output).get("status").getAsString());
      String cause = cleanup.equals("refused") ? "the last batch was refused" : "org/example/Batch";
      assertTrue(client.err().contains(cause) && client.err().contains("client-"), client.err());
    }
  }

  @Test
  void oneThatDoesNotLeaveHoldsNobodyForEver() {
    ClientProcess client = load("stuck -p error.hang.seconds=1");
    assertEquals(ExitCode.ERRORS, client.code(), client.err());
    assertTrue(client.err().contains("error.hang.seconds"), client.err());
  }

  @Test
  void itMayAskForYcsbsMeasurements() {
    ClientProcess client = load("measured");
    assertEquals(ExitCode.OK, client.code(), client.err());
    assertEquals(100, WRITTEN.get());
  }
}
