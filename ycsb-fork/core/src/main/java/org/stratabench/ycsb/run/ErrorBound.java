// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.util.Locale;

/** Decides whether too many operations have failed. */
final class ErrorBound {
  private static final long ENOUGH_OPERATIONS = 100;

  private ErrorBound() {
  }

  /**
   * Whether a run under way should be given up.
   *
   * @param bound share of failures allowed
   * @param planned number of operations planned, {@link Long#MAX_VALUE} when unknown
   * @return the reason, or null: either the share is over the bound once it says something, or the whole run can no longer stay within it
   */
  static String excess(double bound, long done, long failed, long planned) {
    boolean hopeless = planned != Long.MAX_VALUE && failed > bound * planned;
    return hopeless || done >= ENOUGH_OPERATIONS ? finalExcess(bound, done, failed) : null;
  }

  /** Whether a finished run failed: the reason, or null. */
  static String finalExcess(double bound, long done, long failed) {
    if (failed <= bound * done) {
      return null;
    }
    return String.format(Locale.ROOT, "%d of %d operations failed, more than error.bound=%s allows; the causes are in the summary",
        failed, done, bound);
  }
}
