// The parts of the distributor together, without SystemC: task control, arbiter, session, launcher, eviction and
// completions on a plain time base, between links that only write down what they carry.
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "common/timebase.h"
#include "cwd/cluster_place.h"
#include "cwd/completion_unit.h"

namespace cwd_parts_test {

using namespace heddle;
using namespace heddle::cwd;
using protocol::LaunchPacket;
using protocol::TaskPacket;

namespace {

// A link that always takes what is sent, unless its credits are counted.
template <class Packet>
class Wire final : public PacketSender<Packet> {
 public:
  struct Sent {
    Cycle cycle = 0;  // of departure
    Packet packet;
    std::uint32_t link = 0;
  };
  explicit Wire(const Timebase& timebase) : timebase_(timebase) {}

  std::vector<Sent> sent;
  std::uint32_t credits = 1'000'000;

 private:
  bool do_can_send(std::uint32_t) override { return credits > 0; }
  void do_send(const Packet& packet, std::uint32_t link) override { do_send_at(timebase_.now(), packet, link); }
  void do_send_at(Cycle departure, const Packet& packet, std::uint32_t link) override {
    // Of a broadcast, the copy for the GPC that starts the CTAs.
    if constexpr (std::is_same_v<Packet, LaunchPacket>) {
      if (packet.virtual_gpc != link) return;
    }
    --credits;
    sent.push_back({departure, packet, link});
  }

