// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import java.util.Map;
import java.util.Properties;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** The suite against a real ArangoDB: {@code ARANGODB_HOSTS}, {@code ARANGODB_USER}, {@code ARANGODB_PASSWORD}, {@code ARANGODB_DATABASE}. */
@EnabledIfEnvironmentVariable(named = "ARANGODB_HOSTS", matches = ".+",
    disabledReason = "no ArangoDB is known: set ARANGODB_HOSTS=host:port,... to run the suite against it")
class RealClusterTest extends ArangoSuite {
  @Override
  Properties connection() {
    Map<String, String> environment = System.getenv();
    return of(Map.of("arangodb.hosts", environment.get("ARANGODB_HOSTS"), "arangodb.loadBalancing", "ROUND_ROBIN",
        "arangodb.user", environment.getOrDefault("ARANGODB_USER", "root"),
        "arangodb.password", environment.getOrDefault("ARANGODB_PASSWORD", ""),
        "arangodb.databaseName", environment.getOrDefault("ARANGODB_DATABASE", "strata_suite")));
  }
}
