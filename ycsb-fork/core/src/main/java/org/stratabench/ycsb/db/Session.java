// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.db;

import java.io.IOException;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.Request;

/** One client thread's access to a database. */
public interface Session extends AutoCloseable {
  /**
   * Sends a request and waits for its answer.
   *
   * @throws Exception counts as a failure, its class as the cause
   */
  Answer execute(Request request) throws Exception;

  /**
   * Sends what the session still holds back and waits for it; called at the end of every window, whose time this is part of.
   *
   * @return whether there was anything
   * @throws Exception when requests that were answered as done turn out not to be; the run fails with its message
   */
  default boolean flush() throws Exception {
    return false;
  }

  @Override
  default void close() throws IOException {
  }
}
