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
   * Sends what the session still holds back and waits until it has arrived; called after the last operation of a window, whose time it counts
   * to. A session that buffers nothing has nothing to do.
   *
   * @throws IOException when something was lost
   */
  default void flush() throws IOException {
  }

  /**
   * Lets go of what the session holds. A run that ends in order waits for it, outside the window that is measured.
   *
   * @throws IOException when something may be lost by that, which fails the run
   */
  @Override
  default void close() throws IOException {
  }
}
