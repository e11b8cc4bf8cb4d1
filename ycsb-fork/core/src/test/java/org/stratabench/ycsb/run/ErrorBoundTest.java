// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class ErrorBoundTest {
  private static final long SECOND = 1_000_000_000L;

  @Test
  void aShareSaysNothingBeforeAHundredOperations() {
    ErrorBound bound = new ErrorBound(0.1, 0, 100_000);
    assertNull(bound.excess(SECOND, 99, 50));
    assertNotNull(bound.excess(2 * SECOND, 100, 11));
  }

  @Test
  void aRunThatCanNoLongerPassEndsAtOnce() {
    assertNotNull(new ErrorBound(0, 0, 1_000).excess(SECOND, 1, 1));
    assertNull(new ErrorBound(0.01, 0, 1_000).excess(SECOND, 10, 10));
    assertNotNull(new ErrorBound(0.01, 0, 1_000).excess(SECOND, 11, 11));
  }

  @Test
  void aDatabaseThatStoppedAnsweringEndsTheRunWhateverTheBound() {
    ErrorBound bound = new ErrorBound(1, 60 * SECOND, 100_000);
    assertNull(bound.excess(10 * SECOND, 50_000, 0));
    assertNull(bound.excess(69 * SECOND, 50_004, 4));
    String reason = bound.excess(70 * SECOND, 50_004, 4);
    assertTrue(reason.contains("4 operations failed and none succeeded for 60 s"), reason);
  }

  @Test
  void slowAnswersAreNoSilence() {
    ErrorBound bound = new ErrorBound(1, 60 * SECOND, 100_000);
    assertNull(bound.excess(10 * SECOND, 50_000, 0));
    assertNull(bound.excess(100 * SECOND, 50_000, 0));
    assertNull(bound.excess(101 * SECOND, 50_010, 9));
  }
}
