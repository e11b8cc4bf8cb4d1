// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.DoubleRange;
import net.jqwik.api.constraints.Scale;
import net.jqwik.api.constraints.Size;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.KeyValue;
import org.apache.hadoop.hbase.client.Consistency;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.filter.Filter;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.jupiter.api.Test;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Request;
import org.stratabench.ycsb.workload.RequestGenerator;
import org.stratabench.ycsb.workload.Shard;
import org.stratabench.ycsb.workload.WorkloadSpec;

class TranslationTest {
  private static final byte[] FAMILY = Bytes.toBytes("family");
  private static final byte[] ROW = Bytes.toBytes("user1");

  @Test
  void anInsertHoldsEveryFieldUnderTheKey() throws IOException {
    Request request = request(OperationType.INSERT, "durability", "SKIP_WAL");
    Put put = translation("durability", "SKIP_WAL").put(request.item(0));
    assertEquals(request.key().toString(), Bytes.toString(put.getRow()));
    assertEquals(Durability.SKIP_WAL, put.getDurability());
    assertEquals(10, put.size());
    for (int i = 0; i < 10; i++) {
      Cell cell = put.get(FAMILY, Bytes.toBytes("field" + i)).get(0);
      assertArrayEquals(put.getRow(), CellUtil.cloneRow(cell));
      assertArrayEquals(request.item(0).value(i).toBytes(), CellUtil.cloneValue(cell));
    }
  }

  @Test
  void aReadAsksForTheWantedFieldsOnly() {
    Get all = translation().get(request(OperationType.READ).key(), null);
    assertNull(all.getFamilyMap().get(FAMILY), "the whole family");
    assertTrue(all.getCacheBlocks());
    assertEquals(Consistency.STRONG, all.getConsistency());
    Get one = translation("hbase.read.consistency", "TIMELINE", "hbase.read.cacheblocks", "false")
        .get(request(OperationType.READ).key(), List.of("field3"));
    assertEquals(Set.of("field3"), names(one.getFamilyMap().get(FAMILY)));
    assertFalse(one.getCacheBlocks());
    assertEquals(Consistency.TIMELINE, one.getConsistency());
  }

  @Test
  void aScanAsksForNoMoreThanItsLimit() {
    Request request = request(OperationType.SCAN, "minscanlength", "17", "maxscanlength", "17");
    Scan scan = translation("hbase.scan.cacheblocks", "false").scan(request);
    assertEquals(request.key().toString(), Bytes.toString(scan.getStartRow()));
    assertEquals(17, scan.getLimit());
    assertEquals(17, scan.getCaching());
    assertNull(scan.getFilter());
    assertFalse(scan.getCacheBlocks());
  }

  @Test
  void aFilteredScanReadsTheFieldOfItsCondition() {
    Request request = request(OperationType.FILTERED_SCAN, "readallfields", "false", "filteredscan.field", "field7");
    Scan scan = translation().scan(request);
    Set<String> expected = new TreeSet<>(request.fields());
    expected.add("field7");
    assertEquals(expected, names(scan.getFamilyMap().get(FAMILY)));
  }

  @Property
  void theConditionIsThatTheFieldSortsBelowTheBound(@ForAll @Size(max = 5) byte[] value,
      @ForAll @DoubleRange(min = 0.001, max = 0.999) @Scale(3) double selectivity, @ForAll boolean returned) throws IOException {
    Request request = request(OperationType.FILTERED_SCAN, "filteredscan.selectivity", Double.toString(selectivity),
        "readallfields", Boolean.toString(returned));
    boolean below = Arrays.compareUnsigned(value, request.filter().below()) < 0;
    Filter filter = translation().scan(request).getFilter();
    assertEquals(below, passes(filter, "field0", value), selectivity + " " + Arrays.toString(value));
    assertFalse(passes(filter, "field1", value), "a record without the field");
  }

  /** What a region server does with a filter and one row. */
  private static boolean passes(Filter filter, String field, byte[] value) throws IOException {
    filter.reset();
    filter.filterCell(new KeyValue(ROW, FAMILY, Bytes.toBytes(field), value));
    return !filter.filterRow();
  }

  @Test
  void recordsReceivedAreThoseThatExist() {
    Translation translation = translation();
    Request request = request(OperationType.MULTI_GET);
    Result there = Result.create(List.of((Cell) new KeyValue(ROW, FAMILY, Bytes.toBytes("field0"), ROW)));
    Result gone = Result.create(List.of());
    assertEquals(Answer.OK, translation.found(request, List.of(there, gone, there)));
    assertEquals(2, request.received());
    assertEquals(Answer.NOT_FOUND, translation.found(request, List.of(gone, gone)));
    assertEquals(0, request.received());
    assertEquals(Answer.OK, translation.scanned(request, List.of()), "a scan that finds nothing has been answered");
    assertEquals(Answer.NOT_FOUND, translation.found(request, gone));
    assertEquals(Answer.OK, translation.found(request, there));
    assertEquals(1, request.received());
  }

  @Test
  void resultsOfReplicasAreCountedWhetherOrNotTheyHoldARecord() {
    Translation translation = translation();
    Request request = request(OperationType.READ);
    Cell[] cells = {new KeyValue(ROW, FAMILY, Bytes.toBytes("field0"), ROW)};
    translation.found(request, Result.create(cells, null, true));
    translation.found(request, Result.create(new Cell[0], null, true));
    translation.found(request, Result.create(cells, null, false));
    assertEquals(2, translation.staleResults());
  }

  private static Set<String> names(Iterable<byte[]> qualifiers) {
    Set<String> names = new TreeSet<>();
    qualifiers.forEach(qualifier -> names.add(Bytes.toString(qualifier)));
    return names;
  }

  private static Translation translation(String... pairs) {
    Settings settings = settings(pairs);
    return new Translation(new HBaseSettings(settings), new WorkloadSpec(settings).fieldNames());
  }

  private static Request request(OperationType type, String... pairs) {
    RequestGenerator generator = new RequestGenerator(new RequestGenerator.Shared(new WorkloadSpec(settings(pairs)), Shard.WHOLE), 0, 1,
        new SplittableRandom(1));
    generator.prepare(type);
    return generator.request();
  }

  private static Settings settings(String... pairs) {
    Properties properties = new Properties();
    properties.setProperty("recordcount", "100");
    for (int i = 0; i < pairs.length; i += 2) {
      properties.setProperty(pairs[i], pairs[i + 1]);
    }
    return new Settings(properties);
  }
}
