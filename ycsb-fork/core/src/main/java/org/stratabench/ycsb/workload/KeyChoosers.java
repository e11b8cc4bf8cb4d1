// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.SplittableRandom;

/**
 * The request distributions.
 *
 * <p>{@code uniform}, {@code zipfian}, {@code hotspot} and {@code sequential} choose among the loaded keys, which are the same for every
 * shard; {@code latest} and {@code exponential} prefer the youngest and so include the shard's own acknowledged inserts.
 */
final class KeyChoosers {
  /** One scattering for all shards, seeds and runs: the popular keys are the same keys everywhere. */
  private static final long SCATTER_SEED = 0x5354524154414B45L;

  private KeyChoosers() {
  }

  /**
   * The chooser of one thread.
   *
   * @param random the thread's own stream
   */
  static KeyChooser create(WorkloadSpec spec, KeySpace keys, Shard shard, int thread, int threads, SplittableRandom random) {
    return switch (spec.requestDistribution()) {
      case "uniform" -> () -> keys.keyNumber(random.nextLong(keys.count()));
      case "zipfian" -> zipfian(spec, keys, random);
      case "latest" -> latest(spec, keys, random);
      case "hotspot" -> hotspot(spec, keys, random);
      case "exponential" -> exponential(spec, keys, random);
      case "sequential" -> sequential(keys, shard, thread, threads);
      default -> throw new IllegalArgumentException(spec.requestDistribution());
    };
  }

  /** Zipf ranks, scattered over the key numbers by a bijection: each rank keeps its exact probability. */
  private static KeyChooser zipfian(WorkloadSpec spec, KeySpace keys, SplittableRandom random) {
    Zipf ranks = new Zipf(spec.zipfianConstant());
    Permutation scatter = new Permutation(keys.count(), SCATTER_SEED);
    return () -> keys.keyNumber(scatter.apply(ranks.next(keys.count(), random)));
  }

  /** Zipf ranks counted back from the youngest key. */
  private static KeyChooser latest(WorkloadSpec spec, KeySpace keys, SplittableRandom random) {
    Zipf ages = new Zipf(spec.zipfianConstant());
    return () -> {
      while (true) {
        long n = keys.grown();
        long i = n - 1 - ages.next(n, random);
        if (keys.present(i)) {
          return keys.keyNumber(i);
        }
      }
    };
  }

  /** A share of the operations goes to a hot set that is scattered over the key numbers, so it does not fall into one region. */
  private static KeyChooser hotspot(WorkloadSpec spec, KeySpace keys, SplittableRandom random) {
    Permutation scatter = new Permutation(keys.count(), SCATTER_SEED);
    long hot = Math.max(1, Math.min(keys.count(), (long) (keys.count() * spec.hotspotDataFraction())));
    long cold = keys.count() - hot;
    double hotShare = cold == 0 ? 1 : spec.hotspotOperationFraction();
    return () -> {
      long rank = random.nextDouble() < hotShare ? random.nextLong(hot) : hot + random.nextLong(cold);
      return keys.keyNumber(scatter.apply(rank));
    };
  }

  /** Exponentially distributed age: the given percentile of requests falls into the given youngest fraction of the keys. */
  private static KeyChooser exponential(WorkloadSpec spec, KeySpace keys, SplittableRandom random) {
    double rate = -Math.log(1 - spec.exponentialPercentile() / 100) / (spec.exponentialFraction() * keys.count());
    return () -> {
      while (true) {
        double age = -Math.log(1 - random.nextDouble()) / rate;
        long i = keys.grown() - 1 - (long) Math.min(age, Long.MAX_VALUE / 2);
        if (i >= 0 && keys.present(i)) {
          return keys.keyNumber(i);
        }
      }
    };
  }

  /** One after the other, each shard from the start of its own part, its threads taking turns. */
  private static KeyChooser sequential(KeySpace keys, Shard shard, int thread, int threads) {
    return new KeyChooser() {
      private long at = (shard.start(keys.count()) + thread) % keys.count();

      @Override
      public long next() {
        long chosen = at;
        at = (at + threads) % keys.count();
        return keys.keyNumber(chosen);
      }
    };
  }
}
