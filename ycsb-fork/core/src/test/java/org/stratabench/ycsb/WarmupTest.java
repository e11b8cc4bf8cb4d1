// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.stratabench.ycsb.db.Database;
import org.stratabench.ycsb.db.Session;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.WorkloadSpec;

/** A warm-up that ends by time leaves the measured window as it would be without one. */
class WarmupTest {
  private static final int LOADED = 10;

  @TempDir
  private Path output;

  /** Remembers what was inserted, and what was asked for and had not been. */
  public static final class Remembering implements Database {
    private static final Set<Long> INSERTED = ConcurrentHashMap.newKeySet();
    private static final AtomicLong MISSED = new AtomicLong();
    private static final AtomicLong NEWEST_READ = new AtomicLong();

    @Override
    public Set<OperationType> operations() {
      return EnumSet.of(OperationType.READ, OperationType.INSERT);
    }

    @Override
    public void open(Settings settings, WorkloadSpec workload, boolean load) {
      INSERTED.clear();
      MISSED.set(0);
      NEWEST_READ.set(0);
    }

    @Override
    public Session session() {
      return request -> {
        LockSupport.parkNanos(1_000_000);
        long number = Long.parseLong(request.key().toString().substring("user".length()));
        if (request.type() == OperationType.INSERT) {
          INSERTED.add(number);
          return Answer.OK;
        }
        NEWEST_READ.accumulateAndGet(number, Math::max);
        if (number >= LOADED && !INSERTED.contains(number)) {
          MISSED.incrementAndGet();
          return Answer.NOT_FOUND;
        }
        return Answer.OK;
      };
    }

    @Override
    public void close() {
    }
  }

  @Test
  void readersFollowTheInsertsAfterItToo() {
    ClientProcess client = ClientProcess.run(output, "run " + Remembering.class.getName() + " -p recordcount=" + LOADED
        + " -p operationcount=4000 -p warmup.seconds=0.2 -threads 8 -p readproportion=0.4 -p updateproportion=0"
        + " -p insertproportion=0.6 -p requestdistribution=latest -p insertorder=ordered");
    assertEquals(ExitCode.OK, client.code(), client.err());
    assertEquals(0, Remembering.MISSED.get(), "reads of keys that nobody has written");
    long newest = Remembering.INSERTED.stream().mapToLong(number -> number).max().orElseThrow();
    assertTrue(Remembering.NEWEST_READ.get() > 0.9 * newest,
        "the newest key is " + newest + ", read was none above " + Remembering.NEWEST_READ);
  }

  @Test
  void waitingForItsLastOperationIsNoFaultOfTheClients() {
    // the operation of 0.4 s is answered at 2.4 s, in the measured window, which began at 0.5 s
    ClientProcess client = ClientProcess.run(output, "run noop -p recordcount=10 -p operationcount=20 -target 20"
        + " -p warmup.seconds=0.5 -p noop.stall.at.ms=400 -p noop.stall.ms=2000");
    assertEquals(ExitCode.OK, client.code(), client.err());
    double late = ClientProcess.summary(output).getAsJsonObject("client").getAsJsonObject("wakeup_error_ns").get("p99")
        .getAsDouble();
    assertTrue(late < 1e9, "begun " + late + " ns late");
  }
}
