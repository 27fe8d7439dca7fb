#include "vp/guest_memory.h"

#include <cerrno>
#include <cstring>
#include <limits>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "arch/memory_op.h"
#include "protocol/memory_request.h"

namespace heddle::vp {

SharedPages::SharedPages(const GuestRange& range, int file) : range_(range) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  before_ = static_cast<std::size_t>(range.offset % page);
  const auto fail = [&range](const char* why) {
    throw ProxyError(fmt::format("memory of the guest at {:#x} cannot be mapped: {}", range.address, why));
  };
  struct stat status {};
  if (::fstat(file, &status) != 0) fail(std::strerror(errno));
  const auto size = static_cast<std::uint64_t>(status.st_size);
  // Beyond the file's end there would be a signal instead of an error.
  if (range.address % 8 != range.offset % 8) fail("its words are not those of its file");
  if (range.offset > size || range.bytes > size - range.offset) fail("its file is shorter");
  mapped_ = static_cast<std::size_t>(range.bytes) + before_;
  base_ =
      ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(range.offset - before_));
  if (base_ == MAP_FAILED) {
    base_ = nullptr;
    fail(std::strerror(errno));
  }
}

SharedPages::SharedPages(SharedPages&& other) noexcept
    : range_(other.range_),
      base_(std::exchange(other.base_, nullptr)),
      mapped_(other.mapped_),
      before_(other.before_) {}

SharedPages& SharedPages::operator=(SharedPages&& other) noexcept {
  std::swap(range_, other.range_);
  std::swap(base_, other.base_);
  std::swap(mapped_, other.mapped_);
  std::swap(before_, other.before_);
  return *this;
}

SharedPages::~SharedPages() {
  if (base_ != nullptr) ::munmap(base_, mapped_);
}

std::uint8_t* SharedPages::at(std::uint64_t address, std::uint64_t bytes) const {
  if (address < range_.address || address - range_.address > range_.bytes) return nullptr;
  const std::uint64_t offset = address - range_.address;
  if (bytes > range_.bytes - offset) return nullptr;
  return static_cast<std::uint8_t*>(base_) + before_ + offset;
}

GuestMemory::GuestMemory(const sc_core::sc_module_name& name, std::function<bool()> allowed)
    : sc_core::sc_module(name), socket("socket"), allowed_(std::move(allowed)) {
  socket.register_b_transport(this, &GuestMemory::transport);
  socket.register_transport_dbg(this, &GuestMemory::debug);
  socket.register_get_direct_mem_ptr(this, &GuestMemory::direct);
}

void GuestMemory::map(const std::vector<GuestRange>& ranges, const std::vector<int>& files) {
  std::vector<SharedPages> pages;
  for (std::size_t i = 0; i < ranges.size(); ++i) pages.emplace_back(ranges[i], files[i]);
  pages_ = std::move(pages);
}

std::uint8_t* GuestMemory::find(std::uint64_t address, std::uint64_t bytes) const {
  for (const SharedPages& pages : pages_) {
    if (std::uint8_t* found = pages.at(address, bytes); found != nullptr) return found;
  }
  return nullptr;
}

