// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.SplittableRandom;

/** Says which operation comes next. */
public interface OperationMix {
  /**
   * The type of one operation.
   *
   * @param index number of the operation within this shard's phase, 0-based
   * @param random the calling thread's own stream
   */
  OperationType type(long index, SplittableRandom random);
}
