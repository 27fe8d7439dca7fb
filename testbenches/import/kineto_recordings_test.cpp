// Real recordings. They lie outside the repository: a case whose file is absent says so and passes.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "import/recordings.h"

namespace import_kineto_recordings_test {

using namespace heddle;
using workload::EdgeSource;
using workload::Workload;

namespace {

std::optional<Workload> recording(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(HEDDLE_TRACES_DIR) / name;
  if (!std::filesystem::exists(path)) {
    std::cout << "SKIPPED: no recording " << name << "\n";
    return std::nullopt;
  }
  CHECK(import::looks_like_kineto(path.string()));
  std::vector<Workload> workloads = import::import_kineto(path.string());
  REQUIRE(workloads.size() == 1);
  return std::move(workloads[0]);
}

struct Counts {
  std::size_t without_launch = 0;  // kernels
  std::size_t assumed = 0;
  std::size_t recorded = 0;
  std::size_t inferred = 0;
  std::size_t pinned = 0;  // of those with a launch
};

// Counts, and what must hold for every import.
Counts examine(const Workload& workload) {
  Counts counts;
  std::vector<workload::Nanoseconds> starts(workload.streams.size(), 0);
  REQUIRE_FALSE(workload.ops.empty());
  CHECK(workload.ops.front().recorded->start == 0);
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    REQUIRE(op.stream < workload.streams.size());
    REQUIRE(op.recorded->start >= starts[op.stream]);
    starts[op.stream] = op.recorded->start;
    for (const workload::Edge& edge : op.after) {
      REQUIRE(edge.from < i);
      ++(edge.source == EdgeSource::recorded ? counts.recorded : counts.inferred);
    }
    const bool first = !op.graph || op.graph->after.empty();
    REQUIRE((op.enqueue || op.not_before || !first));
    if (op.enqueue && op.not_before) ++counts.pinned;
    if (op.kind != workload::OpKind::kernel) continue;
    if (!op.enqueue) ++counts.without_launch;
    if (op.grid_assumed) ++counts.assumed;
    REQUIRE(op.kernel.grid.count() > 0);
    REQUIRE(op.kernel.block.count() > 0);
  }
  return counts;
}

}  // namespace

TEST_CASE("recording: Qwen on an H100", "[workload][INP-01][INP-03]") {
  const auto workload = recording("h100_qwen1.5_0.5b_inference_trim.json.gz");
  if (!workload) return;
  const Counts counts = examine(*workload);
  CHECK(workload->kernels() == 1'465);
  CHECK(workload->ops.size() == 1'707);
  CHECK(counts.without_launch == 436);
  CHECK(workload->streams.size() == 1);
  CHECK(workload->device.name == "NVIDIA H100 80GB HBM3");
  CHECK(workload->device.sms == 132);
  CHECK(workload->timings.resolution == 1);
  CHECK(workload->timings.launch_latency == 5'541);
  CHECK(workload->timings.stream_gap == 1'489);
  CHECK(counts.recorded + counts.inferred == 0);
  CHECK(counts.pinned == 1);
}

TEST_CASE("recording: OWLv2 on an H100", "[workload][INP-01][INP-11]") {
  const auto workload = recording("h100_owlv2_inference_trim.json.gz");
  if (!workload) return;
  const Counts counts = examine(*workload);
  CHECK(workload->kernels() == 4'330);
  CHECK(workload->ops.size() == 4'330 + 750 + 85);
  CHECK(counts.without_launch == 0);
  CHECK(workload->streams.size() == 1);
  CHECK(counts.recorded + counts.inferred == 0);
  CHECK(counts.pinned == 25);
}

TEST_CASE("recording: recommendation training on an A100", "[workload][INP-01][INP-03][INP-13]") {
  const auto workload = recording("a100_recsys_training_multistream_trim.json.gz");
  if (!workload) return;
  const Counts counts = examine(*workload);
  CHECK(workload->kernels() == 6'080);
  CHECK(counts.without_launch == 705);
  std::vector<bool> with_kernels(workload->streams.size());
  for (const workload::Op& op : workload->ops) {
    if (op.kind == workload::OpKind::kernel) with_kernels[op.stream] = true;
  }
  CHECK(std::count(with_kernels.begin(), with_kernels.end(), true) == 5);
  CHECK(workload->streams.size() == 6);  // the sixth only copies
  CHECK(workload->timings.resolution == 1'000);
  CHECK(counts.recorded == 0);
  CHECK(counts.inferred == 106);
  CHECK(counts.pinned == 310);
  // 10 of 49 launches of graphs with several operations are whole in this recording (INP-13).
  const auto of_graph = [](const workload::Op& op) { return op.graph.has_value(); };
  CHECK(std::count_if(workload->ops.begin(), workload->ops.end(), of_graph) == 20);
}

TEST_CASE("recording: AlexNet on an A100", "[workload][INP-02]") {
  const auto workload = recording("a100_alexnet_2stream_events_orig.json.gz");
  if (!workload) return;
  const Counts counts = examine(*workload);
  CHECK(workload->kernels() == 79);
  CHECK(workload->streams.size() == 2);
  CHECK(counts.recorded == 6);
  CHECK(counts.inferred == 0);
  // Every recorded edge is between the two streams of one convolution.
  for (const workload::Op& op : workload->ops) {
    for (const workload::Edge& edge : op.after) {
      const workload::Op& from = workload->ops[edge.from];
      CHECK(from.stream != op.stream);
      CHECK(from.recorded->start + from.recorded->duration <= op.recorded->start + workload->timings.resolution);
    }
  }
}

TEST_CASE("recording: three streams and one wait on an A100", "[workload][INP-02]") {
  const auto workload = recording("a100_3stream_event_sync_tiny_orig.json.gz");
  if (!workload) return;
  const Counts counts = examine(*workload);
  CHECK(workload->kernels() == 3);
  CHECK(workload->streams.size() == 3);
  CHECK(counts.recorded == 1);
  CHECK(counts.inferred + counts.pinned == 0);
  // Stream 24 waits for the matrix product of stream 20; its next operation is a memset.
  for (const workload::Op& op : workload->ops) {
    if (op.after.empty()) continue;
    CHECK(workload->streams[op.stream].name == "24");
    CHECK(op.kind == workload::OpKind::fill);
    const workload::Op& from = workload->ops[op.after[0].from];
    CHECK(workload->streams[from.stream].name == "20");
    CHECK(from.kernel.name == "ampere_sgemm_128x64_nn");
  }
}

TEST_CASE("recording: ResNet training on an MI300X", "[workload][INP-04][INP-06]") {
  const auto workload = recording("mi300x_resnet_ddp_training_trim.json.gz");
  if (!workload) return;
  const Counts counts = examine(*workload);
  CHECK(workload->kernels() == 2'995);
  CHECK(counts.assumed == 757);
  CHECK(workload->device.id == 2);
  CHECK(workload->device.name == "AMD Instinct MI300X");
  CHECK(workload->device.warp_size == 64);
  CHECK(workload->device.sms == 304);
  CHECK(workload->streams.size() == 2);
  CHECK(counts.inferred == 25);
  CHECK(counts.pinned == 6);
  // Work-items read as workgroups would launch at 3 ps each (INP-04): no kernel starts faster than one CTA per 10 ps.
  for (const workload::Op& op : workload->ops) {
    if (op.kind != workload::OpKind::kernel) continue;
    CHECK(static_cast<double>(op.recorded->duration) >= 0.01 * static_cast<double>(op.kernel.grid.count()));
  }
}

}  // namespace import_kineto_recordings_test
