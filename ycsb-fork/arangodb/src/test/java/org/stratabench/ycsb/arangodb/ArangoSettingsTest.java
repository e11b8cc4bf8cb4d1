// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.arangodb.Protocol;
import com.arangodb.config.HostDescription;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.stratabench.ycsb.UsageException;

class ArangoSettingsTest {
  private static ArangoSettings settings(String... pairs) {
    Properties properties = new Properties();
    for (String pair : pairs) {
      properties.setProperty(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
    }
    return new ArangoSettings(properties);
  }

  @Provide
  Arbitrary<List<Map.Entry<String, Integer>>> hosts() {
    Arbitrary<String> names = Arbitraries.of("db1", "db-2.example.org", "192.0.2.7", "[2001:db8::1]", "localhost");
    return Combinators.combine(names, Arbitraries.integers().between(1, 65_535)).as(Map::entry).list().ofMinSize(1).ofMaxSize(9);
  }

  @Property(tries = 200)
  void everyHostOfTheListIsRead(@ForAll("hosts") List<Map.Entry<String, Integer>> hosts) {
    String list = String.join(" , ", hosts.stream().map(host -> host.getKey() + ":" + host.getValue()).toList());
    List<HostDescription> read = settings("arangodb.hosts=" + list).hosts();
    assertEquals(hosts.stream().map(host -> new HostDescription(host.getKey().replaceAll("[\\[\\]]", ""), host.getValue())).toList(), read);
  }

  @Test
  void thePortMayBeLeftOut() {
    assertEquals(List.of(new HostDescription("db1", 8529), new HostDescription("::1", 8529), new HostDescription("db2", 1)),
        settings("arangodb.hosts=db1,[::1],db2:1").hosts());
  }

  @Test
  void namesOfYcsbAreUnderstood() {
    assertEquals(List.of(new HostDescription("localhost", 8529)), settings().hosts());
    assertEquals(List.of(new HostDescription("db7", 99)), settings("arangodb.ip=db7", "arangodb.port=99").hosts());
    assertTrue(settings("arangodb.waitForSync=true").waitForSync());
    assertTrue(settings("arangodb.dropDBBeforeRun=true").dropsBefore());
    assertEquals(Protocol.HTTP_JSON, settings("arangodb.protocol=HTTP_JSON", "arangodb.transactionUpdate=false").protocol());
    assertEquals(Protocol.HTTP2_JSON, settings().protocol());
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "arangodb.hosts=db1:0 | arangodb.hosts",
      "arangodb.hosts=db1:65536 | 65535",
      "arangodb.hosts=db1:x | arangodb.hosts",
      "arangodb.hosts=db1,,db2 | without a host",
      "arangodb.hosts=2001:db8::1:8529 | brackets",
      "arangodb.hosts=:8529 | without a host",
      "arangodb.protocol=VST | VelocyStream",
      "arangodb.protocol=HTTP2_VPACK | com.arangodb:jackson-serde-vpack",
      "arangodb.protocol=http | arangodb.protocol",
      "arangodb.transactionUpdate=true | arangodb.transactionUpdate",
  })
  void whatCannotBeIsRefusedByName(String pair, String named) {
    UsageException refused = assertThrows(UsageException.class, () -> settings(pair));
    assertTrue(refused.getMessage().contains(named), refused.getMessage());
  }

  @Test
  void contradictionsAreRefused() {
    assertThrows(UsageException.class, () -> settings("arangodb.hosts=db1", "arangodb.ip=db2"));
    assertThrows(UsageException.class, () -> settings("arangodb.replicationFactor=2", "arangodb.writeConcern=3"));
    assertThrows(UsageException.class, () -> settings("arangodb.loadBalancing=SOME"));
  }

  @Test
  void everyClientGetsItsPlaceOnAConnection() {
    assertEquals(1, settings("threadcount=32").maxConnections());
    assertEquals(2, settings("threadcount=33").maxConnections());
    assertEquals(33, settings("threadcount=33", "arangodb.protocol=HTTP_JSON").maxConnections());
    assertEquals(32, settings("threadcount=2", "clients=1000").maxConnections());
    assertEquals(5, settings("clients=1000", "arangodb.maxConnections=5").maxConnections());
  }
}
