// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.util.HashSet;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.stratabench.ycsb.UsageException;

class ShardTest {
  @Property(tries = 300)
  void shardsAreDisjointAndComplete(@ForAll @LongRange(min = 0) long total, @ForAll @IntRange(min = 1, max = 100) int count) {
    long next = 0;
    for (int i = 0; i < count; i++) {
      Shard shard = new Shard(i, count);
      assertEquals(next, shard.start(total));
      assertEquals(exactBoundary(i, total, count), shard.start(total));
      next = shard.end(total);
      assertTrue(next >= shard.start(total));
    }
    assertEquals(total, next);
  }

  private static long exactBoundary(int i, long total, int count) {
    return BigInteger.valueOf(i).multiply(BigInteger.valueOf(total)).divide(BigInteger.valueOf(count)).longValueExact();
  }

  @Property(tries = 100)
  void insertsOfAllShardsNeverCollideAndLeaveNoHoles(@ForAll @LongRange(min = 0, max = 1_000_000_000_000L) long records,
      @ForAll @IntRange(min = 1, max = 20) int count) {
    Set<Long> keys = new HashSet<>();
    for (int i = 0; i < count; i++) {
      AcknowledgedInserts inserts = new AcknowledgedInserts(records, new Shard(i, count), true);
      for (int k = 0; k < 50; k++) {
        assertTrue(keys.add(inserts.keyNumber(inserts.take(1))));
      }
    }
    for (long key = records; key < records + 50L * count; key++) {
      assertTrue(keys.contains(key));
    }
  }

  @Test
  void parsesIndexAndCount() {
    assertEquals(new Shard(2, 5), Shard.parse("2/5"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"2/2", "-1/2", "1", "a/b", "1/2/3", "0/0", ""})
  void refusesWhatIsNoShard(String text) {
    assertTrue(assertThrows(UsageException.class, () -> Shard.parse(text)).getMessage().contains(text));
  }
}
