// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;
import org.stratabench.ycsb.SetupException;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * Apache HBase 2: one connection for the process, one table handle for each thread, one request for each operation.
 *
 * <p>A missing row is NOT_FOUND for a read; HBase itself answers updates and deletes of missing rows with success.
 */
public final class HBaseDb extends DB {
  /** How many rows a scan asks for in one round trip at most; a scan never asks for more than it needs. */
  private static final int MOST_ROWS_A_TRIP = 1000;

  private static Connection shared;
  private static SetupException failure;
  private static int users;

  private Table table;
  private byte[] family;
  private Durability durability;

  @Override
  public void init() throws DBException {
    HBaseSettings settings = new HBaseSettings(getProperties());
    family = settings.family();
    durability = settings.durability();
    try {
      table = acquire(settings).getTable(settings.table());
    } catch (SetupException | IOException e) {
      throw new DBException(e.getMessage(), e);
    }
  }

  /** The process's connection, made by the first thread that asks; after a failure every other thread fails at once. */
  private static synchronized Connection acquire(HBaseSettings settings) throws SetupException {
    if (failure != null) {
      throw failure;
    }
    if (shared == null) {
      try {
        Connection connection = Connections.open(settings);
        new TableSetup(settings).ensure(connection);
        shared = connection;
      } catch (SetupException e) {
        failure = e;
        throw e;
      }
    }
    users++;
    return shared;
  }

  private static synchronized void release() throws IOException {
    users--;
    if (users == 0) {
      shared.close();
      shared = null;
    }
  }

  @Override
  public void cleanup() throws DBException {
    try {
      table.close();
      release();
    } catch (IOException e) {
      throw new DBException(e);
    }
  }

  @Override
  public Status read(String tableName, String key, Set<String> fields, Map<String, ByteIterator> result) {
    Get get = new Get(Bytes.toBytes(key));
    if (fields == null) {
      get.addFamily(family);
    } else {
      for (String field : fields) {
        get.addColumn(family, Bytes.toBytes(field));
      }
    }
    try {
      Result row = table.get(get);
      if (row.isEmpty()) {
        return Status.NOT_FOUND;
      }
      copy(row, result);
      return Status.OK;
    } catch (IOException e) {
      return failed(e);
    }
  }

  @Override
  public Status scan(String tableName, String startKey, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
    Scan scan = new Scan().withStartRow(Bytes.toBytes(startKey)).setLimit(count).setCaching(Math.min(count, MOST_ROWS_A_TRIP));
    if (fields == null) {
      scan.addFamily(family);
    } else {
      for (String field : fields) {
        scan.addColumn(family, Bytes.toBytes(field));
      }
    }
    try (ResultScanner scanner = table.getScanner(scan)) {
      for (Result row = scanner.next(); row != null; row = scanner.next()) {
        HashMap<String, ByteIterator> values = new HashMap<>();
        copy(row, values);
        result.add(values);
      }
      return Status.OK;
    } catch (IOException e) {
      return failed(e);
    }
  }

  @Override
  public Status update(String tableName, String key, Map<String, ByteIterator> values) {
    Put put = new Put(Bytes.toBytes(key)).setDurability(durability);
    for (Map.Entry<String, ByteIterator> value : values.entrySet()) {
      put.addColumn(family, Bytes.toBytes(value.getKey()), value.getValue().toArray());
    }
    try {
      table.put(put);
      return Status.OK;
    } catch (IOException e) {
      return failed(e);
    }
  }

  @Override
  public Status insert(String tableName, String key, Map<String, ByteIterator> values) {
    return update(tableName, key, values);
  }

  @Override
  public Status delete(String tableName, String key) {
    try {
      table.delete(new Delete(Bytes.toBytes(key)).setDurability(durability));
      return Status.OK;
    } catch (IOException e) {
      return failed(e);
    }
  }

  private static void copy(Result row, Map<String, ByteIterator> result) {
    for (Cell cell : row.rawCells()) {
      result.put(Bytes.toString(CellUtil.cloneQualifier(cell)), new ByteArrayByteIterator(CellUtil.cloneValue(cell)));
    }
  }

  /** The cause becomes the status's name, by which failures are counted. */
  private static Status failed(IOException e) {
    return new Status(Failures.name(e), Failures.describe(e));
  }
}
