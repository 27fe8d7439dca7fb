// GPM and MPCs of one GPC over their sockets, between stand-ins for the distributor and the SMs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
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

// Sends launch packets as credits allow, and hears completions.
class FakeCwd : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  FakeCwd(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t sms)
      : sc_core::sc_module(name),
        launch_out("launch_out", domain, 10, 2),
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
  std::vector<LaunchPacket> script;
  std::vector<LocalMemoryPacket> local_script;  // sent at the start
  std::vector<std::uint32_t> on_sm;             // CTAs that run, as far as the distributor knows
  std::vector<std::pair<Cycle, CompletePacket>> completions;
  std::vector<std::pair<Cycle, CgaCompletePacket>> cga_completions;
  std::vector<std::pair<Cycle, SharedReleasePacket>> releases;
  std::map<std::uint32_t, std::uint64_t> completed;  // by task

  void start(Cycle cycle) { domain_.schedule(cycle, *this, 0); }

 private:
  void reset() override {
    script.clear();
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
    for (; next_ < script.size() && fits(script[next_]) && launch_out.can_send(); ++next_) {
      for (std::size_t bit = 0; bit < on_sm.size(); ++bit) on_sm[bit] += share(script[next_], bit);
      launch_out.send(script[next_]);
    }
  }
  Domain& domain_;
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
  explicit GpcBench(const Shape& shape, const GpcParams& params, TimingMode mode = TimingMode::at, Cycle run_ahead = 0)
      : topology(shape),
        gpc(topology.gpc(0)),
        domain("domain", 1.0, mode, run_ahead, observation),
        cwd("cwd", domain, gpc.sms),
        gpm("gpm", domain, "gpc0.gpm", params, gpc, protocol::GpcId(kGpcNumber), pool()) {
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
    for (std::uint32_t t = 0; t < gpc.tpcs.size(); ++t) {
      const std::string name = fmt::format("mpc{}", t);
      mpcs.push_back(
          std::make_unique<Mpc>(name.c_str(), domain, "gpc0." + name, params,
                                gpc::MpcPlace{gpc.tpcs[t].sms, kSlots, protocol::TpcInGpc(t), gpc.tpcs[t].first_sm}));
      gpm.tpc_launch_out.bind(mpcs.back()->launch_in);
      gpm.local_out.bind(mpcs.back()->local_in);
      gpm.abort_out.bind(mpcs.back()->abort_in);
      mpcs.back()->complete_out.bind(gpm.complete_in[t]);
      mpcs.back()->notice_out.bind(gpm.notice_in[t]);
      gpm.order_out.bind(mpcs.back()->order_in);
      for (std::uint32_t i = 0; i < gpc.tpcs[t].sms; ++i) {
        const std::uint32_t bit = gpc.tpcs[t].first_sm + i;
        sms.push_back(std::make_unique<FakeSm>(fmt::format("sm{}", bit).c_str(), domain, bit,
                                               static_cast<std::uint32_t>(gpc.tpcs.size()), script));
        mpcs.back()->start_out.bind(sms.back()->start_in);
        mpcs.back()->abort_out.bind(sms.back()->abort_in);
        sms.back()->exit_out.bind(mpcs.back()->exit_in[i]);
        sms.back()->notice_out.bind(mpcs.back()->notice_in[i]);
        mpcs.back()->order_out.bind(sms.back()->order_in);
      }
    }
    for (std::uint32_t t = 0; t < mpcs.size(); ++t) {
      for (auto& sm : sms) mpcs[t]->entry_out.bind(sm->entry_in[t]);
    }
  }
  static gpc::CgaMemoryPool pool() { return {1 << 20, 3, 4096}; }
  LaunchPacket launch(std::uint32_t slot, std::uint64_t mask, std::uint64_t raster) const {
    LaunchPacket packet;
    packet.slot = protocol::TaskSlot(slot);
    packet.operation = slot + 100;
    packet.sm_mask = mask;
    packet.num_ctas = heddle::bits::count(mask);
    packet.raster = raster;
    packet.shape.grid = {1U << 30, 1, 1};  // then a CTA's index is its place in the launch order
    packet.duration = {raster, raster};
    return packet;
  }
  // A launch packet of a GPC_CGA.
  LaunchPacket cga(std::uint32_t slot, const std::vector<std::uint64_t>& masks, std::uint64_t raster,
                   std::uint32_t ctas, bool first, std::uint64_t sequence) const {
    LaunchPacket packet = launch(slot, masks.at(0), raster);
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
      for (std::uint32_t i = 0; i < gpc.tpcs[t].sms; ++i) REQUIRE(mpcs[t]->slots_used(i) == 0);
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
  Gpm gpm;
  std::vector<std::unique_ptr<Mpc>> mpcs;
  std::vector<std::unique_ptr<FakeSm>> sms;
};

inline GpcParams plain() {
  GpcParams params;
  params.gpm_to_mpc = 5;
  params.mpc_to_sm = 2;
  params.gpm_to_cwd = 40;
  params.raster_cycles = 0;
  params.cta_broadcast = 4;
  params.cluster_barrier = 100;
  return params;
}

// One GPC: CPCs of TPCs of 2, 1 and 3, 2 SMs: bits 01 2 345 67.
inline Shape uneven() { return Shape{{{{2, 1}, {3, 2}}}}; }

}  // namespace heddle::test
