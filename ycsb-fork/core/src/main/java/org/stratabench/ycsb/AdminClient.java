// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import java.io.PrintStream;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.stratabench.ycsb.measure.Json;

/** Entry of {@code bin/ycsb-admin}: one maintenance verb, one JSON object on standard output. */
public final class AdminClient {
  private static final String USAGE =
      "usage: ycsb-admin BINDING " + String.join("|", DatabaseAdmin.VERBS) + " [-P FILE]... [-p KEY=VALUE]... [-debug]";

  private AdminClient() {
  }

  /** Runs as a process of its own. */
  public static void main(String[] arguments) {
    ExitCode code = run(arguments, System.out, System.err);
    System.out.flush();
    // halts instead of exiting: a database client's own shutdown hooks could hang on a dead cluster
    Runtime.getRuntime().halt(code.code());
  }

  /** Does one verb; {@code out} takes the JSON, {@code err} warnings and the reason of a failure. */
  public static ExitCode run(String[] arguments, PrintStream out, PrintStream err) {
    boolean debug = Arrays.asList(arguments).contains("-debug");
    LogLevel.set(debug);
    try {
      out.println(Json.line(perform(arguments, err)));
      if (out.checkError()) {
        err.println("error: cannot write the answer to standard output");
        return ExitCode.ABORTED;
      }
      return ExitCode.OK;
    } catch (UsageException e) {
      err.println("error: " + e.getMessage());
      return ExitCode.USAGE;
    } catch (SetupException | RuntimeException e) {
      err.println("error: " + (e.getMessage() == null ? e.toString() : e.getMessage()));
      if (debug) {
        e.printStackTrace(err);
      }
      return ExitCode.SETUP;
    }
  }

  private static Map<String, Object> perform(String[] arguments, PrintStream err) throws SetupException {
    Deque<String> left = new ArrayDeque<>(List.of(arguments));
    if (left.size() < 2) {
      throw new UsageException(USAGE);
    }
    Binding binding = Binding.named(left.pop());
    String verb = left.pop();
    if (!DatabaseAdmin.VERBS.contains(verb)) {
      throw new UsageException("unknown verb " + verb + "; " + USAGE);
    }
    Properties files = new Properties();
    Properties commandLine = new Properties();
    while (!left.isEmpty()) {
      String option = left.pop();
      switch (option) {
        case "-P" -> Options.loadFile(Options.argument(option, left), files);
        case "-p" -> Options.assign(Options.argument(option, left), commandLine);
        case "-debug" -> { }
        default -> throw new UsageException("unknown option " + option + "; " + USAGE);
      }
    }
    WatchedProperties properties = new WatchedProperties();
    properties.putAll(files);
    properties.putAll(commandLine);
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("binding", binding.name());
    answer.put("verb", verb);
    try {
      answer.putAll(binding.newAdmin().perform(verb, properties));
    } finally {
      // after a failure, too: it may be the slip's
      properties.slips().forEach(slip -> err.println("warning: " + slip));
    }
    return answer;
  }
}
