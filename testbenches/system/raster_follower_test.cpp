// Every SM follows the raster position from the launch packets alone: a reference that does so, packet by packet, must
// know the same ids as the machine. Between the distributor and the GPCs sit taps that pass everything through.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "common/bits.h"
#include "common/packet_socket.h"
#include "cwd/cwd_bench.h"
#include "gpu/gpc_tree.h"
#include "support/random_machine.h"

namespace system_raster_follower_test {

using namespace heddle::test;
using heddle::CtaListener;
using heddle::Cycle;
using heddle::Domain;
using heddle::PacketPhase;
using heddle::PacketTransfer;
using heddle::arch::CgaLevel;
using heddle::arch::Dim3;
using heddle::arch::RasterShape;
using heddle::arch::Topology;
using heddle::gpu::GpuParams;
using heddle::protocol::LaunchPacket;
using heddle::protocol::TaskPacket;

namespace {

using Protocol = heddle::packet_protocol;
using Transfer = PacketTransfer;

// Nothing comes to a tensor memory access unit from there.
struct NoCrossbar : sc_core::sc_module {
  NoCrossbar(const sc_core::sc_module_name& name, heddle::Domain& domain)
      : sc_core::sc_module(name), out("out", domain, 0, heddle::kUnlimitedCredits) {}
  heddle::PacketOut<heddle::protocol::BulkDataPacket> out;
};

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
    log_.push_back({0, gpc_, heddle::packet_of<LaunchPacket>(transfer)});
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

// What a CTA knows of itself: linear id in the grid, linear id of its CGA, rank in it.
using Id = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

struct Listener : CtaListener {
  virtual ~Listener() = default;
  void cta_started(const Cta& cta) override { ids[cta.sm][cta.task].emplace_back(cta.index, cta.cga, cta.rank); }
  void cta_ended(const Cta&) override {}
  std::map<std::uint32_t, std::map<std::uint32_t, std::vector<Id>>> ids;  // SM, task: in order of starting
};

struct Place {
  std::uint64_t x = 0, y = 0, z = 0;
};

// What one SM knows: per slot of the task table, the task and a place that only ever has counts added to it.
class Follower {
 public:
  Follower(std::uint32_t gpc, std::uint32_t bit) : gpc_(gpc), bit_(bit) {}

  // Sees every launch packet of the machine, in order, without looking at its raster position.
  void see(const LoggedLaunch& launch) {
    const LaunchPacket& packet = launch.packet;
    Slot& slot = slots_[packet.slot];
    if (!slot.valid || slot.task != packet.operation) slot = {true, packet.operation, 0, 0, {}};
    if (launch.gpc != gpc_) {
      slot.delta += packet.num_ctas;
      return;
    }
    std::vector<std::uint64_t> masks{packet.sm_mask};
    masks.insert(masks.end(), packet.further_masks.begin(), packet.further_masks.end());
    for (const std::uint64_t mask : masks) {
      for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1) {
        if (heddle::bits::lowest(rest) == bit_) {
          advance(slot, packet.shape);
          ids[packet.operation].push_back(id_at(slot, packet.shape));
        }
        ++slot.delta;
      }
    }
  }
  std::map<std::uint32_t, std::vector<Id>> ids;

 private:
  struct Slot {
    bool valid = false;
    std::uint32_t task = 0;
    std::uint64_t delta = 0;   // CTAs since the last own one
    std::uint64_t within = 0;  // CTAs of the outermost CGA before this place
    Place unit;                // the outermost CGA
  };

  static std::uint64_t volume(const Dim3& extents) { return std::uint64_t{extents.x} * extents.y * extents.z; }

  // The delta, in outermost CGAs, is decomposed and added with carries, as CWD-41 says.
  static void advance(Slot& slot, const RasterShape& shape) {
    const Dim3 outer = shape.levels > 0 ? shape.nest[0] : Dim3{1, 1, 1};
    const std::uint64_t width = shape.grid.x / outer.x;
    const std::uint64_t height = shape.grid.y / outer.y;
    const std::uint64_t ctas = slot.within + slot.delta;
    const std::uint64_t units = ctas / volume(outer);
    slot.within = ctas % volume(outer);
    slot.delta = 0;
    slot.unit.x += units % (width * height) % width;
    std::uint64_t carry = slot.unit.x >= width ? 1 : 0;
    slot.unit.x -= carry * width;
    slot.unit.y += units % (width * height) / width + carry;
    carry = slot.unit.y >= height ? 1 : 0;
    slot.unit.y -= carry * height;
    slot.unit.z += units / (width * height) + carry;
  }

