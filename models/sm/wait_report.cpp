#include "sm/wait_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/mbarrier.h"
#include "common/bits.h"
#include "sm/barrier_unit.h"
#include "sm/bulk_unit.h"
#include "sm/cluster_tables.h"
#include "sm/cta_swap.h"
#include "sm/device_launch_unit.h"
#include "sm/l2_port.h"
#include "sm/tensor_unit.h"

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

std::string WaitReport::name_of(const Cta& cta, std::uint32_t warp) const {
  const std::string place = fmt::format("SM {}, CTA {}, warp {}", place_.id.value(), cta.start.id.index, warp);
  if (cta.record == 0) return place;
  // Many grids have a CTA 0 where programs launch them.
  return fmt::format("{} of {}", place, labels_.of(cta.operation));
}

void WaitReport::collect(WaitGraph& graph) const {
  for (const Cta& cta : ctas_) {
    // A CTA without a program always ends: its end is an event.
    if (cta.here() && cta.code != nullptr && cta.stage != CtaStage::ending) show_cta(graph, cta);
  }
  for (const ResidentCga& cga : subjects_.cgas.all()) {
    if (cga.state != ResidentCga::State::flushing) continue;
    graph.add(
        labels_.of(cga.tag.operation),
        fmt::format("for the flush of CGA {} of GPC {}, and that for", cga.tag.cga_id->value(), place_.gpc.value()),
        fmt::format("{} accesses of SM {} to its shared memory", subjects_.flights.of_cga(*cga.tag.cga_id),
                    place_.id.value()));
  }
}

void WaitReport::show_cta(WaitGraph& graph, const Cta& cta) const {
  const std::string operation = labels_.of(cta.operation);
  const std::uint64_t chunks = subjects_.swap.lacking_chunks(cta);
  for (std::uint32_t warp = 0; warp < cta.warps.size(); ++warp) {
    if (warps_[cta.warps[warp]].wait == WarpWait::exited) continue;
    if (chunks > 0 && warps_[cta.warps[warp]].wait == WarpWait::children) {
      graph.add(operation, fmt::format("for {} free chunks of gpu.task.nested.memory to save", chunks),
                name_of(cta, warp), WaitGraph::For::room);
    } else {
      graph.add(operation, "for", name_of(cta, warp));
    }
    show_warp(graph, cta, warp);
  }
  const std::size_t multiplies = subjects_.tensor.of_cta(cta.start.cta_slot);
  const std::size_t accesses = cta.open - cta.bulk - multiplies;
  if (cta.live == 0 && accesses > 0) {
    graph.add(operation, "for",
              fmt::format("{} memory accesses of SM {}, CTA {}", accesses, place_.id.value(), cta.start.id.index));
  }
  if (cta.live == 0 && cta.bulk > 0) graph.add(operation, "for", bulk_of(cta));
  if (cta.live == 0 && multiplies > 0) {
    graph.add(operation, "for",
              fmt::format("{} matrix multiplies of SM {}, CTA {}, which nobody has waited for", multiplies,
                          place_.id.value(), cta.start.id.index));
  }
  if (cta.bulk > 0) {  // the unit goes on from here
    graph.add(bulk_of(cta), "in all",
              fmt::format("bulk requests of SM {}, CTA {}", place_.id.value(), cta.start.id.index));
  }
  if (!cta.in_cga()) return;
  if (cta.live == 0) show_exit(graph, cta);
  show_cluster(graph, cta);
}

void WaitReport::show_exit(WaitGraph& graph, const Cta& cta) const {
  const std::string operation = labels_.of(cta.operation);
  const std::uint32_t requests = subjects_.flights.of_cta(cta.start.cta_slot);
  if (requests > 0) {
    graph.add(operation, "for",
              fmt::format("{} accesses of SM {}, CTA {} to shared memory of its cluster", requests, place_.id.value(),
                          cta.start.id.index));
  } else if (cta.stage == CtaStage::exit_asked || cta.stage == CtaStage::exit_drained) {
    graph.add(operation,
              fmt::format("for SM {}, CTA {} to be permitted to leave by", place_.id.value(), cta.start.id.index),
              "its MPC");
  }
}

// "2 requests of SM 3, CTA 0 to the TMAU, the oldest a tensor_load (line 12)"
std::string WaitReport::bulk_of(const Cta& cta) const {
  const BulkOpen* oldest = subjects_.bulk.oldest(cta.start.cta_slot);
  const std::string text = fmt::format("{} request{} of SM {}, CTA {} to the TMAU", cta.bulk, cta.bulk == 1 ? "" : "s",
                                       place_.id.value(), cta.start.id.index);
  if (oldest == nullptr) return text;
  return fmt::format("{}, the oldest a {}", text, step_at(warps_[oldest->warp], oldest->pc, oldest->code));
}

