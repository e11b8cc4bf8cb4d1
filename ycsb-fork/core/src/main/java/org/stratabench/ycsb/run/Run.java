// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.stratabench.ycsb.ExitCode;
import org.stratabench.ycsb.Options;
import org.stratabench.ycsb.SetupException;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.UsageException;
import org.stratabench.ycsb.WatchedProperties;
import org.stratabench.ycsb.db.Database;
import org.stratabench.ycsb.measure.ClientCost;
import org.stratabench.ycsb.measure.ClientReport;
import org.stratabench.ycsb.measure.Clock;
import org.stratabench.ycsb.measure.Interval;
import org.stratabench.ycsb.measure.Measurements;
import org.stratabench.ycsb.measure.OperationLog;
import org.stratabench.ycsb.measure.ResultLines;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.RequestGenerator;

/** One load or run phase from connecting to the results on disk. */
public final class Run {
  private static final long SECOND_NS = 1_000_000_000L;
  private static final long NOTICEABLY_LATE_NS = 10_000_000L;
  // The agent kills a client 15 s after a signal (agent/jobs.py): these two together, and writing the summary, must stay below that.
  private static final long GRACE_NS = 2 * SECOND_NS;
  private static final long HUNG_NS = 10 * SECOND_NS;
  private static final long DISCONNECT_NS = 5 * SECOND_NS;
  private static final long LEAVING_POLL_MS = 50;

  private final Options options;
  private final RunPlan plan;
  private final WatchedProperties properties;
  private final InputStream in;
  private final PrintStream out;
  private final StatusLines status;
  private final RunControl control;
  private final Gate gate;
  private final Measurements measurements;
  private final ResultLines resultLines;
  private final ErrorBound measuredErrors;
  private final ErrorBound warmupErrors;
  private final LongAdder warmupDone = new LongAdder();
  private final LongAdder warmupFailed = new LongAdder();
  private final Worker[] workers;
  private final Thread[] threads;

  private Database database;
  private List<String> slips = List.of();
  private Clock clock;
  private ClientCost costAtStart;
  private IntervalWriter intervals;
  private Interval sinceShown = Interval.empty();
  private long shownUpToNs;
  private long nextProgressNs;

  /**
   * @param properties all of them, for the binding and the summary
   * @param in where a start instant may come from
   * @param out takes the result lines
   */
  public Run(Options options, RunPlan plan, WatchedProperties properties, InputStream in, PrintStream out,
      StatusLines status, RunControl control) {
    this.options = options;
    this.plan = plan;
    this.properties = properties;
    this.in = in;
    this.out = out;
    this.status = status;
    this.control = control;
    this.gate = new Gate(plan.threads(), control);
    this.measurements = new Measurements();
    this.resultLines = new ResultLines(new Settings(properties));
    this.measuredErrors = new ErrorBound(plan.errorBound(), plan.silenceNs(), plan.planned());
    this.warmupErrors = new ErrorBound(plan.errorBound(), plan.silenceNs(), Long.MAX_VALUE);
    this.workers = new Worker[plan.threads()];
    this.threads = new Thread[plan.threads()];
  }

  /**
   * Does the phase and writes its results.
   *
   * @return what the process should exit with
   */
  public ExitCode execute() throws InterruptedException {
    try {
      database = options.binding().newDatabase();
      refuseWhatItCannotDo();
      phase();
    } catch (SetupException e) {
      cannotSetUp(e);
    }
    if (control.stopped()) {
      status.failed(control.reason());
    }
    return control.code();
  }

  private void phase() throws InterruptedException {
    try (OutputFiles files = OutputFiles.open(options.output(), plan.operationLog())) {
      startThreads(files.operationLog());
      try {
        connect();
        if (awaitStart(files)) {
          direct();
        }
      } catch (SetupException e) {
        cannotSetUp(e);
      } catch (IOException e) {
        cannotWrite(e);
      }
      endThreads();
      finish(files);
    } catch (SetupException e) {
      cannotSetUp(e);
    } catch (IOException e) {
      cannotWrite(e);
    }
  }

