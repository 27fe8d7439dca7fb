// GPM and MPCs of one GPC over their sockets, between stand-ins for the distributor and the SMs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "common/bits.h"
#include "common/packet_socket.h"
#include "gpc/fake_sm.h"
#include "gpc/gpm.h"
#include "gpc/mpc.h"
#include "support/sim_fixture.h"

namespace heddle::test {

using arch::Shape;
using arch::Topology;
using gpc::GpcParams;
using gpc::Gpm;
using gpc::Mpc;
using protocol::CgaCompletePacket;
using protocol::CompletePacket;
using protocol::LaunchPacket;
using protocol::LocalMemoryPacket;
using protocol::SharedReleasePacket;

// The masks of a launch packet that start CTAs, in their order.
inline std::vector<std::uint64_t> masks_of(const LaunchPacket& packet) {
  std::vector<std::uint64_t> masks{packet.sm_mask};
  for (const std::uint64_t mask : packet.further_masks) {
    if (mask != 0) masks.push_back(mask);
  }
  return masks;
}

// Launch packets name the GPC of the bench by this number, and other GPCs by others.
constexpr std::uint32_t kVirtualGpc = 2;

// A launch packet of the GPC, and where in its grid its first CTA is to stand. Packets of other GPCs bring it there.
struct BenchLaunch : LaunchPacket {
  std::uint64_t position = 0;
};

// What packets of other GPCs a broadcast holds between those of one GPC.
class OtherGpcs {
 public:
  // The packets with which `launch` comes: those that bring its grid to its position, and it.
  std::vector<LaunchPacket> packets(const BenchLaunch& launch) {
    std::vector<LaunchPacket> result;
    LaunchPacket own = launch;
    if (!own.id) {
      Grid& grid = grids_[own.slot];
      if (!grid.open || grid.operation != own.operation) grid = {true, own.operation, 0};
      const bool in_cga = own.shape.levels > 0;
      const std::uint64_t unit = arch::raster_unit(own.shape);
      const auto count = [&](LaunchPacket& packet) {
        packet.begins = grid.position == 0;
        grid.position += packet.num_ctas;
        packet.last = in_cga && grid.position % unit == 0;
        result.push_back(packet);
      };
      while (grid.position < launch.position) {
        LaunchPacket other;
        other.slot = own.slot;
        other.operation = own.operation;
        other.shape = own.shape;
        other.listeners = own.listeners;
        other.virtual_gpc = protocol::VirtualGpcId(kVirtualGpc + 1);
        const std::uint64_t gap = launch.position - grid.position;
        other.num_ctas = static_cast<std::uint32_t>(in_cga ? std::min(gap, unit - grid.position % unit) : gap);
        if (split > 0) other.num_ctas = std::min(other.num_ctas, split);
        count(other);
      }
      count(own);
    } else {
      result.push_back(own);
    }
    return result;
  }
  void reset() { grids_.clear(); }

  std::uint32_t split = 0;  // most CTAs of a packet of another GPC; 0: any number

 private:
  struct Grid {
    bool open = false;
    std::uint32_t operation = 0;
    std::uint64_t position = 0;
  };
  std::map<std::uint32_t, Grid> grids_;  // by slot
};

// Sends launch packets as credits allow, and hears completions.
class FakeCwd : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  FakeCwd(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t sms, std::uint32_t credits)
      : sc_core::sc_module(name),
        launch_out("launch_out", domain, 10, credits),
        local_out("local_out", domain, 10, kUnlimitedCredits),
        abort_out("abort_out", domain, 10, kUnlimitedCredits),
        complete_in("complete_in", domain, 0),
        cga_in("cga_in", domain, 0),
        shared_in("shared_in", domain, 0),
        on_sm(sms, 0),
        domain_(domain) {
    launch_out.on_credit<FakeCwd, &FakeCwd::on_credit>(*this);
    complete_in.on_packet<FakeCwd, &FakeCwd::on_complete>(*this);
    cga_in.on_packet<FakeCwd, &FakeCwd::on_cga_complete>(*this);
    shared_in.on_packet<FakeCwd, &FakeCwd::on_shared>(*this);
    domain.add_resettable(*this);
  }
  PacketOut<LaunchPacket> launch_out;
  PacketOut<LocalMemoryPacket> local_out;
  PacketOut<AbortPacket> abort_out;
  PacketIn<CompletePacket> complete_in;
  PacketIn<CgaCompletePacket> cga_in;
  PacketIn<SharedReleasePacket> shared_in;
  std::vector<BenchLaunch> script;
  OtherGpcs others;
  std::function<void(std::vector<LaunchPacket>&)> tamper;  // with what is sent next
  std::vector<LocalMemoryPacket> local_script;             // sent at the start
  std::vector<std::uint32_t> on_sm;                        // CTAs that run, as far as the distributor knows
  std::vector<std::pair<Cycle, CompletePacket>> completions;
  std::vector<std::pair<Cycle, CgaCompletePacket>> cga_completions;
  std::vector<std::pair<Cycle, SharedReleasePacket>> releases;
  std::map<std::uint32_t, std::uint64_t> completed;  // by task

