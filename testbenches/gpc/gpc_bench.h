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

#include "gpc/gpm.h"
#include "gpc/mpc.h"
#include "support/sim_fixture.h"

namespace heddle::test {

using arch::Shape;
using arch::Topology;
using gpc::GpcParams;
using gpc::Gpm;
using gpc::Mpc;
using protocol::AbortPacket;
using protocol::CgaCompletePacket;
using protocol::CompletePacket;
using protocol::CtaExitPacket;
using protocol::CtaStartPacket;
using protocol::LaunchPacket;
using protocol::LocalMemoryPacket;

constexpr std::uint32_t kSlots = 4;  // CTA slots of an SM

struct Start {
  Cycle cycle;
  std::uint32_t sm;  // bit of the GPC's masks
  CtaStartPacket packet;
};

class FakeSm : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  FakeSm(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t bit, std::vector<Start>& starts,
         const std::function<Cycle(std::uint64_t)>& duration)
      : sc_core::sc_module(name),
        start_in("start_in", domain, 3),
        exit_out("exit_out", domain, 3, kUnlimitedCredits),
        abort_in("abort_in", domain, 3),
        domain_(domain),
        bit_(bit),
        starts_(starts),
        duration_(duration) {
    start_in.on_packet<FakeSm, &FakeSm::on_start>(*this);
    abort_in.on_packet<FakeSm, &FakeSm::on_abort>(*this);
    domain.add_resettable(*this);
  }
  PacketIn<CtaStartPacket> start_in;
  PacketOut<CtaExitPacket> exit_out;
  PacketIn<AbortPacket> abort_in;
  std::vector<std::pair<Cycle, std::uint32_t>> aborted;  // operations
  std::set<std::uint64_t> faulty;                        // CTAs that end with a fault
  std::vector<std::string> problems;

 private:
  void reset() override { live_.clear(); }
  void on_start(const CtaStartPacket& start, std::uint32_t) {
    starts_.push_back({domain_.now(), bit_, start});
    // The lowest slot that is free.
    std::uint32_t lowest = 0;
    while (live_.count(lowest) != 0) ++lowest;
    if (!live_.emplace(start.cta_slot, start.tag).second) problems.emplace_back("a CTA slot was given twice");
    if (start.cta_slot >= kSlots || start.cta_slot < lowest) problems.emplace_back("a CTA slot that does not exist");
    index_[start.cta_slot] = start.id.index;
    domain_.schedule_in(duration_(start.id.index), *this, 0, start.cta_slot);
  }
  void on_abort(const AbortPacket& abort, std::uint32_t) { aborted.emplace_back(domain_.now(), abort.operation); }
  void on_event(std::uint32_t, std::uint64_t cta_slot) override {
    const auto slot = static_cast<std::uint32_t>(cta_slot);
    exit_out.send({live_.at(slot), slot, faulty.count(index_.at(slot)) != 0});
    live_.erase(slot);
  }
  Domain& domain_;
  std::uint32_t bit_;
  std::vector<Start>& starts_;
  const std::function<Cycle(std::uint64_t)>& duration_;
  std::map<std::uint32_t, protocol::CtaTag> live_;  // by CTA slot
  std::map<std::uint32_t, std::uint64_t> index_;    // of the CTA, by CTA slot
};

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
        on_sm(sms, 0),
        domain_(domain) {
    launch_out.on_credit<FakeCwd, &FakeCwd::on_credit>(*this);
    complete_in.on_packet<FakeCwd, &FakeCwd::on_complete>(*this);
    cga_in.on_packet<FakeCwd, &FakeCwd::on_cga_complete>(*this);
    domain.add_resettable(*this);
  }
  PacketOut<LaunchPacket> launch_out;
  PacketOut<LocalMemoryPacket> local_out;
  PacketOut<AbortPacket> abort_out;
  PacketIn<CompletePacket> complete_in;
  PacketIn<CgaCompletePacket> cga_in;
  std::vector<LaunchPacket> script;
  std::vector<LocalMemoryPacket> local_script;  // sent at the start
  std::vector<std::uint32_t> on_sm;             // CTAs that run, as far as the distributor knows
  std::vector<std::pair<Cycle, CompletePacket>> completions;
  std::vector<std::pair<Cycle, CgaCompletePacket>> cga_completions;
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
    completed[complete.slot] += static_cast<std::uint64_t>(__builtin_popcountll(complete.sm_mask));
    pump();
  }
  void on_cga_complete(const CgaCompletePacket& complete, std::uint32_t) {
    cga_completions.emplace_back(domain_.now(), complete);
  }
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

