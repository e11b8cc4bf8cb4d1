// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.hbase.client;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;

public final class ConnectionFactory {
  private ConnectionFactory() {
  }

  public static Connection createConnection(Configuration settings) throws IOException {
    return new Connection();
  }
}
