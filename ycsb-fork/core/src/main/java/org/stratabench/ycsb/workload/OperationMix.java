// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.Arrays;
import java.util.SplittableRandom;

/** Says which operation one logical client does next. */
public interface OperationMix {
  /** The next operation's type. */
  OperationType next();

  /**
   * Draws every type independently with its proportion, so counts vary from run to run.
   *
   * @param proportions by ordinal of the type, not all zero; they need not add up to 1
   */
  static OperationMix random(double[] proportions, SplittableRandom random) {
    OperationType[] types = OperationType.values();
    AliasTable table = new AliasTable(proportions);
    return () -> types[table.pick(random.nextLong())];
  }

  /**
   * Draws from an urn that holds every type as often as it is to occur: counts are exact, every order is equally likely.
   *
   * @param counts by ordinal of the type; no more than their sum may be drawn
   */
  static OperationMix exact(long[] counts, SplittableRandom random) {
    OperationType[] types = OperationType.values();
    long[] left = counts.clone();
    return new OperationMix() {
      private long total = Arrays.stream(left).sum();

      @Override
      public OperationType next() {
        long at = Mixing.below(total, random);
        int i = 0;
        while (at >= left[i]) {
          at -= left[i];
          i++;
        }
        left[i]--;
        total--;
        return types[i];
      }
    };
  }

  /**
   * One client's part of exact counts: of the row in which all operations stand one type after the other, it takes every n-th.
   *
   * @param counts by ordinal of the type, of all clients
   * @param client 0-based, of {@code clients}
   */
  static long[] part(long[] counts, int client, int clients) {
    long[] part = new long[counts.length];
    long before = 0;
    for (int i = 0; i < counts.length; i++) {
      part[i] = numbersBelow(before + counts[i], client, clients) - numbersBelow(before, client, clients);
      before += counts[i];
    }
    return part;
  }

  /** How many numbers below {@code end} are {@code client} modulo {@code clients}. */
  private static long numbersBelow(long end, int client, int clients) {
    return end <= client ? 0 : (end - client - 1) / clients + 1;
  }
}
