// Kernels that start on a whole machine: what is cold is fetched from the L2, and changes nothing but time.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/gpu_lab.h"

namespace startup_test {

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint64_t kAt = 0x1000;

// Adds to each element of a row its thread.
std::shared_ptr<ListProgram> adds() {
  auto p = std::make_shared<ListProgram>(4);
  const auto at = [](const Warp& w, std::uint32_t lane) { return kAt + 4 * w.global_thread(lane); };
  p->load({}, 0, at);
  for (int i = 0; i < 20; ++i) p->compute(arch::Unit::fp32, 1, {}, {});
  p->store({}, [](const Warp& w, std::uint32_t lane) { return w.reg(0, lane) + 10 * w.thread(lane); }, at, {{0, 1}});
  p->exit();
  return p;
}

gpu::GpuParams with(TimingMode timing, const std::vector<std::string>& sets) {
  gpu::GpuParams params = preset_params("small", sets);
  params.machine.timing = timing;
  return params;
}

struct Launches {
  Launches(TimingMode timing, const std::vector<std::string>& sets) : lab(with(timing, sets)) {
    for (std::uint32_t i = 0; i < kThreads; ++i) lab.write<std::uint32_t>(kAt + 4 * i, 1000 * i);
    first = lab.packet(adds(), {1, 1, 1}, {kThreads, 1, 1});
  }
  // Cycles of a launch of the same program as all others.
  double run() {
    first.operation = ++count;
    lab.submit(first);
    run_until_idle();
    return lab.cycles(first.operation);
  }
  // Over all SMs.
  double sms(const std::string& name) const {
    double sum = 0;
    const std::string end = "." + name;
    for (const auto& one : lab.observation.stats.descriptions()) {
      const std::string& path = one.path;
      if (path.size() > end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0) {
        sum += lab.observation.stats.value(path);
      }
    }
    return sum;
  }

  SimFixture sim;
  GpuLab lab;
  protocol::SubmitPacket first;
  std::uint32_t count = 0;
};

const std::vector<std::string> kCold = {"gpu.sm.fetch.cache_bytes=4096", "gpu.sm.fetch.constant_bytes=2048"};

}  // namespace

TEST_CASE("a kernel that an SM has not run is slower by what it fetches, and computes the same", "[gpu][startup]") {
  for (const TimingMode timing : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    CAPTURE(timing == TimingMode::at);
    Launches cold(timing, kCold);
    const double first = cold.run();
    std::vector<double> later;
    for (int i = 0; i < 9; ++i) later.push_back(cold.run());
    const double warm = *std::min_element(later.begin(), later.end());
    CHECK(first > warm);
    for (std::uint32_t i = 0; i < kThreads; ++i) {
      REQUIRE(cold.lab.read<std::uint32_t>(kAt + 4 * i) == 1000 * i + 10 * 10 * i);
    }
    // Each launch fetches its parameters; each SM its lines once.
    CHECK(cold.sms("constants.misses") == 10 * kThreads / 32);
    CHECK(cold.sms("fetch.misses") > 0);
    CHECK(cold.sms("stall.fetch") > 0);
    CHECK(cold.sms("stall.constants") > 0);
    Launches off(timing, {});
    CHECK(off.run() < first);
    CHECK(off.run() < warm);  // whose parameters are new each time
  }
}

}  // namespace startup_test