namespace {

// Changes a word of the guest's as one; returns what was there.
template <class Word>
std::uint64_t change_word(std::uint8_t* bytes, const protocol::MemoryExtension& atomic,
                          const protocol::AtomicLane& lane) {
  auto* const shared = reinterpret_cast<Word*>(bytes);
  Word old = __atomic_load_n(shared, __ATOMIC_ACQUIRE);
  Word wanted = 0;
  do {
    wanted = static_cast<Word>(arch::atomic_result(atomic.atomic, atomic.type, old, lane.operand, lane.compare));
  } while (!__atomic_compare_exchange_n(shared, &old, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  return old;
}

bool is_atomic(const protocol::MemoryExtension* extension) {
  return extension != nullptr &&
         (extension->action == protocol::MemoryAction::atomic || extension->action == protocol::MemoryAction::reduce);
}

}  // namespace

tlm::tlm_response_status GuestMemory::change(protocol::MemoryExtension& atomic, std::uint64_t address) {
  if (atomic.lanes > protocol::AtomicLanes::kMost || !arch::atomic_exists(atomic.atomic, atomic.type)) {
    return tlm::TLM_COMMAND_ERROR_RESPONSE;
  }
  const std::uint32_t bytes = arch::bytes_of(atomic.type);
  if (bytes != 4 && bytes != 8) return tlm::TLM_COMMAND_ERROR_RESPONSE;
  const std::uint64_t line = arch::line_of(address);
  if (!allowed_()) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  for (std::uint32_t i = 0; i < atomic.lanes; ++i) {
    const std::uint32_t offset = atomic.lane[i].offset;
    if (offset % bytes != 0 || offset + bytes > arch::kLineBytes) return tlm::TLM_BURST_ERROR_RESPONSE;
    if (find(line + offset, bytes) == nullptr) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  }
  for (std::uint32_t i = 0; i < atomic.lanes; ++i) {
    protocol::AtomicLane& lane = atomic.lane[i];
    std::uint8_t* const word = find(line + lane.offset, bytes);
    const std::uint64_t old =
        bytes == 8 ? change_word<std::uint64_t>(word, atomic, lane) : change_word<std::uint32_t>(word, atomic, lane);
    if (atomic.action == protocol::MemoryAction::atomic) lane.old = old;
  }
  return tlm::TLM_OK_RESPONSE;
}

// None are granted; but whoever asks with an atomic wants to know whether it would be carried out as one.
bool GuestMemory::direct(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi) {
  protocol::MemoryExtension* const asked = protocol::extension_of(payload);
  if (is_atomic(asked)) asked->carried_out = true;
  dmi.init();
  dmi.set_start_address(payload.get_address());
  dmi.set_end_address(payload.get_address());
  return false;
}

tlm::tlm_response_status GuestMemory::move(tlm::tlm_generic_payload& payload) {
  protocol::MemoryExtension* const extension = protocol::extension_of(payload);
  if (is_atomic(extension)) {
    extension->carried_out = true;
    return change(*extension, payload.get_address());
  }
  if (!payload.is_read() && !payload.is_write()) return tlm::TLM_COMMAND_ERROR_RESPONSE;
  const unsigned length = payload.get_data_length();
  if (length == 0 || payload.get_streaming_width() < length) return tlm::TLM_BURST_ERROR_RESPONSE;
  if (payload.get_byte_enable_ptr() != nullptr) return tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE;
  std::uint8_t* const bytes = allowed_() ? find(payload.get_address(), length) : nullptr;
  if (bytes == nullptr) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  // Words are moved as one: the guest's processors look at them meanwhile.
  const auto aligned = reinterpret_cast<std::uintptr_t>(bytes) % 8 == 0;
  std::uint8_t* const data = payload.get_data_ptr();
  if (length == 8 && aligned) {
    std::uint64_t word = 0;
    auto* const shared = reinterpret_cast<std::uint64_t*>(bytes);
    if (payload.is_read()) {
      word = __atomic_load_n(shared, __ATOMIC_ACQUIRE);
      std::memcpy(data, &word, 8);
    } else {
      std::memcpy(&word, data, 8);
      __atomic_store_n(shared, word, __ATOMIC_RELEASE);
    }
  } else if (payload.is_read()) {
    // A packet's header is looked at before the rest of it, and written behind it.
    if (length > 8 && aligned) {
      const std::uint64_t first = __atomic_load_n(reinterpret_cast<std::uint64_t*>(bytes), __ATOMIC_ACQUIRE);
      std::memcpy(data + 8, bytes + 8, length - 8);
      std::memcpy(data, &first, 8);
    } else {
      std::memcpy(data, bytes, length);
    }
  } else {
    std::memcpy(bytes, data, length);
  }
  return tlm::TLM_OK_RESPONSE;
}

void GuestMemory::transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  const tlm::tlm_response_status status = move(payload);
  payload.set_response_status(status);
  delay += sc_core::sc_time(100, sc_core::SC_NS);
  if (status == tlm::TLM_OK_RESPONSE) {
    bytes_moved_ += payload.get_data_length();
  } else {
    ++refused_;
  }
}

unsigned GuestMemory::debug(tlm::tlm_generic_payload& payload) {
  if (move(payload) != tlm::TLM_OK_RESPONSE) return 0;
  bytes_moved_ += payload.get_data_length();
  return payload.get_data_length();
}

}  // namespace heddle::vp
