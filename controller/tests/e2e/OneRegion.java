// SPDX-License-Identifier: Apache-2.0
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;

/** Closes or opens the first region of a table: {@code OneRegion unassign|assign QUORUM TABLE}. For tests. */
public final class OneRegion {
  private OneRegion() {
  }

  public static void main(String[] args) throws Exception {
    Configuration settings = HBaseConfiguration.create();
    settings.set("hbase.zookeeper.quorum", args[1]);
    try (Connection connection = ConnectionFactory.createConnection(settings); Admin admin = connection.getAdmin()) {
      byte[] region = admin.getRegions(TableName.valueOf(args[2])).get(0).getRegionName();
      switch (args[0]) {
        case "unassign" -> admin.unassign(region);
        case "assign" -> admin.assign(region);
        default -> throw new IllegalArgumentException(args[0]);
      }
    }
  }
}
