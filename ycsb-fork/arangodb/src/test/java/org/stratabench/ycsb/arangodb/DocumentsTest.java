// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.arangodb.util.RawBytes;
import com.arangodb.util.RawData;
import com.arangodb.util.RawJson;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.SplittableRandom;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.StringLength;
import org.stratabench.ycsb.Settings;
import org.stratabench.ycsb.workload.Item;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.RequestGenerator;
import org.stratabench.ycsb.workload.Shard;
import org.stratabench.ycsb.workload.WorkloadSpec;

/** Documents as another JSON implementation reads them. */
class DocumentsTest {
  private static JsonNode parse(RawData raw) throws IOException {
    ObjectMapper mapper = new ObjectMapper();
    return raw instanceof RawBytes bytes ? mapper.readTree(bytes.get()) : mapper.readTree(((RawJson) raw).get());
  }

  @Property(tries = 200)
  void recordsChangesAndEdgesSayWhatTheItemHolds(@ForAll @StringLength(max = 12) String prefix, @ForAll @IntRange(min = 1, max = 20) int fields,
      @ForAll @IntRange(min = 1, max = 200) int length, @ForAll long seed, @ForAll boolean vpack) throws IOException {
    // lone surrogates have no UTF-8
    String name = prefix.replaceAll("\\p{Cs}", "_").trim();
    Properties properties = ArangoSuite.of(Map.of("recordcount", "50", "fieldcount", Integer.toString(fields), "fieldlength",
        Integer.toString(length), "fieldnameprefix", name, "secondarylookupproportion", "1", "traversalproportion", "1",
        "writeallfields", "true"));
    WorkloadSpec spec = new WorkloadSpec(new Settings(properties));
    RequestGenerator generator =
        new RequestGenerator(new RequestGenerator.Shared(spec, Shard.WHOLE), 0, 1, new SplittableRandom(seed));
    String collection = "c" + name;
    Documents documents = new Documents(vpack, collection, spec.fieldNames(), "secondary");
    generator.prepareLoad(Math.floorMod(seed, 50));
    Item item = generator.request().item(0);
    JsonNode record = parse(documents.record(item));
    assertEquals(item.key().toString(), record.path("_key").asText());
    assertEquals(item.secondary(), record.path("secondary").asLong(-1));
    assertEquals(fields + 2, record.size());
    checkFields(item, record);
    List<RawData> edges = documents.edges(item);
    assertEquals(3, edges.size());
    for (int i = 0; i < edges.size(); i++) {
      JsonNode edge = parse(edges.get(i));
      assertEquals(collection + "/" + item.key(), edge.path("_from").asText());
      assertEquals(collection + "/" + item.edge(i), edge.path("_to").asText());
      assertTrue(edge.path("_key").asText().startsWith(item.key() + "-"));
    }
    generator.prepare(OperationType.UPDATE);
    JsonNode change = parse(documents.change(generator.request().item(0)));
    assertEquals(fields, change.size());
    checkFields(generator.request().item(0), change);
  }

  private static void checkFields(Item item, JsonNode document) {
    for (int i = 0; i < item.fields().size(); i++) {
      assertEquals(item.value(i).toText(), document.path(item.fields().get(i)).asText());
    }
  }
}
