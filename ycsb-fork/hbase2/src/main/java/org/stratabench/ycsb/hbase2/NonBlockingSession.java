// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.hbase2;

import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiFunction;
import org.apache.hadoop.hbase.client.AdvancedScanResultConsumer;
import org.apache.hadoop.hbase.client.AsyncBufferedMutator;
import org.apache.hadoop.hbase.client.AsyncTable;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Put;
import org.stratabench.ycsb.db.AsyncSession;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.Request;

/** One of many clients on a connection that does not block; answers are completed on the threads of HBase's network client. */
final class NonBlockingSession implements AsyncSession {
  private final Translation translation;
  private final AsyncTable<AdvancedScanResultConsumer> table;
  private final AsyncBufferedMutator buffer;

  /** @param buffer gathers updates, inserts and deletes of all clients, each answered with its batch; null when each is sent on its own */
  NonBlockingSession(Translation translation, AsyncTable<AdvancedScanResultConsumer> table, AsyncBufferedMutator buffer) {
    this.translation = translation;
    this.table = table;
    this.buffer = buffer;
  }

  @Override
  public void submit(Request request, Completion completion) throws IOException {
    switch (request.type()) {
      case READ -> answer(table.get(translation.get(request.key(), request.fields())), request, completion, translation::found);
      case MULTI_GET -> answer(table.getAll(translation.gets(request)), request, completion, translation::found);
      case SCAN, FILTERED_SCAN -> answer(table.scanAll(translation.scan(request)), request, completion, translation::scanned);
      case UPDATE, INSERT, DELETE -> answer(write(translation.write(request)), request, completion, (sent, done) -> Answer.OK);
      case BATCH_INSERT -> answer(table.putAll(translation.puts(request)), request, completion, (sent, done) -> Answer.OK);
      default -> throw new UnsupportedOperationException(request.type().label());
    }
  }

  private CompletableFuture<Void> write(Mutation mutation) {
    if (buffer != null) {
      return buffer.mutate(mutation);
    }
    return mutation instanceof Put put ? table.put(put) : table.delete((Delete) mutation);
  }

  private static <R> void answer(CompletableFuture<R> result, Request request, Completion completion,
      BiFunction<Request, R, Answer> translate) {
    result.whenComplete((value, failure) ->
        completion.complete(failure == null ? translate.apply(request, value) : Answer.failed(Failures.name(failure))));
  }
}
