// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.stratabench.ycsb.Settings;

/** The workload as the properties describe it: YCSB's CoreWorkload with its names and defaults, and {@code deleteproportion}. */
public final class WorkloadSpec {
  private static final List<String> SUPPORTED_CLASSES =
      List.of("site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload");
  private static final int PURPOSE_EXACT_ORDER = 1;

  private final String table;
  private final long recordCount;
  private final long insertStart;
  private final long insertCount;
  private final List<String> fieldNames;
  private final String fieldLengthDistribution;
  private final int minFieldLength;
  private final int fieldLength;
  private final boolean readAllFields;
  private final boolean writeAllFields;
  private final double[] proportions;
  private final boolean exactMix;
  private final String requestDistribution;
  private final double zipfianConstant;
  private final double hotspotDataFraction;
  private final double hotspotOperationFraction;
  private final double exponentialPercentile;
  private final double exponentialFraction;
  private final KeyNames keyNames;
  private final String scanLengthDistribution;
  private final int minScanLength;
  private final int maxScanLength;

  /** Reads and checks every workload property; refuses what it cannot do by name. */
  public WorkloadSpec(Settings settings) {
    refuseUnsupported(settings);
    table = settings.text("table", "usertable");
    recordCount = settings.count("recordcount", 0);
    insertStart = settings.count("insertstart", 0);
    insertCount = settings.wholeNumber("insertcount", Math.max(0, recordCount - insertStart), 0, Long.MAX_VALUE - insertStart);
    if (insertStart + insertCount > recordCount) {
      throw Settings.refuse("recordcount", Long.toString(recordCount),
          "must be at least insertstart + insertcount = " + (insertStart + insertCount));
    }
    int fieldCount = (int) settings.wholeNumber("fieldcount", 10, 1, 100_000);
    String prefix = settings.text("fieldnameprefix", "field");
    fieldNames = IntStream.range(0, fieldCount).mapToObj(i -> prefix + i).toList();
    fieldLengthDistribution = settings.choice("fieldlengthdistribution", "constant", "constant", "uniform", "zipfian");
    fieldLength = (int) settings.wholeNumber("fieldlength", 100, 1, 1 << 30);
    minFieldLength = (int) settings.wholeNumber("minfieldlength", 1, 0, fieldLength);
    readAllFields = settings.flag("readallfields", true);
    writeAllFields = settings.flag("writeallfields", false);
    proportions = readProportions(settings);
    exactMix = settings.choice("operation.mix", "random", "random", "exact").equals("exact");
    requestDistribution = settings.choice("requestdistribution", "uniform",
        "uniform", "zipfian", "latest", "hotspot", "exponential", "sequential");
    zipfianConstant = settings.number("zipfianconstant", 0.99, 0.01, 10);
    hotspotDataFraction = settings.number("hotspotdatafraction", 0.2, 0, 1);
    hotspotOperationFraction = settings.number("hotspotopnfraction", 0.8, 0, 1);
    exponentialPercentile = settings.number("exponential.percentile", 95, 0.001, 99.999999);
    exponentialFraction = settings.number("exponential.frac", 0.8571428571, 1e-9, 1);
    boolean hashed = settings.choice("insertorder", "hashed", "hashed", "ordered").equals("hashed");
    keyNames = new KeyNames(hashed, (int) settings.wholeNumber("zeropadding", 1, 0, 1000));
    scanLengthDistribution = settings.choice("scanlengthdistribution", "uniform", "uniform", "zipfian");
    maxScanLength = (int) settings.wholeNumber("maxscanlength", 1000, 1, Integer.MAX_VALUE);
    minScanLength = (int) settings.wholeNumber("minscanlength", 1, 1, maxScanLength);
  }

  private static void refuseUnsupported(Settings settings) {
    String workload = settings.text("workload", SUPPORTED_CLASSES.get(0));
    if (!SUPPORTED_CLASSES.contains(workload)) {
      throw Settings.refuse("workload", workload, "is not supported; use " + SUPPORTED_CLASSES.get(0));
    }
    if (settings.flag("dataintegrity", false)) {
      throw Settings.refuse("dataintegrity", "true", "is not supported; remove it");
    }
    if (settings.count("core_workload_insertion_retry_limit", 0) > 0) {
      throw Settings.refuse("core_workload_insertion_retry_limit", settings.text("core_workload_insertion_retry_limit", ""),
          "is not supported; failed inserts are counted, retries are the database client's");
    }
  }

  private static double[] readProportions(Settings settings) {
    OperationType[] types = OperationType.values();
    double[] proportions = new double[types.length];
    for (OperationType type : types) {
      proportions[type.ordinal()] = settings.number(type.property(), type.defaultProportion(), 0, Double.MAX_VALUE);
    }
    if (Arrays.stream(proportions).sum() <= 0) {
      throw Settings.refuse("readproportion", Double.toString(proportions[0]),
          "and all other proportions are 0; at least one must be above 0");
    }
    return proportions;
  }

  /** What decides the type of each of a shard's operations. */
  public OperationMix mix(long operations, long seed, Shard shard) {
    if (exactMix && operations > 0) {
      return new ExactMix(operations, proportions, Mixing.seed(seed, shard.index(), 0, PURPOSE_EXACT_ORDER));
    }
    return new RandomMix(proportions);
  }

  /** A mix without exact counts, for operations that are not measured. */
  public OperationMix randomMix() {
    return new RandomMix(proportions);
  }

  /** Whether {@code operation.mix=exact} was asked for. */
  public boolean exactMix() {
    return exactMix;
  }

  /** A new chooser of value lengths, in bytes. */
  LengthChooser fieldLengths() {
    return LengthChooser.create(fieldLengthDistribution, minFieldLength, fieldLength, zipfianConstant);
  }

  /** A new chooser of scan lengths, in records. */
  LengthChooser scanLengths() {
    return LengthChooser.create(scanLengthDistribution, minScanLength, maxScanLength, zipfianConstant);
  }

  /** A new chooser of requested keys for one thread. */
  KeyChooser keyChooser(KeySpace keys, Shard shard, int thread, int threads, SplittableRandom random) {
    return KeyChoosers.create(this, keys, shard, thread, threads, random);
  }

  /** The table's name. */
  public String table() {
    return table;
  }

  /** Number of records that the load phase of all shards together leaves, and the first key number that run-phase inserts may use. */
  public long recordCount() {
    return recordCount;
  }

  /** First key number of the load phase over all shards. */
  public long insertStart() {
    return insertStart;
  }

  /** Number of keys the load phase inserts over all shards. */
  public long insertCount() {
    return insertCount;
  }

  List<String> fieldNames() {
    return fieldNames;
  }

  boolean readAllFields() {
    return readAllFields;
  }

  boolean writeAllFields() {
    return writeAllFields;
  }

  String requestDistribution() {
    return requestDistribution;
  }

  double zipfianConstant() {
    return zipfianConstant;
  }

  double hotspotDataFraction() {
    return hotspotDataFraction;
  }

  double hotspotOperationFraction() {
    return hotspotOperationFraction;
  }

  double exponentialPercentile() {
    return exponentialPercentile;
  }

  double exponentialFraction() {
    return exponentialFraction;
  }

  KeyNames keyNames() {
    return keyNames;
  }
}
