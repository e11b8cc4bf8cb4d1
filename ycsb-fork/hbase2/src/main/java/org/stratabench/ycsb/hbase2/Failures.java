// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.io.UncheckedIOException;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.apache.hadoop.hbase.client.RetriesExhaustedWithDetailsException;

/** Names what went wrong inside HBase's nested exceptions. */
final class Failures {
  private Failures() {
  }

  /** The exception's class and, where it differs, that of its root: few enough names to count by. */
  static String name(Throwable failure) {
    Throwable outermost = unwrapped(failure);
    String outer = outermost.getClass().getSimpleName();
    String root = root(outermost).getClass().getSimpleName();
    return outer.equals(root) ? outer : outer + "/" + root;
  }

  /** The name and the first line of the root's message. */
  static String describe(Throwable failure) {
    String message = root(failure).getMessage();
    return message == null ? name(failure) : name(failure) + ": " + message.lines().findFirst().orElse("");
  }

  private static Throwable unwrapped(Throwable failure) {
    boolean wrapper = failure instanceof CompletionException || failure instanceof ExecutionException
        || failure instanceof UncheckedIOException;
    return wrapper && failure.getCause() != null ? unwrapped(failure.getCause()) : failure;
  }

  private static Throwable root(Throwable failure) {
    Throwable root = failure;
    Throwable cause = cause(root);
    while (cause != null && cause != root) {
      root = cause;
      cause = cause(root);
    }
    return root;
  }

  /** Of a batch that failed in several ways, the first one stands for all. */
  private static Throwable cause(Throwable failure) {
    if (failure instanceof RetriesExhaustedWithDetailsException batch && batch.getNumExceptions() > 0) {
      return batch.getCause(0);
    }
    return failure.getCause();
  }
}
