// The way of a slice of the L2 to its twin: fetches of copies, requests that are passed on to their home, and the
// taking away of copies; and which of its lines a home has given away.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "arch/address_map.h"
#include "common/domain.h"
#include "common/link_network.h"
#include "common/memory_socket.h"
#include "memory/l2_ingress.h"
#include "memory/l2_memory_port.h"
#include "memory/memory_params.h"
#include "protocol/memory_request.h"

namespace heddle::memory {

// The link between two twins, each way.
struct TwinLink {
  std::uint32_t latency = 0;        // cycles
  double bytes_per_cycle = 1;       // of the slice; 0.01 or more
  std::uint32_t header_bytes = 32;  // of a request, and of its answer, beside the data
};

// Of lines whose home a slice is: whether the twin may have a copy. A bit for each line of memory.
class CopyDirectory {
 public:
  // The map must outlive it.
  explicit CopyDirectory(const arch::AddressMap& map) : map_(map) {}

  bool has(std::uint64_t line) const {
    const std::uint64_t number = number_of(line);
    return number / 64 < bits_.size() && (bits_[number / 64] >> (number % 64) & 1) != 0;
  }
  void set(std::uint64_t line, bool copied) {
    const std::uint64_t number = number_of(line);
    if (number / 64 >= bits_.size()) {
      if (!copied) return;
      bits_.resize(std::max(number / 64 + 1, 2 * static_cast<std::uint64_t>(bits_.size())));
    }
    const std::uint64_t bit = std::uint64_t{1} << (number % 64);
    bits_[number / 64] = copied ? bits_[number / 64] | bit : bits_[number / 64] & ~bit;
  }
  void reset() { bits_.clear(); }

 private:
  std::uint64_t number_of(std::uint64_t line) const { return map_.place_of(line * arch::kLineBytes).number; }

  const arch::AddressMap& map_;
  std::vector<std::uint64_t> bits_;
};

class L2TwinWay final : private L2MemoryPort::Listener {
 public:
  // `name` and all references must outlive it. `path`: of its statistics. `owner`: hears of what has come for the core,
  // and of room on the way.
  L2TwinWay(const char* name, Domain& domain, const std::string& path, const L2Params& params, const TwinLink& link,
            L2Ingress& ingress, L2MemoryPort::Listener& owner);

  MemoryOut out;

  // There is room for more requests.
  bool can_send() const { return unsent_.empty() && port_.can_send(); }
  // What a copy lacks.
  void fetch(const L2Command& command);
  // The request goes to its home as it is, which answers it.
  void pass(const PendingRequest& request);
  // The line's copy goes; then the request is answered, not before `when`.
  void take_away(std::uint64_t line, const PendingRequest& request, Cycle when);
  // Its copy is being taken away: so is who would hear meanwhile of what has changed. False: it is not.
  bool hold(std::uint64_t line, const PendingRequest& request, Cycle when);

  // The same as calls, there and back; the results are kL2Ok or the twin's error.
  int fetch_blocking(std::uint64_t line, const SectorRun& run, std::uint8_t* line_image, sc_core::sc_time& delay);
  // The same without a payload. False: the twin does not give the line in that way.
  bool fetch_line(LineRead& read) {
    const LinePort& lines = port_.lines();
    if (!lines.offered() || !lines.find(read)) return false;
    count(bits::count4(read.sectors) * arch::kSectorBytes);
    read.when += link_.latency;
    lines.take(read);
    read.when += link_.latency;
    return true;
  }
  bool has_line(LineRead& read) { return port_.lines().offered() && port_.lines().find(read); }
  void pass_blocking(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  void take_away_blocking(std::uint64_t line, sc_core::sc_time& delay);
  // The line's copy goes, without time.
  void take_away_now(std::uint64_t line);

  // That have not been answered.
  std::size_t fetches() const { return port_.open() + unsent_.size(); }
  // An answer to the twin with so many bytes of data sets out at `when` or, if the link is taken, later. Returns when
  // it is there. In the order of these calls.
  Cycle answer(Cycle when, std::uint32_t bytes);
  bool idle() const { return open_.empty() && unsent_.empty(); }
  std::size_t payloads() const { return port_.payloads() + pool_.in_use(); }
  void reset();

 private:
  // A request that is answered once the twin has answered, not before `when`.
  struct Held {
    PendingRequest request;
    Cycle when = 0;
  };
  // What is at the twin and is not a fetch.
  struct Open {
    std::vector<Held> held;
    bool ours = false;  // the payload is
  };
  // What there has been no room for: one of these, or a fetch.
  struct Unsent {
    tlm::tlm_generic_payload* payload = nullptr;
    L2Command fetch;
  };

  void on_memory_answer(const L2Command& command, int status, const std::uint8_t* data) override {
    owner_.on_memory_answer(command, status, data);
  }
  void on_memory_room() override;
  void on_other_answer(tlm::tlm_generic_payload& payload) override;
  protocol::MemoryRequest& taking_away(std::uint64_t line);
  void send(const Unsent& next);
  void send_unsent();
  Cycle arrival_of(LinkPace& link, Cycle when, std::uint32_t bytes) const;
  void count(std::uint32_t bytes);

  Domain& domain_;
  const TwinLink link_;
  const sc_core::sc_time delay_;
  L2Ingress& ingress_;
  L2MemoryPort::Listener& owner_;
  L2MemoryPort port_;
  LinkPace requests_;
  LinkPace answers_;
  protocol::RequestPool pool_;
  std::unordered_map<tlm::tlm_generic_payload*, Open> open_;            // looked up only
  std::unordered_map<std::uint64_t, tlm::tlm_generic_payload*> taken_;  // the last of these for a line; looked up only
  std::deque<Unsent> unsent_;                                           // in this order
  Counter& bytes_;
};

}  // namespace heddle::memory
