// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;

/** The suite against the stand-in in HTTP/1.1. */
class StandInHttp1Test extends ArangoSuite {
  private static ArangoStandIn standIn;

  @BeforeAll
  static void start() {
    standIn = ArangoStandIn.start(3);
  }

  @AfterAll
  static void stop() {
    standIn.close();
  }

  @Override
  Properties connection() {
    return of(Map.of("arangodb.hosts", standIn.hosts(), "arangodb.loadBalancing", "ONE_RANDOM", "arangodb.protocol", "HTTP_JSON"));
  }

  @AfterEach
  void nothingIsLeftOpen() {
    assertEquals(Set.of("HTTP_1_1"), standIn.calls().map(ArangoStandIn.Call::http).collect(Collectors.toSet()));
    assertTrue(standIn.coordinators().stream().allMatch(coordinator -> coordinator.openCursors() == 0));
  }
}
