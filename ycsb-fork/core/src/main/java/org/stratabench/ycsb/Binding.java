// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Properties;
import java.util.TreeSet;
import site.ycsb.DB;

/**
 * One database that the client can drive.
 *
 * @param name the binding's own name, aliases resolved
 * @param dbClass class of the {@link DB}
 * @param adminClass class of the {@link DatabaseAdmin}
 */
public record Binding(String name, String dbClass, String adminClass) {
  private static final String TABLE = "bindings.properties";

  /** Looks a binding or one of its aliases up. */
  public static Binding named(String name) {
    Properties table = table();
    String own = name;
    String row = table.getProperty(own);
    if (row != null && !row.contains(" ")) {
      own = row;
      row = table.getProperty(own);
    }
    if (row == null) {
      throw new UsageException("unknown binding " + name + "; known: " + String.join(", ", new TreeSet<>(table.stringPropertyNames())));
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

  /** A new, unconnected instance of the binding. */
  public DB newDb() throws SetupException {
    return instantiate(dbClass, DB.class);
  }

  /** A new instance of the binding's maintenance. */
  public DatabaseAdmin newAdmin() throws SetupException {
    return instantiate(adminClass, DatabaseAdmin.class);
  }

  private <T> T instantiate(String className, Class<T> type) throws SetupException {
    try {
      return type.cast(Class.forName(className).getDeclaredConstructor().newInstance());
    } catch (ReflectiveOperationException | LinkageError e) {
      throw new SetupException("binding " + name + " is not on the class path (" + e + "); build it with mvn package", e);
    }
  }
}
