// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.Arrays;
import java.util.List;

/**
 * One operation as a binding sees it.
 *
 * <p>A logical client has one request and reuses it: a binding must copy what it wants to keep after its answer. A binding never sees a
 * read-modify-write: it is sent as a READ and, when that found the record, as an UPDATE.
 */
public final class Request {
  private final String table;
  private final int mostFields;
  private final int mostEdges;
  private final Item first;
  private Item[] items;
  private int size;
  private OperationType type;
  private List<String> fields;
  private int limit;
  private long secondary;
  private Filter filter;
  private long received;

  /**
   * @param mostFields most fields that a record may be given
   * @param mostEdges most edges that a record may be given
   */
  Request(String table, int mostFields, int mostEdges) {
    this.table = table;
    this.mostFields = mostFields;
    this.mostEdges = mostEdges;
    this.first = new Item(mostFields, mostEdges);
    this.items = new Item[] {first};
  }

  /** What to do. */
  public OperationType type() {
    return type;
  }

  /** The table or collection. */
  public String table() {
    return table;
  }

  /** Number of records named: 1, but for multi-gets and batch inserts. */
  public int size() {
    return size;
  }

  /** The {@code i}-th record. */
  public Item item(int i) {
    return items[i];
  }

  /** Key of the first record; where a scan or a traversal begins. */
  public Key key() {
    return first.key();
  }

  /** Fields to return, or null for all. */
  public List<String> fields() {
    return fields;
  }

  /** Most records to return: of a scan, a filtered scan or a secondary lookup; depth of a traversal in edges. */
  public int limit() {
    return limit;
  }

  /** What the records of a filtered scan must satisfy. */
  public Filter filter() {
    return filter;
  }

  /** The number to look for in the secondary field. */
  public long secondary() {
    return secondary;
  }

  /** To be told by the binding: how many records came back. */
  public void received(long records) {
    received = records;
  }

  /** How many records came back; 0 unless the binding said otherwise. */
  public long received() {
    return received;
  }

  /** The same request as one of its parts. */
  public Request as(OperationType part) {
    type = part;
    return this;
  }

  /** Becomes another request about one record, with nothing to write yet. */
  Item begin(OperationType newType) {
    type = newType;
    size = 1;
    received = 0;
    first.clear();
    return first;
  }

  /** Becomes another request about several records, with nothing to write yet. */
  void begin(OperationType newType, int newSize) {
    begin(newType);
    size = newSize;
    if (items.length < newSize) {
      int before = items.length;
      items = Arrays.copyOf(items, newSize);
      Arrays.setAll(items, i -> i < before ? items[i] : new Item(mostFields, mostEdges));
    }
    for (int i = 0; i < newSize; i++) {
      items[i].clear();
    }
  }

  void returning(List<String> wanted) {
    fields = wanted;
  }

  void setLimit(int records) {
    limit = records;
  }

  void setSecondary(long number) {
    secondary = number;
  }

  void setFilter(Filter wanted) {
    filter = wanted;
  }
}
