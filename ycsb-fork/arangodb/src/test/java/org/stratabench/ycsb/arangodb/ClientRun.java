// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.stratabench.ycsb.Client;
import org.stratabench.ycsb.ExitCode;

/**
 * One run of the client's entry inside the test and all that it said.
 *
 * @param summary what it left in {@code summary.json}
 */
record ClientRun(ExitCode code, String out, String err, JsonNode summary) {
  private static final String SUMMARY = "summary.json";

  /** Runs {@code load} or {@code run} with results in {@code output}. */
  static ClientRun of(String phase, Path output, Properties properties) {
    List<String> arguments = new ArrayList<>(List.of(phase, "arangodb", "-output", output.toString()));
    for (String name : properties.stringPropertyNames()) {
      arguments.add("-p");
      arguments.add(name + "=" + properties.getProperty(name));
    }
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    ExitCode code = new Client().run(arguments.toArray(String[]::new), new ByteArrayInputStream(new byte[0]),
        new PrintStream(out, true, StandardCharsets.UTF_8), new PrintStream(err, true, StandardCharsets.UTF_8));
    try {
      JsonNode summary = output.resolve(SUMMARY).toFile().exists() ? new ObjectMapper().readTree(output.resolve(SUMMARY).toFile()) : null;
      return new ClientRun(code, out.toString(StandardCharsets.UTF_8), err.toString(StandardCharsets.UTF_8), summary);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Operations of one kind that were measured. */
  long count(String operation) {
    return summary.path("operations").path(operation).path("count").asLong();
  }

  /** Operations of all kinds that were measured. */
  long count() {
    long count = 0;
    for (JsonNode operation : summary.path("operations")) {
      count += operation.path("count").asLong();
    }
    return count;
  }

  /** Failures of all kinds by cause. */
  long failures(String cause) {
    long failures = 0;
    for (JsonNode operation : summary.path("operations")) {
      failures += operation.path("errors").path(cause).asLong();
    }
    return failures;
  }
}