  private void startThreads(OperationLog log) {
    status.state("connecting");
    RequestGenerator.Shared requests = new RequestGenerator.Shared(plan.spec(), plan.shard());
    LogicalClient.Shared clients = new LogicalClient.Shared(plan, control, requests, warmupDone, warmupFailed);
    Worker.Shared shared = new Worker.Shared(plan, database, gate, control, measurements, log, clients);
    for (int i = 0; i < workers.length; i++) {
      workers[i] = plan.asynchronous() ? new AsyncWorker(shared, i) : new BlockingWorker(shared, i);
      threads[i] = daemon(workers[i], ClientCost.THREAD_PREFIX + i);
    }
    // a thread of its own, for a driver may take longer to give up than we want to wait
    daemon(this::openDatabase, "connect").start();
    Rehearsal.play(plan);
  }

  private void refuseWhatItCannotDo() {
    String name = options.binding().name();
    boolean load = plan.phase() == Options.Phase.LOAD;
    Set<OperationType> wanted = load ? Set.of(OperationType.INSERT) : plan.spec().operations();
    for (OperationType type : new TreeSet<>(wanted)) {
      if (!database.operations().contains(type)) {
        throw new UsageException("binding " + name + " cannot do " + type.label() + "; remove " + type.property());
      }
    }
    if (plan.asynchronous() && !database.asynchronous()) {
      throw new UsageException("binding " + name + " has no asynchronous driver; remove the property clients and use -threads");
    }
  }

  private void openDatabase() {
    try {
      database.open(new Settings(properties), plan.spec(), plan.phase() == Options.Phase.LOAD);
    } catch (Exception | Error e) {
      gate.connected(e);
      return;
    }
    for (Thread thread : threads) {
      thread.start();
    }
  }

  private static Thread daemon(Runnable task, String name) {
    Thread thread = new Thread(task, name);
    thread.setDaemon(true);
    return thread;
  }

  private void connect() throws InterruptedException, SetupException {
    if (!gate.awaitConnected()) {
      return;
    }
    slips = properties.slips();
    slips.forEach(slip -> status.warn("connecting", slip));
    Throwable failure = gate.connectFailure();
    if (failure instanceof UsageException) {
      control.stop(ExitCode.USAGE, failure.getMessage());
      return;
    }
    if (failure != null) {
      String message = failure.getMessage() == null ? failure.toString() : failure.getMessage();
      throw new SetupException(options.binding().name() + ": " + message, failure);
    }
    status.state("ready");
  }

  /** Waits for the start instant and opens the gate; false when the run was stopped instead. */
  private boolean awaitStart(OutputFiles files) throws InterruptedException, IOException {
    if (control.stopped()) {
      return false;
    }
    OptionalLong startUnix = new StartSignal(options, in, control).await();
    if (startUnix.isEmpty()) {
      return false;
    }
    clock = Clock.read();
    files.writeLogHeader(clock, plan);
    long now = System.nanoTime();
    long asked = clock.toMono(startUnix.getAsLong());
    boolean given = options.startFromStdin() || options.startAtUnixNs().isPresent();
    if (given && now - asked > NOTICEABLY_LATE_NS) {
      status.warn("ready", "the start instant passed " + (now - asked) / 1_000_000 + " ms ago; starting now");
    }
    gate.start(Math.max(asked, now), plan.warmupNs());
    return true;
  }

  /** Watches the threads, once a second, until they have finished or must stop. */
  private void direct() throws InterruptedException, IOException {
    if (!awaitMeasuredWindow()) {
      return;
    }
    costAtStart = ClientCost.now();
    long start = gate.measureMonoNs();
    intervals = new IntervalWriter(options.output(), clock.toUnix(start));
    long nextTick = start + SECOND_NS;
    while (!gate.awaitFinished(nextTick) && !control.stopped()) {
      // a late wake-up ends the interval at the last whole second, so that intervals stay aligned to the start
      long elapsed = (System.nanoTime() - start) / SECOND_NS * SECOND_NS;
      if (elapsed > intervals.endNs()) {
        takeInterval(elapsed);
        stopOn(measuredErrors.excess(elapsed, measurements.done(), measurements.failed()));
        if (elapsed - shownUpToNs >= progressIntervalNs()) {
          showProgress("measuring", elapsed);
        }
        nextTick = start + elapsed + SECOND_NS;
      }
    }
  }

