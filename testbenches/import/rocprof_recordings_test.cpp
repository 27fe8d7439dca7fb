// The real recording of rocprofv3. It lies outside the repository: the case says so and passes where it is absent.
#include <filesystem>
#include <iostream>
#include <map>

#include <catch2/catch.hpp>

#include "import/recordings.h"

namespace import_rocprof_recordings_test {

using namespace heddle;
using workload::Op;
using workload::Workload;

TEST_CASE("recording: training on an MI350X in five queues", "[workload][INP-04]") {
  const std::filesystem::path path =
      std::filesystem::path(HEDDLE_TRACES_DIR) / "mi350x_rocprofv3_kernel_trace_6000.csv.gz";
  if (!std::filesystem::exists(path)) {
    std::cout << "SKIPPED: no recording " << path.filename().string() << "\n";
    return;
  }
  CHECK(import::looks_like_rocprof(path.string()));
  const std::vector<Workload> workloads = import::import_rocprof(path.string());
  REQUIRE(workloads.size() == 1);
  const Workload& w = workloads[0];
  CHECK(w.device.id == 37'946);
  CHECK(w.kernels() == 6'000);
  CHECK(w.timings.stream_gap == 0);
  std::map<std::string, std::size_t> kernels;  // by queue
  std::vector<workload::Nanoseconds> starts(w.streams.size(), 0);
  for (const Op& op : w.ops) {
    ++kernels[w.streams[op.stream].name];
    REQUIRE(op.recorded->start >= starts[op.stream]);
    starts[op.stream] = op.recorded->start;
    REQUIRE(op.not_before == op.recorded->start);
    // Work-items read as workgroups would launch faster than one CTA per 10 ps (INP-04).
    REQUIRE(static_cast<double>(op.recorded->duration) >= 0.01 * static_cast<double>(op.kernel.grid.count()));
    REQUIRE(op.kernel.shared_bytes <= 160 * 1024);
    REQUIRE(op.kernel.registers_per_thread <= 512);
  }
  CHECK(kernels == std::map<std::string, std::size_t>{{"16", 14}, {"17", 73}, {"18", 5'454}, {"19", 271}, {"20", 188}});
}

}  // namespace import_rocprof_recordings_test
