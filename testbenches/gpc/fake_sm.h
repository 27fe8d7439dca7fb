// A stand-in for an SM towards its MPC: CTAs that run for a while, arrive at barriers, take their time to drain.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/packet_socket.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::test {

using protocol::AbortPacket;
using protocol::ClusterNoticePacket;
using protocol::ClusterOrderPacket;
using protocol::CtaEntryPacket;
using protocol::CtaExitPacket;
using protocol::CtaStartPacket;

constexpr std::uint32_t kSlots = 4;  // CTA slots of an SM
constexpr Cycle kSmToMpc = 3;

struct Start {
  Cycle cycle;
  std::uint32_t sm;  // bit of the GPC's masks
  CtaStartPacket packet;
};

// What a CTA does: it arrives at barriers, each after that many cycles from its start or from the end of the phase
// before, and ends `duration` cycles after the last of them.
struct Behaviour {
  Cycle duration = 50;
  std::vector<Cycle> arrivals;
  bool waits_last = true;      // for the end of the last phase; otherwise it goes on when it has arrived
  Cycle posted = 0;            // accesses of it are in flight for that long after its end
  std::uint32_t released = 0;  // bytes of shared memory that it gives back when it starts
};

// What the SMs of a GPC share: what their CTAs do, and what was seen.
struct SmScript {
  std::function<Behaviour(std::uint64_t index)> behave;
  std::function<Cycle(std::uint32_t sm)> drain = [](std::uint32_t) { return Cycle{0}; };  // until it answers a flush
  struct Seen {
    Cycle cycle;
    std::uint32_t sm;
    CtaEntryPacket packet;
  };
  struct Order {
    Cycle cycle;
    std::uint32_t sm;
    ClusterOrderPacket packet;
  };
  struct Gone {
    Cycle cycle;  // it leaves its SM
    std::uint64_t index;
  };
  std::vector<Start> starts;
  std::vector<Seen> entries;
  std::vector<Order> orders;
  std::vector<Gone> gone;
  std::vector<std::string> problems;
};

