// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import com.arangodb.ArangoDB;
import com.arangodb.ArangoDBException;
import com.arangodb.config.HostDescription;
import com.arangodb.http.HttpProtocolConfig;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.stratabench.ycsb.SetupException;
import org.stratabench.ycsb.UsageException;

/** The one driver of a process, and the few threads that serve all its connections. */
final class Connection implements AutoCloseable {
  private static final long CLOSE_WITHIN_S = 2;

  private final Vertx vertx;
  private final ArangoDB driver;

  private Connection(ArangoSettings settings) {
    // the driver would start a thread for every connection; its logical clients may need a thousand of those
    vertx = Vertx.vertx(new VertxOptions().setEventLoopPoolSize(settings.eventLoops()));
    try {
      driver = build(settings);
    } catch (RuntimeException e) {
      vertx.close();
      throw e;
    }
  }

  private ArangoDB build(ArangoSettings settings) {
    ArangoDB.Builder builder = new ArangoDB.Builder()
        .protocol(settings.protocol())
        .protocolConfig(HttpProtocolConfig.builder().vertx(vertx).build())
        .user(settings.user())
        .password(settings.password())
        .jwt(settings.jwt())
        .timeout(settings.timeoutMs())
        .maxConnections(settings.maxConnections())
        .loadBalancingStrategy(settings.loadBalancing())
        .acquireHostList(settings.acquireHostList());
    for (HostDescription host : settings.hosts()) {
      builder.host(host.getHost(), host.getPort());
    }
    if (settings.useSsl()) {
      builder.useSsl(true).sslContext(Tls.context(settings.caFile())).verifyHost(settings.verifyHost());
    }
    return builder.build();
  }

  /**
   * Connects and asks for the database, so that hosts, certificates and credentials are known to be right.
   *
   * @throws SetupException when that fails or takes longer than {@code arangodb.connect.timeout.ms}
   */
  static Connection open(ArangoSettings settings) throws SetupException {
    CompletableFuture<Connection> opened = new CompletableFuture<>();
    // a thread of its own: the driver asks for the list of hosts while it is built, in its own time
    Thread connector = new Thread(() -> connect(settings, opened), "arangodb-connect");
    connector.setDaemon(true);
    connector.start();
    String where = "cannot reach ArangoDB at " + settings.where();
    try {
      return opened.get(settings.connectTimeoutMs(), TimeUnit.MILLISECONDS);
    } catch (TimeoutException e) {
      abandon(opened);
      throw new SetupException(where + " within " + settings.connectTimeoutMs() + " ms; check that it runs and arangodb.hosts", e);
    } catch (ExecutionException e) {
      throw refusal(settings, where, e.getCause());
    } catch (InterruptedException e) {
      abandon(opened);
      Thread.currentThread().interrupt();
      throw new SetupException(where + ": interrupted", e);
    }
  }

  private static void connect(ArangoSettings settings, CompletableFuture<Connection> opened) {
    Connection connection = null;
    try {
      connection = new Connection(settings);
      connection.driver.db(settings.database()).exists();
      if (!opened.complete(connection)) {
        connection.close();
      }
    } catch (RuntimeException e) {
      if (connection != null) {
        connection.close();
      }
      opened.completeExceptionally(e);
    }
  }

  /** Whoever still connects closes what it gets. */
  private static void abandon(CompletableFuture<Connection> opened) {
    if (!opened.cancel(false) && !opened.isCompletedExceptionally()) {
      opened.join().close();
    }
  }

  private static SetupException refusal(ArangoSettings settings, String where, Throwable failure) throws SetupException {
    if (failure instanceof UsageException e) {
      throw e;
    }
    String described = Failures.describe(failure);
    if (Failures.isDenied(failure)) {
      String who = settings.jwt() == null ? "user " + settings.user() : "the token of arangodb.jwt";
      return new SetupException("ArangoDB at " + settings.where() + " refuses " + who + " (" + described
          + "); check arangodb.user with arangodb.password or arangodb.jwt, and the user's access to database " + settings.database(), failure);
    }
    if (Failures.isUntrusted(failure)) {
      return new SetupException(where + ": " + described + "; check arangodb.caFile and that the certificate names the host", failure);
    }
    return new SetupException(where + ": " + described + "; check that it runs, arangodb.hosts, arangodb.useSsl and arangodb.protocol", failure);
  }

  ArangoDB driver() {
    return driver;
  }

  @Override
  public void close() {
    try {
      driver.shutdown();
    } catch (ArangoDBException e) {
      // nothing is under way any more, and closing the threads below ends the connections
    }
    try {
      vertx.close().toCompletionStage().toCompletableFuture().get(CLOSE_WITHIN_S, TimeUnit.SECONDS);
    } catch (ExecutionException | TimeoutException e) {
      // its threads are not worth waiting for: the process ends
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
