// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.stratabench.ycsb.db.AsyncSession;
import org.stratabench.ycsb.db.Database;
import org.stratabench.ycsb.db.Session;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.WorkloadSpec;

/** Many logical clients on few threads, against a database that answers after a set time on a thread of its own. */
class AsyncClientsTest {
  private static final long ANSWER_MS = 20;

  @TempDir
  private Path output;

  /** Answers every request after {@link #ANSWER_MS}; every hundredth with a failure. */
  public static final class Delayed implements Database {
    private final ScheduledExecutorService answers = Executors.newSingleThreadScheduledExecutor();
    private int requests;

    @Override
    public Set<OperationType> operations() {
      return EnumSet.of(OperationType.READ, OperationType.UPDATE, OperationType.READ_MODIFY_WRITE);
    }

    @Override
    public void open(Settings settings, WorkloadSpec workload, boolean load) {
    }

    @Override
    public Session session() {
      throw new UnsupportedOperationException();
    }

    @Override
    public boolean asynchronous() {
      return true;
    }

    @Override
    public AsyncSession asyncSession() {
      return (request, completion) -> {
        boolean fails;
        synchronized (this) {
          fails = ++requests % 100 == 0;
        }
        if (fails && requests % 200 == 0) {
          throw new IllegalStateException("refused at once");
        }
        answers.schedule(() -> completion.complete(fails ? Answer.failed("LATE") : Answer.OK), ANSWER_MS, TimeUnit.MILLISECONDS);
      };
    }

    @Override
    public void close() {
      answers.shutdown();
    }
  }

  private static final String RUN = "run " + Delayed.class.getName() + " -p recordcount=1000 -p error.bound=0.1 -threads 2 -p clients=100 ";

  @Test
  void aHundredClientsOnTwoThreadsAreAsFastAsAHundredThreads() {
    ClientProcess client = ClientProcess.run(output, RUN + "-p operationcount=5000 -p warmup.operations=200 -p operation.mix=exact");
    assertEquals(ExitCode.OK, client.code(), client.err());
    JsonObject summary = ClientProcess.summary(output);
    // 50 operations of 20 ms for each client, one after the other
    assertTrue(summary.get("measured_ns").getAsLong() >= 0.98e9 && summary.get("measured_ns").getAsLong() < 3e9,
        summary.get("measured_ns").getAsString());
    assertEquals(100, summary.get("clients").getAsInt());
    OperationLogFile log = OperationLogFile.read(output.resolve("ops.bin"));
    assertEquals(4750, log.count("READ"));
    assertEquals(250, log.count("UPDATE"));
    Map<Integer, Integer> each = new HashMap<>();
    log.rows().forEach(row -> each.merge(row.thread(), 1, Integer::sum));
    assertEquals(Set.of(50), Set.copyOf(each.values()));
    assertEquals(100, each.size());
    noClientHasTwoOperationsUnderWay(log);
    long failed = log.rows().stream().filter(row -> row.status().equals("FAILED")).count();
    assertEquals(52, failed, 2);
    assertTrue(client.out().contains("Return=LATE") && client.out().contains("Return=IllegalStateException"), client.out());
  }

  private static void noClientHasTwoOperationsUnderWay(OperationLogFile log) {
    Map<Integer, List<OperationLogFile.Row>> byClient = new HashMap<>();
    log.rows().forEach(row -> byClient.computeIfAbsent(row.thread(), c -> new ArrayList<>()).add(row));
    for (List<OperationLogFile.Row> rows : byClient.values()) {
      rows.sort(Comparator.comparingLong(OperationLogFile.Row::startNs));
      for (int i = 1; i < rows.size(); i++) {
        assertTrue(rows.get(i - 1).startNs() + rows.get(i - 1).latencyNs() <= rows.get(i).startNs());
      }
    }
  }

