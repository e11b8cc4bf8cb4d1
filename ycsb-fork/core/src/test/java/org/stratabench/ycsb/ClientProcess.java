// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Runs the client's entry inside the test and keeps everything it said. */
public final class ClientProcess {
  private final ByteArrayOutputStream out = new ByteArrayOutputStream();
  private final ByteArrayOutputStream err = new ByteArrayOutputStream();
  private ExitCode code;

  /** Runs a command line, options separated by blanks, with nothing on standard input. */
  public static ClientProcess run(String commandLine) {
    return run(new ByteArrayInputStream(new byte[0]), commandLine, List.of());
  }

  /** The same with results in {@code output}. */
  public static ClientProcess run(Path output, String commandLine) {
    return run(new ByteArrayInputStream(new byte[0]), commandLine, List.of("-output", output.toString()));
  }

  /** The same with a standard input. */
  public static ClientProcess run(InputStream in, String commandLine, List<String> more) {
    List<String> arguments = new ArrayList<>(List.of(commandLine.split(" ")));
    arguments.addAll(more);
    ClientProcess process = new ClientProcess();
    PrintStream out = new PrintStream(process.out, true, StandardCharsets.UTF_8);
    PrintStream err = new PrintStream(process.err, true, StandardCharsets.UTF_8);
    process.code = new Client().run(arguments.toArray(String[]::new), in, out, err);
    return process;
  }

  public ExitCode code() {
    return code;
  }

  public String out() {
    return out.toString(StandardCharsets.UTF_8);
  }

  public String err() {
    return err.toString(StandardCharsets.UTF_8);
  }

  /** The summary in an output folder, as another JSON implementation reads it. */
  public static JsonObject summary(Path output) {
    try {
      return JsonParser.parseString(Files.readString(output.resolve("summary.json"))).getAsJsonObject();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
