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
    AcknowledgedInserts inserts = new AcknowledgedInserts(100, Shard.WHOLE);
    inserts.answered(1, true);
    inserts.answered(2, true);
    assertEquals(0, inserts.frontier());
    inserts.answered(0, true);
    assertEquals(3, inserts.frontier());
  }

  @Test
  void failedInsertsPassTheFrontierButAreNotOffered() {
    AcknowledgedInserts inserts = new AcknowledgedInserts(100, Shard.WHOLE);
    inserts.answered(0, true);
    inserts.answered(1, false);
    inserts.answered(2, true);
    assertEquals(3, inserts.frontier());
    assertTrue(inserts.acknowledged(0));
    assertFalse(inserts.acknowledged(1));
  }

  @Test
  void answersInAnyOrderAddUp() {
    int count = 300_000;
    Random random = new Random(7);
    AcknowledgedInserts inserts = new AcknowledgedInserts(0, Shard.WHOLE);
    List<Long> window = new ArrayList<>();
    for (long k = 0; k < count; k++) {
      window.add(k);
      if (window.size() == 64) {
        Collections.shuffle(window, random);
        window.subList(0, 32).forEach(each -> inserts.answered(each, true));
        window.subList(0, 32).clear();
        assertEquals(Collections.min(window), inserts.frontier());
      }
    }
    window.forEach(each -> inserts.answered(each, true));
    assertEquals(count, inserts.frontier());
  }
}
