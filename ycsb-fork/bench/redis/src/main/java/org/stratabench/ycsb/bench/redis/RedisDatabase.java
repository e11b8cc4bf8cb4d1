// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.bench.redis;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.EnumSet;
import java.util.Set;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.SetupException;
import org.stratabench.ycsb.db.AsyncSession;
import org.stratabench.ycsb.db.Database;
import org.stratabench.ycsb.db.Session;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Request;
import org.stratabench.ycsb.workload.WorkloadSpec;

/**
 * Redis for the benchmark of the load client, and for nothing else: reads and updates of records that are there. Every logical client has a
 * connection of its own. Properties: {@code redis.host}, {@code redis.port}.
 */
public final class RedisDatabase implements Database {
  private InetSocketAddress server;
  private EventLoop loop;

  @Override
  public Set<OperationType> operations() {
    return EnumSet.of(OperationType.READ, OperationType.UPDATE, OperationType.READ_MODIFY_WRITE);
  }

  @Override
  public void open(Settings settings, WorkloadSpec workload, boolean load) throws SetupException {
    server = new InetSocketAddress(settings.text("redis.host", "127.0.0.1"), (int) settings.wholeNumber("redis.port", 6379, 1, 65_535));
    try {
      loop = EventLoop.start();
    } catch (IOException e) {
      throw new SetupException("cannot start the event loop: " + e, e);
    }
  }

  private Connection connect() throws SetupException {
    try {
      return new Connection(server);
    } catch (IOException e) {
      throw new SetupException("cannot connect to Redis at " + server + ": " + e.getMessage(), e);
    }
  }

  @Override
  public Session session() throws SetupException {
    return new Blocking(connect());
  }

  @Override
  public boolean asynchronous() {
    return true;
  }

  @Override
  public AsyncSession asyncSession() throws SetupException {
    try {
      return loop.attach(connect());
    } catch (IOException e) {
      throw new SetupException("cannot use the connection to Redis: " + e, e);
    }
  }

  @Override
  public void close() {
  }

  private record Blocking(Connection connection) implements Session {
    @Override
    public Answer execute(Request request) throws IOException {
      connection.send(request);
      Answer answer;
      do {
        answer = connection.receive();
      } while (answer == null);
      return answer;
    }

    @Override
    public void close() throws IOException {
      connection.close();
    }
  }
}
