// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

/** A command line or property that cannot be used; the message is one line that names it and its value. */
public class UsageException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public UsageException(String message) {
    super(message);
  }
}
