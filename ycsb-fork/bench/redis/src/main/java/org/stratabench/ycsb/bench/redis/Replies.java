// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.bench.redis;

import java.nio.ByteBuffer;
import org.stratabench.ycsb.workload.Answer;

/** Understands Redis' replies (RESP2) as far as a benchmark must: whether they are complete and what they say. */
final class Replies {
  /** The reply is not all there. */
  static final int INCOMPLETE = -1;

  private Replies() {
  }

  /** Where the reply that begins at {@code from} ends, or {@link #INCOMPLETE}; {@code to} is the end of the bytes there are. */
  static int end(ByteBuffer bytes, int from, int to) {
    int line = lineEnd(bytes, from, to);
    if (line == INCOMPLETE) {
      return INCOMPLETE;
    }
    return switch (bytes.get(from)) {
      case '+', '-', ':' -> line;
      case '$' -> bulkEnd(line, number(bytes, from + 1), to);
      case '*' -> {
        int elements = number(bytes, from + 1);
        int at = line;
        for (int i = 0; i < elements && at != INCOMPLETE; i++) {
          at = end(bytes, at, to);
        }
        yield at;
      }
      default -> throw new IllegalStateException("not a Redis reply: it begins with byte " + bytes.get(from));
    };
  }

  /** What a complete reply that begins at the buffer's start says: an error's cause is its first word. */
  static Answer answer(ByteBuffer bytes) {
    return switch (bytes.get(0)) {
      case '-' -> Answer.failed(firstWord(bytes));
      case '*' -> number(bytes, 1) > 0 ? Answer.OK : Answer.NOT_FOUND;
      default -> Answer.OK;
    };
  }

  private static int bulkEnd(int line, int length, int to) {
    int end = length < 0 ? line : line + length + 2;
    return end <= to ? end : INCOMPLETE;
  }

  private static int lineEnd(ByteBuffer bytes, int from, int to) {
    for (int i = from + 1; i < to; i++) {
      if (bytes.get(i) == '\n') {
        return i + 1;
      }
    }
    return INCOMPLETE;
  }

  /** The number at {@code at}, up to the end of its line; every negative one is -1, as Redis has no other. */
  private static int number(ByteBuffer bytes, int at) {
    if (bytes.get(at) == '-') {
      return -1;
    }
    int number = 0;
    for (int i = at; bytes.get(i) != '\r'; i++) {
      number = 10 * number + bytes.get(i) - '0';
    }
    return number;
  }

  private static String firstWord(ByteBuffer bytes) {
    StringBuilder word = new StringBuilder();
    for (int i = 1; bytes.get(i) > ' '; i++) {
      word.append((char) bytes.get(i));
    }
    return word.toString();
  }
}
