// An SM-to-SM network between test SMs that send as credits allow, and answer when they like.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "common/packet_socket.h"
#include "gpc/sm_network.h"
#include "support/sim_fixture.h"

namespace heddle::test {

using gpc::SmNetwork;
using gpc::SmNetworkParams;
using protocol::DsmemPacket;

constexpr std::size_t kRequests = 0;  // the two planes
constexpr std::size_t kReplies = 1;

class NetworkSm : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  struct Got {
    Cycle cycle = 0;
    DsmemPacket packet;
  };

  NetworkSm(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t credits)
      : sc_core::sc_module(name),
        request_out("request_out", domain, 0, credits),
        reply_out("reply_out", domain, 0, credits),
        request_in("request_in", domain, 0, CreditReturn::by_owner),
        reply_in("reply_in", domain, 0, CreditReturn::by_owner),
        domain_(domain) {
    request_in.on_packet<NetworkSm, &NetworkSm::receive>(*this, kRequests);
    reply_in.on_packet<NetworkSm, &NetworkSm::receive>(*this, kReplies);
    request_out.on_credit<NetworkSm, &NetworkSm::request_credit>(*this);
    reply_out.on_credit<NetworkSm, &NetworkSm::reply_credit>(*this);
    domain.add_resettable(*this);
  }

  PacketOut<DsmemPacket> request_out;
  PacketOut<DsmemPacket> reply_out;
  PacketIn<DsmemPacket> request_in;
  PacketIn<DsmemPacket> reply_in;

  void send(Cycle cycle, std::size_t plane, const DsmemPacket& packet) {
    script_.emplace_back(plane, packet);
    domain_.schedule(cycle, *this, kSend, script_.size() - 1);
  }
  // Gives back that many credits that it has withheld.
  void give_back(std::size_t plane, std::uint32_t credits) {
    for (; credits > 0 && held[plane] > 0; --credits) {
      --held[plane];
      (plane == kRequests ? request_in : reply_in).return_credit();
    }
  }

  std::array<std::vector<Got>, 2> got;            // by plane
  std::array<std::uint32_t, 2> held{};            // credits
  std::array<bool, 2> withholds{};                // it keeps them until give_back()
  std::function<Cycle()> busy;                    // cycles until a packet's credit goes back; none: 0
  std::array<std::deque<DsmemPacket>, 2> queued;  // without a credit

 private:
  static constexpr std::uint32_t kSend = 0;
  static constexpr std::uint32_t kDone = 1;

  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    if (kind == kDone) return give_back(argument, 1);
    queued[script_[argument].first].push_back(script_[argument].second);
    pump(script_[argument].first);
  }
  void request_credit(std::uint32_t) { pump(kRequests); }
  void reply_credit(std::uint32_t) { pump(kReplies); }
  void pump(std::size_t plane) {
    PacketOut<DsmemPacket>& out = plane == kRequests ? request_out : reply_out;
    while (!queued[plane].empty() && out.can_send()) {
      out.send(queued[plane].front());
      queued[plane].pop_front();
    }
  }
  void receive(const DsmemPacket& packet, std::uint32_t plane) {
    got[plane].push_back({domain_.now(), packet});
    ++held[plane];
    if (withholds[plane]) return;
    const Cycle cycles = busy ? busy() : 0;
    if (cycles == 0) return give_back(plane, 1);
    domain_.schedule_in(cycles, *this, kDone, plane);
  }
  void reset() override {
    held = {};
    queued = {};
    script_.clear();
  }

  Domain& domain_;
  std::deque<std::pair<std::size_t, DsmemPacket>> script_;
};

// A tensor memory access unit's side of the network.
class NetworkUnit : public sc_core::sc_module {
 public:
  struct Got {
    Cycle cycle = 0;
    protocol::BulkPeerPacket packet;
  };
  NetworkUnit(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name), out("out", domain, 0, kUnlimitedCredits), in("in", domain, 0), domain_(domain) {
    in.on_packet<NetworkUnit, &NetworkUnit::take>(*this);
  }

