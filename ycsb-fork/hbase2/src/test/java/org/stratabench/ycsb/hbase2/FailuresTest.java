// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.net.ConnectException;
import java.util.List;
import java.util.concurrent.CompletionException;
import org.apache.hadoop.hbase.NotServingRegionException;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.RetriesExhaustedWithDetailsException;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.jupiter.api.Test;

class FailuresTest {
  @Test
  void theOutermostAndTheRootNameAFailure() {
    assertEquals("IOException/ConnectException", Failures.name(new IOException(new IllegalStateException(new ConnectException("refused")))));
    assertEquals("ConnectException: refused", Failures.describe(new ConnectException("refused\nat length")));
  }

  @Test
  void whatCarriesFailuresOfAnotherThreadIsNoFailure() {
    assertEquals("ConnectException", Failures.name(new CompletionException(new ConnectException("refused"))));
  }

  @Test
  void theFirstFailureStandsForABatch() {
    Throwable batch = new RetriesExhaustedWithDetailsException(
        List.of(new NotServingRegionException("gone"), new IOException("other")),
        List.of(new Delete(Bytes.toBytes("a")), new Delete(Bytes.toBytes("b"))), List.of("h:1", "h:2"));
    assertEquals("RetriesExhaustedWithDetailsException/NotServingRegionException", Failures.name(batch));
    assertEquals("RetriesExhaustedWithDetailsException/NotServingRegionException: gone", Failures.describe(batch));
  }
}
