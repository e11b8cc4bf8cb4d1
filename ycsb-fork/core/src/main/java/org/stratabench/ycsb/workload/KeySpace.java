// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

/**
 * The key numbers that requests may ask for.
 *
 * @param start first key number of the load phase
 * @param count how many keys all shards loaded
 * @param inserts what this shard has inserted since
 */
public record KeySpace(long start, long count, AcknowledgedInserts inserts) {
  /** Loaded keys and this shard's answered inserts. */
  long grown() {
    return count + inserts.frontier();
  }

  /** Whether the i-th key in order of age (loaded keys first, then own inserts) can be asked for. */
  boolean present(long i) {
    return i < count || inserts.acknowledged(i - count);
  }

  /** The i-th key in order of age, of those grown by now, or the youngest older one that can be asked for. */
  long presentUpTo(long i) {
    if (i < count) {
      return i;
    }
    // all those between the youngest and the frontier have failed: they may be millions
    return count + Math.max(-1, inserts.acknowledgedUpTo(Math.min(i - count, inserts.youngest()), 0));
  }

  /** Key number of the i-th key in order of age. */
  long keyNumber(long i) {
    return i < count ? start + i : inserts.keyNumber(i - count);
  }
}
