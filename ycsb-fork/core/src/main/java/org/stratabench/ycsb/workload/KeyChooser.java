// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

/** Chooses the key number of one request; every thread has its own. */
public interface KeyChooser {
  /** The next key number. */
  long next();
}