  private boolean awaitMeasuredWindow() throws InterruptedException {
    boolean byCount = plan.warmupOperations() > 0;
    while (true) {
      boolean stopped = control.stopped();
      long now = stopped ? control.stoppedAtMonoNs() : System.nanoTime();
      // a run may be stopped within the window before this thread has seen that it is open: what was measured counts
      if (byCount ? gate.isWarm() : now >= gate.measureMonoNs()) {
        return true;
      }
      if (stopped) {
        return false;
      }
      long left = byCount ? Long.MAX_VALUE : gate.measureMonoNs() - System.nanoTime();
      TimeUnit.NANOSECONDS.sleep(Math.min(left, SECOND_NS / 50));
      warmupProgress();
    }
  }

  private void warmupProgress() {
    long now = System.nanoTime();
    if (!plan.hasWarmup() || now < gate.startMonoNs() || now < nextProgressNs) {
      return;
    }
    nextProgressNs = now + progressIntervalNs();
    long done = warmupDone.sum();
    stopOn(warmupErrors.excess(now - gate.startMonoNs(), done, warmupFailed.sum()));
    Map<String, Object> members = new LinkedHashMap<>();
    members.put("operations", done);
    members.put("errors", warmupFailed.sum());
    status.progress("warmup", members, () -> "warm-up: " + done + " operations");
  }

  private long progressIntervalNs() {
    return status.style() == StatusLines.Style.JSON ? SECOND_NS : plan.statusIntervalNs();
  }

  private void takeInterval(long endNs) throws IOException {
    Interval interval = measurements.takeInterval();
    sinceShown.add(interval);
    if (interval.operations() > 0 || endNs > intervals.endNs()) {
      intervals.write(interval, Math.max(endNs, intervals.endNs()));
    }
  }

  private void stopOn(String excess) {
    if (excess != null) {
      control.stop(ExitCode.ERRORS, excess);
    }
  }

  private void showProgress(String state, long elapsedNs) {
    long length = elapsedNs - shownUpToNs;
    Map<String, Object> members = new LinkedHashMap<>();
    members.put("operations", measurements.done());
    if (plan.counted()) {
      members.put("planned", plan.planned());
    }
    double rate = length > 0 ? sinceShown.operations() * 1e9 / length : 0;
    members.put("ops_per_s", rate);
    members.put("errors", measurements.failed());
    Double p99 = sinceShown.p99Us();
    if (p99 != null) {
      members.put("p99_us", p99);
    }
    Interval shown = sinceShown;
    status.progress(state, members, () -> String.format(Locale.ROOT, "%d sec: %d operations; %.2f current ops/sec; %s%s",
        elapsedNs / SECOND_NS, measurements.done(), rate, estimate(state, elapsedNs), shown.statusText()));
    sinceShown = Interval.empty();
    shownUpToNs = elapsedNs;
  }

  /** YCSB's words for how long the rest will take. */
  private String estimate(String state, long elapsedNs) {
    if (state.equals("done") || !plan.counted() || measurements.done() == 0) {
      return "";
    }
    double left = (double) (plan.planned() - measurements.done()) / measurements.done() * elapsedNs / SECOND_NS;
    return "est completion in " + Math.round(left) + " seconds ";
  }

  /** Waits for the threads; those that do not come back from the database are interrupted and then left behind. */
  private void endThreads() throws InterruptedException {
    if (!control.stopped()) {
      return;
    }
    if (!gate.awaitFinished(System.nanoTime() + (clock == null ? 0 : GRACE_NS))) {
      control.interrupting();
      for (Thread thread : threads) {
        thread.interrupt();
      }
      gate.awaitFinished(System.nanoTime() + (clock == null ? 0 : HUNG_NS));
    }
  }

