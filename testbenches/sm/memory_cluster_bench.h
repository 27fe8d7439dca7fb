// The memory sides of several SMs, and a network between them that takes its time: DSMEM without anything else of an
// SM.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arch/address_map.h"
#include "arch/gpu_observation.h"
#include "common/domain.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "protocol/memory_request.h"
#include "sm/sm_core.h"
#include "support/sim_fixture.h"

namespace heddle::test {

// Requests and replies, each in its own order for each pair of SMs, after any delay. Whoever has no room at the far end
// keeps its place here.
class RandomSmNetwork : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  using Packet = protocol::DsmemPacket;

  RandomSmNetwork(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t sms, std::uint32_t queue)
      : sc_core::sc_module(name),
        request_in("request_in"),
        reply_in("reply_in"),
        request_out("request_out", domain, 0, queue),
        reply_out("reply_out", domain, 0, kUnlimitedCredits),
        domain_(domain),
        last_{std::vector<Cycle>(std::size_t{sms} * sms), std::vector<Cycle>(std::size_t{sms} * sms)},
        waiting_{std::vector<std::deque<Packet>>(sms), std::vector<std::deque<Packet>>(sms)},
        sms_(sms) {
    const auto make = [&domain](const char* its_name, std::size_t) {
      return new PacketIn<Packet>(its_name, domain, 0, CreditReturn::by_owner);
    };
    request_in.init(sms, make);
    reply_in.init(sms, make);
    for (std::uint32_t i = 0; i < sms; ++i) {
      request_in[i].on_packet<RandomSmNetwork, &RandomSmNetwork::on_request>(*this, i);
      reply_in[i].on_packet<RandomSmNetwork, &RandomSmNetwork::on_reply>(*this, i);
    }
    request_out.on_credit<RandomSmNetwork, &RandomSmNetwork::on_request_room>(*this);
    domain.add_resettable(*this);
  }

  sc_core::sc_vector<PacketIn<Packet>> request_in;
  sc_core::sc_vector<PacketIn<Packet>> reply_in;
  PacketOut<Packet> request_out;
  PacketOut<Packet> reply_out;
  std::function<Cycle(std::uint32_t from, std::uint32_t to)> delay = [](std::uint32_t, std::uint32_t) { return 80; };
  std::uint64_t requests = 0;  // that have set out
  bool stuck = false;          // replies stay here
  void free_replies() {
    stuck = false;
    for (std::uint32_t link = 0; link < sms_; ++link) pass_on(kReply, link);
  }

 private:
  static constexpr std::uint32_t kRequest = 0;
  static constexpr std::uint32_t kReply = 1;

  void reset() override {
    for (auto& channel : last_) std::fill(channel.begin(), channel.end(), 0);
    for (auto& channel : waiting_) {
      for (auto& queue : channel) queue.clear();
    }
    flights_.clear();
  }
  void on_request(const Packet& packet, std::uint32_t from) {
    ++requests;
    set_out(kRequest, packet, from);
  }
  void on_reply(const Packet& packet, std::uint32_t from) { set_out(kReply, packet, from); }
  void set_out(std::uint32_t channel, const Packet& packet, std::uint32_t from) {
    HEDDLE_CHECK(packet.from_sm == from, "a packet with a wrong sender");
    Cycle& last = last_[channel][from * sms_ + packet.to_sm];
    last = std::max(last, domain_.now() + delay(from, packet.to_sm));
    flights_.push_back(packet);
    domain_.schedule(last, *this, channel, flights_.size() - 1);
  }
  const char* handler_name() const override { return name(); }
  void on_event(std::uint32_t channel, std::uint64_t flight) override {
    const Packet packet = flights_[flight];
    waiting_[channel][packet.to_sm].push_back(packet);
    pass_on(channel, packet.to_sm);
  }
  void on_request_room(std::uint32_t link) { pass_on(kRequest, link); }
  void pass_on(std::uint32_t channel, std::uint32_t link) {
    if (stuck && channel == kReply) return;
    std::deque<Packet>& queue = waiting_[channel][link];
    PacketOut<Packet>& out = channel == kRequest ? request_out : reply_out;
    while (!queue.empty() && out.can_send(link)) {
      const Packet packet = queue.front();
      queue.pop_front();
      out.send(packet, link);
      (channel == kRequest ? request_in : reply_in)[packet.from_sm].return_credit();
    }
  }

