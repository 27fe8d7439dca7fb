// The memory hub at work: from clients to slices and to the host, and back.
#include <algorithm>

#include "arch/unified_address.h"
#include "host/memory_hub_engine.h"
#include "host/memory_hub_link.h"

namespace heddle::host {

void MemoryHub::Engine::arm(Cycle when) {
  if (when >= armed_) return;
  armed_ = when;
  domain_.schedule(when, hub_, kPump);
}

// Round robin over clients, each way for itself.
void MemoryHub::Engine::pump() {
  armed_ = kNever;
  Cycle next = kNever;
  if (timed_) send_flushes();
  const auto clients = static_cast<std::uint32_t>(clients_.size());
  for (const Way way : {kDevice, kHost}) {
    std::uint32_t idle = 0;
    while (idle < clients) {
      const std::uint32_t client = turn_[way];
      const bool gone = way == kDevice ? pump_device(client, next) : pump_host(client, next);
      turn_[way] = (client + 1) % clients;
      idle = gone ? 0 : idle + 1;
    }
  }
  if (next != kNever) arm(next);
}

// Only its own line of its own memory.
tlm::tlm_response_status MemoryHub::Engine::judge(std::uint64_t address, std::uint32_t length) const {
  length = std::max(length, 1U);
  if (!arch::in_host_window(address) && !map_.contains(address, 1)) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if (length > arch::kLineBytes - address % arch::kLineBytes) return tlm::TLM_BURST_ERROR_RESPONSE;
  return tlm::TLM_OK_RESPONSE;
}

std::uint32_t MemoryHub::Engine::take(std::uint32_t number, Way way) {
  Client& client = clients_[number];
  std::uint32_t slot = static_cast<std::uint32_t>(slots_.size());
  if (free_slots_.empty()) {
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  tlm::tlm_generic_payload& payload = *client.waiting[way].pop().payload;
  slots_[slot] = {&payload, number, way, false, domain_.now(), false, 0};
  protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension != nullptr) extension->route = slot;
  if (client.in->withholding() && client.inside() < params_.queue) client.in->accept(domain_.now());
  return slot;
}

// True if the client's first request has gone. `next`: when to look again, unless somebody else will see to that.
bool MemoryHub::Engine::pump_device(std::uint32_t number, Cycle& next) {
  Client& client = clients_[number];
  if (client.waiting[kDevice].empty()) return false;
  const Waiting first = client.waiting[kDevice].front();
  if (first.when > domain_.now()) {
    next = std::min(next, first.when);
    return false;
  }
  if (is_write_back(*first.payload)) {
    stats_.write_backs.add();
    flush_.next.push_back(take(number, kDevice));
    begin_flush();
    return true;
  }
  std::uint64_t address = first.payload->get_address();
  tlm::tlm_response_status status = tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if (translator_ != nullptr) {
    const HubTranslator::Looked looked = translator_->look(number, *first.payload);
    if (looked.way == HubTranslator::Way::wait) return false;  // its answer looks again
    if (looked.way == HubTranslator::Way::known) {
      address = looked.physical;
      status = judge(address, first.payload->get_data_length());
    } else if (looked.there) {
      status = tlm::TLM_COMMAND_ERROR_RESPONSE;
    }
  } else {
    status = judge(address, first.payload->get_data_length());
  }
  if (status != tlm::TLM_OK_RESPONSE) {
    respond_in(take(number, kDevice), status, domain_.now() + domain_.cost(1));
    return true;
  }
  const std::uint32_t slice = map_.slice_of(address);
  if (timed_ && !slices_[slice]->can_send()) return false;  // it will tell
  if (timed_ && !out_.free_at(domain_.now())) {
    next = std::min(next, out_.earliest(domain_.now()));
    return false;
  }
  const std::uint32_t slot = take(number, kDevice);
  if (translator_ != nullptr) {
    slots_[slot].translated = true;
    slots_[slot].asked = first.payload->get_address();
    first.payload->set_address(address);
  }
  stats_.device.add();
  if (!timed_) {
    call_slice(slot, slice);
    return true;
  }
  out_.take(domain_.now(), hub_request_bytes(*first.payload));
  slices_[slice]->send(*first.payload, domain_.now() + latency_);
  return true;
}

void MemoryHub::Engine::call_slice(std::uint32_t number, std::uint32_t slice) {
  tlm::tlm_generic_payload& payload = *slots_[number].payload;
  sc_core::sc_time delay = domain_.delay_until(domain_.now());
  slices_[slice]->blocking(payload, delay);
  respond_in(number, payload.get_response_status(), std::max(domain_.cycle_after(delay), domain_.now()));
}

bool MemoryHub::Engine::pump_host(std::uint32_t number, Cycle& next) {
  Client& client = clients_[number];
  if (client.waiting[kHost].empty()) return false;
  const Waiting first = client.waiting[kHost].front();
  if (first.when > domain_.now()) {
    next = std::min(next, first.when);
    return false;
  }
  if (is_write_back(*first.payload)) {
    stats_.write_backs.add();
    flush_.next.push_back(take(number, kHost));
    begin_flush();
    return true;
  }
  const tlm::tlm_response_status status = judge(first.payload->get_address(), first.payload->get_data_length());
  if (status != tlm::TLM_OK_RESPONSE) {
    respond_in(take(number, kHost), status, domain_.now() + domain_.cost(1));
    return true;
  }
  if (!dma_.has_room()) return false;  // looked at again when one is done
  const std::uint32_t slot = take(number, kHost);
  stats_.host.add();
  dma_.start(*first.payload, slot);
  return true;
}

// Slices.

std::uint32_t MemoryHub::Engine::slot_of(tlm::tlm_generic_payload& payload) const {
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension != nullptr && extension->route < slots_.size() && slots_[extension->route].payload == &payload) {
    return extension->route;
  }
  std::uint32_t slot = 0;
  while (slot < slots_.size() && slots_[slot].payload != &payload) ++slot;
  return slot;
}