  // Inwards through the levels: the place of each in the one around it.
  static Id id_at(const Slot& slot, const RasterShape& shape) {
    const Dim3 cta{1, 1, 1};
    Dim3 outer = shape.levels > 0 ? shape.nest[0] : cta;
    Place place{slot.unit.x * outer.x, slot.unit.y * outer.y, slot.unit.z * outer.z};
    std::uint64_t within = slot.within;
    for (std::size_t level = 1; level <= shape.levels; ++level) {
      const Dim3 inner = level < shape.levels ? shape.nest[level] : cta;
      const std::uint64_t which = within / volume(inner);
      const std::uint64_t columns = outer.x / inner.x;
      const std::uint64_t rows = outer.y / inner.y;
      place.x += which % columns * inner.x;
      place.y += which / columns % rows * inner.y;
      place.z += which / columns / rows * inner.z;
      within %= volume(inner);
      outer = inner;
    }
    const std::uint64_t index = place.x + shape.grid.x * (place.y + shape.grid.y * place.z);
    if (shape.levels == 0) return {index, index, 0};
    const Dim3& cga = shape.nest[shape.cga_level];
    const std::uint64_t columns = shape.grid.x / cga.x;
    const std::uint64_t rows = shape.grid.y / cga.y;
    return {index, place.x / cga.x + columns * (place.y / cga.y + rows * (place.z / cga.z)),
            place.x % cga.x + cga.x * (place.y % cga.y + std::uint64_t{cga.y} * (place.z % cga.z))};
  }

  std::uint32_t gpc_;
  std::uint32_t bit_;
  std::map<std::uint32_t, Slot> slots_;
};

// A grid of any kind; its CGAs may have a smaller size to fall back on.
TaskPacket random_task(Random& random, std::uint32_t operation) {
  const auto multiple = [&random](const Dim3& inner) {
    return Dim3{inner.x * random.between(1, 3), inner.y * random.between(1, 2), inner.z * random.between(1, 2)};
  };
  TaskPacket task;
  task.operation = operation;
  task.priority = static_cast<std::int32_t>(random.below(2));
  Dim3 inner{1, 1, 1};
  if (random.chance(40)) inner = task.cluster.of(CgaLevel::gpc) = multiple(inner);
  if (random.chance(30)) inner = task.cluster.of(CgaLevel::gpu) = multiple(inner);
  if (task.cluster.any()) {
    if (random.chance(30) && task.cluster.outermost() == CgaLevel::gpu) {
      task.cluster.fallback[0] = inner;
      task.cluster.of(CgaLevel::gpu).x = inner.x *= 2;
    }
    task.cluster.mode = random.chance(50) ? heddle::arch::CgaMode::multicast : heddle::arch::CgaMode::load_balancing;
    task.grid = {inner.x * random.between(1, 5), inner.y * random.between(1, 3), inner.z * random.between(1, 3)};
  } else {
    task.grid = {random.between(1, 9), random.between(1, 7), random.between(1, 5)};
  }
  task.need = {{random.between(1, 16), random.between(1, 400), random.between(0, 9000), 1024, 1, 16}};
  task.duration = {1, random.between(1, 900)};
  return task;
}

}  // namespace

