// The memory of a guest: ranges of physical addresses that lie in files which QEMU shares, as a target for the DMA of a
// device.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <systemc>
#include <tlm>
#include <tlm_utils/simple_target_socket.h>

#include "vp/proxy_message.h"

namespace heddle::protocol {
struct MemoryExtension;
}

namespace heddle::vp {

// Pages of a file in our own address space; they are given back at its end.
class SharedPages {
 public:
  // Throws ProxyError if they cannot be had. The file descriptor stays the caller's.
  SharedPages(const GuestRange& range, int file);
  SharedPages(SharedPages&& other) noexcept;
  SharedPages& operator=(SharedPages&& other) noexcept;
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;
  ~SharedPages();

  // The bytes from a guest's address on; null: they do not all lie in this range.
  std::uint8_t* at(std::uint64_t address, std::uint64_t bytes) const;

 private:
  GuestRange range_;
  void* base_ = nullptr;
  std::size_t mapped_ = 0;
  std::size_t before_ = 0;  // bytes of the first page that lie before the range
};

// Base protocol, blocking and debug, without direct pointers: the guest's memory map changes as it likes. A latency of
// 100 ns. Aligned words of 64 bits are moved as one, and the atomics of the project's extension
// (protocol/memory_request.h) are carried out as one, for the guest's processors as well.
class GuestMemory : public sc_core::sc_module {
 public:
  // `allowed`: whether the device may reach memory at all (bus mastering); asked at every access.
  GuestMemory(const sc_core::sc_module_name& name, std::function<bool()> allowed);

  // All of the guest's memory from now on. `files`: one for each range; they stay the caller's. Throws ProxyError.
  void map(const std::vector<GuestRange>& ranges, const std::vector<int>& files);

  // Bytes that devices have moved, and accesses that were refused.
  std::uint64_t bytes_moved() const { return bytes_moved_; }
  std::uint64_t refused() const { return refused_; }

  tlm_utils::simple_target_socket<GuestMemory> socket;

 private:
  void transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  unsigned debug(tlm::tlm_generic_payload& payload);
  std::uint8_t* find(std::uint64_t address, std::uint64_t bytes) const;
  tlm::tlm_response_status move(tlm::tlm_generic_payload& payload);
  tlm::tlm_response_status change(protocol::MemoryExtension& atomic, std::uint64_t address);
  bool direct(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi);

  std::function<bool()> allowed_;
  std::vector<SharedPages> pages_;
  std::uint64_t bytes_moved_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace heddle::vp
