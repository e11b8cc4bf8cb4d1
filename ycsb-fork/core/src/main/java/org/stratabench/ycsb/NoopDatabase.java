// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;
import org.stratabench.ycsb.db.AsyncSession;
import org.stratabench.ycsb.db.Database;
import org.stratabench.ycsb.db.Session;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.Item;
import org.stratabench.ycsb.workload.Key;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Request;
import org.stratabench.ycsb.workload.WorkloadSpec;

/**
 * A database that answers at once, to measure the client itself. It looks at the last byte of every key.
 *
 * <p>Properties: {@code noop.consume} reads every key and value produced; {@code noop.stall.ms} is the length of a stall
 * that begins {@code noop.stall.at.ms} after a session's first operation and holds up every operation that falls into it;
 * {@code noop.delay.us} is a time every operation takes; {@code noop.fail.every} fails every n-th operation of a session;
 * {@code noop.fail.connect} refuses to connect. Of YCSB's {@code basicdb.*}: {@code basicdb.simulatedelay} in milliseconds,
 * {@code basicdb.randomizedelay}, and {@code basicdb.verbose}, which is off unless asked for.
 */
public final class NoopDatabase implements Database {
  private static final VarHandle LONGS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  private boolean failConnect;
  private boolean consume;
  private long stallFromNs;
  private long stallToNs;
  private long delayNs;
  private boolean randomDelay;
  private long failEvery;
  private boolean verbose;
  private boolean idle;

  @Override
  public Set<OperationType> operations() {
    return EnumSet.allOf(OperationType.class);
  }

  @Override
  public void check(Settings settings, WorkloadSpec workload, boolean load) {
    failConnect = settings.flag("noop.fail.connect", false);
    consume = settings.flag("noop.consume", false);
    stallFromNs = settings.count("noop.stall.at.ms", 0) * 1_000_000;
    stallToNs = stallFromNs + settings.count("noop.stall.ms", 0) * 1_000_000;
    long simulatedMs = settings.count("basicdb.simulatedelay", 0);
    delayNs = settings.count("noop.delay.us", 0) * 1_000 + simulatedMs * 1_000_000;
    randomDelay = simulatedMs > 0 && settings.flag("basicdb.randomizedelay", true);
    failEvery = settings.count("noop.fail.every", 0);
    verbose = settings.flag("basicdb.verbose", false);
    idle = !consume && !verbose && stallToNs == stallFromNs && delayNs == 0 && failEvery == 0;
  }

  @Override
  public void open(Settings settings, WorkloadSpec workload, boolean load) throws SetupException {
    check(settings, workload, load);
    if (failConnect) {
      throw new SetupException("noop.fail.connect=true refuses every connection");
    }
  }

  @Override
  public Session session() {
    return new Noop();
  }

  @Override
  public boolean asynchronous() {
    return true;
  }

  @Override
  public AsyncSession asyncSession() {
    Noop noop = new Noop();
    return (request, completion) -> completion.complete(noop.execute(request));
  }

  @Override
  public void close() {
  }

  private final class Noop implements Session {
    private byte[] buffer = new byte[64];
    private long operations;
    private long firstOperationNs = Long.MIN_VALUE;
    // never read: it keeps the reading of keys and values from being optimised away
    private long consumed;

    @Override
    public Answer execute(Request request) {
      Key key = request.key();
      consumed += key.byteAt(key.length() - 1);
      return idle ? Answer.OK : act(request);
    }

    /** Apart from the rest, which so costs as little as can be. */
    private Answer act(Request request) {
      if (consume) {
        for (int i = 0; i < request.size(); i++) {
          consume(request.item(i));
        }
      }
      if (verbose) {
        System.out.println(request.type().label() + " " + request.table() + " " + request.key());
      }
      if (stallToNs > stallFromNs) {
        stall();
      }
      if (delayNs > 0) {
        waitUntil(System.nanoTime() + (randomDelay ? ThreadLocalRandom.current().nextLong(delayNs + 1) : delayNs));
      }
      operations++;
      return failEvery > 0 && operations % failEvery == 0 ? Answer.failed("ERROR") : Answer.OK;
    }

    /** Copies what a driver would send into a buffer, as one does, and reads all of it. */
    private void consume(Item item) {
      reserve(item.key().length());
      read(item.key().writeTo(buffer, 0));
      for (int i = 0; i < item.fields().size(); i++) {
        reserve(item.value(i).length());
        read(item.value(i).writeTo(buffer, 0));
      }
    }

    private void read(int end) {
      long sum = 0;
      int at = 0;
      for (; at <= end - Long.BYTES; at += Long.BYTES) {
        sum += (long) LONGS.get(buffer, at);
      }
      for (; at < end; at++) {
        sum += buffer[at];
      }
      consumed += sum;
    }

    private void reserve(int length) {
      if (buffer.length < length) {
        buffer = new byte[length];
      }
    }

    private void stall() {
      long now = System.nanoTime();
      if (firstOperationNs == Long.MIN_VALUE) {
        firstOperationNs = now;
      }
      if (now - firstOperationNs >= stallFromNs) {
        waitUntil(firstOperationNs + stallToNs);
      }
    }

    private static void waitUntil(long instant) {
      long left = instant - System.nanoTime();
      while (left > 0 && !Thread.currentThread().isInterrupted()) {
        LockSupport.parkNanos(left);
        left = instant - System.nanoTime();
      }
    }
  }
}
