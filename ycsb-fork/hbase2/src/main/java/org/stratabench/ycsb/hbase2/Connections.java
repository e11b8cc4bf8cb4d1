// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.stratabench.ycsb.SetupException;

/** Makes connections in bounded time. */
final class Connections {
  private Connections() {
  }

  /**
   * Connects and asks the cluster one question, so that the connection is known to work.
   *
   * @throws SetupException when that fails or takes longer than {@code hbase.connect.timeout.ms}
   */
  static Connection open(HBaseSettings settings) throws SetupException {
    Configuration configuration = settings.configuration();
    CompletableFuture<Connection> connection = new CompletableFuture<>();
    // a thread of its own: the ZooKeeper client's retries take no notice of a deadline
    Thread connector = new Thread(() -> connect(configuration, settings, connection), "hbase-connect");
    connector.setDaemon(true);
    connector.start();
    String where = "cannot reach HBase through ZooKeeper " + HBaseSettings.quorum(configuration);
    String advice = "; check that it runs and hbase.zookeeper.quorum";
    try {
      return connection.get(settings.connectTimeoutMs(), TimeUnit.MILLISECONDS);
    } catch (TimeoutException e) {
      throw new SetupException(where + " within " + settings.connectTimeoutMs() + " ms" + advice, e);
    } catch (ExecutionException e) {
      throw new SetupException(where + ": " + Failures.describe(e.getCause()) + advice, e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new SetupException(where + ": interrupted", e);
    }
  }

  private static void connect(Configuration configuration, HBaseSettings settings, CompletableFuture<Connection> result) {
    try {
      Connection connection = ConnectionFactory.createConnection(configuration);
      try (Admin admin = connection.getAdmin()) {
        admin.tableExists(settings.table());
      }
      result.complete(connection);
    } catch (IOException | RuntimeException e) {
      result.completeExceptionally(e);
    }
  }
}
