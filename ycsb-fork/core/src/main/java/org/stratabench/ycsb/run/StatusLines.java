// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.PrintStream;
import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;
import org.stratabench.ycsb.measure.Clock;
import org.stratabench.ycsb.measure.Json;

/** Tells whoever watches how far the run is: JSON lines, YCSB-like text, or only what went wrong. */
public final class StatusLines {
  /** How progress is shown. */
  public enum Style { QUIET, TEXT, JSON }

  private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss:SSS", Locale.ROOT);

  private final PrintStream err;
  private final Style style;
  private final boolean debug;

  private StatusLines(PrintStream err, Style style, boolean debug) {
    this.err = err;
    this.style = style;
    this.debug = debug;
  }

  /** The style that a command line asks for, be the rest of it right or wrong. */
  public static StatusLines of(PrintStream err, String... arguments) {
    List<String> given = Arrays.asList(arguments);
    Style style = given.contains("-status-json") ? Style.JSON : given.contains("-s") ? Style.TEXT : Style.QUIET;
    return new StatusLines(err, style, given.contains("-debug"));
  }

  /** Whether stack traces and the database client's own messages are wanted. */
  public boolean debug() {
    return debug;
  }

  Style style() {
    return style;
  }

  /** A change of state without figures. */
  public void state(String state) {
    if (style == Style.JSON) {
      print(state, Map.of());
    } else if (style == Style.TEXT) {
      err.println(state);
    }
  }

  /** Something the user should know that does not end the run. */
  public void warn(String state, String message) {
    if (style == Style.JSON) {
      print(state, Map.of("message", message));
    } else {
      err.println("warning: " + message);
    }
  }

  /** Why the run failed. */
  public void failed(String message) {
    if (style == Style.JSON) {
      print("failed", Map.of("message", message));
    } else {
      err.println("error: " + message);
    }
  }

  /** Where a failure came from, for those who asked for it. */
  public void trace(Throwable failure) {
    if (debug) {
      failure.printStackTrace(err);
    }
  }

  /**
   * Progress.
   *
   * @param members of the JSON object, those unknown left out
   * @param text the same as YCSB words it; a time is put before it, as YCSB does
   */
  void progress(String state, Map<String, Object> members, Supplier<String> text) {
    if (style == Style.JSON) {
      print(state, members);
    } else if (style == Style.TEXT) {
      err.println(LocalDateTime.now().format(TIME) + " " + text.get());
    }
  }

  private void print(String state, Map<String, Object> members) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("state", state);
    line.put("t_unix_ns", Clock.unixNow());
    line.putAll(members);
    // one call, so that lines of several threads never mix
    err.println(Json.line(line));
    err.flush();
  }
}
