// The units of an SM, and how they are put together. Sockets lead straight to the unit concerned: see Sm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sm/accesses.h"
#include "sm/alu.h"
#include "sm/barrier_unit.h"
#include "sm/bulk_data.h"
#include "sm/bulk_unit.h"
#include "sm/cluster_tables.h"
#include "sm/cta_control.h"
#include "sm/cta_swap.h"
#include "sm/cta_table.h"
#include "sm/dependency_unit.h"
#include "sm/device_launch_unit.h"
#include "sm/dsmem_paths.h"
#include "sm/faults.h"
#include "sm/global_path.h"
#include "sm/instruction_fetch.h"
#include "sm/l1_cache.h"
#include "sm/l2_port.h"
#include "sm/launch_sequence.h"
#include "sm/load_store_unit.h"
#include "sm/occupancy_query_unit.h"
#include "sm/shared_memory.h"
#include "sm/sm_context.h"
#include "sm/sm_occupancy.h"
#include "sm/tensor_unit.h"
#include "sm/timed_ctas.h"
#include "sm/wait_report.h"
#include "sm/warp.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {

// The memory side of an SM: shared memory, the L1 and the port in front of both, and the paths to the L2, to other SMs
// and to the TMAU. Its parts call each other, and tell listeners of what ends.

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
  void on_dsmem_reply_ahead(const protocol::DsmemPacket& packet, std::uint32_t, Cycle arrival);
  // Payloads that are out.
  std::size_t payloads() const { return l2.payloads() + dsmem.payloads() + bulk.payloads(); }
  void reset();

  const arch::SwizzleTable swizzles;  // how boxes lie in shared memory
  ClusterTables tables;
  SharedMemory shared;
  L1Cache l1;
  IssuePort port;
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

// What clusters hold on an SM: all of it is zero when none is under way.
struct ClusterState {
  std::uint32_t cgas = 0;         // directory entries
  std::uint32_t windows = 0;      // CAM entries
  std::uint32_t hosted = 0;       // CGAs that had a CTA here and have not been flushed
  std::uint64_t in_flight = 0;    // requests that other SMs have not answered
  std::size_t served = 0;         // requests of other SMs that have not been answered for want of room
  std::size_t open = 0;           // requests of any kind
  std::size_t payloads = 0;       // payloads of requests
  std::uint32_t shared_used = 0;  // bytes
  bool quiescent() const {
    return cgas == 0 && windows == 0 && hosted == 0 && in_flight == 0 && served == 0 && open == 0 && payloads == 0 &&
           shared_used == 0;
  }
};

// The SM's ends of its links.
struct SmLinks {
  MemoryLinks memory;
  PacketSender<protocol::BulkRequestPacket>& bulk;
  PacketSender<protocol::CtaExitPacket>& exits;
  PacketSender<protocol::ClusterNoticePacket>& notices;
  PacketSender<protocol::ChildPacket>& children;
  PacketSender<protocol::OccupancyQueryPacket>& queries;
  PacketSender<protocol::WorkPacket>& work;
};

struct SmCore {
  // `path`: of the SM, for statistics. `name`: for messages. `seed`: of CTA durations. `code` and what `view` refers to
  // must outlive the SM. `domain` and `time` are the same.
  SmCore(Domain& domain, Timebase& time, const SmParams& its_params, const SmContext& its_place,
         const arch::CodeStore& code, const MemoryView& view, std::uint64_t seed, const std::string& path,
         const char* name, const SmLinks& links);
  SmCore(const SmCore&) = delete;
  SmCore& operator=(const SmCore&) = delete;

  ClusterState clusters() const;
  void collect_waits(WaitGraph& graph) const;
  void reset();

  const SmParams params;
  const SmContext place;
  SmStats stats;
  std::vector<Warp> warps;  // by slot; none before the first CTA
  CtaTable ctas;
  SmRegisters registers;
  const UnitContext context;
  SmOccupancy occupancy;
  MemoryPaths memory;
  TaskLink tasks;
  ResidentCgas cgas;
  CtaMemory windows;
  WarpScheduler scheduler;
  InstructionFetch fetch;
  Alu alu;
  TensorUnit tensor;
  LoadStoreUnit load_store;
  FenceUnit fences;
  BarrierUnit barriers;
  MbarrierUnit mbarriers;
  BulkUnit bulk;
  DeviceLaunchUnit launches;
  DependencyUnit dependencies;
  QueueTurns turns;
  OccupancyQueryUnit queries;
  TransferUnit transfers;
  TimedCtas timed;
  CtaSwap swap;
  Faults faults;
  CtaControl control;
  WarpWatch watch;
};

}  // namespace heddle::sm
