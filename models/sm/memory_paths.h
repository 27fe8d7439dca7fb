// The memory side of an SM: shared memory, the L1 and the port in front of both, and the paths to the L2, to other SMs
// and to the TMAU. Its parts call each other, and tell listeners of what ends.
#pragma once

#include <cstddef>
#include <vector>

#include "sm/accesses.h"
#include "sm/bulk_data.h"
#include "sm/cluster_tables.h"
#include "sm/dsmem_client.h"
#include "sm/dsmem_server.h"
#include "sm/fence_tracker.h"
#include "sm/global_path.h"
#include "sm/l1_cache.h"
#include "sm/l2_port.h"
#include "sm/memory_port.h"
#include "sm/shared_memory.h"
#include "sm/sm_context.h"

namespace heddle::sm {

// The SM's ends of the links that its memory side uses.
struct MemoryLinks {
  MemoryOut& l2;
  PacketSender<protocol::DsmemPacket>& requests;  // to other SMs
  CreditSink& served;                             // for those of others
  PacketSender<protocol::DsmemPacket>& replies;   // to these
  PacketSender<protocol::BulkReadPacket>& reads;  // answers to the TMAU
};

struct MemoryListeners {
  DsmemListener& dsmem;
  DsmemErrorListener& dsmem_errors;
  BulkErrorListener& bulk_errors;
  WindowListener& windows;
};

struct MemoryPaths {
  // `domain` and `time` are the same; SystemC is only needed where payloads are sent.
  MemoryPaths(Domain& domain, Timebase& time, const SmParams& params, const SmContext& place, const MemoryView& view,
              std::vector<Warp>& warps, SmStats& stats, const MemoryLinks& links, const MemoryListeners& listeners);

  // A link to other SMs has room again.
  void on_dsmem_room(std::uint32_t = 0);
  void on_dsmem_reply(const protocol::DsmemPacket& packet, std::uint32_t = 0);
  // Payloads that are out.
  std::size_t payloads() const { return l2.payloads() + dsmem.payloads() + bulk.payloads(); }
  void reset();

  const arch::SwizzleTable swizzles;  // how boxes lie in shared memory
  ClusterTables tables;
  SharedMemory shared;
  L1Cache l1;
  MemoryPort port;
  RequestGate gate;
  FenceTracker fences;
  AccessTable accesses;
  L2Port l2;
  GlobalPath global;
  DsmemFlights flights;
  DsmemClient dsmem;
  DsmemServer server;
  BulkData bulk;

 private:
  Timebase& time_;
};

}  // namespace heddle::sm
