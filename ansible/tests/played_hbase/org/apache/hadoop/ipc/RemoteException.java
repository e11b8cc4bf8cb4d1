// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.ipc;

public final class RemoteException extends java.io.IOException {
  private static final long serialVersionUID = 1;

  public String getClassName() {
    return "";
  }
}
