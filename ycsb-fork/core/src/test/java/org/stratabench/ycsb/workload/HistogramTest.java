// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class HistogramTest {
  @Test
  void lengthsAreUpperEndsOfTheirBlocksWithTheFilesWeights() {
    Histogram histogram = Histogram.parse(List.of("BlockSize\t100", "0\t10", "3\t30", "", "1\t60"));
    assertEquals(400, histogram.greatestLength());
    SplittableRandom random = new SplittableRandom(1);
    long[] observed = new long[4];
    for (int i = 0; i < 100_000; i++) {
      long length = histogram.nextLength(random);
      assertEquals(0, length % 100);
      observed[(int) (length / 100) - 1]++;
    }
    ChiSquare.assertFits(new double[] {0.1, 0.6, 0, 0.3}, observed);
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "0 1 | BlockSize",
      "BlockSize 0 | line 1",
      "BlockSize 10;0 0 | all counts are 0",
      "BlockSize 10;0 -1 | line 2",
      "BlockSize 10;x 1 | line 2",
      "BlockSize 10;1 | line 2",
      "BlockSize 10;99999999999 1 | line 2",
  })
  void whatIsNoHistogramIsRefusedWithItsLine(String file, String named) {
    String message =
        assertThrows(IllegalArgumentException.class, () -> Histogram.parse(List.of(file.trim().split(";")))).getMessage();
    assertTrue(message.contains(named), message);
  }
}
