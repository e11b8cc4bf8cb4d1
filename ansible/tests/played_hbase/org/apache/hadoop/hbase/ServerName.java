// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.hbase;

public record ServerName(String getHostname) implements Comparable<ServerName> {
  @Override
  public int compareTo(ServerName other) {
    return getHostname.compareTo(other.getHostname);
  }
}
