// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.locks.LockSupport;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * A database that answers at once, to measure the client itself.
 *
 * <p>Properties: {@code noop.consume} reads every value produced; {@code noop.stall.ms} is the length of a stall
 * that begins {@code noop.stall.at.ms} after a thread's first operation and holds up every operation that falls into it; {@code noop.delay.us} is a
 * time every operation takes; {@code noop.fail.every} fails every n-th operation of a thread; {@code noop.fail.connect} refuses to connect.
 */
public final class NoopDb extends DB {
  private boolean consume;
  private long stallFromNs;
  private long stallToNs;
  private long delayNs;
  private long failEvery;
  private long operations;
  private long firstOperationNs = Long.MIN_VALUE;
  // never read: it keeps the reading of values from being optimised away
  private long consumed;

  @Override
  public void init() throws DBException {
    Settings settings = new Settings(getProperties());
    if (settings.flag("noop.fail.connect", false)) {
      throw new DBException("noop.fail.connect=true refuses every connection");
    }
    consume = settings.flag("noop.consume", false);
    stallFromNs = settings.count("noop.stall.at.ms", 0) * 1_000_000;
    stallToNs = stallFromNs + settings.count("noop.stall.ms", 0) * 1_000_000;
    delayNs = settings.count("noop.delay.us", 0) * 1_000;
    failEvery = settings.count("noop.fail.every", 0);
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return answer(null);
  }

  @Override
  public Status scan(String table, String startKey, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
    return answer(null);
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return answer(values);
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return answer(values);
  }

  @Override
  public Status delete(String table, String key) {
    return answer(null);
  }

  private Status answer(Map<String, ByteIterator> values) {
    if (consume && values != null) {
      for (ByteIterator value : values.values()) {
        for (byte b : value.toArray()) {
          consumed += b;
        }
      }
    }
    if (stallToNs > stallFromNs) {
      stall();
    }
    if (delayNs > 0) {
      waitUntil(System.nanoTime() + delayNs);
    }
    operations++;
    return failEvery > 0 && operations % failEvery == 0 ? Status.ERROR : Status.OK;
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
