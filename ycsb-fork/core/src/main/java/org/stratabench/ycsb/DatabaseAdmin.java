// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import java.util.List;
import java.util.Map;
import java.util.Properties;

/** Maintenance of a database, behind {@code bin/ycsb-admin}. */
public interface DatabaseAdmin {
  /** The verbs every binding answers. */
  List<String> VERBS = List.of("probe", "count", "flush", "drop", "status");

  /**
   * Does one of {@link #VERBS}.
   *
   * @param properties the binding's properties, as for a run
   * @return the answer's members, to be printed as one JSON object
   * @throws SetupException when the database cannot be reached or refuses
   */
  Map<String, Object> perform(String verb, Properties properties) throws SetupException;
}
