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
  private final RunControl control;
  private final int client;
  private final int clients;
  private final boolean openLoop;
  private final boolean load;
  private final ThreadRecorder recorder;
  private final OperationLog.Writer log;
  private final RequestGenerator generator;
  private final Request request;

  private long operations;
  private long untilNs;
  private boolean measured;
  private OperationMix mix;
  private Schedule schedule;
  private long index;
  private OperationType ahead;
  private OperationType type;
  private long dueNs;
  private long beginNs;
  private long partBeginNs;
  private long enteredNs;
  private long lastEndNs = Long.MIN_VALUE;

  /**
   * @param recorder of the thread that drives this client
   * @param log that thread's, or null when there is to be no operation log
   */
  LogicalClient(Shared shared, int client, ThreadRecorder recorder, OperationLog.Writer log) {
    this.shared = shared;
    this.plan = shared.plan();
    this.control = shared.control();
    this.client = client;
    this.clients = plan.clients();
    this.openLoop = plan.openLoop();
    this.load = plan.phase() == Options.Phase.LOAD;
    this.recorder = recorder;
    this.log = log;
    this.generator = new RequestGenerator(shared.requests(), client, plan.clients(),
        Mixing.stream(plan.seed(), plan.shard().index(), client, PURPOSE_REQUESTS));
    this.request = generator.request();
  }

  /** Begins a window. */
  void enter(Window next) {
    operations = next.operations();
    untilNs = next.untilMonoNs();
    measured = next.measured();
    recorder.begin(next.startMonoNs());
    // the last answer of a warm-up may have come after the window's start
    lastEndNs = Math.max(lastEndNs, next.startMonoNs());
    enteredNs = lastEndNs;
    index = client - clients;
    schedule = Schedule.of(plan, next, client);
    mix = plan.spec().mix(next.operations(), next.measured(), plan.seed(), plan.shard(), client, plan.clients());
    if (!load) {
      drawAhead();
    }
  }

  /** Draws the type of the operation after this one, so that the processor knows early which way that one goes. */
  private void drawAhead() {
    if (index + clients < operations) {
      ahead = mix.next();
    }
  }

  /** How long this client has taken part in the measured window: up to its own last answer, for others may have more to do. */
  long activeNs() {
    return measured ? lastEndNs - enteredNs : 0;
  }

  /**
   * How many of this client's operations are due in the measured window before an instant. Goes on with the schedule from the operation it has come
   * to, for those before it are many and have all begun; so only to be asked of a client that does nothing more.
   */
  long dueBefore(Window window, long endMonoNs) {
    if (!measured) {
      enter(window);
    }
    if (index < client) {
      index = client;
      dueNs = schedule.next();
    }
    while (index < operations && dueNs < endMonoNs) {
      index += clients;
      dueNs = schedule.next();
    }
    return (index - client) / clients;
  }

  /** Prepares the next operation; false when there is none left in the window. */
  boolean next() {
    index += clients;
    if (index >= operations) {
      return false;
    }
    dueNs = schedule.next();
    if (dueNs >= untilNs) {
      return false;
    }
    if (load) {
      type = OperationType.INSERT;
      generator.prepareLoad(plan.keyStart() + index);
    } else {
      type = ahead;
      generator.prepare(type);
      drawAhead();
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
   * @return false when it must not be sent any more
   */
  boolean begin(long nowNs) {
    if (nowNs >= untilNs || control.stopped()) {
      // an insert that has its number and is never sent must neither pass for written nor hold back those after it
      generator.answered(false);
      return false;
    }
    if (openLoop && measured) {
      // an operation that is due while the one before is under way cannot begin earlier: only what comes on top is the client's fault
      recorder.recordStartError(nowNs - Math.max(dueNs, lastEndNs));
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
    if (answer.outcome() == Outcome.FAILED && control.isInterrupting()) {
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
    lastEndNs = nowNs;
    generator.answered(answer.outcome() == Outcome.OK);
    if (measured) {
      note(answer, nowNs);
    } else {
      shared.warmupDone().increment();
      if (answer.outcome() == Outcome.FAILED) {
        shared.warmupFailed().increment();
      }
    }
    return false;
  }

  /** Notes that the other request of an operation is about to be sent, where that is not done at once. */
  void goesOn(long nowNs) {
    partBeginNs = nowNs;
  }

  /** Notes that everything held back has arrived: the window lasts until then. */
  void flushed(long nowNs) {
    lastEndNs = nowNs;
    if (measured) {
      recorder.extend(nowNs);
    }
  }

  private void notePart(OperationType part, Answer answer, long nowNs) {
    if (measured) {
      boolean scheduled = openLoop && part == OperationType.READ;
      recorder.recordPart(part, answer.outcome(), nowNs - partBeginNs, scheduled ? nowNs - dueNs : -1, nowNs);
    }
  }

  private void note(Answer answer, long nowNs) throws IOException {
    if (log != null) {
      log.add(beginNs, nowNs - beginNs, openLoop ? beginNs - dueNs : -1, request.key().hash(), client, type, answer.outcome());
    }
    if (answer.outcome() == Outcome.FAILED) {
      recorder.countFailure(type, answer.cause());
    }
    recorder.countRecords(type, request.received());
    recorder.record(type, answer.outcome(), nowNs - beginNs, openLoop ? nowNs - dueNs : -1, nowNs);
  }
}
