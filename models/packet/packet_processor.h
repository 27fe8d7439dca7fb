// Packet processor: takes packets from user-mode queues in memory and carries them out (PKT-01 to PKT-12).
//
// This is the shell: sockets, and the way to memory. The stages are plain C++ behind packet/packet_router.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/brought_code.h"
#include "arch/kernel_object.h"
#include "arch/sm_limits.h"
#include "common/block.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "common/state.h"
#include "packet/packet_check.h"
#include "packet/packet_log.h"
#include "packet/packet_params.h"
#include "protocol/host_packet.h"
#include "protocol/memory_request.h"
#include "protocol/packet_copy.h"
#include "protocol/packet_task.h"

namespace heddle::packet {

class PacketRouter;

class PacketProcessor : public Block, public Saved {
 public:
  // `codes`, `brought` and `fit` must outlive it. `table_base`: physical address of the reference state tables, if they
  // lie in memory (PKT-11), a multiple of a line: packet::table_bytes() of them.
  PacketProcessor(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                  const PacketParams& params, const arch::SmLimits& limits, arch::CodeStore& codes,
                  arch::BroughtCode& brought, const FitCheck& fit, std::uint64_t table_base);
  ~PacketProcessor() override;

  PacketIn<protocol::QueueCommandPacket> command_in;  // from the host interface
  PacketOut<protocol::QueueEventPacket> event_out;
  PacketOut<protocol::DispatchPacket> dispatch_out;  // to task management, without limit (TSK-02)
  PacketIn<protocol::DispatchDonePacket> dispatch_done_in;
  PacketOut<protocol::CopyRequestPacket> copy_out;  // to the copy engines
  PacketIn<protocol::CopyDonePacket> copy_done_in;
  MemoryOut memory_out;                          // to the memory hub: unified addresses
  PacketIn<protocol::WrittenPacket> written_in;  // from memory: lines that were read with a watch

  void listen(PacketListener& listener);

  std::uint32_t queues() const;
  // Packets that have been taken and are not complete, in all queues.
  std::uint64_t open() const;
  // No packet inside, no request on its way. Queues may be open, and doorbells may have told of packets that are not
  // there.
  bool quiescent() const;
  void check_idle() override;

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() override;
  // Queues, and the reference state tables on the chip. Programs that entries name have to be there.
  void save(StateWriter& to) const override;
  void restore(StateReader& from) override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  class Memory;
  enum Event : std::uint32_t { kAnswer, kSend };

  std::unique_ptr<Memory> memory_;
  std::unique_ptr<PacketRouter> router_;
};

}  // namespace heddle::packet
