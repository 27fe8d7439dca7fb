#include "gpu/memory_backdoor.h"

#include <utility>

#include "arch/race_checker.h"
#include "common/bits.h"
#include "common/memory_socket.h"
#include "gpu/gpc_tree.h"

namespace heddle::gpu {

// Slices take no more than a line at once. Before simulation links are not there yet, and caches are empty.
bool MemoryBackdoor::move(tlm::tlm_command command, std::uint64_t address, std::uint8_t* data, std::uint64_t bytes) {
  if (!memory_.map.contains(address, bytes)) return false;
  if (!sc_core::sc_start_of_simulation_invoked()) {
    if (memory_.hbm == nullptr) return false;
    if (command == tlm::TLM_READ_COMMAND) {
      memory_.hbm->storage().read(address, data, bytes);
    } else {
      memory_.hbm->storage().write(address, data, bytes);
    }
    return true;
  }
  tlm::tlm_generic_payload payload;
  payload.set_command(command);
  bool complete = true;
  for_each_block(address, bytes, arch::kLineBytes, [&](std::uint64_t at, std::uint64_t count) {
    if (!complete) return;
    const auto length = static_cast<unsigned>(count);
    payload.set_address(at);
    payload.set_data_ptr(data + (at - address));
    payload.set_data_length(length);
    payload.set_streaming_width(length);
    complete = link_->debug(payload) == length;
  });
  return complete;
}

bool MemoryBackdoor::read(std::uint64_t address, void* to, std::uint64_t bytes) {
  return move(tlm::TLM_READ_COMMAND, address, static_cast<std::uint8_t*>(to), bytes);
}

bool MemoryBackdoor::write(std::uint64_t address, const void* from, std::uint64_t bytes) {
  // NOLINTNEXTLINE(*-const-cast): a payload's data pointer is not const; a write only reads through it
  auto* data = const_cast<std::uint8_t*>(static_cast<const std::uint8_t*>(from));
  if (races_ != nullptr) races_->forget(address, bytes);
  return move(tlm::TLM_WRITE_COMMAND, address, data, bytes);
}

bool MemoryBackdoor::poison(std::uint64_t address, std::uint64_t bytes) {
  if (!memory_.map.contains(address, bytes)) return false;
  for_each_block(address, bytes, arch::kLineBytes, [this](std::uint64_t at, std::uint64_t count) {
    memory_.slices[memory_.map.slice_of(at)]->poison(at, count);
  });
  return true;
}

bool MemoryBackdoor::poisoned(std::uint64_t address, std::uint64_t bytes) const {
  bool any = false;
  for_each_block(address, bytes, arch::kLineBytes, [this, &any](std::uint64_t at, std::uint64_t count) {
    any = any || memory_.slices[memory_.map.slice_of(at)]->poisoned(at, count);
  });
  return any;
}

// No slice may keep anything of the page: whoever has the pointer would not see it change.
bool MemoryBackdoor::direct(std::uint64_t address, std::uint8_t*& pointer, std::uint64_t& first, std::uint64_t& last) {
  if (memory_.hbm == nullptr || !memory_.map.contains(address, 1)) return false;
  memory::DirectMemory& direct = memory_.hbm->direct();
  const memory::DirectMemory::Range page = direct.page_of(address);
  first = page.first;
  last = page.last;
  for (const auto& slice : memory_.slices) {
    if (!slice->clean_invalidate(first, last)) return false;
  }
  pointer = direct.grant(address);
  return true;
}

bool MemoryBackdoor::grants_direct() const { return memory_.hbm != nullptr; }

void MemoryBackdoor::on_invalidate(std::function<void(std::uint64_t, std::uint64_t)> invalidate) {
  if (memory_.hbm != nullptr) memory_.hbm->direct().on_end(std::move(invalidate));
}

}  // namespace heddle::gpu
