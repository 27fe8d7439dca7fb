// Stand-ins for what lies around the SMs of a GPC: the SM-to-SM network, and GPM and MPCs.
#pragma once

#include <array>
#include <bitset>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/packet_socket.h"
#include "protocol/gpm_mpc_sm.h"
#include "protocol/sm_sm.h"
#include "sm/loose_ends.h"

namespace heddle::test {

// Delivers packets after a latency; with `extra` one may overtake another.
class FakeNetwork : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  FakeNetwork(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t sms, std::uint32_t credits)
      : sc_core::sc_module(name),
        request_in("request_in"),
        reply_in("reply_in"),
        request_out("request_out", domain, 0, credits),
        // Where accesses are calls, an SM hears replies ahead of their arrival, and there is always room for them.
        reply_out("reply_out", domain, 0, has_calls(domain.mode()) ? kUnlimitedCredits : credits),
        domain_(domain),
        waiting_{std::vector<std::deque<protocol::DsmemPacket>>(sms),
                 std::vector<std::deque<protocol::DsmemPacket>>(sms)} {
    const auto make = [&domain](const char* socket, std::size_t) {
      return new PacketIn<protocol::DsmemPacket>(socket, domain, 0);
    };
    request_in.init(sms, make);
    reply_in.init(sms, make);
    for (std::uint32_t i = 0; i < sms; ++i) {
      request_in[i].on_packet<FakeNetwork, &FakeNetwork::on_request>(*this);
      reply_in[i].on_packet<FakeNetwork, &FakeNetwork::on_reply>(*this);
    }
    request_out.on_credit<FakeNetwork, &FakeNetwork::on_request_credit>(*this);
    reply_out.on_credit<FakeNetwork, &FakeNetwork::on_reply_credit>(*this);
    domain.add_resettable(*this);
  }

  sc_core::sc_vector<PacketIn<protocol::DsmemPacket>> request_in;
  sc_core::sc_vector<PacketIn<protocol::DsmemPacket>> reply_in;
  PacketOut<protocol::DsmemPacket> request_out;
  PacketOut<protocol::DsmemPacket> reply_out;

  struct Seen {
    bool reply = false;
    Cycle cycle = 0;  // of its arrival at the network
    protocol::DsmemPacket packet;
  };
  Cycle latency = 80;
  std::function<Cycle(const protocol::DsmemPacket&, bool reply)> extra;  // cycles more
  std::vector<Seen> seen;
  std::uint32_t packets = 0;  // in it

 private:
  void reset() override {
    for (auto& plane : waiting_) {
      for (auto& queue : plane) queue.clear();
    }
    moving_.clear();
    packets = 0;
  }
  void on_request(const protocol::DsmemPacket& packet, std::uint32_t) { take(packet, false); }
  void on_reply(const protocol::DsmemPacket& packet, std::uint32_t) { take(packet, true); }
  void take(const protocol::DsmemPacket& packet, bool reply) {
    seen.push_back({reply, domain_.now(), packet});
    ++packets;
    moving_.push_back({reply, packet});
    const Cycle cycles = latency + (extra ? extra(packet, reply) : 0);
    domain_.schedule(domain_.now() + domain_.cost(static_cast<std::uint32_t>(cycles)), *this, 0, moving_.size() - 1);
  }
  void on_event(std::uint32_t, std::uint64_t argument) override {
    const auto& [reply, packet] = moving_[argument];
    waiting_[reply ? 1 : 0][packet.to_sm].push_back(packet);
    deliver(reply, packet.to_sm);
  }
  void on_request_credit(std::uint32_t link) { deliver(false, link); }
  void on_reply_credit(std::uint32_t link) { deliver(true, link); }
  void deliver(bool reply, std::uint32_t link) {
    auto& queue = waiting_[reply ? 1 : 0][link];
    auto& out = reply ? reply_out : request_out;
    while (!queue.empty() && out.can_send(link)) {
      out.send(queue.front(), link);
      queue.pop_front();
      --packets;
    }
  }

  Domain& domain_;
  std::array<std::vector<std::deque<protocol::DsmemPacket>>, 2> waiting_;
  std::deque<std::pair<bool, protocol::DsmemPacket>> moving_;
};

