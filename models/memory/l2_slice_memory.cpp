// A slice's side towards memory.
#include <algorithm>

#include "memory/l2_slice.h"

namespace heddle::memory {

void L2Slice::on_memory_room(std::uint32_t, Cycle when) { domain_.schedule(std::max(when, now()), *this, kTidy); }

void L2Slice::send_commands() {
  while (core_.has_command() && memory_out.can_send()) send_command(core_.take_command());
}

// Whole sectors, complete in every field, as the memory may be anybody's.
void L2Slice::send_command(const L2Core::Command& command) {
  protocol::MemoryRequest& request = pool_.acquire();
  aim_at_run(request, command.is_write(), command.line, command.first, command.sectors);
  const std::uint32_t bytes = request.get_data_length();
  if (command.is_write()) {
    const std::uint8_t* from = core_.write_data(command) + command.first * arch::kSectorBytes;
    std::copy_n(from, bytes, request.get_data_ptr());
  }
  std::uint32_t number = static_cast<std::uint32_t>(transfers_.size());
  if (free_transfers_.empty()) {
    transfers_.emplace_back();
  } else {
    number = free_transfers_.back();
    free_transfers_.pop_back();
  }
  transfers_[number] = {&request, command, false};
  request.extension.entry = number;
  const Cycle arrival = std::max(now() + params_.memory_latency, memory_free_);
  memory_free_ = arrival + (command.is_write() ? std::max(1U, bytes / params_.memory_bandwidth) : 1);
  memory_out.send(request, arrival);
}

void L2Slice::aim_at_run(protocol::MemoryRequest& request, bool write, std::uint64_t line, std::uint32_t first,
                         std::uint32_t sectors) {
  const std::uint32_t offset = first * arch::kSectorBytes;
  request.set_data_ptr(request.data.data() + offset);  // so that `data` is the image of a line
  request.aim(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, line * arch::kLineBytes + offset,
              sectors * arch::kSectorBytes);
}

int L2Slice::status_of(const tlm::tlm_generic_payload& payload) {
  const tlm::tlm_response_status status = payload.get_response_status();
  // A memory that has done nothing with it is no less an error.
  return status == tlm::TLM_INCOMPLETE_RESPONSE ? tlm::TLM_GENERIC_ERROR_RESPONSE : status;
}

// There is always room: whoever waits for the answer has a place already.
bool L2Slice::on_answer(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension == nullptr || extension->entry >= transfers_.size() ||
      transfers_[extension->entry].payload != &payload) {
    drop_stale(payload);
    return true;
  }
  Transfer& transfer = transfers_[extension->entry];
  if (transfer.answered) return true;
  transfer.answered = true;
  domain_.schedule(std::max(arrival, now()), *this, kAnswer, extension->entry);
  return true;
}

// An answer to what was asked before a reset.
void L2Slice::drop_stale(tlm::tlm_generic_payload& payload) {
  const auto found = std::find(stale_.begin(), stale_.end(), &payload);
  if (found == stale_.end()) return;
  (*found)->release();
  stale_.erase(found);
}

void L2Slice::take_answer(std::uint32_t number) {
  protocol::MemoryRequest& request = *transfers_[number].payload;
  const L2Core::Command command = transfers_[number].command;
  transfers_[number].payload = nullptr;
  free_transfers_.push_back(number);
  core_.answer(command, status_of(request), request.data.data());
  request.release();
  answer_served();
  unblock();
  send_commands();
}

// Requests that have waited take their turns at the data port like any other.
void L2Slice::answer_served() {
  std::vector<L2Core::Served>& served = core_.served();
  for (std::size_t i = 0; i < served.size(); ++i) {  // may grow
    const L2Core::Served item = served[i];
    const bool well = item.status == L2Core::kOk;
    respond(Guest(item.request), static_cast<tlm::tlm_response_status>(item.status),
            take_port(well ? cycles_of(item.access) : 1));
  }
  served.clear();
}

}  // namespace heddle::memory
