// How whoever submits by packets reaches the machine: the registers of the device, and memory of the host's and the
// device's at unified addresses.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include <tlm>

#include "common/domain.h"
#include "host/host_memory.h"

namespace heddle::replay {

// Device memory, without time.
struct DeviceAccess {
  std::function<bool(std::uint64_t address, void* to, std::uint64_t bytes)> read;
  std::function<bool(std::uint64_t address, const void* from, std::uint64_t bytes)> write;
};

// Bytes at unified addresses (arch/address_map.h), without time.
class UnifiedMemory {
 public:
  // `host` must outlive it.
  UnifiedMemory(host::HostMemory& host, DeviceAccess device) : host_(host), device_(std::move(device)) {}

  // All of it lies in memory; anything else is a mistake of the submitter.
  void write(std::uint64_t address, const void* from, std::uint64_t bytes);
  std::uint64_t word(std::uint64_t address);  // of 8 bytes

 private:
  host::HostMemory& host_;
  DeviceAccess device_;
};

// Registers answer at once; the host does not wait for the annotated delay, since its writes are posted.
class RegisterPort : private tlm::tlm_bw_transport_if<> {
 public:
  explicit RegisterPort(Domain& domain);

  tlm::tlm_initiator_socket<> socket;  // to bar0

  void put(std::uint64_t offset, std::uint64_t value, unsigned bytes) {
    access(tlm::TLM_WRITE_COMMAND, offset, value, bytes);
  }
  std::uint64_t get(std::uint64_t offset, unsigned bytes) { return access(tlm::TLM_READ_COMMAND, offset, 0, bytes); }

 private:
  std::uint64_t access(tlm::tlm_command command, std::uint64_t offset, std::uint64_t value, unsigned bytes);
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload&, tlm::tlm_phase&, sc_core::sc_time&) override {
    return tlm::TLM_ACCEPTED;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

  Domain& domain_;
};

}  // namespace heddle::replay
