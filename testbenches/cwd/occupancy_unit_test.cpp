// Occupancy queries at the distributor, without SystemC: what is answered, when, and for which part of the machine.
#include "cwd/occupancy_unit.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "common/timebase.h"

namespace cwd_occupancy_unit_test {

using namespace heddle;
using namespace heddle::cwd;
using arch::CgaLevel;
using arch::CgaMode;
using protocol::OccupancyAnswerPacket;
using protocol::OccupancyQueryPacket;

namespace {

// A link that writes down when what leaves for whom.
struct Answers final : PacketSender<OccupancyAnswerPacket> {
  struct Sent {
    Cycle cycle = 0;
    OccupancyAnswerPacket packet;
    std::uint32_t link = 0;
  };
  std::vector<Sent> sent;

 private:
  bool do_can_send(std::uint32_t) override { return true; }
  void do_send(const OccupancyAnswerPacket& packet, std::uint32_t link) override { do_send_at(0, packet, link); }
  void do_send_at(Cycle departure, const OccupancyAnswerPacket& packet, std::uint32_t link) override {
    sent.push_back({departure, packet, link});
  }
};

CwdParams params_of() {
  CwdParams params;
  params.session_pipeline = 10;
  params.session_step = 3;
  params.query_distance = 5;
  params.prefix_step = 0.5;
  params.compare_step = 2;
  params.gpc_distances = {40, 40, 40, 40, 40, 40, 47, 47};
  return params;
}

// An H100 whose SMs hold one CTA.
struct Bench {
  explicit Bench(const CwdParams& its_params = params_of()) : params(its_params) {}

  OccupancyQueryPacket query(std::uint32_t gpc_cga, CgaMode mode = CgaMode::load_balancing) const {
    OccupancyQueryPacket packet;
    packet.need = {{1, 1, 1, 1, 1, 1}};
    if (gpc_cga > 0) packet.cluster.of(CgaLevel::gpc) = {gpc_cga, 1, 1};
    packet.cluster.mode = mode;
    packet.subcontext = 3;
    return packet;
  }
  std::uint64_t active(const OccupancyQueryPacket& packet) {
    unit.on_host_query(packet, 0);
    return host.sent.back().packet.active;
  }
  void configure(protocol::SubcontextPacket::What what, std::uint64_t value, std::uint32_t gpc = 0,
                 std::uint32_t tpc = 0) {
    protocol::SubcontextPacket change;
    change.what = what;
    change.subcontext = 3;
    change.gpc = protocol::GpcId(gpc);
    change.tpc = protocol::TpcInGpc(tpc);
    change.value = value;
    partition.on_configure(change, 0);
  }

