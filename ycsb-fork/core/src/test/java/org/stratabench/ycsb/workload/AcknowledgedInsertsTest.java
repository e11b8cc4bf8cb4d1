// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import java.util.stream.LongStream;
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
  void theYoungestAcknowledgedIsFoundAcrossAnyNumberOfFailedOnes() {
    Random random = new Random(11);
    AcknowledgedInserts inserts = new AcknowledgedInserts(0, Shard.WHOLE, true);
    TreeSet<Long> acknowledged = new TreeSet<>();
    for (int turn = 0; turn < 300; turn++) {
      int count = 1 + random.nextInt(turn % 10 == 0 ? 20_000 : 70);
      boolean well = random.nextInt(3) == 0;
      long first = inserts.take(count);
      inserts.answered(first, count, well);
      LongStream.range(first, first + count).filter(k -> well).forEach(acknowledged::add);
      assertEquals(acknowledged.isEmpty() ? -1 : acknowledged.last(), inserts.youngest());
      for (int i = 0; i < 100; i++) {
        long k = random.nextLong(first + count);
        Long nearest = acknowledged.floor(k);
        assertEquals(acknowledged.contains(k), inserts.acknowledged(k));
        assertEquals(nearest == null ? -1 : nearest, Math.max(-1, inserts.acknowledgedUpTo(k, 0)));
      }
    }
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
