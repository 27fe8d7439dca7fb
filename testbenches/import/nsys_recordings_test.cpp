// The real recording of Nsight Systems. It lies outside the repository: the case says so and passes where it is absent.
#include <filesystem>
#include <iostream>
#include <map>

#include <catch2/catch.hpp>

#include "import/recordings.h"

namespace import_nsys_recordings_test {

using namespace heddle;
using workload::Op;
using workload::OpKind;
using workload::Workload;

TEST_CASE("recording: a diffusion transformer on two H100", "[workload][INP-05][INP-06]") {
  const std::filesystem::path path =
      std::filesystem::path(HEDDLE_TRACES_DIR) / "h100x2_wan_dit_mfu_nsys_slim.sqlite.gz";
  if (!std::filesystem::exists(path)) {
    std::cout << "SKIPPED: no recording " << path.filename().string() << "\n";
    return;
  }
  CHECK(import::looks_like_nsys(path.string()));
  CHECK_FALSE(import::looks_like_kineto(path.string()));
  const std::vector<Workload> workloads = import::import_nsys(path.string());
  REQUIRE(workloads.size() == 2);
  std::size_t ops = 0;
  std::map<std::uint64_t, std::size_t> clustered;              // by CTAs of the cluster
  std::map<std::uint64_t, std::uint32_t> max_active_clusters;  // likewise
  for (std::size_t device = 0; device < 2; ++device) {
    const Workload& workload = workloads[device];
    CHECK(workload.device.id == static_cast<int>(device));
    CHECK(workload.device.name.empty());
    CHECK(workload.device.sms == 0);
    CHECK(workload.kernels() == (device == 0 ? 1'993 : 2'017));
    REQUIRE(workload.streams.size() == 1);
    CHECK(workload.streams[0].name == (device == 0 ? "7" : "15"));
    ops += workload.ops.size();
    std::size_t without_call = 0;
    workload::Nanoseconds last_start = 0;
    for (const Op& op : workload.ops) {
      REQUIRE(op.recorded->start >= last_start);
      last_start = op.recorded->start;
      REQUIRE(op.recorded->duration >= 0);
      if (!op.enqueue) ++without_call;
      if (op.kind != OpKind::kernel || !op.kernel.cluster.any()) continue;
      REQUIRE(op.kernel.cluster.outermost() == arch::CgaLevel::gpc);
      REQUIRE(op.kernel.cluster.mode == arch::CgaMode::multicast);
      const std::uint64_t size = op.kernel.cluster.of(arch::CgaLevel::gpc).count();
      ++clustered[size];
      max_active_clusters.emplace(size, op.max_active_clusters);
      REQUIRE(max_active_clusters[size] == op.max_active_clusters);
      REQUIRE(op.kernel.grid.count() % size == 0);
    }
    CHECK(without_call < workload.ops.size() / 20);
  }
  CHECK(ops == 4'010 + 1'020 + 269);
  CHECK(clustered == std::map<std::uint64_t, std::size_t>{{2, 303}, {4, 66}});
  CHECK(max_active_clusters == std::map<std::uint64_t, std::uint32_t>{{2, 66}, {4, 30}});
}

}  // namespace import_nsys_recordings_test
