// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.SplittableRandom;

/** Chooses a length: of a field's value in bytes, or of a scan in records. Threads may share one. */
interface LengthChooser {
  /** A length. */
  int next(SplittableRandom random);

  /** A chooser for lengths in [{@code min}, {@code max}]; {@code constant} always gives {@code max}, {@code zipfian} prefers short ones. */
  static LengthChooser create(String distribution, int min, int max, double zipfianConstant) {
    if (distribution.equals("constant") || min == max) {
      return random -> max;
    }
    long lengths = (long) max - min + 1;
    if (distribution.equals("uniform")) {
      return random -> (int) (min + Mixing.below(lengths, random));
    }
    Zipf ranks = new Zipf(zipfianConstant);
    return random -> (int) (min + ranks.next(lengths, random));
  }
}
