// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb.run;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import org.stratabench.ycsb.measure.Interval;
import org.stratabench.ycsb.measure.Measurements;

/** The figures of the progress lines: how far a run is, and what it did since the line before. */
final class Progress {
  private static final long SECOND_NS = 1_000_000_000L;

  private final RunPlan plan;
  private final Measurements measurements;
  private final StatusLines status;

  private Interval sinceShown = Interval.empty();
  private long shownUpToNs;

  Progress(RunPlan plan, Measurements measurements, StatusLines status) {
    this.plan = plan;
    this.measurements = measurements;
    this.status = status;
  }

  /** Time between two lines. */
  long intervalNs() {
    return status.style() == StatusLines.Style.JSON ? SECOND_NS : plan.statusIntervalNs();
  }

  /** A line of the warm-up. */
  void warmup(long done, long failed) {
    Map<String, Object> members = new LinkedHashMap<>();
    members.put("operations", done);
    members.put("errors", failed);
    status.progress("warmup", members, () -> "warm-up: " + done + " operations");
  }

  /** What the next line of the measured window tells besides the totals. */
  void add(Interval interval) {
    sinceShown.add(interval);
  }

  /** A line of the measured window, when it is time for one. */
  void measuring(long elapsedNs) {
    if (elapsedNs - shownUpToNs >= intervalNs()) {
      show("measuring", elapsedNs);
    }
  }

  /** The last line. */
  void done(long measuredNs) {
    show("done", measuredNs);
  }

  private void show(String state, long elapsedNs) {
    long length = elapsedNs - shownUpToNs;
    Map<String, Object> members = new LinkedHashMap<>();
    members.put("operations", measurements.done());
    if (plan.counted()) {
      members.put("planned", plan.planned());
    }
    double rate = length > 0 ? sinceShown.operations() * 1e9 / length : 0;
    members.put("ops_per_s", rate);
    members.put("errors", measurements.failed());
    Double p99 = sinceShown.p99Us();
    if (p99 != null) {
      members.put("p99_us", p99);
    }
    Interval shown = sinceShown;
    status.progress(state, members, () -> String.format(Locale.ROOT, "%d sec: %d operations; %.2f current ops/sec; %s%s",
        elapsedNs / SECOND_NS, measurements.done(), rate, estimate(state, elapsedNs), shown.statusText()));
    sinceShown = Interval.empty();
    shownUpToNs = elapsedNs;
  }

  /** YCSB's words for how long the rest will take. */
  private String estimate(String state, long elapsedNs) {
    if (state.equals("done") || !plan.counted() || measurements.done() == 0) {
      return "";
    }
    double left = (double) (plan.planned() - measurements.done()) / measurements.done() * elapsedNs / SECOND_NS;
    return "est completion in " + Math.round(left) + " seconds ";
  }
}
