// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.IOException;
import java.util.stream.Stream;
import org.stratabench.ycsb.ExitCode;
import org.stratabench.ycsb.db.Session;
import org.stratabench.ycsb.measure.OperationLog;
import org.stratabench.ycsb.measure.ThreadRecorder;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.Request;

/** A thread that is one client: it sends a request and waits for the answer. */
final class BlockingWorker extends Worker {
  private LogicalClient client;
  private Session session;

  BlockingWorker(Shared shared, int thread) {
    super(shared, thread);
  }

  @Override
  void connect(ThreadRecorder recorder, OperationLog.Writer writer) throws Exception {
    client = new LogicalClient(shared().clients(), thread(), recorder, writer);
    session = shared().database().session();
  }

  @Override
  void perform(Window window) throws IOException {
    Waiter waiter = shared().plan().openLoop() ? new Waiter(shared().control()::stopped) : null;
    client.enter(window);
    while (step(client, session, waiter)) {
      // each step is one operation
    }
    try {
      session.flush();
      if (!shared().control().isInterrupting()) {
        // otherwise what it came back from was cut off, and the window had ended before
        client.flushed(System.nanoTime());
      }
    } catch (IOException e) {
      shared().control().stop(ExitCode.ERRORS, "buffered writes of " + Thread.currentThread().getName() + " were lost: " + e.getMessage());
    }
  }

  /**
   * Does a client's next operation.
   *
   * @param waiter for its due time; null in a closed loop
   * @return false when there is none
   */
  static boolean step(LogicalClient client, Session session, Waiter waiter) throws IOException {
    if (!client.next()) {
      return false;
    }
    if (waiter != null) {
      waiter.await(client.dueNs());
    }
    if (!client.begin(System.nanoTime())) {
      return false;
    }
    Answer answer;
    do {
      answer = send(session, client.request());
    } while (client.answered(answer, System.nanoTime()));
    return true;
  }

  private static Answer send(Session session, Request request) {
    try {
      return session.execute(request);
    } catch (Exception e) {
      return Answer.failed(e);
    }
  }

  @Override
  Stream<LogicalClient> clients() {
    return Stream.of(client);
  }

  @Override
  void disconnect() throws Exception {
    session.close();
  }
}