TEST_CASE("an SM that follows the launch packets knows the ids of its CTAs", "[system][CWD-35][CWD-31][CWD-41]") {
  std::uint32_t clusters = 0;
  std::uint32_t late = 0;
  for (const std::uint64_t seed : seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    GpuParams params;
    params.machine.shape = random.shape(4);
    params.cwd = random_cwd_params(random, params.machine.shape.sms());
    params.gpc.mpc_queue = random.between(1, 4);
    params.gpc.gpm_to_mpc = random.below(9);
    params.gpc.cga_ids = random.between(1, 32);
    params.gpc.delta_bits = random.between(1, 16);
    params.gpc.raster_cycles = random.below(3);
    const heddle::arch::ResourceVector capacity = heddle::arch::capacity_of(params.sm.limits);

    SimFixture sim;
    heddle::GpuObservation observation("gpu0");
    Listener listener;
    observation.ctas = &listener;
    const Topology topology(params.machine.shape);
    Domain domain("domain", 1.0, heddle::TimingMode::at, random.chance(50) ? 0 : 1024, observation);
    Log log;
    FakeTaskUnit tasks("tasks", domain, params.cwd, log);
    heddle::cwd::Cwd cwd("cwd", domain, "cwd", params.cwd, topology, capacity,
                         {params.gpc.cga_ids, params.gpc.cga_barriers});
    tasks.task_out.bind(cwd.task_in);
    tasks.control_out.bind(cwd.control_in);
    cwd.done_out.bind(tasks.done_in);
    tasks.evict_out.bind(cwd.evict_in);
    cwd.evicted_out.bind(tasks.evicted_in);
    tasks.grow_out.bind(cwd.grow_in);
    cwd.idle_out.bind(tasks.idle_in);
    tasks.share_out.bind(cwd.share_in);
    std::vector<std::vector<std::uint32_t>> sms;
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) sms.push_back(topology.gpc(g).sm_ids);
    observation.clusters.configure(std::move(sms));
    std::vector<LoggedLaunch> launches;
    std::vector<std::unique_ptr<LaunchTap>> taps;
    std::vector<std::unique_ptr<heddle::gpu::Gpc>> gpcs;
    std::vector<std::unique_ptr<NoCrossbar>> loose;
    const heddle::arch::CodeStore codes;
    const heddle::arch::AddressMap map(1 << 20, 2, 1);
    const heddle::arch::LaunchMemory nested = params.nested_memory();
    const heddle::gpu::MachineContext machine{
        domain, params, seed, codes, map, topology.sms(), map.bytes(), params.cga_memory(), nested};
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
      const std::string name = fmt::format("gpc{}", g);
      taps.push_back(std::make_unique<LaunchTap>(("tap_" + name).c_str(), g, launches));
      gpcs.push_back(std::make_unique<heddle::gpu::Gpc>(
          name.c_str(), heddle::gpu::GpcContext{machine, topology.gpc(g), heddle::protocol::GpcId(g), name}));
      cwd.launch_out.socket().bind(taps.back()->in);
      taps.back()->out.bind(gpcs.back()->gpm.launch_in.socket());
      cwd.local_out.bind(gpcs.back()->gpm.local_in);
      cwd.abort_out.bind(gpcs.back()->gpm.abort_in);
      gpcs.back()->gpm.complete_out.bind(cwd.complete_in[g]);
      gpcs.back()->gpm.cga_out.bind(cwd.cga_in[g]);
      gpcs.back()->gpm.shared_out.bind(cwd.shared_in[g]);
      for (const auto& unit : gpcs.back()->tmaus) {
        for (auto& socket : unit->multicast_in) {
          loose.push_back(std::make_unique<NoCrossbar>(sc_core::sc_gen_unique_name("loose"), domain));
          loose.back()->out.bind(socket);
        }
      }
    }
    std::map<std::uint32_t, std::uint64_t> ctas;
    for (std::uint32_t operation = 0; operation < 12; ++operation) {
      const TaskPacket task = random_task(random, operation);
      tasks.submit(random.below(600), task);
      ctas[operation] = task.grid.count();
    }
    // TPCs that are away for a while miss what is broadcast, and are told the coordinate when they start again.
    for (std::uint32_t i = random.below(4); i > 0; --i) {
      const std::uint32_t gpc = random.below(topology.gpcs());
      const std::uint32_t tpc = random.below(topology.gpc(gpc).tpcs.size());
      const Cycle from = random.below(800);
      tasks.control(from, switched(gpc, tpc, false));
      tasks.control(from + random.between(1, 900), switched(gpc, tpc, true));
    }
    run_until_idle();
    REQUIRE(log.done.size() == 12);
    std::uint64_t expected = 0;
    for (const auto& [operation, done] : log.done) expected += done.rejected ? 0 : ctas.at(operation);
    for (const LoggedLaunch& launch : launches) {
      clusters += launch.packet.shape.levels > 0 ? 1 : 0;
      late += launch.packet.late_mask != 0 ? 1 : 0;
    }

    std::uint64_t known = 0;
    for (std::uint32_t id = 0; id < topology.sms(); ++id) {
      CAPTURE(id);
      Follower follower(topology.sm(id).gpc, topology.sm(id).in_gpc);
      for (const LoggedLaunch& launch : launches) follower.see(launch);
      for (const auto& [operation, ids] : follower.ids) known += ids.size();
      REQUIRE(follower.ids == listener.ids[id]);
    }
    REQUIRE(known == expected);
    for (const auto& gpc : gpcs) {
      REQUIRE(gpc->gpm.live_ctas() == 0);
      REQUIRE(gpc->gpm.live_cgas() == 0);
    }
  }
  CHECK(clusters > 1000);
  CHECK(late > 20);
}

}  // namespace system_raster_follower_test
