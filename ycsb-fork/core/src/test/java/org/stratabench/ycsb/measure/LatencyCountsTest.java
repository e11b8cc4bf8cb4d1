// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import org.HdrHistogram.Histogram;
import org.junit.jupiter.api.Test;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Outcome;

/** Against HdrHistogram, which counts the same values by itself. */
class LatencyCountsTest {
  @Property(tries = 300)
  void theTotalsAreThoseOfAnHdrHistogram(@ForAll List<@LongRange(min = 0, max = 1L << 50) Long> values) {
    Histogram expected = new Histogram(3);
    Measurements measurements = new Measurements();
    ThreadRecorder[] threads = {measurements.newThread(), measurements.newThread()};
    int i = 0;
    for (long value : values) {
      expected.recordValue(value);
      threads[i++ % 2].record(OperationType.READ, Outcome.OK, value, -1, i);
      if (i % 7 == 0) {
        measurements.takeInterval();
      }
    }
    measurements.takeInterval();
    Histogram total = measurements.total(Series.position(OperationType.READ, false, false));
    if (values.isEmpty()) {
      assertEquals(null, total);
    } else {
      assertEquals(expected, total);
    }
  }

  @Property(tries = 1000)
  void aCellIsAtMostATenthOfAPercentWide(@ForAll @LongRange(min = 0) long value) {
    LatencyCounts counts = new LatencyCounts(2);
    counts.add(1, value);
    long[] sum = new long[LatencyCounts.CELLS_PER_PAGE];
    for (int page = 0; page < LatencyCounts.PAGES; page++) {
      if (counts.addPage(1, page, sum)) {
        for (int cell = 0; cell < sum.length; cell++) {
          if (sum[cell] == 1) {
            long least = LatencyCounts.leastValue(page, cell);
            assertTrue(least <= value && value - least <= value / 1000, value + " is in the cell of " + least);
            return;
          }
        }
      }
    }
    throw new AssertionError(value + " is nowhere");
  }

  @Test
  void nothingIsLostOrSeenTwiceWhileThreadsRecord() throws InterruptedException {
    Measurements measurements = new Measurements();
    int perThread = 2_000_000;
    List<Thread> threads = new ArrayList<>();
    for (int t = 0; t < 3; t++) {
      SplittableRandom random = new SplittableRandom(t);
      Thread thread = new Thread(() -> {
        ThreadRecorder recorder = measurements.newThread();
        for (int i = 0; i < perThread; i++) {
          recorder.record(OperationType.UPDATE, Outcome.OK, random.nextLong(1L << random.nextInt(40)), -1, i);
        }
      });
      threads.add(thread);
      thread.start();
    }
    long seen = 0;
    boolean running = true;
    while (running) {
      running = threads.stream().anyMatch(Thread::isAlive);
      seen += measurements.takeInterval().operations();
      assertEquals(seen, measurements.done());
    }
    assertEquals(3L * perThread, seen);
    assertEquals(0, measurements.takeInterval().operations());
  }

  /** As of a driver whose threads hand their answers over in another order than they got them. */
  @Test
  void aSecondIsTakenWithoutTheNextAndWithWhatWasRecordedLate() {
    long second = 1_000_000_000L;
    long start = 5_250_000_000L;
    Measurements measurements = new Measurements();
    ThreadRecorder recorder = measurements.newThread();
    recorder.begin(start);
    for (long end : new long[] {0, second - 1, second, second + 1, 2 * second - 1}) {
      recorder.record(OperationType.READ, Outcome.OK, 1, -1, start + end);
    }
    assertEquals(2, measurements.takeSecond(0).operations());
    recorder.record(OperationType.READ, Outcome.OK, 1, -1, start + second - 2);
    recorder.record(OperationType.READ, Outcome.OK, 1, -1, start + 2 * second);
    assertEquals(3, measurements.takeSecond(1).operations());
    assertEquals(2, measurements.takeSecond(2).operations());
    recorder.record(OperationType.READ, Outcome.OK, 1, -1, start + 3 * second);
    recorder.record(OperationType.READ, Outcome.OK, 1, -1, start + 4 * second);
    assertEquals(2, measurements.takeInterval().operations());
    assertEquals(9, measurements.done());
  }

  @Test
  void theLastAnswerIsTheLatestWhateverTheOrder() {
    Measurements measurements = new Measurements();
    ThreadRecorder recorder = measurements.newThread();
    assertEquals(Long.MIN_VALUE, measurements.lastEndMonoNs());
    recorder.record(OperationType.READ, Outcome.OK, 5, -1, 200);
    recorder.record(OperationType.READ, Outcome.OK, 5, -1, 100);
    assertEquals(200, measurements.lastEndMonoNs());
    recorder.extend(150);
    assertEquals(200, measurements.lastEndMonoNs());
  }
}
