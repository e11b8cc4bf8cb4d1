// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.bench.redis;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.Size;
import org.junit.jupiter.api.Test;
import org.stratabench.ycsb.workload.Answer;

class RepliesTest {
  private static ByteBuffer bytes(String text) {
    return ByteBuffer.wrap(text.getBytes(StandardCharsets.ISO_8859_1));
  }

  @Property(tries = 50)
  void aReplyIsCompleteAtItsLastByteAndNotBefore(@ForAll @Size(max = 8) List<@Size(max = 30) byte[]> values, @ForAll boolean nil) {
    StringBuilder reply = new StringBuilder("*" + (values.size() + (nil ? 1 : 0)) + "\r\n");
    for (byte[] value : values) {
      reply.append("$").append(value.length).append("\r\n").append(new String(value, StandardCharsets.ISO_8859_1)).append("\r\n");
    }
    ByteBuffer all = bytes(reply.append(nil ? "$-1\r\n" : "").append("+next").toString());
    int length = all.limit() - "+next".length();
    for (int there = 1; there < length; there++) {
      assertEquals(Replies.INCOMPLETE, Replies.end(all, 0, there), "after " + there + " bytes");
    }
    assertEquals(length, Replies.end(all, 0, length));
    assertEquals(length, Replies.end(all, 0, all.limit()));
  }

  @Test
  void answersAreWhatRedisSays() {
    assertEquals(Answer.OK, Replies.answer(bytes("+OK\r\n")));
    assertEquals(Answer.NOT_FOUND, Replies.answer(bytes("*0\r\n")));
    assertEquals(Answer.failed("WRONGTYPE"), Replies.answer(bytes("-WRONGTYPE Operation against a key\r\n")));
  }
}
