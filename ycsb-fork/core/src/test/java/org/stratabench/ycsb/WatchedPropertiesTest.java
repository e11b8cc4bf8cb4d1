// SPDX-License-Identifier: Apache-2.0
package org.stratabench.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A name that is written wrongly does not pass in silence, and no name that is right is doubted. */
class WatchedPropertiesTest {
  private static final String SMALL = " -p recordcount=10 -p operationcount=10";

  @TempDir
  private Path output;

  @ParameterizedTest
  @CsvSource({
      "requestdistributon, requestdistribution",
      "requsetdistribution, requestdistribution",
      "request.distribution, requestdistribution",
      "maxExecutionTime, maxexecutiontime",
      "readproportions, readproportion",
      "read_proportion, readproportion",
      "Seed, seed",
      "tabel.name, ",
      "user, ",
      "threads, ",
      "mongodb.url, ",
  })
  void slipsAreFoundAndNothingElse(String given, String meant) {
    WatchedProperties properties = new WatchedProperties();
    properties.setProperty(given, "1");
    for (String asked : List.of("requestdistribution", "maxexecutiontime", "readproportion", "scanproportion", "seed", "table",
        "threadcount", "target")) {
      properties.getProperty(asked, "");
    }
    assertEquals(meant == null ? List.of() : List.of("nobody has read the property " + given + "; is " + meant + " meant?"),
        properties.slips());
  }

  @Test
  void aSlipIsSaidAtTheStartAndKeptWithTheResult() {
    ClientProcess client = ClientProcess.run(output, "run noop -status-json -p requestdistributon=zipfian" + SMALL);
    assertEquals(ExitCode.OK, client.code(), client.err());
    String slip = "nobody has read the property requestdistributon; is requestdistribution meant?";
    assertTrue(client.err().indexOf(slip) < client.err().indexOf("\"state\":\"ready\""), client.err());
    assertEquals(client.err().indexOf(slip), client.err().lastIndexOf(slip), client.err());
    assertTrue(ClientProcess.summary(output).getAsJsonObject("client").getAsJsonArray("warnings").toString().contains(slip));
  }

  @Test
  void aSlipIsSaidWhenThereIsNoConnectionToo() {
    ClientProcess client = ClientProcess.run("run noop -p noop.fail.connect=true -p noop_fail.connect=false" + SMALL);
    assertEquals(ExitCode.SETUP, client.code());
    assertTrue(client.err().contains("noop_fail.connect; is noop.fail.connect meant?"), client.err());
  }

  @ParameterizedTest
  @CsvSource({"load", "run"})
  void whatYcsbsFilesAndOurDocumentationNameIsNotDoubted(String phase) {
    String given = " -p table=t -p fieldcount=1 -p fieldlength=9 -p minfieldlength=1 -p fieldlengthdistribution=constant -p fieldnameprefix=f"
        + " -p fieldlengthhistogram=h -p readallfields=true -p writeallfields=false -p readproportion=1 -p updateproportion=0"
        + " -p insertproportion=0 -p deleteproportion=0 -p scanproportion=0 -p readmodifywriteproportion=0 -p maxscanlength=2"
        + " -p minscanlength=1 -p scanlengthdistribution=uniform -p insertorder=hashed -p zeropadding=1 -p insertstart=0 -p insertcount=10"
        + " -p hotspotdatafraction=0.2 -p hotspotopnfraction=0.8 -p hotspot.scattered=true -p zipfian.scattered=true -p zipfianconstant=0.9"
        + " -p requesthistogram=h -p exponential.percentile=95 -p exponential.frac=0.8 -p warmup.operations=1 -p threadcount=1 -p target=0"
        + " -p maxexecutiontime=9 -p error.bound=0 -p error.silence.seconds=9 -p error.hang.seconds=9 -p oplog=true -p status.interval=1"
        + " -p workload=site.ycsb.workloads.CoreWorkload -p db=x -p exporter=TextMeasurementsExporter -p measurementtype=histogram"
        + " -p measurement.interval=op -p measurement.raw.output_file=x -p measurement.trackjvm=true -p histogram.buckets=9"
        + " -p timeseries.granularity=9 -p hdrhistogram.fileoutput=true -p hdrhistogram.output.path=x -p hdrhistogram.percentiles=50"
        + " -p reportlatencyforeacherror=true -p latencytrackederrors=x -p core_workload_insertion_retry_limit=0"
        + " -p core_workload_insertion_retry_interval=3 -p dataintegrity=false -p columnfamily=f -p durability=x -p clientbuffering=true"
        + " -p writebuffersize=9 -p hbase.zookeeper.quorum=x -p arangodb.hosts=x -p arangodb.passwordFile=x -p value.compressibility=0";
    ClientProcess client = ClientProcess.run(phase + " noop" + given + SMALL);
    assertEquals(ExitCode.OK, client.code(), client.err());
    assertFalse(client.err().contains("meant?"), client.err());
  }
}
