// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.bench.original;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import redis.clients.jedis.Jedis;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/**
 * A stand-in for YCSB's Redis binding, which is not on Maven Central: the same driver and the same commands. A record is a hash, its key is also
 * in a sorted set; every client thread has a connection of its own. Properties: {@code redis.host}, {@code redis.port}.
 */
public final class RedisDb extends DB {
  private static final String INDEX = "_indices";

  private Jedis jedis;

  @Override
  public void init() throws DBException {
    jedis = new Jedis(getProperties().getProperty("redis.host"), Integer.parseInt(getProperties().getProperty("redis.port")));
    jedis.connect();
  }

  @Override
  public void cleanup() {
    jedis.close();
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    if (fields == null) {
      StringByteIterator.putAllAsByteIterators(result, jedis.hgetAll(key));
    } else {
      String[] names = fields.toArray(String[]::new);
      List<String> values = jedis.hmget(key, names);
      for (int i = 0; i < names.length; i++) {
        result.put(names[i], new StringByteIterator(values.get(i)));
      }
    }
    return result.isEmpty() ? Status.ERROR : Status.OK;
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return jedis.hmset(key, StringByteIterator.getStringMap(values)).equals("OK") ? Status.OK : Status.ERROR;
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    Status status = update(table, key, values);
    jedis.zadd(INDEX, key.hashCode(), key);
    return status;
  }

  @Override
  public Status delete(String table, String key) {
    return Status.NOT_IMPLEMENTED;
  }

  @Override
  public Status scan(String table, String startkey, int recordcount, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
    return Status.NOT_IMPLEMENTED;
  }
}
