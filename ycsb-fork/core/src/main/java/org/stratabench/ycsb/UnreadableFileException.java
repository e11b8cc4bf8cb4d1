// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

/** A property names a file that cannot be read, on this machine. */
public final class UnreadableFileException extends UsageException {
  private static final long serialVersionUID = 1L;

  UnreadableFileException(String message) {
    super(message);
  }
}
