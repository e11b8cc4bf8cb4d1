// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import com.arangodb.ArangoCollection;
import com.arangodb.ArangoDBException;
import com.arangodb.ArangoDatabase;
import com.arangodb.entity.CollectionEntity;
import com.arangodb.entity.CollectionPropertiesEntity;
import com.arangodb.entity.CollectionType;
import com.arangodb.entity.ReplicationFactor;
import com.arangodb.model.CollectionCreateOptions;
import com.arangodb.model.PersistentIndexOptions;
import java.util.List;
import org.stratabench.ycsb.SetupException;
import org.stratabench.ycsb.workload.MultiStep;

/** Sees to it that database, collections and index are there before the first operation. */
final class CollectionSetup {
  private static final String SYSTEM = "_system";

  private final ArangoSettings settings;
  private final ArangoDatabase database;

  CollectionSetup(ArangoSettings settings, ArangoDatabase database) {
    this.settings = settings;
    this.database = database;
  }

  /**
   * Creates in the load phase what is missing and may be created; otherwise refuses what is missing.
   *
   * @param steps what the workload needs beside the records
   */
  void ensure(MultiStep steps, boolean load) throws SetupException {
    try {
      boolean create = load && settings.creates();
      if (load && settings.dropsBefore()) {
        dropAll();
      }
      ensureDatabase(create);
      ensureCollection(settings.collection(), CollectionType.DOCUMENT, create);
      if (steps.edgesPerRecord() > 0) {
        ensureCollection(settings.edgeCollection(), CollectionType.EDGES, create);
      }
      if (steps.secondaryField() != null) {
        ensureIndex(steps.secondaryField(), create);
      }
    } catch (ArangoDBException e) {
      throw new SetupException("cannot set up collection " + settings.collection() + " in database " + settings.database() + ": "
          + Failures.describe(e), e);
    }
  }

  /** The system database cannot go; there the collections do. */
  private void dropAll() {
    if (!settings.database().equals(SYSTEM)) {
      if (database.exists()) {
        database.drop();
      }
      return;
    }
    for (String name : List.of(settings.collection(), settings.edgeCollection())) {
      if (database.collection(name).exists()) {
        database.collection(name).drop();
      }
    }
  }

  private void ensureDatabase(boolean create) throws SetupException {
    if (database.exists()) {
      return;
    }
    if (!create) {
      throw missing("database " + settings.database());
    }
    unlessAnotherShardDid(database::create);
  }

  private void ensureCollection(String name, CollectionType type, boolean create) throws SetupException {
    ArangoCollection collection = database.collection(name);
    if (!collection.exists()) {
      if (!create) {
        throw missing("collection " + name + " of database " + settings.database());
      }
      CollectionCreateOptions options = new CollectionCreateOptions().type(type)
          .replicationFactor(settings.replicationFactor())
          .numberOfShards(settings.numberOfShards())
          .writeConcern(settings.writeConcern());
      unlessAnotherShardDid(() -> database.createCollection(name, options));
    }
    check(name, type, collection.getInfo(), collection.getProperties());
  }

  /** A result must not claim copies or shards that the collection it came from does not have. */
  private void check(String name, CollectionType type, CollectionEntity info, CollectionPropertiesEntity properties) throws SetupException {
    if (info.getType() != null && info.getType() != type) {
      throw new SetupException("collection " + name + " holds " + info.getType() + ", not " + type + "; choose another table or drop it");
    }
    ReplicationFactor copies = properties.getReplicationFactor();
    checkOne(name, "arangodb.replicationFactor", settings.replicationFactor(), copies == null ? null : copies.get());
    checkOne(name, "arangodb.numberOfShards", settings.numberOfShards(), properties.getNumberOfShards());
    checkOne(name, "arangodb.writeConcern", settings.writeConcern(), properties.getWriteConcern());
  }

  private void checkOne(String name, String property, Object wanted, Object found) throws SetupException {
    if (settings.isSet(property) && found != null && !found.equals(wanted)) {
      throw new SetupException("collection " + name + " has " + property.substring(property.indexOf('.') + 1) + " " + found + ", not " + wanted
          + " as " + property + " says; change that or drop the collection");
    }
  }

  private void ensureIndex(String field, boolean create) throws SetupException {
    ArangoCollection collection = database.collection(settings.collection());
    if (create) {
      collection.ensurePersistentIndex(List.of(field), new PersistentIndexOptions());
    } else if (collection.getIndexes().stream().noneMatch(index -> List.of(field).equals(List.copyOf(index.getFields())))) {
      throw missing("index on " + field + " of collection " + settings.collection());
    }
  }

  private static void unlessAnotherShardDid(Runnable creation) {
    try {
      creation.run();
    } catch (ArangoDBException e) {
      if (!Failures.isError(e, Failures.DUPLICATE_NAME)) {
        throw e;
      }
    }
  }

  private static SetupException missing(String what) {
    return new SetupException(what + " does not exist; run the load phase first, with arangodb.create=true");
  }
}
