// The clustered kernels of an Nsight recording: how many clusters its driver said can be resident, and what the model
// says (INP-09).
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/params.h"
#include "cwd/occupancy.h"
#include "gpu/gpu_params.h"
#include "import/recordings.h"

namespace replay_cluster_recording_test {

using namespace heddle;

TEST_CASE("cluster residency equals the recorded maxActiveClusters on h100-sxm", "[replay][INP-05][INP-09][CWD-24]") {
  const std::string path = HEDDLE_TRACES_DIR "/h100x2_wan_dit_mfu_nsys_slim.sqlite.gz";
  if (!std::filesystem::exists(path)) {
    WARN("SKIPPED: there is no recording " << path);
    return;
  }
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset("h100-sxm"), {Origin::Kind::preset, "preset h100-sxm"});
  layers.resolve(binder, 0);
  const arch::Topology topology(params.machine.shape, params.machine.ugpus);
  std::map<std::uint64_t, std::size_t> compared;  // by cluster size
  for (const workload::Workload& work : import::import_nsys(path)) {
    for (const workload::Op& op : work.ops) {
      if (!op.kernel.cluster.any()) continue;
      CAPTURE(op.kernel.name, op.kernel.cluster.size(0).count());
      const cwd::Occupancy model = cwd::occupancy(topology, params.cwd, params.sm.limits, op.kernel,
                                                  std::min(params.gpc.cga_ids, params.gpc.cga_barriers));
      REQUIRE(model.cgas == op.max_active_clusters);
      ++compared[op.kernel.cluster.size(0).count()];
    }
  }
  CHECK(compared == std::map<std::uint64_t, std::size_t>{{2, 303}, {4, 66}});
}

}  // namespace replay_cluster_recording_test
