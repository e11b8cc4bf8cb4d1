// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

/** The database or the output folder could not be made ready; the message is one line: what, why, what to do. */
public final class SetupException extends Exception {
  private static final long serialVersionUID = 1L;

  public SetupException(String message) {
    super(message);
  }

  public SetupException(String message, Throwable cause) {
    super(message, cause);
  }
}
