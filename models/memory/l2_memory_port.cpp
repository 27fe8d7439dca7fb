#include "memory/l2_memory_port.h"

#include <algorithm>

namespace heddle::memory {
namespace {

int status_of(const tlm::tlm_generic_payload& payload) {
  const tlm::tlm_response_status status = payload.get_response_status();
  // A memory that has done nothing with it is no less an error.
  return status == tlm::TLM_INCOMPLETE_RESPONSE ? tlm::TLM_GENERIC_ERROR_RESPONSE : status;
}

}  // namespace

L2MemoryPort::L2MemoryPort(const char* name, Timebase& timebase, MemoryOut& socket, const L2Params& params,
                           Listener& listener, protocol::MemoryAction reads)
    : name_(name),
      timebase_(timebase),
      socket_(socket),
      listener_(listener),
      latency_(params.memory_latency),
      bandwidth_(params.memory_bandwidth),
      reads_(reads) {
  socket.connect<L2MemoryPort, &L2MemoryPort::on_answer, &L2MemoryPort::on_room>(*this);
}

// Whole sectors, complete in every field, as the memory may be anybody's. The payload's `data` is the image of the
// line.
protocol::MemoryRequest& L2MemoryPort::request_for(bool write, std::uint64_t line, const SectorRun& run) {
  protocol::MemoryRequest& request = pool_.acquire();
  const std::uint32_t offset = run.first * arch::kSectorBytes;
  request.set_data_ptr(request.data.data() + offset);
  request.aim(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, line * arch::kLineBytes + offset,
              run.count * arch::kSectorBytes);
  if (!write) request.extension.action = reads_;
  return request;
}

Cycle L2MemoryPort::arrival_of(const tlm::tlm_generic_payload& payload, Cycle earliest) {
  const Cycle arrival = std::max({timebase_.now() + latency_, free_at_, earliest});
  free_at_ = arrival + std::max(1U, (payload.is_write() ? payload.get_data_length() : 0U) / bandwidth_);
  return arrival;
}

void L2MemoryPort::send(const L2Command& command, const std::uint8_t* line_image, Cycle earliest) {
  protocol::MemoryRequest& request =
      request_for(command.is_write(), command.line, SectorRun{command.first, command.sectors});
  if (command.is_write()) {
    std::copy_n(line_image + command.first * arch::kSectorBytes, request.get_data_length(), request.get_data_ptr());
  }
  const std::uint32_t number = transfers_.take();
  transfers_[number] = {&request, command, false};
  request.extension.entry = number;
  request.extension.subcontext = command.whose;
  request.extension.kernel = command.kernel;
  socket_.send(request, arrival_of(request, earliest));
}

void L2MemoryPort::send_other(tlm::tlm_generic_payload& payload, Cycle earliest) {
  others_.insert(&payload);
  socket_.send(payload, arrival_of(payload, earliest));
}

// There is always room: whoever waits for the answer has a place already.
bool L2MemoryPort::on_answer(tlm::tlm_generic_payload& payload, std::uint32_t /*index*/, Cycle arrival) {
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension == nullptr || extension->entry >= transfers_.size() ||
      transfers_[extension->entry].payload != &payload) {
    if (others_.erase(&payload) == 0) {
      drop_stale(payload);
    } else {
      timebase_.schedule(std::max(arrival, timebase_.now()), *this, kOther, reinterpret_cast<std::uintptr_t>(&payload));
    }
    return true;
  }
  Transfer& transfer = transfers_[extension->entry];
  if (transfer.answered) return true;
  transfer.answered = true;
  timebase_.schedule(std::max(arrival, timebase_.now()), *this, kAnswer, extension->entry);
  return true;
}

void L2MemoryPort::on_room(std::uint32_t /*index*/, Cycle when) {
  timebase_.schedule(std::max(when, timebase_.now()), *this, kRoom);
}

void L2MemoryPort::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind == kRoom) return listener_.on_memory_room();
  if (kind == kOther) {
    return listener_.on_other_answer(
        *reinterpret_cast<tlm::tlm_generic_payload*>(static_cast<std::uintptr_t>(argument)));
  }
  take_answer(static_cast<std::uint32_t>(argument));
}

