#include "sm/memory_paths.h"

namespace heddle::sm {

MemoryPaths::MemoryPaths(Domain& domain, Timebase& time, const SmParams& params, const SmContext& place,
                         const MemoryView& view, std::vector<Warp>& warps, SmStats& stats, const MemoryLinks& links,
                         const MemoryListeners& listeners)
    : swizzles(swizzles_of(params)),
      tables((params.limits.warps + kSubPartitions - 1) / kSubPartitions * kSubPartitions, params.limits.ctas,
             params.limits.max_shared_per_cta),
      shared(params.limits.shared_bytes, params.limits.ctas),
      // An instruction can issue while one more request may be open, and then needs an entry for each lane.
      l1(params.memory.l1_ways, params.memory.requests + arch::kWarpLanes),
      port(params.memory.queue),
      gate(port, params.memory),
      accesses(warps, shared, params.memory),
      l2(domain, links.l2, place.id, gate, fences, stats),
      global(view.map, params.memory, warps, shared, l1, port, accesses, l2, stats),
      flights(params.limits.ctas),
      dsmem(time, params.memory, place, shared, tables, port, gate, fences, accesses, flights, stats,
            {links.requests, listeners.dsmem, listeners.dsmem_errors, listeners.windows}),
      server(time, params.memory, place, shared, tables, port, stats, {links.served, links.replies, listeners.windows}),
      bulk(time, params.memory, place, swizzles, shared, tables, port, dsmem, flights, stats,
           {links.reads, listeners.bulk_errors, listeners.windows}),
      time_(time) {}

void MemoryPaths::on_dsmem_room(std::uint32_t) {
  dsmem.send_waiting();
  server.send_waiting();
  gate.consider_opening(time_.now());
}

void MemoryPaths::on_dsmem_reply(const protocol::DsmemPacket& packet, std::uint32_t) {
  dsmem.on_reply(packet, time_.now());
}

void MemoryPaths::reset() {
  l2.reset();
  dsmem.reset();
  server.reset();
  bulk.reset();
  flights.reset();
  accesses.reset();
  gate.reset();
  port.reset();
  shared.reset();
  l1.reset();
  fences.reset();
  tables.reset();
}

}  // namespace heddle::sm
