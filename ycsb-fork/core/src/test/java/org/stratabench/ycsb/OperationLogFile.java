// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Decodes {@code ops.bin} by its documented layout.
 *
 * @param header the JSON object
 * @param rows all records
 */
public record OperationLogFile(JsonObject header, List<Row> rows) {
  /** One record. */
  public record Row(long startNs, long latencyNs, long delayNs, int keyHash, int thread, String operation, String status) { }

  /** Reads a file. */
  public static OperationLogFile read(Path file) {
    byte[] all;
    try {
      all = Files.readAllBytes(file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    ByteBuffer bytes = ByteBuffer.wrap(all).order(ByteOrder.LITTLE_ENDIAN);
    String magic = new String(all, 0, 8, StandardCharsets.US_ASCII);
    int length = bytes.getInt(12);
    if (!magic.equals("STRATAOP") || bytes.getInt(8) != 2 || length % 64 != 0) {
      throw new IllegalStateException("not an operation log");
    }
    JsonObject header = JsonParser.parseString(new String(all, 16, length - 16, StandardCharsets.UTF_8)).getAsJsonObject();
    int size = header.get("record_bytes").getAsInt();
    long anchor = header.get("anchor_mono_ns").getAsLong();
    List<Row> rows = new ArrayList<>();
    for (int at = length; at + size <= all.length; at += size) {
      long start = low48(bytes, at);
      int client = Short.toUnsignedInt(bytes.getShort(at + 6));
      int codes = Byte.toUnsignedInt(bytes.get(at + 8));
      long latency = bytes.getInt(at + 8) >>> 8;
      int hash = bytes.getInt(at + 12);
      long delay = -1;
      if (latency == 0xFFFFFF) {
        at += size;
        if (bytes.get(at + 8) != (byte) 0xFF) {
          throw new IllegalStateException("a record without its second slot");
        }
        latency = low48(bytes, at);
        start |= (long) bytes.getShort(at + 6) << 48;
        delay = bytes.getLong(at + 8) >> 8;
      }
      rows.add(new Row(start + anchor, latency, delay, hash, client, header.getAsJsonArray("operations").get(codes & 15).getAsString(),
          header.getAsJsonArray("statuses").get(codes >> 4).getAsString()));
    }
    return new OperationLogFile(header, rows);
  }

  private static long low48(ByteBuffer bytes, int at) {
    return bytes.getLong(at) << 16 >>> 16;
  }

  /** Records of one operation. */
  public long count(String operation) {
    return rows.stream().filter(row -> row.operation().equals(operation)).count();
  }

  /** The calendar time of a monotonic instant in this log. */
  public long toUnix(long monoNs) {
    return monoNs - header.get("anchor_mono_ns").getAsLong() + header.get("anchor_unix_ns").getAsLong();
  }
}
