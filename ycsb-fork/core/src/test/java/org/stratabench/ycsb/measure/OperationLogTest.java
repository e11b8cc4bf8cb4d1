// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
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
    try (OperationLog log = new OperationLog(file)) {
      log.writeHeader(new Clock(5_000, 1_000), new Shard(1, 3), 40_000);
      OperationLog.Writer writer = log.new Writer();
      writer.add(1_500, 77, -1, 0xDEADBEEF, 39_999, OperationType.SCAN, Outcome.NOT_FOUND);
      writer.add(Long.MAX_VALUE, 0, 12, 1, 39_999, OperationType.READ_MODIFY_WRITE, Outcome.FAILED);
      writer.flush();
    }
    OperationLogFile read = OperationLogFile.read(file);
    assertEquals(new OperationLogFile.Row(1_500, 77, -1, 0xDEADBEEF, 39_999, "SCAN", "NOT_FOUND"), read.rows().get(0));
    assertEquals(new OperationLogFile.Row(Long.MAX_VALUE, 0, 12, 1, 39_999, "READ-MODIFY-WRITE", "FAILED"), read.rows().get(1));
    assertEquals(5_500, read.toUnix(1_500));
    assertEquals(1, read.header().get("shard").getAsInt());
    assertEquals(3, read.header().get("shards").getAsInt());
    assertEquals(40_000, read.header().get("threads").getAsInt());
  }

  @Test
  void aFullDiskIsReported() throws IOException {
    assumeTrue(Files.exists(FULL_DEVICE), "no /dev/full on this system");
    try (OperationLog log = new OperationLog(FULL_DEVICE)) {
      OperationLog.Writer writer = log.new Writer();
      assertThrows(IOException.class, () -> {
        for (int i = 0; i < 3_000; i++) {
          writer.add(i, 1, -1, 0, 0, OperationType.READ, Outcome.OK);
        }
      });
    }
  }
}
