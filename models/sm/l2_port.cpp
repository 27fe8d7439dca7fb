#include "sm/l2_port.h"

#include <algorithm>

#include "common/memory_socket.h"
#include "protocol/memory_request.h"

namespace heddle::sm {

L2Port::L2Port(Domain& domain, MemoryOut& out, std::uint32_t sm, RequestGate& gate, FenceTracker& fences,
               SmStats& stats)
    : domain_(domain),
      out_(out),
      blocking_(domain.mode() == TimingMode::lt),
      sm_(sm),
      gate_(gate),
      fences_(fences),
      stats_(stats),
      pool_(std::make_unique<protocol::RequestPool>()) {}

L2Port::~L2Port() = default;

void L2Port::reset() {
  open_.for_each([](Open& open) { open.request->release(); });
  for (protocol::MemoryRequest* request : retired_) request->release();
  retired_.clear();
  open_.clear();
  waiting_.clear();
  last_departure_ = 0;
  depth_ = 0;
  sending_ = false;
}

std::size_t L2Port::payloads() const { return pool_->in_use() - retired_.size(); }

protocol::MemoryRequest& L2Port::new_request(const Requester& requester) {
  protocol::MemoryRequest& request = pool_->acquire();
  request.extension.subcontext = requester.subcontext;
  request.extension.physical = requester.physical;
  return request;
}

void L2Port::count(const protocol::MemoryRequest& request) {
  stats_.requests.add();
  stats_.global_bytes.add(request.get_data_length());
}

void L2Port::submit(protocol::MemoryRequest& request, const L2Owner& owner, Cycle departure) {
  const std::uint32_t index = open_.take();
  gate_.request_begins();
  open_[index] = {&request, fences_.begin(), owner};
  request.extension.entry = index;
  request.extension.sm = sm_;
  count(request);
  last_departure_ = std::max(last_departure_, departure);
  if (blocking_) {
    sc_core::sc_time delay = domain_.delay_until(last_departure_);
    out_.blocking(request, delay);
    answer(request, domain_.cycle_after(delay));
    request.release();
    return;
  }
  if (waiting_.empty() && !sending_ && out_.can_send()) {
    sending_ = true;
    out_.send(request, last_departure_);
    sending_ = false;
    if (!waiting_.empty()) send_waiting(domain_.now());
  } else {
    waiting_.push_back({&request, last_departure_});
    gate_.request_queued();
  }
  gate_.note_closed();
}

void L2Port::read_now(protocol::MemoryRequest& request, Cycle& when) {
  request.extension.sm = sm_;
  count(request);
  sc_core::sc_time delay = domain_.delay_until(when);
  out_.blocking(request, delay);
  when = domain_.cycle_after(delay);
  fences_.note(when);
}

void L2Port::send_waiting(Cycle now) {
  if (sending_) return;
  sending_ = true;
  while (!waiting_.empty() && out_.can_send()) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    gate_.request_sent();
    last_departure_ = std::max({last_departure_, next.earliest, now});
    out_.send(*next.request, std::max(next.earliest, now));
  }
  sending_ = false;
}

void L2Port::on_room(std::uint32_t, Cycle when) {
  send_waiting(when);
  gate_.consider_opening(when);
}

bool L2Port::on_response(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
  // Whoever answered the earlier ones has returned, unless this is called from inside such a call.
  const std::size_t over = depth_ == 0 ? retired_.size() : 0;
  ++depth_;
  auto& request = static_cast<protocol::MemoryRequest&>(payload);  // NOLINT(*-static-cast-downcast): all are ours
  answer(request, arrival);
  retired_.push_back(&request);
  --depth_;
  for (std::size_t i = 0; i < over; ++i) retired_[i]->release();
  retired_.erase(retired_.begin(), retired_.begin() + static_cast<std::ptrdiff_t>(over));
  gate_.consider_opening(arrival);
  return true;
}

void L2Port::answer(protocol::MemoryRequest& request, Cycle arrival) {
  const std::uint32_t index = request.extension.entry;
  const Open open = open_[index];
  open_.give_back(index);
  gate_.request_ends();
  fences_.end(open.epoch, arrival);
  client_->answered(request, open.owner, arrival);
  fences_.tell(open.epoch, arrival);
}

}  // namespace heddle::sm
