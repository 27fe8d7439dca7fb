// The parts of the distributor together, without SystemC: task control, arbiter, session, launcher, eviction and
// completions on a plain time base, between links that only write down what they carry.
#include <cstdint>
#include <string>
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
  params.packets_per_cycle = 1;
  params.ctas_per_cycle = 4096;
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
                [](std::uint32_t) { return std::string("a task"); }};
  Launcher launcher{context, table, machine, partition, {launches, blocks, aborts}};
  ClusterRoom room{topology, machine.cgas(), params.session_limit};
  GpcCapacity gpc_capacity{topology, policies, priority, kCapacity};
  LaunchSession session{
      context, table, machine, partition, launcher, room, *policies.domain, priority, 2, {sessions, snapshots}};
  TaskArbiter arbiter{context, table, machine, partition, waits, room, gpc_capacity, launcher, session};
  TaskEviction eviction{context, table, machine, waits, session, arbiter, slots, evicted};
  TaskControl tasks{context,
                    {table, machine, partition, waits, launcher, session, arbiter, eviction},
                    {slots, done, idle},
                    kCapacity,
                    limits.cgas()};
  CompletionUnit completions{context, table, machine, partition, tasks, arbiter};

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
      if (mask != 0) completions.on_complete({packet.slot, mask, packet.sequence, false, false, 0}, gpc);
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
    CHECK(sent.packet.raster == ctas);
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
  parts.session.on_decided({0, 2, 2, 1, 0, {}}, 0);
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
  CHECK(parts.launches.sent[4].packet.raster == 16);
}

}  // namespace cwd_parts_test
