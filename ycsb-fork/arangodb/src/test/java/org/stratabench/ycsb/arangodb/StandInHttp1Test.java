// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import java.util.Map;
import java.util.Properties;

/** The suite against the stand-in in HTTP/1.1. */
class StandInHttp1Test extends StandInSuite {
  @Override
  Properties connection() {
    return of(Map.of("arangodb.hosts", hosts(), "arangodb.loadBalancing", "ONE_RANDOM", "arangodb.protocol", "HTTP_JSON"));
  }

  @Override
  String http() {
    return "HTTP_1_1";
  }
}
