// Accesses of other SMs to shared memory here (CGA-06, CGA-08).
#pragma once

#include <cstddef>
#include <deque>

#include "common/packet_port.h"
#include "protocol/sm_sm.h"
#include "sm/cluster_tables.h"
#include "sm/dsmem_access.h"
#include "sm/memory_port.h"
#include "sm/sm_context.h"
#include "sm/sm_stats.h"

namespace heddle::sm {

class DsmemServer {
 public:
  struct Links {
    CreditSink& served;                            // credits of requests go back when the replies have left (by_owner)
    PacketSender<protocol::DsmemPacket>& replies;  // to these
    WindowListener& windows;
  };
  DsmemServer(Timebase& time, const MemoryParams& params, const SmContext& place, SharedMemory& shared,
              const ClusterTables& tables, MemoryPort& port, SmStats& stats, const Links& links)
      : time_(time),
        shared_latency_(params.shared_latency),
        place_(place),
        shared_(shared),
        tables_(tables),
        port_(port),
        stats_(stats),
        links_(links) {}

  void on_request(const protocol::DsmemPacket& packet, std::uint32_t = 0);
  // There is room for replies again.
  void send_waiting();
  // Requests that wait here for room to be answered.
  std::size_t waiting() const { return waiting_.size(); }
  void reset() {
    waiting_.clear();  // the payloads are other SMs'
    last_reply_ = 0;
  }

 private:
  struct Waiting {
    protocol::DsmemPacket packet;
    Cycle earliest = 0;
  };
  void reply(const protocol::DsmemPacket& answer, Cycle departure);

  Timebase& time_;
  const Cycle shared_latency_;
  const SmContext& place_;
  SharedMemory& shared_;
  const ClusterTables& tables_;
  MemoryPort& port_;
  SmStats& stats_;
  Links links_;
  std::deque<Waiting> waiting_;
  Cycle last_reply_ = 0;  // departure
};

}  // namespace heddle::sm