std::string WaitReport::memory() const {
  return fmt::format("memory, with {} requests of SM {} open, {} of them not sent", subjects_.gate.open(),
                     place_.id.value(), subjects_.l2.waiting());
}

void WaitReport::show_bulk_wait(WaitGraph& graph, const Cta& cta, const Warp& warp) const {
  const std::string name = name_of(cta, warp.place.warp);
  const std::string step = step_at(warp, warp.issued_pc, warp.code);
  if (warp.wait == WarpWait::bulk) {
    graph.add(name, fmt::format("in {}, for a place in its queue, from", step),
              fmt::format("the TMAU, with {} requests of SM {} open", subjects_.bulk.open(), place_.id.value()));
    for (const Cta& other : ctas_) {
      if (!other.here() || other.bulk == 0) continue;
      graph.add(fmt::format("the TMAU, with {} requests of SM {} open", subjects_.bulk.open(), place_.id.value()),
                "among them", bulk_of(other));
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

void WaitReport::show_multiplies(WaitGraph& graph, const Cta& cta, const Warp& warp) const {
  const std::uint32_t slot = slot_of(cta, warp);
  const std::string step = step_at(warp, warp.issued_pc, warp.code);
  const std::string reason = warp.wait == WarpWait::tensor
                                 ? fmt::format("in {}, for a place behind", step)
                                 : fmt::format("in {} ({} groups of multiplies open, {} may be), for", step,
                                               warp.multiplies.open(), warp.groups_wanted);
  graph.add(name_of(cta, warp.place.warp), reason,
            fmt::format("tensor core {} of SM {}, with {} multiplies", slot % kSubPartitions, place_.id.value(),
                        subjects_.tensor.queued(slot)));
}

// What the CTA does that others of its CGA wait for.
void WaitReport::show_cluster(WaitGraph& graph, const Cta& cta) const {
  const std::string name = protocol::cta_name(place_.gpc, *cta.start.tag.cga_id, cta.start.id.rank);
  for (std::uint32_t number = 0; number < cta.warps.size(); ++number) {
    const Warp& warp = warps_[cta.warps[number]];
    if (warp.wait == WarpWait::exited) continue;
    // Once all have arrived, the CTA is waited for because of what its warps do at the barrier or behind it.
    const bool arrived = warp.cluster[0].arrival == ClusterArrival::arrived;
    if (!arrived || cta.cluster[0].reported) graph.add(name, "which is", name_of(cta, number));
  }
  if (cta.bulk > 0) graph.add(name, "which has", bulk_of(cta));
}

void WaitReport::show_cluster_wait(WaitGraph& graph, const Cta& cta, const Warp& warp) const {
  const std::string name = name_of(cta, warp.place.warp);
  const std::string step = step_at(warp, warp.issued_pc, arch::OpCode::cluster_wait);
  const std::string kernel = labels_.of(cta.operation);
  const arch::CgaLevel level = arch::barrier_level(warp.cluster_level);
  if (const std::optional<protocol::BarrierSlot> wide = cta.start.tag.barriers.of(level)) {
    graph.add(name, fmt::format("in {}, for", step), protocol::wide_barrier_name(kernel, level, *wide));
    return;
  }
  if (cta.in_cga()) {
    graph.add(name, fmt::format("in {}, for", step), protocol::barrier_name(kernel, place_.gpc, *cta.start.tag.cga_id));
    return;
  }
  for (std::uint32_t other = 0; other < cta.warps.size(); ++other) {
    const Warp& its = warps_[cta.warps[other]];
    if (its.wait == WarpWait::exited || its.cluster[0].arrival == ClusterArrival::arrived) continue;
    graph.add(name,
              fmt::format("in {}, where {} of {} warps of its cluster of one CTA have arrived, for", step,
                          cta.cluster[0].arrived, cta.live),
              name_of(cta, other));
  }
}

void WaitReport::show_mbarrier_wait(WaitGraph& graph, const Cta& cta, const Warp& warp) const {
  const std::string name = name_of(cta, warp.place.warp);
  const arch::Operation& operation = *warp.operation;
  const std::uint64_t address = operation.address[bits::lowest(operation.lanes)];
  const std::uint32_t lane = bits::lowest(operation.lanes);
  const arch::Mbarrier object = arch::decode(subjects_.shared.word(cta.start.cta_slot, address));
  std::string reason = fmt::format(
      "in {}, for parity {} of the mbarrier at 0x{:x}: its phase has parity {}, and {} of {} arrivals and {} bytes are "
      "outstanding",
      step_at(warp, warp.issued_pc, operation.code), operation.data[lane][0], address, object.parity, object.pending,
      object.expected, object.tx);
  if (const MbarrierUnit::Passes passes = subjects_.mbarriers.passes(slot_of(cta, warp), address);
      passes.since_passed > 0) {
    reason += fmt::format("; of its phases {} {} completed since the warp last went on there{}", passes.since_passed,
                          passes.since_passed == 1 ? "has" : "have",
                          passes.since_passed > 1 ? ", so that the parity is what it was: the warp has come too late"
                                                  : ", and the warp waits for the next with the same parity");
  }
  reason += ", for";
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
    const protocol::CgaId cga_id = *cta.start.tag.cga_id;
    const std::optional<protocol::SmInGpc> sm = subjects_.tables.sm_of(cga_id, rank);
    if (rank == cta.start.id.rank || !sm) continue;
    // Of CTAs elsewhere it is not known here whether they have exited.
    if (*sm == place_.in_gpc && subjects_.tables.match(cga_id, rank) == ClusterTables::kNone) continue;
    wait_for(protocol::cta_name(place_.gpc, cga_id, rank));
  }
  if (cta.bulk > 0) wait_for(bulk_of(cta));
  if (!anybody) wait_for("nobody that is left");
}

// A warp in the middle of a launch or its like.
void WaitReport::show_launch(WaitGraph& graph, const Cta& cta, const Warp& warp) const {
  const LaunchRun& run = *subjects_.launches.run_of(slot_of(cta, warp));
  const std::string name = name_of(cta, warp.place.warp);
  const std::string step = step_at(warp, warp.issued_pc, run.code);
  switch (run.stage) {
    case LaunchStage::wait:
      if (warp.wait != WarpWait::children) break;
      graph.add(name, fmt::format("in {}, for its children:", step), "children of " + labels_.of(cta.operation));
      return;
    case LaunchStage::elsewhere:
      return show_context(graph, cta, warp);
    case LaunchStage::take_context:
      graph.add(name, fmt::format("in {}, for", step), "a free record of a thread-group context", WaitGraph::For::room);
      return;
    case LaunchStage::take_task:
      graph.add(name, fmt::format("in {}, for", step), "a free record of a task (TMD)", WaitGraph::For::room);
      return;
    case LaunchStage::place:
      graph.add(name, fmt::format("in {}, for a free entry of", step),
                fmt::format("the queue at 0x{:x}", run.entries[run.index].queue));
      return;
    default:
      break;
  }
  graph.add(name, fmt::format("in {}, for the access to 0x{:x} by", step, run.asked), memory());
}

// Another warp of the CTA makes the context.
void WaitReport::show_context(WaitGraph& graph, const Cta& cta, const Warp& warp) const {
  const std::string step = step_at(warp, warp.issued_pc, subjects_.launches.run_of(slot_of(cta, warp))->code);
  for (const std::uint32_t other : cta.warps) {
    const LaunchRun* its = subjects_.launches.run_of(other);
    if (its == nullptr || &warps_[other] == &warp) continue;
    const bool makes = its->stage == LaunchStage::take_context || its->stage == LaunchStage::write_context ||
                       its->stage == LaunchStage::count_context;
    if (!makes) continue;
    graph.add(name_of(cta, warp.place.warp), fmt::format("in {}, for the context that is made by", step),
              name_of(cta, warps_[other].place.warp));
  }
}

void WaitReport::show_barrier(WaitGraph& graph, const Cta& cta, const Warp& warp) const {
  const auto& arrived = cta.barriers.arrived(warp.barrier);
  for (std::uint32_t other = 0; other < cta.warps.size(); ++other) {
    const bool here = std::find(arrived.begin(), arrived.end(), other) != arrived.end();
    if (here || warps_[cta.warps[other]].wait == WarpWait::exited) continue;
    graph.add(name_of(cta, warp.place.warp),
              fmt::format("in {}, at barrier {}, where {} of {} warps have arrived, for",
                          step_at(warp, warp.issued_pc, arch::OpCode::barrier), warp.barrier, arrived.size(),
                          cta.barriers.needed(warp.barrier)),
              name_of(cta, other));
  }
}

// It polls for ever.
void WaitReport::show_round(WaitGraph& graph, const Cta& cta, const Warp& warp) const {
  const WarpRound& round = *warp.round;
  const std::string name = name_of(cta, warp.place.warp);
  const std::string loop = fmt::format("in a loop of {} operation{} that leads back to the same state each time",
                                       round.length(), round.length() == 1 ? "" : "s");
  if (!round.look()) {
    graph.add(name, loop + ", for nothing that could change: next comes", next_of(warp));
    return;
  }
  const bool global = round.look()->space == arch::Space::global;
  graph.add(
      name,
      fmt::format("{}, for another value where {} looks:", loop, step_at(warp, round.look()->pc, arch::OpCode::load)),
      fmt::format("{} at 0x{:x}", global ? "device memory" : "shared or local memory", round.look()->address));
}

void WaitReport::show_warp(WaitGraph& graph, const Cta& cta, std::uint32_t number) const {
  const Warp& warp = warps_[cta.warps[number]];
  const std::string name = name_of(cta, number);
  if (warp.round != nullptr && warp.round->closed()) return show_round(graph, cta, warp);
  const bool launches = subjects_.launches.run_of(cta.warps[number]) != nullptr;
  if (launches && warp.wait != WarpWait::order) return show_launch(graph, cta, warp);
  switch (warp.wait) {
    case WarpWait::registers: {
      graph.add(name, fmt::format("before {}, for loads from", next_of(warp)), memory());
      return;
    }
    case WarpWait::barrier:
      return show_barrier(graph, cta, warp);
    case WarpWait::order:
      graph.add(name, "in a release, for the acknowledgement of earlier requests by", memory());
      return;
    case WarpWait::flush:
      graph.add(name,
                warp.release.reach == FenceReach::memory ? "in a release, for write-backs by"
                                                         : "in a fence, for its answer from",
                memory());
      return;
    case WarpWait::access:
      graph.add(name, "in an acquire, for its value from", memory());
      return;
    case WarpWait::copies:
      graph.add(name,
                fmt::format("for asynchronous copies ({} groups, {} may be open) from", warp.copies.open(),
                            warp.groups_wanted),
                memory());
      return;
    case WarpWait::multiplies:
    case WarpWait::tensor:
      return show_multiplies(graph, cta, warp);
    case WarpWait::cluster:
      return show_cluster_wait(graph, cta, warp);
    case WarpWait::mbarrier:
      return show_mbarrier_wait(graph, cta, warp);
    case WarpWait::bulk:
    case WarpWait::bulk_groups:
    case WarpWait::bulk_answer:
      return show_bulk_wait(graph, cta, warp);
    case WarpWait::issue:
      if (warp.unit == arch::Unit::memory && subjects_.gate.closed()) {
        graph.add(name, "for the load-store unit, which waits for", memory());
      } else {
        graph.add(name, "for nothing: it runs, and next comes", next_of(warp));
      }
      return;
    case WarpWait::fetch:
      graph.add(name, "for its instructions or the parameters of its kernel from", memory());
      return;
    case WarpWait::nested:
    case WarpWait::context:
    case WarpWait::children:
      graph.add(name, "for its entry of a queue from", memory());
      return;
    case WarpWait::dependency:
      graph.add(name, fmt::format("in {}, for", step_at(warp, warp.issued_pc, warp.code)),
                "the grid dependency of " + labels_.of(cta.operation));
      return;
    case WarpWait::occupancy:
      graph.add(name, fmt::format("in {}, for the answer of", step_at(warp, warp.issued_pc, warp.code)),
                "the distributor");
      return;
    case WarpWait::restore:
      graph.add(name, "for its state, which was saved, from", memory());
      return;
    case WarpWait::frozen:
      graph.add(name, "which is to make room, for what its CTA has under way, from", memory());
      return;
    case WarpWait::exited:
      return;
  }
}

void WarpWatch::look(bool closely) {
  for (Warp& warp : warps_) warp.round.reset();
  if (!closely) return;
  for (const Cta& cta : ctas_) {
    for (const std::uint32_t slot : cta.warps) {
      if (warps_[slot].wait != WarpWait::exited) warps_[slot].round = std::make_unique<WarpRound>();
    }
  }
}

// Events of CTAs without a program, and ends of others, have their time.
Course WarpWatch::course() const {
  Course most = Course::round;
  for (const Cta& cta : ctas_) {
    if (!cta.here() || cta.code == nullptr) continue;
    for (const std::uint32_t slot : cta.warps) most = std::max(most, sm::course(warps_[slot], now()));
  }
  return most;
}

}  // namespace heddle::sm
