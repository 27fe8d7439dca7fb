// Every SM follows the raster position from the launch packets alone: a reference that does so, packet by packet, must
// know the same ids as the machine. Between the distributor and the GPCs sit taps that pass everything through.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/cwd_bench.h"
#include "gpu/gpc_tree.h"
#include "support/random_machine.h"

using namespace heddle::test;
using heddle::CtaListener;
using heddle::Cycle;
using heddle::Domain;
using heddle::PacketPhase;
using heddle::PacketTransfer;
using heddle::arch::Dim3;
using heddle::arch::Topology;
using heddle::gpu::GpuParams;
using heddle::protocol::LaunchPacket;
using heddle::protocol::TaskPacket;

namespace {

using Protocol = heddle::packet_protocol<LaunchPacket>;
using Transfer = PacketTransfer<LaunchPacket>;

class LaunchTap : public sc_core::sc_module,
                  private tlm::tlm_fw_transport_if<Protocol>,
                  private tlm::tlm_bw_transport_if<Protocol> {
 public:
  LaunchTap(const sc_core::sc_module_name& name, std::uint32_t gpc, std::vector<LoggedLaunch>& log)
      : sc_core::sc_module(name), in("in"), out("out"), gpc_(gpc), log_(log) {
    in.bind(static_cast<tlm::tlm_fw_transport_if<Protocol>&>(*this));
    out.bind(static_cast<tlm::tlm_bw_transport_if<Protocol>&>(*this));
  }
  tlm::tlm_target_socket<heddle::kPacketBusWidth, Protocol> in;
  tlm::tlm_initiator_socket<heddle::kPacketBusWidth, Protocol> out;

 private:
  tlm::tlm_sync_enum nb_transport_fw(Transfer& transfer, PacketPhase& phase, sc_core::sc_time& delay) override {
    log_.push_back({0, gpc_, transfer.packet});
    return out->nb_transport_fw(transfer, phase, delay);
  }
  tlm::tlm_sync_enum nb_transport_bw(Transfer& transfer, PacketPhase& phase, sc_core::sc_time& delay) override {
    return in->nb_transport_bw(transfer, phase, delay);
  }
  void b_transport(Transfer& transfer, sc_core::sc_time& delay) override { out->b_transport(transfer, delay); }
  bool get_direct_mem_ptr(Transfer&, tlm::tlm_dmi&) override { return false; }
  unsigned int transport_dbg(Transfer&) override { return 0; }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

  std::uint32_t gpc_;
  std::vector<LoggedLaunch>& log_;
};

struct Listener : CtaListener {
  void cta_started(const Cta& cta) override { ids[cta.sm][cta.task].push_back(cta.index); }
  void cta_ended(const Cta&) override {}
  std::map<std::uint32_t, std::map<std::uint32_t, std::vector<std::uint64_t>>> ids;  // SM, task: in order of starting
};

// What one SM knows: per slot of the task table, the task and a coordinate that only ever has counts added to it.
class Follower {
 public:
  Follower(std::uint32_t gpc, std::uint32_t bit) : gpc_(gpc), bit_(bit) {}

  // Sees every launch packet of the machine, in order, without looking at its raster position.
  void see(const LoggedLaunch& launch) {
    const LaunchPacket& packet = launch.packet;
    Slot& slot = slots_[packet.slot];
    if (!slot.valid || slot.task != packet.operation) slot = {true, packet.operation, 0, 0, 0, 0};
    if (launch.gpc != gpc_ || (packet.sm_mask >> bit_ & 1) == 0) {
      slot.delta += packet.num_ctas;
      return;
    }
    const std::uint64_t below = packet.sm_mask & ((std::uint64_t{1} << bit_) - 1);
    const auto before = static_cast<std::uint64_t>(__builtin_popcountll(below));
    advance(slot, slot.delta + before, packet.grid);
    ids[packet.operation].push_back(slot.x + packet.grid.x * (slot.y + packet.grid.y * slot.z));
    slot.delta = packet.num_ctas - before;  // from here to the position after this packet
  }
  std::map<std::uint32_t, std::vector<std::uint64_t>> ids;

