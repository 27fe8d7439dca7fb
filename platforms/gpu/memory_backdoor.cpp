#include "gpu/memory_backdoor.h"

#include <algorithm>
#include <optional>
#include <set>
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
  for_each_block(address, bytes, arch::kSectorBytes, [this, &any](std::uint64_t at, std::uint64_t) {
    const std::uint32_t sector = 1U << (at % arch::kLineBytes / arch::kSectorBytes);
    any = any || memory_.slices[memory_.map.slice_of(at)]->core().poisoned(at / arch::kLineBytes, sector);
  });
  return any;
}

bool MemoryBackdoor::any_poisoned() const {
  return std::any_of(memory_.slices.begin(), memory_.slices.end(),
                     [](const auto& slice) { return slice->core().has_poison(); });
}

// Written pages, and those of which the L2 has what nobody has written to memory yet.
std::vector<std::uint64_t> MemoryBackdoor::pages() {
  Storage& storage = memory_.hbm->storage();
  std::set<std::uint64_t> dirty;
  for (const auto& slice : memory_.slices) {
    const memory::L2Array& array = slice->core().array();
    for (std::uint32_t i = array.next_dirty(0); i != memory::L2Array::kNone; i = array.next_dirty(i + 1)) {
      dirty.insert(array.line_at(i) * arch::kLineBytes / kPageBytes * kPageBytes);
    }
  }
  std::vector<std::uint64_t> found;
  std::vector<std::uint8_t> bytes(kPageBytes);
  for (std::uint64_t at = 0; at < storage.bytes(); at += kPageBytes) {
    const bool newer = dirty.count(at) > 0;
    const std::uint64_t length = std::min(kPageBytes, storage.bytes() - at);
    if (!newer && storage.untouched(at, length)) continue;
    if (newer) {
      HEDDLE_CHECK(read(at, bytes.data(), length), "a page of memory cannot be read");
    } else {
      storage.read(at, bytes.data(), length);
    }
    const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(length);
    if (std::any_of(bytes.begin(), end, [](std::uint8_t byte) { return byte != 0; })) found.push_back(at);
  }
  return found;
}

void MemoryBackdoor::clear() { memory_.hbm->storage().fill(0, 0, memory_.hbm->storage().bytes()); }

// No slice may keep anything of the page: whoever has the pointer would not see it change.
bool MemoryBackdoor::direct(std::uint64_t address, std::uint8_t*& pointer, std::uint64_t& first, std::uint64_t& last) {
  if (memory_.hbm == nullptr || !memory_.map.contains(address, 1)) return false;
  memory::DirectMemory& direct = memory_.hbm->direct();
  std::optional<memory::DirectMemory::Range> piece = direct.granted(address);
  while (!piece) {
    const std::uint64_t bytes = direct.piece_bytes(address);
    const memory::DirectMemory::Range wanted = direct.piece_of(address, bytes);
    if (let_go(wanted.first, wanted.last)) {
      piece = wanted;
    } else {
      direct.refuse(address);
      if (bytes == memory::DirectMemory::kLeastBytes) return false;
    }
  }
  first = piece->first;
  last = piece->last;
  pointer = direct.grant(*piece);
  return true;
}

bool MemoryBackdoor::let_go(std::uint64_t first, std::uint64_t last) {
  const auto& slices = memory_.slices;
  if (std::any_of(slices.begin(), slices.end(), [&](const auto& slice) { return slice->busy_with(first, last); })) {
    return false;
  }
  return std::all_of(slices.begin(), slices.end(),
                     [&](const auto& slice) { return slice->clean_invalidate(first, last); });
}

bool MemoryBackdoor::grants_direct() const { return memory_.hbm != nullptr; }

void MemoryBackdoor::on_invalidate(std::function<void(std::uint64_t, std::uint64_t)> invalidate) {
  if (memory_.hbm != nullptr) memory_.hbm->direct().on_end(std::move(invalidate));
}

}  // namespace heddle::gpu
