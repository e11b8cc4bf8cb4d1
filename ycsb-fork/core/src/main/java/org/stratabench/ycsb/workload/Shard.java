// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import org.stratabench.ycsb.UsageException;

/**
 * One of several clients that together do one workload.
 *
 * @param index this client, 0-based
 * @param count how many clients there are
 */
public record Shard(int index, int count) {
  /** The whole workload in one client. */
  public static final Shard WHOLE = new Shard(0, 1);

  /** Refuses an index outside [0, count). */
  public Shard {
    if (count < 1 || index < 0 || index >= count) {
      throw new UsageException("-shard " + index + "/" + count + " must be I/N with 0 <= I < N");
    }
  }

  /** Reads {@code I/N}. */
  public static Shard parse(String text) {
    String[] parts = text.split("/", -1);
    try {
      if (parts.length == 2) {
        return new Shard(Integer.parseInt(parts[0].trim()), Integer.parseInt(parts[1].trim()));
      }
    } catch (NumberFormatException e) {
      // falls through to the refusal below, which shows the text as given
    }
    throw new UsageException("-shard " + text + " must be I/N, such as 0/2");
  }

  /** First of this shard's part of {@code total} things, 0-based. */
  public long start(long total) {
    return boundary(index, total);
  }

  /** End (exclusive) of this shard's part of {@code total} things. */
  public long end(long total) {
    return boundary(index + 1L, total);
  }

  /** How many of {@code total} things are this shard's. */
  public long share(long total) {
    return end(total) - start(total);
  }

  private long boundary(long i, long total) {
    // i * total may pass 63 bits; the quotient never does
    return (total / count) * i + (total % count) * i / count;
  }
}
