// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import java.io.IOException;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.OptionalLong;
import java.util.Properties;
import org.stratabench.ycsb.workload.Shard;

/** The client's command line: YCSB's options and those that make several clients one. */
public final class Options {
  /** What the client does. */
  public enum Phase { LOAD, RUN }

  /** Shown with every refusal of the command line. */
  public static final String USAGE = "usage: ycsb load|run BINDING [-P FILE]... [-p KEY=VALUE]... [-threads N] [-target OPS_PER_S] [-s]"
      + " [-shard I/N] [-start-at UNIX_NS|stdin] [-output DIR] [-status-json] [-debug] [-check]";

  private final Properties fromFiles = new Properties();
  private final Properties fromCommandLine = new Properties();
  private Phase phase;
  private Binding binding;
  private Shard shard = Shard.WHOLE;
  private OptionalLong startAtUnixNs = OptionalLong.empty();
  private boolean startFromStdin;
  private Path output;
  private boolean check;

  private Options() {
  }

  /** Reads a command line; throws {@link UsageException} with what is wrong. */
  public static Options parse(String... arguments) {
    Deque<String> left = new ArrayDeque<>(List.of(arguments));
    Options options = new Options();
    if (left.size() < 2) {
      throw new UsageException(USAGE);
    }
    String phase = left.pop();
    options.phase = switch (phase) {
      case "load" -> Phase.LOAD;
      case "run" -> Phase.RUN;
      default -> throw new UsageException(phase + " is neither load nor run; " + USAGE);
    };
    options.binding = Binding.named(left.pop());
    while (!left.isEmpty()) {
      options.take(left.pop(), left);
    }
    return options;
  }

  private void take(String option, Deque<String> left) {
    switch (option) {
      case "-P" -> loadFile(argument(option, left), fromFiles);
      case "-p" -> assign(argument(option, left), fromCommandLine);
      case "-threads" -> fromCommandLine.setProperty("threadcount", argument(option, left));
      case "-target" -> fromCommandLine.setProperty("target", argument(option, left));
      case "-shard" -> shard = Shard.parse(argument(option, left));
      case "-start-at" -> startAt(argument(option, left));
      case "-output" -> output = Path.of(argument(option, left));
      case "-check" -> check = true;
      case "-l" -> argument(option, left);
      // how to report is needed before the command line is known to be right: see StatusLines.of
      case "-s", "-status-json", "-debug" -> { }
      default -> throw new UsageException("unknown option " + option + "; " + USAGE);
    }
  }

  private void startAt(String instant) {
    startFromStdin = instant.equals("stdin");
    if (!startFromStdin) {
      startAtUnixNs = OptionalLong.of(unixInstant(instant));
    }
  }

  /** Reads a start instant, nanoseconds since 1970. */
  public static long unixInstant(String text) {
    try {
      return Long.parseUnsignedLong(text.trim());
    } catch (NumberFormatException e) {
      throw new UsageException("start instant '" + text.trim() + "' must be unix nanoseconds or stdin");
    }
  }

  /** The argument that follows an option. */
  static String argument(String option, Deque<String> left) {
    if (left.isEmpty()) {
      throw new UsageException("option " + option + " needs an argument");
    }
    return left.pop();
  }

  /** Reads a property file into {@code properties}; later files win. */
  static void loadFile(String file, Properties properties) {
    try (Reader reader = Files.newBufferedReader(Path.of(file), StandardCharsets.UTF_8)) {
      properties.load(reader);
    } catch (IOException | IllegalArgumentException e) {
      throw new UsageException("cannot read property file " + file + " (" + e.getClass().getSimpleName() + "); check -P");
    }
  }

  /** Takes KEY=VALUE into {@code properties}. */
  static void assign(String pair, Properties properties) {
    int equals = pair.indexOf('=');
    if (equals < 1) {
      throw new UsageException("-p " + pair + " must be KEY=VALUE");
    }
    properties.setProperty(pair.substring(0, equals).trim(), pair.substring(equals + 1));
  }

  /** All properties; those of the command line win over those of files. */
  public WatchedProperties properties() {
    WatchedProperties all = new WatchedProperties();
    all.putAll(fromFiles);
    all.putAll(fromCommandLine);
    return all;
  }

  public Phase phase() {
    return phase;
  }

  public Binding binding() {
    return binding;
  }

  public Shard shard() {
    return shard;
  }

  /** The instant to start at, nanoseconds since 1970, when the command line gives it. */
  public OptionalLong startAtUnixNs() {
    return startAtUnixNs;
  }

  /** Whether the start instant is to be read from standard input. */
  public boolean startFromStdin() {
    return startFromStdin;
  }

  /** Whether the properties are to be checked, and nothing else done. */
  public boolean check() {
    return check;
  }

  /** Where results go, or null for nowhere. */
  public Path output() {
    return output;
  }
}
