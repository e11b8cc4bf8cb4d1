// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.stratabench.ycsb.Options;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.measure.Measurements;
import org.stratabench.ycsb.workload.RequestGenerator;

class ScheduleTest {
  private static final long START = 123_456_789_012L;

  @ParameterizedTest
  @CsvSource({"0.1,1", "3,7", "999.5,4", "1000000,64"})
  void constantArrivalsAreEvenOverAllClients(double rate, int clients) {
    long[] due = due("constant", rate, clients, 1000);
    for (int i = 0; i < due.length; i++) {
      assertEquals(START + i * 1e9 / rate, due[i], 1);
    }
  }

  @ParameterizedTest
  @CsvSource({"0.1,1", "1000,1", "50000,16", "1000000,64"})
  void poissonArrivalsHaveExponentialGapsOverAllClients(double rate, int clients) {
    int each = 200_000 / clients;
    long[] due = due("poisson", rate, clients, each);
    // up to the earliest end of a client's schedule, all clients contribute
    long[] whole = Arrays.copyOf(due, (int) (due.length * 0.9));
    double[] gaps = IntStream.range(1, whole.length).mapToDouble(i -> (whole[i] - whole[i - 1]) * rate / 1e9).sorted().toArray();
    // Kolmogorov's distance from 1 - exp(-x); its 0.9999 quantile is 2.23 / sqrt(n), and whole nanoseconds add at most rate / 1e9
    double distance = 0;
    for (int i = 0; i < gaps.length; i++) {
      double exact = 1 - Math.exp(-gaps[i]);
      distance = Math.max(distance, Math.max(exact - (double) i / gaps.length, (i + 1.0) / gaps.length - exact));
    }
    assertTrue(distance < 2.23 / Math.sqrt(gaps.length) + rate / 1e9, "distance " + distance);
    assertEquals(1, Arrays.stream(gaps).average().orElseThrow(), 4 / Math.sqrt(gaps.length));
  }

  @Test
  void warmupAndMeasuredWindowHaveGapsOfTheirOwn() {
    RunPlan plan = plan("poisson", 1000, 1, 1);
    Schedule warmup = Schedule.of(plan, new Window(0, Long.MAX_VALUE, 100, false), 0);
    Schedule measured = Schedule.of(plan, new Window(0, Long.MAX_VALUE, 100, true), 0);
    long same = IntStream.range(0, 100).filter(i -> warmup.next() == measured.next()).count();
    assertEquals(0, same);
  }

  /** A long run that is stopped has billions of them, and who stops it waits for its summary. */
  @Test
  void whatWasDueIsCountedAtOnceHoweverLongTheRun() {
    RunPlan plan = plan("constant", 1e6, 4, 1_000_000_000_000_000L);
    long year = 365L * 24 * 3600 * 1_000_000_000;
    assertEquals(year / 1000, assertTimeoutPreemptively(Duration.ofSeconds(10), () -> Schedule.constantBefore(plan, START, START + year)));
    assertEquals(1000, Schedule.constantBefore(plan("constant", 1e6, 4, 1000), START, START + year));
  }

  @ParameterizedTest
  @CsvSource({"0.1,1", "3,7", "999.5,4", "1000000,64", "7e8,2"})
  void whatIsDueBeforeAnInstantIsWhatTheConstantScheduleHoldsBeforeIt(double rate, int clients) {
    RunPlan plan = plan("constant", rate, clients, 900);
    long[] due = due("constant", rate, clients, 1000);
    for (int i : new int[] {0, 1, 2, 98, 457, 899, 900, 950}) {
      for (long end = due[i] - 2; end < due[i] + 3; end++) {
        long before = end;
        assertEquals(Math.min(900, Arrays.stream(due).filter(at -> at < before).count()), Schedule.constantBefore(plan, START, end));
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {-1, 0, 1, 7, 31, 32, 33, 50})
  void aClientCountsWhatIsDueFromTheOperationItHasComeTo(int begun) {
    RunPlan plan = plan("poisson", 1000, 3, 100);
    // of 100 operations of three clients 33 are the second one's
    Schedule schedule = Schedule.of(plan, new Window(START, Long.MAX_VALUE, 100, true), 1);
    long[] due = LongStream.generate(schedule::next).limit(33).toArray();
    Window window = new Window(START, Long.MAX_VALUE, 100, true);
    for (int end = Math.max(0, begun); end <= 40; end++) {
      LogicalClient.Shared shared = new LogicalClient.Shared(plan, new RunControl(), new RequestGenerator.Shared(plan.spec(), plan.shard()),
          new LongAdder(), new LongAdder());
      LogicalClient client = new LogicalClient(shared, 1, new Measurements().newThread(), null);
      if (begun >= 0) {
        client.enter(window);
      }
      boolean more = begun > 0;
      for (int operation = 0; more && operation < begun; operation++) {
        more = client.next() && client.begin(client.dueNs());
      }
      assertEquals(Math.min(33, end), client.dueBefore(window, end < 33 ? due[end] : Long.MAX_VALUE));
    }
  }

  private static long[] due(String arrival, double rate, int clients, int each) {
    RunPlan plan = plan(arrival, rate, clients, 1);
    Window window = new Window(START, Long.MAX_VALUE, Long.MAX_VALUE, true);
    return IntStream.range(0, clients).mapToObj(client -> Schedule.of(plan, window, client))
        .flatMapToLong(schedule -> LongStream.generate(schedule::next).limit(each)).sorted().toArray();
  }

  private static RunPlan plan(String arrival, double rate, int clients, long operations) {
    Options options = Options.parse("run", "noop", "-p", "recordcount=1", "-p", "operationcount=" + operations, "-p", "arrival=" + arrival,
        "-target", Double.toString(rate), "-threads", Integer.toString(clients), "-p", "seed=5");
    Properties properties = options.properties();
    return RunPlan.create(options, new Settings(properties));
  }
}
