// One end of a link between GPUs: what leaves by it takes its turn, what comes by it is its owner's (LNK-02, LNK-03).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/domain.h"
#include "common/index_pool.h"
#include "common/link_network.h"
#include "common/memory_socket.h"
#include "common/reservation.h"

namespace heddle::link {

// A range whose times are cycles of `from`, in those of `to`.
inline RangeMove in_cycles_of(const RangeMove& range, const Domain& from, const Domain& to) {
  const auto convert = [&](Cycle cycle) { return to.clock().cycle_at(from.clock().time_of(cycle)); };
  RangeMove result = range;
  result.first = convert(range.first);
  result.last = convert(range.last);
  result.accepted = convert(range.accepted);
  return result;
}

class PortOwner {
 public:
  // A request has come: true if there is room for another at that end; if not, accept() follows.
  virtual bool request_came(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) = 0;
  // A response has come; the owner takes it.
  virtual void response_came(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) = 0;
  // A request of that source has left.
  virtual void request_left(std::uint32_t port, std::uint32_t source) = 0;
  virtual void call_came(tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay) = 0;
  virtual unsigned debug_came(tlm::tlm_generic_payload& payload, std::uint32_t port) = 0;

 protected:
  ~PortOwner() = default;
};

// Requests of several sources and responses share the direction that leaves: responses and requests by turns, sources
// by turns. Credits are the base protocol's: a receiver without room withholds END_REQ, and the next request waits
// here. Responses always find room, since who asked has kept it.
class LinkPort final : private EventHandler {
 public:
  struct Rates {
    double bytes_per_cycle = 1;
    Cycle latency = 0;
  };
  // `name`: of its sockets, "out_…" and "in_…". `number`: what the owner is told.
  LinkPort(const std::string& name, Domain& domain, std::uint32_t number, std::uint32_t sources, const Rates& rates,
           PortOwner& owner);

  MemoryOut out;  // to the other end: requests leave here, and their responses come
  MemoryIn in;    // from the other end

  // Something leaves at `when` or later.
  void request(std::uint32_t source, tlm::tlm_generic_payload& payload, std::uint32_t bytes, Cycle when);
  void response(tlm::tlm_generic_payload& payload, std::uint32_t bytes, Cycle when);
  std::size_t waiting(std::uint32_t source) const { return requests_[source].size(); }
  // There is room again for requests that come.
  void accept() {
    if (in.withholding()) in.accept(domain_.now());
  }

  // Of calls: so many bytes leave at `when` or later: the cycle of their arrival.
  Cycle reserve(std::uint32_t bytes, Cycle when) {
    return (has_costs_ ? calendar_.take(when, bytes) : when) + rates_.latency;
  }
  Cycle cycles(std::uint64_t bytes) const {
    return has_costs_ ? static_cast<Cycle>(static_cast<double>(bytes) / rates_.bytes_per_cycle) : 0;
  }
  std::uint64_t bytes_out() const { return bytes_out_; }
  void count(std::uint64_t bytes) { bytes_out_ += bytes; }
  bool idle() const;
  void reset();
  void collect_waits(WaitGraph& graph, const std::string& who) const;

 private:
  struct Item {
    tlm::tlm_generic_payload* payload = nullptr;
    std::uint32_t bytes = 0;
    Cycle when = 0;
  };

  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
    return owner_.request_came(payload, number_, arrival);
  }
  bool on_response(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
    owner_.response_came(payload, number_, arrival);
    return true;
  }
  void on_room(std::uint32_t, Cycle when) { arm(when); }
  void on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t, sc_core::sc_time& delay) {
    owner_.call_came(payload, number_, delay);
  }
  unsigned on_debug(tlm::tlm_generic_payload& payload, std::uint32_t) { return owner_.debug_came(payload, number_); }
  const char* handler_name() const override { return name_.c_str(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void arm(Cycle when);
  void pump();
  bool send_response(Cycle& next);
  bool send_request(Cycle& next);

  const std::string name_;
  Domain& domain_;
  const std::uint32_t number_;
  const Rates rates_;
  const bool has_costs_;
  PortOwner& owner_;
  LinkPace pace_;
  ReservedLink calendar_;
  std::vector<Ring<Item>> requests_;  // by source
  Ring<Item> responses_;
  std::uint32_t turn_ = 0;  // the source that is asked first
  bool responses_turn_ = true;
  Cycle armed_ = kNever;
  std::uint64_t bytes_out_ = 0;
};

}  // namespace heddle::link
