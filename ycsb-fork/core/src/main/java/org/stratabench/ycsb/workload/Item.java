// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.List;

/** One record of a request: its key and, where the request writes, the fields to write. */
public final class Item {
  private final Key key = new Key();
  private final Value[] values;
  private final Key[] edges;
  private List<String> fields = List.of();
  private long secondary = -1;
  private int edgeCount;

  Item(int mostFields, int mostEdges) {
    values = new Value[mostFields];
    for (int i = 0; i < mostFields; i++) {
      values[i] = new Value();
    }
    edges = new Key[mostEdges];
    for (int i = 0; i < mostEdges; i++) {
      edges[i] = new Key();
    }
  }

  /** The record's key; valid until the request has been answered. */
  public Key key() {
    return key;
  }

  /** Names of the fields to write, in the order of {@link #value}; empty when nothing is written. */
  public List<String> fields() {
    return fields;
  }

  /** What to write into the {@code i}-th of {@link #fields}. */
  public Value value(int i) {
    return values[i];
  }

  /** The number to store in the secondary field of a new record, or -1 when the workload has none. */
  public long secondary() {
    return secondary;
  }

  /** How many edges lead from a new record to others; 0 when the workload has no graph. */
  public int edgeCount() {
    return edgeCount;
  }

  /** Where the {@code i}-th edge of a new record leads. */
  public Key edge(int i) {
    return edges[i];
  }

  /** Forgets what an earlier request wrote. */
  void clear() {
    fields = List.of();
    secondary = -1;
    edgeCount = 0;
  }

  void write(List<String> fieldNames) {
    fields = fieldNames;
  }

  void setSecondary(long number) {
    secondary = number;
  }

  void setEdgeCount(int count) {
    edgeCount = count;
  }
}
