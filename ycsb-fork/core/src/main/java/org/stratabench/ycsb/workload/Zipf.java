// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.SplittableRandom;

/**
 * Exact Zipf-distributed ranks: rank r of [0, n) has a probability proportional to 1 / (r + 1)^constant. Threads may share one.
 *
 * <p>The ranks are cut into buckets of growing width, whose densest rank bounds the density of all. A bucket is drawn by that bound from an
 * alias table and a rank evenly in it, which is kept with the ratio of its density to the bound (rejection sampling, so the result is exact). The
 * table needs no sum over the items, and almost no draw needs a power.
 */
public final class Zipf {
  private static final int SINGLES = 128;
  private static final int BUCKETS_PER_WIDTH = 32;
  private static final int MOST_OVERSIZE = 8;
  private static final int POSITION_BITS = 53;
  private static final double POSITIONS = 1L << POSITION_BITS;

  private final double constant;
  // replaced as a whole; threads that race for a new one make equal ones
  private Buckets buckets;

  /** @param constant the exponent, above 0; 0.99 is YCSB's */
  public Zipf(double constant) {
    this.constant = constant;
  }

  /** A rank in [0, {@code n}), 0 the most frequent; {@code n} at least 1. */
  public long next(long n, SplittableRandom random) {
    Buckets now = buckets;
    if (now == null || n > now.items || n < now.items / MOST_OVERSIZE) {
      // room to grow, so that inserts cost a new table only now and then; ranks beyond n are drawn again
      now = new Buckets(constant, now == null || n < now.items ? n : n + n / 16);
      buckets = now;
    }
    return now.next(n, random);
  }

  /**
   * A rank in [{@code first}, {@code n}), {@code first} at least 1, with the probabilities of {@link #next(long, SplittableRandom)} given that it lies
   * there, without a table.
   *
   * <p>Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions", 1996), with
   * ranks counted from 1 in units of the first, so that no sum loses the small densities of high ranks.
   */
  public long next(long first, long n, SplittableRandom random) {
    double unit = first + 1.0;
    double least = integral(1 + 0.5 / unit) - 1 / unit;
    double most = integral((n + 0.5) / unit);
    while (true) {
      double at = least + random.nextDouble() * (most - least);
      long place = Math.max(first + 1, Math.min(n, Math.round(unit * inverse(at))));
      if (at >= integral((place + 0.5) / unit) - Math.pow(place / unit, -constant) / unit) {
        return place - 1;
      }
    }
  }

  /** The integral of x^-constant from 1 to x. */
  private double integral(double x) {
    double logarithm = Math.log(x);
    double power = (1 - constant) * logarithm;
    return power == 0 ? logarithm : Math.expm1(power) / power * logarithm;
  }

  /** The x whose {@link #integral} that is. */
  private double inverse(double integral) {
    double power = (1 - constant) * integral;
    return Math.exp(power == 0 ? integral : Math.log1p(Math.max(-1, power)) / power * integral);
  }

  private static double density(long rank, double constant) {
    return Math.pow(rank + 1, -constant);
  }

  private static final class Buckets {
    private final double constant;
    private final long items;
    private final AliasTable table;
    private final long[] first;
    private final long[] width;
    private final long[] safe;

    Buckets(double constant, long items) {
      this.constant = constant;
      this.items = items;
      int count = 0;
      for (long at = 0; at < items; at += widthAt(at)) {
        count++;
      }
      first = new long[count];
      width = new long[count];
      safe = new long[count];
      double[] bounds = new double[count];
      long at = 0;
      for (int i = 0; i < count; i++) {
        first[i] = at;
        width[i] = Math.min(widthAt(at), items - at);
        double densest = density(at, constant);
        bounds[i] = densest * width[i];
        safe[i] = (long) (density(at + width[i] - 1, constant) / densest * POSITIONS);
        at += width[i];
      }
      table = new AliasTable(bounds);
    }

    private static long widthAt(long rank) {
      return rank < SINGLES ? 1 : rank / BUCKETS_PER_WIDTH;
    }

    long next(long n, SplittableRandom random) {
      while (true) {
        int bucket = table.pick(random.nextLong());
        long wide = width[bucket];
        long bits = random.nextLong();
        long rank = first[bucket] + Mixing.highHalf(bits, wide);
        // the low half of the product is as good as a fresh draw: a bucket is far narrower than 2^64
        long at = (bits * wide) >>> 64 - POSITION_BITS;
        if (at >= safe[bucket] && at >= density(rank, constant) / density(first[bucket], constant) * POSITIONS) {
          continue;
        }
        if (rank < n) {
          return rank;
        }
      }
    }
  }
}
