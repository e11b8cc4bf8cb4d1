// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.time.Instant;

/**
 * Ties the monotonic clock, by which everything is measured, to calendar time.
 *
 * @param anchorUnixNs calendar time of the anchor, nanoseconds since 1970
 * @param anchorMonoNs {@link System#nanoTime()} at the same instant
 */
public record Clock(long anchorUnixNs, long anchorMonoNs) {
  private static final int ATTEMPTS = 16;

  /** Reads both clocks; of several attempts, the one whose two monotonic readings lie closest together counts. */
  public static Clock read() {
    Clock best = null;
    long bestGap = Long.MAX_VALUE;
    for (int i = 0; i < ATTEMPTS; i++) {
      long before = System.nanoTime();
      long unix = unixNow();
      long after = System.nanoTime();
      if (after - before < bestGap) {
        bestGap = after - before;
        best = new Clock(unix, before + (after - before) / 2);
      }
    }
    return best;
  }

  /** Calendar time now, nanoseconds since 1970. */
  public static long unixNow() {
    Instant now = Instant.now();
    return now.getEpochSecond() * 1_000_000_000L + now.getNano();
  }

  /** The calendar time of a monotonic instant. */
  public long toUnix(long monoNs) {
    return monoNs - anchorMonoNs + anchorUnixNs;
  }

  /** The monotonic instant of a calendar time. */
  public long toMono(long unixNs) {
    return unixNs - anchorUnixNs + anchorMonoNs;
  }
}
