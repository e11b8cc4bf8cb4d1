// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.bench.redis;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import org.stratabench.ycsb.workload.Answer;
import org.stratabench.ycsb.workload.Request;

/** One logical client's connection, with at most one request under way. */
final class Connection implements Closeable {
  private static final int BUFFER_BYTES = 16 * 1024;

  private final SocketChannel channel;
  private final Commands commands = new Commands();
  private ByteBuffer received = ByteBuffer.allocateDirect(BUFFER_BYTES);

  Connection(InetSocketAddress server) throws IOException {
    channel = SocketChannel.open(server);
    channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
  }

  SocketChannel channel() {
    return channel;
  }

  /** Sends a request. It is far smaller than a socket's buffer, which is empty between requests, so this does not wait. */
  void send(Request request) throws IOException {
    ByteBuffer command = commands.spell(request);
    while (command.hasRemaining()) {
      channel.write(command);
    }
  }

  /** Reads once; the answer, or null when it is not all there yet. */
  Answer receive() throws IOException {
    if (!received.hasRemaining()) {
      received = ByteBuffer.allocateDirect(2 * received.capacity()).put(received.flip());
    }
    if (channel.read(received) < 0) {
      throw new EOFException("Redis closed the connection");
    }
    if (received.position() == 0 || Replies.end(received, 0, received.position()) == Replies.INCOMPLETE) {
      return null;
    }
    Answer answer = Replies.answer(received);
    received.clear();
    return answer;
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }
}