  private void finish(OutputFiles files) throws IOException, InterruptedException {
    Summary.Measured window = null;
    if (intervals != null) {
      long measuredNs = measuredNs();
      ClientCost cost = ClientCost.now().since(costAtStart);
      try {
        closeWindow(measuredNs);
        files.closeLog();
      } catch (IOException e) {
        // the summary is small and worth a try even so
        cannotWrite(e);
      }
      stopOn(measuredErrors.finalExcess(measurements.done(), measurements.failed()));
      ClientReport judged =
          ClientReport.of(measurements, cost, measuredNs, plan.threads(), plan.clients(), plan.targetPerSecond(), due(),
              control.isInterrupting());
      ClientReport report = judged.warning(slips);
      window = new Summary.Measured(clock.toUnix(gate.measureMonoNs()), measuredNs, report);
      show(resultLines.of(measurements, measuredNs, report));
      judged.warnings().forEach(warning -> status.warn("measuring", warning));
    }
    if (!control.stopped()) {
      closeSessions();
    }
    files.writeSummary(new Summary(options, plan, properties, measurements, database.counters()).toMap(control, window));
    disconnect();
    if (!control.stopped()) {
      showProgress("done", window == null ? 0 : window.measuredNs());
    }
  }

  /**
   * Shows the result lines on standard output or, as in YCSB, in the file that {@code exportfile} names. A failure must
   * not cost the summary.
   */
  private void show(String lines) {
    String file = properties.getProperty("exportfile");
    if (file == null) {
      out.print(lines);
      if (out.checkError()) {
        control.stop(ExitCode.ABORTED, "cannot write the result lines to standard output");
      }
      return;
    }
    try {
      Files.writeString(Path.of(file), lines);
    } catch (IOException | InvalidPathException e) {
      control.stop(ExitCode.ABORTED,
          "cannot write exportfile=" + file + " (" + e.getClass().getSimpleName() + "); choose another");
    }
  }

  private void closeWindow(long measuredNs) throws IOException {
    for (int i = 0; i < workers.length; i++) {
      if (threads[i].isAlive() && control.isInterrupting()) {
        workers[i].flush();
      }
    }
    takeInterval(measuredNs);
    intervals.close();
  }

  /**
   * Bindings written for YCSB may send only now what they have held back, so a run that ends in order takes the time
   * that they need.
   */
  private void closeSessions() throws InterruptedException {
    gate.release();
    long begin = System.nanoTime();
    for (Thread thread : threads) {
      while (thread.isAlive() && !control.stopped()) {
        thread.join(LEAVING_POLL_MS);
        if (plan.hangNs() > 0 && System.nanoTime() - begin > plan.hangNs()) {
          control.stop(ExitCode.ERRORS, thread.getName() + " has been closing its session for "
              + plan.hangNs() / SECOND_NS
              + " s; what it held back may be lost; raise error.hang.seconds if it may take that long");
        }
      }
    }
  }

  private void disconnect() throws InterruptedException {
    gate.release();
    long until = System.nanoTime() + DISCONNECT_NS;
    for (Thread thread : threads) {
      thread.join(Math.max(1, (until - System.nanoTime()) / 1_000_000));
    }
    Thread closing = daemon(this::closeDatabase, "close");
    closing.start();
    closing.join(Math.max(1, (until - System.nanoTime()) / 1_000_000));
  }

  private void closeDatabase() {
    try {
      database.close();
    } catch (Exception e) {
      // results are complete by now, and a connection that will not close ends with the process
    }
  }

  private void cannotSetUp(SetupException e) {
    control.stop(ExitCode.SETUP, e.getMessage());
    status.trace(e);
  }

  private void cannotWrite(IOException e) {
    status.trace(e);
    control.stop(ExitCode.ABORTED, "cannot write results: " + e.getMessage() + "; free the disk or choose another -output");
  }

  /** Operations whose time came before no operation began any more; empty in a closed loop. */
  private OptionalLong due() {
    if (!plan.openLoop()) {
      return OptionalLong.empty();
    }
    long start = gate.measureMonoNs();
    long limit = plan.limitNs() == Long.MAX_VALUE ? Long.MAX_VALUE : start + plan.limitNs();
    return OptionalLong.of(Schedule.dueBefore(plan, start, control.stopped() ? Math.min(limit, control.stoppedAtMonoNs()) : limit));
  }

  /** Length of the measured window: up to the last answer, or to the stop of a run that was cut short. */
  private long measuredNs() {
    long start = gate.measureMonoNs();
    long end = control.stopped() ? Math.max(start, control.stoppedAtMonoNs()) : start;
    return Math.max(end, measurements.lastEndMonoNs()) - start;
  }
}
