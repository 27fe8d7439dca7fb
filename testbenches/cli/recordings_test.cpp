// What replays of real recordings must show. The recordings lie outside the repository: a case whose file is absent
// says so and passes. Each is replayed once; everything that is to hold is asked of that run.
#include <iostream>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_recordings_test {

using namespace heddle::test;

namespace {

std::string recording(const std::string& name) { return std::string(HEDDLE_TRACES_DIR) + "/" + name; }

bool absent(const std::string& name) {
  if (std::filesystem::exists(recording(name))) return false;
  std::cout << "SKIPPED: no recording " << name << "\n";
  return true;
}

// What holds for every recording; `cuda`: it has the recorder's occupancy estimate.
Results faithful_replay(const TempDir& dir, const std::string& name, const std::string& preset, double kernels,
                        bool cuda) {
  const Results results = run_well(dir, {recording(name)});
  const double recorded = results.stat("replay.span.recorded");
  CHECK(results.document().at("gpus").at(0).at("preset") == preset);
  CHECK(results.stat("replay.kernels") == kernels);
  CHECK(results.stat("gpu0.task.kernels") == kernels);
  CHECK(results.stat("gpu0.cwd.ctas_launched") == results.stat("gpu0.cwd.ctas_completed"));
  CHECK(results.stat("gpu0.cwd.launch_packets") > 0);
  CHECK(results.stat("sim.time") > 0);
  CHECK(results.stat("replay.span.modelled") == Approx(recorded).epsilon(0.02));
  CHECK(results.stat("replay.kernels_within_5_percent") >= 0.95 * results.stat("replay.kernels_alone"));
  CHECK(results.stat("replay.kernel_duration_error.p95") <= 5);
  CHECK(results.stat("replay.occupancy.mismatches") == 0);
  CHECK((results.stat("replay.occupancy.compared") > 0) == cuda);
  // What does not match is listed, all of it.
  double counted = 0;
  for (const char* kind : {"ok", "overlaps", "resolution", "launch_bound", "grid_assumed", "other"}) {
    counted += results.stat(std::string("replay.match.") + kind);
  }
  CHECK(counted == kernels);
  double unmatched = 0;
  for (const nlohmann::json& row : results.page().at("gpus").at(0).at("unmatched"))
    unmatched += row.at("kernels").get<double>();
  CHECK(unmatched == kernels - results.stat("replay.match.ok"));
  return results;
}

}  // namespace

TEST_CASE("recording: Qwen on H100", "[cli][recordings][INP-01][INP-03][INP-08]") {
  const char* name = "h100_qwen1.5_0.5b_inference_trim.json.gz";
  if (absent(name)) return;
  const TempDir dir;
  const Results results = faithful_replay(dir, name, "h100-sxm", 1465, true);
  CHECK(results.stat("replay.kernels_alone") == 1465);
  // The bound of the closed form, which these durations were fitted with.
  CHECK(results.stat("replay.kernel_duration_error.max") < 3);
}

TEST_CASE("recording: OWLv2 on H100", "[cli][recordings][INP-01][INP-08]") {
  const char* name = "h100_owlv2_inference_trim.json.gz";
  if (absent(name)) return;
  const TempDir dir;
  faithful_replay(dir, name, "h100-sxm", 4330, true);
}

TEST_CASE("recording: recommender training on A100 keeps its overlap", "[cli][recordings][INP-01][INP-08]") {
  const char* name = "a100_recsys_training_multistream_trim.json.gz";
  if (absent(name)) return;
  const TempDir dir;
  const Results results = faithful_replay(dir, name, "a100", 6080, true);
  CHECK(results.stat("replay.overlap.modelled") == Approx(results.stat("replay.overlap.recorded")).epsilon(0.2));
  CHECK(results.stat("replay.overlap.recorded") > 1000);
  CHECK(results.stat("replay.kernels_coarse") > 0);  // whole microseconds
  std::set<std::string> streams;
  for (const nlohmann::json& k : results.page().at("gpus").at(0).at("kernels"))
    streams.insert(k.at("stream").get<std::string>());
  CHECK(streams.size() == 5);
}

