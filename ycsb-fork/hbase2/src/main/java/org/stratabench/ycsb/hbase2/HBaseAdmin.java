// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.hadoop.hbase.ClusterMetrics;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.RegionMetrics;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.filter.FilterList;
import org.apache.hadoop.hbase.filter.FirstKeyOnlyFilter;
import org.apache.hadoop.hbase.filter.KeyOnlyFilter;
import org.apache.hadoop.hbase.util.Bytes;
import org.stratabench.ycsb.DatabaseAdmin;
import org.stratabench.ycsb.SetupException;

/** Maintenance of an HBase cluster. */
public final class HBaseAdmin implements DatabaseAdmin {
  private static final String PROBE_TABLE = "strata_probe";
  private static final int ROWS_A_TRIP = 5_000;

  @Override
  public Map<String, Object> perform(String verb, Properties properties) throws SetupException {
    HBaseSettings settings = new HBaseSettings(properties);
    settings.check();
    try (Connection connection = Connections.open(settings)) {
      return switch (verb) {
        case "probe" -> probe(connection, properties);
        case "count" -> count(connection, settings.table());
        case "flush" -> flush(connection, settings.table());
        case "drop" -> drop(connection, settings.table());
        case "status" -> status(connection, settings.table());
        default -> throw new IllegalArgumentException(verb);
      };
    } catch (IOException e) {
      throw new SetupException(verb + " failed: " + Failures.describe(e), e);
    }
  }

  /** Writes, reads and deletes one row of a table of its own, with the time of each in nanoseconds. */
  private static Map<String, Object> probe(Connection connection, Properties properties) throws IOException, SetupException {
    Properties own = new Properties();
    own.setProperty("table", PROBE_TABLE);
    copy(properties, own, "hbase.table.dfs.replication");
    HBaseSettings settings = new HBaseSettings(own);
    new TableSetup(settings).ensure(connection, true);
    byte[] key = Bytes.toBytes("probe" + System.nanoTime());
    byte[] value = Bytes.toBytes("strata");
    Map<String, Object> answer = new LinkedHashMap<>();
    try (Table table = connection.getTable(settings.table())) {
      long begin = System.nanoTime();
      table.put(new Put(key).addColumn(settings.family(), key, value));
      long put = System.nanoTime();
      Result found = table.get(new Get(key));
      long got = System.nanoTime();
      table.delete(new Delete(key));
      long deleted = System.nanoTime();
      if (!Bytes.equals(value, found.getValue(settings.family(), key))) {
        throw new SetupException("probe failed: what was read is not what was written");
      }
      answer.put("ok", true);
      answer.put("table", PROBE_TABLE);
      answer.put("put_ns", put - begin);
      answer.put("get_ns", got - put);
      answer.put("delete_ns", deleted - got);
    }
    return answer;
  }

  private static void copy(Properties from, Properties to, String name) {
    if (from.containsKey(name)) {
      to.setProperty(name, from.getProperty(name));
    }
  }

  private static Map<String, Object> count(Connection connection, TableName name) throws IOException, SetupException {
    requireTable(connection, name);
    Scan scan = new Scan().setFilter(new FilterList(new FirstKeyOnlyFilter(), new KeyOnlyFilter()))
        .setCaching(ROWS_A_TRIP).setCacheBlocks(false);
    long rows = 0;
    try (Table table = connection.getTable(name); ResultScanner scanner = table.getScanner(scan)) {
      while (scanner.next() != null) {
        rows++;
      }
    }
    return answer(name, "rows", rows);
  }

  private static Map<String, Object> flush(Connection connection, TableName name) throws IOException, SetupException {
    requireTable(connection, name);
    try (Admin admin = connection.getAdmin()) {
      admin.flush(name);
      Map<String, Object> answer = answer(name, "flushed", true);
      answer.putAll(placement(connection, admin, name));
      return answer;
    }
  }

  private static Map<String, Object> drop(Connection connection, TableName name) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      boolean existed = admin.tableExists(name);
      if (existed) {
        if (admin.isTableEnabled(name)) {
          admin.disableTable(name);
        }
        admin.deleteTable(name);
      }
      return answer(name, "dropped", existed);
    }
  }

  private static Map<String, Object> status(Connection connection, TableName name) throws IOException {
    try (Admin admin = connection.getAdmin()) {
      ClusterMetrics metrics = admin.getClusterMetrics();
      Map<String, Object> regions = new TreeMap<>();
      metrics.getLiveServerMetrics().forEach((server, load) ->
          regions.put(server.getAddress().toString(), load.getRegionMetrics().size()));
      Map<String, Object> answer = new LinkedHashMap<>();
      answer.put("ok", true);
      answer.put("version", metrics.getHBaseVersion());
      answer.put("live_servers", addresses(metrics.getLiveServerMetrics().keySet().stream().toList()));
      answer.put("dead_servers", addresses(metrics.getDeadServerNames()));
      answer.put("regions", regions);
      answer.put("table", name.getNameAsString());
      answer.put("table_regions", null);
      if (admin.tableExists(name)) {
        answer.putAll(placement(connection, admin, name));
      }
      return answer;
    }
  }

  /** Where one table is: its regions by server, and how much of what they have on disk lies beside their server. */
  private static Map<String, Object> placement(Connection connection, Admin admin, TableName name) throws IOException {
    Map<String, Object> locality = new TreeMap<>();
    for (ServerName server : admin.getRegionServers()) {
      long local = 0;
      long total = 0;
      for (RegionMetrics region : admin.getRegionMetrics(server, name)) {
        local += region.getBlocksLocalWeight();
        total += region.getBlocksTotalWeight();
      }
      // As long as all is in memory there is nothing that could be near or far.
      locality.put(server.getAddress().toString(), total == 0 ? null : (double) local / total);
    }
    return Map.of("table_regions", tableRegions(connection, name), "table_locality", locality);
  }

  private static List<String> addresses(List<ServerName> servers) {
    return servers.stream().map(server -> server.getAddress().toString()).sorted().toList();
  }

  /** Regions of one table by server; one that no server serves counts under {@code unassigned}. */
  private static Map<String, Integer> tableRegions(Connection connection, TableName name) throws IOException {
    Map<String, Integer> regions = new TreeMap<>();
    try (RegionLocator locator = connection.getRegionLocator(name)) {
      for (HRegionLocation location : locator.getAllRegionLocations()) {
        ServerName server = location.getServerName();
        regions.merge(server == null ? "unassigned" : server.getAddress().toString(), 1, Integer::sum);
      }
    }
    return regions;
  }

  private static void requireTable(Connection connection, TableName name) throws IOException, SetupException {
    try (Admin admin = connection.getAdmin()) {
      if (!admin.tableExists(name)) {
        throw new SetupException("table " + name + " does not exist; run the load phase first");
      }
    }
  }

  private static Map<String, Object> answer(TableName table, String member, Object value) {
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("ok", true);
    answer.put("table", table.getNameAsString());
    answer.put(member, value);
    return answer;
  }
}
