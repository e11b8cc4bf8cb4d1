// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.hbase.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hbase.RegionMetrics;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;

/**
 * Two servers, s1 and s2, and two tables: all four regions of "on" are on s1, the two regions of "off" nowhere. Servers named in
 * the property "decommissioned" are marked as leaving: no region is moved to them. One of them may be gone.
 */
public final class Admin {
  private static final TableName ON = new TableName("on");
  private static final TableName OFF = new TableName("off");

  private final Map<ServerName, List<RegionInfo>> placed = new LinkedHashMap<>();
  private final List<ServerName> leaving = new ArrayList<>();

  Admin() {
    placed.put(new ServerName("s1"), new ArrayList<>(getRegions(ON)));
    placed.put(new ServerName("s2"), new ArrayList<>());
    for (String name : System.getProperty("decommissioned", "").split(",")) {
      leaving.add(new ServerName(name));
    }
  }

  public List<ServerName> getRegionServers() throws IOException {
    return List.copyOf(placed.keySet());
  }

  public TableName[] listTableNames() throws IOException {
    return new TableName[] {OFF, ON};
  }

  public boolean isTableDisabled(TableName table) throws IOException {
    return table.equals(OFF);
  }

  public List<RegionInfo> getRegions(TableName table) {
    List<RegionInfo> regions = new ArrayList<>();
    for (int i = 0; i < (table.equals(ON) ? 4 : 2); i++) {
      regions.add(new RegionInfo(table, i));
    }
    return regions;
  }

  public List<RegionInfo> getRegions(ServerName server) throws IOException {
    return placed.get(server);
  }

  public List<RegionMetrics> getRegionMetrics(ServerName server) throws IOException {
    return placed.get(server).stream().map(region -> new RegionMetrics(region.getEncodedNameAsBytes())).toList();
  }

  public void move(byte[] name, ServerName target) throws IOException {
    if (leaving.contains(target)) {
      return;
    }
    String moved = new String(name, StandardCharsets.US_ASCII);
    for (List<RegionInfo> regions : placed.values()) {
      regions.removeIf(region -> region.getRegionNameAsString().equals(moved));
    }
    placed.get(target).add(new RegionInfo(RegionInfo.getTable(name), Integer.parseInt(moved.split(",")[1])));
  }

  public List<ServerName> listDecommissionedRegionServers() throws IOException {
    return List.copyOf(leaving);
  }

  public void recommissionRegionServer(ServerName server, List<byte[]> regions) throws IOException {
    if (!placed.containsKey(server)) {
      throw new IOException(server.getHostname() + " is no server");
    }
    leaving.remove(server);
  }

  public void decommissionRegionServers(List<ServerName> servers, boolean offload) throws IOException {
    throw new IOException("nobody asks for this");
  }
}
