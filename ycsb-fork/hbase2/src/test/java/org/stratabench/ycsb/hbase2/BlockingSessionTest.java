// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.SocketTimeoutException;
import java.util.Properties;
import java.util.SplittableRandom;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.metrics.ScanMetrics;
import org.apache.hadoop.hbase.ipc.CallTimeoutException;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Outcome;
import org.stratabench.ycsb.workload.RequestGenerator;
import org.stratabench.ycsb.workload.Shard;
import org.stratabench.ycsb.workload.WorkloadSpec;

class BlockingSessionTest {
  private boolean closed;

  /** Reaches no server in time. */
  private final class SilentTable implements Table {
    @Override
    public Result get(Get get) throws IOException {
      throw timeout();
    }

    @Override
    public ResultScanner getScanner(Scan scan) {
      return new SilentScanner();
    }

    @Override
    public TableName getName() {
      throw new UnsupportedOperationException();
    }

    @Override
    public Configuration getConfiguration() {
      throw new UnsupportedOperationException();
    }

    @Override
    public TableDescriptor getDescriptor() {
      throw new UnsupportedOperationException();
    }

    @Override
    public RegionLocator getRegionLocator() {
      throw new UnsupportedOperationException();
    }
  }

  private final class SilentScanner implements ResultScanner {
    @Override
    public Result next() throws IOException {
      throw timeout();
    }

    @Override
    public void close() {
      closed = true;
    }

    @Override
    public boolean renewLease() {
      return false;
    }

    @Override
    public ScanMetrics getScanMetrics() {
      return null;
    }
  }

  private static IOException timeout() {
    SocketTimeoutException timeout = new SocketTimeoutException("callTimeout=1, callDuration=2");
    timeout.initCause(new CallTimeoutException("no answer"));
    return timeout;
  }

  @ParameterizedTest
  @EnumSource(value = OperationType.class, names = {"READ", "SCAN", "FILTERED_SCAN"})
  void aFailureHasTheNameOfWhatWentWrong(OperationType type) throws InterruptedException {
    Properties properties = new Properties();
    properties.setProperty("recordcount", "10");
    WorkloadSpec spec = new WorkloadSpec(new Settings(properties));
    RequestGenerator generator =
        new RequestGenerator(new RequestGenerator.Shared(spec, Shard.WHOLE), 0, 1, new SplittableRandom(1));
    generator.prepare(type);
    Translation translation = new Translation(new HBaseSettings(properties), spec.fieldNames());
    Answer answer = new BlockingSession(translation, new SilentTable(), null).execute(generator.request());
    assertEquals(new Answer(Outcome.FAILED, "SocketTimeoutException/CallTimeoutException"), answer);
    assertTrue(closed || type == OperationType.READ);
  }
}
