// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

/**
 * What became of one request.
 *
 * @param outcome whether it succeeded
 * @param cause why it failed, in a name short and general enough to count by; null otherwise
 */
public record Answer(Outcome outcome, String cause) {
  /** Done as asked. */
  public static final Answer OK = new Answer(Outcome.OK, null);
  /** The database answered that there is no such record: an answer, not a failure. */
  public static final Answer NOT_FOUND = new Answer(Outcome.NOT_FOUND, null);

  /** A failure. */
  public static Answer failed(String cause) {
    return new Answer(Outcome.FAILED, cause);
  }

  /** The failure that an exception means. */
  public static Answer failed(Throwable failure) {
    return failed(failure.getClass().getSimpleName());
  }
}
