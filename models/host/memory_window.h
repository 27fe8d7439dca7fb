// Device memory as the CPU sees it without waiting: blocking and debug accesses to the aperture, and direct pointers
// (DMI, HST-02).
#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include <tlm>

#include "common/stats.h"
#include "host/boundary_socket.h"

namespace heddle::host {

// The device behind the boundary, as far as its sockets need it at once.
class Device {
 public:
  // Device memory, newest bytes first; no time, no effect on anything else. False: outside memory.
  virtual bool read_memory(std::uint64_t address, void* to, std::uint64_t bytes) = 0;
  virtual bool write_memory(std::uint64_t address, const void* from, std::uint64_t bytes) = 0;
  // A pointer to bytes [first, last] around `address`, good until `invalidate` is called with a range that touches it.
  // False: not now (the machine works on them), or not at all (attached memory).
  virtual bool direct_memory(std::uint64_t address, std::uint8_t*& pointer, std::uint64_t& first,
                             std::uint64_t& last) = 0;
  virtual bool grants_direct() const = 0;  // false: direct_memory() never succeeds
  // Some of these bytes are corrupt (an uncorrectable error).
  virtual bool corrupt_memory(std::uint64_t address, std::uint64_t bytes) const = 0;
  virtual void on_invalidate(std::function<void(std::uint64_t first, std::uint64_t last)> invalidate) = 0;
  // Back to the state after elaboration; resets the domain, and with it the host interface. Called outside the domain's
  // events: from a process of the host interface or from inside a blocking access of the host.
  virtual void reset_device() = 0;
  // Nothing of before the last reset is out on the host's bus any more.
  virtual bool settled() const = 0;

 protected:
  ~Device() = default;
};

class MemoryWindow {
 public:
  struct Counters {
    Counter& accesses;
    Counter& bytes;
  };
  // `size` bytes of memory, on the CPU's bus from `base` on; `latency` of an access. Grants that end are told to
  // `socket`. All references must outlive it.
  MemoryWindow(Device& device, BoundarySocket& socket, std::uint64_t base, std::uint64_t size,
               const sc_core::sc_time& latency, const Counters& counters);

  // An access of any kind has come.
  void count(const tlm::tlm_generic_payload& payload) {
    counters_.accesses.add();
    counters_.bytes.add(payload.get_data_length());
  }
  tlm::tlm_response_status access(tlm::tlm_generic_payload& payload);
  unsigned debug(tlm::tlm_generic_payload& payload);
  // `refusing`: nothing is granted now.
  bool grant(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi, bool refusing);

 private:
  void on_invalidate(std::uint64_t first, std::uint64_t last);

  Device& device_;
  BoundarySocket& socket_;
  const std::uint64_t base_;
  const std::uint64_t size_;
  const sc_core::sc_time latency_;
  Counters counters_;
  std::set<std::uint64_t> granted_bases_;  // with which direct access was granted
  bool refused_ = false;                   // the last time that somebody asked for it
  sc_core::sc_time refused_at_;
};

}  // namespace heddle::host
