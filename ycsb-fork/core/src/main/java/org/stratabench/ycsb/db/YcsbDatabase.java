// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.db;

import java.io.IOException;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Properties;
import java.util.Set;
import java.util.Vector;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.SetupException;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.Item;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Request;
import org.stratabench.ycsb.workload.WorkloadSpec;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.measurements.Measurements;

/** Any binding written for YCSB: a class that extends {@link DB}, one instance for each client thread, as YCSB does it. */
public final class YcsbDatabase implements Database {
  private final Class<? extends DB> type;
  private Properties properties;

  /** @param type the binding's class, with a constructor without arguments */
  public YcsbDatabase(Class<? extends DB> type) {
    this.type = type;
  }

  @Override
  public Set<OperationType> operations() {
    return EnumSet.of(OperationType.READ, OperationType.UPDATE, OperationType.INSERT, OperationType.DELETE, OperationType.SCAN,
        OperationType.READ_MODIFY_WRITE);
  }

  @Override
  public void open(Settings settings, WorkloadSpec workload, boolean load) {
    properties = settings.properties();
    // some bindings count there by themselves; without properties YCSB's class breaks on the first call
    Measurements.setProperties(properties);
  }

  @Override
  public Session session() throws SetupException {
    try {
      DB db = type.getDeclaredConstructor().newInstance();
      db.setProperties(properties);
      db.init();
      return new YcsbSession(db);
    } catch (DBException | ReflectiveOperationException e) {
      throw new SetupException(e.getMessage() == null ? e.toString() : e.getMessage(), e);
    }
  }

  @Override
  public void close() {
  }

  private record YcsbSession(DB db) implements Session {
    @Override
    public Answer execute(Request request) {
      String key = request.key().toString();
      return switch (request.type()) {
        case READ -> answer(db.read(request.table(), key, fields(request), new HashMap<>()));
        case UPDATE -> answer(db.update(request.table(), key, values(request.item(0))));
        case INSERT -> answer(db.insert(request.table(), key, values(request.item(0))));
        case DELETE -> answer(db.delete(request.table(), key));
        case SCAN -> {
          Vector<HashMap<String, ByteIterator>> rows = new Vector<>();
          Answer answer = answer(db.scan(request.table(), key, request.limit(), fields(request), rows));
          request.received(rows.size());
          yield answer;
        }
        default -> throw new UnsupportedOperationException(request.type().label());
      };
    }

    private static Set<String> fields(Request request) {
      return request.fields() == null ? null : new HashSet<>(request.fields());
    }

    private static HashMap<String, ByteIterator> values(Item item) {
      HashMap<String, ByteIterator> values = new HashMap<>();
      for (int i = 0; i < item.fields().size(); i++) {
        values.put(item.fields().get(i), new ByteArrayByteIterator(item.value(i).toBytes()));
      }
      return values;
    }

    private static Answer answer(Status status) {
      if (status != null && status.isOk()) {
        return Answer.OK;
      }
      if (status != null && status.getName().equals(Status.NOT_FOUND.getName())) {
        return Answer.NOT_FOUND;
      }
      return Answer.failed(status == null ? "null" : status.getName());
    }

    @Override
    public void close() throws IOException {
      try {
        db.cleanup();
      } catch (DBException e) {
        throw new IOException(e.getMessage() == null ? e.toString() : e.getMessage(), e);
      }
    }
  }
}