  void start(Cycle cycle) { domain_.schedule(cycle, *this, 0); }

 private:
  void reset() override {
    script.clear();
    sending_.clear();
    others.reset();
    next_ = 0;
    std::fill(on_sm.begin(), on_sm.end(), 0U);
  }
  void on_event(std::uint32_t, std::uint64_t) override {
    for (const LocalMemoryPacket& local : local_script) local_out.send(local);
    pump();
  }
  void on_credit(std::uint32_t) { pump(); }
  void on_complete(const CompletePacket& complete, std::uint32_t) {
    completions.emplace_back(domain_.now(), complete);
    for (std::size_t bit = 0; bit < on_sm.size(); ++bit) on_sm[bit] -= (complete.sm_mask >> bit & 1) != 0 ? 1 : 0;
    completed[complete.slot] += heddle::bits::count(complete.sm_mask);
    pump();
  }
  void on_cga_complete(const CgaCompletePacket& complete, std::uint32_t) {
    cga_completions.emplace_back(domain_.now(), complete);
  }
  void on_shared(const SharedReleasePacket& release, std::uint32_t) { releases.emplace_back(domain_.now(), release); }
  // CTAs that the packet starts on an SM.
  static std::uint32_t share(const LaunchPacket& packet, std::size_t bit) {
    std::uint32_t ctas = 0;
    for (const std::uint64_t mask : masks_of(packet)) ctas += (mask >> bit & 1) != 0 ? 1 : 0;
    return ctas;
  }
  bool fits(const LaunchPacket& packet) const {
    for (std::size_t bit = 0; bit < on_sm.size(); ++bit) {
      if (on_sm[bit] + share(packet, bit) > kSlots) return false;
    }
    return true;
  }
  void pump() {
    for (;;) {
      for (; !sending_.empty() && launch_out.can_send(); sending_.pop_front()) launch_out.send(sending_.front());
      if (!sending_.empty() || next_ == script.size() || !fits(script[next_])) return;
      for (std::size_t bit = 0; bit < on_sm.size(); ++bit) on_sm[bit] += share(script[next_], bit);
      std::vector<LaunchPacket> packets = others.packets(script[next_++]);
      if (tamper) tamper(packets);
      sending_.assign(packets.begin(), packets.end());
    }
  }
  Domain& domain_;
  std::deque<LaunchPacket> sending_;
  std::size_t next_ = 0;
};

// A grid of CGAs in a row, of that many CTAs each.
inline arch::RasterShape row_of(std::uint32_t ctas, arch::CgaLevel level = arch::CgaLevel::gpc) {
  arch::ClusterShape cluster;
  cluster.of(level) = {ctas, 1, 1};
  return raster_shape({ctas << 20, 1, 1}, cluster, 0);
}

constexpr std::uint32_t kGpcNumber = 5;

