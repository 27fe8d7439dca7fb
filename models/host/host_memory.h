// A memory of the host: a target for the DMA initiators of any number of devices. For scenarios, tests and small
// virtual platforms; a platform with a memory of its own does not need it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <tlm>

namespace heddle::host {

// `ports` target sockets that see the same bytes, from address 0 to `bytes`. Base protocol: blocking with the latency
// as delay, non-blocking with BEGIN_RESP after it, debug; errors as responses. No DMI: devices share it. Knows the
// protocol's extension: atomics and reductions are carried out as one (protocol/memory_request.h), and a request for a
// direct pointer that brings an atomic gets `carried_out` for an answer.
class HostMemory : public sc_core::sc_module {
 public:
  HostMemory(const sc_core::sc_module_name& name, std::uint64_t bytes, const sc_core::sc_time& latency,
             std::uint32_t ports);
  ~HostMemory() override;

  tlm::tlm_target_socket<>& port(std::uint32_t index);
  std::uint64_t bytes() const;
  // Without time. False: outside memory.
  bool read(std::uint64_t address, void* to, std::uint64_t bytes) const;
  bool write(std::uint64_t address, const void* from, std::uint64_t bytes);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle::host
