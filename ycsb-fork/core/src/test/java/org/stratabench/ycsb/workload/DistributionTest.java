// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Properties;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.stratabench.ycsb.Settings;

/** Every request distribution against its own formula. */
class DistributionTest {
  private static final int DRAWS = 1_000_000;

  @ParameterizedTest
  @CsvSource({"1000,0.99", "1000,1", "1000,0.5", "1000,2", "1000000,0.99", "1000000,1.2", "1,0.99", "2,0.99"})
  void zipfRanksHaveTheirExactProbabilities(int n, double constant) {
    Zipf zipf = new Zipf(constant);
    SplittableRandom random = new SplittableRandom(11);
    long[] observed = new long[n];
    for (int i = 0; i < DRAWS; i++) {
      observed[(int) zipf.next(n, random)]++;
    }
    if (n > 1) {
      ChiSquare.assertFits(zipfProbabilities(n, constant), observed);
    }
  }

  @Test
  void zipfFollowsAGrowingNumberOfItems() {
    Zipf zipf = new Zipf(0.99);
    SplittableRandom random = new SplittableRandom(12);
    long[] small = new long[100];
    long[] large = new long[200];
    for (int i = 0; i < DRAWS; i++) {
      small[(int) zipf.next(100, random)]++;
      large[(int) zipf.next(200, random)]++;
    }
    ChiSquare.assertFits(zipfProbabilities(100, 0.99), small);
    ChiSquare.assertFits(zipfProbabilities(200, 0.99), large);
  }

  @ParameterizedTest
  @CsvSource({"1000,0.1296", "1000000,0.0650"})
  void theHottestScatteredKeyHasItsDueShare(int records, double share) {
    long[] observed = draw(spec(records, "requestdistribution", "zipfian"), records, 0);
    long hottest = Arrays.stream(observed).max().orElseThrow();
    assertEquals(share, (double) hottest / DRAWS, 0.002);
    double[] sorted = Arrays.stream(observed).sorted().asDoubleStream().toArray();
    assertTrue(sorted[records - 1] > sorted[records - 2]);
    long[] byRank = new long[records];
    Permutation rankToKey = new Permutation(records, 0x5354524154414B45L);
    for (int rank = 0; rank < records; rank++) {
      byRank[rank] = observed[(int) rankToKey.apply(rank)];
    }
    ChiSquare.assertFits(zipfProbabilities(records, 0.99), byRank);
  }

  @Test
  void uniformIsUniform() {
    double[] expected = new double[1000];
    Arrays.fill(expected, 1e-3);
    ChiSquare.assertFits(expected, draw(spec(1000, "requestdistribution", "uniform"), 1000, 0));
  }

  @Test
  void hotspotGivesTheHotSetItsShareAndScattersIt() {
    WorkloadSpec spec = spec(1000, "requestdistribution", "hotspot", "hotspotdatafraction", "0.1", "hotspotopnfraction", "0.7");
    long[] observed = draw(spec, 1000, 0);
    // a hot key has 0.7 / 100, a cold one 0.3 / 900 of the draws: 1/1000 lies far from both
    int[] hot = IntStream.range(0, 1000).filter(i -> observed[i] > DRAWS / 1000).toArray();
    assertEquals(100, hot.length);
    double[] expected = new double[1000];
    Arrays.fill(expected, 0.3 / 900);
    Arrays.stream(hot).forEach(i -> expected[i] = 0.7 / 100);
    ChiSquare.assertFits(expected, observed);
    long inLowestTenth = Arrays.stream(hot).filter(i -> i < 100).count();
    assertTrue(inLowestTenth < 30, inLowestTenth + " of the hot keys lie together");
  }

  @Test
  void latestCountsBackFromTheNewestAcknowledgedInsert() {
    WorkloadSpec spec = spec(900, "requestdistribution", "latest");
    long[] observed = draw(spec, 1000, 100);
    long[] byAge = new long[1000];
    for (int i = 0; i < 1000; i++) {
      byAge[i] = observed[999 - i];
    }
    ChiSquare.assertFits(zipfProbabilities(1000, 0.99), byAge);
  }

