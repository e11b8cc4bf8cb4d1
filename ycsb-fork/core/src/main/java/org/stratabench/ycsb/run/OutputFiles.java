// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import org.stratabench.ycsb.SetupException;
import org.stratabench.ycsb.measure.Clock;
import org.stratabench.ycsb.measure.Json;
import org.stratabench.ycsb.measure.OperationLog;

/** The output folder: made before the run, so that a run is never measured in vain. */
final class OutputFiles implements Closeable {
  private static final String SUMMARY = "summary.json";

  private final Path directory;
  private final OperationLog operationLog;

  private OutputFiles(Path directory, OperationLog operationLog) {
    this.directory = directory;
    this.operationLog = operationLog;
  }

  /** @param directory null for no files at all */
  static OutputFiles open(Path directory, boolean wantsLog) throws SetupException {
    if (directory == null) {
      return new OutputFiles(null, null);
    }
    try {
      Files.createDirectories(directory);
      removeEarlierResults(directory);
      return new OutputFiles(directory, wantsLog ? new OperationLog(directory.resolve("ops.bin")) : null);
    } catch (IOException e) {
      throw new SetupException("cannot write to the output folder " + directory + ": " + e.getClass().getSimpleName() + " "
          + e.getMessage() + "; choose another -output", e);
    }
  }

  /** Histogram logs exist only for what occurred, so one left from an earlier run would pass for this run's. */
  private static void removeEarlierResults(Path directory) throws IOException {
    try (DirectoryStream<Path> earlier = Files.newDirectoryStream(directory, "{*.hdr,ops.bin," + SUMMARY + "}")) {
      for (Path file : earlier) {
        Files.delete(file);
      }
    }
  }

  /** Null when none is wanted. */
  OperationLog operationLog() {
    return operationLog;
  }

  void writeLogHeader(Clock clock, RunPlan plan) throws IOException {
    if (operationLog != null) {
      operationLog.writeHeader(clock, plan.shard(), plan.threads());
    }
  }

  /** Writes the summary so that a reader sees all of it or nothing. */
  void writeSummary(Map<String, Object> summary) throws IOException {
    if (directory != null) {
      Path temporary = directory.resolve(SUMMARY + ".part");
      Files.writeString(temporary, Json.indented(summary));
      Files.move(temporary, directory.resolve(SUMMARY), StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }
  }

  void closeLog() throws IOException {
    if (operationLog != null) {
      operationLog.close();
    }
  }

  @Override
  public void close() throws IOException {
    closeLog();
  }
}
