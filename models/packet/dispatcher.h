// Stage 3 of the packet processor: decoded packets are launched. Acquire fence, the limit of kernels in flight, kernels
// to task management and back, one after another or overlapping in a condensed packet (PKT-04, PKT-07).
//
// Acquire fences have numbers, and a kernel is launched with that of the last one before it, of whatever queue: what
// was released before a fence is seen by all that is launched after it (PKT-14). An SM empties its L1 for a kernel
// unless it has done so for that fence already.
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

// Numbers for the operations of kernels: each is used again, once all others have been.
class DispatchIds {
 public:
  explicit DispatchIds(std::uint32_t first = 0) : next_(first) {}

  // One that `taken` does not know; not all are taken.
  template <class Taken>
  std::uint32_t next(const Taken& taken) {
    std::uint32_t id = 0;
    do {
      id = protocol::kDispatchBit | next_++;
    } while (taken(id));
    return id;
  }

 private:
  std::uint32_t next_;  // its upper bit does not count
};

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
  // The packet's queue is inactivated: its kernels that run are killed.
  void abort(Packet& packet);
  // From task management.
  void on_dispatch_done(const protocol::DispatchDonePacket& done, std::uint32_t);
  // All slices have forgotten what others may have changed.
  void on_invalidated(Packet& packet) { acquired(packet, arch::FenceScope::system); }
  // From completion.
  void kernel_completed(Packet& packet, bool resume) override;

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset();
  void collect_waits(WaitGraph& graph, const Packet& packet) const;

 private:
  enum Event : std::uint32_t { kUnfenced, kAcquired, kDispatch, kStep };  // argument: a packet
  struct Running {
    Packet* packet = nullptr;
    std::uint32_t kernel = 0;
  };

  void note_begin(const Packet& packet);
  void fence(Packet& packet, arch::FenceScope scope);
  void acquired(Packet& packet, arch::FenceScope scope);
  void launch_next(Packet& packet);
  void admit(Packet& packet);
  void start_dispatch(Packet& packet);
  void dispatch(Packet& packet);
  void hand_over(Packet& packet, std::uint32_t number);
  void leave_flight();
  void stop_waiting(Packet& packet);
  bool is_cut(const Packet& packet) const;
  void step(Packet& packet);
  void finish(Packet& packet);
  void kernel_failed(Packet& packet, std::uint32_t number, protocol::DoneStatus status);
  static void kernel_killed(Packet& packet, std::uint32_t number);

  const Neighbours to_;
  arch::CodeStore& codes_;
  PacketSender<protocol::DispatchPacket>& tasks_;
  std::uint32_t in_flight_ = 0;
  std::deque<Packet*> limited_;  // packets that wait for in_flight_ to sink, as they came
  DispatchIds ids_;
  std::uint64_t fences_ = 0;                            // number of the last acquire fence
  std::unordered_map<std::uint32_t, Running> running_;  // by operation; looked up only
};

}  // namespace heddle::packet