// Starts CTAs, enters them, completes barriers, permits exits and flushes: what GPM and MPCs do, in the plainest way.
class FakeGpc : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  static constexpr std::uint32_t kDistance = 4;
  static constexpr std::uint32_t kBroadcast = 12;

  FakeGpc(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t sms)
      : sc_core::sc_module(name),
        start_out("start_out", domain, kDistance, kUnlimitedCredits),
        abort_out("abort_out", domain, kDistance, kUnlimitedCredits),
        entry_out("entry_out", domain, kBroadcast, kUnlimitedCredits),
        order_out("order_out", domain, kDistance, kUnlimitedCredits),
        exit_in("exit_in"),
        notice_in("notice_in"),
        domain_(domain),
        sms_(sms) {
    exit_in.init(sms, [&](const char* socket, std::size_t) {
      return new PacketIn<protocol::CtaExitPacket>(socket, domain, kDistance);
    });
    notice_in.init(sms, [&](const char* socket, std::size_t) {
      return new PacketIn<protocol::ClusterNoticePacket>(socket, domain, kDistance);
    });
    for (std::uint32_t i = 0; i < sms; ++i) {
      exit_in[i].on_packet<FakeGpc, &FakeGpc::on_exit>(*this, i);
      notice_in[i].on_packet<FakeGpc, &FakeGpc::on_notice>(*this, i);
    }
    domain.add_resettable(*this);
  }

  PacketOut<protocol::CtaStartPacket> start_out;
  PacketOut<protocol::AbortPacket> abort_out;
  PacketOut<protocol::CtaEntryPacket> entry_out;
  PacketOut<protocol::ClusterOrderPacket> order_out;
  sc_core::sc_vector<PacketIn<protocol::CtaExitPacket>> exit_in;
  sc_core::sc_vector<PacketIn<protocol::ClusterNoticePacket>> notice_in;

  struct Exit {
    Cycle cycle = 0;
    std::uint32_t sm = 0;
    protocol::CtaExitPacket packet;
  };
  struct Notice {
    Cycle cycle = 0;
    std::uint32_t sm = 0;
    protocol::ClusterNoticePacket packet;
  };
  using Kind = protocol::ClusterNoticePacket::Kind;

  bool at_once = false;        // permits exits without waiting for answers
  Cycle barrier_cycles = 300;  // from the last arrival to the order
  Cycle flush_cycles = 5;      // from the last exit to the order
  std::vector<Exit> exits;     // CTAs that were permitted to leave
  std::vector<Exit> asks;      // CTAs that asked whether they may
  std::vector<Notice> notices;
  std::vector<Cycle> barriers;                           // completed phases, of all CGAs
  std::vector<std::pair<Cycle, std::uint32_t>> flushed;  // CGAs whose id is free

  // One CTA on that SM, at that cycle.
  void start(Cycle cycle, std::uint32_t sm, const protocol::CtaStartPacket& packet) {
    script_.push_back({sm, packet});
    domain_.schedule(cycle, *this, kStart, script_.size() - 1);
  }
  void abort(Cycle cycle, std::uint32_t operation) { domain_.schedule(cycle, *this, kAbort, operation); }
  std::size_t count(Kind kind) const {
    std::size_t found = 0;
    for (const Notice& notice : notices) found += notice.packet.kind == kind ? 1 : 0;
    return found;
  }
  const Notice& notice(Kind kind) const {
    for (const Notice& notice : notices) {
      if (notice.packet.kind == kind) return notice;
    }
    FAIL("no such notice");
    return notices.front();
  }
  const Exit& exit_of(std::uint32_t rank, std::uint32_t cga_id) const {
    for (const Exit& exit : exits) {
      if (exit.packet.rank == rank && exit.packet.tag.cga_id == cga_id) return exit;
    }
    FAIL("the CTA has not exited");
    return exits.front();
  }

 private:
  enum Event : std::uint32_t { kStart, kAbort, kBarrier, kFlush };
  struct Cga {
    protocol::CtaTag tag;
    std::uint32_t ctas = 0;
    std::uint32_t launched = 0, live = 0, arrived = 0;  // masks by rank
    std::uint32_t hosts = 0;                            // mask by SM
    std::uint32_t answers = 0;
    std::uint64_t phase = 0;
  };

  void reset() override {
    script_.clear();
    cgas_.fill({});
  }
  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    if (kind == kStart) return start_now(script_[argument].first, script_[argument].second);
    const auto id = static_cast<std::uint32_t>(argument & 0xFFFF);
    if (kind == kAbort) {
      for (std::uint32_t sm = 0; sm < sms_; ++sm) abort_out.send({static_cast<std::uint32_t>(argument)}, sm);
      return;
    }
    Cga& cga = cgas_[id];
    protocol::ClusterOrderPacket order;
    order.cga_id = protocol::CgaId(id);
    order.sequence = cga.tag.sequence;
    order.kind =
        kind == kFlush ? protocol::ClusterOrderPacket::Kind::flush : protocol::ClusterOrderPacket::Kind::barrier;
    if (kind == kBarrier) {
      if (cga.phase != argument >> 16) return;
      barriers.push_back(domain_.now());
      ++cga.phase;
      cga.arrived = 0;
    }
    for (std::uint32_t sm = 0; sm < sms_; ++sm) {
      if (kind == kFlush || (cga.hosts >> sm & 1) != 0) order_out.send(order, sm);
    }
  }
  void start_now(std::uint32_t sm, const protocol::CtaStartPacket& packet) {
    start_out.send(packet, sm);
    if (!packet.tag.in_cga()) return;
    Cga& cga = cgas_[*packet.tag.cga_id];
    if (cga.launched == 0) cga = {};
    cga.tag = packet.tag;
    cga.ctas = packet.id.cga_size;
    cga.launched |= 1U << packet.id.rank;
    cga.live |= 1U << packet.id.rank;
    cga.hosts |= 1U << sm;
    const protocol::CtaEntryPacket entry{
        *packet.tag.cga_id,    packet.tag.sequence,  packet.id.rank, packet.id.cga_size, {},
        protocol::SmInTpc(sm), protocol::SmInGpc(sm)};
    for (std::uint32_t i = 0; i < sms_; ++i) entry_out.send(entry, i);
  }
  void on_exit(const protocol::CtaExitPacket& exit, std::uint32_t sm) {
    asks.push_back({domain_.now(), sm, exit});
    if (exit.drained || at_once) permit(exit, sm);
  }
  void permit(const protocol::CtaExitPacket& exit, std::uint32_t sm) {
    exits.push_back({domain_.now(), sm, exit});
    order_out.send(permit_for(exit), sm);
    if (!exit.tag.in_cga()) return;
    Cga& cga = cgas_[*exit.tag.cga_id];
    const std::uint32_t bit = 1U << exit.rank;
    CHECK((cga.live & bit) != 0);
    cga.live &= ~bit;
    cga.arrived &= ~bit;
    check_barrier(*exit.tag.cga_id);
    if (cga.live == 0 && all_launched(cga)) domain_.schedule_in(flush_cycles, *this, kFlush, *exit.tag.cga_id);
  }
  void on_notice(const protocol::ClusterNoticePacket& notice, std::uint32_t sm) {
    notices.push_back({domain_.now(), sm, notice});
    Cga& cga = cgas_[*notice.tag.cga_id];
    switch (notice.kind) {
      case Kind::arrived:
        if (notice.level != arch::CgaLevel::gpc) return;  // a test answers it
        CHECK((cga.arrived & 1U << notice.rank) == 0);
        cga.arrived |= 1U << notice.rank;
        return check_barrier(*notice.tag.cga_id);
      case Kind::drained:
        if (!at_once) {
          permit({notice.tag, notice.cta_slot, true, notice.faulted, notice.rank, 0}, sm);
        }
        return;
      case Kind::flushed:
        if (++cga.answers < std::bitset<32>(cga.hosts).count()) return;
        cga.launched = 0;
        flushed.emplace_back(domain_.now(), *notice.tag.cga_id);
        return;
      default:
        return;
    }
  }
  static bool all_launched(const Cga& cga) {
    return cga.launched == static_cast<std::uint32_t>((1ULL << cga.ctas) - 1);
  }
  void check_barrier(std::uint32_t id) {
    const Cga& cga = cgas_[id];
    if (!all_launched(cga) || cga.arrived == 0 || cga.arrived != cga.live) return;
    domain_.schedule_in(barrier_cycles, *this, kBarrier, id | cga.phase << 16);
  }

  Domain& domain_;
  std::uint32_t sms_;
  std::vector<std::pair<std::uint32_t, protocol::CtaStartPacket>> script_;
  std::array<Cga, 256> cgas_;
};

}  // namespace heddle::test
