// How the host reaches the machine: the registers of the device, memory of the host's and the device's at unified
// addresses, and the bus to device memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include <tlm>

#include "arch/task_record.h"
#include "arch/tmdq.h"
#include "common/domain.h"
#include "common/index_pool.h"
#include "common/link_network.h"
#include "common/memory_socket.h"
#include "host/boundary_params.h"
#include "host/host_memory.h"
#include "protocol/memory_client.h"

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

// The host's accesses to device memory over its bus: the latency and bandwidth of the link there and back, and what the
// device takes in between.
class HostBus : private EventHandler {
 public:
  class Listener {
   public:
    // `old`: of an atomic, what was there before.
    virtual void on_bus_answer(std::uint32_t token, std::uint64_t old) = 0;

   protected:
    ~Listener() = default;
  };
  // `domain` has a clock of 1 GHz.
  HostBus(Domain& domain, const host::HubParams& link, Listener& listener);

  MemoryOut memory_out;  // to the aperture of the device

  using Line = std::array<std::uint8_t, arch::kRecordBytes>;
  void write(std::uint64_t address, const Line& line, std::uint32_t token);
  // A write, an add or an exchange.
  void step(const arch::MemoryStep& step, std::uint32_t token);
  // Nobody waits for its answer.
  void post(const arch::MemoryStep& step) { send({step, 0, {}, std::nullopt, 0}); }

  Cycle latency() const { return latency_; }  // one way
  void reset();

 private:
  enum Event : std::uint32_t { kArrive, kAnswered, kClient, kSend };
  struct Access {
    arch::MemoryStep step;      // none: a line is written
    std::uint64_t address = 0;  // of the line
    Line line{};
    std::optional<std::uint32_t> token;
    std::uint64_t old = 0;
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return "the host's bus"; }
  void send(const Access& access);
  void arrive(std::uint32_t number);
  void answered(std::uint64_t argument);

  Domain& domain_;
  const Cycle latency_;
  Listener& listener_;
  protocol::MemoryClient<std::uint32_t> client_;
  LinkPace out_;
  LinkPace back_;
  IndexPool<Access> accesses_;
};

}  // namespace heddle::replay
