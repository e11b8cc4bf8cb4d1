// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.db;

import java.io.IOException;
import java.util.Map;
import java.util.Set;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.SetupException;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.WorkloadSpec;

/**
 * One database as one client process uses it: what all its clients share, such as the connection to a cluster.
 *
 * <p>{@link #open} is called once and before anything else but {@link #check}, the sessions are asked for by several threads at once, {@link #close} comes last.
 */
public interface Database extends AutoCloseable {
  /** The operations this binding can do; a workload with another one is refused before anything is connected. */
  Set<OperationType> operations();

  /**
   * Reads and checks the binding's properties and connects to nothing. {@link #open} does the same first; this alone is called for {@code -check}.
   *
   * @param settings all properties of the run
   * @param workload which table, fields and operations the run will use
   * @param load whether this is the load phase
   */
  default void check(Settings settings, WorkloadSpec workload, boolean load) {
  }

  /**
   * Connects and, in the load phase, creates what is missing.
   *
   * @param settings all properties of the run
   * @param workload which table, fields and operations the run will use
   * @param load whether this is the load phase; the run phase creates nothing
   * @throws SetupException when the database cannot be reached or lacks what the run needs
   */
  void open(Settings settings, WorkloadSpec workload, boolean load) throws SetupException;

  /** A session for one client thread. */
  Session session() throws SetupException;

  /** Whether {@link #asyncSession} is there. */
  default boolean asynchronous() {
    return false;
  }

  /** A session for one of many logical clients on few threads. */
  default AsyncSession asyncSession() throws SetupException {
    throw new UnsupportedOperationException();
  }

  /** What the binding counted beside operations, by name; empty before {@link #open}. */
  default Map<String, Long> counters() {
    return Map.of();
  }

  @Override
  void close() throws IOException;
}
