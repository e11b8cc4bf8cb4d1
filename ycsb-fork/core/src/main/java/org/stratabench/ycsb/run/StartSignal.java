// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.stratabench.ycsb.ExitCode;
import org.stratabench.ycsb.Options;
import org.stratabench.ycsb.UsageException;
import org.stratabench.ycsb.measure.Clock;

/** Finds out when to start: now, at the instant of the command line, or at the instant that arrives on standard input. */
final class StartSignal {
  private static final long POLL_MS = 50;

  private final Options options;
  private final InputStream in;
  private final RunControl control;

  StartSignal(Options options, InputStream in, RunControl control) {
    this.options = options;
    this.in = in;
    this.control = control;
  }

  /** The start instant in unix nanoseconds; empty when the run was stopped instead. */
  OptionalLong await() throws InterruptedException {
    if (!options.startFromStdin()) {
      return OptionalLong.of(options.startAtUnixNs().orElseGet(Clock::unixNow));
    }
    CompletableFuture<String> line = new CompletableFuture<>();
    // a thread of its own: a blocked read cannot be interrupted, and a signal must still end the client
    Thread reader = new Thread(() -> readLine(line), "start-signal");
    reader.setDaemon(true);
    reader.start();
    while (!control.stopped()) {
      try {
        return instant(line.get(POLL_MS, TimeUnit.MILLISECONDS));
      } catch (TimeoutException e) {
        continue;
      } catch (ExecutionException e) {
        control.stop(ExitCode.ABORTED, "cannot read the start instant from standard input: " + e.getCause().getMessage());
      }
    }
    return OptionalLong.empty();
  }

  private void readLine(CompletableFuture<String> line) {
    try {
      String text = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8)).readLine();
      line.complete(text == null ? "" : text);
    } catch (IOException e) {
      line.completeExceptionally(e);
    }
  }

  private OptionalLong instant(String line) {
    if (line.isBlank()) {
      control.stop(ExitCode.ABORTED, "standard input ended before it gave the start instant; whoever started this client is gone");
      return OptionalLong.empty();
    }
    try {
      return OptionalLong.of(Options.unixInstant(line));
    } catch (UsageException e) {
      control.stop(ExitCode.ABORTED, e.getMessage());
      return OptionalLong.empty();
    }
  }
}
