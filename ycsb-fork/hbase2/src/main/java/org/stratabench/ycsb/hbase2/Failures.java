// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

/** Names what went wrong inside HBase's nested exceptions. */
final class Failures {
  private Failures() {
  }

  /** The exception's class and, where it differs, that of its root: few enough names to count by. */
  static String name(Throwable failure) {
    String outer = failure.getClass().getSimpleName();
    String root = root(failure).getClass().getSimpleName();
    return outer.equals(root) ? outer : outer + "/" + root;
  }

  /** The name and the first line of the root's message. */
  static String describe(Throwable failure) {
    String message = root(failure).getMessage();
    return message == null ? name(failure) : name(failure) + ": " + message.lines().findFirst().orElse("");
  }

  private static Throwable root(Throwable failure) {
    Throwable root = failure;
    while (root.getCause() != null && root.getCause() != root) {
      root = root.getCause();
    }
    return root;
  }
}
