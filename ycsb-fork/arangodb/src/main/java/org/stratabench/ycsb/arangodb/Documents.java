// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import com.arangodb.util.RawBytes;
import com.arangodb.util.RawData;
import com.arangodb.util.RawJson;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.stratabench.ycsb.workload.Item;
import org.stratabench.ycsb.workload.Key;

/**
 * Spells records and edges as JSON.
 *
 * <p>Keys and values need no escapes: both consist of letters, digits, {@code -} and {@code _}. Names are escaped once.
 */
final class Documents {
  private static final byte[] KEY = ascii("{\"_key\":\"");
  private static final byte[] EDGE_FROM = ascii("\",\"_from\":\"");
  private static final byte[] EDGE_TO = ascii("\",\"_to\":\"");
  private static final byte[] END = ascii("\"}");

  private final boolean vpack;
  private final byte[] collection;
  private final byte[] secondary;
  private final Map<String, byte[]> names = new HashMap<>();

  /**
   * @param vpack whether the driver has to turn the JSON into VelocyPack
   * @param collection the vertices' collection
   * @param fields names of a record's fields
   * @param secondaryField the secondary field's name, or null
   */
  Documents(boolean vpack, String collection, List<String> fields, String secondaryField) {
    this.vpack = vpack;
    this.collection = utf8(escaped(collection) + "/");
    this.secondary = secondaryField == null ? null : utf8(",\"" + escaped(secondaryField) + "\":");
    for (String field : fields) {
      names.put(field, utf8("\"" + escaped(field) + "\":\""));
    }
  }

  /** A new record. */
  RawData record(Item item) {
    Bytes out = new Bytes(sizeOf(item));
    out.add(KEY).add(item.key()).add('"');
    for (int i = 0; i < item.fields().size(); i++) {
      out.add(',');
      field(item, i, out);
    }
    if (secondary != null && item.secondary() >= 0) {
      out.add(secondary).add(ascii(Long.toString(item.secondary())));
    }
    return raw(out.add('}').toArray());
  }

  /** The fields that an update writes. */
  RawData change(Item item) {
    Bytes out = new Bytes(sizeOf(item)).add('{');
    for (int i = 0; i < item.fields().size(); i++) {
      if (i > 0) {
        out.add(',');
      }
      field(item, i, out);
    }
    return raw(out.add('}').toArray());
  }

  /** The edges of a new record. Their keys follow from the record's, so that loading again makes no second set. */
  List<RawData> edges(Item item) {
    List<RawData> edges = new ArrayList<>(item.edgeCount());
    for (int i = 0; i < item.edgeCount(); i++) {
      Bytes out = new Bytes(KEY.length + EDGE_FROM.length + EDGE_TO.length + END.length + 2 * collection.length
          + 2 * item.key().length() + item.edge(i).length() + 12);
      out.add(KEY).add(item.key()).add('-').add(ascii(Integer.toString(i)))
          .add(EDGE_FROM).add(collection).add(item.key())
          .add(EDGE_TO).add(collection).add(item.edge(i)).add(END);
      edges.add(raw(out.toArray()));
    }
    return edges;
  }

  private void field(Item item, int i, Bytes out) {
    out.add(names.get(item.fields().get(i))).add(ascii(item.value(i).toText())).add('"');
  }

  private int sizeOf(Item item) {
    int size = KEY.length + item.key().length() + 2;
    for (int i = 0; i < item.fields().size(); i++) {
      size += names.get(item.fields().get(i)).length + item.value(i).length() + 2;
    }
    return size + (secondary == null ? 0 : secondary.length + 20);
  }

  private RawData raw(byte[] json) {
    return vpack ? RawJson.of(new String(json, StandardCharsets.UTF_8)) : RawBytes.of(json);
  }

  private static String escaped(String name) {
    StringBuilder escaped = new StringBuilder();
    for (char c : name.toCharArray()) {
      if (c == '"' || c == '\\') {
        escaped.append('\\').append(c);
      } else if (c < ' ') {
        escaped.append(String.format("\\u%04x", (int) c));
      } else {
        escaped.append(c);
      }
    }
    return escaped.toString();
  }

  private static byte[] ascii(String text) {
    return text.getBytes(StandardCharsets.ISO_8859_1);
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /** Bytes one after the other in an array that is large enough. */
  private static final class Bytes {
    private final byte[] array;
    private int size;

    Bytes(int most) {
      array = new byte[most];
    }

    Bytes add(byte[] bytes) {
      System.arraycopy(bytes, 0, array, size, bytes.length);
      size += bytes.length;
      return this;
    }

    Bytes add(Key key) {
      size = key.writeTo(array, size);
      return this;
    }

    Bytes add(char c) {
      array[size] = (byte) c;
      size++;
      return this;
    }

    byte[] toArray() {
      return size == array.length ? array : Arrays.copyOf(array, size);
    }
  }
}
