// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellBuilder;
import org.apache.hadoop.hbase.CellBuilderFactory;
import org.apache.hadoop.hbase.CellBuilderType;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.client.Consistency;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.filter.SingleColumnValueExcludeFilter;
import org.apache.hadoop.hbase.filter.SingleColumnValueFilter;
import org.apache.hadoop.hbase.util.Bytes;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.Filter;
import org.stratabench.ycsb.workload.Item;
import org.stratabench.ycsb.workload.Key;
import org.stratabench.ycsb.workload.Request;

/** Turns the workload's requests into HBase's and HBase's results into answers; shared by all sessions. */
final class Translation {
  /** How many rows a scan asks for in one round trip at most; a scan never asks for more than it needs. */
  private static final int MOST_ROWS_A_TRIP = 1000;

  private final byte[] family;
  private final Durability durability;
  private final Consistency consistency;
  private final boolean cacheReads;
  private final boolean cacheScans;
  private final Map<String, byte[]> qualifiers = new HashMap<>();
  private final LongAdder stale = new LongAdder();

  /** @param fields names of the fields that requests can hold */
  Translation(HBaseSettings settings, List<String> fields) {
    family = settings.family();
    durability = settings.durability();
    consistency = settings.readConsistency();
    cacheReads = settings.cachesReads();
    cacheScans = settings.cachesScans();
    for (String field : fields) {
      qualifiers.put(field, Bytes.toBytes(field));
    }
  }

  /** The read of one record. */
  Get get(Key key, List<String> fields) {
    Get get = new Get(key.toBytes());
    if (fields == null) {
      get.addFamily(family);
    } else {
      for (String field : fields) {
        get.addColumn(family, qualifiers.get(field));
      }
    }
    get.setCacheBlocks(cacheReads);
    get.setConsistency(consistency);
    return get;
  }

  /** The reads of a multi-get. */
  List<Get> gets(Request request) {
    List<Get> gets = new ArrayList<>(request.size());
    for (int i = 0; i < request.size(); i++) {
      gets.add(get(request.item(i).key(), request.fields()));
    }
    return gets;
  }

  /** The write of an update, an insert or a delete. */
  Mutation write(Request request) throws IOException {
    return switch (request.type()) {
      case UPDATE, INSERT -> put(request.item(0));
      case DELETE -> delete(request.key());
      default -> throw new UnsupportedOperationException(request.type().label());
    };
  }

  /** An insert or an update; HBase knows no difference. */
  Put put(Item item) throws IOException {
    byte[] row = item.key().toBytes();
    Put put = new Put(row, true);
    put.setDurability(durability);
    CellBuilder cell = CellBuilderFactory.create(CellBuilderType.SHALLOW_COPY)
        .setRow(row).setFamily(family).setTimestamp(HConstants.LATEST_TIMESTAMP).setType(Cell.Type.Put);
    for (int i = 0; i < item.fields().size(); i++) {
      put.add(cell.setQualifier(qualifiers.get(item.fields().get(i))).setValue(item.value(i).toBytes()).build());
    }
    return put;
  }

  /** The writes of a batch insert. */
  List<Put> puts(Request request) throws IOException {
    List<Put> puts = new ArrayList<>(request.size());
    for (int i = 0; i < request.size(); i++) {
      puts.add(put(request.item(i)));
    }
    return puts;
  }

  /** The delete of a whole row. */
  Delete delete(Key key) {
    Delete delete = new Delete(key.toBytes());
    delete.setDurability(durability);
    return delete;
  }

  /** A scan with or without a condition; its limit counts the rows that satisfy it. */
  Scan scan(Request request) {
    Scan scan = new Scan().withStartRow(request.key().toBytes())
        .setLimit(request.limit())
        .setCaching(Math.min(request.limit(), MOST_ROWS_A_TRIP))
        .setCacheBlocks(cacheScans)
        .setConsistency(consistency);
    List<String> fields = request.fields();
    if (fields == null) {
      scan.addFamily(family);
    } else {
      for (String field : fields) {
        scan.addColumn(family, qualifiers.get(field));
      }
    }
    if (request.filter() != null) {
      filter(scan, request.filter(), fields);
    }
    return scan;
  }

  /** The server must read the field of the condition, but return it only where it was asked for. */
  private void filter(Scan scan, Filter condition, List<String> fields) {
    byte[] qualifier = qualifiers.get(condition.field());
    boolean wanted = fields == null || fields.contains(condition.field());
    SingleColumnValueFilter filter = wanted
        ? new SingleColumnValueFilter(family, qualifier, CompareOperator.LESS, condition.below())
        : new SingleColumnValueExcludeFilter(family, qualifier, CompareOperator.LESS, condition.below());
    filter.setFilterIfMissing(true);
    scan.setFilter(filter);
    if (!wanted) {
      scan.addColumn(family, qualifier);
    }
  }

  /** What a read found. */
  Answer found(Request request, Result row) {
    request.received(arrived(row));
    return row.isEmpty() ? Answer.NOT_FOUND : Answer.OK;
  }

  /** What a multi-get found: nothing only when none of its records is there. */
  Answer found(Request request, Iterable<Result> rows) {
    scanned(request, rows);
    return request.received() == 0 ? Answer.NOT_FOUND : Answer.OK;
  }

  /** What a scan found: no rows are an answer like any other. */
  Answer scanned(Request request, Iterable<Result> rows) {
    long records = 0;
    for (Result row : rows) {
      records += arrived(row);
    }
    request.received(records);
    return Answer.OK;
  }

  /** Notes one result and returns how many records it holds: 1 or 0. */
  private int arrived(Result row) {
    if (row.isStale()) {
      stale.increment();
    }
    return row.isEmpty() ? 0 : 1;
  }

  /** How many results, found or not, came from a region's secondary replica, which may lag behind. */
  long staleResults() {
    return stale.sum();
  }
}
