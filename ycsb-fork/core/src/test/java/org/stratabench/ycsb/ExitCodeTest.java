// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.google.gson.JsonObject;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.stratabench.ycsb.db.Database;
import org.stratabench.ycsb.db.Session;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.WorkloadSpec;

/** Every way to end has its code, one clear line, and what was measured until then. */
class ExitCodeTest {
  private static final String SMALL = " -p recordcount=100 -p operationcount=1000 ";

  @TempDir
  private Path output;

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "run noop -p recordcount=ten -p operationcount=1 | recordcount=ten",
      "run noop -p recordcount=-5 -p operationcount=1 | recordcount=-5",
      "run noop -p recordcount=5 -p operationcount=1e3 | operationcount=1e3",
      "run noop -p operationcount=5 | recordcount=0",
      "run noop -p recordcount=5 | operationcount",
      "run noop -p recordcount=5 -p operationcount=5 -p readproportion=-0.1 | readproportion=-0.1",
      "run noop -p recordcount=5 -p operationcount=5 -p readproportion=0 -p updateproportion=0 | readproportion=0",
      "run noop -p recordcount=5 -p operationcount=5 -p readproportion=NaN | readproportion=NaN",
      "run noop -p recordcount=5 -p operationcount=5 -p workload=com.example.Mine | workload=com.example.Mine",
      "run noop -p recordcount=5 -p operationcount=5 -p requestdistribution=zipf | requestdistribution=zipf",
      "run noop -p recordcount=5 -p operationcount=5 -p dataintegrity=true | dataintegrity=true",
      "run noop -p recordcount=5 -p operationcount=5 -p operation.mix=precise | operation.mix=precise",
      "run noop -p recordcount=5 -p operationcount=5 -threads 0 | threadcount=0",
      "run noop -p recordcount=5 -p operationcount=5 -target fast | target=fast",
      "run noop -p recordcount=5 -p operationcount=5 -p error.bound=2 | error.bound=2",
      "run noop -p recordcount=5 -p operationcount=5 -p warmup.seconds=1 -p warmup.operations=1 | warmup",
      "run noop -p recordcount=5 -p operationcount=5 -shard 3/3 | -shard 3/3",
      "run noop -p recordcount=5 -p operationcount=5 -start-at soon | soon",
      "run noop -p recordcount=5 -p operationcount=5 -p noop.stall.ms=x | noop.stall.ms=x",
      "run noop -p recordcount=5 -p operationcount=5 -p secondarylookupproportion=1"
          + " -p secondary.field=field3 | secondary.field=field3",
      "run noop -p recordcount | recordcount",
      "run noop -P no/such/file | no/such/file",
      "run noop -wrong | -wrong",
      "run nosuchdb -s | nosuchdb",
      "walk noop -s | walk",
  })
  void whatCannotBeUsedIsNamedInOneLine(String commandLine, String named) {
    ClientProcess client = ClientProcess.run(commandLine);
    assertEquals(ExitCode.USAGE, client.code(), client.err());
    assertTrue(client.err().startsWith("error: ") && client.err().contains(named), client.err());
    assertEquals(1, client.err().lines().count(), client.err());
    assertEquals("", client.out());
    ClientProcess check = ClientProcess.run(commandLine + " -check");
    assertEquals(ExitCode.USAGE, check.code());
    assertEquals(client.err(), check.err(), "-check says what a phase says");
  }

  @Test
  void propertyFilesOfYcsbRunUnchanged() throws IOException {
    Path file = Files.writeString(output.resolve("workload"), "recordcount=100\noperationcount=100\n"
        + "workload=com.yahoo.ycsb.workloads.CoreWorkload\nscanproportion=0\nrequestdistribution=zipfian\n");
    ClientProcess client = ClientProcess.run("run basic -s -P " + file + " -p operationcount=70");
    assertEquals(ExitCode.OK, client.code(), client.err());
    assertTrue(client.out().contains("[OVERALL], Throughput(ops/sec), "));
    assertTrue(client.err().contains(" sec: 70 operations; "));
  }

  @Test
  void noConnectionIsThree() {
    ClientProcess client = ClientProcess.run(output, "run noop -threads 3 -p noop.fail.connect=true" + SMALL);
    assertEquals(ExitCode.SETUP, client.code());
    assertEquals("failed", ClientProcess.summary(output).get("status").getAsString());
    assertTrue(ClientProcess.summary(output).get("start_unix_ns").isJsonNull());
    assertTrue(client.err().contains("noop.fail.connect"));
  }

  @Test
  void anOutputFolderThatCannotBeMadeIsThree() throws IOException {
    Path file = Files.writeString(output.resolve("file"), "");
    ClientProcess client = ClientProcess.run(file.resolve("below"), "run noop" + SMALL);
    assertEquals(ExitCode.SETUP, client.code());
    assertTrue(client.err().contains("below"), client.err());
  }

  @Test
  void errorsAboveTheBoundAreFourAndEverythingIsKept() {
    ClientProcess client = ClientProcess.run(output, "run noop -p noop.fail.every=10 -p error.bound=0.09" + SMALL);
    assertEquals(ExitCode.ERRORS, client.code());
    JsonObject summary = ClientProcess.summary(output);
    assertEquals("failed", summary.get("status").getAsString());
    assertTrue(summary.get("reason").getAsString().contains("100 of 1000"), summary.get("reason").getAsString());
    long causes = summary.getAsJsonObject("operations").entrySet().stream()
        .map(entry -> entry.getValue().getAsJsonObject().getAsJsonObject("errors")).filter(errors -> errors.has("ERROR"))
        .mapToLong(errors -> errors.get("ERROR").getAsLong()).sum();
    assertEquals(100, causes);
  }

  @Test
  void errorsWithinTheBoundAreNone() {
    assertEquals(ExitCode.OK, ClientProcess.run("run noop -p noop.fail.every=10 -p error.bound=0.1" + SMALL).code());
  }

  @Test
  void aHopelessRunEndsEarly() {
    long begin = System.nanoTime();
    ClientProcess client =
        ClientProcess.run(output, "run noop -p noop.fail.every=1 -p recordcount=100 -p operationcount=60000 -target 1000");
    assertEquals(ExitCode.ERRORS, client.code());
    assertTrue(System.nanoTime() - begin < 10_000_000_000L);
    long logged = OperationLogFile.read(output.resolve("ops.bin")).rows().size();
    assertTrue(logged > 500 && logged < 10_000, logged + " operations logged");
  }

  @Test
  void endOfInputBeforeTheStartIsFive() {
    ClientProcess client = ClientProcess.run(output, "run noop -start-at stdin" + SMALL);
    assertEquals(ExitCode.ABORTED, client.code());
    assertEquals("aborted", ClientProcess.summary(output).get("status").getAsString());
    assertTrue(client.err().contains("standard input"));
  }

  @Test
  void aStartInstantOnInputIsHonouredAndItsEndAfterwardsIsNot() {
    long startAt = System.currentTimeMillis() * 1_000_000 + 4_000_000_000L;
    ClientProcess client = ClientProcess.run(new ByteArrayInputStream((startAt + "\n").getBytes(StandardCharsets.US_ASCII)),
        "run noop -start-at stdin" + SMALL, List.of("-output", output.toString()));
    assertEquals(ExitCode.OK, client.code(), client.err());
    assertEquals(startAt, ClientProcess.summary(output).get("start_unix_ns").getAsLong());
  }

  @Test
  void nonsenseOnInputIsFive() {
    ClientProcess client = ClientProcess.run(new ByteArrayInputStream("go!\n".getBytes(StandardCharsets.US_ASCII)),
        "run noop -start-at stdin" + SMALL, List.of());
    assertEquals(ExitCode.ABORTED, client.code());
    assertTrue(client.err().contains("go!"));
  }

  @Test
  void aTimeLimitEndsTheRunInOrder() {
    ClientProcess client =
        ClientProcess.run(output, "run noop -target 100 -p recordcount=10 -p maxexecutiontime=1");
    assertEquals(ExitCode.OK, client.code(), client.err());
    JsonObject summary = ClientProcess.summary(output);
    assertTrue(summary.get("planned_operations").isJsonNull());
    assertFalse(summary.get("measured_ns").getAsLong() > 1_200_000_000L);
    assertEquals(100, OperationLogFile.read(output.resolve("ops.bin")).rows().size(), 10);
  }

  abstract static class AnyOperation implements Database {
    @Override
    public Set<OperationType> operations() {
      return EnumSet.allOf(OperationType.class);
    }

    @Override
    public void open(Settings settings, WorkloadSpec workload, boolean load) {
    }
  }

  /** Answers some operations of a client, a hundred unless told otherwise, and then breaks it. */
  public static final class Breaking extends AnyOperation {
    private int answers;

    @Override
    public void open(Settings settings, WorkloadSpec workload, boolean load) {
      answers = (int) settings.wholeNumber("breaking.answers", 100, 0, 100);
    }

    @Override
    public Session session() {
      AtomicInteger operations = new AtomicInteger();
      return request -> {
        if (operations.incrementAndGet() > answers) {
          throw new AssertionError("broken");
        }
        return Answer.OK;
      };
    }

    @Override
    public void close() {
    }
  }

  @Test
  void aLostThreadIsFiveAndLeavesWhatItHadMeasured() {
    ClientProcess client = ClientProcess.run(output, "run " + Breaking.class.getName() + SMALL);
    assertEquals(ExitCode.ABORTED, client.code());
    assertTrue(client.err().contains("client thread 0 was lost: java.lang.AssertionError: broken"), client.err());
    assertTrue(client.out().contains("[READ], Operations, "), client.out());
    assertEquals(100, OperationLogFile.read(output.resolve("ops.bin")).rows().size());
  }

  /** Its first client gets no answer after some, until it is interrupted; the second is lost half a second later. */
  public static final class Hanging extends AnyOperation {
    private final AtomicInteger sessions = new AtomicInteger();

    @Override
    public Session session() {
      boolean hangs = sessions.getAndIncrement() == 0;
      AtomicInteger operations = new AtomicInteger();
      return request -> {
        if (operations.incrementAndGet() > 100) {
          TimeUnit.MILLISECONDS.sleep(hangs ? 60_000 : 500);
          throw new AssertionError("broken");
        }
        return Answer.OK;
      };
    }

    @Override
    public void close() {
    }
  }

  @Test
  void aWindowThatIsCutOffLastsUntilItsEndAndNotUntilTheThreadsAre() {
    ClientProcess client = ClientProcess.run(output, "run " + Hanging.class.getName() + SMALL + "-threads 2");
    assertEquals(ExitCode.ABORTED, client.code(), client.err());
    double measured = ClientProcess.summary(output).get("measured_ns").getAsDouble();
    assertEquals(0.5e9, measured, 0.4e9, "the hanging client is interrupted two seconds later");
  }

  /** Its first client gets no answer and heeds no interruption; the others answer 10,000 times a second. */
  public static final class Stuck extends AnyOperation {
    private static final CountDownLatch END = new CountDownLatch(1);
    private static final AtomicInteger ANSWERS = new AtomicInteger();
    private final AtomicInteger sessions = new AtomicInteger();

    @Override
    public Session session() {
      boolean stuck = sessions.getAndIncrement() == 0;
      return request -> {
        while (stuck && END.getCount() > 0) {
          LockSupport.parkNanos(100_000_000);
          Thread.interrupted();
        }
        LockSupport.parkNanos(100_000);
        ANSWERS.incrementAndGet();
        return Answer.OK;
      };
    }

    @Override
    public void close() {
    }
  }

  @Test
  void aFullDiskCostsTheSummaryNothingThoughAThreadIsLeftBehind() throws IOException, InterruptedException {
    Process mount = new ProcessBuilder("mount", "-t", "tmpfs", "-o", "size=192k", "none", output.toString())
        .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
    assumeTrue(mount.waitFor() == 0, "mounting a small file system needs root");
    try {
      ClientProcess client = ClientProcess.run(output, "run " + Stuck.class.getName() + " -p recordcount=10 -p operationcount=10000000 -threads 2");
      assertEquals(ExitCode.ABORTED, client.code(), client.err());
      assertTrue(client.err().contains("cannot write ops.bin"), client.err());
      long counted = ClientProcess.summary(output).getAsJsonObject("operations").entrySet().stream()
          .mapToLong(entry -> entry.getValue().getAsJsonObject().get("count").getAsLong()).sum();
      // the one whose record found no room ended its thread before it was counted
      assertEquals(Stuck.ANSWERS.get(), counted, 1);
    } finally {
      Stuck.END.countDown();
      new ProcessBuilder("umount", "-l", output.toString()).start().waitFor();
    }
  }

  @Test
  void aThreadLostBeforeAnybodyLooksLeavesWhatItHadMeasured() {
    // threads spin up to the start; the one that directs them is woken some ten microseconds after it
    for (int i = 0; i < 10; i++) {
      Path folder = output.resolve("run" + i);
      long startAt = System.currentTimeMillis() * 1_000_000 + 200_000_000L;
      ClientProcess client = ClientProcess.run(folder,
          "run " + Breaking.class.getName() + " -p breaking.answers=3 -start-at " + startAt + SMALL);
      assertEquals(ExitCode.ABORTED, client.code());
      assertTrue(client.out().contains("[OVERALL], Throughput(ops/sec), "), "run " + i + ": " + client.out());
      assertEquals(3, OperationLogFile.read(folder.resolve("ops.bin")).rows().size());
      assertFalse(ClientProcess.summary(folder).get("measured_ns").isJsonNull());
    }
  }

  @Test
  void anExportFileThatCannotBeWrittenIsFiveAndTheSummaryIsThere() {
    Path file = output.resolve("no/such/folder/file");
    ClientProcess client = ClientProcess.run(output, "run noop -p exportfile=" + file + SMALL);
    assertEquals(ExitCode.ABORTED, client.code());
    assertTrue(client.err().contains("exportfile=" + file), client.err());
    assertKept();
  }

  @Test
  void aStandardOutputThatTakesNothingIsFiveAndTheSummaryIsThere() {
    OutputStream full = new OutputStream() {
      @Override
      public void write(int b) throws IOException {
        throw new IOException("No space left on device");
      }
    };
    PrintStream err = new PrintStream(OutputStream.nullOutputStream());
    String[] arguments = ("run noop -output " + output + SMALL).trim().split(" +");
    InputStream in = InputStream.nullInputStream();
    assertEquals(ExitCode.ABORTED, new Client().run(arguments, in, new PrintStream(full), err));
    assertKept();
  }

  private void assertKept() {
    JsonObject summary = ClientProcess.summary(output);
    assertEquals("aborted", summary.get("status").getAsString());
    assertEquals(1000, summary.getAsJsonObject("operations").entrySet().stream()
        .mapToLong(entry -> entry.getValue().getAsJsonObject().get("count").getAsLong()).sum());
  }

  /** Has a class that is not there. */
  public static final class Incomplete implements Database {
    @Override
    public Set<OperationType> operations() {
      throw new NoClassDefFoundError("org/example/Driver");
    }

    @Override
    public void open(Settings settings, WorkloadSpec workload, boolean load) {
    }

    @Override
    public Session session() {
      throw new UnsupportedOperationException();
    }

    @Override
    public void close() {
    }
  }

  @Test
  void anErrorOfTheClientItselfIsFive() {
    ClientProcess client = ClientProcess.run("run " + Incomplete.class.getName() + SMALL);
    assertEquals(ExitCode.ABORTED, client.code());
    assertEquals("error: java.lang.NoClassDefFoundError: org/example/Driver\n", client.err());
  }

  @Test
  void aRequestHistogramWithoutWeightForTheLoadedRecordsIsTwo() throws IOException {
    Path file = Files.writeString(output.resolve("requests.hist"), "BlockSize\t100\n5\t1\n");
    ClientProcess client =
        ClientProcess.run("run noop -p requestdistribution=histogram -p requesthistogram=" + file + SMALL);
    assertEquals(ExitCode.USAGE, client.code());
    assertTrue(client.err().contains("requesthistogram"), client.err());
  }

  @Test
  void anAnswerOfMaintenanceThatCannotBeWrittenIsFive() {
    PrintStream closed = new PrintStream(OutputStream.nullOutputStream()) {
      @Override
      public boolean checkError() {
        return true;
      }
    };
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    assertEquals(ExitCode.ABORTED, AdminClient.run(new String[] {"noop", "count"}, closed, new PrintStream(said)));
    assertEquals("error: cannot write the answer to standard output", said.toString(StandardCharsets.UTF_8).trim());
  }
}
