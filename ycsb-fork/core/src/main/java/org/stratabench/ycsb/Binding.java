// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Properties;
import java.util.TreeSet;
import org.stratabench.ycsb.db.Database;
import org.stratabench.ycsb.db.YcsbDatabase;
import site.ycsb.DB;

/**
 * One database that the client can drive.
 *
 * @param name the binding's own name, aliases resolved
 * @param databaseClass class of the {@link Database}, or of a YCSB {@link DB}
 * @param adminClass class of the {@link DatabaseAdmin}, or null when it has none
 */
public record Binding(String name, String databaseClass, String adminClass) {
  private static final String TABLE = "bindings.properties";

  /** Looks a binding or one of its aliases up; a name with a dot is the class of a binding that was written for YCSB. */
  public static Binding named(String name) {
    if (name.indexOf('.') > 0) {
      return new Binding(name, name, null);
    }
    Properties table = table();
    String own = name;
    String row = table.getProperty(own);
    if (row != null && !row.contains(" ")) {
      own = row;
      row = table.getProperty(own);
    }
    if (row == null) {
      throw new UsageException("unknown binding " + name + "; known: " + String.join(", ", new TreeSet<>(table.stringPropertyNames()))
          + ", or the class of a binding written for YCSB");
    }
    String[] parts = row.split(" +");
    return new Binding(own, parts[1], parts[2]);
  }

  private static Properties table() {
    Properties table = new Properties();
    try (InputStream in = Binding.class.getResourceAsStream(TABLE)) {
      table.load(in);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return table;
  }

  /** The binding's database, unconnected. */
  public Database newDatabase() throws SetupException {
    try {
      Class<?> type = Class.forName(databaseClass);
      if (DB.class.isAssignableFrom(type)) {
        return new YcsbDatabase(type.asSubclass(DB.class));
      }
      return type.asSubclass(Database.class).getDeclaredConstructor().newInstance();
    } catch (ReflectiveOperationException | LinkageError | ClassCastException e) {
      throw missing(e);
    }
  }

  /** A new instance of the binding's maintenance. */
  public DatabaseAdmin newAdmin() throws SetupException {
    if (adminClass == null) {
      throw new UsageException("binding " + name + " was written for YCSB and has no maintenance");
    }
    try {
      return Class.forName(adminClass).asSubclass(DatabaseAdmin.class).getDeclaredConstructor().newInstance();
    } catch (ReflectiveOperationException | LinkageError | ClassCastException e) {
      throw missing(e);
    }
  }

  private SetupException missing(Throwable e) {
    String advice = adminClass == null ? "name its jar with -cp" : "build it with mvn package";
    return new SetupException("binding " + name + " is not on the class path (" + e + "); " + advice, e);
  }
}
