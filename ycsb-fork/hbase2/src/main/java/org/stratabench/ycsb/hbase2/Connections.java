// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.security.UserGroupInformation;
import org.stratabench.ycsb.SetupException;

/** Makes connections in bounded time. */
final class Connections {
  private interface Connector<C> {
    C connect(Configuration configuration) throws Exception;
  }

  private Connections() {
  }

  /**
   * Connects and asks the cluster one question, so that the connection is known to work.
   *
   * @throws SetupException when that fails or takes longer than {@code hbase.connect.timeout.ms}
   */
  static Connection open(HBaseSettings settings) throws SetupException {
    return within(settings, configuration -> {
      Connection connection = ConnectionFactory.createConnection(configuration);
      try (Admin admin = connection.getAdmin()) {
        admin.tableExists(settings.table());
      }
      return connection;
    });
  }

  /** The same for a connection that does not block; it knows where the regions of the table are. */
  static AsyncConnection openAsync(HBaseSettings settings) throws SetupException {
    return within(settings, configuration -> {
      AsyncConnection connection = ConnectionFactory.createAsyncConnection(configuration).get();
      connection.getRegionLocator(settings.table()).getAllRegionLocations().get();
      return connection;
    });
  }

  private static <C> C within(HBaseSettings settings, Connector<C> connector) throws SetupException {
    Configuration configuration = settings.configuration();
    CompletableFuture<C> connection = new CompletableFuture<>();
    // a thread of its own: the ZooKeeper client's retries take no notice of a deadline
    Thread thread = new Thread(() -> {
      try {
        logIn(settings.login(), configuration);
        connection.complete(connector.connect(configuration));
      } catch (Exception | LinkageError e) {
        connection.completeExceptionally(e);
      }
    }, "hbase-connect");
    thread.setDaemon(true);
    thread.start();
    String where = "cannot reach HBase through ZooKeeper " + HBaseSettings.quorum(configuration);
    String advice = "; check that it runs and hbase.zookeeper.quorum";
    try {
      return connection.get(settings.connectTimeoutMs(), TimeUnit.MILLISECONDS);
    } catch (TimeoutException e) {
      throw new SetupException(where + " within " + settings.connectTimeoutMs() + " ms" + advice, e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof SetupException setup) {
        throw setup;
      }
      throw new SetupException(where + ": " + Failures.describe(e.getCause()) + advice, e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new SetupException(where + ": interrupted", e);
    }
  }

  private static void logIn(HBaseSettings.Login login, Configuration configuration) throws SetupException {
    if (login == null) {
      return;
    }
    try {
      UserGroupInformation.setConfiguration(configuration);
      UserGroupInformation.loginUserFromKeytab(login.principal(), login.keytab());
    } catch (IOException | RuntimeException | LinkageError e) {
      throw new SetupException("cannot log in as " + login.principal() + " with keytab " + login.keytab() + ": " + Failures.describe(e)
          + "; check both and krb5.conf", e);
    }
  }
}
