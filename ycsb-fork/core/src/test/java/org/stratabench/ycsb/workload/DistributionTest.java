// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.stratabench.ycsb.Settings;

/** Every request distribution against its own formula. */
class DistributionTest {
  @TempDir
  private Path folder;

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
    Scatter rankToKey = new Scatter(records);
    for (int rank = 0; rank < records; rank++) {
      byRank[rank] = observed[(int) rankToKey.apply(rank)];
    }
    ChiSquare.assertFits(zipfProbabilities(records, 0.99), byRank);
  }

  @ParameterizedTest
  @ValueSource(ints = {1_000, 1_000_000})
  void uniformIsUniform(int records) {
    double[] expected = new double[records];
    Arrays.fill(expected, 1.0 / records);
    ChiSquare.assertFits(expected, draw(spec(records, "requestdistribution", "uniform"), records, 0));
  }

  @ParameterizedTest
  @CsvSource({"1000,0.99", "1000000,0.99", "1000,1.5", "1000000,0.7"})
  void unscatteredZipfianHasThePopularKeysInFront(int records, String constant) {
    long[] observed = draw(spec(records, "requestdistribution", "zipfian", "zipfian.scattered", "false", "zipfianconstant", constant),
        records, 0);
    ChiSquare.assertFits(zipfProbabilities(records, Double.parseDouble(constant)), observed);
  }

  @ParameterizedTest
  @CsvSource({"1000,true", "1000,false", "1000000,true", "1000000,false"})
  void hotspotGivesTheHotSetItsShare(int records, boolean scattered) {
    WorkloadSpec spec = spec(records, "requestdistribution", "hotspot", "hotspotdatafraction", "0.1", "hotspotopnfraction", "0.7",
        "hotspot.scattered", Boolean.toString(scattered));
    long[] observed = draw(spec, records, 0);
    Scatter place = new Scatter(records);
    double[] expected = new double[records];
    Arrays.fill(expected, 0.3 / (0.9 * records));
    for (int rank = 0; rank < records / 10; rank++) {
      expected[scattered ? (int) place.apply(rank) : rank] = 0.7 / (0.1 * records);
    }
    ChiSquare.assertFits(expected, observed);
    long hotInFront = IntStream.range(0, records / 10).filter(i -> expected[i] > 1.0 / records).count();
    assertEquals(scattered ? 0.1 : 1, hotInFront / (0.1 * records), 0.05);
  }

  @ParameterizedTest
  @CsvSource({"900,100", "999000,1000"})
  void latestCountsBackFromTheNewestAcknowledgedInsert(int loaded, int inserted) {
    int records = loaded + inserted;
    long[] observed = draw(spec(loaded, "requestdistribution", "latest"), records, inserted);
    long[] byAge = new long[records];
    for (int i = 0; i < records; i++) {
      byAge[i] = observed[records - 1 - i];
    }
    ChiSquare.assertFits(zipfProbabilities(records, 0.99), byAge);
  }

  @Test
  void latestStaysExactWhileInsertsGoOn() {
    AcknowledgedInserts inserts = new AcknowledgedInserts(500, Shard.WHOLE, true);
    KeyChooser chooser = spec(500, "requestdistribution", "latest").keyChoosers(new KeySpace(0, 500, inserts), Shard.WHOLE)
        .create(0, 1, new SplittableRandom(17));
    int most = 1500;
    long[] observed = new long[most];
    double[] expected = new double[most];
    int drawsAtEach = 2_000;
    for (int records = 500; records <= most; records++) {
      double[] now = zipfProbabilities(records, 0.99);
      for (int age = 0; age < records; age++) {
        expected[age] += now[age] / (most - 499);
      }
      for (int i = 0; i < drawsAtEach; i++) {
        observed[records - 1 - (int) chooser.next()]++;
      }
      inserts.answered(inserts.take(1), 1, true);
    }
    ChiSquare.assertFits(expected, observed);
  }

  @ParameterizedTest
  @ValueSource(ints = {1_000, 1_000_000})
  void exponentialPutsItsPercentileIntoTheYoungestFraction(int records) {
    WorkloadSpec spec = spec(records, "requestdistribution", "exponential", "exponential.percentile", "95", "exponential.frac", "0.5");
    long[] observed = draw(spec, records, 0);
    double rate = -Math.log(0.05) / (0.5 * records);
    double[] expected = new double[records];
    double all = 1 - Math.exp(-rate * records);
    for (int age = 0; age < records; age++) {
      expected[records - 1 - age] = (Math.exp(-rate * age) - Math.exp(-rate * (age + 1))) / all;
    }
    ChiSquare.assertFits(expected, observed);
  }

  @ParameterizedTest
  @CsvSource({"0.5", "0.99", "1", "1.5", "3"})
  void latestIsAsFastAndAsExactWhenTheYoungestInsertsHaveFailed(String constant) {
    int loaded = 100;
    int failed = 1_000_000;
    WorkloadSpec spec = spec(loaded, "requestdistribution", "latest", "zipfianconstant", constant);
    AcknowledgedInserts inserts = new AcknowledgedInserts(loaded, Shard.WHOLE, true);
    // of the youngest loaded ones and a few inserts among the failed ones, the older are the rarer
    inserts.answered(inserts.take(3), 3, true);
    inserts.answered(inserts.take(2), 2, false);
    inserts.answered(inserts.take(5), 5, true);
    inserts.answered(inserts.take(failed), failed, false);
    double[] expected = new double[loaded + 10];
    for (int i = 0; i < expected.length; i++) {
      boolean absent = i == loaded + 3 || i == loaded + 4;
      expected[i] = absent ? 0 : Math.pow(failed + expected.length - i, -Double.parseDouble(constant));
    }
    double sum = Arrays.stream(expected).sum();
    KeyChooser chooser = spec.keyChoosers(new KeySpace(0, loaded, inserts), Shard.WHOLE).create(0, 1, new SplittableRandom(13));
    long[] observed = new long[expected.length];
    assertTimeoutPreemptively(Duration.ofSeconds(10), () -> {
      for (int i = 0; i < DRAWS; i++) {
        observed[(int) chooser.next()]++;
      }
    });
    ChiSquare.assertFits(Arrays.stream(expected).map(weight -> weight / sum).toArray(), observed);
  }

  @ParameterizedTest
  @CsvSource({"1,3,0.99", "1,1000,0.99", "2,1000,12", "7,1000,1", "500,100000,0.2", "99000,100000,2", "3,3000,1.0000001"})
  void zipfRanksFromOneOnHaveTheirExactProbabilities(int first, int n, double constant) {
    Zipf zipf = new Zipf(constant);
    SplittableRandom random = new SplittableRandom(3);
    long[] observed = new long[n - first];
    for (int i = 0; i < DRAWS; i++) {
      observed[(int) zipf.next(first, n, random) - first]++;
    }
    double[] weights = IntStream.range(first, n).mapToDouble(rank -> Math.pow((rank + 1.0) / (first + 1), -constant)).toArray();
    double sum = Arrays.stream(weights).sum();
    ChiSquare.assertFits(Arrays.stream(weights).map(weight -> weight / sum).toArray(), observed);
  }

  /** By age alone, none of the loaded keys would be drawn in the life of the universe. */
  @Test
  void exponentialPassesAMillionFailedInsertsAtOnce() {
    WorkloadSpec spec = spec(10, "requestdistribution", "exponential");
    AcknowledgedInserts inserts = new AcknowledgedInserts(10, Shard.WHOLE, true);
    inserts.answered(inserts.take(1_000_000), 1_000_000, false);
    KeyChooser chooser =
        spec.keyChoosers(new KeySpace(0, 10, inserts), Shard.WHOLE).create(0, 1, new SplittableRandom(13));
    assertTimeoutPreemptively(Duration.ofSeconds(10), () -> {
      for (int i = 0; i < DRAWS; i++) {
        assertEquals(9, chooser.next());
      }
    });
  }

  @ParameterizedTest
  @ValueSource(ints = {1_000, 1_000_000, 777})
  void aHistogramFileGivesItsWeightsToBlocksOfKeys(int records) throws IOException {
    int block = 100;
    StringBuilder file = new StringBuilder("BlockSize\t" + block + "\n");
    double[] expected = new double[records];
    SplittableRandom random = new SplittableRandom(9);
    for (int i = 0; i * block < records; i++) {
      int weight = i % 3 == 2 ? 0 : random.nextInt(1, 50);
      file.append(i).append('\t').append(weight).append('\n');
      Arrays.fill(expected, i * block, Math.min(records, (i + 1) * block), weight);
    }
    double sum = Arrays.stream(expected).sum();
    Path path = Files.writeString(folder.resolve("requests.hist"), file);
    long[] observed = draw(spec(records, "requestdistribution", "histogram", "requesthistogram", path.toString()), records, 0);
    ChiSquare.assertFits(Arrays.stream(expected).map(weight -> weight / sum).toArray(), observed);
  }

  @Test
  void sequentialThreadsTogetherVisitEveryKeyOnce() {
    WorkloadSpec spec = spec(999, "requestdistribution", "sequential");
    int[] visits = new int[999];
    for (int thread = 0; thread < 3; thread++) {
      KeyChooser chooser = spec.keyChoosers(space(999, 0, Shard.WHOLE), Shard.WHOLE).create(thread, 3, new SplittableRandom(1));
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
      KeyChooser chooser = spec(1000, "requestdistribution", "zipfian")
          .keyChoosers(space(1000, 0, new Shard(shard, 5)), new Shard(shard, 5)).create(0, 1, Mixing.stream(42, shard, 0, 0));
      for (int i = 0; i < DRAWS / 5; i++) {
        together[(int) chooser.next()]++;
      }
    }
    Scatter rankToKey = new Scatter(1000);
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
        spec.keyChoosers(space(spec.recordCount(), inserted, Shard.WHOLE), Shard.WHOLE).create(0, 1, new SplittableRandom(13));
    long[] observed = new long[keys];
    for (int i = 0; i < DRAWS; i++) {
      observed[(int) chooser.next()]++;
    }
    return observed;
  }

  private static KeySpace space(long records, int inserted, Shard shard) {
    AcknowledgedInserts inserts = new AcknowledgedInserts(records, shard, true);
    for (int i = 0; i < inserted; i++) {
      inserts.answered(inserts.take(1), 1, true);
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
