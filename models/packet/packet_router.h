// The packet processor without its sockets: the stages, who hands packets on to whom, and the way back for answers of
// memory. Plain C++.
//
//   RingReader -> HeadOfQueue -> Decoder -> Dispatcher (kernels) ---> Completion -> HeadOfQueue::retire()
//                                   |            \-> OtherPackets --/
//                            ReferenceBuffer
//
// QueueControl takes the host's commands and stops queues; whatever stage finds an error tells it.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "packet/completion.h"
#include "packet/decoder.h"
#include "packet/dispatcher.h"
#include "packet/head_of_queue.h"
#include "packet/other_packets.h"
#include "packet/queue_control.h"
#include "packet/reference_buffer.h"
#include "packet/ring_reader.h"

namespace heddle::packet {

class PacketRouter final : private arch::CodeUser {
 public:
  // What it is made for: a machine, and the way out. All of it must outlive the router.
  struct Machine {
    Timebase& timebase;
    Nanoseconds clock;
    const arch::SmLimits& limits;
    arch::CodeStore& codes;
    arch::BroughtCode& brought;
    const FitCheck& fit;
    std::uint64_t table_base = 0;  // as PacketProcessor has it
    MemoryPort& memory;
    PacketSender<protocol::QueueEventPacket>& host;
    PacketSender<protocol::DispatchPacket>& tasks;
    PacketSender<protocol::CopyRequestPacket>& copies;
  };

  // `name`: for messages; `path`: of the statistics, below the device's prefix.
  PacketRouter(const char* name, const std::string& path, const PacketParams& params, const Machine& machine);
  PacketRouter(const PacketRouter&) = delete;
  PacketRouter& operator=(const PacketRouter&) = delete;

  // What comes in over sockets goes straight to its stage.
  QueueControl& queue_control() { return control_; }
  Dispatcher& dispatcher() { return dispatcher_; }
  OtherPackets& other_packets() { return others_; }
  // From memory.
  void on_answer(const MemoryAnswer& answer);

  void listen(PacketListener& listener) { reporter_.listen(listener); }
  std::uint32_t queues() const { return queues_.count(); }
  std::uint64_t open() const { return reader_.open_packets(); }
  bool quiescent() const { return reader_.idle(); }
  void reset();
  void save(StateWriter& to) const;
  void restore(StateReader& from);
  void collect_waits(WaitGraph& graph) const;

 private:
  void answer_packet(const MemoryAnswer& answer);
  void mark_codes(std::set<std::uint32_t>& used) const override;

  PacketTable packets_;
  QueueTable queues_;
  QueueMemory memory_;
  PacketReporter reporter_;
  PacketCircuit circuit_;
  const StageContext context_;
  KernelValidator validator_;
  ReferenceBuffer tables_;

  RingReader reader_;
  HeadOfQueue heads_;
  Decoder decoder_;
  Dispatcher dispatcher_;
  OtherPackets others_;
  Completion completion_;
  QueueControl control_;
};

}  // namespace heddle::packet
