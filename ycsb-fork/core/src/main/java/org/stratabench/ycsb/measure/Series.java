// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.stratabench.ycsb.workload.OperationType;

/**
 * One recorded distribution of times.
 *
 * @param type the operation
 * @param failed whether it holds the failures (else OK and NOT_FOUND)
 * @param intended whether times count from the scheduled start (else from the real one)
 */
record Series(OperationType type, boolean failed, boolean intended) {
  /** All series, at the position that {@link #position} computes. */
  static final List<Series> ALL = Arrays.stream(OperationType.values())
      .flatMap(type -> Stream.of(false, true)
          .flatMap(failed -> Stream.of(false, true).map(intended -> new Series(type, failed, intended))))
      .toList();

  /** Where a series stands in {@link #ALL}. */
  static int position(OperationType type, boolean failed, boolean intended) {
    return type.ordinal() * 4 + (failed ? 2 : 0) + (intended ? 1 : 0);
  }

  /** The name of the series in files and result lines, such as {@code Intended-READ-FAILED}. */
  String label() {
    return (intended ? "Intended-" : "") + type.label() + (failed ? "-FAILED" : "");
  }
}