struct GpcBench {
  explicit GpcBench(const Shape& shape, const GpcParams& params, TimingMode mode = TimingMode::at, Cycle run_ahead = 0)
      : topology(shape),
        gpc(topology.gpc(0)),
        domain("domain", 1.0, mode, run_ahead, observation),
        cwd("cwd", domain, gpc.sms),
        gpm("gpm", domain, "gpc0.gpm", params, gpc) {
    cwd.launch_out.bind(gpm.launch_in);
    cwd.local_out.bind(gpm.local_in);
    cwd.abort_out.bind(gpm.abort_in);
    gpm.complete_out.bind(cwd.complete_in);
    gpm.cga_out.bind(cwd.cga_in);
    for (std::uint32_t t = 0; t < gpc.tpcs.size(); ++t) {
      const std::string name = fmt::format("mpc{}", t);
      mpcs.push_back(std::make_unique<Mpc>(name.c_str(), domain, "gpc0." + name, params, gpc.tpcs[t].sms, kSlots));
      gpm.tpc_launch_out.bind(mpcs.back()->launch_in);
      gpm.local_out.bind(mpcs.back()->local_in);
      gpm.abort_out.bind(mpcs.back()->abort_in);
      mpcs.back()->complete_out.bind(gpm.complete_in[t]);
      for (std::uint32_t i = 0; i < gpc.tpcs[t].sms; ++i) {
        const std::uint32_t bit = gpc.tpcs[t].first_sm + i;
        sms.push_back(std::make_unique<FakeSm>(fmt::format("sm{}", bit).c_str(), domain, bit, starts, duration));
        mpcs.back()->start_out.bind(sms.back()->start_in);
        mpcs.back()->abort_out.bind(sms.back()->abort_in);
        sms.back()->exit_out.bind(mpcs.back()->exit_in[i]);
      }
    }
  }
  LaunchPacket launch(std::uint32_t slot, std::uint64_t mask, std::uint64_t raster) const {
    LaunchPacket packet;
    packet.slot = slot;
    packet.operation = slot + 100;
    packet.sm_mask = mask;
    packet.num_ctas = static_cast<std::uint32_t>(__builtin_popcountll(mask));
    packet.raster = raster;
    packet.shape.grid = {1U << 30, 1, 1};  // then a CTA's index is its place in the launch order
    packet.duration = {raster, raster};
    return packet;
  }
  void expect_idle() const {
    REQUIRE(gpm.live_ctas() == 0);
    REQUIRE(gpm.live_cgas() == 0);
    for (std::size_t t = 0; t < mpcs.size(); ++t) {
      for (std::uint32_t i = 0; i < gpc.tpcs[t].sms; ++i) REQUIRE(mpcs[t]->slots_used(i) == 0);
    }
    for (const auto& sm : sms) REQUIRE_THAT(sm->problems, Catch::Equals(std::vector<std::string>{}));
  }

  double stat(const std::string& path) const {
    return observation.stats.to_json().at("gpu0.gpc0." + path).at("value").get<double>();
  }

  SimFixture sim;
  Observation observation{"gpu0"};
  std::function<Cycle(std::uint64_t)> duration = [](std::uint64_t) { return Cycle{50}; };
  std::vector<Start> starts;
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
  return params;
}

// One GPC: CPCs of TPCs of 2, 1 and 3, 2 SMs: bits 01 2 345 67.
inline Shape uneven() { return Shape{{{{2, 1}, {3, 2}}}}; }

}  // namespace heddle::test
