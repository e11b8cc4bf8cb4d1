// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.SplittableRandom;

/**
 * Exact Zipf-distributed ranks: rank r of [0, n) has a probability proportional to 1 / (r + 1)^constant.
 *
 * <p>Rejection-inversion sampling (Hoermann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
 * distributions", 1996): no table, no sum over the items, any positive constant, and a new n costs one power.
 */
public final class Zipf {
  private final double constant;
  private final double oneMinus;
  private final boolean logarithmic;
  private final double areaFromFirst;
  private final double squeeze;

  private long items = -1;
  private double areaToLast;

  /** @param constant the exponent, above 0; 0.99 is YCSB's */
  public Zipf(double constant) {
    this.constant = constant;
    this.oneMinus = 1 - constant;
    this.logarithmic = Math.abs(oneMinus) < 1e-9;
    this.areaFromFirst = area(1.5) - 1;
    this.squeeze = 2 - inverseArea(area(2.5) - density(2));
  }

  /** A rank in [0, {@code n}), 0 the most frequent; {@code n} at least 1. */
  public long next(long n, SplittableRandom random) {
    if (n != items) {
      items = n;
      areaToLast = area(n + 0.5);
    }
    while (true) {
      double u = areaToLast + random.nextDouble() * (areaFromFirst - areaToLast);
      double x = inverseArea(u);
      long k = Math.min(n, Math.max(1, Math.round(x)));
      if (k - x <= squeeze || u >= area(k + 0.5) - density(k)) {
        return k - 1;
      }
    }
  }

  private double density(double x) {
    return Math.pow(x, -constant);
  }

  /** Integral of the density from 1 to x. */
  private double area(double x) {
    return logarithmic ? Math.log(x) : (Math.pow(x, oneMinus) - 1) / oneMinus;
  }

  private double inverseArea(double a) {
    return logarithmic ? Math.exp(a) : Math.pow(Math.max(0, 1 + a * oneMinus), 1 / oneMinus);
  }
}