  GpuObservation observation{"gpu0"};
  PlainTimebase timebase{TimingMode::at, observation};
  arch::Topology topology{arch::Shape::from_sms_per_gpc({18, 18, 18, 18, 16, 16, 14, 14})};
  CwdParams params;
  CwdContext context{timebase, "cwd", "cwd", params, topology};
  arch::ResourceVector capacity{{1000, 100'000, 100'000, 100'000, 1, 1000}};
  GpcCgaLimits limits;
  std::vector<std::uint32_t> priority = params.sm_priority.resolve(topology.sms(), "sm_priority");
  MachineLedger machine{topology, capacity, params, limits};
  SubcontextPartition partition{context, capacity, priority, limits.cgas(), machine.live()};
  Answers host;
  Answers sms;
  OccupancyUnit unit{context, capacity, limits.cgas(), machine.live(), partition, {host, sms}};
};

}  // namespace

TEST_CASE("the distributor answers how many clusters an H100 holds at one CTA per SM", "[cwd][CWD-24]") {
  // By hand, from the SMs of each GPC: 18 18 18 18 16 16 14 14.
  const std::vector<std::pair<std::uint32_t, std::uint64_t>> by_size{{0, 132}, {1, 132}, {2, 66}, {3, 42},
                                                                     {4, 30},  {8, 14},  {16, 6}};
  Bench bench;
  for (const CgaMode mode : {CgaMode::load_balancing, CgaMode::multicast}) {
    for (const auto& [size, clusters] : by_size) {
      CAPTURE(size, static_cast<int>(mode));
      CHECK(bench.active(bench.query(size, mode)) == clusters);
      CHECK(bench.host.sent.back().packet.well_formed);
    }
  }
  OccupancyQueryPacket wide = bench.query(4);
  wide.cluster.of(CgaLevel::gpu) = {60, 1, 1};  // 15 clusters of 4: 30 of them are two
  CHECK(bench.active(wide) == 2);
}

TEST_CASE("what is no shape of clusters has no occupancy", "[cwd][CWD-24][CWD-10]") {
  Bench bench;
  CHECK(bench.active(bench.query(17)) == 0);  // more than max_gpc_cga
  CHECK_FALSE(bench.host.sent.back().packet.well_formed);
  OccupancyQueryPacket uneven = bench.query(4);
  uneven.cluster.of(CgaLevel::gpu) = {6, 1, 1};
  CHECK(bench.active(uneven) == 0);
  CHECK_FALSE(bench.host.sent.back().packet.well_formed);
}

TEST_CASE("the largest cluster of which one has a place is found where it is asked for", "[cwd][CWD-24]") {
  Bench bench;
  OccupancyQueryPacket packet = bench.query(2);
  bench.active(packet);
  CHECK(bench.host.sent.back().packet.largest == 0);
  packet.largest = true;
  bench.active(packet);
  CHECK(bench.host.sent.back().packet.largest == 16);
  // Without any TPC of the GPCs of 18 and 16 SMs, 14 are left in a GPC.
  for (std::uint32_t tpc = 0; tpc < 52; ++tpc) bench.machine.live().enable(tpc, false);
  bench.active(packet);
  CHECK(bench.host.sent.back().packet.largest == 14);
  packet.need = {{1, 1, 1, 1, 2, 1}};  // larger than an SM
  bench.active(packet);
  CHECK(bench.host.sent.back().packet.largest == 0);
}

TEST_CASE("a query counts the TPCs that are enabled, by the table and by the mask of its subcontext",
          "[cwd][CWD-24][PRT-05]") {
  Bench bench;
  bench.machine.live().enable(0, false);
  CHECK(bench.active(bench.query(2)) == 65);
  CHECK(bench.active(bench.query(16)) == 6);  // 16 SMs of GPC 0 are left
  bench.machine.live().enable(1, false);
  CHECK(bench.active(bench.query(16)) == 5);
  // Without partitioning, nobody has a mask.
  bench.configure(protocol::SubcontextPacket::What::enable, 0, 4, 0);
  CHECK(bench.active(bench.query(16)) == 5);

  CwdParams dynamic = params_of();
  dynamic.partition = protocol::PartitionMode::dynamic;
  Bench shared(dynamic);
  shared.configure(protocol::SubcontextPacket::What::enable, 0, 4, 0);
  CHECK(shared.active(shared.query(2)) == 65);
  CHECK(shared.active(shared.query(16)) == 5);  // GPC 4 has 14 SMs for it
  OccupancyQueryPacket other = shared.query(16);
  other.subcontext = 4;
  CHECK(shared.active(other) == 6);
}

TEST_CASE("a query counts as many TPCs as its subcontext has credits", "[cwd][CWD-24][PRT-02][PRT-07]") {
  CwdParams dynamic = params_of();
  dynamic.partition = protocol::PartitionMode::dynamic;
  dynamic.tpc_credits = 20;
  Bench bench(dynamic);
  CHECK(bench.active(bench.query(0)) == 40);
  CHECK(bench.active(bench.query(2)) == 20);
  bench.configure(protocol::SubcontextPacket::What::credits, 8);
  CHECK(bench.active(bench.query(0)) == 16);
  CHECK(bench.active(bench.query(16)) == 1);  // all eight in one GPC
  bench.configure(protocol::SubcontextPacket::What::credits, 7);
  CHECK(bench.active(bench.query(16)) == 0);
  // A disabled TPC costs none. Without the first of each GPC, two clusters of 14 next to each other fit into GPCs 4 and
  // 5, which have seven TPCs left each, and nowhere else with 14 credits.
  bench.configure(protocol::SubcontextPacket::What::credits, 14);
  for (const std::uint32_t tpc : {0U, 9U, 18U, 27U, 36U, 44U, 52U, 59U}) bench.machine.live().enable(tpc, false);
  OccupancyQueryPacket two = bench.query(14);
  two.cluster.of(CgaLevel::gpu) = {28, 1, 1};
  CHECK(bench.active(two) == 1);
  bench.configure(protocol::SubcontextPacket::What::credits, 13);
  CHECK(bench.active(two) == 0);
  bench.configure(protocol::SubcontextPacket::What::credits, 8);
  for (std::uint32_t tpc = 0; tpc < 50; ++tpc) bench.machine.live().enable(tpc, false);
  CHECK(bench.active(bench.query(0)) == 16);
}

TEST_CASE("a query takes what its search takes, and waits for the one before it", "[cwd][CWD-24][CWD-28]") {
  Bench bench;
  // A step that adds up 132 SMs in a tree of 8 levels.
  bench.unit.on_host_query(bench.query(0), 0);
  CHECK(bench.host.sent[0].cycle == 10 + 3 + 4);
  bench.unit.on_host_query(bench.query(17), 0);  // malformed: no search
  CHECK(bench.host.sent[1].cycle == 17 + 10);
  CHECK(bench.observation.stats.value("gpu0.cwd.occupancy_cycles.max") == 17 + 10);
  const auto steps = [&] { return bench.observation.stats.value("gpu0.cwd.occupancy_steps"); };
  const double before = steps();
  // Six GPCs have room for a CGA of 16: the four of 18 SMs are left with SMs for no more than two CTAs, and the two of
  // 16 with none. The first question finds all six, which tie at speed 0, the second that there is no room; the GPCs of
  // 18 SMs choose 16 of them by a count over their 18 (5 levels up and down) and eight GPCs are compared in three
  // levels.
  bench.unit.on_host_query(bench.query(16), 0);
  CHECK(bench.host.sent[2].packet.active == 6);
  const Cycle ways = 2 * 2 * 5;
  const Cycle decisions = static_cast<Cycle>(steps() - before) * 3;
  CHECK(steps() - before == 2);
  CHECK(bench.host.sent[2].cycle == 27 + 10 + ways + decisions + 5 + 2 * 3 * 2);
  // SMs of further GPCs hear it later; SM 14 is in GPC 7, SM 0 in GPC 0.
  REQUIRE(bench.topology.sm(14).gpc == 7);
  const Cycle last = bench.host.sent[2].cycle;
  bench.unit.on_query(bench.query(17), 0);
  bench.unit.on_query(bench.query(17), 14);
  REQUIRE(bench.sms.sent.size() == 2);
  CHECK(bench.sms.sent[0].cycle == last + 10);
  CHECK(bench.sms.sent[0].link == 0);
  CHECK(bench.sms.sent[1].cycle == last + 20 + 7);
  CHECK(bench.sms.sent[1].link == 14);
  CHECK(bench.observation.stats.value("gpu0.cwd.occupancy_queries") == 5);
}

}  // namespace cwd_occupancy_unit_test