 private:
  struct Slot {
    bool valid = false;
    std::uint32_t task = 0;
    std::uint64_t delta = 0;
    std::uint64_t x = 0, y = 0, z = 0;
  };
  // Decomposed and added with carries, as CWD-41 says.
  static void advance(Slot& slot, std::uint64_t delta, const Dim3& grid) {
    const std::uint64_t plane = std::uint64_t{grid.x} * grid.y;
    slot.x += delta % plane % grid.x;
    std::uint64_t carry = slot.x >= grid.x ? 1 : 0;
    slot.x -= carry * grid.x;
    slot.y += delta % plane / grid.x + carry;
    carry = slot.y >= grid.y ? 1 : 0;
    slot.y -= carry * grid.y;
    slot.z += delta / plane + carry;
  }
  std::uint32_t gpc_;
  std::uint32_t bit_;
  std::map<std::uint32_t, Slot> slots_;
};

}  // namespace

TEST_CASE("an SM that follows the launch packets knows the ids of its CTAs", "[system][CWD-35][CWD-31]") {
  for (const std::uint64_t seed : seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    GpuParams params;
    params.machine.shape = random.shape(4);
    params.cwd = random_cwd_params(random, params.machine.shape.sms());
    params.gpc.mpc_queue = random.between(1, 4);
    params.gpc.gpm_to_mpc = random.below(9);
    const heddle::arch::ResourceVector capacity = heddle::arch::capacity_of(params.sm.limits);

    SimFixture sim;
    heddle::Observation observation("gpu0");
    Listener listener;
    observation.ctas = &listener;
    const Topology topology(params.machine.shape);
    Domain domain("domain", 1.0, heddle::TimingMode::at, random.chance(50) ? 0 : 1024, observation);
    Log log;
    FakeTaskUnit tasks("tasks", domain, params.cwd, log);
    heddle::cwd::Cwd cwd("cwd", domain, "cwd", params.cwd, topology, capacity);
    tasks.task_out.bind(cwd.task_in);
    cwd.done_out.bind(tasks.done_in);
    std::vector<LoggedLaunch> launches;
    std::vector<std::unique_ptr<LaunchTap>> taps;
    std::vector<std::unique_ptr<heddle::gpu::Gpc>> gpcs;
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
      const std::string name = fmt::format("gpc{}", g);
      taps.push_back(std::make_unique<LaunchTap>(("tap_" + name).c_str(), g, launches));
      gpcs.push_back(std::make_unique<heddle::gpu::Gpc>(name.c_str(), domain, name, params, topology.gpc(g), seed));
      cwd.launch_out.bind(taps.back()->in);
      taps.back()->out.bind(gpcs.back()->gpm.launch_in);
      gpcs.back()->gpm.complete_out.bind(cwd.complete_in[g]);
    }
    std::uint64_t ctas = 0;
    for (std::uint32_t operation = 0; operation < 12; ++operation) {
      TaskPacket task;
      task.operation = operation;
      task.priority = static_cast<std::int32_t>(random.below(2));
      task.grid = {random.between(1, 9), random.between(1, 7), random.between(1, 5)};
      task.need = {{random.between(1, 16), random.between(1, 400), random.between(0, 9000), 1024, 1, 16}};
      task.duration = {1, random.between(1, 900)};
      tasks.submit(random.below(600), task);
      ctas += task.grid.count();
    }
    run_until_idle();
    REQUIRE(log.done.size() == 12);

    std::uint64_t known = 0;
    for (std::uint32_t id = 0; id < topology.sms(); ++id) {
      CAPTURE(id);
      Follower follower(topology.sm(id).gpc, topology.sm(id).in_gpc);
      for (const LoggedLaunch& launch : launches) follower.see(launch);
      for (const auto& [operation, ids] : follower.ids) known += ids.size();
      REQUIRE(follower.ids == listener.ids[id]);
    }
    REQUIRE(known == ctas);
  }
}
