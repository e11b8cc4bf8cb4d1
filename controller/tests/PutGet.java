import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;

/** One put and one get, called as the client's admin program is: so the deployment is tested without the client. */
public final class PutGet {
  public static void main(String[] arguments) throws Exception {
    Configuration configuration = HBaseConfiguration.create();
    for (int i = 2; i < arguments.length; i += 2) {
      String[] property = arguments[i + 1].split("=", 2);
      configuration.set(property[0], property[1]);
    }
    TableName name = TableName.valueOf("put_get");
    byte[] bytes = {'f'};
    try (var connection = ConnectionFactory.createConnection(configuration);
        var admin = connection.getAdmin();
        var table = connection.getTable(name)) {
      if (!admin.tableExists(name)) {
        var family = ColumnFamilyDescriptorBuilder.of(bytes);
        admin.createTable(TableDescriptorBuilder.newBuilder(name).setColumnFamily(family).build());
      }
      table.put(new Put(bytes).addColumn(bytes, bytes, bytes));
      if (!Arrays.equals(table.get(new Get(bytes)).getValue(bytes, bytes), bytes)) {
        throw new IllegalStateException("the row that was read is not the one that was written");
      }
    }
  }
}
