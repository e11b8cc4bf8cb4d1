// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.Row;

/**
 * Writes of one thread, gathered until they fill a buffer and then sent as one batch ({@code clientbuffering=true}).
 *
 * <p>The write that fills the buffer sends the batch and waits for it: its latency is the batch's, that of the others is the buffer's. A write
 * that was answered from the buffer and is lost later cannot be taken back from the results; {@link #drain} says so at the end.
 */
final class WriteBuffer {
  /** What sends a batch, as {@link org.apache.hadoop.hbase.client.Table#batch} does: each action's result or failure into its place. */
  interface Sender {
    void send(List<Row> batch, Object[] results) throws IOException, InterruptedException;
  }

  /**
   * What became of the writes of all buffers of a process.
   *
   * @param batches sent
   * @param writes in them
   * @param lost writes that were answered as done and then failed in their batch
   * @param unconfirmed writes that were answered as done and whose batch has not been answered yet
   */
  record Sent(LongAdder batches, LongAdder writes, LongAdder lost, LongAdder unconfirmed) {
    Sent() {
      this(new LongAdder(), new LongAdder(), new LongAdder(), new LongAdder());
    }
  }

  private final Sender sender;
  private final long capacityBytes;
  private final Sent sent;
  private List<Row> gathered = new ArrayList<>();
  private long bytes;
  private long lost;
  private String cause;

  WriteBuffer(Sender sender, long capacityBytes, Sent sent) {
    this.sender = sender;
    this.capacityBytes = capacityBytes;
    this.sent = sent;
  }

  /**
   * Takes a write and, when that fills the buffer, sends all.
   *
   * @throws IOException when any write of the batch failed; this write stands for one of them
   */
  void add(Mutation mutation) throws IOException, InterruptedException {
    gathered.add(mutation);
    bytes += mutation.heapSize();
    if (bytes >= capacityBytes) {
      send(1);
    } else {
      sent.unconfirmed().increment();
    }
  }

  /**
   * Sends what is left and looks back.
   *
   * @throws IOException when writes that were answered from the buffer have been lost, now or before
   */
  void drain() throws IOException {
    if (!gathered.isEmpty()) {
      try {
        send(0);
      } catch (IOException | RuntimeException e) {
        // counted with those that were lost before
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
    if (lost > 0) {
      long count = lost;
      lost = 0;
      throw new IOException(count + " that had been answered as done: " + cause);
    }
  }

  /** @param reported how many failures the caller's own answer stands for */
  private void send(int reported) throws IOException, InterruptedException {
    List<Row> batch = gathered;
    gathered = new ArrayList<>();
    bytes = 0;
    Object[] results = new Object[batch.size()];
    try {
      sender.send(batch, results);
    } catch (IOException | InterruptedException | RuntimeException e) {
      cause = Failures.describe(e);
      long unreported = Math.max(0, failures(results) - reported);
      lost += unreported;
      sent.lost().add(unreported);
      throw e;
    } finally {
      sent.batches().increment();
      sent.writes().add(batch.size());
      sent.unconfirmed().add(reported - batch.size());
    }
  }

  /** An action without a result was not done either, as far as anybody knows. */
  private static long failures(Object[] results) {
    long failures = 0;
    for (Object result : results) {
      if (!(result instanceof Result)) {
        failures++;
      }
    }
    return failures;
  }
}