  Domain& domain_;
  std::vector<Packet> flights_;
  std::vector<Cycle> last_[2];
  std::vector<std::deque<Packet>> waiting_[2];
  std::uint32_t sms_;
};

// The memory side of one SM, with what an SM keeps around it.
class UnitOfSm : public sc_core::sc_module,
                 public sm::AccessClient,
                 private sm::FenceListener,
                 private sm::GateListener,
                 private sm::DsmemListener,
                 private sm::DsmemErrorListener,
                 private sm::BulkErrorListener,
                 private sm::WindowListener {
 public:
  using Packet = protocol::DsmemPacket;
  static constexpr std::uint32_t kWarps = 16;

  UnitOfSm(const sc_core::sc_module_name& name, Domain& domain, const sm::SmParams& params, std::uint32_t in_gpc,
           std::uint32_t credits)
      : sc_core::sc_module(name),
        memory_out("memory_out", domain),
        dsmem_out("dsmem_out", domain, 0, credits),
        reply_out("reply_out", domain, 0, credits),
        dsmem_in("dsmem_in", domain, 0, CreditReturn::by_owner),
        reply_in("reply_in", domain, 0),
        bulk_read_out("bulk_read_out", domain, 0, kUnlimitedCredits),
        bulk_read_back("bulk_read_back", domain, 0),
        warps(kWarps),
        stats(domain.observation().stats, "gpu0.sm" + std::to_string(in_gpc)),
        place_{protocol::SmId(in_gpc), 1, {}, protocol::SmInGpc(in_gpc)},
        unit(domain, domain, params, place_, {map_}, warps, stats,
             {memory_out, dsmem_out, dsmem_in, reply_out, bulk_read_out}, {*this, *this, *this, *this}),
        tables(unit.tables),
        domain_(domain) {
    unit.gate.listen(*this);
    unit.fences.listen(*this);
    memory_out.connect<sm::L2Port, &sm::L2Port::on_response, &sm::L2Port::on_room>(unit.l2);
    dsmem_out.on_credit<sm::MemoryPaths, &sm::MemoryPaths::on_dsmem_room>(unit);
    reply_out.on_credit<sm::MemoryPaths, &sm::MemoryPaths::on_dsmem_room>(unit);
    dsmem_in.on_packet<sm::DsmemServer, &sm::DsmemServer::on_request>(unit.server);
    reply_in.on_packet<sm::MemoryPaths, &sm::MemoryPaths::on_dsmem_reply>(unit);
    bulk_read_out.bind(bulk_read_back);
    bulk_read_back.on_packet<UnitOfSm, &UnitOfSm::on_bulk_answer>(*this);
  }

  MemoryOut memory_out;
  PacketOut<Packet> dsmem_out;
  PacketOut<Packet> reply_out;
  PacketIn<Packet> dsmem_in;
  PacketIn<Packet> reply_in;
  PacketOut<protocol::BulkReadPacket> bulk_read_out;
  PacketIn<protocol::BulkReadPacket> bulk_read_back;  // as a TMAU gets them
  std::vector<sm::Warp> warps;
  sm::SmStats stats;

 private:
  arch::AddressMap map_{1 << 20, 4, 2};
  const sm::SmContext place_;

 public:
  sm::MemoryPaths unit;
  sm::ClusterTables& tables;

  // What the unit has told.
  struct Ended {
    std::uint32_t warp;
    Cycle when;
  };
  std::vector<Ended> ended;
  std::vector<Ended> lost;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> outside;  // of copies: lane and offset
  std::vector<sm::ClusterError> failed;
  std::vector<sm::ClusterError> orphans;
  std::vector<std::optional<std::uint32_t>> answered;  // CTA slots
  std::vector<std::uint32_t> changed;                  // windows
  struct Changed {
    std::uint32_t window;
    std::uint32_t offset;
    Cycle when;
  };
  std::vector<Changed> changes;  // the same
  struct BulkFailure {
    arch::DsmemStatus status;
    std::uint32_t rank;
    std::uint32_t offset;
    std::uint32_t request;  // of the target
  };
  std::vector<BulkFailure> bulk_failures;
  std::vector<std::uint32_t> missing_fences;  // offsets
  struct BulkAnswer {
    protocol::BulkReadPacket packet;
    Cycle when;
  };
  std::vector<BulkAnswer> bulk_answers;
  std::uint32_t groups_ended = 0;
  std::uint32_t went_on = 0;
  std::function<void(std::uint32_t warp, Cycle when)> on_ended;
  std::function<void()> on_go;

  void set_warp(std::uint32_t warp, std::uint32_t cta, std::optional<protocol::CgaId> cga_id) {
    warps[warp].cta = cta;
    warps[warp].state.registers.assign(std::size_t{8} * arch::kWarpLanes, 0);
    tables.set_warp(warp, cga_id);
  }
  sm::MemoryResult cluster(const arch::Operation& operation, std::uint32_t warp, Cycle now) {
    return unit.dsmem.access(operation, warp, now, *this);
  }
  sm::MemoryResult global(const arch::Operation& operation, std::uint32_t warp, Cycle now) {
    return unit.global.access(operation, warp, now, *this);
  }
  std::uint32_t* reg(std::uint32_t warp, std::uint16_t number) { return warps[warp].state.of(number); }

 private:
  void on_bulk_answer(const protocol::BulkReadPacket& packet, std::uint32_t) {
    bulk_answers.push_back({packet, domain_.now()});
  }

  void access_ended(const sm::Access& access, Cycle when) override {
    ended.push_back({access.warp, when});
    if (on_ended) on_ended(access.warp, when);
  }
  void access_lost(const sm::Access& access, Cycle when) override { lost.push_back({access.warp, when}); }
  void access_failed(const sm::Access& access, std::uint32_t lane, std::uint64_t address, Cycle) override {
    HEDDLE_CHECK(access.failure == sm::AccessFailure::outside, "the memory has no errors");
    outside.emplace_back(lane, address);
  }
  void request_ended(std::uint64_t, Cycle) override { ++groups_ended; }
  void dsmem_failed(const sm::Access&, const sm::ClusterError& error, Cycle) override { failed.push_back(error); }
  void orphan_failed(const sm::ClusterError& error, Cycle) override { orphans.push_back(error); }
  void dsmem_answered(protocol::CgaId, std::optional<std::uint32_t> cta, Cycle) override { answered.push_back(cta); }
  void window_changed(std::uint32_t window, std::uint32_t offset, Cycle when) override {
    changed.push_back(window);
    changes.push_back({window, offset, when});
  }
  void bulk_failed(const sm::BulkError& error, Cycle) override {
    bulk_failures.push_back({error.status, error.rank, error.offset, error.target.request});
  }
  void missing_fence(const protocol::BulkTarget&, std::uint32_t offset, Cycle) override {
    missing_fences.push_back(offset);
  }
  void gate_opened(Cycle) override {
    ++went_on;
    if (on_go) on_go();
  }

  Domain& domain_;
};

