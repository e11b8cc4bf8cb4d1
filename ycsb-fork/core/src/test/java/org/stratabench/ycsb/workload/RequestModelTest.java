// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import org.stratabench.ycsb.Settings;

/** The requests of all clients of all shards against a plain set of the keys that are there. */
class RequestModelTest {
  private static final String[] DISTRIBUTIONS = {"uniform", "zipfian", "hotspot", "sequential", "latest", "exponential"};

  /** One client of one shard, and the insert that it has under way, if any. */
  private record Client(RequestGenerator generator, List<String> underWay) { }

  @Property(tries = 300)
  void everyKeyIsLoadedOnceAndOnlyWhatIsThereIsAskedFor(@ForAll @IntRange(min = 1, max = 40) int records,
      @ForAll @IntRange(max = 5) int start, @ForAll @IntRange(max = 3) int beyond, @ForAll @IntRange(min = 1, max = 7) int shards,
      @ForAll @IntRange(min = 1, max = 4) int clients, @ForAll @IntRange(max = 5) int distribution, @ForAll boolean ordered,
      @ForAll @IntRange(max = 25) int padding, @ForAll long seed) {
    Properties properties = new Properties();
    properties.setProperty("insertstart", Integer.toString(start));
    properties.setProperty("insertcount", Integer.toString(records));
    properties.setProperty("recordcount", Integer.toString(start + records + beyond));
    properties.setProperty("requestdistribution", DISTRIBUTIONS[distribution]);
    properties.setProperty("insertorder", ordered ? "ordered" : "hashed");
    properties.setProperty("zeropadding", Integer.toString(padding));
    properties.setProperty("multiget.size", "3");
    properties.setProperty("batchinsert.size", "2");
    WorkloadSpec spec = new WorkloadSpec(new Settings(properties));
    Random random = new Random(seed);
    Set<String> loaded = load(spec, shards, clients, seed);
    Set<String> expected = new HashSet<>();
    for (long number = start; number < start + records; number++) {
      expected.add(ycsbsKey(number, padding, ordered));
    }
    assertEquals(expected, loaded);
    Set<String> everInserted = new HashSet<>(loaded);
    for (int i = 0; i < shards; i++) {
      Shard shard = new Shard(i, shards);
      Set<String> present = new HashSet<>(loaded);
      RequestGenerator.Shared shared = new RequestGenerator.Shared(spec, shard);
      List<Client> all = new ArrayList<>();
      for (int c = 0; c < clients; c++) {
        all.add(new Client(new RequestGenerator(shared, c, clients, Mixing.stream(seed, i, c, 0)), new ArrayList<>()));
      }
      for (int step = 0; step < 200; step++) {
        step(all.get(random.nextInt(clients)), random, present, everInserted);
      }
    }
  }

  private static Set<String> load(WorkloadSpec spec, int shards, int clients, long seed) {
    Set<String> keys = new HashSet<>();
    for (int i = 0; i < shards; i++) {
      Shard shard = new Shard(i, shards);
      RequestGenerator.Shared shared = new RequestGenerator.Shared(spec, shard);
      for (int c = 0; c < clients; c++) {
        RequestGenerator generator = new RequestGenerator(shared, c, clients, Mixing.stream(seed, i, c, 0));
        long first = spec.insertStart() + shard.start(spec.insertCount());
        for (long index = c; index < shard.share(spec.insertCount()); index += clients) {
          generator.prepareLoad(first + index);
          assertTrue(keys.add(generator.request().key().toString()), "loaded twice");
        }
      }
    }
    return keys;
  }

  /** Begins an operation of a client, or answers the one that it has under way. */
  private static void step(Client client, Random random, Set<String> present, Set<String> everInserted) {
    if (!client.underWay.isEmpty()) {
      boolean acknowledged = random.nextInt(4) > 0;
      if (acknowledged) {
        present.addAll(client.underWay);
      }
      client.underWay.clear();
      client.generator.answered(acknowledged);
      return;
    }
    OperationType[] types = {OperationType.READ, OperationType.INSERT, OperationType.MULTI_GET, OperationType.BATCH_INSERT,
        OperationType.SCAN, OperationType.READ_MODIFY_WRITE};
    OperationType type = types[random.nextInt(types.length)];
    client.generator.prepare(type);
    Request request = client.generator.request();
    assertEquals(type == OperationType.MULTI_GET ? 3 : type == OperationType.BATCH_INSERT ? 2 : 1, request.size());
    for (int i = 0; i < request.size(); i++) {
      String key = request.item(i).key().toString();
      if (type == OperationType.INSERT || type == OperationType.BATCH_INSERT) {
        assertTrue(everInserted.add(key), key + " is inserted twice");
        client.underWay.add(key);
      } else {
        assertTrue(present.contains(key), type + " of " + key + ", which is not there");
      }
    }
    if (client.underWay.isEmpty()) {
      client.generator.answered(true);
    }
  }

  /** The key as YCSB's CoreWorkload makes it. */
  private static String ycsbsKey(long number, int padding, boolean ordered) {
    String digits = Long.toString(ordered ? number : site.ycsb.Utils.hash(number));
    return "user" + "0".repeat(Math.max(0, padding - digits.length())) + digits;
  }
}
