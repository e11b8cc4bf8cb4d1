// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpServer;
import io.vertx.core.http.HttpServerOptions;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.net.KeyCertOptions;
import io.vertx.core.net.PfxOptions;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * A stand-in for the coordinators of an ArangoDB cluster: the documented HTTP API in HTTP/1.1 and HTTP/2 over one store in memory.
 *
 * <p>It is no ArangoDB: nothing is replicated or synced. Every call and its arguments are recorded, so that a test sees what was asked for, and every
 * coordinator can be made to refuse connections, to answer 503, to break off in the middle of answers, and to take its time.
 */
final class ArangoStandIn implements AutoCloseable {
  /** How a coordinator behaves. */
  enum Fault { NONE, UNAVAILABLE, BREAK_OFF, SILENT }

  /** One call. */
  record Call(int coordinator, String http, String method, String database, String path, Map<String, String> query, JsonNode body) { }

  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static final Pattern URI = Pattern.compile("(?:/_db/(?<database>[^/]+))?(?<path>/[^?]*)(?:\\?.*)?");

  private final Vertx vertx = Vertx.vertx(new VertxOptions().setEventLoopPoolSize(1));
  private final StandInStore store = new StandInStore();
  private final List<Coordinator> coordinators = new ArrayList<>();
  private final Queue<Call> calls = new ConcurrentLinkedQueue<>();
  private final Predicate<String> authorised;
  private final Writes writes;
  private final AtomicInteger countdown = new AtomicInteger();
  private volatile CompletableFuture<Void> countedDown = new CompletableFuture<>();
  private volatile int latencyMs;

  /** Where documents go that were written; called by one thread at a time. */
  interface Writes {
    /** @param factor copies that the document's collection wants */
    void written(Call call, int factor);
  }

  /** One listening port. */
  final class Coordinator {
    private final int number;
    private final int port;
    private final HttpServerOptions options;
    private final AtomicInteger requests = new AtomicInteger();
    private StandInApi api;
    private HttpServer server;
    private volatile Fault fault = Fault.NONE;

    /** @param keys null for no TLS */
    Coordinator(int number, InetSocketAddress address, KeyCertOptions keys) {
      this.number = number;
      this.port = address.getPort();
      options = new HttpServerOptions().setHost(address.getAddress().getHostAddress()).setPort(port);
      if (keys != null) {
        options.setSsl(true).setUseAlpn(true).setKeyCertOptions(keys);
      }
    }

    /** Listens, again after {@link #die}. */
    void start() {
      server = await(vertx.createHttpServer(options).requestHandler(this::handle).listen().toCompletionStage());
    }

    /** Closes all connections and refuses new ones. */
    void die() {
      await(server.close().toCompletionStage());
    }

    void behave(Fault wanted) {
      fault = wanted;
    }

    int port() {
      return port;
    }

    /** Requests that have arrived. */
    int requests() {
      return requests.get();
    }

    int openCursors() {
      return api.openCursors();
    }

    private void handle(HttpServerRequest request) {
      requests.incrementAndGet();
      if (countdown.decrementAndGet() == 0) {
        countedDown.complete(null);
      }
      request.body().onSuccess(body -> {
        StandInApi.Reply reply = reply(request, body);
        if (latencyMs > 0) {
          vertx.setTimer(latencyMs, timer -> send(request, reply));
        } else {
          send(request, reply);
        }
      });
    }

    private StandInApi.Reply reply(HttpServerRequest request, Buffer body) {
      if (fault == Fault.UNAVAILABLE) {
        return refusal(503, 503, "service unavailable");
      }
      if (!authorised.test(request.getHeader("authorization"))) {
        return refusal(401, 11, "not authorized to execute this request");
      }
      Matcher uri = URI.matcher(request.uri());
      if (!uri.matches()) {
        return refusal(400, 400, "bad URI");
      }
      Map<String, String> query = new HashMap<>();
      request.params().forEach(entry -> query.put(entry.getKey(), entry.getValue()));
      String database = uri.group("database") == null ? "_system" : uri.group("database");
      JsonNode json = parse(body);
      Call call = new Call(number, request.version().name(), request.method().name(), database, uri.group("path"), query, json);
      if (writes == null) {
        calls.add(call);
      }
      StandInApi.Reply reply = api.answer(call.method(), database, call.path(), query, json);
      if (writes != null && reply.status() < 300 && call.path().startsWith("/_api/document/") && !call.method().equals("GET")) {
        writes.written(call, store.collection(database, call.path().split("/")[3]).properties().path("replicationFactor").asInt(1));
      }
      return reply;
    }

