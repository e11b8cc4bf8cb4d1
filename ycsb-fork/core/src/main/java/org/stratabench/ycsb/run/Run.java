// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;
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
import org.stratabench.ycsb.measure.Measurements;
import org.stratabench.ycsb.measure.OperationLog;
import org.stratabench.ycsb.measure.ResultLines;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.RequestGenerator;

/** One load or run phase from connecting to the results on disk. */
public final class Run {
  private static final long NOTICEABLY_LATE_NS = 10_000_000L;

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
  private final Progress progress;
  private final WindowMonitor monitor;

  private Database database;
  private WorkerThreads threads;
  private List<String> slips = List.of();
  private Clock clock;

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
    this.progress = new Progress(plan, measurements, status);
    this.monitor = new WindowMonitor(plan, gate, control, measurements, progress);
  }

  /**
   * Does the phase and writes its results.
   *
   * @return what the process should exit with
   */
  public ExitCode execute() throws InterruptedException {
    try {
      database = options.binding().newDatabase();
      refuseWhatItCannotDo(options, plan, database);
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
        awaitConnection();
        if (awaitStart(files)) {
          monitor.watch(clock, options.output());
        }
      } catch (SetupException e) {
        cannotSetUp(e);
      } catch (IOException e) {
        cannotWrite(e);
      }
      threads.end(clock != null);
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
    LogicalClient.Shared clients =
        new LogicalClient.Shared(plan, control, requests, monitor.warmupDone(), monitor.warmupFailed());
    threads = new WorkerThreads(new Worker.Shared(plan, database, gate, control, measurements, log, clients));
    threads.connect(new Settings(properties));
    Rehearsal.play(plan);
  }

  /** Looks at the properties as a phase does before it connects. */
  public static void check(Options options, RunPlan plan, Settings settings) throws SetupException {
    new ResultLines(settings);
    Database database = options.binding().newDatabase();
    settings.part(() -> database.check(settings, plan.spec(), plan.phase() == Options.Phase.LOAD));
    if (plan.spec().insertCount() > 0) {
      settings.part(() -> new RequestGenerator.Shared(plan.spec(), plan.shard()));
    }
    settings.part(() -> refuseWhatItCannotDo(options, plan, database));
  }

  private static void refuseWhatItCannotDo(Options options, RunPlan plan, Database database) {
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

  private void awaitConnection() throws InterruptedException, SetupException {
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

  private void finish(OutputFiles files) throws IOException, InterruptedException {
    Summary.Measured window = monitor.opened() ? closeWindow(files) : null;
    if (!control.stopped()) {
      threads.closeSessions();
    }
    files.writeSummary(new Summary(options, plan, properties, measurements, database.counters()).toMap(control, window));
    threads.disconnect();
    if (!control.stopped()) {
      progress.done(window == null ? 0 : window.measuredNs());
    }
  }

  private Summary.Measured closeWindow(OutputFiles files) {
    long measuredNs = monitor.measuredNs();
    ClientCost cost = monitor.cost();
    // none of them hinders the next, for the summary counts what the monitor takes last, and is small and worth a try even so
    attempt(threads::flushLeftBehind);
    attempt(() -> monitor.close(measuredNs));
    attempt(files::closeLog);
    monitor.judgeErrors();
    ClientReport judged = ClientReport.of(measurements, cost, measuredNs, plan.threads(), threads.activeNs(), plan.targetPerSecond(),
        monitor.due(threads), control.isInterrupting());
    ClientReport report = judged.warning(slips);
    show(resultLines.of(measurements, measuredNs, report));
    judged.warnings().forEach(warning -> status.warn("measuring", warning));
    return new Summary.Measured(clock.toUnix(gate.measureMonoNs()), measuredNs, report);
  }

  private interface Writing {
    void write() throws IOException;
  }

  private void attempt(Writing writing) {
    try {
      writing.write();
    } catch (IOException e) {
      cannotWrite(e);
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

  private void cannotSetUp(SetupException e) {
    control.stop(ExitCode.SETUP, e.getMessage());
    status.trace(e);
  }

  private void cannotWrite(IOException e) {
    status.trace(e);
    control.stop(ExitCode.ABORTED, "cannot write results: " + e.getMessage() + "; free the disk or choose another -output");
  }
}
