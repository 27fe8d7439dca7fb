#include "sm/cta_swap.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/error.h"
#include "sm/bulk_unit.h"
#include "sm/cta_control.h"
#include "sm/cta_table.h"
#include "sm/device_launch_unit.h"
#include "sm/faults.h"
#include "sm/sm_occupancy.h"

namespace heddle::sm {
namespace {}  // namespace

CtaSwap::CtaSwap(const UnitContext& context, const arch::LaunchMemory& memory, const std::string& prefix,
                 const Peers& peers)
    : SmUnit(context), memory_(memory), peers_(peers), saves_(context.params.limits.ctas) {
  if (memory.chunks.count > 0) save_stats_.emplace(context.time.observation().stats, prefix);
}

void CtaSwap::reset() {
  for (Save& save : saves_) save = {};
}

// Nothing goes on in it before its children have completed. A CTA of a cluster stays: others reach into it.
bool CtaSwap::all_wait(const Cta& cta) const {
  if (cta.stage != CtaStage::running || !cta.has_warps() || cta.killed() || cta.saved) return false;
  if (saves_[cta.start.cta_slot].state != State::here) return false;
  if (!cta.context.here() || cta.in_cga() || cta.start.tag.barriers.any()) return false;
  bool waits = false;
  for (const std::uint32_t slot : cta.warps) {
    const WarpWait wait = warps_[slot].wait;
    if (wait != WarpWait::exited && wait != WarpWait::barrier && wait != WarpWait::children) return false;
    waits |= wait == WarpWait::children;
    // Who waits for some tasks of a context that it shares could not be found when they complete.
    if (memory_.shared_contexts && peers_.launches.waits_for_some(slot)) return false;
  }
  return waits;
}

// Its warps are all there is of it: no access, copy, bulk request or result is on its way (TMA-31).
bool CtaSwap::is_settled(const Cta& cta) const {
  const Cycle cycle = now();
  if ((!memory_.shared_contexts && !cta.context.home_here) || cta.open > 0 || cta.bulk > 0 ||
      peers_.control.in_flight(cta))
    return false;
  return std::all_of(cta.warps.begin(), cta.warps.end(), [this, cycle](std::uint32_t slot) {
    const Warp& warp = warps_[slot];
    return warp.scoreboard.settled(cycle) && warp.copies.settled(cycle) && warp.bulk.settled(cycle) &&
           warp.bulk_reads.settled(cycle) &&
           (warp.cluster[0].arrival != ClusterArrival::passed || warp.cluster[0].passes <= cycle);
  });
}

void CtaSwap::consider(Cta& cta) {
  if (!save_stats_ || !params_.nested.save || !all_wait(cta)) return;
  Save& save = save_of(cta);
  save.due = now() + params_.nested.save_delay;
  time_.schedule(save.due, *this, 0, cta.start.cta_slot);
}

// The CTA may have waited long enough.
void CtaSwap::on_event(std::uint32_t, std::uint64_t argument) {
  const auto cta_slot = static_cast<std::uint32_t>(argument);
  Cta& cta = ctas_[cta_slot];
  if (save_of(cta).due != now() || !all_wait(cta)) return;
  if (!is_settled(cta)) return consider(cta);
  // Poison could not be told from sound data.
  if (peers_.shared.poisoned(cta_slot, 0, peers_.shared.size(cta_slot))) return;
  SavedHeader header;
  header.operation = cta.operation;
  header.record = cta.record;
  header.context = cta.context.address;
  header.index = cta.start.id.index;
  header.cta = {cta.start.id.cta.x, cta.start.id.cta.y, cta.start.id.cta.z};
  std::vector<std::uint8_t> bytes = sm::save(state_of(cta));
  header.bytes = bytes.size();
  std::vector<ContextTransfer::Local> local = local_of(cta);
  for (const ContextTransfer::Local& part : local) header.local += static_cast<std::uint32_t>(part.bytes);
  if (!SaveLayout::fits(memory_.chunks, header)) return save_stats_->too_large.add();
  save_of(cta).woken = false;
  const ContextTransfer::Home home{memory_.shared_contexts ? 0 : arch::home_of_sm(place_.id), cta.was_saved()};
  begin(cta, ContextTransfer::save(memory_.of(cta.start.subcontext).chunks, header, bytes, home, std::move(local)),
        State::saving, now());
}

std::vector<ContextTransfer::Local> CtaSwap::local_of(const Cta& cta) const {
  std::vector<ContextTransfer::Local> local;
  const std::uint64_t words = (cta.start.local_bytes + arch::kLocalWord - 1) / arch::kLocalWord;
  if (words == 0) return local;
  const SmRegisters::LocalBlock& block = registers_.local[cta.start.subcontext];
  for (const std::uint32_t slot : cta.warps) {
    local.push_back(
        {local_base(block, place_, params_.warp_slots(), slot), words * arch::kLocalWord * arch::kWarpLanes});
  }
  return local;
}

SavedCta CtaSwap::state_of(const Cta& cta) const {
  const std::uint32_t cta_slot = cta.start.cta_slot;
  SavedCta saved;
  saved.operation = cta.operation;
  saved.index = cta.start.id.index;
  saved.record = cta.record;
  saved.context = cta.context.address;
  saved.kernarg = warps_[cta.warps[0]].place.kernarg;
  saved.queue = cta.queue;
  saved.gives_turn = cta.turn.has_value();
  if (cta.turn) saved.turn_entry = cta.turn->entry;
  if (cta.turn) saved.turn = cta.turn->value;
  saved.barriers = cta.barriers.save();
  saved.cluster_arrived = cta.cluster[0].arrived;  // it belongs to no CGA: it has the barrier to itself
  saved.cluster_phases = cta.cluster[0].phases;
  std::uint64_t named = 0;
  for (const std::uint32_t slot : cta.warps) {
    const Warp& warp = warps_[slot];
    SavedWarp its;
    its.issued_pc = warp.issued_pc;
    its.cluster_arrived = warp.cluster[0].arrival != ClusterArrival::none;
    its.cluster_passed = warp.cluster[0].arrival == ClusterArrival::passed;
    if (warp.wait != WarpWait::exited) {
      its.at = warp.wait == WarpWait::barrier ? SavedWarp::At::barrier : SavedWarp::At::children;
      if (its.at == SavedWarp::At::children) its.targets = peers_.launches.targets_of(slot);
      its.barrier = its.at == SavedWarp::At::barrier ? warp.barrier : 0;
      its.state = warp.state;
      its.state.registers.resize(std::size_t{warp.program->registers()} * arch::kWarpLanes);  // without hidden ones
    }
    named += its.state.registers.size();
    saved.warps.push_back(std::move(its));
  }
  // Registers are allocated for groups of warps: those of warps that there are not hold nothing.
  const auto warps = static_cast<std::uint32_t>(cta.warps.size());
  const std::uint32_t group = params_.limits.warp_granularity;
  const std::uint64_t allocated =
      std::uint64_t{cta.need[arch::Resource::registers]} / ((warps + group - 1) / group * group) * warps;
  if (allocated > named) saved.further_bytes = (allocated - named) * sizeof(std::uint32_t);
  const std::uint8_t* bytes = peers_.shared.data(cta_slot);
  saved.shared.assign(bytes, bytes + peers_.shared.size(cta_slot));
  return saved;
}

void CtaSwap::begin(Cta& cta, ContextTransfer steps, State state, Cycle when) {
  Save& save = save_of(cta);
  HEDDLE_CHECK(save.state == State::here, "a CTA goes to memory and comes back at the same time");
  save.state = state;
  save.transfer = peers_.transfers.begin(cta, std::move(steps), when);
  if (save.holds()) ++cta.open;
}

void CtaSwap::detach(Cta& cta) {
  Save& save = save_of(cta);
  if (save.holds()) --cta.open;
  save.state = State::here;
  peers_.transfers.detach(save.transfer);
}

void CtaSwap::transfer_changed(std::uint32_t transfer) {
  Cta& cta = ctas_[*peers_.transfers[transfer].cta];
  const State state = save_of(cta).state;
  if (state == State::saving || state == State::claiming) return save_changed(cta);
  restore_changed(cta);
}

void CtaSwap::save_changed(Cta& cta) {
  Save& save = save_of(cta);
  const Transfer& transfer = peers_.transfers[save.transfer];
  if (transfer.steps->claims() && save.state == State::saving) {
    save.state = State::claiming;
    ++cta.open;
  }
  if (transfer.steps->revokes() && !cta.exposed) peers_.occupancy.expose(cta);
  const ContextTransfer::Outcome outcome = transfer.steps->outcome();
  if (outcome == ContextTransfer::Outcome::open) return;
  const Cycle cycles = now() - transfer.begin;
  const std::uint64_t bytes = transfer.steps->header().bytes + transfer.steps->header().local;
  const bool late = transfer.steps->came_late();
  detach(cta);
  switch (outcome) {
    case ContextTransfer::Outcome::saved:
      save_stats_->saves.add();
      save_stats_->bytes.add(bytes);
      save_stats_->save_cycles.add(cycles);
      // Whoever completed the last of the tasks may not have found it. Of one that has been killed no warp is counted
      // as a waiter any more, and nobody would look for it.
      if (late || (memory_.shared_contexts && cta.killed())) {
        peers_.tasks.send({protocol::ChildPacket::Kind::wake, cta.context.address, 0, 0});
      }
      return saved(cta);
    case ContextTransfer::Outcome::woken:
      save_stats_->woken.add();
      break;
    case ContextTransfer::Outcome::no_area:
      save_stats_->no_area.add();
      break;
    default:
      if (!cta.killed()) return transfer_failed(cta, arch::FaultKind::address, "saving its CTA");
  }
  if (cta.killed()) return peers_.control.check_end(cta, now());
  if (save.woken) return peers_.launches.on_wake({cta.context.address});
  consider(cta);
}

// Whoever wakes its context finds it in memory from now on.
void CtaSwap::saved(Cta& cta) {
  ++time_.observation().progress;
  cta.saved = true;
  cta.context.home_here = false;
  if (!cta.killed()) {
    for (const std::uint32_t slot : cta.warps) {
      warps_[slot].wait = WarpWait::exited;
      peers_.launches.forget(slot);
    }
    cta.live = 0;
  }
  peers_.control.check_end(cta, now());
}

bool CtaSwap::woken(Cta& cta) {
  Save& save = save_of(cta);
  if (save.state != State::saving && save.state != State::claiming) return false;
  if (peers_.transfers[save.transfer].steps->claims()) {
    save.woken = true;
    return true;
  }
  save_stats_->woken.add();
  stop(cta);
  return false;
}

void CtaSwap::stop(Cta& cta) {
  const Save& save = save_of(cta);
  if (save.state == State::here) return;
  ContextTransfer& steps = *peers_.transfers[save.transfer].steps;
  const bool claims = steps.claims();
  steps.cancel();
  if (claims) return;                          // what comes of that decides
  if (save.state == State::restoring) return;  // nobody knows yet what context is to be left
  detach(cta);
}

void CtaSwap::begin_restore(Cta& cta, Cycle arrival) {
  HEDDLE_CHECK(save_stats_, "a saved CTA has come to a machine without areas for saved CTAs");
  begin(cta, ContextTransfer::restore(memory_.of(cta.start.subcontext).chunks, cta.start.area, local_of(cta)),
        State::restoring, arrival);
  if (cta.killed()) peers_.transfers[save_of(cta).transfer].steps->cancel();
}

void CtaSwap::restore_changed(Cta& cta) {
  const Save& save = save_of(cta);
  const std::uint32_t transfer = save.transfer;
  if (peers_.transfers[transfer].steps->has_header() && save.state == State::restoring) header_known(cta);
  if (save.state == State::here) return;
  const ContextTransfer& steps = *peers_.transfers[transfer].steps;
  if (steps.outcome() == ContextTransfer::Outcome::failed) {
    if (save.state == State::restoring) peers_.occupancy.restored(cta);
    detach(cta);
    transfer_failed(cta, arch::FaultKind::address, "restoring its CTA");
  } else if (steps.outcome() == ContextTransfer::Outcome::restored) {
    const std::vector<std::uint8_t> bytes = steps.bytes();
    save_stats_->restores.add();
    save_stats_->restore_cycles.add(now() - peers_.transfers[transfer].begin);
    detach(cta);
    put_back(cta, bytes);
  }
}

// It belongs to the task that it was launched for, by whatever it was sent here.
void CtaSwap::header_known(Cta& cta) {
  Save& save = save_of(cta);
  ContextTransfer& steps = *peers_.transfers[save.transfer].steps;
  const SavedHeader& header = steps.header();
  save.state = State::reading;
  --cta.open;
  const bool sound = memory_.of(cta.start.subcontext).contexts.has(header.context) &&
                     header.index == cta.start.id.index && (cta.record == 0 || cta.record == header.record);
  if (sound) {
    cta.context.address = header.context;
    cta.context.state = Cta::Context::State::here;
    cta.record = header.record;
    cta.operation = header.operation;
  }
  peers_.occupancy.restored(cta);
  if (cta.killed()) {
    detach(cta);
    return peers_.control.check_end(cta, now());
  }
  if (sound && steps.outcome() != ContextTransfer::Outcome::failed) {
    steps.place(local_of(cta));  // its TPC may have been told of its block after its arrival
    if (peers_.faults.aborted(cta.operation)) peers_.control.kill(cta.start.cta_slot);
    return;
  }
  steps.cancel();
  detach(cta);
  transfer_failed(cta, arch::FaultKind::poison, "restoring its CTA: there is none in its area");
}

void CtaSwap::put_back(Cta& cta, const std::vector<std::uint8_t>& bytes) {
  SavedCta saved;
  try {
    saved = restore_cta(bytes);
    const bool same = saved.context == cta.context.address && saved.index == cta.start.id.index;
    if (!same || saved.warps.size() != cta.warps.size()) does_not_fit("its header says so");
    if (saved.shared.size() > cta.code->shared_bytes) does_not_fit("it has more shared memory");
    for (std::uint32_t warp = 0; warp < cta.warps.size(); ++warp) {
      check_fits(saved.warps[warp], warps_[cta.warps[warp]].state, warp);
    }
  } catch (const InputError& error) {
    return transfer_failed(cta, arch::FaultKind::poison, "restoring its CTA: " + error.message());
  }
  ++time_.observation().progress;
  peers_.windows.give_back(cta, saved.shared.size());
  peers_.shared.fill(cta.start.cta_slot, saved.shared);
  peers_.l1.invalidate_all();  // what it wrote elsewhere is newer (MEM-06)
  peers_.bulk.begin_kernel(cta.start.tag.operation);
  cta.queue = saved.queue;
  cta.turn.reset();
  if (saved.gives_turn) cta.turn = Cta::QueueTurn{saved.turn_entry, saved.turn};
  cta.barriers.restore(saved.barriers);
  cta.cluster[0].arrived = saved.cluster_arrived;
  cta.cluster[0].phases = saved.cluster_phases;
  cta.live = saved.barriers.left;
  for (std::uint32_t warp = 0; warp < cta.warps.size(); ++warp) {
    warps_[cta.warps[warp]].place.kernarg = saved.kernarg;
    put_back_warp(cta, warp, saved.warps[warp]);
  }
}

void CtaSwap::put_back_warp(const Cta& cta, std::uint32_t number, const SavedWarp& saved) {
  const std::uint32_t slot = cta.warps[number];
  Warp& warp = warps_[slot];
  warp.issued_pc = saved.issued_pc;
  warp.cluster[0].arrival = !saved.cluster_arrived ? ClusterArrival::none
                            : saved.cluster_passed ? ClusterArrival::passed
                                                   : ClusterArrival::arrived;
  warp.cluster[0].passes = 0;
  warp.writes.clear();
  warp.accumulators = {};
  warp.since = now();
  switch (saved.at) {
    case SavedWarp::At::exited:
      warp.state.exited = true;
      warp.wait = WarpWait::exited;
      return;
    case SavedWarp::At::barrier:
      warp.state = saved.state;
      warp.code = arch::OpCode::barrier;
      warp.unit = arch::Unit::none;
      warp.wait = WarpWait::barrier;
      warp.barrier = saved.barrier;
      return;
    case SavedWarp::At::children:
      warp.state = saved.state;
      warp.code = arch::OpCode::wait_children;
      return peers_.launches.resume_wait(slot, saved.targets);
  }
}

// Memory has failed, or has been written to by somebody else: only the CTA is stopped by that (PRT-08).
void CtaSwap::transfer_failed(Cta& cta, arch::FaultKind kind, const std::string& where) {
  if (cta.killed()) return peers_.control.check_end(cta, now());
  const Warp& warp = warps_[cta.warps[0]];
  arch::FaultRecord record = peers_.faults.record_of(warp, kind, warp.state.pc);
  record.operation = arch::OpCode::wait_children;
  record.address = cta.start.area;
  record.where = where;
  record.cycle = now();
  peers_.faults.stop(record, cta.start.cta_slot);
}

}  // namespace heddle::sm
