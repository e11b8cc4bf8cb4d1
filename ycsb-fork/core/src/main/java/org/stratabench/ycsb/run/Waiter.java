// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Waits for instants, one thread's. The operating system wakes a thread late by a time that varies little: the waiter learns it, asks to be
 * woken that much earlier and spins the rest, so that operations begin when they are due and the error is not charged to the database.
 */
final class Waiter {
  private static final long LONGEST_PARK_NS = 50_000_000L;
  private static final long SHORTEST_PARK_NS = 2_000;
  private static final long MOST_SPIN_NS = 100_000;
  private static final long STEP_NS = 200;
  /** How many times as fast the estimate rises as it falls: it settles where three in four wake-ups are within it. */
  private static final long RISE = 3;

  private final BooleanSupplier interrupted;
  private long latenessNs = 20_000;

  /** @param interrupted what ends a wait early */
  Waiter(BooleanSupplier interrupted) {
    this.interrupted = interrupted;
  }

  /** Waits for an instant of the monotonic clock. */
  void await(long dueMonoNs) {
    long now = System.nanoTime();
    while (now < dueMonoNs && !interrupted.getAsBoolean()) {
      long park = dueMonoNs - now - latenessNs;
      if (park > SHORTEST_PARK_NS) {
        now = park(now, Math.min(park, LONGEST_PARK_NS));
      } else {
        Thread.onSpinWait();
        now = System.nanoTime();
      }
    }
  }

  private long park(long now, long lengthNs) {
    LockSupport.parkNanos(this, lengthNs);
    long woken = System.nanoTime();
    long late = woken - now - lengthNs;
    // woken early means woken for another reason
    if (late > 0) {
      long step = late > latenessNs ? RISE * STEP_NS : -STEP_NS;
      latenessNs = Math.max(0, Math.min(MOST_SPIN_NS, latenessNs + step));
    }
    return woken;
  }
}
