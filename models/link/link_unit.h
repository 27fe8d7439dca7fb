// The links of a GPU: requests of its own to the memory of other GPUs leave here, and those of others come to its
// memory (LNK-01 to LNK-06).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "common/block.h"
#include "common/index_pool.h"
#include "common/range_target.h"
#include "link/late_writes.h"
#include "link/link_params.h"
#include "link/link_port.h"

namespace heddle::link {

// Which ports of a GPU lead to which other: consecutive lines go by consecutive ones of them. Plain C++.
class PortRoutes {
 public:
  // The GPU's own number; all ports lead to `peers` and `groups` (a switch).
  void through_switch(std::uint32_t self, std::uint32_t ports, std::uint32_t peers, std::uint32_t groups);
  // ports[g]: those that lead to GPU g.
  void direct(std::uint32_t self, std::vector<std::vector<std::uint32_t>> ports);

  std::uint32_t self() const { return self_; }
  // Empty: nothing leads there.
  const std::vector<std::uint32_t>& to(std::uint64_t address) const {
    static const std::vector<std::uint32_t> kNone;
    const std::uint32_t peer = arch::peer_of(address);
    return peer < ports_.size() ? ports_[peer] : kNone;
  }
  // Those that lead to where that port does, itself included.
  const std::vector<std::uint32_t>& beside(std::uint32_t port) const;
  static std::uint32_t pick(const std::vector<std::uint32_t>& ports, std::uint64_t address) {
    return ports[address / arch::kLineBytes % ports.size()];
  }

 private:
  std::uint32_t self_ = 0;
  std::vector<std::vector<std::uint32_t>> ports_;  // by peer, and behind kPeers by group
};

// Requests at their home that wait for the memory hub: each source in its own order, and the sources by turns.
class HomeTurns {
 public:
  explicit HomeTurns(std::uint32_t sources) : waiting_(sources) {}

  // `when`: it is there. Of one source none is earlier than the one before it.
  void add(std::uint32_t source, tlm::tlm_generic_payload& payload, Cycle when);
  std::size_t waiting(std::uint32_t source) const { return waiting_[source].size(); }
  bool empty() const;
  // The next one that is there, and whose; null: none is.
  tlm::tlm_generic_payload* take(Cycle now, std::uint32_t& source);
  void clear();

 private:
  struct Waiting {
    tlm::tlm_generic_payload* payload = nullptr;
    Cycle when = 0;
  };

  std::vector<Ring<Waiting>> waiting_;  // by source
  std::uint32_t turn_ = 0;              // of which source
};

// In `at` requests, with a payload of their own, take their turns at the ports and hold a place at the other end until
// they leave that. Where accesses are calls the whole way is one: ports are taken ahead.
class LinkUnit : public Block, private PortOwner, private RangeTarget {
 public:
  // `memory`: bytes of the GPU's own. Gigabytes per second are turned into bytes per cycle of `domain`.
  LinkUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const LinkParams& params,
           std::uint64_t memory);

  // From within: one socket for each port of the crossbar that leads here, and one of the memory hub.
  MemoryIn& crossbar_in(std::uint32_t number) { return *near_[number]; }
  MemoryIn& hub_in() { return *near_.back(); }
  MemoryOut home_out;  // to the memory hub, for those of others
  // The other side: to be bound to an end of the same kind, or to a switch.
  LinkPort& port(std::uint32_t number) { return *ports_[number]; }
  std::uint32_t ports() const { return static_cast<std::uint32_t>(ports_.size()); }
  // Before simulation.
  PortRoutes& routes() { return routes_; }

  std::size_t payloads() const { return pool_.in_use() + late_.payloads(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;
  void check_idle() override;

 private:
  enum Event : std::uint32_t { kAnswer, kRefuse, kHome, kLand };
  struct Statistics : StatGroup {
    using StatGroup::StatGroup;
    Counter& sent = counter("requests", "requests", "requests to the memory of other GPUs");
    Counter& served = counter("served", "requests", "requests of other GPUs to the memory of this one");
    Counter& refused = counter("refused", "requests", "requests to where no link leads, or outside memory");
    Gauge& bytes = gauge("bytes", "bytes", "bytes that left by the links, headers included");
    Histogram& latency = histogram("latency", "cycles", "from a request's arrival here to its answer");
  };
  struct Open {
    tlm::tlm_generic_payload* asked = nullptr;   // of whom
    protocol::MemoryRequest* request = nullptr;  // null: refused
    std::uint32_t source = 0;
    Cycle since = 0;
  };

  // Near side.
  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t source, Cycle arrival);
  void on_near_room(std::uint32_t source, Cycle) { send_answers(source); }
  void on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t source, sc_core::sc_time& delay);
  unsigned on_debug(tlm::tlm_generic_payload& payload, std::uint32_t source);
  void send_answers(std::uint32_t source);
  void answer(std::uint32_t slot);
  bool move(RangeMove& range, std::uint32_t port) override;
  bool move_out(RangeMove& range);
  // The other side.
  bool request_came(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) override;
  void response_came(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) override;
  void request_left(std::uint32_t port, std::uint32_t source) override;
  void call_came(tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay) override;
  unsigned debug_came(tlm::tlm_generic_payload& payload, std::uint32_t port) override;
  // `port`: by which it came; as many as there are: by none.
  bool move_home(RangeMove& range, std::uint32_t port);
  // Home.
  bool on_home_response(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival);
  void on_home_room(std::uint32_t, Cycle) { send_home(); }
  void send_home();
  void call_home(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  void land(protocol::MemoryRequest& request);
  bool is_memory(std::uint64_t address, std::uint64_t bytes) const {
    const std::uint64_t offset = arch::peer_offset(address);
    return offset < memory_ && bytes <= memory_ - offset;
  }
  void note_bytes();

  const LinkParams params_;
  const MessageSizes sizes_;
  const std::uint64_t memory_;
  Statistics stats_;
  PortRoutes routes_;
  protocol::RequestPool pool_;
  Children<MemoryIn> near_;
  Children<LinkPort> ports_;
  IndexPool<Open> open_;
  std::vector<Ring<std::uint32_t>> answered_;  // by source: whose response it does not take yet
  std::vector<std::uint32_t> inside_;          // by source: requests that have not left
  HomeTurns home_;                             // by port, and behind them this GPU's own
  LateWrites late_;
  Cycle write_cycles_ = 0;  // that the last write of another GPU took at its home
};

}  // namespace heddle::link
