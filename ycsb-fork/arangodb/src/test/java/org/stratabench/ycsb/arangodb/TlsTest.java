// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.stratabench.ycsb.ExitCode;

/** TLS to the stand-in, whose certificate comes from a certificate authority made here. */
@Timeout(90)
class TlsTest {
  private static final String PASSWORD = "changeit";

  @TempDir
  private static Path folder;
  private static ArangoStandIn standIn;

  @TempDir
  private Path output;

  @BeforeAll
  static void start() throws IOException, InterruptedException, GeneralSecurityException {
    Path keys = folder.resolve("keys.p12");
    keytool(keys, "-alias", "ca", "-dname", "CN=ca", "-ext", "bc:c");
    keytool(keys, "-alias", "other", "-dname", "CN=other", "-ext", "bc:c");
    keytool(keys, "-alias", "server", "-dname", "CN=stand-in", "-signer", "ca", "-ext", "san=ip:127.0.0.1");
    KeyStore store = KeyStore.getInstance(keys.toFile(), PASSWORD.toCharArray());
    for (String authority : List.of("ca", "other")) {
      String encoded = Base64.getMimeEncoder().encodeToString(store.getCertificate(authority).getEncoded());
      Files.writeString(folder.resolve(authority + ".pem"), "-----BEGIN CERTIFICATE-----\n" + encoded + "\n-----END CERTIFICATE-----\n");
    }
    standIn = ArangoStandIn.encrypted(keys, "server", PASSWORD);
  }

  @AfterAll
  static void stop() {
    standIn.close();
  }

  private static void keytool(Path keys, String... arguments) throws IOException, InterruptedException {
    List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "keytool").toString(), "-genkeypair",
        "-keyalg", "EC"));
    command.addAll(List.of(arguments));
    command.addAll(List.of("-keystore", keys.toString(), "-storetype", "PKCS12", "-storepass", PASSWORD));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes());
    assertTrue(process.waitFor(30, TimeUnit.SECONDS) && process.exitValue() == 0, said);
  }

  private ClientRun load(String table, String... more) {
    Properties properties = ArangoSuite.of(Map.of("arangodb.hosts", standIn.hosts(), "recordcount", "10", "table", table));
    for (String pair : more) {
      properties.setProperty(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
    }
    return ClientRun.of("load", output.resolve(table), properties);
  }

  @ParameterizedTest
  @ValueSource(strings = {"HTTP2_JSON", "HTTP_JSON"})
  void theAuthorityOfTheFileIsTrusted(String protocol) {
    ClientRun load = load(protocol, "arangodb.useSsl=true", "arangodb.caFile=" + folder.resolve("ca.pem"), "arangodb.protocol=" + protocol);
    assertEquals(ExitCode.OK, load.code(), load.err());
  }

  @Test
  void anotherAuthorityIsNot() {
    for (String trust : List.of("arangodb.caFile=" + folder.resolve("other.pem"), "arangodb.verifyHost=true")) {
      ClientRun load = load("other", "arangodb.useSsl=true", trust);
      assertEquals(ExitCode.SETUP, load.code());
      assertTrue(load.err().contains("arangodb.caFile"), load.err());
    }
  }

  @Test
  void withoutTlsTheHandshakeIsMissed() {
    ClientRun load = load("plain");
    assertEquals(ExitCode.SETUP, load.code());
    assertTrue(load.err().contains("arangodb.useSsl"), load.err());
  }

  @Test
  void aFileWithoutCertificatesIsRefused() throws IOException {
    Path empty = Files.writeString(folder.resolve("empty.pem"), "nothing");
    for (Path file : List.of(empty, folder.resolve("none.pem"))) {
      ClientRun load = load("empty", "arangodb.useSsl=true", "arangodb.caFile=" + file);
      assertEquals(ExitCode.USAGE, load.code(), load.err());
      assertTrue(load.err().contains(file.toString()), load.err());
    }
    assertEquals(ExitCode.USAGE, load("unused", "arangodb.caFile=" + folder.resolve("ca.pem")).code());
  }
}
