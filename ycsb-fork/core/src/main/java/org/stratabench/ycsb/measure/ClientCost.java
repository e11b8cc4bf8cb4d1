// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;

/**
 * What the client process itself has used so far.
 *
 * @param cpuNs processor time of all threads
 * @param gcNs time spent in garbage collections, which the JVM gives in whole milliseconds
 */
public record ClientCost(long cpuNs, long gcNs) {
  /** The figures now. */
  public static ClientCost now() {
    long gcMs = ManagementFactory.getGarbageCollectorMXBeans().stream()
        .mapToLong(GarbageCollectorMXBean::getCollectionTime).filter(ms -> ms > 0).sum();
    return new ClientCost(ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime(), gcMs * 1_000_000L);
  }

  /** What was used since an earlier reading. */
  public ClientCost since(ClientCost earlier) {
    return new ClientCost(cpuNs - earlier.cpuNs, gcNs - earlier.gcNs);
  }
}
