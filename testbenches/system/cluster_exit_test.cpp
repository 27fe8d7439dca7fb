// Ids, launch, barriers and exit of clusters on whole machines (CGA-01 to CGA-04, CGA-09 to CGA-12).
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/cluster_lab.h"

namespace system_cluster_exit_test {

using namespace heddle::test;
using heddle::arch::AtomicKind;
using heddle::arch::dsmem_address;
using heddle::arch::kNoRegister;
using heddle::arch::Order;
using heddle::arch::Space;
using heddle::arch::SpecialRegister;
using heddle::arch::Unit;
using heddle::arch::ValueType;

namespace {

constexpr std::uint64_t kOut = 0x40000;

// Every CTA of a pair ends with writes to the other that nobody waits for.
std::shared_ptr<ListProgram> farewells(std::uint32_t writes) {
  auto program = std::make_shared<ListProgram>(1);
  ListProgram& p = *program;
  cluster_barrier(p);
  for (std::uint32_t i = 0; i < writes; ++i) {
    p.store(access_to(Space::cluster), ListProgram::constant(i), [i](const Warp& warp, std::uint32_t lane) {
      return dsmem_address(warp.place.rank ^ 1, 128 * i + 4 * lane);
    });
  }
  p.exit();
  return program;
}

std::string recycle(const std::vector<std::string>& sets) {
  SimFixture sim;
  // One id for each GPC, and a slow network: the next CGA has the id while writes of the last one are on their way.
  std::vector<std::string> all{"gpu.gpc.cga_ids=1", "gpu.gpc.cga_flush=0", "gpu.gpc.network={near: 200, far: 400}"};
  all.insert(all.end(), sets.begin(), sets.end());
  GpuLab lab(preset_params("small", all));
  return failure_of([&] {
    lab.run(farewells(4), {80, 1, 1}, {32, 1, 1}, 1024, clusters_of(2));
    if (!lab.gpu.log().faults().empty()) throw std::runtime_error(text_of(lab.gpu.log().faults().front()));
    lab.gpu.check_quiescent();
  });
}

}  // namespace

TEST_CASE("an id is not used again while accesses of its CGA are under way: the flush sees to that",
          "[system][CGA-01][CGA-12]") {
  CHECK(recycle({"gpu.gpc.exit_permission=at_once", "gpu.gpc.dsmem_flush=true"}).empty());
  const std::string failure = recycle({"gpu.gpc.exit_permission=at_once", "gpu.gpc.dsmem_flush=false"});
  CAPTURE(failure);
  CHECK(failure.find("CGA-12") != std::string::npos);
}

TEST_CASE("more CGAs than ids wait for their turn", "[system][CGA-01][CGA-02]") {
  for (const char* limit : {"gpu.gpc.cga_ids=2", "gpu.gpc.cga_barriers=1"}) {
    CAPTURE(limit);
    SimFixture sim;
    GpuLab lab(preset_params("small", {limit}));
    auto program = std::make_shared<ListProgram>(1);
    ListProgram& p = *program;
    cluster_barrier(p);
    p.special(SpecialRegister::gpc_local_cga_id, 0);
    p.store(one_lane(Space::global), ListProgram::of_register(0),
            [](const Warp& warp, std::uint32_t) { return kOut + 4 * warp.place.cta; }, {{0, 1}});
    p.compute(Unit::fp32, 500);
    cluster_barrier(p);
    p.exit();
    lab.run(program, {120, 1, 1}, {32, 1, 1}, 0, clusters_of(3));
    std::set<std::uint32_t> ids;
    for (std::uint32_t cta = 0; cta < 120; ++cta) {
      ids.insert(lab.read<std::uint32_t>(kOut + 4 * cta));
      REQUIRE(lab.read<std::uint32_t>(kOut + 4 * cta) == lab.read<std::uint32_t>(kOut + 4 * (cta / 3 * 3)));
    }
    CHECK(ids.size() <= 2);
    CHECK(lab.gpu.log().faults().empty());
    lab.gpu.check_quiescent();
  }
}

TEST_CASE("no cluster barrier completes before all CTAs have been launched", "[system][CGA-04][CGA-13]") {
  SimFixture sim;
  GpuLab lab(preset_params("small", {"gpu.gpc.raster_cycles=700", "gpu.timing=at"}));
  auto program = std::make_shared<ListProgram>(2);
  ListProgram& p = *program;
  p.special(SpecialRegister::clock, 0);
  cluster_barrier(p);
  p.special(SpecialRegister::clock, 1);
  for (std::uint16_t reg : {std::uint16_t{0}, std::uint16_t{1}}) {
    p.store(one_lane(Space::global), ListProgram::of_register(reg),
            [reg](const Warp& warp, std::uint32_t) { return kOut + 8 * warp.place.cta + 4 * reg; }, {{reg, 1}});
  }
  p.exit();
  constexpr std::uint32_t kSize = 16;
  lab.run(program, {2 * kSize, 1, 1}, {32, 1, 1}, 0, clusters_of(kSize, heddle::arch::CgaMode::load_balancing));
  for (std::uint32_t first = 0; first < 2 * kSize; first += kSize) {
    std::uint32_t last_start = 0;
    std::uint32_t first_through = ~0U;
    std::uint32_t first_start = ~0U;
    for (std::uint32_t cta = first; cta < first + kSize; ++cta) {
      const auto start = lab.read<std::uint32_t>(kOut + 8 * cta);
      last_start = std::max(last_start, start);
      first_start = std::min(first_start, start);
      first_through = std::min(first_through, lab.read<std::uint32_t>(kOut + 8 * cta + 4));
    }
    CHECK(last_start > first_start + 700);
    CHECK(first_through > last_start);
  }
  lab.gpu.check_quiescent();
}

TEST_CASE("a CTA with writes in flight leaves when the MPC permits it", "[system][CGA-11]") {
  const auto last_end = [](const std::string& permission) {
    SimFixture sim;
    GpuLab lab(
        preset_params("small", {"gpu.gpc.exit_permission=" + permission, "gpu.gpc.network={near: 300, far: 300}"}));
    // Rank 0 writes to rank 1 and leaves; rank 1 stays.
    auto program = std::make_shared<ListProgram>(1);
    ListProgram& p = *program;
    cluster_barrier(p);
    only_rank(p, 0, [](ListProgram& q) {
      q.store(access_to(Space::cluster), ListProgram::constant(1), ListProgram::linear(dsmem_address(1, 0), 4));
    });
    only_rank(p, 1, [](ListProgram& q) { q.compute(Unit::fp32, 5000); });
    p.exit();
    lab.run(program, {2, 1, 1}, {32, 1, 1}, 1024, clusters_of(2));
    CHECK(lab.gpu.log().faults().empty());
    lab.gpu.check_quiescent();
    const auto& ctas = lab.observation.clusters.kept().front().ctas;
    REQUIRE(ctas.size() == 2);
    return (ctas[0].rank == 0 ? ctas[0] : ctas[1]).end;
  };
  const std::uint64_t at_once = last_end("at_once");
  const std::uint64_t drained = last_end("drained");
  // There and back again, 2 x (300 + 300), and the target's share.
  CHECK(drained >= at_once + 1200);
  CHECK(drained <= at_once + 1300);
}

TEST_CASE("shared memory that is given back early makes room for others", "[system][CGA-09]") {
  const auto second_start = [](bool releases) {
    SimFixture sim;
    GpuLab lab(preset_params("small"));
    auto holder = std::make_shared<ListProgram>(1);
    if (releases) holder->release_shared(1024);
    holder->compute(Unit::fp32, 20'000);
    holder->exit();
    auto other = std::make_shared<ListProgram>(1);
    other->exit();
    const std::uint32_t sms = lab.gpu.topology().sms();
    // One on each SM: two do not fit.
    lab.submit(lab.packet(holder, {sms, 1, 1}, {32, 1, 1}, 200 << 10, 0));
    const std::uint32_t second = lab.submit(lab.packet(other, {sms, 1, 1}, {32, 1, 1}, 200 << 10, 1));
    run_until_idle();
    CHECK(lab.gpu.log().faults().empty());
    lab.gpu.check_quiescent();
    return static_cast<double>(lab.host.results.at(second).start) /
           static_cast<double>(heddle::picoseconds(lab.gpu.domain().clock().period()));
  };
  CHECK(second_start(false) > 20'000);
  CHECK(second_start(true) < 3000);
}

TEST_CASE("special registers tell a CTA of a cluster where it is", "[system][CGA-10]") {
  SimFixture sim;
  GpuLab lab(preset_params("small"));
  const std::vector<SpecialRegister> narrow{SpecialRegister::cta_id_x,
                                            SpecialRegister::cta_id_y,
                                            SpecialRegister::cta_id_z,
                                            SpecialRegister::grid_x,
                                            SpecialRegister::grid_y,
                                            SpecialRegister::grid_z,
                                            SpecialRegister::block_x,
                                            SpecialRegister::block_y,
                                            SpecialRegister::block_z,
                                            SpecialRegister::cga_cta_id,
                                            SpecialRegister::cga_size,
                                            SpecialRegister::cga_x,
                                            SpecialRegister::cga_y,
                                            SpecialRegister::cga_z,
                                            SpecialRegister::task_id,
                                            SpecialRegister::queue_position,
                                            SpecialRegister::gpc_local_cga_id,
                                            SpecialRegister::sm};
  const std::vector<SpecialRegister> wide{SpecialRegister::cga_id, SpecialRegister::cga_memory};
  constexpr std::uint32_t kBytes = 128;  // for each CTA
  const auto place = [](const Warp& warp, std::uint32_t offset) { return kOut + kBytes * warp.place.cta + offset; };
  auto program = std::make_shared<ListProgram>(2);
  ListProgram& p = *program;
  std::uint32_t offset = 0;
  for (const SpecialRegister which : wide) {
    p.special(which, 0, 2);
    ListProgram::Access access = one_lane(Space::global);
    access.width = 8;
    p.store_registers(access, 0, [=](const Warp& warp, std::uint32_t) { return place(warp, offset); });
    offset += 8;
  }
  for (const SpecialRegister which : narrow) {
    p.special(which, 0);
    p.store(one_lane(Space::global), ListProgram::of_register(0),
            [=](const Warp& warp, std::uint32_t) { return place(warp, offset); }, {{0, 1}});
    offset += 4;
  }
  p.compute(Unit::fp32, 3000);
  p.exit();
  heddle::arch::ClusterShape cluster;
  cluster.of(heddle::arch::CgaLevel::gpc) = {2, 2, 1};
  cluster.linear_memory = true;
  const heddle::arch::Dim3 grid{6, 4, 1};
  const std::uint32_t operation = lab.submit(lab.packet(program, grid, {16, 2, 1}, 0, 0, cluster));
  run_until_idle();
  std::map<std::uint64_t, std::set<std::uint64_t>> memory_of;  // by CGA
  std::map<std::uint64_t, std::set<std::uint32_t>> id_of;
  for (std::uint32_t cta = 0; cta < grid.count(); ++cta) {
    CAPTURE(cta);
    const std::uint64_t base = kOut + kBytes * cta;
    const auto number = [&](std::size_t i) { return lab.read<std::uint32_t>(base + 16 + 4 * i); };
    const std::uint32_t x = cta % grid.x;
    const std::uint32_t y = cta / grid.x;
    const std::vector<std::uint32_t> expected{x, y, 0, grid.x, grid.y,    1, 16, 2, 1, x % 2 + 2 * (y % 2),
                                              4, 2, 2, 1,      operation, 0};
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(number(i) == expected[i]);
    }
    const auto cga = lab.read<std::uint64_t>(base);
    CHECK(cga == x / 2 + 3 * (y / 2));
    memory_of[cga].insert(lab.read<std::uint64_t>(base + 8));
    id_of[cga].insert(number(16));
    CHECK(number(16) < 256);
    CHECK(number(17) < lab.gpu.topology().sms());
  }
  // All six CGAs ran at a time: each has memory of its own, inside device memory.
  std::set<std::uint64_t> places;
  for (const auto& [cga, addresses] : memory_of) {
    REQUIRE(addresses.size() == 1);
    CHECK(*addresses.begin() + lab.gpu.params().gpc.cga_memory <= lab.gpu.params().machine.memory);
    CHECK(places.insert(*addresses.begin()).second);
    CHECK(id_of.at(cga).size() == 1);
  }
  CHECK(places.size() == 6);
}

}  // namespace system_cluster_exit_test
