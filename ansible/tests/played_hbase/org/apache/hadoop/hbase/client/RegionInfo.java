// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.hbase.client;

import java.nio.charset.StandardCharsets;
import org.apache.hadoop.hbase.TableName;

public record RegionInfo(TableName getTable, int number) {
  public byte[] getEncodedNameAsBytes() {
    return getRegionNameAsString().getBytes(StandardCharsets.US_ASCII);
  }

  public String getRegionNameAsString() {
    return getTable.name() + "," + number;
  }

  public static TableName getTable(byte[] name) {
    return new TableName(new String(name, StandardCharsets.US_ASCII).split(",")[0]);
  }
}
