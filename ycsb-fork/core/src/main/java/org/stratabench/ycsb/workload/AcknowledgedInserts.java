// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.Arrays;
import java.util.BitSet;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The run phase's own inserts of one shard: hands out their numbers and knows which have been acknowledged.
 *
 * <p>Insert k of shard i of n writes key number {@code base + i + n * k}, so shards never collide. Only inserts whose predecessors have
 * all been answered are offered to readers, and never those that failed.
 */
public final class AcknowledgedInserts {
  private static final int TRIM_AT = 1 << 16;
  private static final int PAGE_BITS = 12;
  private static final int WORDS_PER_PAGE = 1 << PAGE_BITS - 6;

  private final long base;
  private final Shard shard;
  private final boolean tracked;
  private final AtomicLong taken = new AtomicLong();
  // a bit for each that failed, in pages that come with the first one; written under this, read below the frontier, which is published afterwards
  private volatile long[][] failed = new long[0][];

  // numbers from trimmedTo upwards that have been answered; guarded by this
  private BitSet answered = new BitSet();
  private long trimmedTo;

  private volatile long youngest = -1;
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
    synchronized (this) {
      for (long i = k; !acknowledged && i < k + count; i++) {
        fail(i);
      }
      answered.set((int) (k - trimmedTo), (int) (k - trimmedTo) + count);
      int next = answered.nextClearBit((int) (frontier - trimmedTo));
      long last = acknowledgedUpTo(trimmedTo + next - 1, frontier);
      if (last >= frontier) {
        youngest = last;
      }
      frontier = trimmedTo + next;
      if (next >= TRIM_AT) {
        answered = answered.get(next, Math.max(next, answered.length()));
        trimmedTo = frontier;
      }
    }
  }

  private void fail(long k) {
    long[][] pages = failed;
    int page = (int) (k >>> PAGE_BITS);
    if (page >= pages.length) {
      pages = Arrays.copyOf(pages, page + page / 2 + 1);
      failed = pages;
    }
    if (pages[page] == null) {
      pages[page] = new long[WORDS_PER_PAGE];
    }
    pages[page][(int) (k >>> 6) & WORDS_PER_PAGE - 1] |= 1L << k;
  }

  /** Every insert with a number below this has been answered. */
  public long frontier() {
    return frontier;
  }

  /** Whether insert k, which lies below the frontier, was acknowledged. */
  public boolean acknowledged(long k) {
    return (failures(k) >>> k & 1) == 0;
  }

  /** The youngest insert below the frontier that was acknowledged, or -1; asked for after the frontier, it may lie beyond that by now. */
  public long youngest() {
    return youngest;
  }

  /** The youngest insert up to k, which lies below the frontier, that was acknowledged; below {@code least} when there is none from there on. */
  public long acknowledgedUpTo(long k, long least) {
    long at = k;
    while (at >= least) {
      // those up to this one in its word, this one in the highest bit
      long acknowledged = ~failures(at) << 63 - (at & 63);
      if (acknowledged != 0) {
        return at - Long.numberOfLeadingZeros(acknowledged);
      }
      at = (at | 63) - 64;
    }
    return at;
  }

  /** The word that insert k's bit stands in. */
  private long failures(long k) {
    long[][] pages = failed;
    int page = (int) (k >>> PAGE_BITS);
    return page >= pages.length || pages[page] == null ? 0 : pages[page][(int) (k >>> 6) & WORDS_PER_PAGE - 1];
  }
}
