// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import com.arangodb.ArangoCollectionAsync;
import com.arangodb.ArangoCursorAsync;
import com.arangodb.ArangoDatabaseAsync;
import com.arangodb.entity.ErrorEntity;
import com.arangodb.entity.MultiDocumentEntity;
import com.arangodb.model.AqlQueryOptions;
import com.arangodb.model.DocumentCreateOptions;
import com.arangodb.model.DocumentDeleteOptions;
import com.arangodb.model.DocumentUpdateOptions;
import com.arangodb.util.RawBytes;
import com.arangodb.util.RawData;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.Item;
import org.stratabench.ycsb.workload.Request;

/**
 * Sends requests and reads their answers, whole but no deeper than it takes to count records.
 *
 * <p>A read asks for the whole document by its key even when one field is wanted: the server keeps a document as one value, and reading it by key
 * spares the parsing and planning that a projection by AQL costs for each request. Queries let the server leave out what is not wanted.
 */
final class Operations {
  private final ArangoDatabaseAsync database;
  private final ArangoCollectionAsync records;
  private final ArangoCollectionAsync edges;
  private final Documents documents;
  private final Queries queries;
  private final DocumentCreateOptions insert;
  private final DocumentUpdateOptions update;
  private final DocumentDeleteOptions delete;

  /** @param waitForSync whether writes are answered only when they are on disk */
  Operations(ArangoDatabaseAsync database, String collection, String edgeCollection, Documents documents, Queries queries,
      boolean waitForSync) {
    this.database = database;
    this.records = database.collection(collection);
    this.edges = database.collection(edgeCollection);
    this.documents = documents;
    this.queries = queries;
    // silent: the answer to a write needs no metadata of the document
    this.insert = new DocumentCreateOptions().waitForSync(waitForSync).silent(true);
    this.update = new DocumentUpdateOptions().waitForSync(waitForSync).silent(true);
    this.delete = new DocumentDeleteOptions().waitForSync(waitForSync).silent(true);
  }

  /** Sends one request. The answer comes from a thread of the driver, and a failure of any kind is an answer too. */
  CompletableFuture<Answer> send(Request request) {
    CompletableFuture<Answer> answer = switch (request.type()) {
      case READ -> records.getDocument(request.key().toString(), RawBytes.class).thenApply(found -> read(request, found));
      case UPDATE -> records.updateDocument(request.key().toString(), documents.change(request.item(0)), update)
          .thenApply(done -> Answer.OK);
      case DELETE -> records.deleteDocument(request.key().toString(), delete).thenApply(done -> Answer.OK);
      case INSERT -> records.insertDocument(documents.record(request.item(0)), insert)
          .thenCompose(done -> insertEdges(request));
      case BATCH_INSERT -> insertAll(request);
      case MULTI_GET -> records.getDocuments(keys(request), RawBytes.class).thenApply(found -> readMany(request, found));
      case SCAN, FILTERED_SCAN, SECONDARY_LOOKUP, TRAVERSAL -> query(request);
      case READ_MODIFY_WRITE -> throw new IllegalArgumentException(request.type().label());
    };
    return answer.exceptionally(Operations::failed);
  }

  private static Answer failed(Throwable failure) {
    return Failures.isError(failure, Failures.DOCUMENT_NOT_FOUND) ? Answer.NOT_FOUND : Answer.failed(Failures.name(failure));
  }

  private static Answer read(Request request, RawBytes found) {
    if (found == null) {
      return Answer.NOT_FOUND;
    }
    request.received(1);
    return Answer.OK;
  }

  private static List<String> keys(Request request) {
    List<String> keys = new ArrayList<>(request.size());
    for (int i = 0; i < request.size(); i++) {
      keys.add(request.item(i).key().toString());
    }
    return keys;
  }

  /** NOT_FOUND when none of the records is there. */
  private static Answer readMany(Request request, MultiDocumentEntity<RawBytes> found) {
    for (ErrorEntity error : found.getErrors()) {
      if (error.getErrorNum() != Failures.DOCUMENT_NOT_FOUND) {
        return Answer.failed(Failures.name(error.getErrorNum()));
      }
    }
    request.received(found.getDocuments().size());
    return found.getDocuments().isEmpty() ? Answer.NOT_FOUND : Answer.OK;
  }

  private CompletableFuture<Answer> insertAll(Request request) {
    List<RawData> batch = new ArrayList<>(request.size());
    for (int i = 0; i < request.size(); i++) {
      batch.add(documents.record(request.item(i)));
    }
    return records.insertDocuments(batch, insert).thenCompose(inserted -> inserted.getErrors().isEmpty()
        ? insertEdges(request) : CompletableFuture.completedFuture(refused(inserted)));
  }

  /** Once the records are there, their edges follow in one request. */
  private CompletableFuture<Answer> insertEdges(Request request) {
    if (request.item(0).edgeCount() == 0) {
      return CompletableFuture.completedFuture(Answer.OK);
    }
    List<RawData> batch = new ArrayList<>();
    for (int i = 0; i < request.size(); i++) {
      Item item = request.item(i);
      batch.addAll(documents.edges(item));
    }
    return edges.insertDocuments(batch, insert).thenApply(Operations::refused);
  }

  /** What became of a batch: the first refusal, if any. */
  private static Answer refused(MultiDocumentEntity<?> batch) {
    return batch.getErrors().isEmpty() ? Answer.OK
        : Answer.failed(Failures.name(batch.getErrors().iterator().next().getErrorNum()));
  }

  private CompletableFuture<Answer> query(Request request) {
    Queries.Query query = queries.of(request);
    AqlQueryOptions options = new AqlQueryOptions().stream(true).batchSize(query.batch());
    return database.query(query.text(), RawBytes.class, query.parameters(), options).thenCompose(cursor -> drain(request, cursor, 0));
  }

  /** Fetches batches until there is none left. */
  private CompletableFuture<Answer> drain(Request request, ArangoCursorAsync<RawBytes> cursor, long before) {
    long received = before + cursor.getResult().size();
    if (cursor.hasMore()) {
      return cursor.nextBatch().thenCompose(next -> drain(request, next, received));
    }
    request.received(received);
    return CompletableFuture.completedFuture(Answer.OK);
  }
}
