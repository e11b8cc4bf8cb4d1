// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.bench.redis;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.stratabench.ycsb.workload.Item;
import org.stratabench.ycsb.workload.Key;
import org.stratabench.ycsb.workload.OperationType;
import org.stratabench.ycsb.workload.Request;

/** Spells requests in Redis' protocol (RESP2), into a buffer that is used again. */
final class Commands {
  private static final byte[] READ_ALL = bulk("HGETALL");
  private static final byte[] READ_SOME = bulk("HMGET");
  private static final byte[] WRITE = bulk("HMSET");
  private static final int MOST_LENGTH_BYTES = 16;

  private final Map<String, byte[]> names = new HashMap<>();
  private byte[] buffer = new byte[256];
  private int end;

  private static byte[] bulk(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    return ("$" + bytes.length + "\r\n" + text + "\r\n").getBytes(StandardCharsets.UTF_8);
  }

  /** The command of a READ or an UPDATE; valid until the next call. */
  ByteBuffer spell(Request request) {
    end = 0;
    if (request.type() == OperationType.READ) {
      read(request.key(), request.fields());
    } else {
      write(request.item(0));
    }
    return ByteBuffer.wrap(buffer, 0, end);
  }

  private void read(Key key, List<String> fields) {
    length('*', fields == null ? 2 : 2 + fields.size());
    bytes(fields == null ? READ_ALL : READ_SOME);
    key(key);
    if (fields != null) {
      for (int i = 0; i < fields.size(); i++) {
        bytes(name(fields.get(i)));
      }
    }
  }

  private void write(Item item) {
    int fields = item.fields().size();
    length('*', 2 + 2 * fields);
    bytes(WRITE);
    key(item.key());
    for (int i = 0; i < fields; i++) {
      bytes(name(item.fields().get(i)));
      length('$', item.value(i).length());
      room(item.value(i).length() + 2);
      end = item.value(i).writeTo(buffer, end);
      lineEnd();
    }
  }

  private byte[] name(String field) {
    byte[] name = names.get(field);
    if (name == null) {
      name = bulk(field);
      names.put(field, name);
    }
    return name;
  }

  private void key(Key key) {
    length('$', key.length());
    room(key.length() + 2);
    end = key.writeTo(buffer, end);
    lineEnd();
  }

  private void bytes(byte[] bytes) {
    room(bytes.length);
    System.arraycopy(bytes, 0, buffer, end, bytes.length);
    end += bytes.length;
  }

  private void length(char kind, int length) {
    room(MOST_LENGTH_BYTES);
    buffer[end++] = (byte) kind;
    int digits = 1;
    for (int rest = length / 10; rest > 0; rest /= 10) {
      digits++;
    }
    int rest = length;
    for (int at = end + digits - 1; at >= end; at--) {
      buffer[at] = (byte) ('0' + rest % 10);
      rest /= 10;
    }
    end += digits;
    lineEnd();
  }

  private void lineEnd() {
    buffer[end++] = '\r';
    buffer[end++] = '\n';
  }

  private void room(int bytes) {
    if (buffer.length - end < bytes) {
      buffer = Arrays.copyOf(buffer, Math.max(2 * buffer.length, end + bytes));
    }
  }
}