    private void send(HttpServerRequest request, StandInApi.Reply reply) {
      Buffer body = Buffer.buffer(reply.body().toString());
      if (fault == Fault.SILENT) {
        return;
      }
      request.response().setStatusCode(reply.status()).putHeader("content-type", "application/json; charset=utf-8");
      if (fault == Fault.BREAK_OFF) {
        request.response().putHeader("content-length", Integer.toString(body.length() + 1)).write(body.getBuffer(0, body.length() / 2))
            .onComplete(written -> request.connection().close());
      } else {
        request.response().end(body);
      }
    }
  }

  private ArangoStandIn(int count, Predicate<String> authorised, KeyCertOptions keys) {
    this(IntStream.range(0, count).mapToObj(i -> new InetSocketAddress(InetAddress.getLoopbackAddress(), freePort())).toList(), authorised, keys,
        null, Map.of("tcp://192.0.2.1:8530", () -> true, "tcp://192.0.2.2:8530", () -> false), null);
  }

  /**
   * @param told the coordinators that it tells of, and whether they live; null: those on {@code addresses}
   * @param dbServers endpoints, and whether they live
   * @param writes null: the calls are recorded instead
   */
  ArangoStandIn(List<InetSocketAddress> addresses, Predicate<String> authorised, KeyCertOptions keys, Map<String, BooleanSupplier> told,
      Map<String, BooleanSupplier> dbServers, Writes writes) {
    this.authorised = authorised;
    this.writes = writes;
    Map<String, BooleanSupplier> own = new LinkedHashMap<>();
    for (InetSocketAddress address : addresses) {
      coordinators.add(new Coordinator(coordinators.size(), address, keys));
      own.put((keys == null ? "tcp" : "ssl") + "://" + address.getAddress().getHostAddress() + ":" + address.getPort(), () -> true);
    }
    for (Coordinator coordinator : coordinators) {
      coordinator.api = new StandInApi(store, told == null ? own : told, dbServers);
      coordinator.start();
    }
  }

  /** Coordinators without authentication. */
  static ArangoStandIn start(int coordinators) {
    return new ArangoStandIn(coordinators, header -> true, null);
  }

  /** One coordinator that wants user and password, or the token when that is not null. */
  static ArangoStandIn guarded(String user, String password, String token) {
    String basic = Base64.getEncoder().encodeToString((user + ":" + password).getBytes(StandardCharsets.UTF_8));
    String expected = token == null ? "basic " + basic : "bearer " + token;
    return new ArangoStandIn(1, expected::equalsIgnoreCase, null);
  }

  /** One coordinator that speaks TLS with one of the keys in a PKCS #12 file. */
  static ArangoStandIn encrypted(Path keyStore, String alias, String keyStorePassword) {
    return new ArangoStandIn(1, header -> true, new PfxOptions().setPath(keyStore.toString()).setAlias(alias).setPassword(keyStorePassword));
  }

  private static int freePort() {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static JsonNode parse(Buffer body) {
    try {
      return body.length() == 0 ? JsonNodeFactory.instance.missingNode() : MAPPER.readTree(body.getBytes());
    } catch (JsonProcessingException e) {
      return JsonNodeFactory.instance.textNode("not JSON: " + e.getOriginalMessage());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static StandInApi.Reply refusal(int status, int number, String message) {
    return new StandInApi.Reply(status, new StandInStore.Refusal(status, number, message).body());
  }

  private static <T> T await(CompletionStage<T> stage) {
    return stage.toCompletableFuture().join();
  }

  /** All coordinators as {@code arangodb.hosts} wants them. */
  String hosts() {
    return coordinators.stream().map(one -> "127.0.0.1:" + one.port()).collect(Collectors.joining(","));
  }

  Coordinator coordinator(int number) {
    return coordinators.get(number);
  }

  List<Coordinator> coordinators() {
    return coordinators;
  }

  /** Does something in another thread when so many more requests have arrived. */
  CompletableFuture<Void> after(int more, Runnable action) {
    countedDown = new CompletableFuture<>();
    CompletableFuture<Void> done = countedDown.thenRunAsync(action);
    countdown.set(more);
    return done;
  }

  /** Time every answer takes. */
  void delay(int milliseconds) {
    latencyMs = milliseconds;
  }

  /** What was called with a method and a path that begins with {@code path}, oldest first. */
  Stream<Call> calls(String method, String path) {
    return calls.stream().filter(call -> call.method().equals(method) && call.path().startsWith(path));
  }

  Stream<Call> calls() {
    return calls.stream();
  }

  boolean hasDatabase(String name) {
    return store.hasDatabase(name);
  }

  @Override
  public void close() {
    await(vertx.close().toCompletionStage());
  }
}
