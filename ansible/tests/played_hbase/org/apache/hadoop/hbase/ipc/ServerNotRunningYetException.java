// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.hbase.ipc;

public final class ServerNotRunningYetException extends java.io.IOException {
  private static final long serialVersionUID = 1;
}
