// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import java.util.List;
import org.stratabench.ycsb.Settings;

/**
 * What operations of several steps need, as the properties say.
 *
 * @param multiGetSize records of a multi-get
 * @param batchInsertSize records of a batch insert
 * @param filter condition of filtered scans
 * @param secondaryField name of the secondary field that every record gets, or null when the workload has no secondary lookups
 * @param recordsPerSecondary how many records share one secondary value on average
 * @param secondaryLimit most records a secondary lookup returns
 * @param edgesPerRecord edges that lead from a new record to others; 0 when the workload has no traversals
 * @param traversalDepth length in edges of the longest path a traversal follows
 */
public record MultiStep(int multiGetSize, int batchInsertSize, Filter filter, String secondaryField, long recordsPerSecondary,
    int secondaryLimit, int edgesPerRecord, int traversalDepth) {
  private static final int MOST_AT_ONCE = 100_000;

  static MultiStep from(Settings settings, List<String> fieldNames, double[] proportions) {
    String filterField = settings.text("filteredscan.field", fieldNames.get(0));
    if (!fieldNames.contains(filterField)) {
      settings.reject("filteredscan.field", filterField, "is none of the fields " + fieldNames.get(0) + " to "
          + fieldNames.get(fieldNames.size() - 1));
    }
    boolean lookups = proportions[OperationType.SECONDARY_LOOKUP.ordinal()] > 0;
    String secondaryField = settings.text("secondary.field", "secondary");
    if (lookups && fieldNames.contains(secondaryField)) {
      settings.reject("secondary.field", secondaryField,
          "is one of the record's fields, whose values are random; choose another name");
    }
    boolean traversals = proportions[OperationType.TRAVERSAL.ordinal()] > 0;
    return new MultiStep(
        (int) settings.wholeNumber("multiget.size", 10, 1, MOST_AT_ONCE),
        (int) settings.wholeNumber("batchinsert.size", 10, 1, MOST_AT_ONCE),
        Filter.selecting(filterField, settings.number("filteredscan.selectivity", 0.1, 0.0001, 0.9999)),
        lookups ? secondaryField : null,
        settings.wholeNumber("secondary.records", 10, 1, Long.MAX_VALUE),
        (int) settings.wholeNumber("secondary.limit", 100, 1, Integer.MAX_VALUE),
        traversals ? (int) settings.wholeNumber("traversal.edges", 3, 1, 1000) : 0,
        (int) settings.wholeNumber("traversal.depth", 2, 1, 100));
  }
}