class FakeSm : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  FakeSm(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t bit, std::uint32_t mpcs, SmScript& script)
      : sc_core::sc_module(name),
        start_in("start_in", domain, kSmToMpc),
        exit_out("exit_out", domain, kSmToMpc, kUnlimitedCredits),
        abort_in("abort_in", domain, kSmToMpc),
        local_in("local_in", domain, kSmToMpc),
        entry_in("entry_in"),
        notice_out("notice_out", domain, kSmToMpc, kUnlimitedCredits),
        order_in("order_in", domain, kSmToMpc),
        domain_(domain),
        bit_(bit),
        script_(script) {
    start_in.on_packet<FakeSm, &FakeSm::on_start>(*this);
    abort_in.on_packet<FakeSm, &FakeSm::on_abort>(*this);
    local_in.on_packet<FakeSm, &FakeSm::on_local>(*this);
    entry_in.init(
        mpcs, [&](const char* socket, std::size_t) { return new PacketIn<CtaEntryPacket>(socket, domain, kSmToMpc); });
    for (auto& in : entry_in) in.on_packet<FakeSm, &FakeSm::on_entry>(*this);
    order_in.on_packet<FakeSm, &FakeSm::on_order>(*this);
    domain.add_resettable(*this);
  }
  PacketIn<CtaStartPacket> start_in;
  PacketOut<CtaExitPacket> exit_out;
  PacketIn<AbortPacket> abort_in;
  PacketIn<protocol::LocalMemoryPacket> local_in;
  sc_core::sc_vector<PacketIn<CtaEntryPacket>> entry_in;  // one per MPC
  PacketOut<ClusterNoticePacket> notice_out;
  PacketIn<ClusterOrderPacket> order_in;
  std::vector<std::pair<Cycle, std::uint32_t>> aborted;  // operations
  std::map<std::uint32_t, std::uint32_t> local_blocks;   // by subcontext, as it was told last
  std::set<std::uint64_t> faulty;                        // CTAs that end with a fault

  bool knows(std::uint32_t cga_id) const { return known_.count(cga_id) != 0; }
  // An error of that CTA's CGA after the CTA has gone.
  void send_trap(const protocol::CtaTag& tag) {
    notice_out.send({ClusterNoticePacket::Kind::trap, tag, 0, {}, {}, 0, arch::CgaLevel::gpc, false});
  }

 private:
  enum Kind : std::uint32_t { kArrives, kEnds, kDrained, kFlushed };
  struct Cta {
    CtaStartPacket start;
    Behaviour does;
    std::size_t phase = 0;
    bool arrived = false;
    std::uint64_t number = 0;  // tells the CTAs of a slot apart
  };
  struct Cga {
    std::uint64_t sequence = 0;
    std::uint32_t ctas = 0;
    std::set<std::uint32_t> ranks;  // that were entered
    bool here = false;
    Cycle busy_until = 0;  // accesses of its CTAs here are in flight
  };

  void on_local(const protocol::LocalMemoryPacket& local, std::uint32_t) {
    local_blocks[local.subcontext] = local.block;
  }
  void reset() override {
    local_blocks.clear();
    live_.clear();
    known_.clear();
  }
  void problem(const std::string& what) {
    script_.problems.push_back(fmt::format("SM {} cycle {}: {}", bit_, domain_.now(), what));
  }
  ClusterNoticePacket notice(ClusterNoticePacket::Kind kind, const Cta& cta) const {
    const bool faulted = faulty.count(cta.start.id.index) != 0;
    return {kind, cta.start.tag,     cta.start.id.rank,   cta.start.cta_slot,
            {},   cta.does.released, arch::CgaLevel::gpc, faulted};
  }
  // It asks whether it may leave.
  void ask(std::uint32_t slot, bool drained) {
    const Cta& cta = live_.at(slot);
    const CtaStartPacket& start = cta.start;
    exit_out.send({start.tag, protocol::CtaSlot(slot), drained, faulty.count(start.id.index) != 0, start.id.rank,
                   cta.does.released});
  }

  void on_start(const CtaStartPacket& start, std::uint32_t) {
    script_.starts.push_back({domain_.now(), bit_, start});
    // The lowest slot that is free.
    std::uint32_t lowest = 0;
    while (live_.count(lowest) != 0) ++lowest;
    if (start.cta_slot >= kSlots || start.cta_slot < lowest) problem("a CTA slot that does not exist");
    Cta cta;
    cta.start = start;
    cta.does = script_.behave(start.id.index);
    cta.number = started_++;
    if (!live_.emplace(start.cta_slot, cta).second) problem("a CTA slot was given twice");
    if (cta.does.released > 0) notice_out.send(notice(ClusterNoticePacket::Kind::shared_released, cta));
    go_on(start.cta_slot);
  }
  void go_on(std::uint32_t slot) {
    Cta& cta = live_.at(slot);
    const bool more = cta.phase < cta.does.arrivals.size();
    domain_.schedule_in(more ? cta.does.arrivals[cta.phase] : cta.does.duration, *this, more ? kArrives : kEnds,
                        cta.number * kSlots + slot);
  }
  void on_abort(const AbortPacket& abort, std::uint32_t) { aborted.emplace_back(domain_.now(), abort.operation); }

  void on_entry(const CtaEntryPacket& entry, std::uint32_t) {
    script_.entries.push_back({domain_.now(), bit_, entry});
    Cga& cga = known_[entry.cga_id];
    if (cga.ranks.empty()) {
      cga.sequence = entry.sequence;
      cga.ctas = entry.ctas;
    }
    if (cga.sequence != entry.sequence) problem("a CTA of a CGA whose id is another's");
    if (!cga.ranks.insert(entry.rank).second || entry.rank >= entry.ctas) problem("a rank was entered twice");
    cga.here = cga.here || entry.sm == bit_;
  }

  void on_order(const ClusterOrderPacket& order, std::uint32_t) {
    script_.orders.push_back({domain_.now(), bit_, order});
    if (order.kind == ClusterOrderPacket::Kind::permit) {
      leave(order.cta_slot);
      return;
    }
    const auto found = known_.find(order.cga_id);
    if (found == known_.end() || found->second.sequence != order.sequence) {
      problem("an order for a CGA that is not known");
      return;
    }
    const Cga& cga = found->second;
    if (cga.ranks.size() != cga.ctas) problem("an order before all CTAs were entered");
    if (order.kind == ClusterOrderPacket::Kind::barrier) {
      if (!cga.here) problem("a barrier of others");
      for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
        const auto cta = live_.find(slot);
        if (cta == live_.end() || cta->second.start.tag.cga_id != order.cga_id || !cta->second.arrived) continue;
        cta->second.arrived = false;
        go_on(slot);
      }
      return;
    }
    for (const auto& [slot, cta] : live_) {
      if (cta.start.tag.cga_id == order.cga_id) problem("a flush while a CTA runs");
    }
    const Cycle quiet = std::max(domain_.now(), cga.busy_until) + script_.drain(bit_);
    if (cga.here) domain_.schedule(quiet, *this, kFlushed, order.cga_id);
    known_.erase(found);
  }

  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    if (kind == kFlushed) {
      protocol::CtaTag tag;
      tag.cga_id = protocol::CgaId(argument);
      notice_out.send({ClusterNoticePacket::Kind::flushed, tag, 0, {}, {}, 0, arch::CgaLevel::gpc, false});
      return;
    }
    const auto slot = static_cast<std::uint32_t>(argument % kSlots);
    const auto found = live_.find(slot);
    if (found == live_.end() || found->second.number != argument / kSlots) {
      if (kind != kDrained) problem("a CTA left before its end");
      return;  // it was let go before its accesses were answered
    }
    Cta& cta = found->second;
    if (kind == kArrives) {
      ++cta.phase;
      cta.arrived = true;
      notice_out.send(notice(ClusterNoticePacket::Kind::arrived, cta));
      if (cta.phase < cta.does.arrivals.size() || cta.does.waits_last) return;
      cta.arrived = false;
      go_on(slot);
    } else if (kind == kDrained) {
      notice_out.send(notice(ClusterNoticePacket::Kind::drained, cta));
    } else if (cta.does.posted == 0) {
      ask(slot, true);
    } else {
      const auto cga = cta.start.tag.in_cga() ? known_.find(*cta.start.tag.cga_id) : known_.end();
      if (cga != known_.end()) {
        cga->second.busy_until = std::max(cga->second.busy_until, domain_.now() + cta.does.posted);
      }
      domain_.schedule_in(cta.does.posted, *this, kDrained, argument);
      ask(slot, false);
    }
  }

  void leave(std::uint32_t slot) {
    script_.gone.push_back({domain_.now(), live_.at(slot).start.id.index});
    live_.erase(slot);
  }

  Domain& domain_;
  std::uint32_t bit_;
  SmScript& script_;
  std::uint64_t started_ = 0;
  std::map<std::uint32_t, Cta> live_;   // by CTA slot
  std::map<std::uint32_t, Cga> known_;  // by CGA id
};

}  // namespace heddle::test