  @Test
  void everyClientKeepsItsOwnScheduleAndLatency() {
    ClientProcess client = ClientProcess.run(output,
        RUN + "-p operationcount=1000 -target 1000 -p readproportion=0 -p updateproportion=0 -p readmodifywriteproportion=1");
    assertEquals(ExitCode.OK, client.code(), client.err());
    OperationLogFile log = OperationLogFile.read(output.resolve("ops.bin"));
    List<OperationLogFile.Row> rows = new ArrayList<>(log.rows());
    Collections.sort(rows, Comparator.comparingLong(row -> row.startNs() - row.delayNs()));
    for (int i = 0; i < rows.size(); i++) {
      assertEquals(i % 100, rows.get(i).thread());
      // a read and then a write; those that failed may have ended with the first
      assertTrue(rows.get(i).status().equals("FAILED") || rows.get(i).latencyNs() >= 2 * ANSWER_MS * 1_000_000);
    }
    JsonObject parts = ClientProcess.summary(output).getAsJsonObject("operations").getAsJsonObject("READ-MODIFY-WRITE")
        .getAsJsonObject("parts");
    long reads = parts.getAsJsonObject("READ").get("count").getAsLong();
    long failedReads = parts.getAsJsonObject("READ").get("failed").getAsLong();
    assertEquals(1000, reads);
    assertEquals(reads - failedReads, parts.getAsJsonObject("UPDATE").get("count").getAsLong());
  }

  /** Answers at once, but for one request late in the warm-up, whose answer takes three seconds. */
  public static final class OnceSlow implements Database {
    private static final int SLOW_REQUEST = 45;
    private final ScheduledExecutorService answers = Executors.newSingleThreadScheduledExecutor();
    private final AtomicInteger requests = new AtomicInteger();

    @Override
    public Set<OperationType> operations() {
      return EnumSet.of(OperationType.READ);
    }

    @Override
    public void open(Settings settings, WorkloadSpec workload, boolean load) {
    }

    @Override
    public Session session() {
      throw new UnsupportedOperationException();
    }

    @Override
    public boolean asynchronous() {
      return true;
    }

    @Override
    public AsyncSession asyncSession() {
      return (request, completion) -> {
        if (requests.incrementAndGet() == SLOW_REQUEST) {
          answers.schedule(() -> completion.complete(Answer.OK), 3, TimeUnit.SECONDS);
        } else {
          completion.complete(Answer.OK);
        }
      };
    }

    @Override
    public void close() {
      answers.shutdown();
    }
  }

  @Test
  void aClientThatStillWaitsWhenTheWarmupEndsHoldsUpNoOther() {
    ClientProcess client = ClientProcess.run(output, "run " + OnceSlow.class.getName() + " -p recordcount=10 -threads 1"
        + " -p operationcount=100 -p clients=10 -target 100 -p readproportion=1 -p updateproportion=0"
        + " -p warmup.seconds=0.5");
    assertEquals(ExitCode.OK, client.code(), client.err());
    OperationLogFile log = OperationLogFile.read(output.resolve("ops.bin"));
    assertEquals(100, log.rows().size());
    Set<Integer> late = log.rows().stream().filter(row -> row.delayNs() > 1_000_000_000L)
        .map(OperationLogFile.Row::thread).collect(Collectors.toSet());
    assertEquals(1, late.size(), late.toString());
  }

  /** Answers at once on a thread of its own; sending a read takes a long time. */
  public static final class SlowToSend implements Database {
    private static final long SEND_MS = 100;
    private final ExecutorService answers = Executors.newSingleThreadExecutor();

    @Override
    public Set<OperationType> operations() {
      return EnumSet.of(OperationType.READ_MODIFY_WRITE);
    }

    @Override
    public void open(Settings settings, WorkloadSpec workload, boolean load) {
    }

    @Override
    public Session session() {
      throw new UnsupportedOperationException();
    }

    @Override
    public boolean asynchronous() {
      return true;
    }

