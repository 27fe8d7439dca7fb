// Distributed shared memory on whole machines: what clusters compute together equals the reference (CGA-06).
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/cluster_lab.h"

namespace system_cluster_data_test {

using namespace heddle::test;
using heddle::arch::AtomicKind;
using heddle::arch::CgaMode;
using heddle::arch::dsmem_address;
using heddle::arch::kNoRegister;
using heddle::arch::Order;
using heddle::arch::Space;
using heddle::arch::ValueType;

namespace {

constexpr std::uint64_t kOut = 0x40000;
constexpr std::uint32_t kThreads = 96;
constexpr std::uint32_t kBins = 40;  // in each CTA's shared memory
constexpr std::uint32_t kRounds = 5;

struct Machine {
  std::string preset;
  CgaMode mode;
  std::string timing;
};

// Every thread adds to bins that lie anywhere in the cluster; then each CTA adds its bins to those of all clusters.
std::shared_ptr<ListProgram> histogram(std::uint32_t size) {
  auto program = std::make_shared<ListProgram>(2);
  cluster_barrier(*program);  // the others' shared memory is there
  const std::size_t loop = program->loop(kRounds);
  program->atomic(access_to(Space::cluster, Order::relaxed), AtomicKind::add, ValueType::u32, kNoRegister,
                  ListProgram::constant(1), [=](const Warp& warp, std::uint32_t lane) {
                    const std::uint32_t bin = mixed(warp.global_thread(lane), warp.count(loop)) % (kBins * size);
                    return dsmem_address(bin / kBins, 4 * (bin % kBins));
                  });
  program->end_loop();
  cluster_barrier(*program);
  ListProgram::Access own = access_to(Space::shared);
  own.lanes = [](const Warp& warp) {
    return warp.place.warp == 0 ? ~0U : warp.place.warp == 1 ? (1U << (kBins - 32)) - 1 : 0U;
  };
  program->load(own, 0, [](const Warp& warp, std::uint32_t lane) { return std::uint64_t{4} * warp.thread(lane); });
  own.space = Space::global;
  own.order = Order::relaxed;
  program->atomic(own, AtomicKind::add, ValueType::u32, kNoRegister, ListProgram::of_register(0),
                  [](const Warp& warp, std::uint32_t lane) {
                    return kOut + 4 * (std::uint64_t{warp.place.rank} * kBins + warp.thread(lane));
                  },
                  {{0, 1}});
  program->exit();
  return program;
}

// Every CTA writes a row into the shared memory of each, its own included; each then writes out what it got.
std::shared_ptr<ListProgram> exchange(std::uint32_t size) {
  auto program = std::make_shared<ListProgram>(4);
  cluster_barrier(*program);
  const std::size_t to = program->loop(size);
  program->store(
      access_to(Space::cluster),
      [=](const Warp& warp, std::uint32_t lane) {
        return mixed(warp.place.cta * 100 + (warp.place.rank + warp.count(to)) % size, warp.thread(lane));
      },
      [=](const Warp& warp, std::uint32_t lane) {
        const auto target = static_cast<std::uint32_t>((warp.place.rank + warp.count(to)) % size);
        return dsmem_address(target, 4 * (warp.place.rank * kThreads + warp.thread(lane)));
      });
  program->end_loop();
  cluster_barrier(*program);
  const std::size_t from = program->loop(size);
  program->load(access_to(Space::shared), 0, [=](const Warp& warp, std::uint32_t lane) {
    return 4 * (warp.count(from) * kThreads + warp.thread(lane));
  });
  program->store(access_to(Space::global), ListProgram::of_register(0),
                 [=](const Warp& warp, std::uint32_t lane) {
                   return kOut + 4 * ((warp.place.cta * size + warp.count(from)) * kThreads + warp.thread(lane));
                 },
                 {{0, 1}});
  program->end_loop();
  program->exit();
  return program;
}

// Two CTAs of one cluster ran on one SM.
bool shared_an_sm(const heddle::ClusterMap& map) {
  for (const auto& cluster : map.kept()) {
    for (std::size_t i = 0; i < cluster.ctas.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (cluster.ctas[i].sm == cluster.ctas[j].sm) return true;
      }
    }
  }
  return false;
}

const std::vector<Machine>& machines() {
  static const std::vector<Machine> kMachines{{"h100-sxm", CgaMode::multicast, "at"},
                                              {"h100-sxm", CgaMode::multicast, "lt"},
                                              {"small", CgaMode::load_balancing, "at"},
                                              {"small", CgaMode::load_balancing, "lt"}};
  return kMachines;
}

}  // namespace

TEST_CASE("a histogram in the shared memories of a cluster equals the reference", "[system][CGA-06][CGA-13]") {
  for (const Machine& machine : machines()) {
    for (const std::uint32_t size : {2U, 3U, 4U, 7U, 8U, 12U, 16U}) {
      CAPTURE(machine.preset, machine.timing, size);
      SimFixture sim;
      GpuLab lab(preset_params(machine.preset, {"gpu.timing=" + machine.timing}));
      const std::uint32_t clusters = 9;
      lab.run(histogram(size), {clusters * size, 1, 1}, {kThreads, 1, 1}, 4 * kBins, clusters_of(size, machine.mode));
      REQUIRE(lab.gpu.log().faults().empty());
      REQUIRE(lab.host.results.size() == 1);
      std::vector<std::uint32_t> expected(kBins * size);
      for (std::uint32_t thread = 0; thread < clusters * size * kThreads; ++thread) {
        for (std::uint32_t round = 0; round < kRounds; ++round) ++expected[mixed(thread, round) % expected.size()];
      }
      for (std::uint32_t bin = 0; bin < expected.size(); ++bin) {
        CAPTURE(bin);
        REQUIRE(lab.read<std::uint32_t>(kOut + 4 * bin) == expected[bin]);
      }
      if (machine.mode == CgaMode::load_balancing && size > 6) CHECK(shared_an_sm(lab.observation.clusters));
      if (machine.mode == CgaMode::multicast) CHECK_FALSE(shared_an_sm(lab.observation.clusters));
      lab.gpu.check_quiescent();
    }
  }
}

TEST_CASE("an exchange of all with all equals the reference", "[system][CGA-06][CGA-13]") {
  for (const Machine& machine : machines()) {
    for (const std::uint32_t size : {2U, 3U, 5U, 8U, 13U, 16U}) {
      CAPTURE(machine.preset, machine.timing, size);
      SimFixture sim;
      GpuLab lab(preset_params(machine.preset, {"gpu.timing=" + machine.timing}));
      const std::uint32_t clusters = 5;
      lab.run(exchange(size), {clusters * size, 1, 1}, {kThreads, 1, 1}, 4 * kThreads * size,
              clusters_of(size, machine.mode));
      REQUIRE(lab.gpu.log().faults().empty());
      for (std::uint32_t cta = 0; cta < clusters * size; ++cta) {
        const std::uint32_t first = cta / size * size;
        for (std::uint32_t source = 0; source < size; ++source) {
          for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
            const std::uint32_t expected = mixed((first + source) * 100 + cta % size, thread);
            if (lab.read<std::uint32_t>(kOut + 4 * ((cta * size + source) * kThreads + thread)) == expected) continue;
            FAIL("CTA " << cta << ", from " << source << ", thread " << thread);
          }
        }
      }
      lab.gpu.check_quiescent();
    }
  }
}

}  // namespace system_cluster_data_test
