// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.stratabench.ycsb.ExitCode;
import org.stratabench.ycsb.db.AsyncSession;
import org.stratabench.ycsb.measure.OperationLog;
import org.stratabench.ycsb.measure.ThreadRecorder;
import org.stratabench.ycsb.workload.Answer;

/**
 * A thread that drives many clients through a driver that does not block.
 *
 * <p>Each client has its own schedule and at most one operation under way. Answers arrive on the driver's threads, which take their time and put
 * them on a stack that this thread empties; everything else happens here.
 */
final class AsyncWorker extends Worker {
  private static final long LONGEST_WAIT_NS = 50_000_000L;
  private static final long SECOND_NS = 1_000_000_000L;

  private final List<Slot> slots = new ArrayList<>();
  private final PriorityQueue<Slot> scheduled = new PriorityQueue<>(Comparator.comparingLong((Slot slot) -> slot.client.dueNs()));
  private final AtomicReference<Slot> answered = new AtomicReference<>();
  private final Waiter waiter = new Waiter(this::somethingHappened);
  private volatile Thread driver;
  private boolean openLoop;
  private Window window;
  private int underWay;
  // when the last answer came, or the first of the operations under way was sent: the oldest of them waits at least since then
  private long quietSinceNs;

  AsyncWorker(Shared shared, int thread) {
    super(shared, thread);
  }

  /** One client's place: its session, and the answer on its way back. */
  private final class Slot implements AsyncSession.Completion {
    private final LogicalClient client;
    private final AsyncSession session;
    private Window entered;
    private boolean waiting;
    private Slot below;
    private Answer answer;
    private long answeredNs;

    Slot(LogicalClient client, AsyncSession session) {
      this.client = client;
      this.session = session;
    }

    @Override
    public void complete(Answer given) {
      answeredNs = System.nanoTime();
      answer = given;
      do {
        below = answered.get();
      } while (!answered.compareAndSet(below, this));
      // whoever finds the stack empty is the one that may have to wake its owner
      if (below == null && driver != null && Thread.currentThread() != driver) {
        LockSupport.unpark(driver);
      }
    }

    void send() {
      if (underWay++ == 0) {
        quietSinceNs = System.nanoTime();
      }
      waiting = true;
      try {
        session.submit(client.request(), this);
      } catch (Exception e) {
        complete(Answer.failed(e));
      }
    }
  }

  @Override
  void connect(ThreadRecorder recorder, OperationLog.Writer writer) throws Exception {
    RunPlan plan = shared().plan();
    openLoop = plan.openLoop();
    for (int client = thread(); client < plan.clients(); client += plan.threads()) {
      slots.add(new Slot(new LogicalClient(shared().clients(), client, recorder, writer), shared().database().asyncSession()));
    }
  }

  /** Does the operations of one window; what a warm-up by time has begun may still be under way afterwards. */
  @Override
  void perform(Window next) throws IOException {
    driver = Thread.currentThread();
    window = next;
    for (Slot slot : slots) {
      // who waits for an answer of the warm-up goes on when it has come, and holds up nobody else
      if (!slot.waiting) {
        proceed(slot);
      }
    }
    while (underWay > 0 || !scheduled.isEmpty()) {
      if (shared().control().stopped()) {
        scheduled.clear();
        if (Thread.interrupted()) {
          return;
        }
      }
      boolean warm = !window.measured() && System.nanoTime() >= window.untilMonoNs();
      settle();
      beginDue();
      if (warm) {
        return;
      }
      await();
    }
  }

  /** Takes the answers that have come, oldest first. */
  private void settle() throws IOException {
    Slot newest = answered.getAndSet(null);
    Slot oldest = null;
    while (newest != null) {
      Slot next = newest.below;
      newest.below = oldest;
      oldest = newest;
      newest = next;
    }
    while (oldest != null) {
      Slot slot = oldest;
      oldest = slot.below;
      slot.below = null;
      slot.waiting = false;
      underWay--;
      quietSinceNs = slot.answeredNs;
      if (slot.client.answered(slot.answer, slot.answeredNs)) {
        slot.client.goesOn(System.nanoTime());
        slot.send();
      } else {
        proceed(slot);
      }
    }
  }

  /** Prepares a client's next operation and, in a closed loop, sends it. */
  private void proceed(Slot slot) {
    if (slot.entered != window) {
      slot.entered = window;
      slot.client.enter(window);
    }
    if (!slot.client.next()) {
      return;
    }
    if (openLoop) {
      scheduled.add(slot);
    } else if (slot.client.begin(System.nanoTime())) {
      slot.send();
    }
  }

  private void beginDue() {
    long now = System.nanoTime();
    while (!scheduled.isEmpty() && scheduled.peek().client.dueNs() <= now) {
      Slot slot = scheduled.poll();
      if (slot.client.begin(now)) {
        slot.send();
      }
      now = System.nanoTime();
    }
  }

  /** Waits for the next answer or the next scheduled start. */
  private void await() {
    if (answered.get() != null) {
      return;
    }
    giveUpOnSilence();
    if (!scheduled.isEmpty()) {
      waiter.await(scheduled.peek().client.dueNs());
    } else if (underWay > 0) {
      long left = window.measured() ? LONGEST_WAIT_NS : window.untilMonoNs() - System.nanoTime();
      LockSupport.parkNanos(this, Math.min(LONGEST_WAIT_NS, left));
    }
  }

  /** A driver that loses an answer, or whose timeouts fail, would hold the run for ever. */
  private void giveUpOnSilence() {
    long hangNs = shared().plan().hangNs();
    if (hangNs > 0 && underWay > 0 && System.nanoTime() - quietSinceNs > hangNs) {
      shared().control().stop(ExitCode.ERRORS, underWay + " operations of client thread " + thread() + " got neither answer nor failure from the"
          + " driver for " + hangNs / SECOND_NS + " s; see whether the database's servers work, or raise error.hang.seconds if it may take that long");
    }
  }

  private boolean somethingHappened() {
    return answered.get() != null || shared().control().stopped();
  }

  @Override
  Stream<LogicalClient> clients() {
    return slots.stream().map(slot -> slot.client);
  }

  @Override
  void disconnect() throws Exception {
    for (Slot slot : slots) {
      slot.session.close();
    }
  }
}
