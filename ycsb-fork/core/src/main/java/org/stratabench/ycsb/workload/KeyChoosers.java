// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.SplittableRandom;
import org.stratabench.ycsb.Settings;

/**
 * Makes the request distribution's choosers, one for each logical client; what they share (tables) is made once.
 *
 * <p>{@code uniform}, {@code zipfian}, {@code hotspot}, {@code sequential} and {@code histogram} choose among the loaded keys, which are the same
 * for every shard; {@code latest} and {@code exponential} prefer the youngest and so include the shard's own acknowledged inserts.
 */
final class KeyChoosers {
  private final RequestDistribution wanted;
  private final KeySpace keys;
  private final Shard shard;
  private final Scatter scatter;
  private final Zipf ranks;
  private final Histogram histogram;

  KeyChoosers(RequestDistribution wanted, KeySpace keys, Shard shard) {
    this.wanted = wanted;
    this.keys = keys;
    this.shard = shard;
    this.ranks = new Zipf(wanted.zipfianConstant());
    this.scatter = wanted.scattered() ? scatter(keys.count()) : null;
    this.histogram = wanted.histogram() == null ? null : wanted.histogram().over(keys.count());
  }

  private static Scatter scatter(long count) {
    if (count > Scatter.MOST) {
      throw Settings.refuse("recordcount", Long.toString(count), "must be at most 2^50 for a scattered request distribution");
    }
    return new Scatter(count);
  }

  /**
   * The chooser of one client.
   *
   * @param client 0-based, of {@code clients}
   * @param random the client's own stream
   */
  KeyChooser create(int client, int clients, SplittableRandom random) {
    return switch (wanted.name()) {
      case "uniform" -> () -> keys.keyNumber(Mixing.below(keys.count(), random));
      case "zipfian" -> () -> keys.keyNumber(scattered(ranks.next(keys.count(), random)));
      case "latest" -> latest(random);
      case "hotspot" -> hotspot(random);
      case "exponential" -> exponential(random);
      case "sequential" -> sequential(client, clients);
      case "histogram" -> () -> keys.keyNumber(histogram.nextNumber(keys.count(), random));
      default -> throw new IllegalArgumentException(wanted.name());
    };
  }

  /** The place of a rank: itself, or, by a bijection that keeps every probability, one far from its neighbours'. */
  private long scattered(long rank) {
    return scatter == null ? rank : scatter.apply(rank);
  }

  /** Zipf ranks counted back from the youngest key. */
  private KeyChooser latest(SplittableRandom random) {
    return () -> {
      while (true) {
        long n = keys.grown();
        long youngest = keys.presentUpTo(n - 1);
        // where the youngest inserts have failed, all draws but a few could be theirs
        long i = n - 1 - (youngest == n - 1 ? ranks.next(n, random) : ranks.next(n - 1 - youngest, n, random));
        if (keys.present(i)) {
          return keys.keyNumber(i);
        }
      }
    };
  }

  /** A share of the operations goes to a hot set; scattered over the key numbers, it does not fall into one region. */
  private KeyChooser hotspot(SplittableRandom random) {
    long hot = Math.max(1, Math.min(keys.count(), (long) (keys.count() * wanted.hotDataFraction())));
    long cold = keys.count() - hot;
    double hotShare = cold == 0 ? 1 : wanted.hotOperationFraction();
    return () -> {
      long rank = random.nextDouble() < hotShare ? Mixing.below(hot, random) : hot + Mixing.below(cold, random);
      return keys.keyNumber(scattered(rank));
    };
  }

  /** Exponentially distributed age: the given percentile of requests falls into the given youngest fraction of the keys. */
  private KeyChooser exponential(SplittableRandom random) {
    double rate = -Math.log(1 - wanted.exponentialPercentile() / 100) / (wanted.exponentialFraction() * keys.count());
    return () -> {
      while (true) {
        double age = -Math.log(1 - random.nextDouble()) / rate;
        long i = keys.grown() - 1 - (long) Math.min(age, Long.MAX_VALUE / 2);
        if (i >= 0) {
          // for one whose insert has failed, the next older: where all young ones have, drawing again could take for ever
          return keys.keyNumber(keys.presentUpTo(i));
        }
      }
    };
  }

  /** One after the other, each shard from the start of its own part, its clients taking turns. */
  private KeyChooser sequential(int client, int clients) {
    return new KeyChooser() {
      private long at = (shard.start(keys.count()) + client) % keys.count();

      @Override
      public long next() {
        long chosen = at;
        at = (at + clients) % keys.count();
        return keys.keyNumber(chosen);
      }
    };
  }
}
