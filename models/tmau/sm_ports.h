// The network interface of a tensor memory access unit: a port of the crossbar for each SM, which shares the SM's link.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "common/index_pool.h"
#include "common/memory_socket.h"
#include "protocol/memory_request.h"
#include "tmau/bulk_work.h"

namespace heddle::tmau {

// The payloads of a unit, and those that others may still look at.
class RequestStore {
 public:
  protocol::MemoryRequest& acquire() { return pool_->acquire(); }

  // Runs `answer` for a payload that is over, and gives those back whose answers have returned before: whoever has
  // answered them does not look at them any more. An answer may bring about another one inside it.
  template <class Answer>
  void retire(protocol::MemoryRequest& request, Answer&& answer) {
    const std::size_t over = depth_ == 0 ? retired_.size() : 0;
    ++depth_;
    answer();
    retired_.push_back(&request);
    --depth_;
    for (std::size_t i = 0; i < over; ++i) retired_[i]->release();
    retired_.erase(retired_.begin(), retired_.begin() + static_cast<std::ptrdiff_t>(over));
  }

  // All payloads are home, but for the references that are kept a little longer.
  bool all_home() const {
    std::size_t home = 0;
    for (protocol::MemoryRequest* request : retired_) home += request->get_ref_count() == 1 ? 1 : 0;
    return pool_->in_use() == home;
  }

  void reset() {
    for (protocol::MemoryRequest* request : retired_) request->release();
    retired_.clear();
    depth_ = 0;
    const auto is_home = [](const std::unique_ptr<protocol::RequestPool>& pool) { return pool->in_use() == 0; };
    old_pools_.erase(std::remove_if(old_pools_.begin(), old_pools_.end(), is_home), old_pools_.end());
    if (pool_->in_use() == 0) return;
    old_pools_.push_back(std::move(pool_));
    pool_ = std::make_unique<protocol::RequestPool>();
  }

 private:
  std::unique_ptr<protocol::RequestPool> pool_ = std::make_unique<protocol::RequestPool>();
  // A pool whose payloads were elsewhere at a reset is kept: others may give them back to it. If they never do, as
  // packets that the reset dropped, it stays until the unit ends.
  std::vector<std::unique_ptr<protocol::RequestPool>> old_pools_;
  std::vector<protocol::MemoryRequest*> retired_;  // answered, and perhaps still looked at by who answers
  std::uint32_t depth_ = 0;                        // of calls of retire()
};

class SmPorts final : private EventHandler {
 public:
  SmPorts(const TmauContext& unit, Domain& domain, RequestStore& store);

  MemoryOut& socket(std::uint32_t sm) { return *ports_[sm].out; }
  bool can_send(std::uint32_t sm) const { return unit_.blocking() || ports_[sm].out->can_send(); }
  // Leaves now, or at a later cycle `when`. The answer may come inside this call.
  void send(std::uint32_t sm, protocol::MemoryRequest& request, Cycle when);
  // A line is read by a call, and leaves then or later. False: it cannot be, and nothing has happened.
  bool read(std::uint32_t sm, LineRead& read);
  // What such reads have brought for an SM of the GPC (its bit).
  void pass_on(std::uint32_t sm, protocol::BulkLines& lines, std::uint32_t receiver) {
    ports_[sm].lines.pass_on(lines, receiver);
  }
  void warm(std::uint32_t sm, LineRead& read, bool line) const {
    if (ports_[sm].lines.offered()) ports_[sm].lines.warm(read, line);
  }
  // Ready at `earliest`: leaves from then on, once the port takes it. Always by an event of its own: whoever has
  // brought about that it is ready has returned by then.
  void push_ready(std::uint32_t sm, protocol::MemoryRequest& request, Cycle earliest);
  void reset();

 private:
  struct Ready {
    protocol::MemoryRequest* request = nullptr;
    Cycle earliest = 0;
  };
  struct Port {
    std::unique_ptr<MemoryOut> out;
    LinePort lines;
    bool lines_known = false;
    Ring<Ready> ready;       // in order of time
    Cycle last = 0;          // arrival of the last request at the port
    Cycle pump_at = kNever;  // event
  };

  void on_event(std::uint32_t kind, std::uint64_t sm) override;
  const char* handler_name() const override { return unit_.module; }
  bool on_response(tlm::tlm_generic_payload& payload, std::uint32_t sm, Cycle arrival);
  void on_room(std::uint32_t sm, Cycle when);
  void arm(std::uint32_t sm);
  void pump(std::uint32_t sm);

  const TmauContext& unit_;
  Domain& domain_;
  RequestStore& store_;
  std::vector<Port> ports_;  // by SM of the unit
};

}  // namespace heddle::tmau
