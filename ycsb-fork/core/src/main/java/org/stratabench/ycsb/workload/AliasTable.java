// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

/**
 * Draws an index with given weights in constant time (Walker's alias method in Vose's form, 1991).
 *
 * <p>The number of columns is a power of two, so that one 64-bit draw gives a column by its high bits and a position in it by its low ones,
 * both without rounding.
 */
final class AliasTable {
  private static final int POSITION_BITS = 53;
  private static final double POSITIONS = 1L << POSITION_BITS;
  private static final long POSITION_MASK = (1L << POSITION_BITS) - 1;
  private static final int MOST_COLUMN_BITS = 64 - POSITION_BITS;

  private final int shift;
  private final long columnMask;
  private final long[] threshold;
  private final int[] alias;

  /** @param weights zero or more each, not all zero */
  AliasTable(double[] weights) {
    int bits = Math.max(1, 32 - Integer.numberOfLeadingZeros(weights.length - 1));
    int columns = 1 << bits;
    // no bit serves both: with more columns than the bits above 53 can tell apart, positions are coarser, at least 2^-40
    shift = 64 - bits;
    columnMask = bits <= MOST_COLUMN_BITS ? POSITION_MASK : (1L << shift) - 1;
    threshold = new long[columns];
    alias = new int[columns];
    fill(weights, columns);
  }

  private void fill(double[] weights, int columns) {
    double sum = 0;
    for (double weight : weights) {
      sum += weight;
    }
    double[] scaled = new double[columns];
    int[] poor = new int[columns];
    int[] rich = new int[columns];
    int poorCount = 0;
    int richCount = 0;
    for (int i = 0; i < columns; i++) {
      scaled[i] = i < weights.length ? weights[i] / sum * columns : 0;
      if (scaled[i] < 1) {
        poor[poorCount++] = i;
      } else {
        rich[richCount++] = i;
      }
    }
    double positions = columnMask == POSITION_MASK ? POSITIONS : columnMask + 1.0;
    while (poorCount > 0 && richCount > 0) {
      int small = poor[--poorCount];
      int large = rich[richCount - 1];
      threshold[small] = (long) (scaled[small] * positions);
      alias[small] = large;
      scaled[large] -= 1 - scaled[small];
      if (scaled[large] < 1) {
        richCount--;
        poor[poorCount++] = large;
      }
    }
    while (richCount > 0) {
      threshold[rich[--richCount]] = Long.MAX_VALUE;
    }
    // what rounding left over is full but for rounding
    while (poorCount > 0) {
      int left = poor[--poorCount];
      threshold[left] = scaled[left] > 0 ? Long.MAX_VALUE : 0;
      alias[left] = scaled[left] > 0 ? left : heaviest(weights);
    }
  }

  private static int heaviest(double[] weights) {
    int heaviest = 0;
    for (int i = 1; i < weights.length; i++) {
      heaviest = weights[i] > weights[heaviest] ? i : heaviest;
    }
    return heaviest;
  }

  /** The index that 64 random bits choose. */
  int pick(long bits) {
    int column = (int) (bits >>> shift);
    int other = alias[column];
    // all ones where the position lies below the threshold: a branch here would be mispredicted every other time
    int own = (int) ((bits & columnMask) - threshold[column] >> 63);
    return other + (column - other & own);
  }
}
