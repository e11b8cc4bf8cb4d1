// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import org.stratabench.ycsb.SetupException;
import org.stratabench.ycsb.measure.Clock;
import org.stratabench.ycsb.measure.Json;
import org.stratabench.ycsb.measure.OperationLog;

/** The output folder: made before the run, so that a run is never measured in vain. */
final class OutputFiles implements Closeable {
  private static final String SUMMARY = "summary.json";
  private static final String SUMMARY_IN_PROGRESS = SUMMARY + ".part";
  private static final int SUMMARY_RESERVE_BYTES = 64 * 1024;

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
      // room for the summary, so that it can still say that the disk is full
      Files.write(directory.resolve(SUMMARY_IN_PROGRESS), new byte[SUMMARY_RESERVE_BYTES]);
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
      operationLog.writeHeader(clock, plan.shard(), plan.clients());
    }
  }

  /** Writes the summary so that a reader sees all of it or nothing. */
  void writeSummary(Map<String, Object> summary) throws IOException {
    if (directory != null) {
      Path temporary = directory.resolve(SUMMARY_IN_PROGRESS);
      ByteBuffer text = ByteBuffer.wrap(Json.indented(summary).getBytes(StandardCharsets.UTF_8));
      try (FileChannel channel = FileChannel.open(temporary, StandardOpenOption.WRITE)) {
        int length = text.remaining();
        while (text.hasRemaining()) {
          channel.write(text);
        }
        channel.truncate(length);
      }
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