struct UnitsShape {
  std::uint32_t sms = 2;
  std::uint32_t credits = 8;  // of an SM towards the network
  TimingMode mode = TimingMode::at;
  sm::SmParams params;
};

struct UnitsBench {
  explicit UnitsBench(const UnitsShape& shape = {})
      : domain("domain", 1.0, shape.mode, 0, observation),
        network("network", domain, shape.sms, shape.params.memory.cluster_queue) {
    for (std::uint32_t i = 0; i < shape.sms; ++i) {
      sms.push_back(
          std::make_unique<UnitOfSm>(("sm" + std::to_string(i)).c_str(), domain, shape.params, i, shape.credits));
      sms[i]->dsmem_out.bind(network.request_in[i]);
      sms[i]->reply_out.bind(network.reply_in[i]);
      network.request_out.bind(sms[i]->dsmem_in);
      network.reply_out.bind(sms[i]->reply_in);
    }
  }

  // A CTA of the CGA gets a window, and all SMs know it.
  void place(protocol::CgaId cga_id, std::uint32_t rank, std::uint32_t ctas, std::uint32_t sm, std::uint32_t window,
             std::uint32_t bytes, std::uint64_t sequence = 1) {
    sms[sm]->unit.shared.open(window, bytes);
    sms[sm]->tables.open_window(cga_id, rank, window);
    protocol::CtaEntryPacket entry;
    entry.cga_id = cga_id;
    entry.rank = rank;
    entry.ctas = ctas;
    entry.sm = protocol::SmInGpc(sm);
    entry.sequence = sequence;
    for (auto& each : sms) each->tables.enter(entry, 0);
  }
  // Nothing is under way anywhere.
  bool quiet() const {
    return std::all_of(sms.begin(), sms.end(), [](const std::unique_ptr<UnitOfSm>& each) {
      sm::MemoryPaths& unit = each->unit;
      std::uint64_t counts = unit.flights.all();
      for (std::uint32_t cta = 0; cta < 32; ++cta) counts += unit.flights.of_cta(cta);
      return counts == 0 && unit.gate.open() == 0 && unit.payloads() == 0 && unit.dsmem.waiting() == 0 &&
             unit.server.waiting() == 0 && unit.fences.open() == 0 && unit.bulk.sends() == 0;
    });
  }

