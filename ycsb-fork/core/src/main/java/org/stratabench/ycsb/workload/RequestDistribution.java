// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.workload;

import org.stratabench.ycsb.Settings;

/**
 * How requests spread over the keys, as the properties say.
 *
 * @param name uniform, zipfian, latest, hotspot, exponential, sequential or histogram
 * @param zipfianConstant exponent of zipfian and latest
 * @param scattered whether the popular keys of zipfian and hotspot lie apart
 * @param hotDataFraction share of the keys that is hot
 * @param hotOperationFraction share of the requests that goes to it
 * @param exponentialPercentile percent of the requests that go to the youngest
 * @param exponentialFraction this share of the keys
 * @param histogram weights of blocks of key numbers, or null
 */
record RequestDistribution(String name, double zipfianConstant, boolean scattered, double hotDataFraction, double hotOperationFraction,
    double exponentialPercentile, double exponentialFraction, Histogram histogram) {

  static RequestDistribution from(Settings settings) {
    String name = settings.choice("requestdistribution", "uniform",
        "uniform", "zipfian", "latest", "hotspot", "exponential", "sequential", "histogram");
    boolean scattered = switch (name) {
      case "zipfian" -> settings.flag("zipfian.scattered", true);
      case "hotspot" -> settings.flag("hotspot.scattered", true);
      default -> false;
    };
    return new RequestDistribution(name,
        settings.number("zipfianconstant", 0.99, 0.01, 10),
        scattered,
        settings.number("hotspotdatafraction", 0.2, 0, 1),
        settings.number("hotspotopnfraction", 0.8, 0, 1),
        settings.number("exponential.percentile", 95, 0.001, 99.999999),
        settings.number("exponential.frac", 0.8571428571, 1e-9, 1),
        name.equals("histogram") ? Histogram.read(settings, "requesthistogram", "requests.hist") : null);
  }

  /** Whether requests include what the run inserts. */
  boolean followsInserts() {
    return name.equals("latest") || name.equals("exponential");
  }
}
