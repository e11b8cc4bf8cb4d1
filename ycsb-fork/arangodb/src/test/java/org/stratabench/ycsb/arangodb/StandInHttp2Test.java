// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import java.util.Map;
import java.util.Properties;

/** The suite against the stand-in, in the driver's default protocol. */
class StandInHttp2Test extends StandInSuite {
  @Override
  Properties connection() {
    return of(Map.of("arangodb.hosts", hosts(), "arangodb.loadBalancing", "ROUND_ROBIN"));
  }

  @Override
  String http() {
    return "HTTP_2";
  }
}
