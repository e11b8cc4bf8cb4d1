// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.RegionMetrics;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.ipc.ServerNotRunningYetException;
import org.apache.hadoop.ipc.RemoteException;

/**
 * Moves regions when servers come and go: {@code Regions offload|balance STORAGE QUORUM PORT TIMEOUT_S ADDRESS...}.
 *
 * <p>{@code offload} takes all regions off the servers of these addresses, for good. {@code balance} waits until just
 * the servers of these addresses are there and open, takes back that they leave, where an {@code offload} has said so and they
 * stay after all, and spreads the regions of each table that is not disabled over them, so that no server has two more than
 * another. Both return when it is so, as the master reports it. One JSON object on standard output:
 * moved, servers (address: regions of user tables, and their locality: the share of their bytes on disk that lies on
 * the server's own DataNode, null without any and where {@code STORAGE} is not hdfs). Exit codes: 0, 2 usage, 4 not done in time.
 */
public final class Regions {
  private static final long POLL_MS = 200;

  private final Admin admin;
  private final boolean onHdfs;
  private final long deadline;
  private int moved;

  private Regions(Admin admin, long timeoutSeconds, boolean onHdfs) {
    this.admin = admin;
    this.onHdfs = onHdfs;
    this.deadline = System.nanoTime() + timeoutSeconds * 1_000_000_000L;
  }

  public static void main(String[] args) throws IOException, InterruptedException {
    if (args.length < 6 || !List.of("offload", "balance").contains(args[0])) {
      System.err.println("usage: Regions offload|balance STORAGE QUORUM PORT TIMEOUT_S ADDRESS...");
      System.exit(2);
    }
    Configuration settings = HBaseConfiguration.create();
    settings.set("hbase.zookeeper.quorum", args[2]);
    settings.set("hbase.zookeeper.property.clientPort", args[3]);
    Set<String> addresses = new HashSet<>(List.of(args).subList(5, args.length));
    try (Connection connection = ConnectionFactory.createConnection(settings)) {
      Regions regions = new Regions(connection.getAdmin(), Long.parseLong(args[4]), args[1].equals("hdfs"));
      if (args[0].equals("offload")) {
        regions.offload(addresses);
      } else {
        regions.balance(addresses);
      }
      System.out.println(regions.report());
    } catch (IllegalStateException late) {
      System.err.println(late.getMessage());
      System.exit(4);
    }
  }

  private void offload(Set<String> addresses) throws IOException, InterruptedException {
    List<ServerName> leaving = new ArrayList<>();
    for (ServerName server : admin.getRegionServers()) {
      if (addresses.contains(server.getHostname())) {
        leaving.add(server);
        moved += admin.getRegions(server).size();
      }
    }
    // Marks them, so that nothing is assigned to them again, and moves what they have.
    admin.decommissionRegionServers(leaving, true);
    for (ServerName server : leaving) {
      while (!admin.getRegions(server).isEmpty()) {
        pause(server.getHostname() + " still has " + admin.getRegions(server).size() + " regions");
      }
    }
  }

  private void balance(Set<String> addresses) throws IOException, InterruptedException {
    while (!addresses.equals(liveAddresses())) {
      pause("live servers are " + liveAddresses() + ", expected " + addresses);
    }
    for (ServerName server : admin.getRegionServers()) {
      while (!isOpen(server)) {
        pause(server.getHostname() + " is known to the master and does not answer yet");
      }
    }
    // Else the master would open none of their regions there. Those that have left are noted for good, and unknown to it.
    Set<ServerName> live = Set.copyOf(admin.getRegionServers());
    for (ServerName leaving : admin.listDecommissionedRegionServers()) {
      if (live.contains(leaving)) {
        admin.recommissionRegionServer(leaving, List.of());
      }
    }
    for (TableName table : admin.listTableNames()) {
      spread(table);
    }
  }

  private Set<String> liveAddresses() throws IOException {
    Set<String> found = new HashSet<>();
    for (ServerName server : admin.getRegionServers()) {
      found.add(server.getHostname());
    }
    return found;
  }

  /** The master knows a server as soon as it has reported; until its write-ahead log is there it refuses everything. */
  private boolean isOpen(ServerName server) throws IOException {
    try {
      admin.getRegions(server);
      return true;
    } catch (IOException refused) {
      if (Stream.iterate((Throwable) refused, Objects::nonNull, Throwable::getCause).anyMatch(Regions::isStarting)) {
        return false;
      }
      throw refused;
    }
  }

  private static boolean isStarting(Throwable cause) {
    return cause instanceof ServerNotRunningYetException
        || cause instanceof RemoteException remote
            && remote.getClassName().equals(ServerNotRunningYetException.class.getName());
  }

  /** One region at a time from the fullest server to the emptiest, until they differ by one at most. */
  private void spread(TableName table) throws IOException, InterruptedException {
    // the regions of a table that is off are nowhere; it may also be switched off while we wait for them
    while (!admin.isTableDisabled(table)) {
      Map<ServerName, List<RegionInfo>> placed = placement(table);
      Comparator<ServerName> byCount = Comparator.comparingInt(server -> placed.get(server).size());
      ServerName fullest = placed.keySet().stream().max(byCount).orElseThrow();
      ServerName emptiest = placed.keySet().stream().min(byCount).orElseThrow();
      int assigned = placed.values().stream().mapToInt(List::size).sum();
      if (assigned < admin.getRegions(table).size()) {
        pause(table + ": only " + assigned + " regions are assigned");
      } else if (placed.get(fullest).size() - placed.get(emptiest).size() <= 1) {
        return;
      } else {
        move(placed.get(fullest).get(0), emptiest);
      }
    }
  }

  /** For the master the target is a wish: in a server's first second it opens regions elsewhere, and has to be asked again. */
  private void move(RegionInfo region, ServerName target) throws IOException, InterruptedException {
    admin.move(region.getEncodedNameAsBytes(), target);
    if (admin.getRegions(target).contains(region)) {
      moved++;
    } else {
      pause(region.getRegionNameAsString() + " does not arrive on " + target.getHostname());
    }
  }

  private Map<ServerName, List<RegionInfo>> placement(TableName table) throws IOException {
    Map<ServerName, List<RegionInfo>> found = new TreeMap<>();
    for (ServerName server : admin.getRegionServers()) {
      List<RegionInfo> regions = new ArrayList<>(admin.getRegions(server));
      regions.removeIf(region -> !region.getTable().equals(table));
      found.put(server, regions);
    }
    return found;
  }

  private void pause(String unlessInTime) throws InterruptedException {
    if (System.nanoTime() > deadline) {
      throw new IllegalStateException(unlessInTime);
    }
    Thread.sleep(POLL_MS);
  }

  private String report() throws IOException {
    Map<String, String> servers = new TreeMap<>();
    for (ServerName server : admin.getRegionServers()) {
      int regions = 0;
      long local = 0;
      long total = 0;
      for (RegionMetrics region : admin.getRegionMetrics(server)) {
        if (!RegionInfo.getTable(region.getRegionName()).isSystemTable()) {
          regions++;
          local += region.getBlocksLocalWeight();
          total += region.getBlocksTotalWeight();
        }
      }
      boolean unknown = total == 0 || !onHdfs;
      String share = unknown ? "null" : String.format(Locale.ROOT, "%.3f", (double) local / total);
      servers.put(
          server.getHostname(),
          String.format("\"%s\": {\"regions\": %d, \"locality\": %s}", server.getHostname(), regions, share));
    }
    return "{\"moved\": " + moved + ", \"servers\": {" + String.join(", ", servers.values()) + "}}";
  }
}
