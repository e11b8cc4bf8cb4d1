// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.SplittableRandom;

/** Chooses a length: of a field's value in bytes, or of a scan in records. */
interface LengthChooser {
  /** A length of at least the least one configured. */
  int next(SplittableRandom random);

  /** A chooser for lengths in [{@code min}, {@code max}]; {@code constant} always gives {@code max}, {@code zipfian} prefers short ones. */
  static LengthChooser create(String distribution, int min, int max, double zipfianConstant) {
    if (distribution.equals("constant")) {
      return random -> max;
    }
    if (distribution.equals("uniform")) {
      return random -> (int) random.nextLong(min, max + 1L);
    }
    Zipf ranks = new Zipf(zipfianConstant);
    long lengths = (long) max - min + 1;
    return random -> (int) (min + ranks.next(lengths, random));
  }
}
