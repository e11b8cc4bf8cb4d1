// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.List;
import java.util.SplittableRandom;

/**
 * Chooses everything about one logical client's next operation before its time begins: key, fields, lengths and value seeds.
 *
 * <p>One generator fills one {@link Request} again and again.
 */
public final class RequestGenerator {
  /** What the generators of all of a shard's clients share. */
  public static final class Shared {
    private final WorkloadSpec spec;
    private final AcknowledgedInserts inserts;
    private final KeyChoosers choosers;
    private final List<List<String>> singleFields;
    private final long secondaryValues;

    /** @param shard whose inserts and requests these are */
    public Shared(WorkloadSpec spec, Shard shard) {
      this.spec = spec;
      this.inserts = new AcknowledgedInserts(spec.recordCount(), shard, spec.followsInserts());
      this.choosers = spec.keyChoosers(new KeySpace(spec.insertStart(), spec.insertCount(), inserts), shard);
      this.singleFields = spec.fieldNames().stream().map(List::of).toList();
      this.secondaryValues = Math.max(1, spec.recordCount() / spec.multiStep().recordsPerSecondary());
    }
  }

  private static final long SECONDARY_SEED = 0x5345434F4E444152L;
  private static final long EDGE_SEED = 0x45444745L;
  private static final int AHEAD = 64;

  private final Shared shared;
  private final WorkloadSpec spec;
  private final MultiStep multiStep;
  private final KeyChooser keys;
  private final KeyNames names;
  private final SplittableRandom random;
  private final Request request;
  private long firstInsert = -1;
  // what the keys of the next requests will show: drawn many at once, which costs less, for none has to wait for another; but where requests
  // follow the inserts, only the next one's
  private final long[] ahead;
  private int used;

  /**
   * @param client 0-based, of {@code clients}
   * @param random the client's own stream
   */
  public RequestGenerator(Shared shared, int client, int clients, SplittableRandom random) {
    this.shared = shared;
    this.spec = shared.spec;
    this.multiStep = spec.multiStep();
    this.keys = shared.choosers.create(client, clients, random);
    this.random = random;
    this.request = new Request(spec.table(), spec.fieldNames().size(), multiStep.edgesPerRecord());
    this.names = spec.keyNames();
    this.ahead = new long[spec.followsInserts() ? 1 : AHEAD];
    drawAhead();
  }

  /** The request that {@link #prepare} fills. */
  public Request request() {
    return request;
  }

  /** Makes the request the next operation of the run phase. */
  public void prepare(OperationType type) {
    // apart from the rest: a method as long as all cases together would not be inlined
    if (type == OperationType.READ || type == OperationType.UPDATE) {
      Item item = name(type);
      if (type == OperationType.UPDATE) {
        drawUpdate(item);
      } else {
        drawFields();
      }
    } else {
      prepareOther(type);
    }
  }

  private void prepareOther(OperationType type) {
    switch (type) {
      case DELETE -> name(type);
      case READ_MODIFY_WRITE -> {
        drawUpdate(name(type));
        drawFields();
      }
      case INSERT -> insert(type, 1);
      case BATCH_INSERT -> insert(type, multiStep.batchInsertSize());
      case MULTI_GET -> {
        request.begin(type, multiStep.multiGetSize());
        for (int i = 0; i < request.size(); i++) {
          names.name(keys.next(), request.item(i).key());
        }
        drawFields();
      }
      case SCAN, FILTERED_SCAN -> {
        name(type);
        drawFields();
        request.setLimit(spec.scanLengths().next(random));
        request.setFilter(type == OperationType.SCAN ? null : multiStep.filter());
      }
      case SECONDARY_LOOKUP -> {
        request.begin(type);
        long keyNumber = keys.next();
        names.name(keyNumber, request.key());
        request.setSecondary(secondaryOf(keyNumber));
        request.setLimit(multiStep.secondaryLimit());
        drawFields();
      }
      case TRAVERSAL -> {
        name(type);
        request.setLimit(multiStep.traversalDepth());
      }
      default -> throw new IllegalArgumentException(type.label());
    }
  }

  /** Makes the request the insert of one record of the load phase. */
  public void prepareLoad(long keyNumber) {
    drawRecord(request.begin(OperationType.INSERT), keyNumber);
  }

  /** Notes what became of the request; to be called once for each that was prepared in the run phase. */
  public void answered(boolean acknowledged) {
    if (firstInsert >= 0) {
      shared.inserts.answered(firstInsert, request.size(), acknowledged);
      firstInsert = -1;
    }
  }

  private Item name(OperationType type) {
    Item item = request.begin(type);
    names.spell(ahead[used++], item.key());
    if (used == ahead.length) {
      drawAhead();
    }
    return item;
  }

  private void drawAhead() {
    for (int i = 0; i < ahead.length; i++) {
      ahead[i] = names.digits(keys.next());
    }
    used = 0;
  }

  private void insert(OperationType type, int count) {
    request.begin(type, count);
    firstInsert = shared.inserts.take(count);
    for (int i = 0; i < count; i++) {
      drawRecord(request.item(i), shared.inserts.keyNumber(firstInsert + i));
    }
  }

  private void drawRecord(Item item, long keyNumber) {
    names.name(keyNumber, item.key());
    drawAllValues(item);
    if (multiStep.secondaryField() != null) {
      item.setSecondary(secondaryOf(keyNumber));
    }
    item.setEdgeCount(multiStep.edgesPerRecord());
    for (int i = 0; i < multiStep.edgesPerRecord(); i++) {
      names.name(edgeOf(keyNumber, i), item.edge(i));
    }
  }

  /** The secondary value of a record follows from its key number, so that every client knows which values there are. */
  private long secondaryOf(long keyNumber) {
    return Long.remainderUnsigned(Mixing.mix(keyNumber + SECONDARY_SEED), shared.secondaryValues);
  }

  /** Edges lead to loaded records, the same ones whichever client makes them. */
  private long edgeOf(long keyNumber, int edge) {
    return spec.insertStart() + Long.remainderUnsigned(Mixing.seed(keyNumber, edge, 0, 0) ^ EDGE_SEED, spec.insertCount());
  }

  private void drawFields() {
    request.returning(spec.readAllFields() ? null : randomField());
  }

  private void drawUpdate(Item item) {
    if (spec.writeAllFields()) {
      drawAllValues(item);
    } else {
      item.write(randomField());
      drawValue(item.value(0));
    }
  }

  private void drawAllValues(Item item) {
    item.write(spec.fieldNames());
    for (int i = 0; i < spec.fieldNames().size(); i++) {
      drawValue(item.value(i));
    }
  }

  private List<String> randomField() {
    return shared.singleFields.get((int) Mixing.below(shared.singleFields.size(), random));
  }

  private void drawValue(Value value) {
    int length = spec.fieldLengths().next(random);
    value.set(random.nextLong(), length, spec.randomBytes(length));
  }
}