void L2MemoryPort::take_answer(std::uint32_t number) {
  protocol::MemoryRequest& request = *transfers_[number].payload;
  const L2Command command = transfers_[number].command;
  transfers_[number].payload = nullptr;
  transfers_.give_back(number);
  listener_.on_memory_answer(command, status_of(request), request.data.data());
  request.release();
}

// An answer to what was asked before a reset.
void L2MemoryPort::drop_stale(tlm::tlm_generic_payload& payload) {
  const auto found = std::find(stale_.begin(), stale_.end(), &payload);
  if (found == stale_.end()) return;
  (*found)->release();
  stale_.erase(found);
}

int L2MemoryPort::read_blocking(std::uint64_t line, const SectorRun& run, std::uint8_t* line_image,
                                sc_core::sc_time& delay) {
  protocol::MemoryRequest& request = request_for(false, line, run);
  socket_.blocking(request, delay);
  const int status = status_of(request);
  std::copy_n(request.get_data_ptr(), request.get_data_length(), line_image + run.first * arch::kSectorBytes);
  request.release();
  return status;
}

int L2MemoryPort::write_blocking(std::uint64_t line, const SectorRun& run, const std::uint8_t* line_image,
                                 sc_core::sc_time& delay) {
  protocol::MemoryRequest& request = request_for(true, line, run);
  std::copy_n(line_image + run.first * arch::kSectorBytes, request.get_data_length(), request.get_data_ptr());
  socket_.blocking(request, delay);
  const int status = status_of(request);
  request.release();
  return status;
}

std::uint32_t L2MemoryPort::debug(tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes,
                                  std::uint8_t* line_image) {
  protocol::MemoryRequest& request = pool_.acquire();
  request.aim(command, address, bytes);
  request.set_data_ptr(line_image + address % arch::kLineBytes);
  const std::uint32_t done = std::min(socket_.debug(request), bytes);
  request.release();
  return done;
}

void L2MemoryPort::poke(std::uint64_t line, const std::uint8_t* line_image, const LineMask& bytes) {
  transfers_.for_each([&](Transfer& transfer) {
    const L2Command& command = transfer.command;
    if (!command.is_write() || command.line != line) return;
    copy_bytes(transfer.payload->data.data(), line_image, bytes & LineMask::sectors(command.mask()));
  });
}

void L2MemoryPort::reset(bool with_memory) {
  transfers_.for_each([&](Transfer& transfer) {
    if (transfer.answered || with_memory) {
      transfer.payload->release();
    } else {
      stale_.push_back(transfer.payload);
    }
  });
  transfers_.clear();
  others_.clear();
  free_at_ = 0;
}

bool L2Flush::begin(void* request) {
  if (current_.empty() && buffer_.empty() && array_.next_dirty(0) == kNone) return false;
  if (!current_.empty()) {
    next_.push_back(request);
    return true;
  }
  current_.push_back(request);
  cursor_ = 0;
  status_ = kL2Ok;
  advance();
  return true;
}

void L2Flush::note_failure(std::uint64_t order, int status) {
  if (!current_.empty() && (cursor_ != kNone || order <= last_order_)) status_ = status;
}

void L2Flush::advance() {
  while (!current_.empty()) {
    while (cursor_ != kNone) {
      const std::uint32_t index = array_.next_dirty(cursor_);
      if (index == kNone) {
        cursor_ = kNone;
        last_order_ = buffer_.last_order();
        break;
      }
      if (buffer_.full()) return;
      buffer_.start(buffer_.take(array_, index));
      cursor_ = index + 1;
    }
    if (buffer_.holds_up_to(last_order_)) return;
    L2Access access;
    access.kind = L2Access::Kind::write_back;
    for (void* request : current_) served_.push_back({request, status_, access});
    current_.clear();
    current_.swap(next_);
    cursor_ = 0;
    status_ = kL2Ok;
  }
  cursor_ = kNone;
}

void L2Flush::reset() {
  current_.clear();
  next_.clear();
  cursor_ = kNone;
  last_order_ = 0;
  status_ = kL2Ok;
}

}  // namespace heddle::memory
