// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

/** What the process's exit code tells its caller. */
public enum ExitCode {
  OK(0),
  /** The command line or a property is wrong; nothing was started. */
  USAGE(2),
  /** The database could not be reached or set up, or the output folder could not be made. */
  SETUP(3),
  /** More operations failed than the bound allows, or none was answered any more. */
  ERRORS(4),
  /** The client gave up: no start instant, a full disk, a lost thread. */
  ABORTED(5),
  /** A signal ended the run. */
  INTERRUPTED(130);

  private final int code;

  ExitCode(int code) {
    this.code = code;
  }

  /** The number given to the operating system. */
  public int code() {
    return code;
  }
}
