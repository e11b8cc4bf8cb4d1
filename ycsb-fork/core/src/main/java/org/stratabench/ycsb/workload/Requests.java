// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.HashMap;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.Vector;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;

/**
 * Prepares and executes one thread's operations.
 *
 * <p>{@link #prepare} chooses key, fields and value seeds, so that {@link #execute} holds little more than the database's own time.
 * Containers are reused: a binding must not keep them after it has answered.
 */
public final class Requests {
  private final WorkloadSpec spec;
  private final DB db;
  private final KeyChooser keys;
  private final AcknowledgedInserts inserts;
  private final SplittableRandom random;
  private final LengthChooser fieldLengths;
  private final LengthChooser scanLengths;

  private final HashMap<String, ByteIterator> values = new HashMap<>();
  private final HashMap<String, ByteIterator> result = new HashMap<>();
  private final Vector<HashMap<String, ByteIterator>> rows = new Vector<>();
  private OperationType type;
  private String key;
  private Set<String> fields;
  private int scanLength;
  private long insertNumber;
  private Status status;
  private String exceptionName;

  /**
   * @param inserts where run-phase inserts take their numbers
   * @param keys chooses the keys of all other operations; null in the load phase, which has none
   * @param random the thread's own stream
   */
  private Requests(WorkloadSpec spec, DB db, AcknowledgedInserts inserts, KeyChooser keys, SplittableRandom random) {
    this.spec = spec;
    this.db = db;
    this.inserts = inserts;
    this.keys = keys;
    this.random = random;
    this.fieldLengths = spec.fieldLengths();
    this.scanLengths = spec.scanLengths();
  }

  /** The inserts of the load phase. */
  public static Requests forLoad(WorkloadSpec spec, DB db, SplittableRandom random) {
    return new Requests(spec, db, null, null, random);
  }

  /** The mixed operations of the run phase, for one thread of one shard. */
  public static Requests forRun(WorkloadSpec spec, DB db, AcknowledgedInserts inserts, Shard shard, int thread, int threads,
      SplittableRandom random) {
    KeySpace space = new KeySpace(spec.insertStart(), spec.insertCount(), inserts);
    return new Requests(spec, db, inserts, spec.keyChooser(space, shard, thread, threads, random), random);
  }

  /** Chooses everything about the next operation of the run phase. */
  public void prepare(OperationType next) {
    type = next;
    if (next == OperationType.INSERT) {
      insertNumber = inserts.take();
      key = spec.keyNames().name(inserts.keyNumber(insertNumber));
      drawAllValues();
      return;
    }
    key = spec.keyNames().name(keys.next());
    switch (next) {
      case READ -> drawFields();
      case UPDATE -> drawUpdate();
      case SCAN -> {
        scanLength = scanLengths.next(random);
        drawFields();
      }
      case READ_MODIFY_WRITE -> {
        drawFields();
        drawUpdate();
      }
      default -> { }
    }
  }

  /** Chooses the values of one record of the load phase. */
  public void prepareLoad(long keyNumber) {
    type = OperationType.INSERT;
    key = spec.keyNames().name(keyNumber);
    drawAllValues();
  }

  /** Sends the prepared operation and waits for its answer. */
  public Outcome execute() {
    exceptionName = null;
    try {
      status = send();
    } catch (RuntimeException e) {
      status = Status.ERROR;
      exceptionName = e.getClass().getSimpleName();
    }
    Outcome outcome = outcome(status);
    if (type == OperationType.INSERT && inserts != null) {
      inserts.answered(insertNumber, outcome == Outcome.OK);
    }
    return outcome;
  }

  private Status send() {
    String table = spec.table();
    return switch (type) {
      case READ -> read(table);
      case UPDATE -> db.update(table, key, values);
      case INSERT -> db.insert(table, key, values);
      case DELETE -> db.delete(table, key);
      case SCAN -> {
        rows.clear();
        yield db.scan(table, key, scanLength, fields, rows);
      }
      case READ_MODIFY_WRITE -> {
        Status read = read(table);
        // what was not read cannot be modified, and writing it would bring a deleted record half back
        yield read.isOk() ? db.update(table, key, values) : read;
      }
    };
  }

  private Status read(String table) {
    result.clear();
    return db.read(table, key, fields, result);
  }

  private static Outcome outcome(Status status) {
    if (status.isOk()) {
      return Outcome.OK;
    }
    return status.getName().equals(Status.NOT_FOUND.getName()) ? Outcome.NOT_FOUND : Outcome.FAILED;
  }

  /** Why the last operation failed: an exception's simple name or the name of the binding's status. */
  public String failureCause() {
    return exceptionName == null ? status.getName() : exceptionName;
  }

  /** The last operation's key. */
  public String key() {
    return key;
  }

  private void drawFields() {
    fields = spec.readAllFields() ? null : Set.of(randomField());
  }

  private void drawUpdate() {
    if (spec.writeAllFields()) {
      drawAllValues();
    } else {
      values.clear();
      values.put(randomField(), randomValue());
    }
  }

  private void drawAllValues() {
    values.clear();
    for (String field : spec.fieldNames()) {
      values.put(field, randomValue());
    }
  }

  private String randomField() {
    return spec.fieldNames().get(random.nextInt(spec.fieldNames().size()));
  }

  private RandomValue randomValue() {
    return new RandomValue(random.nextLong(), fieldLengths.next(random));
  }

}