  const Timebase& timebase_;
};

struct Slots final : CreditSink {
  std::uint32_t returned = 0;
  void return_credit() override { ++returned; }
  void return_credit_at(Cycle) override { ++returned; }
};

// Two CTAs fit on an SM. Sessions take 10 cycles, the port takes a packet per cycle, GPC 1 is 5 cycles further away.
CwdParams params_of() {
  CwdParams params;
  params.table_slots = 4;
  params.session_pipeline = 10;
  params.mask_cycles = 0;
  params.prefix_step = params.compare_step = 0;
  params.session_step = 0;
  params.port_bits = 1024;
  params.cta_commits = 0;
  params.gpc_distances = {20, 25};
  params.mask_buffers = 1;
  return params;
}
const arch::ResourceVector kCapacity{{1000, 100'000, 100'000, 100'000, 2, 1000}};
const arch::ResourceVector kNeed{{1, 1, 1, 1, 1, 1}};

struct Parts {
  GpuObservation observation{"gpu0"};
  PlainTimebase timebase{TimingMode::at, observation};
  arch::Topology topology{arch::Shape::from_sms_per_gpc({4, 4})};
  CwdParams params = params_of();
  CwdContext context{timebase, "cwd", "cwd", params, topology};
  GpcCgaLimits limits;
  std::vector<std::uint32_t> priority = params.sm_priority.resolve(topology.sms(), "sm_priority");
  Policies policies{params};
  std::unique_ptr<PlainPolicy> plain =
      make_plain_policy(params.plain, {topology, 2, params.level_search, priority, params.plain_share});

  Slots slots;
  Wire<protocol::TaskDonePacket> done{timebase};
  Wire<protocol::EvictedPacket> evicted{timebase};
  Wire<protocol::IdlePacket> idle{timebase};
  Wire<LaunchPacket> launches{timebase};
  Wire<protocol::LocalMemoryPacket> blocks{timebase};
  Wire<protocol::AbortPacket> aborts{timebase};
  Wire<protocol::SessionPacket> sessions{timebase};
  Wire<protocol::SnapshotPacket> snapshots{timebase};

  TaskTable table{params.table_slots, params.evicted_tasks};
  MachineLedger machine{topology, kCapacity, params, limits};
  SubcontextPartition partition{context, kCapacity, priority, limits.cgas(), machine.live()};
  WaitLog waits{context, params.table_slots + params.evicted_tasks,
                [](std::uint32_t, WaitReason) { return std::string(); }};
  Wire<protocol::BarrierReleasePacket> releases{timebase};
  Wire<protocol::PartPacket> part_numbers{timebase};
  BarrierRoot barriers{context, releases};
  Launcher launcher{context, table, machine, partition, barriers, {launches, blocks, aborts}};
  ClusterRoom room{topology, machine.cgas(), params.session_limit};
  GpcCapacity gpc_capacity{topology, params, priority, kCapacity};
  LaunchSession session{
      context, table, machine, partition, launcher, room, *plain, *policies.domain, priority, 2, {sessions, snapshots}};
  RoomMaker room_maker{context, table, machine.live(), kCapacity, priority, limits.cgas(), {}, aborts};
  TaskArbiter arbiter{context,      table,  machine,   partition, waits,   room,
                      gpc_capacity, *plain, kCapacity, launcher,  session, room_maker};
  TaskEviction eviction{context, table, machine, waits, session, arbiter, slots, evicted};
  TaskControl tasks{context,
                    {table, machine, partition, waits, launcher, session, arbiter, eviction},
                    {slots, done, idle},
                    kCapacity,
                    limits.cgas()};
  PartMap part_map{context, part_numbers};
  CompletionUnit completions{context, table, machine, partition, tasks, arbiter, part_map};

  Parts() {
    session.set_listener(tasks);
    launcher.on_buffer_free([this] { arbiter.arbitrate_later(); });
  }
  void submit(std::uint32_t operation, std::uint32_t ctas, const arch::ClusterShape& cluster = {}) {
    TaskPacket task;
    task.operation = operation;
    task.grid = {ctas, 1, 1};
    task.need = kNeed;
    task.cluster = cluster;
    tasks.on_task(task, 0);
  }
  // The CTAs of a launch packet end, each with a completion of its own.
  void complete(const LaunchPacket& packet, std::uint32_t gpc) {
    std::vector<std::uint64_t> masks{packet.sm_mask};
    masks.insert(masks.end(), packet.further_masks.begin(), packet.further_masks.end());
    for (const std::uint64_t mask : masks) {
      // CTAs of a GPC_CGA are its last ones.
      const std::uint64_t cga_slots = packet.cga_ctas > 0 ? 0b1111 : 0;
      const bool tracked = packet.shape.levels > 0 && packet.cga_ctas == 0;
      if (mask != 0) completions.on_complete({packet.slot, mask, packet.sequence, tracked, false, 0, cga_slots}, gpc);
    }
  }
  bool idle_again() const {
    return table.used().empty() && machine.empty() && partition.empty() && launcher.empty() && session.in_flight() == 0;
  }
};

}  // namespace

TEST_CASE("a plain grid goes through the parts of the distributor without a simulation", "[cwd][CWD-02]") {
  Parts parts;
  parts.submit(7, 10);  // eight SMs take one CTA each, two of them a second one
  CHECK(parts.launches.sent.empty());
  parts.timebase.run();

  REQUIRE(parts.launches.sent.size() == 3);  // two GPCs on the first level, one on the second
  std::uint32_t ctas = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& sent = parts.launches.sent[i];
    CHECK(sent.packet.departure == 10 + i);  // a session of 10 cycles, then a packet per cycle
    CHECK(sent.cycle == 10 + i + (sent.link == 1 ? 5 : 0));
    CHECK(sent.packet.begins == (i == 0));
    CHECK(sent.packet.last == (i == 2));
    ctas += sent.packet.num_ctas;
  }
  CHECK(ctas == 10);
  CHECK(parts.machine.live().running(parts.launches.sent[0].packet.slot) == 10);

  parts.timebase.run_until(100);
  for (const auto& sent : parts.launches.sent) parts.complete(sent.packet, sent.link);
  parts.timebase.run();
  REQUIRE(parts.done.sent.size() == 1);
  CHECK(parts.done.sent[0].packet.operation == 7);
  CHECK(parts.done.sent[0].packet.start == 10);
  CHECK(parts.done.sent[0].packet.end == 100);
  CHECK(parts.slots.returned == 1);
  CHECK(parts.idle_again());
}

TEST_CASE("a task that finds no room waits until CTAs of another have completed", "[cwd][CWD-02]") {
  Parts parts;
  parts.submit(1, 16);  // the whole machine
  parts.submit(2, 1);
  parts.timebase.run_until(50);
  REQUIRE(parts.launches.sent.size() == 4);
  CHECK(parts.waits.reason(parts.table.find(2)) == WaitReason::free_slots);
  parts.complete(parts.launches.sent[1].packet, parts.launches.sent[1].link);
  parts.timebase.run();
  REQUIRE(parts.launches.sent.size() == 5);
  CHECK(parts.launches.sent[4].packet.operation == 2);
  CHECK(parts.launches.sent[4].packet.departure == 60);
  CHECK(parts.launches.sent[4].link == parts.launches.sent[1].link);
}

TEST_CASE("the launcher holds a session's buffer until the GPC has taken the last packet", "[cwd][CWD-34]") {
  Parts parts;
  parts.launches.credits = 1;
  parts.submit(1, 8);
  parts.submit(2, 8);
  parts.timebase.run_until(50);
  CHECK(parts.launches.sent.size() == 1);  // the other packet has no credit
  CHECK_FALSE(parts.launcher.has_buffer());
  CHECK(parts.session.in_flight() == 0);  // nor can another session begin
  parts.launches.credits = 1;
  parts.launcher.on_credit(1);
  parts.timebase.run_until(51);
  REQUIRE(parts.launches.sent.size() == 2);
  CHECK(parts.launches.sent[1].packet.departure == 50);
  CHECK(parts.session.deciding(parts.table.find(2)));
}

TEST_CASE("a cluster session ends with its last mask, and packets leave in launch order",
          "[cwd][CWD-13][CWD-27][CWD-30]") {
  const std::uint32_t in_flight = GENERATE(1U, 2U);
  CAPTURE(in_flight);
  Parts parts;
  parts.params.sessions = in_flight;
  parts.params.mask_buffers = 2;
  arch::ClusterShape pairs;
  pairs.of(arch::CgaLevel::gpc) = {2, 1, 1};
  parts.submit(3, 4, pairs);
  parts.submit(4, 2);
  parts.timebase.run();
  REQUIRE(parts.sessions.sent.size() == 1);
  REQUIRE(parts.snapshots.sent.size() == 2);
  CHECK(parts.snapshots.sent[1].packet.free[0] == 2);
  CHECK(parts.snapshots.sent[1].packet.ctas == 2);
  CHECK(parts.sessions.sent[0].packet.units == 2);

  const auto mask = [](std::uint32_t order, std::uint64_t sms) {
    protocol::MaskPacket packet;
    packet.order = order;
    packet.unit = order;
    packet.last = packet.final = true;
    packet.count = 1;
    packet.masks[0] = sms;
    return packet;
  };
  // The masks of the first CGA arrive later than those of the second.
  parts.timebase.run_until(20);
  parts.session.on_masks(mask(0, 0b1100), 0, 30);
  CHECK(parts.machine.live().running(parts.table.find(3)) == 2);  // accounted for when it is decided
  parts.session.on_masks(mask(1, 0b0011), 1, 25);
  CHECK(parts.session.deciding());
  parts.session.on_decided({0, 2, 2, 1, {}}, 0);
  CHECK_FALSE(parts.session.deciding());
  CHECK(parts.session.in_flight() == 1);
  CHECK(parts.machine.cgas().gpc_cgas(0) == 255);
  CHECK(parts.launches.sent.empty());

  // Another session may begin at once if two may be in flight, else when the last mask is made.
  parts.timebase.run_until(29);
  CHECK(parts.session.deciding() == (in_flight > 1));
  CHECK(parts.launches.sent.empty());
  parts.timebase.run();
  REQUIRE(parts.launches.sent.size() == 3);
  CHECK(parts.launches.sent[0].packet.departure == 30);
  CHECK(parts.launches.sent[0].packet.sequence == 0);
  CHECK(parts.launches.sent[0].link == 0);
  CHECK(parts.launches.sent[1].packet.departure == 31);
  CHECK(parts.launches.sent[1].packet.sequence == 1);
  CHECK(parts.launches.sent[1].packet.sm_mask == 0b0011);
  CHECK(parts.launches.sent[2].packet.operation == 4);
  CHECK(parts.launches.sent[2].packet.departure == (in_flight > 1 ? 32 : 40));
  // It sees what the first has taken.
  CHECK(parts.launches.sent[2].packet.sm_mask == 0b0011);

  for (const auto& sent : parts.launches.sent) {
    parts.complete(sent.packet, sent.link);
    if (sent.packet.cga_ctas > 0)
      parts.completions.on_cga_complete({sent.packet.slot, sent.packet.sequence}, sent.link);
  }
  parts.timebase.run();
  CHECK(parts.done.sent.size() == 2);
  CHECK(parts.idle_again());
}

// [0124]: each CGA has a hardware barrier.
TEST_CASE("every wide CGA has a barrier of its own, which its launch packets name", "[cwd][CWD-09]") {
  Parts parts;
  arch::ClusterShape wide;
  wide.of(arch::CgaLevel::gpu) = {8, 1, 1};
  parts.submit(3, 16, wide);
  parts.timebase.run();
  REQUIRE(parts.launches.sent.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const protocol::WideBarriers& barriers = parts.launches.sent[i].packet.barriers;
    REQUIRE(barriers.gpu.has_value());
    CHECK_FALSE(barriers.ugpu.has_value());
    CHECK((barriers.gpu == parts.launches.sent[0].packet.barriers.gpu) == (i < 2));
  }
  CHECK(parts.machine.cgas().gpu_barriers() == parts.params.gpu_cga_barriers - 2);
  // The root knows how many CTAs each has.
  const protocol::BarrierSlot slot = *parts.launches.sent[0].packet.barriers.gpu;
  parts.barriers.on_report({slot, 0, 0, 4, 0}, 0);
  parts.barriers.on_report({slot, 0, 0, 3, 0}, 1);
  parts.timebase.run();
  CHECK(parts.releases.sent.empty());
  parts.barriers.on_report({slot, 0, 0, 4, 0}, 1);
  parts.timebase.run();
  CHECK(parts.releases.sent.size() == 2);
  for (const auto& sent : parts.launches.sent) parts.complete(sent.packet, sent.link);
  parts.timebase.run();
  CHECK(parts.machine.cgas().gpu_barriers() == parts.params.gpu_cga_barriers);
  CHECK(parts.idle_again());
}

TEST_CASE("a GPU_CGA of uGPU_CGAs takes a barrier for each of these as well", "[cwd][CWD-09][CWD-10]") {
  arch::ClusterShape cluster;
  cluster.of(arch::CgaLevel::gpu) = {24, 1, 1};
  CHECK(wide_barriers(cluster, 0) == 1);
  cluster.of(arch::CgaLevel::gpc) = {2, 1, 1};
  CHECK(wide_barriers(cluster, 0) == 1);
  cluster.of(arch::CgaLevel::ugpu) = {8, 1, 1};
  CHECK(wide_barriers(cluster, 0) == 4);
  cluster.fallback[0] = {16, 1, 1};
  CHECK(wide_barriers(cluster, 1) == 3);
  cluster.of(arch::CgaLevel::gpu) = arch::kNoExtents;
  CHECK(wide_barriers(cluster, 0) == 1);
  cluster.of(arch::CgaLevel::ugpu) = arch::kNoExtents;
  CHECK(wide_barriers(cluster, 0) == 0);
  CHECK(wide_barriers({}, 0) == 0);
}

TEST_CASE("the ledger counts sm_cga_slots by SM, and a GPC takes no CGA that one SM has none for", "[cwd][CWD-01]") {
  CgaLedger ledger({3, 2}, {8, 8, 2, 4, 4});
  CHECK(ledger.gpc_cgas(0) == 2);
  ledger.take_gpc_cga(0);
  ledger.take_gpc_cga(0);
  CHECK(ledger.gpc_cgas(0) == 0);
  CHECK(ledger.lacks_sm_slot(0));
  CHECK(ledger.gpc_cgas(1) == 2);
  CHECK_THROWS_AS(ledger.take_gpc_cga(0), CheckFailed);
  ledger.reset();
  ledger.take_gpc_cga(0);
  ledger.take_gpc_cga(0);
  ledger.give_sm_slots(0, 0b011);
  CHECK(ledger.gpc_cgas(0) == 0);  // the third SM has none
  ledger.give_sm_slots(0, 0b100);
  CHECK(ledger.gpc_cgas(0) == 1);
  CHECK_THROWS_AS(ledger.give_sm_slots(0, 0b1000), CheckFailed);
  ledger.give_sm_slots(0, 0b111);
  CHECK_THROWS_AS(ledger.give_sm_slots(0, 0b1), CheckFailed);
  CHECK(ledger.gpc_cgas(0) == 2);
  CHECK_FALSE(ledger.empty());  // the ids are not free yet
  ledger.give_gpc_cga(0);
  ledger.give_gpc_cga(0);
  CHECK(ledger.empty());
}

TEST_CASE("TPCs hear their numbers among the usable ones when the enable table changes", "[cwd][CWD-45]") {
  Parts parts;
  parts.completions.on_tpc_enable({protocol::GpcId(0), protocol::TpcInGpc(0), false}, 0);
  parts.timebase.run();
  // GPC 1 has more TPCs by now, and comes first; all four TPCs have other numbers.
  REQUIRE(parts.part_numbers.sent.size() == 4);
  for (const auto& sent : parts.part_numbers.sent) {
    const arch::VirtualPart& part = sent.packet.part;
    CAPTURE(sent.link, sent.packet.tpc.value());
    if (sent.link == 0 && sent.packet.tpc == 0) {
      CHECK(part == arch::VirtualPart{});
    } else if (sent.link == 0) {
      CHECK(part == arch::VirtualPart{4, 0, 0, 1, 0});
    } else {
      CHECK(part == arch::VirtualPart{2 * sent.packet.tpc.value(), sent.packet.tpc, 0, 0, 0});
    }
    CHECK(sent.cycle == (sent.link == 0 ? 0U : 5U));
  }
  parts.completions.on_tpc_enable({protocol::GpcId(0), protocol::TpcInGpc(0), true}, 0);
  parts.timebase.run();
  REQUIRE(parts.part_numbers.sent.size() == 8);
  CHECK(parts.part_numbers.sent[4].packet.part == arch::VirtualPart{0, 0, 0, 0, 0});
}

TEST_CASE("a task that is to be evicted during its session keeps its slot until that has ended", "[cwd][TSK-03]") {
  Parts parts;
  parts.submit(1, 20);
  parts.timebase.run_until(5);
  REQUIRE(parts.session.deciding());
  parts.eviction.on_evict({1}, 0);
  CHECK(parts.evicted.sent.empty());
  CHECK(parts.table.at(parts.table.find(1)).residence == TaskEntry::Residence::leaving);
  parts.timebase.run();
  REQUIRE(parts.evicted.sent.size() == 1);
  CHECK(parts.evicted.sent[0].cycle == 10);
  CHECK(parts.evicted.sent[0].packet.evicted);
  CHECK(parts.evicted.sent[0].packet.remainder);
  CHECK(parts.slots.returned == 1);
  CHECK(parts.launches.sent.size() == 4);  // what the session has placed
  CHECK(parts.table.in_slots() == 0);

  TaskPacket back = parts.table.at(parts.table.find(1)).task;
  back.resumed = true;
  parts.tasks.on_task(back, 0);
  for (std::size_t i = 0; i < 4; ++i) parts.complete(parts.launches.sent[i].packet, parts.launches.sent[i].link);
  parts.timebase.run();
  CHECK(parts.table.in_slots() == 1);
  REQUIRE(parts.launches.sent.size() == 6);
  CHECK_FALSE(parts.launches.sent[4].packet.begins);  // the grid goes on, for those who have followed it
}

}  // namespace cwd_parts_test
