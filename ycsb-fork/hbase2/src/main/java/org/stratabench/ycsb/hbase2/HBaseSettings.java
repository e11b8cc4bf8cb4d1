// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.util.Map;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.util.Bytes;
import org.stratabench.ycsb.Settings;

/** The binding's properties. */
final class HBaseSettings {
  /** Bounds that make a dead cluster fail operations instead of holding them for minutes; every one gives way to a property. */
  private static final Map<String, String> BOUNDS = Map.of(
      "hbase.client.operation.timeout", "30000",
      "hbase.client.meta.operation.timeout", "30000",
      "hbase.client.scanner.timeout.period", "30000",
      "hbase.rpc.timeout", "10000",
      "hbase.client.retries.number", "7",
      "hbase.client.sync.wait.timeout.msec", "120000");

  private final Settings settings;

  HBaseSettings(Properties properties) {
    this.settings = new Settings(properties);
  }

  /** hbase-site.xml of the class path, if any, then the bounds, then every {@code hbase.*} and {@code zookeeper.*} property. */
  Configuration configuration() {
    Configuration configuration = HBaseConfiguration.create();
    BOUNDS.forEach(configuration::set);
    Properties properties = settings.properties();
    for (String name : properties.stringPropertyNames()) {
      if (name.startsWith("hbase.") || name.startsWith("zookeeper.")) {
        configuration.set(name, properties.getProperty(name).trim());
      }
    }
    return configuration;
  }

  /** Where the cluster is looked for, as a message shows it. */
  static String quorum(Configuration configuration) {
    return configuration.get(HConstants.ZOOKEEPER_QUORUM) + " port "
        + configuration.get(HConstants.ZOOKEEPER_CLIENT_PORT, Integer.toString(HConstants.DEFAULT_ZOOKEEPER_CLIENT_PORT));
  }

  TableName table() {
    return TableName.valueOf(settings.text("table", "usertable"));
  }

  byte[] family() {
    return Bytes.toBytes(settings.text("columnfamily", "family"));
  }

  Durability durability() {
    return Durability.valueOf(settings.choice("durability", "USE_DEFAULT",
        "USE_DEFAULT", "SKIP_WAL", "ASYNC_WAL", "SYNC_WAL", "FSYNC_WAL"));
  }

  /** Longest time to reach the cluster, in milliseconds. */
  long connectTimeoutMs() {
    return settings.wholeNumber("hbase.connect.timeout.ms", 30_000, 1, 3_600_000);
  }

  /** Whether a missing table may be made; never in the run phase, where it means that nothing was loaded. */
  boolean createsTable() {
    boolean runPhase = settings.flag("dotransactions", true);
    return !runPhase && settings.flag("hbase.table.create", true);
  }

  Settings settings() {
    return settings;
  }
}
