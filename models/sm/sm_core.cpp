#include "sm/sm_core.h"

namespace heddle::sm {

MemoryPaths::MemoryPaths(Domain& domain, Timebase& time, const SmParams& params, const SmContext& place,
                         const MemoryView& view, std::vector<Warp>& warps, SmStats& stats, const MemoryLinks& links,
                         const MemoryListeners& listeners)
    : swizzles(swizzles_of(params)),
      tables(params.warp_slots(), params.limits.ctas, params.limits.cga_slots, params.limits.max_shared_per_cta),
      shared(params.limits.shared_bytes, params.limits.ctas),
      // An instruction can issue while one more request may be open, and then needs an entry for each lane.
      l1(params.memory.l1_ways, params.memory.requests + arch::kWarpLanes),
      port(params.memory.queue, params.memory.shared_starts),
      gate(port, params.memory),
      accesses(warps, shared, params.memory),
      l2(domain, links.l2, place.id, gate, fences, stats),
      global(time, view, place.id, params.memory, warps, shared, l1, port, accesses, l2, stats),
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

void MemoryPaths::on_dsmem_reply_ahead(const protocol::DsmemPacket& packet, std::uint32_t, Cycle arrival) {
  dsmem.on_reply(packet, arrival);
}

void MemoryPaths::reset() {
  l2.reset();
  global.reset();
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

// Units keep references to each other, those that are made later included.
SmCore::SmCore(Domain& domain, Timebase& time, const SmParams& its_params, const SmContext& its_place,
               const arch::CodeStore& code, const MemoryView& view, std::uint64_t seed, const std::string& path,
               const char* name, const SmLinks& links)
    : params(its_params),
      place(its_place),
      stats(time.observation().stats, time.observation().prefix + "." + path),
      ctas(params.limits.ctas),
      registers{place.part},
      context{time, params, place, stats, warps, ctas, name, registers},
      occupancy(time, params.limits, time.cost(params.start_cycles), place, path, name),
      memory(domain, time, params, place, view, warps, stats, links.memory, {control, faults, bulk, mbarriers}),
      tasks(links.children),
      cgas(time, memory.tables, memory.flights, place.in_gpc, links.notices),
      windows(time, params, {memory.shared, memory.l1, memory.tables, occupancy, links.notices, stats}),
      scheduler(context, memory.gate, control),
      fetch(context, path, view.map.begin_of(view.instance), view.map.end_of(view.instance),
            {scheduler, memory.global}),
      alu(context, scheduler),
      tensor(context, {scheduler, faults, control, memory.swizzles, memory.shared, memory.port}),
      load_store(context, {memory.shared, memory.l1, memory.port, memory.global, memory.dsmem, memory.tables},
                 {scheduler, fences, mbarriers, faults, control}),
      fences(context, {memory.fences, memory.global, memory.l1, load_store, scheduler, launches}),
      barriers(context, {scheduler, fences, control, memory.l1, links.notices, memory.shared}),
      mbarriers(context, {scheduler, fences, load_store, control, memory.shared, memory.port, memory.l1}),
      bulk(context, {scheduler, control, faults, memory.shared, memory.tables, memory.port, memory.fences, links.bulk}),
      launches(context, view.nested,
               {scheduler, fences, swap, faults, control, memory.global, memory.l1, fetch, tasks}),
      dependencies(context, {scheduler, memory.l1, tasks}),
      turns(context, {control, faults, memory.global}),
      queries(context, {scheduler, control, links.queries}),
      transfers(context, scheduler.slots(), view.nested, {memory.gate, memory.global, swap}),
      timed(context, seed, control, links.work),
      swap(context, view.nested, time.observation().prefix + "." + path,
           {transfers, control, windows, memory.shared, memory.l1, bulk, launches, faults, occupancy, tasks, scheduler,
            barriers, mbarriers, links.notices, timed}),
      faults(context, control, cgas),
      control(context, code, view.nested,
              {scheduler, fences, barriers, mbarriers, bulk, launches, dependencies, turns, swap, faults, timed},
              {windows, memory.l1, memory.accesses, memory.dsmem, memory.flights, memory.tables, cgas, occupancy},
              {links.exits, links.notices, tasks}),
      watch(context) {
  stats.kernels = kernel_account(time);
  WarpScheduler::Units units;
  units.add(arch::Executor::alu, alu);
  units.add(arch::Executor::tensor, tensor);
  units.add(arch::Executor::memory, load_store);
  units.add(arch::Executor::fence, fences);
  units.add(arch::Executor::barrier, barriers);
  units.add(arch::Executor::mbarrier, mbarriers);
  units.add(arch::Executor::bulk, bulk);
  units.add(arch::Executor::launch, launches);
  units.add(arch::Executor::query, queries);
  units.add(arch::Executor::depend, dependencies);
  units.add(arch::Executor::end, control);
  units.alu = &alu;
  units.launches = &launches;
  if (fetch.any()) units.fetch = &fetch;
  scheduler.connect(units);
  memory.gate.listen(transfers);
  memory.gate.listen(scheduler);
}

ClusterState SmCore::clusters() const {
  ClusterState state;
  state.cgas = memory.tables.cgas();
  state.windows = memory.tables.windows();
  state.hosted = cgas.count();
  state.in_flight = memory.flights.all();
  state.served = memory.server.waiting();
  state.open = memory.gate.open();
  state.payloads = memory.payloads();
  state.shared_used = memory.shared.used();
  return state;
}

void SmCore::collect_waits(WaitGraph& graph) const {
  WaitReport(context, {memory.flights, cgas, bulk, mbarriers, launches, memory.shared, memory.tables, memory.gate,
                       memory.l2, swap, tensor})
      .collect(graph);
}

void SmCore::reset() {
  registers = {place.part};
  memory.reset();
  scheduler.reset();
  fetch.reset();
  tensor.reset();
  control.reset();
  cgas.reset();
  windows.reset();
  fences.reset();
  barriers.reset();
  mbarriers.reset();
  bulk.reset();
  launches.reset();
  dependencies.reset();
  transfers.reset();
  timed.reset();
  swap.reset();
  faults.reset();
  occupancy.reset();
}

}  // namespace heddle::sm
