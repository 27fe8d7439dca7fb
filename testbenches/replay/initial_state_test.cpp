// Loads at the start and TPC switches: what a workload says becomes what the machine is given.
#include "replay/initial_state.h"

#include <map>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "gpu/gpu.h"
#include "replay/replay_bench.h"
#include "support/sim_fixture.h"

namespace replay_initial_state_test {

using namespace heddle;
using namespace heddle::test;
using workload::SmLoad;
using workload::Workload;

namespace {

SmLoad load(std::uint32_t ctas, std::uint32_t threads, workload::Nanoseconds until = 0) {
  SmLoad result;
  result.kernel.block = {threads, 1, 1};
  result.ctas = ctas;
  result.until = until;
  result.where = {"s.yaml", 12, 3};
  return result;
}

struct Resolved {
  std::map<std::uint32_t, std::uint32_t> warps;  // by SM
  std::map<std::uint32_t, Cycle> until;
};

// On preset small: GPC 0 has SMs 0 1 4 5 8 9, GPC 1 has 2 3 6 7; 1 GHz.
Resolved resolve(const std::vector<SmLoad>& loads, double lead_ns = 0) {
  const SimFixture fixture;
  GpuObservation observation("gpu0");
  const gpu::Gpu gpu("gpu0", preset_params("small"), 1, observation);
  Workload w = empty_workload(1);
  w.loads = loads;
  Resolved result;
  for (const gpu::SmPreload& one : replay::resolve_loads(w, "gpu0", gpu, lead_ns)) {
    result.warps[one.sm] += one.amount[arch::Resource::warps];
    result.until[one.sm] = one.until;
  }
  return result;
}

}  // namespace

TEST_CASE("a load names SMs, GPCs, or the whole machine", "[replay]") {
  SmLoad some = load(2, 64);
  some.sms = {3, 9};
  CHECK(resolve({some}).warps == std::map<std::uint32_t, std::uint32_t>{{3, 4}, {9, 4}});
  SmLoad gpc = load(3, 32);
  gpc.gpcs = {1};
  CHECK(resolve({gpc}).warps == std::map<std::uint32_t, std::uint32_t>{{2, 3}, {3, 3}, {6, 3}, {7, 3}});
  SmLoad all = load(1, 1024);
  all.all = true;
  CHECK(resolve({all}).warps.size() == 10);
  // Loads add up; an SM that one entry names twice has it once.
  some.sms = {3, 9, 3};
  CHECK(resolve({some, gpc, all}).warps.at(3) == 4 + 3 + 32);
}

TEST_CASE("a load leaves at its time on the workload's axis", "[replay]") {
  SmLoad some = load(1, 32, 500);
  some.sms = {3};
  CHECK(resolve({some}).until.at(3) == 500);
  CHECK(resolve({some}, 7).until.at(3) == 507);
  some.until = 0;
  CHECK(resolve({some}, 7).until.at(3) == 0);
}

TEST_CASE("a load that the machine has no place for is refused with its line", "[replay]") {
  const auto refused = [](const std::vector<SmLoad>& loads, const std::vector<std::string>& parts) {
    const std::string message = failure_of([&] { resolve(loads); });
    for (const char* part : {"s.yaml:12", "gpu0"}) CHECK_THAT(message, Catch::Contains(part));
    for (const std::string& part : parts) CHECK_THAT(message, Catch::Contains(part));
  };
  SmLoad bad = load(1, 64);
  bad.sms = {2, 10};
  refused({bad}, {"no SM 10", "SM 0 to 9"});
  bad.sms = {};
  bad.gpcs = {2};
  refused({bad}, {"no GPC 2", "GPC 0 to 1"});
  bad = load(33, 32);
  bad.sms = {5};
  refused({bad}, {"SM 5", "33 CTAs", "CTA slots", "32"});
  bad = load(1, 32);
  bad.kernel.shared_bytes = 400'000;
  bad.all = true;
  refused({bad}, {"shared memory", "400000"});
  // Together they are too much.
  SmLoad first = load(1, 1024);
  first.all = true;
  SmLoad second = load(2, 1024);
  second.gpcs = {1};
  refused({first, second}, {"SM 2", "2 CTAs", "warps", "1"});
}

TEST_CASE("TPC switches of TPCs that do not exist are refused with their line", "[replay]") {
  const arch::Topology topology(preset_params("small").machine.shape);  // TPCs: 3 and 2
  Workload w = empty_workload(1);
  w.tpc_switches = {{0, 2, false, 0, {"s.yaml", 4, 1}}, {1, 1, true, 10, {"s.yaml", 5, 1}}};
  CHECK_NOTHROW(replay::check_switches(w, "gpu0", topology));
  w.tpc_switches.push_back({1, 2, true, 10, {"s.yaml", 6, 1}});
  const std::string tpc = failure_of([&] { replay::check_switches(w, "gpu0", topology); });
  for (const char* part : {"s.yaml:6", "GPC 1 of gpu0", "no TPC 2", "TPC 0 to 1"})
    CHECK_THAT(tpc, Catch::Contains(part));
  w.tpc_switches.back().gpc = 7;
  const std::string gpc = failure_of([&] { replay::check_switches(w, "gpu0", topology); });
  for (const char* part : {"s.yaml:6", "gpu0 has no GPC 7"}) CHECK_THAT(gpc, Catch::Contains(part));
}

TEST_CASE("subcontexts begin with roots, credits and whole masks; changes follow in time", "[replay][PRT-05][PRT-07]") {
  using What = protocol::SubcontextPacket::What;
  using Change = workload::ShareChange;
  const arch::Topology topology(preset_params("small").machine.shape);  // GPC 0: 3 TPCs, GPC 1: 2
  Workload w = empty_workload(1);
  workload::Subcontext subcontext;
  subcontext.id = 9;
  subcontext.credits = 4;
  subcontext.tpcs = {{0, 2}, {1, 0}};
  subcontext.where = {"s.yaml", 3, 1};
  w.subcontexts = {subcontext};
  Change late;
  late.what = Change::What::enable;
  late.subcontext = 9;
  late.gpc = 1;
  late.tpc = 1;
  late.value = 1;
  late.when = 700;
  Change mode;
  mode.mode = Change::Mode::dynamic;
  mode.when = 20;
  w.shares = {late, mode};
  replay::MemoryMap map;
  map.roots = {{9, 0x8000}};
  const auto shares = replay::resolve_shares(w, "gpu0", preset_params("small"), topology, map);
  REQUIRE(shares.size() == 9);
  CHECK(shares[0].packet.what == What::page_table);
  CHECK(shares[0].packet.value == 0x8000);
  CHECK(shares[0].packet.subcontext == 9);
  CHECK(shares[1].packet.what == What::credits);
  CHECK(shares[1].packet.value == 4);
  std::vector<std::uint64_t> mask;
  for (std::size_t i = 2; i < 7; ++i) {
    CHECK(shares[i].packet.what == What::enable);
    CHECK(shares[i].when == 0);
    mask.push_back(shares[i].packet.value);
  }
  CHECK(mask == std::vector<std::uint64_t>{0, 0, 1, 1, 0});
  CHECK(shares[7].packet.what == What::mode);
  CHECK(shares[7].packet.mode == protocol::PartitionMode::dynamic);
  CHECK(shares[8].when == 700);
  CHECK(shares[8].packet.gpc == 1);
  CHECK(shares[8].packet.tpc == 1);

  w.shares.front().tpc = 2;
  w.shares.front().where = {"s.yaml", 8, 2};
  CHECK(failure_of([&] {
          replay::resolve_shares(w, "gpu0", preset_params("small"), topology, map);
        }).find("s.yaml:8:2: GPC 1 of gpu0 has no TPC 2") != std::string::npos);
  w.shares.clear();
  w.subcontexts.front().tpcs->push_back({2, 0});
  CHECK(failure_of([&] {
          replay::resolve_shares(w, "gpu0", preset_params("small"), topology, map);
        }).find("s.yaml:3:1: gpu0 has no GPC 2") != std::string::npos);
}

}  // namespace replay_initial_state_test