TEST_CASE("recording: ResNet training on MI300X", "[cli][recordings][INP-01][INP-04][INP-10]") {
  const char* name = "mi300x_resnet_ddp_training_trim.json.gz";
  if (absent(name)) return;
  const TempDir dir;
  const Results results = faithful_replay(dir, name, "mi300x", 2995, false);
  CHECK(results.document().at("gpus").at(0).at("sms") == 304);
  CHECK(results.stat("replay.overlap.modelled") == Approx(results.stat("replay.overlap.recorded")).epsilon(0.2));
}

TEST_CASE("recording: three streams on A100 wait for each other", "[cli][recordings][INP-02][INP-08]") {
  const char* name = "a100_3stream_event_sync_tiny_orig.json.gz";
  if (absent(name)) return;
  const TempDir dir;
  const Results results = faithful_replay(dir, name, "a100", 3, true);
  CHECK(results.stat("replay.edges.recorded") == 1);
}

TEST_CASE("recording: AlexNet on A100, what if it had half the SMs", "[cli][recordings][INP-02][INP-08]") {
  const char* name = "a100_alexnet_2stream_events_orig.json.gz";
  if (absent(name)) return;
  const TempDir dir;
  faithful_replay(dir, name, "a100", 79, true);
  const Results half = run_well(dir, {recording(name), "--pace", "asap", "--set", "gpu.shape=[18,18,18]"}, "half");
  const nlohmann::json& page = half.page();
  const nlohmann::json& spans = page.at("gpus").at(0).at("spans");
  REQUIRE(spans.size() == 4);
  CHECK(contains(spans[2].at("label"), "recorded machine, as soon as order allows"));
  CHECK(contains(spans[3].at("label"), "this machine"));
  CHECK(spans[3].at("us").get<double>() > 1.05 * spans[2].at("us").get<double>());
  // The copies stay as they were, and hold the streams for long; what runs on the SMs takes about twice as long.
  CHECK(half.stat("replay.kernel_time.modelled") > 1.3 * half.stat("replay.kernel_time.recorded"));
}

TEST_CASE("recording: an import runs as long as the replay", "[cli][recordings][INP-01]") {
  const char* name = "mi300x_resnet_ddp_training_trim.json.gz";
  if (absent(name)) return;
  const TempDir dir;
  REQUIRE(heddle_in(dir, {"import", "kineto", recording(name), "-o", "s.yaml"}).status == 0);
  const Results replay = run_well(dir, {recording(name)}, "replay");
  const Results scenario = run_well(dir, {"s.yaml"}, "scenario");
  CHECK(scenario.stat("gpu0.task.kernels") == replay.stat("gpu0.task.kernels"));
  CHECK(scenario.stat("gpu0.cwd.ctas_launched") == replay.stat("gpu0.cwd.ctas_launched"));
  CHECK(scenario.stat("sim.time") == Approx(replay.stat("replay.span.modelled")).epsilon(0.01));
}

TEST_CASE("recording: the clusters of Wan on H100 are as many as the driver said",
          "[cli][recordings][CWD-24][INP-09]") {
  const char* name = "h100x2_wan_dit_mfu_nsys_slim.sqlite.gz";
  if (absent(name)) return;
  const TempDir dir;
  const Finished finished = heddle_in(dir, {"occupancy", recording(name), "--json"});
  INFO(finished.err);
  REQUIRE(finished.status == 0);
  std::set<int> sizes;
  for (const nlohmann::json& kernel : nlohmann::json::parse(finished.out)) {
    for (const nlohmann::json& row : kernel.at("clusters")) {
      if (!row.contains("recorded")) continue;
      CAPTURE(kernel.at("kernel"), row);
      CHECK(row.at("agrees") == true);
      CHECK(row.at("active") == row.at("recorded"));
      sizes.insert(row.at("cluster").get<int>());
    }
  }
  CHECK(sizes == std::set<int>{2, 4});
}

}  // namespace cli_recordings_test
