// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import com.arangodb.Protocol;
import com.arangodb.config.HostDescription;
import com.arangodb.entity.LoadBalancingStrategy;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import org.stratabench.ycsb.Settings;

/** The binding's properties, checked; every refusal names the property and never shows a secret. */
final class ArangoSettings {
  private static final int DEFAULT_PORT = 8529;
  private static final int MOST_PORT = 65_535;
  private static final int MOST_CONNECTIONS = 1000;
  /** Requests that the driver lets share one HTTP/2 connection at a time; HTTP/1.1 has one. */
  private static final int STREAMS_PER_CONNECTION = 32;
  private static final int LONGEST_MS = 3_600_000;
  /** Class that the driver's VelocyPack artifact adds. */
  private static final String VPACK_CLASS = "com.arangodb.serde.jackson.vpack.JacksonVPackSerdeProvider";

  private final Settings settings;
  private final List<HostDescription> hosts;
  private final Protocol protocol;

  ArangoSettings(Properties properties) {
    this(new Settings(properties));
  }

  ArangoSettings(Settings settings) {
    this.settings = settings;
    hosts = readHosts();
    protocol = readProtocol();
    refuseUnsupported();
    checkValues();
  }

  /** Reads every value once, so that a wrong one is refused before anything is connected or created. */
  private void checkValues() {
    loadBalancing();
    acquireHostList();
    user();
    password();
    jwt();
    caFile();
    verifyHost();
    connectTimeoutMs();
    timeoutMs();
    maxConnections();
    eventLoops();
    database();
    collection();
    creates();
    dropsBefore();
    waitForSync();
    replicationFactor();
    numberOfShards();
    writeConcern();
    batchSize();
  }

  private void refuseUnsupported() {
    if (settings.flag("arangodb.transactionUpdate", false)) {
      settings.reject("arangodb.transactionUpdate", "true", "is not supported; updates go through the document API, which is atomic"
          + " for one document; remove it");
    }
    for (String secret : List.of("arangodb.password", "arangodb.jwt")) {
      if (settings.text(secret, null) != null && settings.text(secret + "File", null) != null) {
        settings.reject(secret, settings.text(secret, ""), "excludes " + secret + "File; remove one");
      }
    }
    if (!useSsl() && settings.text("arangodb.caFile", null) != null) {
      settings.reject("arangodb.caFile", settings.text("arangodb.caFile", ""), "needs arangodb.useSsl=true");
    }
  }

  private List<HostDescription> readHosts() {
    String list = settings.text("arangodb.hosts", null);
    if (list == null) {
      // YCSB's names
      return List.of(new HostDescription(settings.text("arangodb.ip", "localhost"),
          (int) settings.wholeNumber("arangodb.port", DEFAULT_PORT, 1, MOST_PORT)));
    }
    if (settings.text("arangodb.ip", null) != null || settings.text("arangodb.port", null) != null) {
      settings.reject("arangodb.hosts", list, "excludes arangodb.ip and arangodb.port; remove those");
    }
    List<HostDescription> read = new ArrayList<>();
    for (String entry : list.split(",", -1)) {
      settings.part(() -> read.add(readHost(list, entry.trim())));
    }
    return List.copyOf(read);
  }

  /** One {@code host}, {@code host:port} or {@code [IPv6 address]:port}. */
  private static HostDescription readHost(String list, String entry) {
    int colon = entry.lastIndexOf(':');
    boolean bare = colon < 0 || entry.endsWith("]");
    String host = bare ? entry : entry.substring(0, colon);
    if (host.startsWith("[") && host.endsWith("]")) {
      host = host.substring(1, host.length() - 1);
    } else if (host.indexOf(':') >= 0) {
      throw Settings.refuse("arangodb.hosts", list, "has an IPv6 address without brackets; write [address]:port");
    }
    if (host.isEmpty()) {
      throw Settings.refuse("arangodb.hosts", list, "has an entry without a host; write host:port,host:port");
    }
    try {
      int port = bare ? DEFAULT_PORT : Integer.parseInt(entry.substring(colon + 1));
      if (port >= 1 && port <= MOST_PORT) {
        return new HostDescription(host, port);
      }
    } catch (NumberFormatException e) {
      // refused below
    }
    throw Settings.refuse("arangodb.hosts", list, "has an entry whose port does not lie between 1 and " + MOST_PORT);
  }

  private Protocol readProtocol() {
    String name = settings.text("arangodb.protocol", Protocol.HTTP2_JSON.name());
    if (name.equals(Protocol.VST.name())) {
      settings.reject("arangodb.protocol", name, "is not supported: ArangoDB 3.12 and later do not speak VelocyStream;"
          + " use HTTP2_JSON or HTTP_JSON");
      return Protocol.HTTP2_JSON;
    }
    Protocol read = Protocol.valueOf(
        settings.choice("arangodb.protocol", Protocol.HTTP2_JSON.name(), "HTTP2_JSON", "HTTP_JSON", "HTTP2_VPACK", "HTTP_VPACK"));
    if (isVpack(read) && !vpackPresent()) {
      settings.reject("arangodb.protocol", name, "needs com.arangodb:jackson-serde-vpack and its dependencies, which are not on the"
          + " class path; name them with -cp, or use HTTP2_JSON or HTTP_JSON");
    }
    return read;
  }

  private static boolean isVpack(Protocol protocol) {
    return protocol == Protocol.HTTP2_VPACK || protocol == Protocol.HTTP_VPACK;
  }

