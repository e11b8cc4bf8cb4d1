// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.IOException;
import java.lang.management.CompilationMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.LongAdder;
import org.stratabench.ycsb.db.Session;
import org.stratabench.ycsb.measure.Measurements;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.RequestGenerator;

/**
 * Runs the client's own code before there is a database, so that the first operations measured do not carry the interpreter and the compiler.
 *
 * <p>With more threads than processors the compiler's threads get so small a share that it would take seconds.
 */
final class Rehearsal {
  private static final int OPERATIONS = 20_000;
  private static final int QUIET_ROUNDS = 3;
  private static final long LONGEST_NS = 1_500_000_000L;
  private static final Answer REFUSED = Answer.failed("REHEARSAL");

  private Rehearsal() {
  }

  /** Does operations that nobody asked for, against nothing, until the compiler has nothing more to do, and forgets them. */
  static void play(RunPlan plan) {
    RunControl control = new RunControl();
    RequestGenerator.Shared requests = new RequestGenerator.Shared(plan.spec(), plan.shard());
    LogicalClient.Shared shared = new LogicalClient.Shared(plan, control, requests, new LongAdder(), new LongAdder());
    LogicalClient client = new LogicalClient(shared, 0, new Measurements().newThread(), null);
    CompilationMXBean compiler = ManagementFactory.getCompilationMXBean();
    // of three kinds, so that what the compiler makes of it holds for a fourth, the database's
    Session[] nothings = {request -> Answer.OK, request -> Answer.NOT_FOUND, request -> REFUSED};
    long until = System.nanoTime() + LONGEST_NS;
    long compiledMs = -1;
    int quiet = 0;
    while (quiet < QUIET_ROUNDS && System.nanoTime() < until) {
      round(client, nothings, (long) OPERATIONS * plan.clients(), until);
      long now = compiler.getTotalCompilationTime();
      quiet = now == compiledMs ? quiet + 1 : 0;
      compiledMs = now;
    }
  }

  /** One window from its first operation to its end, which is code of its own; huge records may make it end by the time. */
  private static void round(LogicalClient client, Session[] nothings, long operations, long until) {
    client.enter(new Window(System.nanoTime(), until, operations, true));
    int turn = 0;
    try {
      while (BlockingWorker.step(client, nothings[turn], null)) {
        turn = (turn + 1) % nothings.length;
      }
    } catch (IOException e) {
      throw new IllegalStateException("there is no operation log that could fail", e);
    }
  }
}
