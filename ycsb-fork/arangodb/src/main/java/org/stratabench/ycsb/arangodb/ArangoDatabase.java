// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.SetupException;
import org.stratabench.ycsb.db.AsyncSession;
import org.stratabench.ycsb.db.Database;
import org.stratabench.ycsb.db.Session;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.WorkloadSpec;

/** ArangoDB: one driver for the process, one request of the document API or one AQL query for each operation. */
public final class ArangoDatabase implements Database {
  private ArangoSettings settings;
  private Connection connection;
  private Operations operations;

  @Override
  public Set<OperationType> operations() {
    return EnumSet.allOf(OperationType.class);
  }

  @Override
  public void check(Settings properties, WorkloadSpec workload, boolean load) {
    settings = new ArangoSettings(properties);
    if (settings.dropsBefore() && !load) {
      properties.reject("arangodb.dropDBBeforeRun", "true", "would drop in the run phase what was loaded; use it with load only");
    }
  }

  @Override
  public void open(Settings properties, WorkloadSpec workload, boolean load) throws SetupException {
    check(properties, workload, load);
    connection = Connection.open(settings);
    new CollectionSetup(settings, connection.driver().db(settings.database())).ensure(workload.multiStep(), load);
    String secondary = workload.multiStep().secondaryField();
    operations = new Operations(connection.driver().async().db(settings.database()), settings.collection(), settings.edgeCollection(),
        new Documents(settings.vpack(), settings.collection(), workload.fieldNames(), secondary),
        new Queries(settings.collection(), settings.edgeCollection(), secondary, settings.batchSize()), settings.waitForSync());
  }

  @Override
  public Session session() {
    return request -> operations.send(request).get();
  }

  @Override
  public boolean asynchronous() {
    return true;
  }

  @Override
  public AsyncSession asyncSession() {
    return (request, completion) -> {
      CompletableFuture<Answer> answer = operations.send(request);
      answer.thenAccept(completion::complete);
    };
  }

  @Override
  public void close() {
    if (connection != null) {
      connection.close();
    }
  }
}