  @Test
  void exponentialPutsItsPercentileIntoTheYoungestFraction() {
    WorkloadSpec spec = spec(1000, "requestdistribution", "exponential", "exponential.percentile", "95", "exponential.frac", "0.5");
    long[] observed = draw(spec, 1000, 0);
    double rate = -Math.log(0.05) / 500;
    double[] expected = new double[1000];
    double all = 1 - Math.exp(-rate * 1000);
    for (int age = 0; age < 1000; age++) {
      expected[999 - age] = (Math.exp(-rate * age) - Math.exp(-rate * (age + 1))) / all;
    }
    ChiSquare.assertFits(expected, observed);
  }

  @Test
  void sequentialThreadsTogetherVisitEveryKeyOnce() {
    WorkloadSpec spec = spec(999, "requestdistribution", "sequential");
    int[] visits = new int[999];
    for (int thread = 0; thread < 3; thread++) {
      KeyChooser chooser = spec.keyChooser(space(999, 0, Shard.WHOLE), Shard.WHOLE, thread, 3, new SplittableRandom(1));
      for (int i = 0; i < 333; i++) {
        visits[(int) chooser.next()]++;
      }
    }
    assertTrue(Arrays.stream(visits).allMatch(count -> count == 1));
  }

  @Test
  void shardsTogetherAskLikeOneClient() {
    long[] together = new long[1000];
    for (int shard = 0; shard < 5; shard++) {
      KeyChooser chooser = spec(1000, "requestdistribution", "zipfian").keyChooser(space(1000, 0, new Shard(shard, 5)),
          new Shard(shard, 5), 0, 1, Mixing.stream(42, shard, 0, 0));
      for (int i = 0; i < DRAWS / 5; i++) {
        together[(int) chooser.next()]++;
      }
    }
    Permutation rankToKey = new Permutation(1000, 0x5354524154414B45L);
    long[] byRank = IntStream.range(0, 1000).mapToLong(rank -> together[(int) rankToKey.apply(rank)]).toArray();
    ChiSquare.assertFits(zipfProbabilities(1000, 0.99), byRank);
  }

  @Test
  void lengthsStayWithinTheirBounds() {
    SplittableRandom random = new SplittableRandom(5);
    long[] uniform = new long[10];
    long[] zipfian = new long[10];
    LengthChooser even = LengthChooser.create("uniform", 1, 10, 0.99);
    LengthChooser shortest = LengthChooser.create("zipfian", 1, 10, 0.99);
    for (int i = 0; i < DRAWS; i++) {
      uniform[even.next(random) - 1]++;
      zipfian[shortest.next(random) - 1]++;
    }
    double[] tenths = new double[10];
    Arrays.fill(tenths, 0.1);
    ChiSquare.assertFits(tenths, uniform);
    ChiSquare.assertFits(zipfProbabilities(10, 0.99), zipfian);
    assertEquals(10, LengthChooser.create("constant", 1, 10, 0.99).next(random));
  }

  private static long[] draw(WorkloadSpec spec, int keys, int inserted) {
    KeyChooser chooser =
        spec.keyChooser(space(spec.recordCount(), inserted, Shard.WHOLE), Shard.WHOLE, 0, 1, new SplittableRandom(13));
    long[] observed = new long[keys];
    for (int i = 0; i < DRAWS; i++) {
      observed[(int) chooser.next()]++;
    }
    return observed;
  }

  private static KeySpace space(long records, int inserted, Shard shard) {
    AcknowledgedInserts inserts = new AcknowledgedInserts(records, shard);
    for (int i = 0; i < inserted; i++) {
      inserts.answered(inserts.take(), true);
    }
    return new KeySpace(0, records, inserts);
  }

  private static WorkloadSpec spec(int records, String... pairs) {
    Properties properties = new Properties();
    properties.setProperty("recordcount", Integer.toString(records));
    for (int i = 0; i < pairs.length; i += 2) {
      properties.setProperty(pairs[i], pairs[i + 1]);
    }
    return new WorkloadSpec(new Settings(properties));
  }

  private static double[] zipfProbabilities(int n, double constant) {
    double[] weights = IntStream.rangeClosed(1, n).mapToDouble(rank -> Math.pow(rank, -constant)).toArray();
    double sum = Arrays.stream(weights).sum();
    return Arrays.stream(weights).map(weight -> weight / sum).toArray();
  }
}
