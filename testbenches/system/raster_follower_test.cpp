// Every SM follows the raster position from the launch packets alone (CWD-35): the ids that CTAs have are those of
// plain division, whatever the machine, and they are wrong where a packet does not come to those who only count it.
// Between the distributor and the GPCs sit taps that pass everything through, or not.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
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

// Stands on the link to one GPC, and passes on what it is told to, when and in whatever order.
class LaunchTap : public sc_core::sc_module,
                  private tlm::tlm_fw_transport_if<Protocol>,
                  private tlm::tlm_bw_transport_if<Protocol> {
 public:
  // Called with every packet before it is passed on; true: it is lost.
  using Evil = std::function<bool(LaunchPacket&)>;

  LaunchTap(const sc_core::sc_module_name& name, std::uint32_t virtual_gpc, std::vector<LaunchPacket>& own)
      : sc_core::sc_module(name), in("in"), out("out"), virtual_gpc_(virtual_gpc), own_(own) {
    in.bind(static_cast<tlm::tlm_fw_transport_if<Protocol>&>(*this));
    out.bind(static_cast<tlm::tlm_bw_transport_if<Protocol>&>(*this));
  }
  tlm::tlm_target_socket<heddle::kPacketBusWidth, Protocol> in;
  tlm::tlm_initiator_socket<heddle::kPacketBusWidth, Protocol> out;
  Evil evil;

 private:
  // A packet that the GPC is to start is logged where the distributor sends it, whoever hears it besides.
  tlm::tlm_sync_enum nb_transport_fw(Transfer& transfer, PacketPhase& phase, sc_core::sc_time& delay) override {
    LaunchPacket packet = heddle::packet_of<LaunchPacket>(transfer);
    if (packet.virtual_gpc == virtual_gpc_) own_.push_back(packet);
    if (evil && evil(packet)) {
      Transfer credit = transfer;  // as if it had been taken
      PacketPhase back = PacketPhase::credit;
      in->nb_transport_bw(credit, back, delay);
      return tlm::TLM_ACCEPTED;
    }
    const void* const sent = transfer.packet;
    transfer.packet = &packet;
    const tlm::tlm_sync_enum status = out->nb_transport_fw(transfer, phase, delay);
    transfer.packet = sent;
    return status;
  }
  tlm::tlm_sync_enum nb_transport_bw(Transfer& transfer, PacketPhase& phase, sc_core::sc_time& delay) override {
    return in->nb_transport_bw(transfer, phase, delay);
  }
  void b_transport(Transfer& transfer, sc_core::sc_time& delay) override { out->b_transport(transfer, delay); }
  bool get_direct_mem_ptr(Transfer&, tlm::tlm_dmi&) override { return false; }
  unsigned int transport_dbg(Transfer&) override { return 0; }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

  std::uint32_t virtual_gpc_;
  std::vector<LaunchPacket>& own_;
};

// What a CTA knows of itself.
struct Known {
  std::uint64_t index, cga, rank;
  std::uint32_t x, y, z;
  bool operator==(const Known& o) const {
    return index == o.index && cga == o.cga && rank == o.rank && x == o.x && y == o.y && z == o.z;
  }
};
using BySm = std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Known>>;  // by SM and operation

struct Listener : CtaListener {
  virtual ~Listener() = default;
  void cta_started(const Cta& cta) override {
    known[{cta.sm, cta.task}].push_back({cta.index, cta.cga, cta.rank, cta.x, cta.y, cta.z});
  }
  void cta_ended(const Cta&) override {}
  BySm known;
};

// The CTAs of a grid stand in the order in which the distributor sends its launch packets, and in those in the order of
// their masks and bits; each is at the place of the grid that plain division gives.
BySm by_division(const Topology& topology, const std::vector<LaunchPacket>& own) {
  std::vector<std::uint32_t> gpc_of(topology.gpcs());
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) gpc_of[topology.virtual_gpc(g)] = g;
  std::map<std::uint32_t, std::uint64_t> position;  // by operation
  BySm wanted;
  for (const LaunchPacket& packet : own) {
    std::vector<std::uint64_t> masks{packet.sm_mask};
    masks.insert(masks.end(), packet.further_masks.begin(), packet.further_masks.end());
    for (const std::uint64_t mask : masks) {
      for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1) {
        const auto bit = static_cast<std::uint32_t>(heddle::bits::lowest(rest));
        const heddle::arch::CtaId id = resolve(packet.shape, position[packet.operation]++);
        wanted[{topology.gpc(gpc_of[packet.virtual_gpc]).sm_ids[bit], packet.operation}].push_back(
            {id.index, id.cga, id.rank, id.cta.x, id.cta.y, id.cta.z});
      }
    }
  }
  return wanted;
}

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

