// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Table;
import org.stratabench.ycsb.db.Session;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.Request;

/**
 * One thread's table handle.
 *
 * <p>A missing row is NOT_FOUND for a read; HBase itself answers updates and deletes of missing rows with success.
 */
final class BlockingSession implements Session {
  private final Translation translation;
  private final Table table;
  private final WriteBuffer buffer;

  /** @param buffer gathers updates, inserts and deletes; null when each is sent on its own */
  BlockingSession(Translation translation, Table table, WriteBuffer buffer) {
    this.translation = translation;
    this.table = table;
    this.buffer = buffer;
  }

  @Override
  public Answer execute(Request request) throws InterruptedException {
    try {
      return switch (request.type()) {
        case READ -> translation.found(request, table.get(translation.get(request.key(), request.fields())));
        case MULTI_GET -> translation.found(request, Arrays.asList(table.get(translation.gets(request))));
        case SCAN, FILTERED_SCAN -> scan(request);
        case UPDATE, INSERT, DELETE -> write(translation.write(request));
        case BATCH_INSERT -> {
          table.put(translation.puts(request));
          yield Answer.OK;
        }
        default -> throw new UnsupportedOperationException(request.type().label());
      };
    } catch (IOException | UncheckedIOException e) {
      // the rows of a scan arrive through an iterator, which can throw no IOException
      return Answer.failed(Failures.name(e));
    }
  }

  private Answer scan(Request request) throws IOException {
    try (ResultScanner rows = table.getScanner(translation.scan(request))) {
      return translation.scanned(request, rows);
    }
  }

  private Answer write(Mutation mutation) throws IOException, InterruptedException {
    if (buffer != null) {
      buffer.add(mutation);
    } else if (mutation instanceof Put put) {
      table.put(put);
    } else {
      table.delete((Delete) mutation);
    }
    return Answer.OK;
  }

  @Override
  public void flush() throws IOException {
    if (buffer != null) {
      buffer.drain();
    }
  }

  @Override
  public void close() throws IOException {
    table.close();
  }
}
