// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import java.io.InputStream;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.Map;
import org.stratabench.ycsb.run.Run;
import org.stratabench.ycsb.run.RunControl;
import org.stratabench.ycsb.run.RunPlan;
import org.stratabench.ycsb.run.StatusLines;

/** The load client's entry: reads the command line, runs one phase, answers with an exit code. */
public final class Client {
  /** Longer than the run waits for threads that hang in the database, so that their results are still written. */
  private static final long WRITE_OUT_SECONDS = 20;

  private final RunControl control = new RunControl();

  /** Runs the client as a process of its own. */
  public static void main(String[] arguments) {
    Client client = new Client();
    Thread hook = new Thread(client::interruptedBySignal, "signal");
    Runtime.getRuntime().addShutdownHook(hook);
    ExitCode code = client.run(arguments, System.in, System.out, System.err);
    System.out.flush();
    client.control.written();
    try {
      Runtime.getRuntime().removeShutdownHook(hook);
    } catch (IllegalStateException e) {
      // a signal has begun the shutdown, and the hook ends the process with its own code
      return;
    }
    // halts instead of exiting: a database client's own shutdown hooks could hang on a dead cluster
    Runtime.getRuntime().halt(code.code());
  }

  private void interruptedBySignal() {
    control.stop(ExitCode.INTERRUPTED, "interrupted by a signal");
    try {
      control.awaitWritten(WRITE_OUT_SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    Runtime.getRuntime().halt(ExitCode.INTERRUPTED.code());
  }

  /**
   * Runs one phase.
   *
   * @param in where {@code -start-at stdin} reads the start instant
   * @param out takes the result lines
   * @param err takes progress and errors
   */
  public ExitCode run(String[] arguments, InputStream in, PrintStream out, PrintStream err) {
    StatusLines status = StatusLines.of(err, arguments);
    LogLevel.set(status.debug());
    try {
      Options options = Options.parse(arguments);
      WatchedProperties properties = options.properties();
      // YCSB's way to tell a binding which phase it serves
      properties.setProperty("dotransactions", Boolean.toString(options.phase() == Options.Phase.RUN));
      if (options.check()) {
        return check(options, properties, status);
      }
      RunPlan plan = RunPlan.create(options, new Settings(properties));
      return new Run(options, plan, properties, in, out, status, control).execute();
    } catch (SetupException e) {
      return failed(status, e, ExitCode.SETUP);
    } catch (UsageException e) {
      return failed(status, e, ExitCode.USAGE);
    } catch (InterruptedException | RuntimeException | Error e) {
      // an error, too: the end of this thread would otherwise pass for a signal's
      return failed(status, e, ExitCode.ABORTED);
    }
  }

  /** Says all that is wrong with the properties, slips among their names too: what a phase would find before it connects. */
  private static ExitCode check(Options options, WatchedProperties properties, StatusLines status) throws SetupException {
    Map<String, String> wrong = new LinkedHashMap<>();
    Settings settings = new Settings(properties, wrong);
    try {
      Run.check(options, RunPlan.create(options, settings), settings);
      properties.slips().forEach(slip -> wrong.put(slip, slip));
    } catch (UnreadableFileException e) {
      status.warn("checking", e.getMessage() + " on this machine; what comes after it was not checked");
    } catch (UsageException e) {
      wrong.put("", e.getMessage());
    }
    wrong.values().forEach(status::failed);
    return wrong.isEmpty() ? ExitCode.OK : ExitCode.USAGE;
  }

  private static ExitCode failed(StatusLines status, Throwable e, ExitCode code) {
    status.failed(e instanceof Error || e.getMessage() == null ? e.toString() : e.getMessage());
    status.trace(e);
    return code;
  }
}