  SimFixture sim;
  GpuObservation observation{"gpu0"};
  Domain domain;
  RandomSmNetwork network;
  std::vector<std::unique_ptr<UnitOfSm>> sms;
};

inline arch::Operation cluster_op(arch::OpCode code, std::uint32_t width, arch::LaneMask lanes) {
  arch::Operation operation;
  operation.code = code;
  operation.space = arch::Space::cluster;
  operation.width = static_cast<std::uint8_t>(width);
  operation.lanes = lanes;
  return operation;
}

constexpr protocol::CgaId kThreeCtas(77);

// A CGA of three CTAs: 0 on SM 0 (window 2), 1 on SM 1 (window 0), 2 on SM 0 (window 5). Warp 0 of SM 0 is of CTA 0,
// warp 1 of CTA 2; warp 0 of SM 1 is of CTA 1.
struct ThreeCtas : UnitsBench {
  explicit ThreeCtas(const UnitsShape& shape = {}, std::uint32_t bytes = 4096) : UnitsBench(shape) { setup(bytes); }
  void setup(std::uint32_t bytes, std::uint64_t sequence = 1) {
    place(kThreeCtas, 0, 3, 0, 2, bytes, sequence);
    place(kThreeCtas, 1, 3, 1, 0, bytes, sequence);
    place(kThreeCtas, 2, 3, 0, 5, bytes, sequence);
    sms[0]->set_warp(0, 2, kThreeCtas);
    sms[0]->set_warp(1, 5, kThreeCtas);
    sms[1]->set_warp(0, 0, kThreeCtas);
  }
  sm::MemoryPaths& unit(std::uint32_t sm = 0) { return sms[sm]->unit; }
  sm::SharedMemory& target() { return sms[1]->unit.shared; }
};

inline arch::Operation row(arch::OpCode code, std::uint32_t rank, std::uint32_t offset, std::uint32_t lanes = 32,
                           std::uint32_t width = 4) {
  const arch::LaneMask mask = lanes == 32 ? ~arch::LaneMask{0} : (arch::LaneMask{1} << lanes) - 1;
  arch::Operation operation = cluster_op(code, width, mask);
  if (code == arch::OpCode::load) operation.destination = 1;
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    operation.address[lane] = arch::dsmem_address(rank, offset + lane * width);
    operation.data[lane] = {lane + 1, lane, lane, lane};
  }
  return operation;
}
// One lane, one word.
inline arch::Operation one(arch::OpCode code, std::uint32_t rank, std::uint32_t offset, std::uint32_t first = 0,
                           std::uint32_t second = 0) {
  arch::Operation operation = row(code, rank, offset, 1);
  operation.data[0] = {first, second, 0, 0};
  return operation;
}
inline arch::Operation reduction(std::uint32_t rank, std::uint32_t offset, bool returns) {
  arch::Operation operation = row(arch::OpCode::atomic, rank, offset);
  for (std::uint64_t& address : operation.address) address = arch::dsmem_address(rank, offset);
  if (returns) operation.destination = 1;
  return operation;
}

}  // namespace heddle::test
