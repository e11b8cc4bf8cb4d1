// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;

/** The suite against three coordinators of the stand-in; subclasses say how they are reached. */
abstract class StandInSuite extends ArangoSuite {
  private static ArangoStandIn standIn;

  @BeforeAll
  static void start() {
    standIn = ArangoStandIn.start(3);
  }

  @AfterAll
  static void stop() {
    standIn.close();
  }

  /** The coordinators, as the property takes them. */
  static String hosts() {
    return standIn.hosts();
  }

  /** The only version of HTTP that may have been spoken. */
  abstract String http();

  @AfterEach
  void nothingIsLeftOpen() {
    assertEquals(Set.of(http()), standIn.calls().map(ArangoStandIn.Call::http).collect(Collectors.toSet()));
    assertTrue(standIn.coordinators().stream().allMatch(coordinator -> coordinator.openCursors() == 0));
  }
}
