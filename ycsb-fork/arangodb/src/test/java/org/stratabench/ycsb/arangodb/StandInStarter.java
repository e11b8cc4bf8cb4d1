// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import io.vertx.core.Vertx;
import io.vertx.core.net.NetClient;
import io.vertx.core.net.NetServerOptions;
import io.vertx.core.net.PemKeyCertOptions;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * A stand-in for ArangoDB's starter, on several loopback addresses of one machine: takes the starter's options, listens on its port and on those of a
 * coordinator, with its own certificate, and of a DB server. The coordinators hand connections on to the first of the joined ones, which answers.
 *
 * <p>It is no ArangoDB: documents are answered from one memory; what is written is appended to the journals of so many DB servers as the collection
 * wants copies, and synced, so that each has I/O of its own. Nothing is ever read back from them.
 */
public final class StandInStarter {
  private static final int COORDINATOR = 1;
  private static final int DB_SERVER = 2;
  private static final int ANSWERS = 4;
  private static final int CONNECT_MS = 1000;

  private StandInStarter() { }

  /** @param arguments of the starter, {@code --name=value} */
  public static void main(String[] arguments) throws IOException, InterruptedException {
    Map<String, String> options = new LinkedHashMap<>();
    for (String argument : arguments) {
      String[] parts = argument.replaceFirst("^--", "").split("=", 2);
      options.put(parts[0], parts.length == 2 ? parts[1] : "");
    }
    String address = options.get("starter.address");
    int port = Integer.parseInt(options.get("starter.port"));
    List<InetSocketAddress> joined = new ArrayList<>();
    for (String one : options.get("starter.join").split(",")) {
      joined.add(new InetSocketAddress(one.substring(0, one.lastIndexOf(':')), Integer.parseInt(one.substring(one.lastIndexOf(':') + 1))));
    }
    new Thread(dbServer(address, port + DB_SERVER, Path.of(options.get("starter.data-dir"))), "db-server").start();
    String keyFile = options.get("ssl.keyfile");
    if (joined.get(0).getAddress().getHostAddress().equals(address)) {
      answers(joined, Files.readString(Path.of(options.get("auth.jwt-secret"))).strip(), keyFile == null ? "tcp" : "ssl");
    }
    coordinator(address, port + COORDINATOR, at(joined.get(0), ANSWERS), keyFile);
    try (ServerSocket starter = listen(address, port)) {
      while (true) {
        starter.accept().close();
      }
    }
  }

  /** Hands what it is sent on to the first node's stand-in, in either direction; with TLS HTTP/1.1 only, for it knows no ALPN. */
  private static void coordinator(String address, int port, InetSocketAddress answers, String keyFile) {
    NetServerOptions options = new NetServerOptions().setHost(address).setPort(port);
    if (keyFile != null) {
      options.setSsl(true).setKeyCertOptions(new PemKeyCertOptions().addCertPath(keyFile).addKeyPath(keyFile));
    }
    Vertx vertx = Vertx.vertx();
    NetClient client = vertx.createNetClient();
    vertx.createNetServer(options).connectHandler(near -> {
      near.pause();
      client.connect(answers.getPort(), answers.getAddress().getHostAddress()).onFailure(refused -> near.close()).onSuccess(far -> {
        near.pipeTo(far);
        far.pipeTo(near);
      });
    }).listen().toCompletionStage().toCompletableFuture().join();
  }

  private static void answers(List<InetSocketAddress> joined, String secret, String scheme) {
    Map<String, BooleanSupplier> coordinators = new LinkedHashMap<>();
    Map<String, BooleanSupplier> dbServers = new LinkedHashMap<>();
    for (InetSocketAddress one : joined) {
      coordinators.put(scheme + ":/" + at(one, COORDINATOR), () -> lives(at(one, COORDINATOR)));
      dbServers.put(scheme + ":/" + at(one, DB_SERVER), () -> lives(at(one, DB_SERVER)));
    }
    Copies copies = new Copies(joined.stream().map(one -> at(one, DB_SERVER)).toList());
    // Never closed: it lasts as long as the process.
    ArangoStandIn standIn = new ArangoStandIn(List.of(at(joined.get(0), ANSWERS)), header -> isSigned(header, secret), null, coordinators, dbServers,
        copies);
    System.out.println("stand-in for ArangoDB for " + joined.size() + " nodes on port " + standIn.coordinator(0).port());
  }

