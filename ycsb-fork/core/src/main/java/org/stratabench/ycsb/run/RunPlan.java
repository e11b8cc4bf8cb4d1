// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.util.concurrent.ThreadLocalRandom;
import org.stratabench.ycsb.Options;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.workload.Shard;
import org.stratabench.ycsb.workload.WorkloadSpec;

/**
 * Everything a run needs to know, checked.
 *
 * @param phase load or run
 * @param spec the workload
 * @param shard which part of it is this client's
 * @param threads number of client threads
 * @param clients number of logical clients; as many as threads unless the binding is driven asynchronously
 * @param asynchronous whether threads drive many clients each
 * @param targetPerSecond operations a second of all clients in an open loop, 0 in a closed loop
 * @param poisson whether arrivals in an open loop are Poisson (else constant)
 * @param seed of all random streams
 * @param keyStart first key number of a load
 * @param planned number of measured operations, {@link Long#MAX_VALUE} when only time ends the run
 * @param warmupOperations operations before the measured window, or 0
 * @param warmupNs time before the measured window, or 0
 * @param limitNs longest measured window, or {@link Long#MAX_VALUE}
 * @param errorBound share of failures above which the client fails
 * @param silenceNs time without a success after which failures end the run, or 0 for never
 * @param hangNs time without any answer to operations under way after which an asynchronous driver is given up, or 0 for never
 * @param operationLog whether {@code ops.bin} is wanted
 * @param statusIntervalNs time between two progress lines
 */
public record RunPlan(Options.Phase phase, WorkloadSpec spec, Shard shard, int threads, int clients, boolean asynchronous,
    double targetPerSecond, boolean poisson, long seed, long keyStart, long planned, long warmupOperations, long warmupNs, long limitNs,
    double errorBound, long silenceNs, long hangNs, boolean operationLog, long statusIntervalNs) {
  private static final long SECOND_NS = 1_000_000_000L;
  private static final long LONGEST_S = 10L * 365 * 24 * 3600;
  /** The operation log numbers clients in 16 bits. */
  private static final int MOST_CLIENTS = 65_535;

  /** Reads and checks all properties of the client and its workload. */
  public static RunPlan create(Options options, Settings settings) {
    WorkloadSpec spec = new WorkloadSpec(settings);
    Shard shard = options.shard();
    boolean load = options.phase() == Options.Phase.LOAD;
    if (spec.insertCount() == 0) {
      settings.reject("recordcount", Long.toString(spec.recordCount()), "must be at least 1 (number of records of all shards)");
    }
    long limitSeconds = settings.wholeNumber("maxexecutiontime", 0, 0, LONGEST_S);
    long warmupOperations = load ? 0 : settings.count("warmup.operations", 0);
    double warmupSeconds = load ? 0 : settings.number("warmup.seconds", 0, 0, LONGEST_S);
    if (warmupOperations > 0 && warmupSeconds > 0) {
      settings.reject("warmup.seconds", settings.text("warmup.seconds", ""), "excludes warmup.operations; give one of them");
    }
    int threads = (int) settings.wholeNumber("threadcount", 1, 1, MOST_CLIENTS);
    int clients = (int) settings.wholeNumber("clients", 0, 0, MOST_CLIENTS);
    if (clients > 0 && clients < threads) {
      settings.reject("clients", Integer.toString(clients), "must be at least threadcount=" + threads);
    }
    double target = settings.number("target", 0, 0, 1e9);
    String arrival = settings.choice("arrival", "constant", "constant", "poisson");
    if (arrival.equals("poisson") && target == 0) {
      settings.reject("arrival", arrival, "needs a rate; give -target");
    }
    return new RunPlan(options.phase(), spec, shard, threads, clients == 0 ? threads : clients, clients > 0, target, arrival.equals("poisson"),
        settings.wholeNumber("seed", ThreadLocalRandom.current().nextLong(Long.MAX_VALUE), Long.MIN_VALUE, Long.MAX_VALUE),
        spec.insertStart() + shard.start(spec.insertCount()),
        load ? shard.share(spec.insertCount()) : runOperations(settings, spec, shard, limitSeconds),
        warmupOperations, (long) (warmupSeconds * SECOND_NS),
        limitSeconds == 0 ? Long.MAX_VALUE : limitSeconds * SECOND_NS,
        settings.number("error.bound", 0, 0, 1),
        settings.wholeNumber("error.silence.seconds", 60, 0, LONGEST_S) * SECOND_NS,
        settings.wholeNumber("error.hang.seconds", 600, 0, LONGEST_S) * SECOND_NS,
        settings.flag("oplog", true),
        settings.wholeNumber("status.interval", 10, 1, 86_400) * SECOND_NS);
  }

  private static long runOperations(Settings settings, WorkloadSpec spec, Shard shard, long limitSeconds) {
    long total = settings.count("operationcount", 0);
    if (total > 0) {
      return shard.share(total);
    }
    if (limitSeconds == 0) {
      settings.reject("operationcount", "0", "must be at least 1 where there is no maxexecutiontime");
    } else if (spec.exactMix()) {
      settings.reject("operation.mix", "exact", "needs operationcount");
    }
    return Long.MAX_VALUE;
  }

  /** Whether operations have a schedule ({@code -target}). */
  public boolean openLoop() {
    return targetPerSecond > 0;
  }

  /** Whether there is anything before the measured window. */
  public boolean hasWarmup() {
    return warmupOperations > 0 || warmupNs > 0;
  }

  /** Whether the number of measured operations is known beforehand. */
  public boolean counted() {
    return planned != Long.MAX_VALUE;
  }
}
