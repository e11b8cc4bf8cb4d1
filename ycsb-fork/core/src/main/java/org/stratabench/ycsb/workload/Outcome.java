// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

/** How the database answered; the order numbers the status codes of the operation log. */
public enum Outcome {
  OK,
  /** The key does not exist: an answer, not an error. */
  NOT_FOUND,
  FAILED
}