// A distributor and the GPCs of a machine, with taps between them.
struct Machine {
  Machine(const GpuParams& parameters, std::uint64_t seed, Cycle run_ahead, heddle::TimingMode mode)
      : params(parameters),
        topology(params.machine.shape),
        domain("domain", 1.0, mode, run_ahead, observation),
        tasks("tasks", domain, params.cwd, log),
        cwd("cwd", domain, "cwd", params.cwd, topology, heddle::arch::capacity_of(params.sm.limits),
            {params.gpc.cga_ids, params.gpc.cga_barriers}),
        nested(params.nested_memory()),
        machine{domain, params, seed, codes, map, topology, map.bytes(), params.cga_memory(), nested} {
    observation.ctas = &listener;
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
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) add_gpc(g);
  }
  void add_gpc(std::uint32_t g) {
    const std::string name = fmt::format("gpc{}", g);
    const std::uint32_t virtual_gpc = topology.virtual_gpc(g);
    taps.push_back(std::make_unique<LaunchTap>(("tap_" + name).c_str(), virtual_gpc, own));
    gpcs.push_back(std::make_unique<heddle::gpu::Gpc>(
        name.c_str(), heddle::gpu::GpcContext{machine,
                                              topology.gpc(g),
                                              {heddle::protocol::GpcId(g), heddle::protocol::VirtualGpcId(virtual_gpc)},
                                              name,
                                              parts[g]}));
    cwd.launch_out.socket().bind(taps.back()->in);
    taps.back()->out.bind(gpcs.back()->gpm.launch_in.socket());
    cwd.local_out.bind(gpcs.back()->gpm.local_in);
    cwd.abort_out.bind(gpcs.back()->gpm.abort_in);
    gpcs.back()->gpm.complete_out.bind(cwd.complete_in[g]);
    gpcs.back()->gpm.cga_out.bind(cwd.cga_in[g]);
    gpcs.back()->gpm.shared_out.bind(cwd.shared_in[g]);
    gpcs.back()->gpm.barrier_out.bind(cwd.barrier_in[g]);
    cwd.barrier_out.bind(gpcs.back()->gpm.barrier_in);
    cwd.part_out.bind(gpcs.back()->gpm.part_in);
    for (const auto& unit : gpcs.back()->tmaus) {
      for (auto& socket : unit->multicast_in) {
        loose.push_back(std::make_unique<NoCrossbar>(sc_core::sc_gen_unique_name("loose"), domain));
        loose.back()->out.bind(socket);
      }
    }
  }

  SimFixture sim;
  const GpuParams params;
  heddle::GpuObservation observation{"gpu0"};
  Listener listener;
  const Topology topology;
  Domain domain;
  Log log;
  FakeTaskUnit tasks;
  heddle::cwd::Cwd cwd;
  const heddle::arch::CodeStore codes;
  const heddle::arch::AddressMap map{1 << 20, 2, 1};
  const heddle::arch::LaunchMemory nested;
  const heddle::gpu::MachineContext machine;
  const std::vector<std::vector<heddle::arch::VirtualPart>> parts =
      heddle::arch::virtual_parts(topology, std::vector<bool>(topology.sms(), true));
  std::vector<LaunchPacket> own;  // every packet once, in the order of departure
  std::vector<std::unique_ptr<LaunchTap>> taps;
  std::vector<std::unique_ptr<heddle::gpu::Gpc>> gpcs;
  std::vector<std::unique_ptr<NoCrossbar>> loose;
};

GpuParams random_params(Random& random) {
  GpuParams params;
  params.machine.shape = random.shape(4);
  params.cwd = random_cwd_params(random, params.machine.shape.sms());
  params.cwd.broadcast = random.chance(50) ? heddle::cwd::Broadcast::all : heddle::cwd::Broadcast::usable;
  params.cwd.broadcast_width = random.between(1, 5);
  if (random.chance(40)) {
    params.cwd.gpc_distances.clear();
    for (std::size_t g = 0; g < params.machine.shape.gpcs.size(); ++g) {
      params.cwd.gpc_distances.push_back(random.below(90));
    }
  }
  params.gpc.mpc = random.chance(70) ? heddle::gpc::MpcPer::sm : heddle::gpc::MpcPer::tpc;
  params.gpc.mpc_queue = random.between(1, 4);
  params.gpc.gpm_to_mpc = random.below(9);
  params.gpc.cga_ids = random.between(1, 32);
  params.gpc.packets = random.chance(30) ? 0 : random.between(200, 2000) / 1000.0;
  params.gpc.mpc_launches = random.chance(30) ? 0 : random.between(100, 4000) / 1000.0;
  params.gpc.delta_bits = random.between(1, 16);
  params.gpc.divide_cycles = random.below(5) / 4.0;
  params.gpc.raster_cycles = random.below(3);
  return params;
}

}  // namespace

