// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A process of its own, ended by a signal. */
class SignalTest {
  @TempDir
  private Path output;

  @Test
  @Timeout(60)
  void sigtermInTheMeasuredWindowKeepsEverything() throws IOException, InterruptedException {
    Process client = start("measuring", "-target", "500");
    client.destroy();
    assertTrue(client.waitFor(30, TimeUnit.SECONDS));
    assertEquals(130, client.exitValue());
    JsonObject summary = ClientProcess.summary(output);
    assertEquals("aborted", summary.get("status").getAsString());
    long counted = summary.getAsJsonObject("operations").entrySet().stream()
        .mapToLong(entry -> entry.getValue().getAsJsonObject().get("count").getAsLong()).sum();
    assertTrue(counted > 100, counted + " operations");
    assertEquals(counted, OperationLogFile.read(output.resolve("ops.bin")).rows().size());
    // what was due within milliseconds of the signal, and nothing of the many operations that were planned for later
    long notBegun = summary.getAsJsonObject("client").get("not_begun").getAsLong();
    assertTrue(notBegun >= 0 && notBegun < 500, notBegun + " operations");
  }

  @Test
  @Timeout(60)
  void sigtermBeforeTheStartLeavesASummaryWithoutAWindow() throws IOException, InterruptedException {
    Process client = start("ready", "-start-at", "stdin");
    client.toHandle().destroy(); // Process.destroy() would end its input, too, which may come first
    assertTrue(client.waitFor(30, TimeUnit.SECONDS));
    assertEquals(130, client.exitValue());
    assertTrue(ClientProcess.summary(output).get("measured_ns").isJsonNull());
  }

  @ParameterizedTest
  @ValueSource(strings = {"warmup.operations=1000000000000", "warmup.seconds=3600"})
  @Timeout(60)
  void sigtermInAWarmupLeavesASummaryWithoutAWindow(String warmup) throws IOException, InterruptedException {
    Process client = start("warmup", "-p", warmup);
    client.destroy();
    assertTrue(client.waitFor(30, TimeUnit.SECONDS));
    assertEquals(130, client.exitValue());
    assertTrue(ClientProcess.summary(output).get("measured_ns").isJsonNull());
    assertTrue(ClientProcess.summary(output).get("start_unix_ns").isJsonNull());
  }

  /** Starts a client and waits until it says that it has reached a state. */
  private Process start(String state, String... more) throws IOException {
    ProcessBuilder builder = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
        "-cp", System.getProperty("java.class.path"), Client.class.getName(), "run", "noop", "-status-json",
        "-p", "recordcount=100", "-p", "operationcount=10000000", "-output", output.toString());
    builder.command().addAll(List.of(more));
    builder.redirectOutput(ProcessBuilder.Redirect.DISCARD);
    Process client = builder.start();
    BufferedReader status = new BufferedReader(new InputStreamReader(client.getErrorStream(), StandardCharsets.UTF_8));
    for (String line = status.readLine(); line != null; line = status.readLine()) {
      if (line.contains("\"state\":\"" + state + "\"")) {
        return client;
      }
    }
    throw new IOException("the client ended before it was " + state);
  }
}
