// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.util.Collection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.stratabench.ycsb.Settings;

/** Whom the client trusts. */
final class Tls {
  private Tls() {
  }

  /**
   * A context that trusts the certificates of a file, or those of the JVM.
   *
   * @param caFile certificates in PEM, or null
   */
  static SSLContext context(Path caFile) {
    try {
      if (caFile == null) {
        return SSLContext.getDefault();
      }
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(null, trust(caFile).getTrustManagers(), null);
      return context;
    } catch (IOException | GeneralSecurityException e) {
      throw Settings.refuse("arangodb.caFile", String.valueOf(caFile), "holds no certificates in PEM that can be read ("
          + e.getClass().getSimpleName() + ")");
    }
  }

  private static TrustManagerFactory trust(Path caFile) throws IOException, GeneralSecurityException {
    Collection<? extends Certificate> certificates;
    try (InputStream in = Files.newInputStream(caFile)) {
      certificates = CertificateFactory.getInstance("X.509").generateCertificates(in);
    }
    if (certificates.isEmpty()) {
      throw new CertificateException("no certificate");
    }
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, null);
    int number = 0;
    for (Certificate certificate : certificates) {
      store.setCertificateEntry("ca" + number, certificate);
      number++;
    }
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    return trust;
  }
}
