// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Properties;
import java.util.Set;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.SetupException;
import org.stratabench.ycsb.workload.WorkloadSpec;

/** What is not counted is not there, instead of 0. */
class CountersTest {
  @ParameterizedTest
  @CsvSource({
      "clientbuffering=true, write_batches batched_writes lost_writes unconfirmed_writes",
      "clientbuffering=true clients=8, ''",
      "clientbuffering=false, ''",
      "hbase.read.consistency=TIMELINE, stale_results",
  })
  void onlyWhatIsCountedIsTold(String given, String told) {
    Properties properties = new Properties();
    properties.setProperty("recordcount", "1");
    properties.setProperty("hbase.zookeeper.quorum", "127.0.0.1");
    properties.setProperty("hbase.connect.timeout.ms", "1");
    for (String pair : given.split(" ")) {
      properties.setProperty(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
    }
    Settings settings = new Settings(properties);
    HBaseDatabase database = new HBaseDatabase();
    assertThrows(SetupException.class, () -> database.open(settings, new WorkloadSpec(settings), false));
    assertEquals(told.isEmpty() ? Set.of() : Set.copyOf(List.of(told.split(" "))), database.counters().keySet());
  }
}
