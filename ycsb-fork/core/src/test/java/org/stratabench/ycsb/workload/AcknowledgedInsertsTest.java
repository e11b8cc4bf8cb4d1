// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class AcknowledgedInsertsTest {
  @Test
  void theFrontierWaitsForTheSlowest() {
    AcknowledgedInserts inserts = new AcknowledgedInserts(100, Shard.WHOLE, true);
    inserts.answered(1, 1, true);
    inserts.answered(2, 1, true);
    assertEquals(0, inserts.frontier());
    inserts.answered(0, 1, true);
    assertEquals(3, inserts.frontier());
  }

  @Test
  void failedInsertsPassTheFrontierButAreNotOffered() {
    AcknowledgedInserts inserts = new AcknowledgedInserts(100, Shard.WHOLE, true);
    inserts.answered(0, 1, true);
    inserts.answered(1, 1, false);
    inserts.answered(2, 1, true);
    assertEquals(3, inserts.frontier());
    assertTrue(inserts.acknowledged(0));
    assertFalse(inserts.acknowledged(1));
  }

  @Test
  void aBatchCountsAsAllItsInserts() {
    AcknowledgedInserts inserts = new AcknowledgedInserts(100, Shard.WHOLE, true);
    assertEquals(0, inserts.take(5));
    assertEquals(5, inserts.take(3));
    inserts.answered(5, 3, false);
    assertEquals(0, inserts.frontier());
    inserts.answered(0, 5, true);
    assertEquals(8, inserts.frontier());
    assertTrue(inserts.acknowledged(4));
    assertFalse(inserts.acknowledged(7));
  }

  @Test
  void answersInAnyOrderAddUp() {
    int count = 300_000;
    Random random = new Random(7);
    AcknowledgedInserts inserts = new AcknowledgedInserts(0, Shard.WHOLE, true);
    List<Long> window = new ArrayList<>();
    for (long k = 0; k < count; k++) {
      window.add(k);
      if (window.size() == 64) {
        Collections.shuffle(window, random);
        window.subList(0, 32).forEach(each -> inserts.answered(each, 1, true));
        window.subList(0, 32).clear();
        assertEquals(Collections.min(window), inserts.frontier());
      }
    }
    window.forEach(each -> inserts.answered(each, 1, true));
    assertEquals(count, inserts.frontier());
  }
}
