// Host interface: what the host sees of the device (HST-01, HST-02): registers and doorbells, the device memory
// aperture, the interrupt.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/block.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "host/host_params.h"
#include "host/register_file.h"
#include "protocol/host_packet.h"
#include "protocol/host_task.h"
#include "protocol/packet_copy.h"

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

class HostInterface : public Block {
 public:
  HostInterface(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const HostParams& params,
                const DeviceIdentity& identity, Device& device);
  ~HostInterface() override;

  using TargetSocket = tlm::tlm_target_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;
  // Registers and doorbells (host/register_table.h). Blocking, non-blocking, debug (which has no side effects).
  TargetSocket& bar0();
  // Device memory from address 0. Blocking: at once, with the latency as delay; non-blocking: through the memory hub as
  // everybody's requests; debug; DMI.
  TargetSocket& bar1();
  sc_core::sc_out<bool>& irq();  // level; may stay unbound
  sc_core::sc_in<bool>& rst();   // active high; may stay unbound

  PacketOut<protocol::QueueCommandPacket> command_out;  // to the packet processor
  PacketIn<protocol::QueueEventPacket> event_in;
  PacketOut<protocol::CopyRequestPacket> copy_out;  // to the copy engines
  PacketIn<protocol::CopyDonePacket> copy_done_in;
  PacketOut<protocol::SubcontextPacket> share_out;  // to task management; may stay unbound: changes are lost then
  MemoryOut memory_out;                             // to the memory hub

  // A kernel has faulted, whoever brought it: the interrupt `fault`, and FAULT_COUNT. (QueueEvent::fault counts in
  // QUEUE_FAULTS and raises the same interrupt.)
  void note_fault();
  // A copy has met an error, whoever sent it: the COPY_FAULT registers. The interrupt comes with the copy's own error.
  void note_copy_fault(const CopyFault& fault);

  // A change of how the machine is shared was refused: the SHARE_REFUSED registers.
  void note_share_refused(protocol::ShareRefusal why);

  bool idle() const;             // no request of the host is inside
  std::size_t payloads() const;  // of its own that the memory hub has
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  class Engine;

  void before_end_of_elaboration() override;
  void drive_irq();
  void watch_reset();

  std::unique_ptr<Engine> engine_;
};

}  // namespace heddle::host
