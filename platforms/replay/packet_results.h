// What becomes of packets, told as operations of the workload: results, launches, and which operation a dispatch is.
// Plain C++.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "packet/packet_log.h"
#include "replay/packet_encoder.h"
#include "replay/packet_plan.h"
#include "replay/submission.h"

namespace heddle::replay {

class PacketResults {
 public:
  // `ns_of`: a cycle of the GPU as nanoseconds of the simulation's axis. `lead`: the workload's time 0 on it.
  PacketResults(std::size_t operations, std::size_t queues, double lead, std::function<double(Cycle)> ns_of);
  // Another one, before the first packet.
  void set_lead(double lead) { lead_ = lead; }

  // The packet is in the ring; writing it began at `begun` (ns, simulation axis). Packets of a queue come in order.
  void sent(std::uint32_t queue, const PreparedPacket& packet, double begun);
  // The operation of the kernel.
  std::size_t dispatched(const packet::PacketRecord& record);
  void done(const packet::PacketRecord& record);
  // The queue has stopped at the packet: what has not been dispatched of it and of those behind it never will be, nor
  // what was never sent (`unsent`). Returns the operations that ended so.
  std::vector<std::size_t> stopped(std::uint32_t queue, std::uint64_t index, const std::vector<std::size_t>& unsent,
                                   double now);

  const std::vector<OpResult>& results() const { return results_; }
  std::size_t ended() const { return ended_; }
  // Kernels, in the order of their ends.
  const std::vector<PacketLaunch>& launches() const { return launches_; }
  const std::unordered_map<std::uint32_t, std::size_t>& operations() const { return operation_of_; }

 private:
  struct Sent {
    std::vector<std::size_t> ops;
    bool begins = true;
    bool ends = true;
    double begun = 0;
  };

  const Sent& sent_of(std::uint32_t queue, std::uint64_t index) const;
  void end(std::size_t op, const packet::PacketRecord& record, const Sent& sent);

  double lead_;
  std::function<double(Cycle)> ns_of_;
  std::vector<std::vector<Sent>> sent_;  // by queue and index
  std::vector<OpResult> results_;
  std::vector<bool> started_;  // by operation: dispatched, or a copy of which a part has ended
  std::size_t ended_ = 0;
  std::vector<PacketLaunch> launches_;
  std::unordered_map<std::uint32_t, std::size_t> operation_of_;  // by id of the dispatch
};

}  // namespace heddle::replay
