// CTAs that wait for tasks that they have launched give up their slots: their state goes to memory and comes back, to
// this SM or to another one (TSK-12).
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "common/error.h"
#include "sm/warp_engine.h"

namespace heddle::sm {
namespace {

[[noreturn]] void does_not_fit(const std::string& why) {
  throw InputError(fmt::format("the state of another CTA: {}", why), "restore it where it was saved from");
}

void check_fits(const SavedWarp& saved, const arch::WarpState& fresh, std::uint32_t warp) {
  if (saved.at == SavedWarp::At::exited) return;
  if (saved.state.registers.size() != fresh.registers.size() || saved.state.scalars.size() != fresh.scalars.size()) {
    does_not_fit(fmt::format("warp {} has other registers than its program", warp));
  }
}

bool is_record_of(const arch::RecordPool& pool, std::uint64_t address) {
  const std::uint64_t offset = address - pool.record(0);
  return address >= pool.record(0) && offset % pool.size == 0 && offset / pool.size < pool.count;
}

}  // namespace

// Nothing goes on in it before its children have completed. A CTA of a cluster stays: others reach into it.
bool WarpEngine::all_wait(const Cta& cta) const {
  if (!cta.running || !cta.has_warps || cta.ending || cta.killed || cta.saved || cta.move != kNoMove) return false;
  if (!cta.has_context() || nested_.shared_contexts || cta.in_cga() || cta.start.id.cga_size > 1) return false;
  if (cta.start.queue) return false;  // its queue would be idle without it, and close (TSK-05)
  bool waits = false;
  for (const std::uint32_t slot : cta.warps) {
    const WarpWait wait = warps_[slot].wait;
    if (wait != WarpWait::exited && wait != WarpWait::barrier && wait != WarpWait::children) return false;
    waits |= wait == WarpWait::children;
  }
  return waits;
}

// Its warps are all there is of it: no access, copy, bulk request or result is on its way (TMA-31).
bool WarpEngine::is_settled(const Cta& cta) const {
  const Cycle now = domain_.now();
  if (!cta.home_here || cta.open > 0 || cta.bulk > 0 || in_flight(cta)) return false;
  return std::all_of(cta.warps.begin(), cta.warps.end(), [this, now](std::uint32_t slot) {
    const Warp& warp = warps_[slot];
    return warp.scoreboard.settled(now) && warp.copies.settled(now) && warp.bulk.settled(now) &&
           warp.bulk_reads.settled(now) && (!warp.cluster_passed || warp.cluster_passes <= now);
  });
}

// A warp of it has begun to wait, or has exited.
void WarpEngine::consider_save(Cta& cta) {
  if (!save_stats_ || !params_.nested.save || !all_wait(cta)) return;
  cta.save_due = domain_.now() + params_.nested.save_delay;
  domain_.schedule(cta.save_due, *this, kSaves, cta.start.cta_slot);
}

void WarpEngine::save_due(std::uint32_t cta_slot) {
  Cta& cta = ctas_[cta_slot];
  if (cta.save_due != domain_.now() || !all_wait(cta)) return;
  if (!is_settled(cta)) return consider_save(cta);
  const SharedMemory& shared = memory_.shared_memory();
  if (shared.poisoned(cta_slot, 0, shared.size(cta_slot))) return;  // which could not be told from sound data
  SavedHeader header;
  header.operation = cta.start.tag.operation;
  header.record = cta.start.record;
  header.context = cta.context;
  header.index = cta.start.id.index;
  header.cta = {cta.start.id.cta.x, cta.start.id.cta.y, cta.start.id.cta.z};
  std::vector<std::uint8_t> bytes = sm::save(state_of(cta));
  header.bytes = bytes.size();
  if (!CtaMove::fits(nested_.areas, bytes.size())) return save_stats_->too_large.add();
  cta.woken = false;
  begin_move(cta, CtaMove::save(nested_.areas, header, std::move(bytes), arch::home_of_sm(place_.id)), domain_.now());
}

SavedCta WarpEngine::state_of(const Cta& cta) const {
  const std::uint32_t cta_slot = cta.start.cta_slot;
  SavedCta saved;
  saved.operation = cta.start.tag.operation;
  saved.index = cta.start.id.index;
  saved.record = cta.start.record;
  saved.context = cta.context;
  saved.kernarg = warps_[cta.warps[0]].place.kernarg;
  saved.queue = cta.start.queue;
  saved.gives_turn = cta.gives_turn;
  saved.turn_entry = cta.turn_entry;
  saved.turn = cta.turn;
  saved.barriers = cta.barriers.save();
  saved.cluster_arrived = cta.arrived;
  saved.cluster_phases = cta.phases;
  for (const std::uint32_t slot : cta.warps) {
    const Warp& warp = warps_[slot];
    SavedWarp its;
    its.issued_pc = warp.issued_pc;
    its.cluster_arrived = warp.cluster_arrived;
    its.cluster_passed = warp.cluster_passed;
    if (warp.wait != WarpWait::exited) {
      its.at = warp.wait == WarpWait::barrier ? SavedWarp::At::barrier : SavedWarp::At::children;
      its.barrier = its.at == SavedWarp::At::barrier ? warp.barrier : 0;
      its.state = warp.state;
      its.state.registers.resize(std::size_t{warp.program->registers()} * arch::kWarpLanes);  // without hidden ones
    }
    saved.warps.push_back(std::move(its));
  }
  const SharedMemory& shared = memory_.shared_memory();
  const std::uint8_t* bytes = shared.data(cta_slot);
  saved.shared.assign(bytes, bytes + shared.size(cta_slot));
  return saved;
}

void WarpEngine::save_changed(std::uint32_t index) {
  Move& move = moves_[index];
  Cta& cta = ctas_[move.cta];
  if (move.walk->claims() && !move.holds) {
    move.holds = true;
    ++cta.open;
  }
  if (move.walk->revokes() && !move.exposed) {
    move.exposed = true;
    host_.cta_exposed(move.cta);
  }
  const CtaMove::Outcome outcome = move.walk->outcome();
  if (outcome == CtaMove::Outcome::open) return;
  const Cycle cycles = domain_.now() - move.begin;
  const std::uint64_t bytes = move.walk->header().bytes;
  detach(index);
  switch (outcome) {
    case CtaMove::Outcome::saved:
      save_stats_->saves.add();
      save_stats_->bytes.add(bytes);
      save_stats_->save_cycles.add(cycles);
      return saved(cta);
    case CtaMove::Outcome::woken:
      save_stats_->woken.add();
      break;
    case CtaMove::Outcome::no_area:
      save_stats_->no_area.add();
      break;
    default:
      if (!cta.killed) return move_failed(cta, arch::FaultKind::address, "saving its CTA");
  }
  if (cta.killed) return check_end(cta, domain_.now());
  if (cta.woken) return on_wake({cta.context});
  consider_save(cta);
}

// Whoever wakes its context finds it in memory from now on.
void WarpEngine::saved(Cta& cta) {
  ++domain_.observation().progress;
  cta.saved = true;
  cta.home_here = false;
  if (!cta.killed) {
    for (const std::uint32_t slot : cta.warps) {
      warps_[slot].wait = WarpWait::exited;
      warps_[slot].nested.reset();
    }
    cta.live = 0;
  }
  check_end(cta, domain_.now());
}

// True: the wake is for later, if at all. While the home moves, its warps must not write there; and if it moves, this
// wake was for something earlier.
bool WarpEngine::woken_in_save(Cta& cta) {
  if (cta.move == kNoMove || moves_[cta.move].restores) return false;
  if (moves_[cta.move].walk->claims()) {
    cta.woken = true;
    return true;
  }
  save_stats_->woken.add();
  stop_move(cta);
  return false;
}

// It goes on, or has been killed.
void WarpEngine::stop_move(Cta& cta) {
  if (cta.move == kNoMove) return;
  Move& move = moves_[cta.move];
  const bool claims = move.walk->claims();
  move.walk->cancel();
  if (claims) return;                         // what comes of that decides
  if (move.restores && !move.judged) return;  // nobody knows yet what context is to be left
  detach(cta.move);
}

void WarpEngine::begin_restore(Cta& cta, Cycle arrival) {
  HEDDLE_CHECK(save_stats_, "a saved CTA has come to a machine without areas for saved CTAs");
  const std::uint32_t index = begin_move(cta, CtaMove::restore(nested_.areas, cta.start.area), arrival);
  Move& move = moves_[index];
  move.restores = move.holds = true;
  ++cta.open;
  if (cta.killed) move.walk->cancel();
}

void WarpEngine::restore_changed(std::uint32_t index) {
  const std::uint32_t cta_slot = moves_[index].cta;
  Cta& cta = ctas_[cta_slot];
  if (moves_[index].walk->has_header() && !moves_[index].judged) header_known(index);
  if (cta.move != index) return;
  const CtaMove& walk = *moves_[index].walk;
  if (walk.outcome() == CtaMove::Outcome::failed) {
    if (!moves_[index].judged) host_.cta_restored(cta_slot, cta.start.tag.operation);
    detach(index);
    move_failed(cta, arch::FaultKind::address, "restoring its CTA");
  } else if (walk.outcome() == CtaMove::Outcome::restored) {
    const std::vector<std::uint8_t> bytes = walk.bytes();
    save_stats_->restores.add();
    save_stats_->restore_cycles.add(domain_.now() - moves_[index].begin);
    detach(index);
    put_back(cta, bytes);
  }
}

// It belongs to the task that it was launched for, by whatever it was sent here.
void WarpEngine::header_known(std::uint32_t index) {
  Move& move = moves_[index];
  Cta& cta = ctas_[move.cta];
  const SavedHeader& header = move.walk->header();
  move.judged = true;
  move.holds = false;
  --cta.open;
  const bool sound = is_record_of(nested_.contexts, header.context) && header.index == cta.start.id.index &&
                     (cta.start.record == 0 || cta.start.record == header.record);
  if (sound) {
    cta.context = header.context;
    cta.context_state = Cta::Context::here;
    cta.start.record = header.record;
    cta.start.tag.operation = header.operation;
  }
  host_.cta_restored(cta.start.cta_slot, cta.start.tag.operation);
  if (cta.killed) {
    detach(index);
    return check_end(cta, domain_.now());
  }
  if (sound && move.walk->outcome() != CtaMove::Outcome::failed) {
    if (aborted(cta.start.tag.operation)) kill(cta.start.cta_slot);
    return;
  }
  move.walk->cancel();
  detach(index);
  move_failed(cta, arch::FaultKind::poison, "restoring its CTA: there is none in its area");
}

void WarpEngine::put_back(Cta& cta, const std::vector<std::uint8_t>& bytes) {
  SavedCta saved;
  try {
    saved = restore_cta(bytes);
    const bool same = saved.context == cta.context && saved.index == cta.start.id.index;
    if (!same || saved.warps.size() != cta.warps.size()) does_not_fit("its header says so");
    if (saved.shared.size() > cta.code->shared_bytes) does_not_fit("it has more shared memory");
    for (std::uint32_t warp = 0; warp < cta.warps.size(); ++warp) {
      check_fits(saved.warps[warp], warps_[cta.warps[warp]].state, warp);
    }
  } catch (const InputError& error) {
    return move_failed(cta, arch::FaultKind::poison, "restoring its CTA: " + error.message());
  }
  ++domain_.observation().progress;
  give_back_shared(cta, saved.shared.size());
  memory_.shared_memory().fill(cta.start.cta_slot, saved.shared);
  memory_.l1().invalidate_all();  // what it wrote elsewhere is newer (MEM-06)
  descriptors_old_ = true;
  cta.start.queue = saved.queue;
  cta.gives_turn = saved.gives_turn;
  cta.turn_entry = saved.turn_entry;
  cta.turn = saved.turn;
  cta.barriers.restore(saved.barriers);
  cta.arrived = saved.cluster_arrived;
  cta.phases = saved.cluster_phases;
  cta.live = saved.barriers.left;
  for (std::uint32_t warp = 0; warp < cta.warps.size(); ++warp) {
    warps_[cta.warps[warp]].place.kernarg = saved.kernarg;
    put_back_warp(cta, warp, saved.warps[warp]);
  }
}

void WarpEngine::put_back_warp(Cta& cta, std::uint32_t number, const SavedWarp& saved) {
  const std::uint32_t slot = cta.warps[number];
  Warp& warp = warps_[slot];
  warp.issued_pc = saved.issued_pc;
  warp.cluster_arrived = saved.cluster_arrived;
  warp.cluster_passed = saved.cluster_passed;
  warp.cluster_passes = 0;
  warp.writes.clear();
  warp.accumulators = {};
  warp.since = domain_.now();
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
      return begin_wait_children(slot);
  }
}

// Memory has failed, or has been written to by somebody else: only the CTA is stopped by that (PRT-08).
void WarpEngine::move_failed(Cta& cta, arch::FaultKind kind, const std::string& where) {
  if (cta.killed) return check_end(cta, domain_.now());
  const Warp& warp = warps_[cta.warps[0]];
  arch::FaultRecord record = record_of(warp, kind, warp.state.pc);
  record.operation = arch::OpCode::wait_children;
  record.address = cta.start.area;
  record.where = where;
  record.cycle = domain_.now();
  report(record, cta.start.cta_slot);
}

}  // namespace heddle::sm