  PacketOut<protocol::BulkPeerPacket> out;
  PacketIn<protocol::BulkPeerPacket> in;
  std::vector<Got> got;

 private:
  void take(const protocol::BulkPeerPacket& packet, std::uint32_t) { got.push_back({domain_.now(), packet}); }

  Domain& domain_;
};

struct NetworkBench {
  explicit NetworkBench(const arch::Shape& shape, const SmNetworkParams& params = {}, TimingMode mode = TimingMode::at,
                        std::uint32_t credits = 8, std::uint32_t sms_per_unit = 0)
      : topology(shape),
        gpc(topology.gpc(0)),
        domain("domain", 1.0, mode, 100, observation),
        network("network", domain, "gpc0.network", params, gpc, 0, sms_per_unit) {
    observation.clusters.configure({gpc.sm_ids});
    for (std::uint32_t sm = 0; sm < gpc.sms; ++sm) {
      sms.push_back(std::make_unique<NetworkSm>(fmt::format("sm{}", sm).c_str(), domain, credits));
      sms[sm]->request_out.bind(network.request_in[sm]);
      sms[sm]->reply_out.bind(network.reply_in[sm]);
      network.request_out.bind(sms[sm]->request_in);
      network.reply_out.bind(sms[sm]->reply_in);
    }
    for (std::uint32_t sm = 0; sms_per_unit > 0 && sm < gpc.sms; sm += sms_per_unit) {
      units.push_back(std::make_unique<NetworkUnit>(fmt::format("unit{}", sm).c_str(), domain));
      units.back()->out.bind(network.peer_in[units.size() - 1]);
      network.peer_out.bind(units.back()->in);
    }
  }

  // `bytes` of data beside the header: those of a write for requests, of a read for replies. `number` tells packets
  // apart.
  DsmemPacket packet(std::size_t plane, std::uint32_t from, std::uint32_t to, std::uint32_t bytes,
                     std::uint64_t number = 0) {
    DsmemPacket result;
    result.request = request_of(plane, bytes);
    result.from_sm = protocol::SmInGpc(from);
    result.to_sm = protocol::SmInGpc(to);
    result.sequence = number;
    return result;
  }
  void send(Cycle cycle, std::size_t plane, std::uint32_t from, std::uint32_t to, std::uint32_t bytes,
            std::uint64_t number = 0) {
    sms[from]->send(cycle, plane, packet(plane, from, to, bytes, number));
  }
  void run(Cycle until) { run_until(sc_core::sc_time(static_cast<double>(until), sc_core::SC_NS)); }
  double stat(const std::string& name) const { return observation.stats.value("gpu0.gpc0.network." + name); }

  SimFixture sim;
  GpuObservation observation{"gpu0"};
  arch::Topology topology;
  const arch::Topology::Gpc& gpc;
  Domain domain;
  SmNetwork network;
  std::vector<std::unique_ptr<NetworkSm>> sms;
  std::vector<std::unique_ptr<NetworkUnit>> units;
  protocol::RequestPool pool;

 private:
  // The network looks at the size alone: packets of a size share a request.
  protocol::MemoryRequest* request_of(std::size_t plane, std::uint32_t bytes) {
    protocol::MemoryRequest*& request = requests_[plane][bytes];
    if (request == nullptr) {
      request = &pool.acquire();
      const bool read = (plane == kReplies) == (bytes > 0);
      request->aim(read ? tlm::TLM_READ_COMMAND : tlm::TLM_WRITE_COMMAND, 0, bytes == 0 ? 4 : bytes);
    }
    return request;
  }

  std::array<std::array<protocol::MemoryRequest*, arch::kLineBytes + 1>, 2> requests_{};
};

// The first GPC of an H100: 9 TPCs of 2 SMs.
inline arch::Shape full_gpc() { return arch::Shape{{{{2, 2, 2}, {2, 2, 2}, {2, 2, 2}}}}; }

}  // namespace heddle::test