// There is always room: the request has a place until its client has the response.
bool MemoryHub::Engine::on_answer(tlm::tlm_generic_payload& payload, std::uint32_t slice, Cycle arrival) {
  arrival = std::max(arrival, domain_.now());
  if (flush_.requests[slice] == &payload) {
    domain_.schedule(arrival, hub_, kFlushed, slice);
    return true;
  }
  const std::uint32_t slot = slot_of(payload);
  if (slot == slots_.size() || slots_[slot].answered) return true;  // nobody asked
  slots_[slot].answered = true;
  domain_.schedule(arrival, hub_, kAnswer, slot);
  return true;
}

void MemoryHub::Engine::on_slice_room(std::uint32_t, Cycle when) { arm(std::max(when, domain_.now())); }

void MemoryHub::Engine::take_answer(std::uint32_t number) {
  tlm::tlm_generic_payload& payload = *slots_[number].payload;
  const Cycle start = back_.earliest(domain_.now());
  back_.take(start, hub_response_bytes(payload));
  tlm::tlm_response_status status = payload.get_response_status();
  if (status == tlm::TLM_INCOMPLETE_RESPONSE) status = tlm::TLM_GENERIC_ERROR_RESPONSE;
  respond_in(number, status, start + latency_);
}

// write_back.

void MemoryHub::Engine::begin_flush() {
  if (!flush_.now.empty() || flush_.next.empty()) return;
  flush_.now.swap(flush_.next);
  flush_.status = tlm::TLM_OK_RESPONSE;
  flush_.open = static_cast<std::uint32_t>(slices_.size());
  for (std::uint32_t slice = 0; slice < slices_.size(); ++slice) {
    protocol::MemoryRequest& request = pool_.acquire();
    request.aim(tlm::TLM_IGNORE_COMMAND, 0, 1);
    request.extension.action = protocol::MemoryAction::write_back;
    flush_.requests[slice] = &request;
    flush_.unsent[slice] = true;
  }
  if (timed_) {
    send_flushes();
  } else {
    call_flushes();
  }
}

void MemoryHub::Engine::send_flushes() {
  for (std::uint32_t slice = 0; slice < slices_.size(); ++slice) {
    if (!flush_.unsent[slice] || !slices_[slice]->can_send()) continue;
    flush_.unsent[slice] = false;
    slices_[slice]->send(*flush_.requests[slice], domain_.now() + latency_);
  }
}

// Loosely timed: all at the same time, and over with the last.
void MemoryHub::Engine::call_flushes() {
  const sc_core::sc_time start = domain_.delay_until(domain_.now());
  for (std::uint32_t slice = 0; slice < slices_.size(); ++slice) {
    flush_.unsent[slice] = false;
    sc_core::sc_time delay = start;
    slices_[slice]->blocking(*flush_.requests[slice], delay);
    domain_.schedule(std::max(domain_.cycle_after(delay), domain_.now()), hub_, kFlushed, slice);
  }
}

void MemoryHub::Engine::take_flush(std::uint32_t slice) {
  protocol::MemoryRequest& request = *flush_.requests[slice];
  flush_.requests[slice] = nullptr;
  if (!request.is_response_ok()) flush_.status = request.get_response_status();
  request.release();
  if (--flush_.open > 0) return;
  for (const std::uint32_t slot : flush_.now) respond_in(slot, flush_.status, domain_.now() + latency_);
  flush_.now.clear();
  begin_flush();
}

}  // namespace heddle::host