    @Override
    public AsyncSession asyncSession() {
      return (request, completion) -> {
        answers.execute(() -> completion.complete(Answer.OK));
        if (request.type() == OperationType.READ) {
          Thread.sleep(SEND_MS);
        }
      };
    }

    @Override
    public void close() {
      answers.shutdown();
    }
  }

  @Test
  void theWriteOfAReadModifyWriteBeginsWhenItIsSent() {
    ClientProcess client = ClientProcess.run(output, "run " + SlowToSend.class.getName() + " -p recordcount=10 -threads 1"
        + " -p operationcount=20 -p clients=2 -p readproportion=0 -p updateproportion=0 -p readmodifywriteproportion=1");
    assertEquals(ExitCode.OK, client.code(), client.err());
    JsonObject write = ClientProcess.summary(output).getAsJsonObject("operations").getAsJsonObject("READ-MODIFY-WRITE")
        .getAsJsonObject("parts").getAsJsonObject("UPDATE");
    assertEquals(20, write.get("count").getAsInt());
    double p50Ms = write.getAsJsonObject("latency_ns").get("p50").getAsDouble() / 1e6;
    assertTrue(p50Ms < SlowToSend.SEND_MS / 2.0, "a write takes " + p50Ms + " ms");
  }

  /** Answers a number of requests at once, and never another one. */
  public static final class FallingSilent implements Database {
    private static final int ANSWERS = 70;
    private final AtomicInteger requests = new AtomicInteger();

    @Override
    public Set<OperationType> operations() {
      return EnumSet.of(OperationType.READ);
    }

    @Override
    public void open(Settings settings, WorkloadSpec workload, boolean load) {
    }

    @Override
    public Session session() {
      throw new UnsupportedOperationException();
    }

    @Override
    public boolean asynchronous() {
      return true;
    }

    @Override
    public AsyncSession asyncSession() {
      return (request, completion) -> {
        if (requests.incrementAndGet() <= ANSWERS) {
          completion.complete(Answer.OK);
        }
      };
    }

    @Override
    public void close() {
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"-p operationcount=1000", "-target 100 -p maxexecutiontime=2"})
  @Timeout(60)
  void aDriverThatFallsSilentEndsTheRunInOrder(String length) {
    ClientProcess client = ClientProcess.run(output, "run " + FallingSilent.class.getName() + " -p recordcount=10 -threads 1"
        + " -p clients=4 -p readproportion=1 -p updateproportion=0 -p error.hang.seconds=1 " + length);
    assertEquals(ExitCode.ERRORS, client.code(), client.err());
    assertTrue(client.err().contains("4 operations of client thread 0") && client.err().contains("error.hang.seconds"), client.err());
    JsonObject summary = ClientProcess.summary(output);
    assertEquals("failed", summary.get("status").getAsString());
    assertEquals(FallingSilent.ANSWERS, summary.getAsJsonObject("operations").getAsJsonObject("READ").get("count").getAsInt());
    // the second that four clients waited for it in vain is in no time, and was no work of theirs
    assertTrue(summary.getAsJsonObject("client").get("waiting_share").isJsonNull());
    assertFalse(client.err().contains("the client's own work"), client.err());
  }

  @Test
  void aBindingThatBlocksRefusesManyClients() {
    ClientProcess client = ClientProcess.run("run " + YcsbDefectsTest.SlowDb.class.getName()
        + " -p recordcount=10 -p operationcount=10 -p clients=5");
    assertEquals(ExitCode.USAGE, client.code());
    assertTrue(client.err().contains("asynchronous"), client.err());
  }

  @Test
  void anOperationTheBindingCannotDoIsRefusedByName() {
    ClientProcess client = ClientProcess.run(RUN + "-p operationcount=10 -p traversalproportion=0.1");
    assertEquals(ExitCode.USAGE, client.code());
    assertTrue(client.err().contains("TRAVERSAL") && client.err().contains("traversalproportion"), client.err());
  }
}
