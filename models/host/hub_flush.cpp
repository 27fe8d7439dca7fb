#include "host/hub_flush.h"

#include <algorithm>

namespace heddle::host {

void HubFlush::add(std::uint32_t slot) {
  next_.push_back(slot);
  begin();
}

void HubFlush::begin() {
  if (!current_.empty() || next_.empty()) return;
  current_.swap(next_);
  status_ = tlm::TLM_OK_RESPONSE;
  open_ = static_cast<std::uint32_t>(slices_.size());
  parts_.resize(slices_.size());
  for (Part& part : parts_) {
    protocol::MemoryRequest& request = pool_.acquire();
    request.aim(tlm::TLM_IGNORE_COMMAND, 0, 1);
    request.extension.action = protocol::MemoryAction::write_back;
    part = {&request, false};
  }
  if (domain_.mode() == TimingMode::at) {
    send();
  } else {
    call();
  }
}

void HubFlush::send() {
  for (std::uint32_t slice = 0; slice < parts_.size(); ++slice) {
    if (parts_[slice].sent || !slices_[slice]->can_send()) continue;
    parts_[slice].sent = true;
    slices_[slice]->send(*parts_[slice].request, domain_.now() + latency_);
  }
}

// Loosely timed: all at the same time, and over with the last.
void HubFlush::call() {
  const sc_core::sc_time start = domain_.delay_until(domain_.now());
  for (std::uint32_t slice = 0; slice < parts_.size(); ++slice) {
    parts_[slice].sent = true;
    sc_core::sc_time delay = start;
    slices_[slice]->blocking(*parts_[slice].request, delay);
    domain_.schedule(std::max(domain_.cycle_after(delay), domain_.now()), *this, 0, slice);
  }
}

bool HubFlush::on_answer(tlm::tlm_generic_payload& payload, std::uint32_t slice, Cycle arrival) {
  if (slice >= parts_.size() || parts_[slice].request != &payload) return false;
  domain_.schedule(arrival, *this, 0, slice);
  return true;
}

// The answer of a slice.
void HubFlush::on_event(std::uint32_t /*kind*/, std::uint64_t argument) {
  Part& part = parts_[static_cast<std::size_t>(argument)];
  protocol::MemoryRequest& request = *part.request;
  part.request = nullptr;
  if (!request.is_response_ok()) status_ = request.get_response_status();
  request.release();
  if (--open_ > 0) return;
  for (const std::uint32_t slot : current_) listener_.on_flushed(slot, status_, domain_.now() + latency_);
  current_.clear();
  begin();
}

void HubFlush::reset() {
  for (const Part& part : parts_) {
    if (part.request != nullptr) part.request->release();
  }
  parts_.clear();
  current_.clear();
  next_.clear();
  open_ = 0;
  status_ = tlm::TLM_OK_RESPONSE;
}

}  // namespace heddle::host
