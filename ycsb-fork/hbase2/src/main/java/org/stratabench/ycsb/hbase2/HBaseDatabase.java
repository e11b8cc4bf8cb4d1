// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.io.IOException;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hbase.client.AsyncBufferedMutator;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Consistency;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.Table;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.SetupException;
import org.stratabench.ycsb.db.AsyncSession;
import org.stratabench.ycsb.db.Database;
import org.stratabench.ycsb.db.Session;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.WorkloadSpec;

/** Apache HBase 2: one connection for the process unless told otherwise, on which all its clients take turns. */
public final class HBaseDatabase implements Database {
  /** A connection that does not block, and what gathers the writes of its clients, if anything. */
  private record Async(AsyncConnection connection, AsyncBufferedMutator buffer) { }

  private final List<Connection> blocking = new ArrayList<>();
  private final List<Async> nonBlocking = new ArrayList<>();
  private final WriteBuffer.Sent sent = new WriteBuffer.Sent();
  private HBaseSettings settings;
  private TableSetup setup;
  private volatile Translation translation;
  private int sessions;

  @Override
  public Set<OperationType> operations() {
    return EnumSet.complementOf(EnumSet.of(OperationType.SECONDARY_LOOKUP, OperationType.TRAVERSAL));
  }

  @Override
  public void check(Settings properties, WorkloadSpec workload, boolean load) {
    settings = new HBaseSettings(properties);
    settings.check();
    translation = new Translation(settings, workload.fieldNames());
    properties.part(() -> setup = new TableSetup(settings));
  }

  @Override
  public void open(Settings properties, WorkloadSpec workload, boolean load) throws SetupException {
    check(properties, workload, load);
    Connection connection = Connections.open(settings);
    blocking.add(connection);
    setup.ensure(connection, load && settings.createsTable());
    locate(connection);
  }

  @Override
  public synchronized Session session() throws SetupException {
    if (blocking.size() < settings.connections()) {
      Connection another = Connections.open(settings);
      blocking.add(another);
      locate(another);
    }
    try {
      Table table = blocking.get(sessions++ % blocking.size()).getTable(settings.table());
      HBaseSettings.Buffering buffering = settings.buffering();
      return new BlockingSession(translation, table, buffering == null ? null : new WriteBuffer(table::batch, buffering.bytes(), sent));
    } catch (IOException e) {
      throw new SetupException("cannot use table " + settings.table() + ": " + Failures.describe(e), e);
    }
  }

  /** Learns where the regions are, so that the first operations need not ask. */
  private void locate(Connection connection) throws SetupException {
    try (RegionLocator locator = connection.getRegionLocator(settings.table())) {
      locator.getAllRegionLocations();
    } catch (IOException e) {
      throw new SetupException("cannot find the regions of table " + settings.table() + ": " + Failures.describe(e), e);
    }
  }

  @Override
  public boolean asynchronous() {
    return true;
  }

  @Override
  public synchronized AsyncSession asyncSession() throws SetupException {
    if (nonBlocking.size() < settings.connections()) {
      AsyncConnection another = Connections.openAsync(settings);
      nonBlocking.add(new Async(another, buffer(another)));
    }
    Async turn = nonBlocking.get(sessions++ % nonBlocking.size());
    return new NonBlockingSession(translation, turn.connection().getTable(settings.table()), turn.buffer());
  }

  private AsyncBufferedMutator buffer(AsyncConnection connection) {
    HBaseSettings.Buffering buffering = settings.buffering();
    return buffering == null ? null : connection.getBufferedMutatorBuilder(settings.table())
        .setWriteBufferSize(buffering.bytes())
        .setWriteBufferPeriodicFlush(buffering.longestMs(), TimeUnit.MILLISECONDS)
        .build();
  }

  @Override
  public Map<String, Long> counters() {
    Map<String, Long> counters = new LinkedHashMap<>();
    if (translation == null) {
      return counters;
    }
    if (settings.readConsistency() == Consistency.TIMELINE) {
      counters.put("stale_results", translation.staleResults());
    }
    // of asynchronous clients HBase's own buffer gathers the writes, and tells nothing
    if (settings.buffering() != null && !settings.asynchronous()) {
      counters.put("write_batches", sent.batches().sum());
      counters.put("batched_writes", sent.writes().sum());
      counters.put("lost_writes", sent.lost().sum());
      counters.put("unconfirmed_writes", sent.unconfirmed().sum());
    }
    return counters;
  }

  @Override
  public synchronized void close() throws IOException {
    for (Async async : nonBlocking) {
      async.connection().close();
    }
    for (Connection connection : blocking) {
      connection.close();
    }
  }
}