TEST_CASE("all CTAs of a machine know the ids that division gives, from what they hear alone",
          "[system][CWD-31][CWD-35][CWD-40][CWD-41][CWD-42]") {
  std::uint32_t clusters = 0;
  std::uint32_t late = 0;
  std::uint32_t narrow = 0;
  for (const std::uint64_t seed : seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    const GpuParams params = random_params(random);
    Machine machine(params, seed, random.chance(50) ? 0 : 1024,
                    random.chance(15) ? heddle::TimingMode::lt : heddle::TimingMode::at);
    const Topology& topology = machine.topology;
    std::map<std::uint32_t, std::uint64_t> ctas;
    for (std::uint32_t operation = 0; operation < 12; ++operation) {
      const TaskPacket task = random_task(random, operation);
      machine.tasks.submit(random.below(600), task);
      ctas[operation] = task.grid.count();
      if (random.chance(20)) machine.tasks.evict(random.below(1500), operation);
    }
    // TPCs that are away for a while do not hear what is broadcast, and are told the coordinate when they start again.
    for (std::uint32_t i = random.below(4); i > 0; --i) {
      const std::uint32_t gpc = random.below(topology.gpcs());
      const std::uint32_t tpc = random.below(topology.gpc(gpc).tpcs.size());
      const Cycle from = random.below(800);
      machine.tasks.control(from, switched(gpc, tpc, false));
      machine.tasks.control(from + random.between(1, 900), switched(gpc, tpc, true));
    }
    run_until_idle();
    REQUIRE(machine.log.done.size() == 12);
    for (const LaunchPacket& packet : machine.own) {
      clusters += packet.shape.levels > 0 ? 1 : 0;
      late += packet.sync ? 1 : 0;
      narrow += packet.listeners != ~std::uint64_t{0} ? 1 : 0;
    }
    for (const auto& [place, wanted] : by_division(topology, machine.own)) {
      const std::vector<Known>& known = machine.listener.known[place];
      CAPTURE(place.first, place.second, topology.sm(place.first).gpc, topology.sm(place.first).tpc);
      REQUIRE(known.size() == wanted.size());
      for (std::size_t i = 0; i < known.size(); ++i) {
        CAPTURE(i, known[i].index, wanted[i].index);
        REQUIRE(known[i] == wanted[i]);
      }
    }
    // Nor is a CTA of a grid lost or started twice.
    std::map<std::uint32_t, std::set<std::uint64_t>> indices;
    std::uint64_t started = 0;
    for (const auto& [place, known] : machine.listener.known) {
      for (const Known& cta : known) indices[place.second].insert(cta.index);
      started += known.size();
    }
    std::uint64_t expected = 0;
    for (const auto& [operation, done] : machine.log.done) {
      const std::uint64_t all = done.rejected ? 0 : ctas.at(operation);
      REQUIRE(indices[operation].size() == all);
      expected += all;
    }
    REQUIRE(started == expected);
    for (const auto& gpc : machine.gpcs) {
      REQUIRE(gpc->gpm.live_ctas() == 0);
      REQUIRE(gpc->gpm.live_cgas() == 0);
    }
  }
  CHECK(clusters > 1000);
  CHECK(late > 20);
  CHECK(narrow > 100);
}

TEST_CASE("on a machine whose broadcast is tampered with, CTAs have wrong ids", "[system][CWD-35][CWD-42]") {
  enum class Evil { nothing, lost_elsewhere, begin_lost, not_told };
  const Evil evil = GENERATE(Evil::nothing, Evil::lost_elsewhere, Evil::begin_lost, Evil::not_told);
  CAPTURE(static_cast<int>(evil));
  GpuParams params;
  params.machine.shape = heddle::arch::Shape::from_sms_per_gpc({4, 4, 4});
  params.cwd.session_limit = 30;
  Machine machine(params, 1, 0, heddle::TimingMode::at);
  std::uint32_t heard = 0;
  machine.taps[1]->evil = [&](LaunchPacket& packet) {
    const std::uint32_t number = heard++;
    if (evil == Evil::not_told) packet.sync.reset();
    if (packet.virtual_gpc == machine.topology.virtual_gpc(1)) return false;  // nobody misses a CTA
    return evil == Evil::lost_elsewhere ? number == 20 : evil == Evil::begin_lost && packet.begins;
  };
  TaskPacket task;
  task.grid = {11, 9, 5};
  task.need = {{8, 256, 8192, 1024, 1, 16}};
  task.duration = {200, 900};
  machine.tasks.submit(0, task);
  // A TPC of GPC 1 comes late, so that somebody has to be told.
  machine.tasks.control(0, switched(1, 1, false));
  machine.tasks.control(1500, switched(1, 1, true));
  run_until_idle();
  REQUIRE(machine.own.size() > 40);
  const bool right = machine.listener.known == by_division(machine.topology, machine.own);
  CHECK(right == (evil == Evil::nothing));
}

}  // namespace system_raster_follower_test
