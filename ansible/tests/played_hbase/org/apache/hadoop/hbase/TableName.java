// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.hbase;

public record TableName(String name) {
  public boolean isSystemTable() {
    return false;
  }
}
