// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * Counts of times in nanoseconds, of several series, that one thread adds to and any thread may read, without a lock or a fence: counts only grow, so
 * whoever reads twice learns what came in between, and nothing is lost or seen twice.
 *
 * <p>The cells are those of an HdrHistogram of three significant digits: up to 2,047 ns one for each nanosecond, above 1,024 to a power of two,
 * so a cell is at most 0.1 % wide. Memory comes a power of two of a series at a time: most threads see few of either.
 */
final class LatencyCounts {
  static final int CELLS_PER_PAGE = 1024;
  static final int PAGES = 64 - 10;

  private static final VarHandle CELL = MethodHandles.arrayElementVarHandle(long[].class);
  private static final VarHandle PAGE = MethodHandles.arrayElementVarHandle(long[][].class);
  private static final int CELL_BITS = 10;

  // of all series in one array: each step from one object to the next would take longer than the count
  private final long[][] pages;

  LatencyCounts(int series) {
    pages = new long[series * PAGES][];
  }

  /** Adds one value to a series; a negative one counts as 0. Only for the thread that owns the counts. */
  void add(int series, long valueNs) {
    long value = Math.max(0, valueNs);
    int page = Math.max(0, Long.SIZE - CELL_BITS - Long.numberOfLeadingZeros(value));
    int cell = (int) (value >>> Math.max(0, page - 1)) & (CELLS_PER_PAGE - 1);
    long[] cells = pages[series * PAGES + page];
    if (cells == null) {
      cells = new long[CELLS_PER_PAGE];
      PAGE.setRelease(pages, series * PAGES + page, cells);
    }
    CELL.setOpaque(cells, cell, cells[cell] + 1);
  }

  /** Adds the counts of one page of a series to {@code sum}; false when it has never had a value. */
  boolean addPage(int series, int page, long[] sum) {
    long[] cells = (long[]) PAGE.getAcquire(pages, series * PAGES + page);
    if (cells == null) {
      return false;
    }
    for (int i = 0; i < CELLS_PER_PAGE; i++) {
      sum[i] += (long) CELL.getOpaque(cells, i);
    }
    return true;
  }

  /** The least value that falls into a cell. */
  static long leastValue(int page, int cell) {
    return page == 0 ? cell : (long) (cell + CELLS_PER_PAGE) << (page - 1);
  }
}
