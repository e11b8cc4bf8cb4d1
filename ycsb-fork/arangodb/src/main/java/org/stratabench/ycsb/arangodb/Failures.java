// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.arangodb;

import com.arangodb.ArangoDBException;
import com.arangodb.ArangoDBMultipleException;
import java.net.ConnectException;
import java.util.List;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLException;

/** Names what went wrong inside the driver's nested exceptions. */
final class Failures {
  /** There is no document with that key. */
  static final int DOCUMENT_NOT_FOUND = 1202;
  /** There is no such collection. */
  static final int COLLECTION_NOT_FOUND = 1203;
  /** A database or collection of that name is there already. */
  static final int DUPLICATE_NAME = 1207;
  private static final int DEEPEST = 32;

  private Failures() {
  }

  /** The server's error number, its HTTP status, or the class of the exception at the root: few enough names to count by. */
  static String name(Throwable failure) {
    ArangoDBException answer = answer(failure);
    if (answer != null) {
      return answer.getErrorNum() == null || answer.getErrorNum() == 0
          ? "HTTP-" + answer.getResponseCode() : name(answer.getErrorNum());
    }
    Throwable root = root(failure);
    // the network library has classes of its own for what has a name in the JDK
    if (root instanceof ConnectException) {
      return "ConnectException";
    }
    if (root instanceof TimeoutException) {
      return "TimeoutException";
    }
    return root.getClass().getSimpleName();
  }

  /** The name of a server's error number, as its documentation lists them. */
  static String name(int errorNumber) {
    return "ArangoDB-" + errorNumber;
  }

  /** The name and the first line of the message. */
  static String describe(Throwable failure) {
    ArangoDBException answer = answer(failure);
    String message = answer == null ? root(failure).getMessage() : answer.getErrorMessage();
    return message == null ? name(failure) : name(failure) + ": " + message.lines().findFirst().orElse("");
  }

  /** Whether the server refused because of its error {@code number}. */
  static boolean isError(Throwable failure, int number) {
    ArangoDBException answer = answer(failure);
    return answer != null && answer.getErrorNum() != null && answer.getErrorNum() == number;
  }

  /** Whether user, password or token were refused. */
  static boolean isDenied(Throwable failure) {
    ArangoDBException answer = answer(failure);
    return answer != null && (answer.getResponseCode() == 401 || answer.getResponseCode() == 403);
  }

  /** Whether the certificate or the name of the server was refused. */
  static boolean isUntrusted(Throwable failure) {
    Throwable at = failure;
    for (int depth = 0; at != null && depth < DEEPEST; depth++) {
      if (at instanceof SSLException) {
        return true;
      }
      at = inner(at);
    }
    return false;
  }

  /** The exception that carries a server's answer, or null when there was none. */
  private static ArangoDBException answer(Throwable failure) {
    Throwable at = failure;
    for (int depth = 0; at != null && depth < DEEPEST; depth++) {
      if (at instanceof ArangoDBException e && e.getResponseCode() != null) {
        return e;
      }
      at = inner(at);
    }
    return null;
  }

  private static Throwable root(Throwable failure) {
    Throwable root = failure;
    for (int depth = 0; inner(root) != null && depth < DEEPEST; depth++) {
      root = inner(root);
    }
    return root;
  }

  /** The cause; of a request that was tried on several coordinators, what the last of them had. */
  private static Throwable inner(Throwable failure) {
    if (failure instanceof ArangoDBMultipleException several) {
      List<Throwable> all = several.getExceptions();
      return all.isEmpty() ? null : all.get(all.size() - 1);
    }
    return failure.getCause() == failure ? null : failure.getCause();
  }
}
