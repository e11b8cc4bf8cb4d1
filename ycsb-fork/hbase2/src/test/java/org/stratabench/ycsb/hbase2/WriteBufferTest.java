// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.apache.hadoop.hbase.NotServingRegionException;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.Row;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.jupiter.api.Test;

class WriteBufferTest {
  private final List<List<Row>> batches = new ArrayList<>();
  private final WriteBuffer.Sent sent = new WriteBuffer.Sent();

  @Property
  void everyWriteIsSentOnceInOrderAndTheOneThatFillsTheBufferSends(@ForAll @Size(min = 1, max = 60) List<@IntRange(max = 300) Integer> sizes,
      @ForAll @IntRange(min = 1, max = 4000) int capacity) throws Exception {
    batches.clear();
    WriteBuffer buffer = new WriteBuffer(this::succeed, capacity, sent);
    List<Row> written = new ArrayList<>();
    long gathered = 0;
    int expectedBatches = 0;
    for (int size : sizes) {
      Put put = put(size);
      written.add(put);
      gathered += put.heapSize();
      buffer.add(put);
      if (gathered >= capacity) {
        gathered = 0;
        expectedBatches++;
      }
      assertEquals(expectedBatches, batches.size());
    }
    buffer.drain();
    buffer.drain();
    assertEquals(written, batches.stream().flatMap(List::stream).toList());
  }

  @Test
  void aFailedBatchFailsTheWriteThatSentItAndTheOthersAreSaidAtTheEnd() throws Exception {
    long one = put(10).heapSize();
    WriteBuffer buffer = new WriteBuffer((batch, results) -> failAfter(2, batch, results), 5 * one, sent);
    for (int i = 0; i < 4; i++) {
      buffer.add(put(10));
    }
    assertEquals(4, sent.unconfirmed().sum());
    assertThrows(NotServingRegionException.class, () -> buffer.add(put(10)));
    // of five writes two arrived, one failure was answered, two had been answered as done
    String message = assertThrows(IOException.class, buffer::drain).getMessage();
    assertTrue(message.startsWith("2 that ") && message.contains("NotServingRegionException: gone"), message);
    buffer.drain();
    assertEquals(5, sent.writes().sum());
    assertEquals(2, sent.lost().sum());
    assertEquals(0, sent.unconfirmed().sum());
  }

  @Test
  void whatTheLastFlushLosesIsSaidAtOnce() throws Exception {
    WriteBuffer buffer = new WriteBuffer((batch, results) -> failAfter(0, batch, results), 1 << 20, sent);
    buffer.add(put(10));
    buffer.add(put(10));
    assertTrue(assertThrows(IOException.class, buffer::drain).getMessage().startsWith("2 that "));
  }

  @Test
  void aBatchThatBreaksTheDriverIsLostAsOneThatTheServersRefuse() throws Exception {
    WriteBuffer buffer = new WriteBuffer((batch, results) -> {
      throw new IllegalStateException("closed");
    }, 2 * put(10).heapSize(), sent);
    buffer.add(put(10));
    assertThrows(IllegalStateException.class, () -> buffer.add(put(10)));
    buffer.add(put(10));
    String message = assertThrows(IOException.class, buffer::drain).getMessage();
    assertTrue(message.startsWith("2 that ") && message.contains("IllegalStateException: closed"), message);
    assertEquals(2, sent.lost().sum());
    assertEquals(0, sent.unconfirmed().sum());
  }

  private void succeed(List<Row> batch, Object[] results) {
    batches.add(batch);
    for (int i = 0; i < results.length; i++) {
      results[i] = Result.EMPTY_RESULT;
    }
  }

  private static void failAfter(int successes, List<Row> batch, Object[] results) throws IOException {
    NotServingRegionException gone = new NotServingRegionException("gone");
    for (int i = 0; i < batch.size(); i++) {
      results[i] = i < successes ? Result.EMPTY_RESULT : gone;
    }
    throw gone;
  }

  private static Put put(int bytes) {
    return new Put(Bytes.toBytes("row")).addColumn(Bytes.toBytes("f"), Bytes.toBytes("q"), new byte[bytes]);
  }
}
