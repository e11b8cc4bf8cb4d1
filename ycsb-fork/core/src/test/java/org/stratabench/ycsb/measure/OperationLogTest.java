// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.stratabench.ycsb.OperationLogFile;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Outcome;
import org.stratabench.ycsb.workload.Shard;

class OperationLogTest {
  private static final Path FULL_DEVICE = Path.of("/dev/full");

  @TempDir
  private Path folder;

  @Test
  void everyFieldComesBack() throws IOException {
    Path file = folder.resolve("ops.bin");
    long day = 86_400_000_000_000L;
    // short and long, with and without a schedule, on both sides of what one slot holds
    List<OperationLogFile.Row> rows = List.of(
        new OperationLogFile.Row(1_500, 77, -1, 0xDEADBEEF, 39_999, "SCAN", "NOT_FOUND"),
        new OperationLogFile.Row(Long.MAX_VALUE, 0, 12, 1, 65_535, "READ-MODIFY-WRITE", "FAILED"),
        new OperationLogFile.Row(1_000, (1 << 24) - 2, -1, 0, 0, "READ", "OK"),
        new OperationLogFile.Row(1_000, (1 << 24) - 1, -1, -1, 0, "READ", "OK"),
        new OperationLogFile.Row(1_000 + (1L << 48) - 1, 5, -1, 7, 1, "TRAVERSAL", "FAILED"),
        new OperationLogFile.Row(1_000 + (1L << 48), 5, -1, 7, 1, "TRAVERSAL", "FAILED"),
        new OperationLogFile.Row(400 * day, 3 * day, 2 * day, 7, 1, "UPDATE", "OK"),
        new OperationLogFile.Row(2_000, 6, 0, 7, 1, "UPDATE", "OK"));
    try (OperationLog log = new OperationLog(file)) {
      log.writeHeader(new Clock(5_000, 1_000), new Shard(1, 3), 40_000);
      OperationLog.Writer writer = log.new Writer();
      for (OperationLogFile.Row row : rows) {
        writer.add(row.startNs(), row.latencyNs(), row.delayNs(), row.keyHash(), row.thread(), type(row.operation()), Outcome.valueOf(row.status()));
      }
      writer.flush();
    }
    OperationLogFile read = OperationLogFile.read(file);
    assertEquals(rows, read.rows());
    assertEquals(5_500, read.toUnix(1_500));
    assertEquals(1, read.header().get("shard").getAsInt());
    assertEquals(3, read.header().get("shards").getAsInt());
    assertEquals(40_000, read.header().get("threads").getAsInt());
  }

  /** As of a client that is killed: nothing is flushed. The writing thread is waited for. */
  @Test
  void whatIsOlderThanASecondIsInTheFile() throws Exception {
    Path file = folder.resolve("ops.bin");
    try (OperationLog log = new OperationLog(file)) {
      log.writeHeader(new Clock(0, 0), new Shard(0, 1), 1);
      OperationLog.Writer writer = log.new Writer();
      for (int i = 0; i < 100; i++) {
        writer.add(i * 100_000_000L, 50_000_000, -1, i, 0, OperationType.READ, Outcome.OK);
      }
      // the last one began at 9.9 s
      assertTimeoutPreemptively(Duration.ofSeconds(20), () -> {
        while (OperationLogFile.read(file).rows().stream().noneMatch(row -> row.startNs() >= 8_900_000_000L)) {
          Thread.onSpinWait();
        }
      });
      List<OperationLogFile.Row> written = OperationLogFile.read(file).rows();
      assertEquals(LongStream.range(0, written.size()).map(i -> i * 100_000_000L).boxed().toList(),
          written.stream().map(OperationLogFile.Row::startNs).toList());
    }
  }

  private static OperationType type(String label) {
    return Arrays.stream(OperationType.values()).filter(type -> type.label().equals(label)).findAny().orElseThrow();
  }

  @Test
  void aFullDiskIsReported() throws IOException {
    assumeTrue(Files.exists(FULL_DEVICE), "no /dev/full on this system");
    try (OperationLog log = new OperationLog(FULL_DEVICE)) {
      OperationLog.Writer writer = log.new Writer();
      assertThrows(IOException.class, () -> {
        for (int i = 0; i < 20_000; i++) {
          writer.add(i, 1, -1, 0, 0, OperationType.READ, Outcome.OK);
        }
      });
    }
  }

  @Test
  void nothingIsSaidToBeWrittenThatAFullDiskDidNotTake() throws IOException {
    assumeTrue(Files.exists(FULL_DEVICE), "no /dev/full on this system");
    try (OperationLog log = new OperationLog(FULL_DEVICE)) {
      OperationLog.Writer writer = log.new Writer();
      writer.add(1, 1, -1, 0, 0, OperationType.READ, Outcome.OK);
      assertThrows(IOException.class, writer::flush);
      // and nothing is appended behind what may be a part of a record, whoever comes
      OperationLog.Writer another = log.new Writer();
      another.add(1, 1, -1, 0, 0, OperationType.READ, Outcome.OK);
      assertThrows(IOException.class, another::flush);
    }
  }

  @Test
  void recordsOfManyThreadsAreAllThereThoughTheyAreInterrupted() throws Exception {
    Path file = folder.resolve("ops.bin");
    int perThread = 50_000;
    int threads = 4;
    try (OperationLog log = new OperationLog(file)) {
      log.writeHeader(new Clock(0, 0), new Shard(0, 1), threads);
      List<Thread> running = new ArrayList<>();
      AtomicInteger failed = new AtomicInteger();
      for (int t = 0; t < threads; t++) {
        int client = t;
        Thread thread = new Thread(() -> {
          try {
            OperationLog.Writer writer = log.new Writer();
            for (int i = 0; i < perThread; i++) {
              // some take two slots
              writer.add(i, 1, i % 7 == client ? 5 : -1, i, client, OperationType.READ, Outcome.OK);
            }
            writer.flush();
          } catch (IOException e) {
            failed.incrementAndGet();
          }
        });
        running.add(thread);
        thread.start();
      }
      while (running.stream().anyMatch(Thread::isAlive)) {
        running.forEach(Thread::interrupt);
        Thread.yield();
      }
      assertEquals(0, failed.get());
    }
    Map<Integer, Long> rows = OperationLogFile.read(file).rows().stream()
        .collect(Collectors.groupingBy(OperationLogFile.Row::thread, Collectors.summingLong(row -> row.startNs() + 1)));
    long all = (long) perThread * (perThread + 1) / 2;
    assertEquals(Map.of(0, all, 1, all, 2, all, 3, all), rows);
  }
}
