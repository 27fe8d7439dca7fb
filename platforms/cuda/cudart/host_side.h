// The host as the GPU sees it: packets that are sent at times of their own, and memory.
#pragma once

#include <deque>
#include <functional>

#include <systemc>
#include <tlm>

#include "common/block.h"
#include "common/packet_socket.h"
#include "host/delayed_target.h"
#include "protocol/host_task.h"

namespace heddle::cuda {

// Its end of the GPU's task management: it sends packets, and hears what becomes of the operations. It runs in a domain
// of its own, with a clock of 1 GHz: a cycle is a nanosecond.
class HostPort : public sc_core::sc_module, private EventHandler {
 public:
  HostPort(const sc_core::sc_module_name& name, Observation& own);

  Domain domain;
  PacketOut<protocol::SubmitPacket> submit_out;
  PacketIn<protocol::DonePacket> done_in;

  // Leaves then, or once the queue of the GPU has room; in the order of the calls. Between two calls of sc_start.
  void send(const protocol::SubmitPacket& packet, Cycle when);
  void on_end(std::function<void(const protocol::DonePacket&)> listener) { listener_ = std::move(listener); }
  bool all_sent() const { return waiting_.empty(); }

 private:
  struct Item {
    protocol::SubmitPacket packet;
    Cycle when = 0;
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_done(const protocol::DonePacket& done, std::uint32_t) { listener_(done); }
  void on_credit(std::uint32_t) { submit(); }
  void submit();
  void schedule_next();

  std::deque<Item> waiting_;
  bool scheduled_ = false;
  std::function<void(const protocol::DonePacket&)> listener_;
};

// The memory of the process as the host's memory: bus address a is the byte at virtual address a. A target for the DMA
// initiator of one device. Whoever asks for what the process has not mapped ends it, as a stray pointer does elsewhere.
// Direct pointers to everything. An address outside of what a process can have is an address error.
class ProcessMemory : public host::DelayedTarget {
 public:
  ProcessMemory(const sc_core::sc_module_name& name, const sc_core::sc_time& latency)
      : host::DelayedTarget(name, latency) {}

 private:
  void carry_out(tlm::tlm_generic_payload& payload) override;
  bool get_direct_mem_ptr(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi) override;
  unsigned int transport_dbg(tlm::tlm_generic_payload& payload) override;
};

}  // namespace heddle::cuda
