#include "vp/guest_memory.h"

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
  if (range.offset > size || range.bytes > size - range.offset) fail("its file is shorter");
  mapped_ = static_cast<std::size_t>(range.bytes) + before_;
  base_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                 static_cast<off_t>(range.offset - before_));
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

tlm::tlm_response_status GuestMemory::move(tlm::tlm_generic_payload& payload) {
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
    std::memcpy(data, bytes, length);
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
