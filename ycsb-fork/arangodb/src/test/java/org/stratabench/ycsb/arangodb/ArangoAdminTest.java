// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.stratabench.ycsb.AdminClient;
import org.stratabench.ycsb.ExitCode;

/** The entry of the maintenance commands, on the stand-in. */
@Timeout(60)
class ArangoAdminTest {
  @ParameterizedTest
  @CsvSource({
      "arangodb.replicationFacter, 1, arangodb.replicationFactor",
      "arangodb.username, root, ",
      "arangodb_user, root, arangodb.user",
      "arangodb.passwrd, x, arangodb.password",
      "arangodb.password, x, ",
      "recordcount, 20, ",
      "table, usertable, ",
      "arangodb.batchSize, 9, ",
      "arangodb.dropDBBeforeRun, true, ",
  })
  void aSlipIsSaidBesideTheAnswerAndNothingElseIsDoubted(String given, String value, String meant) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    try (ArangoStandIn standIn = ArangoStandIn.start(1)) {
      String[] arguments = {"arangodb", "probe", "-p", "arangodb.hosts=" + standIn.hosts(), "-p", given + "=" + value};
      ExitCode code = AdminClient.run(arguments, new PrintStream(out, true, StandardCharsets.UTF_8),
          new PrintStream(err, true, StandardCharsets.UTF_8));
      assertEquals(ExitCode.OK, code, err.toString(StandardCharsets.UTF_8));
    }
    assertEquals(meant == null ? "" : "warning: nobody has read the property " + given + "; is " + meant + " meant?",
        err.toString(StandardCharsets.UTF_8).trim());
    assertTrue(out.toString(StandardCharsets.UTF_8).startsWith("{\"binding\":\"arangodb\",\"verb\":\"probe\",\"ok\":true"), out.toString());
    assertEquals(1, out.toString(StandardCharsets.UTF_8).lines().count());
  }
}
