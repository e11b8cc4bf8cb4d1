// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableExistsException;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hadoop.hbase.regionserver.BloomType;
import org.apache.hadoop.hbase.util.Bytes;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.SetupException;

/** Sees to it that the table is there before the first operation. */
final class TableSetup {
  private static final long POLL_MS = 100;
  private static final int MOST_REPLICAS = 100;

  private final HBaseSettings settings;
  private final TableName table;
  private final TableDescriptor descriptor;

  /** Reads what a new table would be like, and refuses what no table can be. */
  TableSetup(HBaseSettings settings) {
    this.settings = settings;
    this.table = settings.table();
    this.descriptor = descriptor();
    SplitPoints.from(settings.settings(), 1);
  }

  /**
   * Sees to it that the table is there, with its column family, and that all its regions are served.
   *
   * @param create whether a missing table may be made
   * @throws SetupException when that fails, or takes longer than {@code hbase.table.wait.ms} and what was asked last
   */
  void ensure(Connection connection, boolean create) throws SetupException {
    try (Admin admin = connection.getAdmin()) {
      if (!admin.tableExists(table)) {
        if (!create) {
          throw new SetupException("table " + table + " does not exist; run the load phase first, with hbase.table.create=true");
        }
        create(admin);
      }
      checkFamily(admin.getDescriptor(table));
      awaitServed(connection, admin);
    } catch (IOException e) {
      throw new SetupException("cannot set up table " + table + ": " + Failures.describe(e), e);
    }
  }

  private void create(Admin admin) throws IOException {
    List<String> splits = SplitPoints.from(settings.settings(), admin.getRegionServers().size());
    try {
      if (splits.isEmpty()) {
        admin.createTable(descriptor);
      } else {
        admin.createTable(descriptor, splits.stream().map(Bytes::toBytes).toArray(byte[][]::new));
      }
    } catch (TableExistsException e) {
      // another shard was faster, with the same properties
      return;
    }
  }

  private TableDescriptor descriptor() {
    Settings values = settings.settings();
    ColumnFamilyDescriptorBuilder family = ColumnFamilyDescriptorBuilder.newBuilder(settings.family())
        .setCompressionType(compression(values))
        .setBloomFilterType(BloomType.valueOf(values.choice("hbase.table.bloomfilter", "ROW", "NONE", "ROW", "ROWCOL")))
        .setBlockCacheEnabled(values.flag("hbase.table.blockcache", true))
        .setBlocksize((int) values.wholeNumber("hbase.table.blocksize", HConstants.DEFAULT_BLOCKSIZE, 1, Settings.MOST_BYTES));
    int dfsReplication = (int) values.wholeNumber("hbase.table.dfs.replication", 0, 0, Short.MAX_VALUE);
    if (dfsReplication > 0) {
      family.setDFSReplication((short) dfsReplication);
    }
    return TableDescriptorBuilder.newBuilder(table)
        .setRegionReplication((int) values.wholeNumber("hbase.table.replication", 1, 1, MOST_REPLICAS))
        .setColumnFamily(family.build())
        .build();
  }

  private static Compression.Algorithm compression(Settings values) {
    String name = values.text("hbase.table.compression", "NONE");
    try {
      return Compression.Algorithm.valueOf(name);
    } catch (IllegalArgumentException e) {
      values.reject("hbase.table.compression", name, "is no compression HBase knows");
      return Compression.Algorithm.NONE;
    }
  }

  private void checkFamily(TableDescriptor descriptor) throws SetupException {
    if (!descriptor.hasColumnFamily(settings.family())) {
      throw new SetupException("table " + table + " has no column family " + Bytes.toString(settings.family())
          + "; set columnfamily to one it has, or drop it");
    }
  }

  private void awaitServed(Connection connection, Admin admin) throws IOException, SetupException {
    long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(settings.tableWaitMs());
    String missing = notServed(connection, admin);
    while (missing != null) {
      if (System.nanoTime() > until) {
        throw new SetupException("table " + table + " is not served within hbase.table.wait.ms=" + settings.tableWaitMs() + ": " + missing
            + "; see ycsb-admin hbase2 status");
      }
      try {
        TimeUnit.MILLISECONDS.sleep(POLL_MS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new SetupException("interrupted while waiting for table " + table, e);
      }
      missing = notServed(connection, admin);
    }
  }

  /**
   * What is missing until every region, replicas too, is served by the server where it should be; null when nothing is. The servers are asked
   * themselves, because Admin.isTableAvailable reads only where the regions should be, which is known while they are still being opened.
   */
  private String notServed(Connection connection, Admin admin) throws IOException {
    Map<ServerName, Set<String>> wanted = new HashMap<>();
    try (RegionLocator locator = connection.getRegionLocator(table)) {
      for (HRegionLocation location : locator.getAllRegionLocations()) {
        if (location.getServerName() == null) {
          return location.getRegion().getRegionNameAsString() + " has no server";
        }
        wanted.computeIfAbsent(location.getServerName(), server -> new HashSet<>()).add(location.getRegion().getRegionNameAsString());
      }
    }
    for (Map.Entry<ServerName, Set<String>> regions : wanted.entrySet()) {
      try {
        admin.getRegionMetrics(regions.getKey(), table).forEach(region -> regions.getValue().remove(region.getNameAsString()));
      } catch (IOException e) {
        return regions.getKey().getAddress() + " says " + Failures.describe(e);
      }
      if (!regions.getValue().isEmpty()) {
        return regions.getKey().getAddress() + " does not serve " + regions.getValue().iterator().next();
      }
    }
    return wanted.isEmpty() ? "it has no regions yet" : null;
  }
}
