// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.util.SplittableRandom;
import org.stratabench.ycsb.workload.Mixing;

/** When one logical client's operations are due within a window; asked for one operation after the other. */
interface Schedule {
  int PURPOSE = 3;

  /** Monotonic instant at which the next operation is due. */
  long next();

  /**
   * The schedule of a client.
   *
   * <p>In a closed loop every operation is due at once. In an open loop with constant arrivals, operation i of all clients together is due
   * i / rate after the start, and clients take turns, which staggers them evenly. With Poisson arrivals every client draws exponential gaps of its share of
   * the rate; independent Poisson processes add up to one of the whole rate.
   */
  static Schedule of(RunPlan plan, Window window, int client) {
    long start = window.startMonoNs();
    if (!plan.openLoop()) {
      return () -> start;
    }
    double intervalNs = 1e9 / plan.targetPerSecond();
    if (plan.poisson()) {
      // warm-up and measured window must not repeat the same gaps
      int purpose = PURPOSE + (window.measured() ? 1 : 0);
      return poisson(start, intervalNs * plan.clients(), Mixing.stream(plan.seed(), plan.shard().index(), client, purpose));
    }
    return constant(start, intervalNs, client, plan.clients());
  }

  /**
   * How many operations of all clients together are due before an instant in an open loop with constant arrivals.
   *
   * @param startMonoNs the window's start
   */
  static long constantBefore(RunPlan plan, long startMonoNs, long endMonoNs) {
    double intervalNs = 1e9 / plan.targetPerSecond();
    long lengthNs = Math.max(0, endMonoNs - startMonoNs);
    long due = Math.min(plan.planned(), (long) (lengthNs / intervalNs));
    // the quotient may be beside the number by what it and the products of the schedule are rounded
    while (due > 0 && (long) ((due - 1) * intervalNs) >= lengthNs) {
      due--;
    }
    while (due < plan.planned() && (long) (due * intervalNs) < lengthNs) {
      due++;
    }
    return due;
  }

  private static Schedule constant(long start, double intervalNs, int client, int clients) {
    return new Schedule() {
      private long index = client;

      @Override
      public long next() {
        long due = start + (long) (index * intervalNs);
        index += clients;
        return due;
      }
    };
  }

  private static Schedule poisson(long start, double meanGapNs, SplittableRandom random) {
    return new Schedule() {
      // since the start; whole and fraction apart, so that no length of run wears the fraction out
      private long wholeNs;
      private double fractionNs;

      @Override
      public long next() {
        fractionNs -= Math.log(1 - random.nextDouble()) * meanGapNs;
        long whole = (long) fractionNs;
        wholeNs += whole;
        fractionNs -= whole;
        return start + wholeNs;
      }
    };
  }
}
