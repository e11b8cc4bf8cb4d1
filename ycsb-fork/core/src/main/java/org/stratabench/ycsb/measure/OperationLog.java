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
 * The file {@code ops.bin}: a header and one 32-byte record for each measured operation, in no particular order.
 *
 * <p>One thread writes for all: a client thread waits neither for the disk (unless that is slower than the operations) nor for another client
 * thread, and one that is interrupted in a database call that hangs does not close the channel with it.
 */
public final class OperationLog implements Closeable {
  private static final int RECORD_BYTES = 32;
  private static final int RECORD_WORDS = RECORD_BYTES / Long.BYTES;
  private static final int BUFFER_BYTES = 64 * 1024;
  private static final int VERSION = 1;
  private static final int PREAMBLE_BYTES = 16;
  private static final int HEADER_UNIT = 64;

  private final FileChannel channel;
  private final ExecutorService writing = Executors.newSingleThreadExecutor(OperationLog::daemon);
  // of the writing thread: behind a part of a record nothing may follow
  private IOException failure;

  /** Creates the file, so that a folder that cannot be written is noticed before the run. */
  public OperationLog(Path file) throws IOException {
    this.channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE);
  }

  /** Writes the header; to be called once, before any record. */
  public void writeHeader(Clock clock, Shard shard, int threads) throws IOException {
    Map<String, Object> header = new LinkedHashMap<>();
    header.put("record_bytes", RECORD_BYTES);
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

    /**
     * Adds one operation.
     *
     * @param startNs monotonic clock at the real start
     * @param latencyNs from there to the answer
     * @param delayNs real start minus scheduled start, -1 without a schedule
     * @param keyHash the key's, see {@link org.stratabench.ycsb.workload.Key#hash}
     * @param client number of the logical client, below 65536
     * @throws IOException when the disk has not taken what was added earlier
     */
    public void add(long startNs, long latencyNs, long delayNs, int keyHash, int client, OperationType type, Outcome outcome)
        throws IOException {
      LongBuffer words = filling.words;
      words.put(used, startNs);
      words.put(used + 1, latencyNs);
      words.put(used + 2, delayNs);
      // one word for the four last members of the record
      words.put(used + 3, (keyHash & 0xFFFF_FFFFL) | (client & 0xFFFFL) << 32 | (long) type.ordinal() << 48 | (long) outcome.ordinal() << 56);
      used += RECORD_WORDS;
      if (used == words.capacity()) {
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
