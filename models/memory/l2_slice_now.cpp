// Accesses to a slice that are done at once: blocking ones (loosely timed), and those of a debugger.
#include <algorithm>

#include "memory/l2_decode.h"
#include "memory/l2_slice.h"

namespace heddle::memory {

// What an access asks of memory begins at the same time; it is over with the last part that it needs.
class L2Slice::BlockingMemory final : public L2Memory {
 public:
  BlockingMemory(L2Slice& slice, const sc_core::sc_time& start, bool waits_for_writes)
      : slice_(slice), start_(start), end_(start), waits_for_writes_(waits_for_writes) {}

  int read(std::uint64_t line, std::uint32_t first, std::uint32_t sectors, std::uint8_t* data) override {
    protocol::MemoryRequest& request = slice_.pool_.acquire();
    aim_at_run(request, false, line, first, sectors);
    const int status = transport(request, true);
    std::copy_n(request.get_data_ptr(), request.get_data_length(), data + first * arch::kSectorBytes);
    request.release();
    return status;
  }
  int write(std::uint64_t line, std::uint32_t first, std::uint32_t sectors, const std::uint8_t* data) override {
    protocol::MemoryRequest& request = slice_.pool_.acquire();
    aim_at_run(request, true, line, first, sectors);
    std::copy_n(data + first * arch::kSectorBytes, request.get_data_length(), request.get_data_ptr());
    const int status = transport(request, waits_for_writes_);
    request.release();
    return status;
  }
  bool used() const { return used_; }
  const sc_core::sc_time& end() const { return end_; }

 private:
  int transport(protocol::MemoryRequest& request, bool counts) {
    sc_core::sc_time delay = start_;
    slice_.memory_out.blocking(request, delay);
    if (counts) {
      used_ = true;
      end_ = std::max(end_, delay);
    }
    return status_of(request);
  }

  L2Slice& slice_;
  sc_core::sc_time start_;
  sc_core::sc_time end_;
  bool waits_for_writes_;
  bool used_ = false;
};

void L2Slice::on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t, sc_core::sc_time& delay) {
  L2Access access;
  tlm::tlm_response_status status = decode(payload, map_, access);
  requests_.add();
  delay += tag_delay_;
  if (status == tlm::TLM_OK_RESPONSE) {
    if (direct_ != nullptr && direct_->any()) end_grant(access);
    if (changes_values(access.kind)) atomics_.add(values_of(access));
    const bool flushes = access.kind == L2Access::Kind::write_back;
    BlockingMemory memory(*this, delay + memory_delay_, flushes);
    status = static_cast<tlm::tlm_response_status>(core_.serve_now(access, memory));
    if (memory.used() && access.kind != L2Access::Kind::prefetch) delay = memory.end();
    // Requests of the other kind may be under way at the same time.
    if (core_.has_command() || !core_.served().empty()) domain_.schedule(now(), *this, kTidy);
  }
  delay += data_delay_;
  payload.set_response_status(status);
}

// Up to the end of the line.
unsigned L2Slice::on_debug(tlm::tlm_generic_payload& payload, std::uint32_t) {
  const std::uint64_t address = payload.get_address();
  const auto rest = static_cast<std::uint32_t>(arch::kLineBytes - address % arch::kLineBytes);
  const std::uint32_t bytes = std::min<std::uint32_t>(payload.get_data_length(), rest);
  if (bytes == 0 || payload.get_data_ptr() == nullptr || payload.get_command() == tlm::TLM_IGNORE_COMMAND) return 0;
  if (!map_.contains(address, bytes)) {
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return 0;
  }
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
  return payload.is_read() ? debug_read(payload, bytes) : debug_write(payload, bytes);
}

unsigned L2Slice::debug_read(tlm::tlm_generic_payload& payload, std::uint32_t bytes) {
  const std::uint64_t address = payload.get_address();
  const auto offset = static_cast<std::uint32_t>(address % arch::kLineBytes);
  protocol::MemoryRequest& request = pool_.acquire();
  request.aim(tlm::TLM_READ_COMMAND, address, bytes);
  request.set_data_ptr(request.data.data() + offset);
  std::uint32_t done = std::min(memory_out.debug(request), bytes);
  const LineMask newer = core_.overlay(address / arch::kLineBytes, request.data.data());
  while (done < bytes && newer.test(offset + done)) ++done;
  std::copy_n(request.get_data_ptr(), done, payload.get_data_ptr());
  request.release();
  return done;
}

// In memory, and wherever the slice has a copy: also where one is on its way to or from memory.
unsigned L2Slice::debug_write(tlm::tlm_generic_payload& payload, std::uint32_t bytes) {
  const std::uint64_t address = payload.get_address();
  const std::uint64_t line = address / arch::kLineBytes;
  const auto offset = static_cast<std::uint32_t>(address % arch::kLineBytes);
  const LineMask range = LineMask::range(offset, bytes);
  protocol::MemoryRequest& request = pool_.acquire();
  request.aim(tlm::TLM_WRITE_COMMAND, address, bytes);
  request.set_data_ptr(request.data.data() + offset);
  std::copy_n(payload.get_data_ptr(), bytes, request.get_data_ptr());
  const std::uint32_t done = std::min(memory_out.debug(request), bytes);
  const bool kept = core_.poke(line, request.data.data(), range, done == bytes);
  for (const Transfer& transfer : transfers_) {
    if (!kept || transfer.payload == nullptr || !transfer.command.is_write() || transfer.command.line != line) continue;
    copy_bytes(transfer.payload->data.data(), request.data.data(), range & LineMask::sectors(transfer.command.mask()));
  }
  request.release();
  return kept ? bytes : done;
}

}  // namespace heddle::memory
