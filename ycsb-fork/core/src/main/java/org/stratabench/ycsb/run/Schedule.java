// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.util.SplittableRandom;
import java.util.stream.IntStream;
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
   * How many operations of all clients together are due in the measured window before an instant.
   *
   * @param startMonoNs the window's start
   * @param endMonoNs that instant, or {@link Long#MAX_VALUE} where the number of operations ends the run
   */
  static long dueBefore(RunPlan plan, long startMonoNs, long endMonoNs) {
    if (endMonoNs == Long.MAX_VALUE) {
      return plan.planned();
    }
    Window window = new Window(startMonoNs, endMonoNs, plan.planned(), true);
    // on all processors: a long run has billions of them, and who stops it waits some seconds only for its summary
    return IntStream.range(0, plan.clients()).parallel().mapToLong(client -> dueOf(plan, window, client)).sum();
  }

  private static long dueOf(RunPlan plan, Window window, int client) {
    Schedule schedule = of(plan, window, client);
    long due = 0;
    for (long index = client; index < plan.planned() && schedule.next() < window.untilMonoNs(); index += plan.clients()) {
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
