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

  @Override
  default void close() throws IOException {
  }
}
