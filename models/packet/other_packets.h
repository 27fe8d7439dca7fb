// Packets without kernels, beside the dispatcher: barrier packets wait for the signals that they depend on, agent
// packets go to the host, vendor packets copy, fill or hold.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "arch/idle_account.h"
#include "packet/completion.h"
#include "packet/packet_reporter.h"
#include "protocol/memory_request.h"
#include "protocol/packet_copy.h"

namespace heddle::packet {

class Dispatcher;
class HeadOfQueue;
class RingReader;

// Packets without kernels, between the dispatcher and completion.
class OtherPackets final : public PipelineStage, public SignalListener {
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

  // A barrier packet waits until its dependency signals let it go on. Memory says when one of them in device memory
  // changes, and completion when this device has changed one of the host's. What others do there, nobody says: signals
  // of the host's memory are looked at again from time to time.
  void await_signals(Packet& packet);
  // The host holds as many agent packets of the queue as it can: another one waits.
  bool host_is_busy(std::uint32_t queue) const { return held_[queue].size() >= params().agents; }
  static void await_agent(Packet& packet) { packet.phase = Phase::agent; }
  // The acquire fence is done.
  void launch(Packet& packet);
  // The packet's queue is inactivated: it ends, unless it is a copy, which ends as usual.
  void abort(Packet& packet);

  // The host is done with that agent packet, if it holds it. `status` is not 0: with an error.
  void agent_done(std::uint32_t queue, std::uint64_t index, std::uint32_t status);
  // From copy engines.
  void on_copy_done(const protocol::CopyDonePacket& done, std::uint32_t);
  // From memory: a line that a barrier packet has read may have changed.
  void on_written(const protocol::WrittenPacket& written, std::uint32_t);
  void signal_changed(std::uint64_t address) override;
  // The value of a dependency signal.
  void on_answer(Packet& packet, const MemoryAnswer& answer);
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset();
  void collect_waits(WaitGraph& graph, const Packet& packet) const;

 private:
  enum Event : std::uint32_t { kPollSignals, kHoldEnds };  // argument: a packet

  void look_at_signals(Packet& packet);
  void wake(Packet& packet);
  void evaluate_signals(Packet& packet);
  void satisfied(Packet& packet);
  void launch_agent(Packet& packet);
  void launch_vendor(Packet& packet);
  void note_copy(const Packet& packet, const protocol::CopyRequestPacket& request);
  void end(Packet& packet);
  void kill(Packet& packet);
  void collect_signals(WaitGraph& graph, const Packet& packet) const;
  void collect_owners(WaitGraph& graph, const std::string& text, std::uint64_t address) const;

  const Neighbours to_;
  PacketSender<protocol::CopyRequestPacket>& copies_;
  std::vector<std::map<std::uint64_t, Packet*>> held_;  // by queue and index: agent packets that the host has
  std::uint32_t next_tag_ = 0;
  std::unordered_map<std::uint32_t, Packet*> copying_;  // by tag
  IdleWork waiting_;                                    // packets that wait for signals, or for the host
};

}  // namespace heddle::packet
