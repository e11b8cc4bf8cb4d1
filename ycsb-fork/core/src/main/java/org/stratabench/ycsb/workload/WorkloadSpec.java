// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.stratabench.ycsb.Settings;

/** The workload as the properties describe it: YCSB's CoreWorkload with its names and defaults, deletes, and operations of several steps. */
public final class WorkloadSpec {
  private static final List<String> SUPPORTED_CLASSES =
      List.of("site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload");
  private static final int MOST_AT_ONCE = 100_000;
  private static final int PURPOSE_EXACT_ORDER = 1;
  private static final int PURPOSE_RANDOM_MIX = 2;

  private final String table;
  private final long recordCount;
  private final long insertStart;
  private final long insertCount;
  private final List<String> fieldNames;
  private final LengthChooser fieldLengths;
  private final double compressibility;
  private final boolean readAllFields;
  private final boolean writeAllFields;
  private final double[] proportions;
  private final boolean exactMix;
  private final RequestDistribution requestDistribution;
  private final KeyNames keyNames;
  private final LengthChooser scanLengths;
  private final MultiStep multiStep;

  /** Reads and checks every workload property; refuses what it cannot do by name. */
  public WorkloadSpec(Settings settings) {
    refuseUnsupported(settings);
    table = settings.text("table", "usertable");
    recordCount = settings.count("recordcount", 0);
    insertStart = settings.count("insertstart", 0);
    insertCount = settings.wholeNumber("insertcount", Math.max(0, recordCount - insertStart), 0, Long.MAX_VALUE - insertStart);
    if (insertStart + insertCount > recordCount) {
      settings.reject("recordcount", Long.toString(recordCount),
          "must be at least insertstart + insertcount = " + (insertStart + insertCount));
    }
    int fieldCount = (int) settings.wholeNumber("fieldcount", 10, 1, MOST_AT_ONCE);
    String prefix = settings.text("fieldnameprefix", "field");
    fieldNames = IntStream.range(0, fieldCount).mapToObj(i -> prefix + i).toList();
    requestDistribution = RequestDistribution.from(settings);
    fieldLengths = fieldLengths(settings, requestDistribution.zipfianConstant());
    compressibility = settings.number("value.compressibility", 0, 0, 0.95);
    readAllFields = settings.flag("readallfields", true);
    writeAllFields = settings.flag("writeallfields", false);
    proportions = readProportions(settings);
    exactMix = settings.choice("operation.mix", "random", "random", "exact").equals("exact");
    boolean hashed = settings.choice("insertorder", "hashed", "hashed", "ordered").equals("hashed");
    keyNames = new KeyNames(hashed, (int) settings.wholeNumber("zeropadding", 1, 0, 1000));
    int maxScanLength = (int) settings.wholeNumber("maxscanlength", 1000, 1, Integer.MAX_VALUE);
    int minScanLength = (int) settings.wholeNumber("minscanlength", 1, 1, maxScanLength);
    scanLengths = LengthChooser.create(settings.choice("scanlengthdistribution", "uniform", "uniform", "zipfian"),
        minScanLength, maxScanLength, requestDistribution.zipfianConstant());
    multiStep = MultiStep.from(settings, fieldNames, proportions);
  }

  private static void refuseUnsupported(Settings settings) {
    String workload = settings.text("workload", SUPPORTED_CLASSES.get(0));
    if (!SUPPORTED_CLASSES.contains(workload)) {
      settings.reject("workload", workload, "is not supported; use " + SUPPORTED_CLASSES.get(0));
    }
    if (settings.flag("dataintegrity", false)) {
      settings.reject("dataintegrity", "true", "is not supported; remove it");
    }
    if (settings.count("core_workload_insertion_retry_limit", 0) > 0) {
      settings.reject("core_workload_insertion_retry_limit", settings.text("core_workload_insertion_retry_limit", ""),
          "is not supported; failed inserts are counted, retries are the database client's");
    }
  }

  private static LengthChooser fieldLengths(Settings settings, double zipfianConstant) {
    String distribution = settings.choice("fieldlengthdistribution", "constant", "constant", "uniform", "zipfian", "histogram");
    if (distribution.equals("histogram")) {
      Histogram histogram = Histogram.read(settings, "fieldlengthhistogram", "hist.txt");
      if (histogram.greatestLength() > Settings.MOST_BYTES) {
        settings.reject("fieldlengthhistogram", settings.text("fieldlengthhistogram", "hist.txt"), "has values over 1 GiB");
      }
      return random -> (int) histogram.nextLength(random);
    }
    int most = (int) settings.wholeNumber("fieldlength", 100, 1, Settings.MOST_BYTES);
    int least = (int) settings.wholeNumber("minfieldlength", 1, 0, most);
    return LengthChooser.create(distribution, least, most, zipfianConstant);
  }

  private static double[] readProportions(Settings settings) {
    OperationType[] types = OperationType.values();
    double[] proportions = new double[types.length];
    for (OperationType type : types) {
      proportions[type.ordinal()] = settings.number(type.property(), type.defaultProportion(), 0, Double.MAX_VALUE);
    }
    if (Arrays.stream(proportions).sum() <= 0) {
      settings.reject("readproportion", Double.toString(proportions[0]),
          "and all other proportions are 0; at least one must be above 0");
    }
    return proportions;
  }

  /**
   * What decides the types of one client's operations, counted or as they come.
   *
   * @param operations of all this shard's clients; ignored unless {@code operation.mix=exact}
   * @param measured false for operations that no exact count covers
   */
  public OperationMix mix(long operations, boolean measured, long seed, Shard shard, int client, int clients) {
    if (exactMix && measured) {
      long[] counts = OperationMix.part(Apportionment.split(operations, proportions), client, clients);
      return OperationMix.exact(counts, Mixing.stream(seed, shard.index(), client, PURPOSE_EXACT_ORDER));
    }
    return OperationMix.random(proportions, Mixing.stream(seed, shard.index(), client, PURPOSE_RANDOM_MIX));
  }

  /** Whether {@code operation.mix=exact} was asked for. */
  public boolean exactMix() {
    return exactMix;
  }

  /** The operations that have a share above 0. */
  public Set<OperationType> operations() {
    EnumSet<OperationType> wanted = EnumSet.noneOf(OperationType.class);
    for (OperationType type : OperationType.values()) {
      if (proportions[type.ordinal()] > 0) {
        wanted.add(type);
      }
    }
    return wanted;
  }

  /** The requested keys of all clients of a shard. */
  KeyChoosers keyChoosers(KeySpace keys, Shard shard) {
    return new KeyChoosers(requestDistribution, keys, shard);
  }

  /** Whether requests include what the run inserts, so that somebody must know what has been acknowledged. */
  public boolean followsInserts() {
    return requestDistribution.followsInserts();
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

  /** Names of a record's fields. */
  public List<String> fieldNames() {
    return fieldNames;
  }

  /** What goes beyond YCSB's operations. */
  public MultiStep multiStep() {
    return multiStep;
  }

  /** How keys are spelt. */
  public KeyNames keyNames() {
    return keyNames;
  }

  /** Lengths of field values, in bytes. */
  LengthChooser fieldLengths() {
    return fieldLengths;
  }

  /** Lengths of scans, in records. */
  LengthChooser scanLengths() {
    return scanLengths;
  }

  /** How many bytes of a value of {@code length} bytes are random; the others compress away. */
  int randomBytes(int length) {
    return length - (int) (length * compressibility);
  }

  boolean readAllFields() {
    return readAllFields;
  }

  boolean writeAllFields() {
    return writeAllFields;
  }
}
