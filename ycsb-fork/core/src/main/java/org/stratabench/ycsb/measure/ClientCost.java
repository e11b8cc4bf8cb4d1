// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.OptionalLong;

/**
 * What the client process itself has used so far.
 *
 * @param cpuNs processor time of all threads
 * @param gcNs time spent in garbage collections, which the JVM gives in whole milliseconds
 * @param runQueueNs time that client threads were ready to run and had no processor; empty where the kernel does not tell
 */
public record ClientCost(long cpuNs, long gcNs, OptionalLong runQueueNs) {
  /** How the names of client threads begin. */
  public static final String THREAD_PREFIX = "client-";
  private static final Path TASKS = Path.of("/proc/self/task");

  /** The figures now. */
  public static ClientCost now() {
    long gcMs = ManagementFactory.getGarbageCollectorMXBeans().stream()
        .mapToLong(GarbageCollectorMXBean::getCollectionTime).filter(ms -> ms > 0).sum();
    return new ClientCost(ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class).getProcessCpuTime(), gcMs * 1_000_000L,
        runQueue());
  }

  /** The second number of every client thread's schedstat (Documentation/scheduler/sched-stats.rst of Linux). */
  private static OptionalLong runQueue() {
    long sum = 0;
    try (DirectoryStream<Path> tasks = Files.newDirectoryStream(TASKS)) {
      for (Path task : tasks) {
        if (Files.readString(task.resolve("comm")).startsWith(THREAD_PREFIX)) {
          sum += Long.parseLong(Files.readString(task.resolve("schedstat")).split(" ")[1]);
        }
      }
    } catch (IOException | RuntimeException e) {
      return OptionalLong.empty();
    }
    return OptionalLong.of(sum);
  }

  /** What was used since an earlier reading. */
  public ClientCost since(ClientCost earlier) {
    boolean known = runQueueNs.isPresent() && earlier.runQueueNs.isPresent();
    return new ClientCost(cpuNs - earlier.cpuNs, gcNs - earlier.gcNs,
        known ? OptionalLong.of(runQueueNs.getAsLong() - earlier.runQueueNs.getAsLong()) : OptionalLong.empty());
  }
}
