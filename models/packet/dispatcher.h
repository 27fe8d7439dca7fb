// Stage 3 of the packet processor: decoded packets are launched. Acquire fence, the limit of kernels in flight, kernels
// to task management and back, one after another or overlapping in a condensed packet (PKT-04, PKT-07).
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "arch/kernel_object.h"
#include "packet/completion.h"
#include "packet/decoder.h"
#include "packet/packet_reporter.h"
#include "protocol/packet_task.h"

namespace heddle::packet {

class HeadOfQueue;
class OtherPackets;
class RingReader;

class Dispatcher final : public PipelineStage, public DecodeListener, public KernelListener {
 public:
  // The neighbours: packets without kernels are launched by `others`; heads that have been launched as a whole make
  // room in `heads`.
  struct Neighbours {
    RingReader& reader;
    HeadOfQueue& heads;
    OtherPackets& others;
    Completion& completion;
    QueueSupervisor& supervisor;
  };

  Dispatcher(const StageContext& context, const Neighbours& to, arch::CodeStore& codes,
             PacketSender<protocol::DispatchPacket>& tasks);

  // From the decoder.
  void accept(Packet& packet) override;
  // Nothing holds the packet back any more.
  void acquire(Packet& packet);
  // The packet, of which nothing has been launched, is dropped.
  void forget(Packet& packet);
  // The queue of a launched packet is being closed, or has stopped: no more of its kernels are dispatched. `later`:
  // with an event of this cycle, for callers inside a step of the packet.
  void cut(Packet& packet, bool later);
  // From task management.
  void on_dispatch_done(const protocol::DispatchDonePacket& done, std::uint32_t);
  // From completion.
  void kernel_completed(Packet& packet, bool resume) override;

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset();
  void collect_waits(WaitGraph& graph, const Packet& packet) const;

 private:
  enum Event : std::uint32_t { kAcquired, kDispatch, kStep };  // argument: a packet
  struct Running {
    Packet* packet = nullptr;
    std::uint32_t kernel = 0;
  };

  void fence(Packet& packet, arch::FenceScope scope);
  void acquired(Packet& packet);
  void launch_next(Packet& packet);
  void enter_flight(Packet& packet);
  void start_dispatch(Packet& packet);
  void dispatch(Packet& packet);
  void hand_over(Packet& packet, std::uint32_t number);
  void leave_flight();
  void stop_waiting(Packet& packet);
  bool is_cut(const Packet& packet) const;
  void step(Packet& packet);
  void finish(Packet& packet);
  void kernel_failed(Packet& packet, std::uint32_t number, protocol::DoneStatus status);

  const Neighbours to_;
  arch::CodeStore& codes_;
  PacketSender<protocol::DispatchPacket>& tasks_;
  std::uint32_t in_flight_ = 0;
  std::deque<Packet*> limited_;  // packets that wait for in_flight_ to sink, as they came
  std::uint32_t operations_ = 0;
  std::unordered_map<std::uint32_t, Running> running_;  // by operation; looked up only
};

}  // namespace heddle::packet
