// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

/** How much of what database clients log reaches standard error; their logging configuration reads these system properties. */
final class LogLevel {
  private LogLevel() {
  }

  /** @param debug everything with stack traces, instead of warnings on one line each */
  static void set(boolean debug) {
    System.setProperty("strata.log.level", debug ? "DEBUG" : "WARN");
    System.setProperty("strata.log.throwable", debug ? "full" : "none");
  }
}
