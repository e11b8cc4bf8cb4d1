// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.hbase.client;

public final class Connection implements AutoCloseable {
  public Admin getAdmin() {
    return new Admin();
  }

  @Override
  public void close() {
  }
}