  /** Prints as {@code /address:port}. */
  private static InetSocketAddress at(InetSocketAddress starter, int offset) {
    return new InetSocketAddress(starter.getAddress(), starter.getPort() + offset);
  }

  private static ServerSocket listen(String address, int port) throws IOException {
    ServerSocket socket = new ServerSocket();
    socket.setReuseAddress(true);
    socket.bind(new InetSocketAddress(address, port));
    return socket;
  }

  private static boolean lives(InetSocketAddress server) {
    try (Socket socket = new Socket()) {
      socket.connect(server, CONNECT_MS);
      return true;
    } catch (IOException e) {
      return false;
    }
  }

  /** A JSON Web Token of the servers' secret (HS256, RFC 7519); what it claims is not looked at. */
  static boolean isSigned(String header, String secret) {
    if (header == null || !header.regionMatches(true, 0, "bearer ", 0, 7)) {
      return false;
    }
    String token = header.substring(7);
    int end = token.lastIndexOf('.');
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
      byte[] signature = mac.doFinal(token.substring(0, Math.max(end, 0)).getBytes(StandardCharsets.US_ASCII));
      return end > 0 && Base64.getUrlEncoder().withoutPadding().encodeToString(signature).equals(token.substring(end + 1));
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Sends what is written to as many DB servers as there shall be copies, the first one by the document's key. */
  private static final class Copies implements ArangoStandIn.Writes {
    private final List<InetSocketAddress> servers;
    private final Map<InetSocketAddress, Socket> connections = new LinkedHashMap<>();

    Copies(List<InetSocketAddress> servers) {
      this.servers = servers;
    }

    @Override
    public void written(ArangoStandIn.Call call, int factor) {
      String key = call.body().path("_key").asText(call.path());
      byte[] line = (call.method() + " " + call.path() + " " + call.body() + "\n").getBytes(StandardCharsets.UTF_8);
      for (int copy = 0; copy < Math.min(factor, servers.size()); copy++) {
        send(servers.get(Math.floorMod(key.hashCode() + copy, servers.size())), line);
      }
    }

    private void send(InetSocketAddress server, byte[] line) {
      try {
        Socket socket = connections.get(server);
        if (socket == null) {
          socket = new Socket(server.getAddress(), server.getPort());
          socket.setTcpNoDelay(true);
          connections.put(server, socket);
        }
        DataOutputStream out = new DataOutputStream(socket.getOutputStream());
        byte[] message = ByteBuffer.allocate(Integer.BYTES + line.length).putInt(line.length).put(line).array();
        out.write(message);
        if (socket.getInputStream().read() < 0) {
          throw new IOException("it has closed the connection");
        }
      } catch (IOException e) {
        throw new UncheckedIOException("the stand-in's DB server " + server, e);
      }
    }
  }

  private static Runnable dbServer(String address, int port, Path folder) throws IOException {
    Files.createDirectories(folder);
    FileChannel journal = FileChannel.open(folder.resolve("journal"), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    ServerSocket listening = listen(address, port);
    return () -> {
      while (true) {
        try {
          Socket one = listening.accept();
          new Thread(() -> take(one, journal), "writes").start();
        } catch (IOException e) {
          throw new UncheckedIOException(e);
        }
      }
    };
  }

  private static void take(Socket socket, FileChannel journal) {
    try (socket; DataInputStream in = new DataInputStream(socket.getInputStream())) {
      while (true) {
        journal.write(ByteBuffer.wrap(in.readNBytes(in.readInt())));
        journal.force(false);
        socket.getOutputStream().write(1);
      }
    } catch (IOException e) {
      // The coordinators are gone, or somebody only looked whether this one lives.
    }
  }
}