  private static boolean vpackPresent() {
    try {
      Class.forName(VPACK_CLASS, false, ArangoSettings.class.getClassLoader());
      return true;
    } catch (ClassNotFoundException e) {
      return false;
    }
  }

  /** The coordinators given. */
  List<HostDescription> hosts() {
    return hosts;
  }

  /** The coordinators as a message shows them. */
  String where() {
    return hosts.stream().map(host -> host.getHost() + ":" + host.getPort()).collect(Collectors.joining(","));
  }

  Protocol protocol() {
    return protocol;
  }

  /** Whether bodies are VelocyPack instead of JSON. */
  boolean vpack() {
    return isVpack(protocol);
  }

  LoadBalancingStrategy loadBalancing() {
    return LoadBalancingStrategy.valueOf(settings.choice("arangodb.loadBalancing", "NONE", "NONE", "ROUND_ROBIN", "ONE_RANDOM"));
  }

  /** Whether the driver asks the cluster for its coordinators. */
  boolean acquireHostList() {
    return settings.flag("arangodb.acquireHostList", false);
  }

  String user() {
    return settings.text("arangodb.user", "root");
  }

  /** The password, possibly empty. */
  String password() {
    return secret("arangodb.password", "");
  }

  /** The JSON Web Token that replaces user and password, or null. */
  String jwt() {
    return secret("arangodb.jwt", null);
  }

  /** A secret given by the property or, without its trailing line break, by the file that the property with {@code File} names. */
  private String secret(String name, String fallback) {
    String file = settings.text(name + "File", null);
    if (file == null) {
      return settings.properties().getProperty(name, fallback);
    }
    try {
      return Files.readString(Path.of(file), StandardCharsets.UTF_8).stripTrailing();
    } catch (IOException e) {
      throw Settings.unreadable(name + "File", file, " (" + e.getClass().getSimpleName() + ")");
    }
  }

  boolean useSsl() {
    return settings.flag("arangodb.useSsl", false);
  }

  /** File with the certificates to trust in PEM, or null for those of the JVM. */
  Path caFile() {
    String file = settings.text("arangodb.caFile", null);
    return file == null ? null : Path.of(file);
  }

  boolean verifyHost() {
    return settings.flag("arangodb.verifyHost", true);
  }

  /** Longest time to reach the cluster, in milliseconds. */
  int connectTimeoutMs() {
    return (int) settings.wholeNumber("arangodb.connect.timeout.ms", 30_000, 1, LONGEST_MS);
  }

  /** Longest time of one request, in milliseconds. */
  int timeoutMs() {
    return (int) settings.wholeNumber("arangodb.timeout.ms", 30_000, 1, LONGEST_MS);
  }

  /** Connections to each coordinator; by default as many as let every client have a request under way. */
  int maxConnections() {
    long clients = Math.max(settings.count("clients", 0), settings.count("threadcount", 1));
    boolean http2 = protocol == Protocol.HTTP2_JSON || protocol == Protocol.HTTP2_VPACK;
    long enough = http2 ? (clients + STREAMS_PER_CONNECTION - 1) / STREAMS_PER_CONNECTION : clients;
    return (int) settings.wholeNumber("arangodb.maxConnections", Math.max(1, Math.min(MOST_CONNECTIONS, enough)), 1, MOST_CONNECTIONS);
  }

  /** Threads that serve all connections. */
  int eventLoops() {
    return (int) settings.wholeNumber("arangodb.eventLoops", Runtime.getRuntime().availableProcessors(), 1, MOST_CONNECTIONS);
  }

  String database() {
    return settings.text("arangodb.databaseName", "ycsb");
  }

  String collection() {
    return settings.text("table", "usertable");
  }

  /** Where the edges of the records are. */
  String edgeCollection() {
    return collection() + "_edges";
  }

  /** Whether the load phase makes a missing database, collection or index. */
  boolean creates() {
    return settings.flag("arangodb.create", true);
  }

  /** Whether the load phase begins with an empty database. */
  boolean dropsBefore() {
    return settings.flag("arangodb.dropDBBeforeRun", false);
  }

  /** Whether every insert, update and delete waits until it is on disk. */
  boolean waitForSync() {
    return settings.flag("arangodb.waitForSync", false);
  }

  int replicationFactor() {
    return (int) settings.wholeNumber("arangodb.replicationFactor", 1, 1, 100);
  }

  /** Shards of a new collection, or null for the server's default. */
  Integer numberOfShards() {
    return optional("arangodb.numberOfShards", 10_000);
  }

  /** In-sync copies that a write needs, or null for the server's default. */
  Integer writeConcern() {
    Integer concern = optional("arangodb.writeConcern", 100);
    if (concern != null && concern > replicationFactor()) {
      settings.reject("arangodb.writeConcern", concern.toString(), "must not exceed arangodb.replicationFactor=" + replicationFactor());
    }
    return concern;
  }

  private Integer optional(String name, int most) {
    return isSet(name) ? (Integer) (int) settings.wholeNumber(name, 1, 1, most) : null;
  }

  /** Whether the property was given. */
  boolean isSet(String name) {
    return settings.text(name, null) != null;
  }

  /** Most records that the server sends at a time. */
  int batchSize() {
    return (int) settings.wholeNumber("arangodb.batchSize", 1000, 1, 1_000_000);
  }
}
