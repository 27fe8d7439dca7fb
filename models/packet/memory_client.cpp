#include "packet/memory_client.h"

#include <algorithm>

namespace heddle::packet {

MemoryClient::MemoryClient(Domain& domain, MemoryOut& out, EventHandler& handler, std::uint32_t answer_event,
                           std::uint32_t send_event)
    : domain_(domain), out_(out), handler_(handler), answer_event_(answer_event), send_event_(send_event) {
  out.connect<MemoryClient, &MemoryClient::on_answer, &MemoryClient::on_room>(*this);
}

protocol::MemoryRequest& MemoryClient::acquire(std::uint8_t subcontext) {
  protocol::MemoryRequest& request = pool_.acquire();
  request.extension.subcontext = subcontext;
  return request;
}

void MemoryClient::read(std::uint64_t address, std::uint32_t bytes, std::uint8_t subcontext, const MemoryTag& tag) {
  protocol::MemoryRequest& request = acquire(subcontext);
  request.aim(tlm::TLM_READ_COMMAND, address, bytes);
  submit(request, tag);
}

void MemoryClient::write(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, std::uint8_t subcontext,
                         const MemoryTag& tag) {
  protocol::MemoryRequest& request = acquire(subcontext);
  request.aim(tlm::TLM_WRITE_COMMAND, address, bytes);
  std::copy_n(data, bytes, request.data.begin());
  submit(request, tag);
}

void MemoryClient::write_value(std::uint64_t address, std::uint64_t value, std::uint32_t bytes, std::uint8_t subcontext,
                               const MemoryTag& tag) {
  std::array<std::uint8_t, 8> data{};
  for (std::uint32_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(value >> 8 * i);
  write(address, data.data(), bytes, subcontext, tag);
}

void MemoryClient::decrement(std::uint64_t address, std::uint8_t subcontext, const MemoryTag& tag) {
  protocol::MemoryRequest& request = acquire(subcontext);
  request.aim(tlm::TLM_IGNORE_COMMAND, address, 8);
  protocol::MemoryExtension& extension = request.extension;
  extension.action = protocol::MemoryAction::atomic;
  extension.atomic = arch::AtomicKind::add;
  extension.type = arch::ValueType::u64;
  extension.lanes = 1;
  extension.lane[0].operand = ~std::uint64_t{0};
  extension.lane[0].offset = static_cast<std::uint8_t>(address % arch::kLineBytes);
  extension.lane[0].lane = 0;
  submit(request, tag);
}

void MemoryClient::write_back(const MemoryTag& tag) {
  protocol::MemoryRequest& request = acquire(0);
  request.aim(tlm::TLM_IGNORE_COMMAND, 0, arch::kSectorBytes);
  request.extension.sectors = 0;
  request.extension.action = protocol::MemoryAction::write_back;
  submit(request, tag);
}

void MemoryClient::submit(protocol::MemoryRequest& request, const MemoryTag& tag) {
  std::uint32_t number = static_cast<std::uint32_t>(open_.size());
  if (free_.empty()) {
    open_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  open_[number] = {&request, tag, false, false};
  request.extension.entry = number;
  ++open_count_;
  waiting_.push(number);
  send();
}

void MemoryClient::send() {
  while (!waiting_.empty() && out_.can_send()) {
    const std::uint32_t number = waiting_.pop();
    open_[number].sent = true;
    out_.send(*open_[number].request, domain_.now());
  }
}

void MemoryClient::on_room(std::uint32_t, Cycle when) {
  domain_.schedule(std::max(when, domain_.now()), handler_, send_event_);
}

// There is always room: whoever waits for the answer has a place already.
bool MemoryClient::on_answer(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension == nullptr || extension->entry >= open_.size() || open_[extension->entry].request != &payload) {
    const auto found = std::find(stale_.begin(), stale_.end(), &payload);
    if (found == stale_.end()) return true;
    (*found)->release();
    stale_.erase(found);
    return true;
  }
  Open& open = open_[extension->entry];
  if (open.answered) return true;
  open.answered = true;
  domain_.schedule(std::max(arrival, domain_.now()), handler_, answer_event_, extension->entry);
  return true;
}

MemoryAnswer MemoryClient::take(std::uint64_t argument) {
  Open& open = open_.at(static_cast<std::size_t>(argument));
  protocol::MemoryRequest& request = *open.request;
  MemoryAnswer answer;
  answer.tag = open.tag;
  answer.ok = request.is_response_ok() && !request.extension.poisoned;
  answer.bytes = request.get_data_length();
  if (request.is_read()) std::copy_n(request.data.begin(), answer.bytes, answer.data.begin());
  open.request = nullptr;
  free_.push_back(static_cast<std::uint32_t>(argument));
  --open_count_;
  request.release();
  return answer;
}

void MemoryClient::reset() {
  for (const Open& open : open_) {
    if (open.request == nullptr) continue;
    if (open.answered || !open.sent) {
      open.request->release();
    } else {
      stale_.push_back(open.request);  // the memory may not have been reset
    }
  }
  open_.clear();
  free_.clear();
  waiting_.clear();
  open_count_ = 0;
}

}  // namespace heddle::packet
