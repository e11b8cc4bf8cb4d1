// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

/**
 * A stretch of a phase: the warm-up or what is measured.
 *
 * @param startMonoNs monotonic instant of its first scheduled operation
 * @param untilMonoNs instant from which no operation begins, or {@link Long#MAX_VALUE}
 * @param operations of all clients of this process, or {@link Long#MAX_VALUE}
 * @param measured whether it counts
 */
record Window(long startMonoNs, long untilMonoNs, long operations, boolean measured) { }
