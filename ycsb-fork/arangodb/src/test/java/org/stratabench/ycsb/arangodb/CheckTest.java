// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.stratabench.ycsb.Client;

/** What {@code -check} says of the binding's own properties. */
class CheckTest {
  private static final String SLIP = "error: nobody has read the property recordcuont; is recordcount meant?";

  @Test
  void valuesAreCheckedWithoutADatabase() {
    List<String> said = check("run", "arangodb.batchSize=0", "arangodb.loadBalancing=ANY", "recordcuont=1");
    assertEquals(3, said.size(), said.toString());
    assertTrue(said.get(0).startsWith("error: property arangodb.loadBalancing=ANY "), said.toString());
    assertTrue(said.get(1).startsWith("error: property arangodb.batchSize=0 "), said.toString());
    assertEquals(SLIP, said.get(2));
  }

  @Test
  void noRefusalHidesThoseAfterIt() {
    List<String> said = check("run", "arangodb.hosts=a:0,::1,b:99999", "arangodb.ip=a", "arangodb.protocol=VST", "arangodb.transactionUpdate=true",
        "arangodb.password=x", "arangodb.passwordFile=README.md", "arangodb.caFile=ca", "arangodb.writeConcern=2", "arangodb.dropDBBeforeRun=true",
        "recordcuont=1");
    assertEquals(List.of("arangodb.caFile=ca", "arangodb.dropDBBeforeRun=true", "arangodb.hosts=a:0,::1,b:99999", "arangodb.hosts=a:0,::1,b:99999",
        "arangodb.hosts=a:0,::1,b:99999", "arangodb.password=***", "arangodb.protocol=VST", "arangodb.transactionUpdate=true",
        "arangodb.writeConcern=2", "recordcuont"), said.stream()
        .map(line -> line.replaceFirst("error: .*property (\\S+?);? .*", "$1")).sorted().toList(), said.toString());
  }

  @ParameterizedTest
  @ValueSource(strings = {"load", "run"})
  void noNameOfOurDocumentationIsDoubted(String phase) throws IOException {
    List<String> names = Pattern.compile("^\\| `[^|]+", Pattern.MULTILINE).matcher(Files.readString(Path.of("README.md"))).results()
        .map(MatchResult::group).flatMap(cell -> Pattern.compile("`(\\S+)`").matcher(cell).results()).map(name -> name.group(1)).toList();
    assertTrue(names.size() > 20, names.toString());
    int looked = 0;
    for (String name : names) {
      List<String> doubted = check(phase, name + "=1", "recordcuont=1").stream().filter(line -> line.contains("nobody has read")).toList();
      assertTrue(List.of(SLIP).containsAll(doubted), name + ": " + doubted);
      looked += doubted.size();
    }
    assertTrue(looked > names.size() * 3 / 4, "a refusal may end the matter before names are looked at");
  }

  private static List<String> check(String phase, String... pairs) {
    StringBuilder line = new StringBuilder(phase + " arangodb -check -p recordcount=10 -p operationcount=10");
    for (String pair : pairs) {
      line.append(" -p ").append(pair);
    }
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    new Client().run(line.toString().split(" "), InputStream.nullInputStream(), new PrintStream(OutputStream.nullOutputStream()),
        new PrintStream(err, true, StandardCharsets.UTF_8));
    return err.toString(StandardCharsets.UTF_8).lines().toList();
  }
}
