// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Properties;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SecretsTest {
  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "arangodb.password | hunter2 | ***",
      "arangodb.jwtFile | /etc/token | ***",
      "arangodb.user | root | root",
      "mongodb.url | mongodb://admin:hunter2@db1:27017,db2:27017/y?w=1 | mongodb://admin:***@db1:27017,db2:27017/y?w=1",
      "redis.uri | redis://:hunter2@db1 | redis://:***@db1",
      "db.url | jdbc:postgresql://db1/y?user=a&password=hunter2&ssl=on | jdbc:postgresql://db1/y?user=a&password=***&ssl=on",
      "db.url | jdbc:sqlserver://db1;Password=hunter2;encrypt=true | jdbc:sqlserver://db1;Password=***;encrypt=true",
      "mongodb.url | mongodb://admin:hun@ter2@db1:27017/y | mongodb://admin:***@db1:27017/y",
      "two.urls | http://a:hunter2@db1/x,http://b:hunter3@db2/y | http://a:***@db1/x,http://b:***@db2/y",
      "db.pass | hunter2 | ***",
      "azurecosmos.primaryKey | hunter2 | ***",
      "azure.account-key | hunter2 | ***",
      "azure.key | hunter2 | ***",
      "azure.url | AccountEndpoint=https://db1;AccountKey=hunter2 | AccountEndpoint=https://db1;AccountKey=***",
      "db.url | password=hunter2;host=db1 | password=***;host=db1",
      "maxpasses | 3 | 3",
      "keytab | /etc/me.keytab | /etc/me.keytab",
      "page | http://db1:8529/_db/ycsb?at=a@b | http://db1:8529/_db/ycsb?at=a@b",
  })
  void whatIsSecretIsNotShown(String name, String value, String shown) {
    Properties properties = new Properties();
    properties.setProperty(name, value);
    assertEquals(shown, Secrets.masked(properties).get(name));
  }
}
