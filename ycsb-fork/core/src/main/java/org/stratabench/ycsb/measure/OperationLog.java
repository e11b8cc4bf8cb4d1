// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.measure;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Outcome;
import org.stratabench.ycsb.workload.Shard;

/**
 * The file {@code ops.bin}: a header and one record for each measured operation, in no particular order.
 *
 * <p>A record takes one slot of 16 bytes, and a second one only where it does not fit: bytes are what the log costs, in the kernel and in the caches.
 *
 * <p>One thread writes for all: a client thread waits neither for the disk (unless that is slower than the operations) nor for another client
 * thread, and one that is interrupted in a database call that hangs does not close the channel with it.
 */
public final class OperationLog implements Closeable {
  private static final int SLOT_BYTES = 16;
  private static final int SLOT_WORDS = SLOT_BYTES / Long.BYTES;
  private static final int BUFFER_BYTES = 64 * 1024;
  // what a thread keeps to itself, and loses when the process is killed; the histogram logs keep as much
  private static final long MOST_KEPT_NS = 1_000_000_000;
  private static final int VERSION = 2;
  private static final long LOW_48 = (1L << 48) - 1;
  // in the place of a latency: it is in the second slot
  private static final long CONTINUED = (1L << 24) - 1;
  // in the place of operation and outcome: this is a second slot
  private static final long CONTINUATION = 0xFF;
  private static final int PREAMBLE_BYTES = 16;
  private static final int HEADER_UNIT = 64;

  private final FileChannel channel;
  private final ExecutorService writing = Executors.newSingleThreadExecutor(OperationLog::daemon);
  // of the writing thread: behind a part of a record nothing may follow
  private IOException failure;
  private long anchorMonoNs;

  /** Creates the file, so that a folder that cannot be written is noticed before the run. */
  public OperationLog(Path file) throws IOException {
    this.channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE);
  }

  /** Writes the header; to be called once, before any record. */
  public void writeHeader(Clock clock, Shard shard, int threads) throws IOException {
    Map<String, Object> header = new LinkedHashMap<>();
    anchorMonoNs = clock.anchorMonoNs();
    header.put("record_bytes", SLOT_BYTES);
    header.put("anchor_unix_ns", clock.anchorUnixNs());
    header.put("anchor_mono_ns", clock.anchorMonoNs());
    header.put("shard", shard.index());
    header.put("shards", shard.count());
    header.put("threads", threads);
    header.put("operations", Arrays.stream(OperationType.values()).map(OperationType::label).toList());
    header.put("statuses", Arrays.asList(Outcome.values()));
    byte[] json = Json.line(header).getBytes(StandardCharsets.UTF_8);
    int length = (PREAMBLE_BYTES + json.length + HEADER_UNIT - 1) / HEADER_UNIT * HEADER_UNIT;
    byte[] padded = Arrays.copyOf(json, length - PREAMBLE_BYTES);
    Arrays.fill(padded, json.length, padded.length, (byte) ' ');
    ByteBuffer bytes = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
    bytes.put("STRATAOP".getBytes(StandardCharsets.US_ASCII)).putInt(VERSION).putInt(length).put(padded).flip();
    append(bytes);
  }

  private static Thread daemon(Runnable task) {
    Thread thread = new Thread(task, "operation log");
    thread.setDaemon(true);
    return thread;
  }

  private void append(ByteBuffer bytes) throws IOException {
    if (failure != null) {
      throw failure;
    }
    try {
      while (bytes.hasRemaining()) {
        channel.write(bytes);
      }
    } catch (IOException e) {
      failure = e;
      throw e;
    }
  }

  /** Closes the file; what was not flushed before is lost. */
  @Override
  public void close() throws IOException {
    writing.shutdown();
    channel.close();
  }

  /** One thread's end of the log: records gather in one buffer while the other is written. */
  public final class Writer {
    private Half filling = new Half();
    private Half other = new Half();
    private int used;
    private long dueNs = Long.MIN_VALUE;

    /**
     * Adds one operation; those of a second at most wait for the next one before they are written.
     *
     * @param startNs monotonic clock at the real start
     * @param latencyNs from there to the answer, less than 78 hours (48 bits)
     * @param delayNs real start minus scheduled start, -1 without a schedule
     * @param keyHash the key's, see {@link org.stratabench.ycsb.workload.Key#hash}
     * @param client number of the logical client, below 65536
     * @throws IOException when the disk has not taken what was added earlier
     */
    public void add(long startNs, long latencyNs, long delayNs, int keyHash, int client, OperationType type, Outcome outcome)
        throws IOException {
      LongBuffer words = filling.words;
      long sinceAnchorNs = startNs - anchorMonoNs;
      boolean continued = latencyNs >= CONTINUED || delayNs >= 0 || sinceAnchorNs >>> 48 != 0;
      words.put(used, sinceAnchorNs & LOW_48 | (long) client << 48);
      words.put(used + 1, (long) keyHash << 32 | (continued ? CONTINUED : latencyNs) << 8 | (long) outcome.ordinal() << 4 | type.ordinal());
      used += SLOT_WORDS;
      if (continued) {
        words.put(used, latencyNs & LOW_48 | sinceAnchorNs >>> 48 << 48);
        words.put(used + 1, delayNs << 8 | CONTINUATION);
        used += SLOT_WORDS;
      }
      // both slots of a record stand in one buffer: another thread's may come behind it
      long endNs = startNs + latencyNs;
      if (used > words.capacity() - 2 * SLOT_WORDS || endNs > dueNs) {
        dueNs = endNs + MOST_KEPT_NS;
        handOver();
      }
    }

    private void handOver() throws IOException {
      ByteBuffer full = filling.bytes.limit(used * Long.BYTES);
      filling.written = writing.submit(() -> {
        append(full);
        return null;
      });
      Half next = other;
      other = filling;
      filling = next;
      used = 0;
      filling.reuse();
    }

    /** Has everything that was added written to the file. */
    public void flush() throws IOException {
      handOver();
      other.reuse();
    }
  }

  private static final class Half {
    private final ByteBuffer bytes = ByteBuffer.allocateDirect(BUFFER_BYTES);
    private final LongBuffer words = bytes.order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
    private Future<Void> written = CompletableFuture.completedFuture(null);

    /** Waits until it has been written, through interruptions, which are for the database's calls. */
    void reuse() throws IOException {
      boolean interrupted = false;
      try {
        while (true) {
          try {
            written.get();
            break;
          } catch (InterruptedException e) {
            interrupted = true;
          }
        }
      } catch (ExecutionException e) {
        throw new IOException(e.getCause().getMessage(), e.getCause());
      } finally {
        if (interrupted) {
          Thread.currentThread().interrupt();
        }
      }
      bytes.clear();
    }
  }
}
