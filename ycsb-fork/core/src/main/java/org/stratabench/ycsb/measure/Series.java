// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.util.ArrayList;
import java.util.List;
import org.stratabench.ycsb.workload.OperationType;

/**
 * One recorded distribution of times.
 *
 * @param type the operation
 * @param part null for the whole operation; READ or UPDATE for that part of a read-modify-write
 * @param failed whether it holds the failures (else OK and NOT_FOUND)
 * @param intended whether times count from the scheduled start (else from the real one)
 */
record Series(OperationType type, OperationType part, boolean failed, boolean intended) {
  /** All series, at the position that {@link #position} computes. */
  static final List<Series> ALL = all();

  private static List<Series> all() {
    List<Series> all = new ArrayList<>();
    for (OperationType type : OperationType.values()) {
      addFour(all, type, null);
    }
    addFour(all, OperationType.READ_MODIFY_WRITE, OperationType.READ);
    addFour(all, OperationType.READ_MODIFY_WRITE, OperationType.UPDATE);
    return List.copyOf(all);
  }

  private static void addFour(List<Series> all, OperationType type, OperationType part) {
    for (int i = 0; i < 4; i++) {
      all.add(new Series(type, part, i >= 2, i % 2 == 1));
    }
  }

  /** Where the series of a whole operation stands in {@link #ALL}. */
  static int position(OperationType type, boolean failed, boolean intended) {
    return type.ordinal() * 4 + (failed ? 2 : 0) + (intended ? 1 : 0);
  }

  /** Where the series of a part of a read-modify-write stands in {@link #ALL}. */
  static int partPosition(OperationType part, boolean failed, boolean intended) {
    int block = OperationType.values().length + (part == OperationType.READ ? 0 : 1);
    return block * 4 + (failed ? 2 : 0) + (intended ? 1 : 0);
  }

  /** Whether the series holds each of its operations once, by its real time. */
  boolean countsOperations() {
    return part == null && !intended;
  }

  /** The name of the series in files and result lines, such as {@code Intended-READ-FAILED} or {@code RMW-UPDATE}. */
  String label() {
    String operation = part == null ? type.label() : "RMW-" + part.label();
    return (intended ? "Intended-" : "") + operation + (failed ? "-FAILED" : "");
  }
}