struct GpcBench {
  explicit GpcBench(const Shape& shape, const GpcParams& params, TimingMode mode = TimingMode::at, Cycle run_ahead = 0,
                    std::uint32_t credits = 2)
      : topology(shape),
        gpc(topology.gpc(0)),
        domain("domain", 1.0, mode, run_ahead, observation),
        cwd("cwd", domain, gpc.sms, credits),
        places(gpc::mpc_places(gpc, params.mpc, kSlots)),
        gpm("gpm", domain, "gpc0.gpm", params, gpc,
            gpc::GpcNumbers{protocol::GpcId(kGpcNumber), protocol::VirtualGpcId(kVirtualGpc)}, pool()) {
    script.behave = [this](std::uint64_t index) {
      Behaviour behaviour;
      behaviour.duration = duration(index);
      return behaviour;
    };
    cwd.launch_out.bind(gpm.launch_in);
    cwd.local_out.bind(gpm.local_in);
    cwd.abort_out.bind(gpm.abort_in);
    gpm.complete_out.bind(cwd.complete_in);
    gpm.cga_out.bind(cwd.cga_in);
    gpm.shared_out.bind(cwd.shared_in);
    for (std::uint32_t m = 0; m < places.size(); ++m) {
      const std::string name = fmt::format("mpc{}", m);
      mpcs.push_back(std::make_unique<Mpc>(name.c_str(), domain, "gpc0." + name, params, places[m]));
      gpm.tpc_launch_out.bind(mpcs.back()->launch_in);
      gpm.local_out.bind(mpcs.back()->local_in);
      gpm.abort_out.bind(mpcs.back()->abort_in);
      mpcs.back()->complete_out.bind(gpm.complete_in[m]);
      mpcs.back()->notice_out.bind(gpm.notice_in[m]);
      gpm.order_out.bind(mpcs.back()->order_in);
      for (std::uint32_t i = 0; i < places[m].sms; ++i) {
        const std::uint32_t bit = places[m].first_sm + i;
        sms.push_back(std::make_unique<FakeSm>(fmt::format("sm{}", bit).c_str(), domain, bit,
                                               static_cast<std::uint32_t>(places.size()), script));
        mpcs.back()->start_out.bind(sms.back()->start_in);
        mpcs.back()->abort_out.bind(sms.back()->abort_in);
        mpcs.back()->local_out.bind(sms.back()->local_in);
        sms.back()->exit_out.bind(mpcs.back()->exit_in[i]);
        sms.back()->notice_out.bind(mpcs.back()->notice_in[i]);
        mpcs.back()->order_out.bind(sms.back()->order_in);
      }
    }
    for (std::uint32_t m = 0; m < mpcs.size(); ++m) {
      for (auto& sm : sms) mpcs[m]->entry_out.bind(sm->entry_in[m]);
    }
  }
  static gpc::CgaMemoryPool pool() { return {1 << 20, 3, 4096}; }
  BenchLaunch launch(std::uint32_t slot, std::uint64_t mask, std::uint64_t position) const {
    BenchLaunch packet;
    packet.virtual_gpc = protocol::VirtualGpcId(kVirtualGpc);
    packet.position = position;
    packet.slot = protocol::TaskSlot(slot);
    packet.operation = slot + 100;
    packet.sm_mask = mask;
    packet.num_ctas = heddle::bits::count(mask);
    packet.shape.grid = {1U << 30, 1, 1};  // then a CTA's index is its place in the launch order
    packet.duration = {position, position};
    return packet;
  }
  // A launch packet of a GPC_CGA.
  BenchLaunch cga(std::uint32_t slot, const std::vector<std::uint64_t>& masks, std::uint64_t position,
                  std::uint32_t ctas, bool first, std::uint64_t sequence) const {
    BenchLaunch packet = launch(slot, masks.at(0), position);
    packet.num_ctas = 0;
    for (std::size_t m = 0; m < masks.size(); ++m) {
      if (m > 0) packet.further_masks.at(m - 1) = masks[m];
      packet.num_ctas += heddle::bits::count(masks[m]);
    }
    packet.shape = row_of(ctas);
    packet.cga_ctas = ctas;
    packet.cga_first = first;
    packet.sequence = sequence;
    return packet;
  }
  void expect_idle() const {
    REQUIRE(gpm.live_ctas() == 0);
    REQUIRE(gpm.live_cgas() == 0);
    for (std::size_t t = 0; t < mpcs.size(); ++t) {
      for (std::uint32_t i = 0; i < places[t].sms; ++i) REQUIRE(mpcs[t]->slots_used(i) == 0);
    }
    for (const auto& sm : sms) {
      for (std::uint32_t id = 0; id < gpc::kMaxCgas; ++id) REQUIRE_FALSE(sm->knows(id));
    }
    REQUIRE_THAT(script.problems, Catch::Equals(std::vector<std::string>{}));
  }

  double stat(const std::string& path) const { return observation.stats.value("gpu0.gpc0." + path); }

  SimFixture sim;
  GpuObservation observation{"gpu0"};
  std::function<Cycle(std::uint64_t)> duration = [](std::uint64_t) { return Cycle{50}; };
  SmScript script;
  std::vector<Start>& starts = script.starts;
  Topology topology;
  const Topology::Gpc& gpc;
  Domain domain;
  FakeCwd cwd;
  const std::vector<gpc::MpcPlace> places;
  Gpm gpm;
  std::vector<std::unique_ptr<Mpc>> mpcs;
  std::vector<std::unique_ptr<FakeSm>> sms;
};

// Nothing takes time but the ways, an MPC serves a TPC.
inline GpcParams plain() {
  GpcParams params;
  params.mpc = gpc::MpcPer::tpc;
  params.packets = params.mpc_launches = params.cta_starts = params.cta_entries = 0;
  params.divide_cycles = 0;
  params.gpm_to_mpc = 5;
  params.mpc_to_sm = 2;
  params.gpm_to_cwd = 40;
  params.raster_cycles = 0;
  params.cta_broadcast = 4;
  params.barrier_near = params.barrier_far = 50;
  params.barrier_arrivals = 0;
  return params;
}

// One GPC: CPCs of TPCs of 2, 1 and 3, 2 SMs: bits 01 2 345 67.
inline Shape uneven() { return Shape{{{{2, 1}, {3, 2}}}}; }

}  // namespace heddle::test
