// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.util.Iterator;
import java.util.Map;
import java.util.function.Consumer;

/** Writes maps, lists, strings, numbers, booleans and nulls as JSON; a number that is not finite becomes null. */
public final class Json {
  private final StringBuilder text = new StringBuilder();
  private final boolean indented;

  private Json(boolean indented) {
    this.indented = indented;
  }

  /** One line without blanks, for streams of objects. */
  public static String line(Object value) {
    Json json = new Json(false);
    json.write(value, 0);
    return json.text.toString();
  }

  /** Indented, for files that people read. */
  public static String indented(Object value) {
    Json json = new Json(true);
    json.write(value, 0);
    return json.text.append('\n').toString();
  }

  private void write(Object value, int depth) {
    if (value instanceof Map<?, ?> map) {
      writeAll(map.entrySet().iterator(), '{', '}', depth, entry -> {
        writeString(String.valueOf(entry.getKey()));
        text.append(indented ? ": " : ":");
        write(entry.getValue(), depth + 1);
      });
    } else if (value instanceof Iterable<?> items) {
      writeAll(items.iterator(), '[', ']', depth, item -> write(item, depth + 1));
    } else if (value instanceof Double number && !Double.isFinite(number)) {
      text.append("null");
    } else if (value == null || value instanceof Number || value instanceof Boolean) {
      text.append(value);
    } else {
      writeString(value.toString());
    }
  }

  private <T> void writeAll(Iterator<T> items, char open, char close, int depth, Consumer<T> writeOne) {
    text.append(open);
    boolean any = items.hasNext();
    while (items.hasNext()) {
      newLine(depth + 1);
      writeOne.accept(items.next());
      if (items.hasNext()) {
        text.append(',');
      }
    }
    if (any) {
      newLine(depth);
    }
    text.append(close);
  }

  private void newLine(int depth) {
    if (indented) {
      text.append('\n').append("  ".repeat(depth));
    }
  }

  private void writeString(String string) {
    text.append('"');
    for (int i = 0; i < string.length(); i++) {
      char c = string.charAt(i);
      if (c == '"' || c == '\\') {
        text.append('\\').append(c);
      } else if (c < ' ') {
        text.append(String.format("\\u%04x", (int) c));
      } else {
        text.append(c);
      }
    }
    text.append('"');
  }
}
