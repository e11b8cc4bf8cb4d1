// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.bench.redis;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import org.stratabench.ycsb.db.AsyncSession;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.Request;

/** A thread that takes the answers of many connections. Requests are written by whoever submits them. */
final class EventLoop implements Runnable {
  private final Selector selector;

  private EventLoop(Selector selector) {
    this.selector = selector;
  }

  /** Starts a loop; it ends with the process or when its selector is closed. */
  static EventLoop start() throws IOException {
    EventLoop loop = new EventLoop(Selector.open());
    Thread thread = new Thread(loop, "redis-answers");
    thread.setDaemon(true);
    thread.start();
    return loop;
  }

  /** Takes over a connection. */
  AsyncSession attach(Connection connection) throws IOException {
    Attached session = new Attached(connection);
    connection.channel().configureBlocking(false);
    connection.channel().register(selector, SelectionKey.OP_READ, session);
    selector.wakeup();
    return session;
  }

  @Override
  public void run() {
    try {
      while (selector.isOpen()) {
        selector.select(key -> ((Attached) key.attachment()).ready());
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static final class Attached implements AsyncSession {
    private final Connection connection;
    private volatile Completion completion;

    Attached(Connection connection) {
      this.connection = connection;
    }

    @Override
    public void submit(Request request, Completion whenAnswered) throws IOException {
      completion = whenAnswered;
      connection.send(request);
    }

    void ready() {
      Answer answer;
      try {
        answer = connection.receive();
      } catch (IOException | IllegalStateException e) {
        answer = Answer.failed(e);
        close();
      }
      Completion waiting = completion;
      if (answer != null && waiting != null) {
        completion = null;
        waiting.complete(answer);
      }
    }

    @Override
    public void close() {
      try {
        connection.close();
      } catch (IOException e) {
        // nothing more is expected of it
      }
    }
  }
}
