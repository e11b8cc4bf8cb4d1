// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.hbase;

import org.apache.hadoop.conf.Configuration;

public final class HBaseConfiguration {
  private HBaseConfiguration() {
  }

  public static Configuration create() {
    return new Configuration();
  }
}
