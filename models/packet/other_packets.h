// Packets without kernels, beside the dispatcher: barrier packets poll the signals that they depend on, agent packets
// go to the host, vendor packets copy, fill or hold.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "packet/packet_reporter.h"
#include "packet/reference_buffer.h"
#include "protocol/packet_copy.h"

namespace heddle::packet {

class Decoder;
class HeadOfQueue;
class OtherPackets;
class RingReader;

// The life of queues: commands of the host, errors that stop a queue (PKT-09), and the end of a queue that is closed
// (PKT-04).
class QueueControl final : public QueueSupervisor {
 public:
  struct Neighbours {
    RingReader& reader;
    HeadOfQueue& heads;
    Decoder& decoder;
    OtherPackets& others;
    ReferenceBuffer& tables;
  };

  QueueControl(const StageContext& context, const Neighbours& to) : context_(context), to_(to) {}

  // From the host interface.
  void on_command(const protocol::QueueCommandPacket& command, std::uint32_t);
  void fail(std::uint32_t queue, std::uint64_t index, std::uint32_t kernel, const arch::HsaResult& result) override;
  void try_close(std::uint32_t queue) override;
  void collect_waits(WaitGraph& graph, std::uint32_t queue) const;

 private:
  void open(std::uint32_t queue, const protocol::QueueSetup& setup);
  void close(std::uint32_t queue);
  void tell_state(std::uint32_t queue, arch::HsaStatus status, std::uint64_t index, std::uint32_t kernel = 0);

  const StageContext& context_;
  const Neighbours to_;
};

class Completion;
class Dispatcher;
class HeadOfQueue;
class RingReader;

class OtherPackets final : public PipelineStage {
 public:
  // A packet that nothing holds back any more goes on at the dispatcher's acquire().
  struct Neighbours {
    RingReader& reader;
    HeadOfQueue& heads;
    Dispatcher& dispatcher;
    Completion& completion;
    QueueSupervisor& supervisor;
  };

  OtherPackets(const StageContext& context, const Neighbours& to, PacketSender<protocol::CopyRequestPacket>& copies);

  // A barrier packet polls its dependency signals until they let it go on.
  void await_signals(Packet& packet);
  // The host holds an agent packet of the queue: another one waits for it.
  bool host_is_busy(std::uint32_t queue) const { return held_[queue] != nullptr; }
  static void await_agent(Packet& packet) { packet.phase = Phase::agent; }
  // The acquire fence is done.
  void launch(Packet& packet);

  // The host is done with the agent packet that it holds, if it holds one. `status` is not 0: with an error.
  void agent_done(std::uint32_t queue, std::uint32_t status);
  // From copy engines.
  void on_copy_done(const protocol::CopyDonePacket& done, std::uint32_t);
  // The value of a dependency signal.
  void on_answer(Packet& packet, const MemoryAnswer& answer);
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset();
  void collect_waits(WaitGraph& graph, const Packet& packet) const;

 private:
  enum Event : std::uint32_t { kPollSignals, kHoldEnds };  // argument: a packet

  void poll_signals(Packet& packet);
  void evaluate_signals(Packet& packet);
  void satisfied(Packet& packet);
  void launch_agent(Packet& packet);
  void launch_vendor(Packet& packet);
  void end(Packet& packet);
  void collect_signals(WaitGraph& graph, const Packet& packet) const;
  void collect_owners(WaitGraph& graph, const std::string& text, std::uint64_t address) const;

  const Neighbours to_;
  PacketSender<protocol::CopyRequestPacket>& copies_;
  std::vector<Packet*> held_;  // by queue: the agent packet that the host holds
  std::uint32_t next_tag_ = 0;
  std::unordered_map<std::uint32_t, Packet*> copying_;  // by tag
};

}  // namespace heddle::packet
