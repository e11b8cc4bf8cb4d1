// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.stratabench.ycsb.UsageException;

class HBaseSettingsTest {
  @TempDir
  private Path folder;

  @Test
  void aPropertyBeatsTheFileTheFileBeatsOurBoundsAndTheyBeatTheDefaults() throws IOException {
    Path file = folder.resolve("site of a cluster.xml");
    Files.writeString(file, "<configuration>"
        + "<property><name>hbase.rpc.timeout</name><value>1111</value></property>"
        + "<property><name>hbase.client.retries.number</name><value>3</value></property>"
        + "<property><name>hbase.zookeeper.quorum</name><value>10.1.2.3</value></property></configuration>");
    Configuration configuration = settings("hbase.config", file.toString(), "hbase.client.retries.number", "5").configuration();
    assertEquals("1111", configuration.get("hbase.rpc.timeout"));
    assertEquals("5", configuration.get("hbase.client.retries.number"));
    assertEquals("30000", configuration.get("hbase.client.operation.timeout"), "HBase's own default is 20 minutes");
    assertEquals("10.1.2.3 port 2181", HBaseSettings.quorum(configuration));
  }

  @Test
  void onlyWhatBelongsToHBaseIsHandedOn() {
    Configuration configuration = settings("hbase.zookeeper.quorum", " h1,h2 ", "zookeeper.session.timeout", "9", "hadoop.own", "x",
        "recordcount", "7").configuration();
    assertEquals("h1,h2", configuration.get("hbase.zookeeper.quorum"));
    assertEquals("9", configuration.get("zookeeper.session.timeout"));
    assertEquals("x", configuration.get("hadoop.own"));
    assertNull(configuration.get("recordcount"));
  }

  @Test
  void aFileThatIsNoConfigurationIsRefusedByName() throws IOException {
    Path file = folder.resolve("notes.txt");
    Files.writeString(file, "no XML");
    assertRefused(settings("hbase.config", file.toString()), "property hbase.config=" + file + " is no configuration file");
    assertRefused(settings("hbase.config", folder.resolve("none").toString()), "cannot be read");
  }

  @ParameterizedTest
  @CsvSource({"durability, NEVER", "hbase.read.consistency, EVENTUAL", "hbase.connections, 0", "writebuffersize, 0", "clientbuffering, yes",
      "hbase.scan.cacheblocks, 1", "table, a b", "hbase.connect.timeout.ms, 0", "hbase.table.wait.ms, 0",
      "hbase.table.create, no", "columnfamily, a:b", "columnfamily, .f", "columnfamily, ''"})
  void wrongValuesAreRefusedByName(String name, String value) {
    assertRefused(settings(name, value), "property " + name + "=" + value + " ");
  }

  @ParameterizedTest
  @CsvSource({"hbase.table.bloomfilter, ROWS", "hbase.table.compression, RAR", "hbase.table.blocksize, 0", "hbase.table.replication, 0",
      "hbase.table.splits, few", "hbase.table.blockcache, on"})
  void whatNoTableCanBeIsRefusedBeforeAnythingIsConnected(String name, String value) {
    HBaseSettings settings = settings(name, value);
    String message = assertThrows(UsageException.class, () -> new TableSetup(settings)).getMessage();
    assertTrue(message.startsWith("property " + name + "=" + value + " "), message);
  }

  @Test
  void halfALoginIsRefused() {
    assertRefused(settings("principal", "me@REALM"), "needs the property keytab");
    assertRefused(settings("keytab", "/my.keytab"), "needs the property principal");
    assertRefused(settings("principal", "me@REALM", "keytab", "/my.keytab"), "hadoop.security.authentication=kerberos");
    assertEquals(new HBaseSettings.Login("me@REALM", "/my.keytab"),
        settings("principal", "me@REALM", "keytab", "/my.keytab", "hadoop.security.authentication", "kerberos").login());
  }

  @Test
  void writesAreGatheredOnlyWhenAsked() {
    assertNull(settings("writebuffersize", "1000").buffering());
    assertEquals(new HBaseSettings.Buffering(12 << 20, 10), settings("clientbuffering", "true").buffering(), "YCSB's size");
  }

  private static void assertRefused(HBaseSettings settings, String part) {
    String message = assertThrows(UsageException.class, settings::check).getMessage();
    assertTrue(message.contains(part), message);
  }

  private static HBaseSettings settings(String... pairs) {
    Properties properties = new Properties();
    for (int i = 0; i < pairs.length; i += 2) {
      properties.setProperty(pairs[i], pairs[i + 1]);
    }
    return new HBaseSettings(properties);
  }
}
