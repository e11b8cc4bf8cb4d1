// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code -check} says all that is wrong, and does nothing else. */
class CheckTest {
  private static final String SMALL = " -p recordcount=10 -p operationcount=10";

  @TempDir
  private Path folder;

  @Test
  void allThatIsWrongIsSaidAtOnceAndOfEachPropertyTheFirstOnly() {
    ClientProcess client = ClientProcess.run("run noop -check -p recordcount=ten -p operationcount=10 -p fieldlength=0 -p readproportoin=1"
        + " -p requestdistribution=zipf -p oplog=maybe -p exporter=X -p hdrhistogram.percentiles=0 -p filteredscan.field=x"
        + " -p warmup.seconds=1 -p warmup.operations=1 -p noop.stall.ms=x -threads 3 -p clients=2");
    assertEquals(ExitCode.USAGE, client.code());
    assertEquals(List.of("clients=2", "exporter=X", "fieldlength=0", "filteredscan.field=x", "hdrhistogram.percentiles=0", "noop.stall.ms=x",
        "oplog=maybe", "readproportoin", "recordcount=ten", "requestdistribution=zipf", "warmup.seconds=1"),
        client.err().lines().map(line -> line.replaceFirst("error: .*property (\\S+?);? .*", "$1")).sorted().toList(), client.err());
    assertEquals("", client.out());
  }

  @Test
  void noRefusalHidesThoseAfterIt() throws IOException {
    Path file = Files.writeString(folder.resolve("broken"), "BlockSize\tx\n");
    ClientProcess client = ClientProcess.run("run noop -check -p requestdistribution=histogram -p requesthistogram=" + file
        + " -p fieldlengthdistribution=histogram -p fieldlengthhistogram=" + file + " -p noop.stall.ms=x -p recordcuont=1" + SMALL);
    assertEquals(ExitCode.USAGE, client.code());
    assertEquals(List.of("fieldlengthhistogram=" + file, "noop.stall.ms=x", "recordcuont", "requesthistogram=" + file),
        client.err().lines().map(line -> line.replaceFirst("error: .*property (\\S+?);? .*", "$1")).sorted().toList(), client.err());
  }

  @ParameterizedTest
  @ValueSource(strings = {"load", "run"})
  void whatIsRightIsPassedOverInSilenceUnconnectedAndNothingIsWritten(String phase) {
    Path output = folder.resolve("output");
    ClientProcess client = ClientProcess.run(output, phase + " noop -check -p noop.fail.connect=true -p exportfile=" + output + SMALL);
    assertEquals(ExitCode.OK, client.code());
    assertEquals("", client.out() + client.err());
    assertFalse(Files.exists(output));
  }

  @Test
  void aFileThatMayLieOnAnotherMachineIsAWarning() {
    String options = "run noop -p requestdistribution=histogram -p requesthistogram=" + folder.resolve("none") + SMALL;
    ClientProcess client = ClientProcess.run(options + " -check");
    assertEquals(ExitCode.OK, client.code());
    assertTrue(client.err().startsWith("warning: property requesthistogram=" + folder.resolve("none") + " cannot be read"), client.err());
    assertEquals(ExitCode.USAGE, ClientProcess.run(options).code());
  }

  @Test
  void whatCannotBeCheckedIsNotSaidToBeRight() {
    assertEquals(ExitCode.SETUP, ClientProcess.run("run org.example.NoSuchBinding -check" + SMALL).code());
  }

  @Test
  void aRefusalShowsNoSecret() {
    assertEquals("property db.password=*** is not a number", Settings.refuse("db.password", "hunter2", "is not a number").getMessage());
    assertEquals("property db.url=http://me:***@db1 is wrong", Settings.refuse("db.url", "http://me:hunter2@db1", "is wrong").getMessage());
  }
}
