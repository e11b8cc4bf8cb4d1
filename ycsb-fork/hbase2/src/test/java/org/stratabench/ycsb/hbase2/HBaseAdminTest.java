// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.stratabench.ycsb.AdminClient;
import org.stratabench.ycsb.ExitCode;

/** Maintenance where no cluster answers. */
class HBaseAdminTest {
  @ParameterizedTest
  @CsvSource({
      "hbase.conect.timeout.ms, hbase.connect.timeout.ms",
      "Table, table",
      "tables, table",
      "colunmfamily, columnfamily",
      "hbase.table.creat, hbase.table.create",
      "recordcount, ",
      "requestdistribution, ",
      "threadcount, ",
      "clients, ",
      "maxscanlength, ",
      "hbase.connections, ",
      "hbase.table.wait.ms, ",
      "hbase.table.dfs.replication, ",
      "hbase.client.retries.number, ",
  })
  void aSlipIsSaidBeforeTheErrorAndNothingElseIsDoubted(String given, String meant) {
    List<String> lines = failed("-p", given + "=7");
    List<String> slips = meant == null ? List.of()
        : List.of("warning: nobody has read the property " + given + "; is " + meant + " meant?");
    assertEquals(slips, lines.subList(0, lines.size() - 1));
    assertTrue(lines.get(lines.size() - 1).startsWith("error: cannot reach HBase"), lines.toString());
  }

  /** What was said of a cluster that cannot be reached. */
  private static List<String> failed(String... more) {
    List<String> arguments = new ArrayList<>(List.of("hbase2", "count", "-p", "hbase.connect.timeout.ms=1",
        "-p", "hbase.zookeeper.quorum=127.0.0.1", "-p", "hbase.zookeeper.property.clientPort=1"));
    arguments.addAll(List.of(more));
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    ExitCode code = AdminClient.run(arguments.toArray(String[]::new), new PrintStream(OutputStream.nullOutputStream()),
        new PrintStream(err, true, StandardCharsets.UTF_8));
    assertEquals(ExitCode.SETUP, code);
    return err.toString(StandardCharsets.UTF_8).lines().toList();
  }
}
