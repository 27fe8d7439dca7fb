// Who waits for what, when nothing goes on any more.
#include <algorithm>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "arch/mbarrier.h"
#include "sm/warp_engine.h"

namespace heddle::sm {
namespace {

// What the program calls the operation there.
std::string step_at(const Warp& warp, std::uint32_t pc, arch::OpCode code) {
  arch::WarpState then = warp.state;
  then.pc = pc;
  const std::string name = warp.program->describe(then);
  return name.empty() ? arch::op_name(code) : name;
}

std::string next_of(const Warp& warp) { return step_at(warp, warp.state.pc, warp.code); }

}  // namespace

std::string WarpEngine::name_of(const Cta& cta, std::uint32_t warp) const {
  const std::string place = fmt::format("SM {}, CTA {}, warp {}", place_.id, cta.start.id.index, warp);
  if (cta.start.record == 0) return place;
  // Many grids have a CTA 0 where programs launch them.
  return fmt::format("{} of {}", place, gpu_observation(domain_).labels.of(cta.start.tag.operation));
}

void WarpEngine::collect_waits(WaitGraph& graph) const {
  const Labels& labels = gpu_observation(domain_).labels;
  for (const Cta& cta : ctas_) {
    if (!cta.running || cta.ending) continue;
    const std::string operation = labels.of(cta.start.tag.operation);
    for (std::uint32_t warp = 0; warp < cta.warps.size(); ++warp) {
      if (warps_[cta.warps[warp]].wait == WarpWait::exited) continue;
      graph.add(operation, "for", name_of(cta, warp));
      show_warp(graph, cta, warp);
    }
    const std::uint32_t accesses = cta.open - cta.bulk;
    if (cta.live == 0 && accesses > 0) {
      graph.add(operation, "for",
                fmt::format("{} memory accesses of SM {}, CTA {}", accesses, place_.id, cta.start.id.index));
    }
    if (cta.live == 0 && cta.bulk > 0) graph.add(operation, "for", bulk_of(cta));
    if (cta.bulk > 0) {  // the unit goes on from here
      graph.add(bulk_of(cta), "in all", fmt::format("bulk requests of SM {}, CTA {}", place_.id, cta.start.id.index));
    }
    if (!cta.in_cga()) continue;
    if (cta.live == 0) show_exit(graph, cta);
    show_cluster(graph, cta);
  }
  for (const Hosted& cga : hosted_) {
    if (!cga.here || !cga.flushing) continue;
    graph.add(labels.of(cga.tag.operation),
              fmt::format("for the flush of CGA {} of GPC {}, and that for", cga.tag.cga_id, place_.gpc),
              fmt::format("{} accesses of SM {} to its shared memory", memory_.in_flight(cga.tag.cga_id), place_.id));
  }
}

void WarpEngine::show_exit(WaitGraph& graph, const Cta& cta) const {
  const std::string operation = gpu_observation(domain_).labels.of(cta.start.tag.operation);
  const std::uint32_t requests = memory_.in_flight_of_cta(cta.start.cta_slot);
  if (requests > 0) {
    graph.add(operation, "for",
              fmt::format("{} accesses of SM {}, CTA {} to shared memory of its cluster", requests, place_.id,
                          cta.start.id.index));
  } else if (cta.exit == Exit::asked) {
    graph.add(operation, fmt::format("for SM {}, CTA {} to be permitted to leave by", place_.id, cta.start.id.index),
              "its MPC");
  }
}

// "2 requests of SM 3, CTA 0 to the TMAU, the oldest a tensor_load (line 12)"
std::string WarpEngine::bulk_of(const Cta& cta) const {
  const BulkOpen* oldest = nullptr;
  bulk_open_.for_each([&](const BulkOpen& open) {
    const bool of_cta = open.cta == cta.start.cta_slot;
    if (of_cta && (oldest == nullptr || open.serial < oldest->serial)) oldest = &open;
  });
  const std::string text = fmt::format("{} request{} of SM {}, CTA {} to the TMAU", cta.bulk, cta.bulk == 1 ? "" : "s",
                                       place_.id, cta.start.id.index);
  if (oldest == nullptr) return text;
  return fmt::format("{}, the oldest a {}", text, step_at(warps_[oldest->warp], oldest->pc, oldest->code));
}

void WarpEngine::show_bulk_wait(WaitGraph& graph, const Cta& cta, const Warp& warp) const {
  const std::string name = name_of(cta, warp.place.warp);
  const std::string step = step_at(warp, warp.issued_pc, warp.code);
  if (warp.wait == WarpWait::bulk) {
    graph.add(name, fmt::format("in {}, for a place in its queue, from", step),
              fmt::format("the TMAU, with {} requests of SM {} open", bulk_open_.in_use(), place_.id));
    for (const Cta& other : ctas_) {
      if (!other.running || other.bulk == 0) continue;
      graph.add(fmt::format("the TMAU, with {} requests of SM {} open", bulk_open_.in_use(), place_.id), "among them",
                bulk_of(other));
    }
    return;
  }
  std::string reason = fmt::format("in {}, for", step);
  if (warp.wait == WarpWait::bulk_groups) {
    const std::size_t groups = (warp.wants_reads ? warp.bulk_reads : warp.bulk).open();
    reason = fmt::format("in {} ({} groups {}, {} may be), for", step, groups, warp.wants_reads ? "not read" : "open",
                         warp.groups_wanted);
  }
  graph.add(name, reason, bulk_of(cta));
}

// What the CTA does that others of its CGA wait for.
void WarpEngine::show_cluster(WaitGraph& graph, const Cta& cta) const {
  const std::string name = protocol::cta_name(place_.gpc, cta.start.tag.cga_id, cta.start.id.rank);
  for (std::uint32_t number = 0; number < cta.warps.size(); ++number) {
    const Warp& warp = warps_[cta.warps[number]];
    if (warp.wait == WarpWait::exited) continue;
    // Once all have arrived, the CTA is waited for because of what its warps do at the barrier or behind it.
    const bool arrived = warp.cluster_arrived && !warp.cluster_passed;
    if (!arrived || cta.reported) graph.add(name, "which is", name_of(cta, number));
  }
  if (cta.bulk > 0) graph.add(name, "which has", bulk_of(cta));
}

void WarpEngine::show_cluster_wait(WaitGraph& graph, const Cta& cta, const Warp& warp) const {
  const std::string name = name_of(cta, warp.place.warp);
  const std::string step = step_at(warp, warp.issued_pc, arch::OpCode::cluster_wait);
  if (cta.in_cga()) {
    const std::string kernel = gpu_observation(domain_).labels.of(cta.start.tag.operation);
    graph.add(name, fmt::format("in {}, for", step), protocol::barrier_name(kernel, place_.gpc, cta.start.tag.cga_id));
    return;
  }
  for (std::uint32_t other = 0; other < cta.warps.size(); ++other) {
    const Warp& its = warps_[cta.warps[other]];
    if (its.wait == WarpWait::exited || (its.cluster_arrived && !its.cluster_passed)) continue;
    graph.add(name,
              fmt::format("in {}, where {} of {} warps of its cluster of one CTA have arrived, for", step, cta.arrived,
                          cta.live),
              name_of(cta, other));
  }
}

void WarpEngine::show_mbarrier_wait(WaitGraph& graph, const Cta& cta, const Warp& warp) const {
  const std::string name = name_of(cta, warp.place.warp);
  const arch::Operation& operation = *warp.operation;
  const std::uint64_t address = operation.address[static_cast<std::uint32_t>(__builtin_ctz(operation.lanes))];
  const arch::Mbarrier object = arch::decode(memory_.shared_memory().word(cta.start.cta_slot, address));
  const std::string reason =
      fmt::format("at the mbarrier at 0x{:x}: phase parity {}, {} of {} arrivals and {} bytes outstanding, for",
                  address, object.parity, object.pending, object.expected, object.tx);
  bool anybody = false;
  const auto wait_for = [&](const std::string& on) {
    graph.add(name, reason, on);
    anybody = true;
  };
  for (std::uint32_t other = 0; other < cta.warps.size(); ++other) {
    const WarpWait wait = warps_[cta.warps[other]].wait;
    if (wait != WarpWait::exited && wait != WarpWait::mbarrier) wait_for(name_of(cta, other));
  }
  for (std::uint32_t rank = 0; cta.in_cga() && rank < cta.start.id.cga_size; ++rank) {
    const std::uint32_t cga_id = cta.start.tag.cga_id;
    const std::uint32_t sm = tables_.sm_of(cga_id, rank);
    if (rank == cta.start.id.rank || sm == ClusterTables::kNone) continue;
    // Of CTAs elsewhere it is not known here whether they have exited.
    if (sm == place_.in_gpc && tables_.match(cga_id, rank) == ClusterTables::kNone) continue;
    wait_for(protocol::cta_name(place_.gpc, cga_id, rank));
  }
  if (cta.bulk > 0) wait_for(bulk_of(cta));
  if (!anybody) wait_for("nobody that is left");
}

// A warp in the middle of a launch or its like.
void WarpEngine::show_nested(WaitGraph& graph, const Cta& cta, const Warp& warp) const {
  const NestedRun& run = *warp.nested;
  const std::string name = name_of(cta, warp.place.warp);
  const std::string step = step_at(warp, warp.issued_pc, run.code);
  switch (run.stage) {
    case NestedStage::wait:
      if (warp.wait != WarpWait::children) break;
      graph.add(name, fmt::format("in {}, for its children:", step),
                "children of " + gpu_observation(domain_).labels.of(cta.start.tag.operation));
      return;
    case NestedStage::elsewhere:
      for (const std::uint32_t other : cta.warps) {
        const NestedRun* its = warps_[other].nested.get();
        if (its == nullptr || &warps_[other] == &warp) continue;
        const bool makes = its->stage == NestedStage::take_context || its->stage == NestedStage::write_context ||
                           its->stage == NestedStage::count_context;
        if (makes)
          graph.add(name, fmt::format("in {}, for the context that is made by", step),
                    name_of(cta, warps_[other].place.warp));
      }
      return;
    case NestedStage::take_context:
      graph.add(name, fmt::format("in {}, for", step), "a free record of a thread-group context");
      return;
    case NestedStage::take_task:
      graph.add(name, fmt::format("in {}, for", step), "a free record of a task (TMD)");
      return;
    case NestedStage::place:
      graph.add(name, fmt::format("in {}, for a free entry of", step),
                fmt::format("the queue at 0x{:x}", run.entries[run.index].queue));
      return;
    default:
      break;
  }
  graph.add(name, fmt::format("in {}, for the access to 0x{:x} by", step, run.asked),
            fmt::format("memory, with {} requests of SM {} open, {} of them not sent", memory_.open(), place_.id,
                        memory_.waiting()));
}

void WarpEngine::show_warp(WaitGraph& graph, const Cta& cta, std::uint32_t number) const {
  const Warp& warp = warps_[cta.warps[number]];
  const std::string name = name_of(cta, number);
  const std::string memory = fmt::format("memory, with {} requests of SM {} open, {} of them not sent", memory_.open(),
                                         place_.id, memory_.waiting());
  if (warp.nested != nullptr && warp.wait != WarpWait::order) return show_nested(graph, cta, warp);
  switch (warp.wait) {
    case WarpWait::registers: {
      graph.add(name, fmt::format("before {}, for loads from", next_of(warp)), memory);
      return;
    }
    case WarpWait::barrier: {
      const auto& arrived = cta.barriers.arrived(warp.barrier);
      for (std::uint32_t other = 0; other < cta.warps.size(); ++other) {
        const bool here = std::find(arrived.begin(), arrived.end(), other) != arrived.end();
        if (here || warps_[cta.warps[other]].wait == WarpWait::exited) continue;
        graph.add(name,
                  fmt::format("at barrier {}, where {} of {} warps have arrived, for", warp.barrier, arrived.size(),
                              cta.barriers.needed(warp.barrier)),
                  name_of(cta, other));
      }
      return;
    }
    case WarpWait::order:
      graph.add(name, "in a release, for the acknowledgement of earlier requests by", memory);
      return;
    case WarpWait::flush:
      graph.add(name, "in a release, for write-backs by", memory);
      return;
    case WarpWait::access:
      graph.add(name, "in an acquire, for its value from", memory);
      return;
    case WarpWait::copies:
      graph.add(name,
                fmt::format("for asynchronous copies ({} groups, {} may be open) from", warp.copies.open(),
                            warp.groups_wanted),
                memory);
      return;
    case WarpWait::cluster:
      return show_cluster_wait(graph, cta, warp);
    case WarpWait::mbarrier:
      return show_mbarrier_wait(graph, cta, warp);
    case WarpWait::bulk:
    case WarpWait::bulk_groups:
    case WarpWait::bulk_answer:
      return show_bulk_wait(graph, cta, warp);
    case WarpWait::issue:
      if (warp.unit == arch::Unit::memory && memory_.stopped()) {
        graph.add(name, "for the memory unit, which waits for", memory);
      } else {
        graph.add(name, "for nothing: it runs, and next comes", next_of(warp));
      }
      return;
    case WarpWait::nested:
    case WarpWait::context:
    case WarpWait::children:
      graph.add(name, "for its entry of a queue from", memory);
      return;
    case WarpWait::restore:
      graph.add(name, "for its state, which was saved, from", memory);
      return;
    case WarpWait::exited:
      return;
  }
}

}  // namespace heddle::sm
