// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.BitSet;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The run phase's own inserts of one shard: hands out their numbers and knows which have been acknowledged.
 *
 * <p>Insert k of shard i of n writes key number {@code base + i + n * k}, so shards never collide. Only inserts whose predecessors have
 * all been answered are offered to readers, and never those that failed.
 */
public final class AcknowledgedInserts {
  private static final int TRIM_AT = 1 << 16;

  private final long base;
  private final Shard shard;
  private final boolean tracked;
  private final AtomicLong taken = new AtomicLong();
  private final Set<Long> failed = ConcurrentHashMap.newKeySet();

  // numbers from trimmedTo upwards that have been answered; guarded by this
  private BitSet answered = new BitSet();
  private long trimmedTo;

  private volatile long frontier;

  /**
   * @param base the first key number that the load phase did not write
   * @param tracked whether anybody will ask for the frontier; if not, answers cost nothing
   */
  public AcknowledgedInserts(long base, Shard shard, boolean tracked) {
    this.base = base;
    this.shard = shard;
    this.tracked = tracked;
  }

  /** Takes the numbers of the next {@code count} inserts and returns the first. */
  public long take(int count) {
    return taken.getAndAdd(count);
  }

  /** The key number of insert k. */
  public long keyNumber(long k) {
    return base + shard.index() + shard.count() * k;
  }

  /** Notes the answer to inserts k to k + count - 1. */
  public void answered(long k, int count, boolean acknowledged) {
    if (!tracked) {
      return;
    }
    if (!acknowledged) {
      for (long i = k; i < k + count; i++) {
        failed.add(i);
      }
    }
    synchronized (this) {
      answered.set((int) (k - trimmedTo), (int) (k - trimmedTo) + count);
      int next = answered.nextClearBit((int) (frontier - trimmedTo));
      frontier = trimmedTo + next;
      if (next >= TRIM_AT) {
        answered = answered.get(next, Math.max(next, answered.length()));
        trimmedTo = frontier;
      }
    }
  }

  /** Every insert with a number below this has been answered. */
  public long frontier() {
    return frontier;
  }

  /** Whether insert k, which lies below the frontier, was acknowledged. */
  public boolean acknowledged(long k) {
    return failed.isEmpty() || !failed.contains(k);
  }
}
