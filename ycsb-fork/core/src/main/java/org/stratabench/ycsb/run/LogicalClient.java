// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.IOException;
import java.util.concurrent.atomic.LongAdder;
import org.stratabench.ycsb.Options;
import org.stratabench.ycsb.measure.OperationLog;
import org.stratabench.ycsb.measure.ThreadRecorder;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.Mixing;
import org.stratabench.ycsb.workload.OperationMix;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Outcome;
import org.stratabench.ycsb.workload.Request;
import org.stratabench.ycsb.workload.RequestGenerator;

/**
 * One client of the database: what it does next, when that is due, and what came of it. One operation at a time; how it is sent is the worker's
 * business.
 */
final class LogicalClient {
  private static final int PURPOSE_REQUESTS = 0;

  /**
   * What all clients of a process share.
   *
   * @param warmupDone operations finished in the warm-up
   * @param warmupFailed failures among them
   */
  record Shared(RunPlan plan, RunControl control, RequestGenerator.Shared requests, LongAdder warmupDone, LongAdder warmupFailed) { }

  private final Shared shared;
  private final RunPlan plan;
  private final int client;
  private final ThreadRecorder recorder;
  private final OperationLog.Writer log;
  private final RequestGenerator generator;
  private final Request request;

  private Window window;
  private OperationMix mix;
  private Schedule schedule;
  private long index;
  private OperationType type;
  private long dueNs;
  private long beginNs;
  private long partBeginNs;

  /**
   * @param recorder of the thread that drives this client
   * @param log that thread's, or null when there is to be no operation log
   */
  LogicalClient(Shared shared, int client, ThreadRecorder recorder, OperationLog.Writer log) {
    this.shared = shared;
    this.plan = shared.plan();
    this.client = client;
    this.recorder = recorder;
    this.log = log;
    this.generator = new RequestGenerator(shared.requests(), client, plan.clients(),
        Mixing.stream(plan.seed(), plan.shard().index(), client, PURPOSE_REQUESTS));
    this.request = generator.request();
  }

  /** Begins a window. */
  void enter(Window next) {
    window = next;
    index = client - plan.clients();
    schedule = Schedule.of(plan, next, client);
    mix = plan.spec().mix(next.operations(), next.measured(), plan.seed(), plan.shard(), client, plan.clients());
  }

  /** Prepares the next operation; false when there is none left in the window. */
  boolean next() {
    index += plan.clients();
    if (index >= window.operations()) {
      return false;
    }
    dueNs = schedule.next();
    if (dueNs >= window.untilMonoNs()) {
      return false;
    }
    if (plan.phase() == Options.Phase.LOAD) {
      type = OperationType.INSERT;
      generator.prepareLoad(plan.keyStart() + index);
    } else {
      type = mix.next();
      generator.prepare(type);
    }
    return true;
  }

  /** Monotonic instant at which the prepared operation is due. */
  long dueNs() {
    return dueNs;
  }

  /** What to send. */
  Request request() {
    return request;
  }

  /**
   * Notes that the request is about to be sent.
   *
   * @param waited whether somebody waited for its due time, so that its lateness is the wake-up's error
   * @return false when it must not be sent any more
   */
  boolean begin(long nowNs, boolean waited) {
    if (nowNs >= window.untilMonoNs() || shared.control().stopped()) {
      return false;
    }
    if (waited && window.measured()) {
      recorder.recordWakeup(nowNs - dueNs);
    }
    beginNs = nowNs;
    partBeginNs = nowNs;
    if (type == OperationType.READ_MODIFY_WRITE) {
      request.as(OperationType.READ);
    }
    return true;
  }

  /**
   * Notes an answer.
   *
   * @return whether the operation goes on with another request: the write of a read-modify-write whose read found its record
   * @throws IOException when the operation log cannot be written
   */
  boolean answered(Answer answer, long nowNs) throws IOException {
    if (answer.outcome() == Outcome.FAILED && shared.control().isInterrupting()) {
      return false;
    }
    if (type == OperationType.READ_MODIFY_WRITE) {
      OperationType part = request.type();
      notePart(part, answer, nowNs);
      // what was not read cannot be modified, and writing it would bring a deleted record half back
      if (part == OperationType.READ && answer.outcome() == Outcome.OK) {
        request.as(OperationType.UPDATE);
        partBeginNs = nowNs;
        return true;
      }
    }
    generator.answered(answer.outcome() == Outcome.OK);
    if (window.measured()) {
      note(answer, nowNs);
    } else {
      shared.warmupDone().increment();
      if (answer.outcome() == Outcome.FAILED) {
        shared.warmupFailed().increment();
      }
    }
    return false;
  }

  private void notePart(OperationType part, Answer answer, long nowNs) {
    if (window.measured()) {
      boolean scheduled = plan.openLoop() && part == OperationType.READ;
      recorder.recordPart(part, answer.outcome(), nowNs - partBeginNs, scheduled ? nowNs - dueNs : -1);
    }
  }

  private void note(Answer answer, long nowNs) throws IOException {
    boolean scheduled = plan.openLoop();
    if (log != null) {
      log.add(beginNs, nowNs - beginNs, scheduled ? beginNs - dueNs : -1, request.key().hash(), client, type, answer.outcome());
    }
    if (answer.outcome() == Outcome.FAILED) {
      recorder.countFailure(type, answer.cause());
    }
    recorder.countRecords(type, request.received());
    recorder.record(type, answer.outcome(), nowNs - beginNs, scheduled ? nowNs - dueNs : -1, nowNs);
  }
}
