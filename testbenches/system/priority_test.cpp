// Priorities on the whole machine (TSK-03, TSK-04): a full machine, a full task table, and a task that is more urgent.
#include <algorithm>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "support/gpu_lab.h"
#include "support/random.h"
#include "support/seed.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// Kernels without a program: CTAs of `cycles`, as large as a part of an SM.
protocol::SubmitPacket timed(std::uint32_t operation, std::uint32_t stream, std::int32_t priority, std::uint32_t ctas,
                             std::uint64_t shortest, std::uint64_t longest, std::uint32_t threads) {
  protocol::SubmitPacket packet = kernel_packet(operation, stream, {ctas, 1, 1}, {threads, 1, 1});
  packet.priority = priority;
  packet.kernel.duration = {shortest, longest};
  return packet;
}

// Starts and ends of CTAs, by operation.
class CtaTimes : public CtaListener {
 public:
  void cta_started(const Cta& cta) override { starts[cta.task].push_back(cta); }
  void cta_ended(const Cta& cta) override { ends[cta.task].push_back(cta); }
  std::map<std::uint32_t, std::vector<Cta>> starts;
  std::map<std::uint32_t, std::vector<Cta>> ends;
};

}  // namespace

TEST_CASE("an urgent task starts with the first CTA that makes room, and the evicted one loses none of its own",
          "[system][TSK-03][TSK-02]") {
  Random random(seed());
  for (std::uint32_t round = 0; round < 20; ++round) {
    SimFixture fixture;
    const std::uint32_t slots = random.between(1, 3);
    GpuLab lab(preset_params("small", {"gpu.cwd.table_slots=" + std::to_string(slots), "gpu.cwd.active_pool=0"}));
    CtaTimes times;
    lab.observation.ctas = &times;
    std::vector<std::uint32_t> grids;
    // Grids far larger than the machine fill it, and the table; equals.
    for (std::uint32_t i = 0; i < slots + 1; ++i) {
      grids.push_back(400 + random.below(300));
      lab.host.submit(1, timed(i, i, 0, grids.back(), 2000, 6000, 1024));
    }
    const Cycle arrival = 20'000 + random.below(5000);
    const std::uint32_t urgent = slots + 1;
    lab.host.submit(arrival, timed(urgent, urgent, 5, random.between(1, 10), 500, 900, 1024));
    run_until_idle();
    REQUIRE(lab.host.results.size() == slots + 2);
    lab.gpu.check_quiescent();

    // The first completion after the arrival makes room; it and the way of the task there and back are what it takes.
    const gpu::GpuParams& params = lab.gpu.params();
    const Cycle latency = gpu::Gpu::start_path(params) + 2 * Cycle{params.task.to_cwd} + params.cwd.done_distance +
                          2 * (params.gpc.gpm_to_cwd + params.gpc.gpm_to_mpc + params.gpc.mpc_to_sm) + 60;
    Cycle first_release = ~Cycle{0};
    for (std::uint32_t i = 0; i <= slots; ++i) {
      for (const CtaListener::Cta& cta : times.ends[i]) {
        if (cta.cycle > arrival) first_release = std::min<Cycle>(first_release, cta.cycle);
      }
    }
    const double start = lab.host.results.at(urgent).start.to_seconds() * 1e9;
    INFO("arrival " << arrival << ", first release " << first_release << ", start " << start);
    CHECK(start <= static_cast<double>(std::max(first_release, arrival) + latency));
    CHECK(lab.stat("task.evictions") >= 1);
    // Nobody was interrupted, nobody was lost.
    for (std::uint32_t i = 0; i <= slots; ++i) {
      std::map<std::uint64_t, std::uint64_t> begin;
      for (const CtaListener::Cta& cta : times.starts[i]) begin[cta.index] = cta.cycle;
      CHECK(times.starts[i].size() == begin.size());
      std::vector<std::uint64_t> seen;
      for (const CtaListener::Cta& cta : times.ends[i]) {
        CHECK(cta.cycle - begin.at(cta.index) >= 2000);
        seen.push_back(cta.index);
      }
      CHECK(seen.size() == grids[i]);
      std::sort(seen.begin(), seen.end());
      bool each_once = true;
      for (std::size_t k = 0; k < seen.size(); ++k) each_once = each_once && seen[k] == k;
      CHECK(each_once);
    }
  }
}
