// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.db;

import java.io.IOException;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.Request;

/** One logical client's access to a database through a driver that does not block. */
public interface AsyncSession extends AutoCloseable {
  /** Takes the answer of one request. */
  interface Completion {
    /** To be called exactly once, from any thread, as soon as the answer is there. */
    void complete(Answer answer);
  }

  /**
   * Sends a request and returns at once. The session is given no other request before this one is answered.
   *
   * @throws Exception counts as a failure, its class as the cause; the completion must not be called then
   */
  void submit(Request request, Completion completion) throws Exception;

  @Override
  default void close() throws IOException {
  }
}
