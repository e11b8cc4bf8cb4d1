// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.nio.file.Files;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Consistency;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.util.Bytes;
import org.stratabench.ycsb.Settings;

/** The binding's properties. */
final class HBaseSettings {
  private static final String CONFIG = "hbase.config";
  private static final String TABLE = "table";
  private static final String DEFAULT_TABLE = "usertable";
  private static final String DEFAULT_FAMILY = "family";
  private static final String HBASE_DEFAULTS = "hbase-default.xml";
  private static final List<String> FORWARDED = List.of("hbase.", "zookeeper.", "hadoop.");
  private static final int MOST_CONNECTIONS = 1000;
  private static final long HOUR_MS = 3_600_000;
  /** Bounds that make a dead cluster fail operations instead of holding them for minutes; every one gives way to a property or a file. */
  private static final Map<String, String> BOUNDS = Map.of(
      "hbase.client.operation.timeout", "30000",
      "hbase.client.meta.operation.timeout", "30000",
      "hbase.client.scanner.timeout.period", "30000",
      "hbase.rpc.timeout", "10000",
      "hbase.client.retries.number", "7",
      "hbase.client.sync.wait.timeout.msec", "120000");

  /**
   * How writes are gathered.
   *
   * @param bytes size at which the gathered writes are sent, as HBase counts its heap
   * @param longestMs age at which they are sent nonetheless; for asynchronous sessions only, where every writer waits for its batch
   */
  record Buffering(long bytes, long longestMs) { }

  /**
   * Who logs in to a cluster that is secured with Kerberos.
   *
   * @param keytab path of the file with the principal's key
   */
  record Login(String principal, String keytab) { }

  private final Settings settings;

  HBaseSettings(Settings settings) {
    this.settings = settings;
  }

  HBaseSettings(Properties properties) {
    this(new Settings(properties));
  }

  /**
   * What the HBase client is given: hbase-site.xml of the class path, if any, then the file {@code hbase.config}, then every property whose name
   * begins with {@code hbase.}, {@code zookeeper.} or {@code hadoop.}; bounds of our own where none of them says anything.
   */
  Configuration configuration() {
    Configuration configuration = HBaseConfiguration.create();
    addFile(configuration);
    BOUNDS.forEach((name, value) -> {
      if (isDefault(configuration, name)) {
        configuration.set(name, value);
      }
    });
    Properties properties = settings.properties();
    for (String name : properties.stringPropertyNames()) {
      if (FORWARDED.stream().anyMatch(name::startsWith)) {
        // to hand a name on is not to read it: it may be one of ours that is written wrongly
        configuration.set(name, String.valueOf(properties.get(name)).trim());
      }
    }
    return configuration;
  }

  private void addFile(Configuration configuration) {
    String file = settings.text(CONFIG, null);
    if (file == null) {
      return;
    }
    if (!Files.isReadable(java.nio.file.Path.of(file))) {
      throw Settings.unreadable(CONFIG, file, "; give the path of an hbase-site.xml");
    }
    try {
      configuration.addResource(new Path(java.nio.file.Path.of(file).toUri()));
      // reads the file, if adding it has not
      configuration.size();
    } catch (RuntimeException e) {
      throw Settings.refuse(CONFIG, file, "is no configuration file: " + Failures.describe(e));
    }
  }

  private static boolean isDefault(Configuration configuration, String name) {
    String[] sources = configuration.getPropertySources(name);
    return sources == null || Arrays.asList(sources).equals(List.of(HBASE_DEFAULTS));
  }

  /** Where the cluster is looked for, as a message shows it. */
  static String quorum(Configuration configuration) {
    return configuration.get(HConstants.ZOOKEEPER_QUORUM) + " port "
        + configuration.get(HConstants.ZOOKEEPER_CLIENT_PORT, Integer.toString(HConstants.DEFAULT_ZOOKEEPER_CLIENT_PORT));
  }

