// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.util.concurrent.locks.LockSupport;

/**
 * The schedule of a window: operation i of all threads together is due i / rate after its start. Threads take every n-th operation, which
 * staggers them evenly. In a closed loop every operation is due at the window's start.
 */
final class Pacer {
  private static final long LONGEST_PARK_NS = 50_000_000L;

  private final RunControl control;
  private final long startMonoNs;
  private final double intervalNs;

  /** @param ratePerSecond operations a second of all threads, or 0 for a closed loop */
  Pacer(RunControl control, long startMonoNs, double ratePerSecond) {
    this.control = control;
    this.startMonoNs = startMonoNs;
    this.intervalNs = ratePerSecond > 0 ? 1e9 / ratePerSecond : 0;
  }

  /** Monotonic instant at which an operation is due. */
  long due(long index) {
    return startMonoNs + (long) (index * intervalNs);
  }

  /** Waits for an instant, unless the run is stopped; whether there was anything to wait for. */
  boolean await(long dueMonoNs) {
    long left = dueMonoNs - System.nanoTime();
    if (left <= 0) {
      return false;
    }
    while (left > 0 && !control.stopped()) {
      LockSupport.parkNanos(Math.min(left, LONGEST_PARK_NS));
      left = dueMonoNs - System.nanoTime();
    }
    return true;
  }
}
