// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.hbase;

public record RegionMetrics(byte[] getRegionName) {
  public long getBlocksLocalWeight() {
    return 0;
  }

  public long getBlocksTotalWeight() {
    return 0;
  }
}
