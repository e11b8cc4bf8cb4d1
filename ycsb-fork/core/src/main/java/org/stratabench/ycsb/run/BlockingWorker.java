// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.IOException;
import org.stratabench.ycsb.ExitCode;
import org.stratabench.ycsb.db.Session;
import org.stratabench.ycsb.measure.OperationLog;
import org.stratabench.ycsb.measure.ThreadRecorder;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.Request;

/** A thread that is one client: it sends a request and waits for the answer. */
final class BlockingWorker extends Worker {
  private ThreadRecorder recorder;
  private LogicalClient client;
  private Session session;

  BlockingWorker(Shared shared, int thread) {
    super(shared, thread);
  }

  @Override
  void connect(ThreadRecorder own, OperationLog.Writer writer) throws Exception {
    recorder = own;
    client = new LogicalClient(shared().clients(), thread(), recorder, writer);
    session = shared().database().session();
  }

  @Override
  void perform(Window window) throws IOException {
    operate(window);
    flush(window);
  }

  private void operate(Window window) throws IOException {
    boolean openLoop = shared().plan().openLoop();
    Waiter waiter = new Waiter(shared().control()::stopped);
    client.enter(window);
    while (client.next()) {
      boolean waited = openLoop && waiter.await(client.dueNs());
      if (!client.begin(System.nanoTime(), waited)) {
        return;
      }
      Answer answer;
      do {
        answer = send(client.request());
      } while (client.answered(answer, System.nanoTime()));
    }
  }

  /** What a session holds back belongs to the window in which it was answered. */
  private void flush(Window window) {
    try {
      if (session.flush() && window.measured()) {
        recorder.flushed(System.nanoTime());
      }
    } catch (Exception e) {
      shared().control().stop(ExitCode.ERRORS, e.getMessage() == null ? e.toString() : e.getMessage());
    }
  }

  private Answer send(Request request) {
    try {
      return session.execute(request);
    } catch (Exception e) {
      return Answer.failed(e);
    }
  }

  @Override
  void disconnect() throws Exception {
    session.close();
  }
}
