// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

/** The kinds of operation a workload mixes; the order breaks ties in the exact mix and numbers the codes of the operation log. */
public enum OperationType {
  READ("READ", "readproportion", 0.95),
  UPDATE("UPDATE", "updateproportion", 0.05),
  INSERT("INSERT", "insertproportion", 0),
  DELETE("DELETE", "deleteproportion", 0),
  SCAN("SCAN", "scanproportion", 0),
  READ_MODIFY_WRITE("READ-MODIFY-WRITE", "readmodifywriteproportion", 0),
  /** Several records by their keys in one request. */
  MULTI_GET("MULTI-GET", "multigetproportion", 0),
  /** Several new records in one request. */
  BATCH_INSERT("BATCH-INSERT", "batchinsertproportion", 0),
  /** Records from a key on, in key order, that satisfy a condition which the database evaluates. */
  FILTERED_SCAN("FILTERED-SCAN", "filteredscanproportion", 0),
  /** Records by a field that is not their key. */
  SECONDARY_LOOKUP("SECONDARY-LOOKUP", "secondarylookupproportion", 0),
  /** Records that edges lead to. */
  TRAVERSAL("TRAVERSAL", "traversalproportion", 0);

  private final String label;
  private final String property;
  private final double defaultProportion;

  OperationType(String label, String property, double defaultProportion) {
    this.label = label;
    this.property = property;
    this.defaultProportion = defaultProportion;
  }

  /** The name used in results, YCSB's where YCSB has one. */
  public String label() {
    return label;
  }

  /** The property that holds this operation's share. */
  public String property() {
    return property;
  }

  /** The share when the property is absent, YCSB's. */
  public double defaultProportion() {
    return defaultProportion;
  }
}
