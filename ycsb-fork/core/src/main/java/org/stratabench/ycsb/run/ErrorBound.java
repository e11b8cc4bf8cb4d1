// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.util.Locale;

/** Decides whether a window has had too many failed operations; told the running totals about once a second. */
final class ErrorBound {
  private static final long ENOUGH_OPERATIONS = 100;
  private static final long SECOND_NS = 1_000_000_000L;

  private final double bound;
  private final long silenceNs;
  private final long planned;
  private long answers;
  private long lastAnswerNs;
  private long failuresAtLastAnswer;

  /**
   * @param bound share of failures allowed
   * @param silenceNs longest time in which every operation that ends fails; 0 for any
   * @param planned number of operations planned, {@link Long#MAX_VALUE} when unknown
   */
  ErrorBound(double bound, long silenceNs, long planned) {
    this.bound = bound;
    this.silenceNs = silenceNs;
    this.planned = planned;
  }

  /**
   * Whether a run under way should be given up: the share is over the bound and says something, or the whole run can no longer stay within
   * it, or the database has stopped answering.
   *
   * @param elapsedNs since the window began
   * @return the reason, or null
   */
  String excess(long elapsedNs, long done, long failed) {
    if (done - failed > answers) {
      answers = done - failed;
      lastAnswerNs = elapsedNs;
      failuresAtLastAnswer = failed;
    }
    boolean hopeless = planned != Long.MAX_VALUE && failed > bound * planned;
    if (hopeless || done >= ENOUGH_OPERATIONS) {
      String excess = finalExcess(done, failed);
      if (excess != null) {
        return excess;
      }
    }
    long silent = elapsedNs - lastAnswerNs;
    if (silenceNs > 0 && silent >= silenceNs && failed > failuresAtLastAnswer) {
      return (failed - failuresAtLastAnswer) + " operations failed and none succeeded for " + silent / SECOND_NS
          + " s (error.silence.seconds=" + silenceNs / SECOND_NS + "); the causes are in the summary";
    }
    return null;
  }

  /** Whether a finished run failed: the reason, or null. */
  String finalExcess(long done, long failed) {
    if (failed <= bound * done) {
      return null;
    }
    return String.format(Locale.ROOT, "%d of %d operations failed, more than error.bound=%s allows; the causes are in the summary",
        failed, done, bound);
  }
}
