// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.UsageException;

/**
 * A distribution read from YCSB's histogram file: a line {@code BlockSize<TAB>n}, then lines {@code i<TAB>count} of the i-th block,
 * 0-based. Threads may share one.
 */
final class Histogram {
  private static final int MOST_BLOCKS = 1 << 24;

  private final long blockSize;
  private final double[] weights;
  private final AliasTable table;

  private Histogram(long blockSize, double[] weights) {
    this.blockSize = blockSize;
    this.weights = weights;
    this.table = new AliasTable(weights);
  }

  /** Reads the file that a property names; refuses what is no histogram with the line at fault. */
  static Histogram read(Settings settings, String property, String fallback) {
    String file = settings.text(property, fallback);
    List<String> lines;
    try {
      lines = Files.readAllLines(Path.of(file), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw Settings.unreadable(property, file, " (" + e.getClass().getSimpleName() + ")");
    }
    try {
      return parse(lines);
    } catch (IllegalArgumentException e) {
      settings.reject(property, file, "holds no histogram: " + e.getMessage());
      return new Histogram(1, new double[] {1});
    }
  }

  /** Makes sense of the lines of a file; an {@link IllegalArgumentException} says which one makes none. */
  static Histogram parse(List<String> lines) {
    double[] weights = new double[0];
    long blockSize = 0;
    for (int i = 0; i < lines.size(); i++) {
      String[] words = lines.get(i).trim().split("\\s+");
      if (lines.get(i).isBlank()) {
        continue;
      }
      if (words.length != 2) {
        throw wrong(i, lines);
      }
      if (words[0].equals("BlockSize")) {
        blockSize = number(words[1], 1, Integer.MAX_VALUE, i, lines);
        continue;
      }
      int block = (int) number(words[0], 0, MOST_BLOCKS - 1, i, lines);
      weights = block < weights.length ? weights : Arrays.copyOf(weights, Math.max(block + 1, Math.min(MOST_BLOCKS, 2 * weights.length)));
      weights[block] += number(words[1], 0, Long.MAX_VALUE, i, lines);
    }
    if (blockSize == 0) {
      throw new IllegalArgumentException("there is no line 'BlockSize<TAB>n'");
    }
    if (Arrays.stream(weights).sum() == 0) {
      throw new IllegalArgumentException("all counts are 0");
    }
    return new Histogram(blockSize, weights);
  }

  private static long number(String word, long min, long max, int line, List<String> lines) {
    try {
      long number = Long.parseLong(word);
      if (number >= min && number <= max) {
        return number;
      }
    } catch (NumberFormatException e) {
      // refused below, with the line
    }
    throw wrong(line, lines);
  }

  private static IllegalArgumentException wrong(int line, List<String> lines) {
    return new IllegalArgumentException("line " + (line + 1) + " is '" + lines.get(line) + "'; wanted 'BlockSize<TAB>n' or 'block<TAB>count'");
  }

  /** YCSB's length of a block: its upper end. */
  long nextLength(SplittableRandom random) {
    return (table.pick(random.nextLong()) + 1L) * blockSize;
  }

  /** The greatest length that {@link #nextLength} can give. */
  long greatestLength() {
    int last = weights.length - 1;
    while (weights[last] == 0) {
      last--;
    }
    return (last + 1L) * blockSize;
  }

  /** The same weights for the numbers of [0, {@code count}) only, each number of a block being as likely as the others. */
  Histogram over(long count) {
    double[] cut = Arrays.copyOf(weights, (int) Math.min(weights.length, (count - 1) / blockSize + 1));
    for (int i = 0; i < cut.length; i++) {
      cut[i] *= (double) Math.min(blockSize, count - i * blockSize) / blockSize;
    }
    if (Arrays.stream(cut).sum() == 0) {
      throw new UsageException(
          "property requesthistogram names a file that gives none of the " + count + " loaded records a weight");
    }
    return new Histogram(blockSize, cut);
  }

  /** A number of [0, {@code count}), {@code count} being the one this was made {@link #over}. */
  long nextNumber(long count, SplittableRandom random) {
    long start = table.pick(random.nextLong()) * blockSize;
    return start + Mixing.below(Math.min(blockSize, count - start), random);
  }
}
