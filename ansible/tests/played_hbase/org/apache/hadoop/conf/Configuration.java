// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.conf;

public final class Configuration {
  public void set(String name, String value) {
  }
}