  /** Reads every property once, so that a wrong one is refused before anything is connected. */
  void check() {
    settings.part(this::configuration);
    table();
    family();
    durability();
    connectTimeoutMs();
    tableWaitMs();
    connections();
    readConsistency();
    cachesReads();
    cachesScans();
    buffering();
    settings.part(this::login);
    createsTable();
  }

  TableName table() {
    String name = settings.text(TABLE, DEFAULT_TABLE);
    try {
      return TableName.valueOf(name);
    } catch (IllegalArgumentException e) {
      settings.reject(TABLE, name, "is no table name HBase takes: " + e.getMessage());
      return TableName.valueOf(DEFAULT_TABLE);
    }
  }

  byte[] family() {
    String name = settings.text("columnfamily", DEFAULT_FAMILY);
    try {
      return ColumnFamilyDescriptorBuilder.isLegalColumnFamilyName(Bytes.toBytes(name));
    } catch (IllegalArgumentException e) {
      settings.reject("columnfamily", name, "is no name of a family HBase takes: " + e.getMessage());
      return Bytes.toBytes(DEFAULT_FAMILY);
    }
  }

  Durability durability() {
    return Durability.valueOf(settings.choice("durability", "USE_DEFAULT",
        "USE_DEFAULT", "SKIP_WAL", "ASYNC_WAL", "SYNC_WAL", "FSYNC_WAL"));
  }

  /** Longest time to reach the cluster, in milliseconds. */
  long connectTimeoutMs() {
    return settings.wholeNumber("hbase.connect.timeout.ms", 30_000, 1, HOUR_MS);
  }

  /** Longest time, in milliseconds, until servers serve all regions of the table. */
  long tableWaitMs() {
    return settings.wholeNumber("hbase.table.wait.ms", 120_000, 1, HOUR_MS);
  }

  /** How many connections the process makes; its sessions take turns on them. */
  int connections() {
    return (int) settings.wholeNumber("hbase.connections", 1, 1, MOST_CONNECTIONS);
  }

  Consistency readConsistency() {
    return Consistency.valueOf(settings.choice("hbase.read.consistency", "STRONG", "STRONG", "TIMELINE"));
  }

  /** Whether region servers keep the blocks that single reads fetch. */
  boolean cachesReads() {
    return settings.flag("hbase.read.cacheblocks", true);
  }

  /** Whether region servers keep the blocks that scans fetch. */
  boolean cachesScans() {
    return settings.flag("hbase.scan.cacheblocks", true);
  }

  /** How writes are gathered, or null when each is sent on its own. */
  Buffering buffering() {
    boolean wanted = settings.flag("clientbuffering", false);
    Buffering buffering = new Buffering(settings.wholeNumber("writebuffersize", 12 << 20, 1, Integer.MAX_VALUE),
        settings.wholeNumber("writebuffer.longest.ms", 10, 1, HOUR_MS));
    return wanted ? buffering : null;
  }

  /** Whether threads drive many clients each. */
  boolean asynchronous() {
    return settings.count("clients", 0) > 0;
  }

  /** Who logs in, or null on a cluster without Kerberos. */
  Login login() {
    String principal = settings.text("principal", null);
    String keytab = settings.text("keytab", null);
    if (principal == null && keytab == null) {
      return null;
    }
    if (keytab == null) {
      throw Settings.refuse("principal", principal, "needs the property keytab");
    }
    if (principal == null) {
      throw Settings.refuse("keytab", keytab, "needs the property principal");
    }
    if (!"kerberos".equalsIgnoreCase(configuration().get("hadoop.security.authentication"))) {
      throw Settings.refuse("principal", principal, "needs hadoop.security.authentication=kerberos; without it nobody would log in");
    }
    return new Login(principal, keytab);
  }

  /** Whether the load phase may make a missing table. */
  boolean createsTable() {
    return settings.flag("hbase.table.create", true);
  }

  Settings settings() {
    return settings;
  }
}
