// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

/**
 * A condition on one field: its value must sort before a bound.
 *
 * @param field the field's name
 * @param below the bound as bytes, compared lexicographically as unsigned
 * @param belowText the bound as text, compared by character codes
 */
public record Filter(String field, byte[] below, String belowText) {
  private static final int BYTE_STEPS = 1 << 16;
  private static final int TEXT_STEPS = 1 << 18;

  /** The bound below which a share of random values lies; {@code selectivity} in (0, 1), kept to within 2^-16. */
  static Filter selecting(String field, double selectivity) {
    int bytes = (int) Math.max(1, Math.round(selectivity * BYTE_STEPS));
    int text = (int) Math.max(1, Math.round(selectivity * TEXT_STEPS));
    char[] letters = {Value.letter(text >>> 12 & 63), Value.letter(text >>> 6 & 63), Value.letter(text & 63)};
    return new Filter(field, new byte[] {(byte) (bytes >>> 8), (byte) bytes}, new String(letters));
  }
}
