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
namespace {

SavedWarp::At at_of(WarpWait wait) {
  switch (wait) {
    case WarpWait::barrier:
      return SavedWarp::At::barrier;
    case WarpWait::cluster:
      return SavedWarp::At::cluster;
    case WarpWait::mbarrier:
      return SavedWarp::At::mbarrier;
    case WarpWait::frozen:
      return SavedWarp::At::running;
    default:
      return SavedWarp::At::children;
  }
}

}  // namespace

CtaSwap::CtaSwap(const UnitContext& context, const arch::LaunchMemory& memory, const std::string& prefix,
                 const Peers& peers)
    : SmUnit(context), memory_(memory), peers_(peers), saves_(context.params.limits.ctas) {
  if (memory.chunks.count > 0) save_stats_.emplace(context.time.observation().stats, prefix);
}

void CtaSwap::reset() {
  for (Save& save : saves_) save = {};
}

// Nothing goes on in it before its children have completed.
bool CtaSwap::all_wait(const Cta& cta) const {
  if (cta.stage != CtaStage::running || !cta.has_warps() || cta.killed() || cta.saved) return false;
  if (saves_[cta.start.cta_slot].state != State::here) return false;
  if (cta.start.tag.barriers.any()) return false;
  if (cta.in_cga()) return can_go_with_cga(cta);
  if (!cta.context.here()) return false;
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

// A CTA of a GPC_CGA is saved with all others of it, one of which waits for tasks: what it waits for can be one of
// them.
bool CtaSwap::can_go_with_cga(const Cta& cta) const {
  if (cta.record == 0 || memory_.shared_contexts || cta.start.cga_memory || cta.live == 0) return false;
  if (cta.block != cta.code->block) return false;  // a part of a CTA, at the edge of its grid
  return std::all_of(cta.warps.begin(), cta.warps.end(), [this](std::uint32_t slot) {
    switch (warps_[slot].wait) {
      case WarpWait::exited:
      case WarpWait::barrier:
      case WarpWait::children:
      case WarpWait::cluster:
      case WarpWait::mbarrier:
        return true;
      default:
        return false;
    }
  });
}

bool CtaSwap::waits_for_tasks(const Cta& cta) const {
  return std::any_of(cta.warps.begin(), cta.warps.end(),
                     [this](std::uint32_t slot) { return warps_[slot].wait == WarpWait::children; });
}

// Its warps are all there is of it: no access, copy, bulk request or result is on its way (TMA-31).
bool CtaSwap::is_settled(const Cta& cta) const {
  const Cycle cycle = now();
  const bool needs_home = !memory_.shared_contexts && waits_for_tasks(cta) && !saves_[cta.start.cta_slot].makes_room;
  if ((needs_home && !cta.context.home_here) || cta.open > 0 || cta.bulk > 0 || peers_.control.in_flight(cta))
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
  time_.schedule(save.due, *this, kWaited, cta.start.cta_slot);
}

// Its warps stop at their next instruction. The least urgent go first, then those that came last.
void CtaSwap::make_room(const protocol::Preemption& wanted) {
  if (!save_stats_) return;
  arch::ResourceVector free = peers_.occupancy.capacity();
  std::vector<Cta*> victims;
  for (Cta& cta : ctas_) {
    if (!cta.here()) continue;
    const bool goes = cta.saved || saves_[cta.start.cta_slot].makes_room;
    if (!goes) free.subtract(cta.need);
    if (!goes && can_make_room(cta, wanted)) victims.push_back(&cta);
  }
  std::stable_sort(victims.begin(), victims.end(), [](const Cta* a, const Cta* b) {
    if (a->start.priority != b->start.priority) return a->start.priority < b->start.priority;
    return a->begin > b->begin;
  });
  arch::ResourceVector needed{};
  for (std::uint32_t i = 0; i < wanted.ctas; ++i) needed.add(wanted.need);
  for (Cta* cta : victims) {
    if (wanted.kind == protocol::Preemption::Kind::room && needed.within(free)) return;
    free.add(cta->need);
    preempt(*cta);
  }
}

bool CtaSwap::can_make_room(const Cta& cta, const protocol::Preemption& wanted) const {
  const bool runs = cta.stage == CtaStage::running && !cta.killed() && cta.fate == CtaFate::lives;
  if (!runs || cta.start.tag.in_any_cga() || memory_.shared_contexts) return false;
  if (saves_[cta.start.cta_slot].state != State::here) return false;
  return wanted.kind == protocol::Preemption::Kind::room ? cta.start.priority < wanted.priority
                                                         : cta.start.subcontext != wanted.subcontext;
}

void CtaSwap::preempt(Cta& cta) {
  save_of(cta).makes_room = true;
  for (const std::uint32_t slot : cta.warps) peers_.scheduler.freeze(slot);
  peers_.scheduler.rearm();
  stopped(cta);
}

bool CtaSwap::has_stopped(const Cta& cta) const {
  return std::all_of(cta.warps.begin(), cta.warps.end(), [this](std::uint32_t slot) {
    switch (warps_[slot].wait) {
      case WarpWait::frozen:
      case WarpWait::exited:
      case WarpWait::barrier:
      case WarpWait::children:
      case WarpWait::mbarrier:
        return true;
      default:
        return false;
    }
  });
}

void CtaSwap::stopped(Cta& cta) {
  const Save& save = save_of(cta);
  if (!save.makes_room || save.state != State::here || !has_stopped(cta)) return;
  time_.schedule(now(), *this, kStopped, cta.start.cta_slot);
}

void CtaSwap::save_to_make_room(Cta& cta) {
  constexpr Cycle kLookAgain = 16;
  const Save& save = save_of(cta);
  if (!cta.here() || !save.makes_room || save.state != State::here || cta.killed() || !has_stopped(cta)) return;
  if (cta.stage != CtaStage::running || (cta.has_warps() && cta.live == 0)) return;  // it ends by itself
  if (!is_settled(cta)) return time_.schedule(now() + kLookAgain, *this, kStopped, cta.start.cta_slot);
  if (cta.has_warps() && peers_.shared.poisoned(cta.start.cta_slot, 0, peers_.shared.size(cta.start.cta_slot))) return;
  begin_save(cta, {ContextTransfer::Home::Kind::none, 0, false});
  if (save_of(cta).state == State::here) thaw(cta);  // it does not fit
}

// There was no room for its state.
void CtaSwap::thaw(Cta& cta) {
  save_of(cta).makes_room = false;
  for (const std::uint32_t slot : cta.warps) {
    Warp& warp = warps_[slot];
    warp.frozen = false;
    if (warp.wait == WarpWait::frozen) peers_.scheduler.give_turn(slot, now(), warp.unit);
  }
}

void CtaSwap::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto cta_slot = static_cast<std::uint32_t>(argument);
  Cta& cta = ctas_[cta_slot];
  if (kind == kStopped) return save_to_make_room(cta);
  if (kind == kOrdered) return obey(cta);
  if (save_of(cta).due != now() || save_of(cta).makes_room || !all_wait(cta)) return;
  if (!is_settled(cta)) return consider(cta);
  // Poison could not be told from sound data.
  if (peers_.shared.poisoned(cta_slot, 0, peers_.shared.size(cta_slot))) return;
  if (cta.in_cga()) {
    save_of(cta).announced = true;
    return tell(cta, protocol::ClusterNoticePacket::Kind::can_be_saved);
  }
  using Kind = ContextTransfer::Home::Kind;
  begin_save(cta, {memory_.shared_contexts ? Kind::shared : Kind::own, arch::home_of_sm(place_.id), is_counted(cta)});
}

void CtaSwap::begin_save(Cta& cta, const ContextTransfer::Home& home) {
  SavedHeader header;
  header.operation = cta.operation;
  header.record = cta.record;
  header.context = cta.context.here() ? cta.context.address : 0;
  header.index = cta.start.id.index;
  header.cga = cta.start.id.cga;
  header.size = cta.start.id.size;
  // One that waits for its children leaves its task nothing to count but its context.
  header.owed = home.kind == ContextTransfer::Home::Kind::none && (!cta.was_saved() || cta.owed);
  header.cta = {cta.start.id.cta.x, cta.start.id.cta.y, cta.start.id.cta.z};
  const std::vector<std::uint8_t> bytes = sm::save(state_of(cta));
  header.bytes = bytes.size();
  std::vector<ContextTransfer::Local> local = local_of(cta);
  for (const ContextTransfer::Local& part : local) header.local += static_cast<std::uint32_t>(part.bytes);
  Save& save = save_of(cta);
  save.woken = false;
  save.with_cga = home.kind == ContextTransfer::Home::Kind::cga || home.kind == ContextTransfer::Home::Kind::leader;
  if (!SaveLayout::fits(memory_.chunks, header)) {
    save_stats_->too_large.add();
    if (save.with_cga) refuse(cta);
    return;
  }
  begin(cta, ContextTransfer::save(memory_.of(cta.start.subcontext).chunks, header, bytes, home, std::move(local)),
        State::saving, now());
}

void CtaSwap::tell(const Cta& cta, protocol::ClusterNoticePacket::Kind kind) {
  protocol::ClusterNoticePacket notice = notice_of(cta, kind);
  notice.waits = waits_for_tasks(cta);
  if (kind == protocol::ClusterNoticePacket::Kind::state_saved) {
    notice.area = peers_.transfers[saves_[cta.start.cta_slot].transfer].steps->area();
    notice.context = notice.waits ? cta.context.address : 0;
    notice.home = arch::home_of_sm(place_.id);
  }
  peers_.notices.send_at(now(), notice);
}

// The GPM counts on an answer to its order, and on hearing that what it has been told is not so any more.
void CtaSwap::refuse(Cta& cta) {
  save_of(cta).announced = false;
  tell(cta, protocol::ClusterNoticePacket::Kind::goes_on);
}

// There is one at a time: the next follows an answer.
void CtaSwap::on_order(const Cta& cta, const protocol::ClusterOrderPacket& order, Cycle arrival) {
  save_of(cta).order = order;
  time_.schedule(arrival, *this, kOrdered, cta.start.cta_slot);
}

void CtaSwap::obey(Cta& cta) {
  using Order = protocol::ClusterOrderPacket::Kind;
  using Kind = ContextTransfer::Home::Kind;
  Save& save = save_of(cta);
  const protocol::ClusterOrderPacket order = save.order;
  const protocol::CtaTag& tag = cta.start.tag;
  if (!cta.here() || tag.cga_id != order.cga_id || tag.sequence != order.sequence) return;  // it has gone meanwhile
  switch (order.kind) {
    case Order::save: {
      const bool sound = all_wait(cta) && is_settled(cta) &&
                         !peers_.shared.poisoned(cta.start.cta_slot, 0, peers_.shared.size(cta.start.cta_slot));
      if (!sound) {
        refuse(cta);
        return consider(cta);
      }
      return begin_save(cta, {cta.start.id.rank == order.rank ? Kind::leader : Kind::cga, 0, false});
    }
    case Order::publish:
      if (cta.start.id.rank != order.rank) return;
      HEDDLE_CHECK(save.state == State::parked, "a CTA is to publish its CGA whose own state is not in memory");
      save.state = State::publishing;
      peers_.transfers[save.transfer].steps->publish(*order.members, cta.start.id.cga_size, cta.start.id.size);
      return peers_.transfers.go_on_now(save.transfer);
    case Order::resume:
      if (save.state == State::restored) {
        --cta.open;
        save.state = State::here;
        const std::vector<std::uint8_t> bytes = std::move(save.bytes);
        return put_back(cta, bytes);
      }
      if (save.state != State::parked && save.state != State::saving) return;  // it has refused
      peers_.transfers[save.transfer].steps->cancel();
      detach(cta);
      save.announced = false;
      if (cta.live == 0) return peers_.control.check_end(cta, now());
      if (save.woken) return peers_.launches.on_wake({cta.context.address});
      return consider(cta);
    default:
      HEDDLE_CHECK(save.is_parked(), "a CTA is to leave with its CGA whose own state is not in memory");
      if (save.state == State::parked) {
        peers_.transfers[save.transfer].steps->keep();
        detach(cta);
      } else {
        --cta.open;
        save.state = State::here;
      }
      save_stats_->saves.add();
      return saved(cta);
  }
}

// Of a CTA that is saved with its CGA.
void CtaSwap::member_changed(Cta& cta) {
  Save& save = save_of(cta);
  const Transfer& transfer = peers_.transfers[save.transfer];
  const ContextTransfer& steps = *transfer.steps;
  if (save.state == State::publishing && steps.over()) {
    if (steps.came_late()) {
      peers_.tasks.send({protocol::ChildPacket::Kind::wake_cga, steps.cga_record(), 0, 0});
    }
    save.state = State::published;
    peers_.transfers.detach(save.transfer);
    return tell(cta, protocol::ClusterNoticePacket::Kind::cga_saved);
  }
  if (save.state != State::saving) return;
  if (steps.parked()) {
    save_stats_->bytes.add(steps.header().bytes + steps.header().local);
    save_stats_->save_cycles.add(now() - transfer.begin);
    save.state = State::parked;
    return tell(cta, protocol::ClusterNoticePacket::Kind::state_saved);
  }
  if (steps.outcome() == ContextTransfer::Outcome::open) return;
  const bool failed = steps.outcome() == ContextTransfer::Outcome::failed;
  if (steps.outcome() == ContextTransfer::Outcome::no_area) save_stats_->no_area.add();
  detach(cta);
  refuse(cta);
  if (failed) return transfer_failed(cta, arch::FaultKind::address, "saving its CTA");
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
  saved.context = cta.context.here() ? cta.context.address : 0;
  saved.kernarg = cta.has_warps() ? warps_[cta.warps[0]].place.kernarg : 0;
  saved.waits = waits_for_tasks(cta);
  if (!cta.has_warps()) saved.remaining = cta.ends - std::min(cta.ends, now());
  saved.queue = cta.queue;
  saved.gives_turn = cta.turn.has_value();
  if (cta.turn) saved.turn_entry = cta.turn->entry;
  if (cta.turn) saved.turn = cta.turn->value;
  saved.barriers = cta.barriers.save();
  saved.cluster_arrived = cta.cluster[0].arrived;
  saved.cluster_phases = cta.cluster[0].phases;
  std::uint64_t named = 0;
  for (const std::uint32_t slot : cta.warps) {
    const Warp& warp = warps_[slot];
    SavedWarp its;
    its.issued_pc = warp.issued_pc;
    its.cluster_arrived = warp.cluster[0].arrival != ClusterArrival::none;
    its.cluster_passed = warp.cluster[0].arrival == ClusterArrival::passed;
    if (warp.wait != WarpWait::exited) {
      its.at = at_of(warp.wait);
      if (its.at == SavedWarp::At::children) its.targets = peers_.launches.targets_of(slot);
      if (its.at == SavedWarp::At::mbarrier) its.lanes = warp.operation->lanes;
      its.acquires = warp.acquires;
      if (its.at == SavedWarp::At::running && warp.next == WarpNext::compute) {
        its.unit = static_cast<std::uint8_t>(warp.unit);
        its.compute_left = warp.compute_left;
        its.compute_latency = warp.compute_latency;
      }
      its.barrier = its.at == SavedWarp::At::barrier ? warp.barrier : 0;
      its.state = warp.state;
      its.state.registers.resize(std::size_t{warp.program->registers()} * arch::kWarpLanes);  // without hidden ones
    }
    named += its.state.registers.size();
    saved.warps.push_back(std::move(its));
  }
  // Registers are allocated for groups of warps: those of warps that there are not hold nothing.
  if (!cta.has_warps()) {
    saved.further_bytes = std::uint64_t{cta.need[arch::Resource::registers]} * sizeof(std::uint32_t) +
                          cta.need[arch::Resource::shared_bytes];
    return saved;
  }
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
  const Save& save = save_of(cta);
  const bool saves = save.state == State::saving || save.state == State::claiming || save.is_parked();
  if (saves && save.with_cga) return member_changed(cta);
  if (saves) return save_changed(cta);
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
  const bool makes_room = save.makes_room;
  const std::uint64_t area = transfer.steps->area();
  detach(cta);
  switch (outcome) {
    case ContextTransfer::Outcome::saved:
      save_stats_->saves.add();
      save_stats_->bytes.add(bytes);
      save_stats_->save_cycles.add(cycles);
      // Whoever completed the last of the tasks may not have found it. Of one that has been killed no warp is counted
      // as a waiter any more, and nobody would look for it.
      if (!makes_room && (late || (memory_.shared_contexts && cta.killed()))) {
        peers_.tasks.send({protocol::ChildPacket::Kind::wake, cta.context.address, 0, 0});
      }
      if (makes_room) {
        cta.preempted = true;
        peers_.tasks.send({protocol::ChildPacket::Kind::preempted, area, 0, 0});
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
  if (makes_room) thaw(cta);
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
    cta.mbarrier_waiters.clear();
    cta.live = 0;
  }
  peers_.control.check_end(cta, now());
}

bool CtaSwap::woken(Cta& cta) {
  Save& save = save_of(cta);
  // One that makes room looks at its tasks again when it is back.
  if (save.is_parked() || (save.makes_room && save.state == State::saving)) {
    save.woken = true;
    return true;
  }
  if (save.announced && save.state == State::here) refuse(cta);
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
  if (save.state == State::here && save.announced) return refuse(cta);
  if (save.state == State::here || save.is_parked()) return;  // parked: its GPM decides
  if (save.state == State::restored) {
    --cta.open;
    save_of(cta).state = State::here;
    return;
  }
  ContextTransfer& steps = *peers_.transfers[save.transfer].steps;
  const bool claims = steps.claims();
  steps.cancel();
  if (claims) return;                          // what comes of that decides
  if (save.state == State::restoring) return;  // nobody knows yet what context is to be left
  const bool answers = save.state == State::saving && save.with_cga;
  detach(cta);
  if (answers) refuse(cta);
}

void CtaSwap::begin_restore(Cta& cta, Cycle arrival) {
  HEDDLE_CHECK(save_stats_, "a saved CTA has come to a machine without areas for saved CTAs");
  const arch::RecordPool& chunks = memory_.of(cta.start.subcontext).chunks;
  const std::uint64_t area = arch::save_area_of(cta.start.area);
  begin(cta,
        arch::is_saved_cga(cta.start.area) ? ContextTransfer::restore_member(chunks, area, cta.start.id.rank,
                                                                             arch::home_of_sm(place_.id), local_of(cta))
                                           : ContextTransfer::restore(chunks, area, local_of(cta)),
        State::restoring, arrival);
  if (cta.killed()) peers_.transfers[save_of(cta).transfer].steps->cancel();
}

void CtaSwap::restore_changed(Cta& cta) {
  const Save& save = save_of(cta);
  const std::uint32_t transfer = save.transfer;
  if (peers_.transfers[transfer].steps->has_header() && save.state == State::restoring) header_known(cta);
  if (save.state == State::here) return;
  const ContextTransfer& steps = *peers_.transfers[transfer].steps;
  if (steps.outcome() == ContextTransfer::Outcome::gone) {
    restore_gone(cta);
  } else if (steps.outcome() == ContextTransfer::Outcome::failed) {
    if (save.state == State::restoring) peers_.occupancy.restored(cta);
    detach(cta);
    transfer_failed(cta, arch::FaultKind::address, "restoring its CTA");
  } else if (steps.outcome() == ContextTransfer::Outcome::restored) {
    const std::vector<std::uint8_t> bytes = steps.bytes();
    save_stats_->restores.add();
    save_stats_->restore_cycles.add(now() - peers_.transfers[transfer].begin);
    detach(cta);
    if (!arch::is_saved_cga(cta.start.area)) return put_back(cta, bytes);
    Save& waiting = save_of(cta);
    waiting.state = State::restored;
    waiting.bytes = bytes;
    ++cta.open;
    tell(cta, protocol::ClusterNoticePacket::Kind::state_back);
  }
}

// A CTA of the CGA that had exited when the others were saved.
void CtaSwap::restore_gone(Cta& cta) {
  detach(cta);
  cta.saved = cta.exposed = true;  // nobody sees anything of it
  for (const std::uint32_t slot : cta.warps) warps_[slot].wait = WarpWait::exited;
  cta.live = 0;
  peers_.control.check_end(cta, now());
}

// What was launched is the CGA alone: its CTAs know which of their grid they are when they are there.
void CtaSwap::take_id(Cta& cta, const SavedHeader& header) {
  arch::CtaId& id = cta.start.id;
  id.index = header.index;
  id.cga = header.cga;
  id.size = static_cast<std::uint8_t>(header.size);
  id.cta = {header.cta[0], header.cta[1], header.cta[2]};
  for (const std::uint32_t slot : cta.warps) peers_.control.place(cta, slot);
}

// It belongs to the task that it was launched for, by whatever it was sent here.
void CtaSwap::header_known(Cta& cta) {
  Save& save = save_of(cta);
  ContextTransfer& steps = *peers_.transfers[save.transfer].steps;
  const SavedHeader& header = steps.header();
  save.state = State::reading;
  --cta.open;
  const bool with_cga = arch::is_saved_cga(cta.start.area);
  const bool no_context = header.context == 0;
  cta.owed = header.owed;
  const bool sound = (no_context || memory_.of(cta.start.subcontext).contexts.has(header.context)) &&
                     (with_cga || header.index == cta.start.id.index) &&
                     (cta.record == 0 || cta.record == header.record);
  if (sound) {
    if (with_cga) take_id(cta, header);
    cta.context.address = header.context;
    if (!no_context) cta.context.state = Cta::Context::State::here;
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
    const bool same =
        saved.context == (cta.context.here() ? cta.context.address : 0) && saved.index == cta.start.id.index;
    if (!same || saved.warps.size() != cta.warps.size()) does_not_fit("its header says so");
    if (cta.code != nullptr && saved.shared.size() > cta.code->shared_bytes) does_not_fit("it has more shared memory");
    for (std::uint32_t warp = 0; warp < cta.warps.size(); ++warp) {
      check_fits(saved.warps[warp], warps_[cta.warps[warp]].state, warp);
    }
  } catch (const InputError& error) {
    return transfer_failed(cta, arch::FaultKind::poison, "restoring its CTA: " + error.message());
  }
  ++time_.observation().progress;
  if (!cta.has_warps()) return peers_.control.run_for(cta, saved.remaining);
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
  // Others of its CGA hear again that it has arrived; what it waits for may have come with a phase that is over.
  if (cta.in_cga()) peers_.barriers.restored(cta);
  peers_.mbarriers.look_at_waiters(cta, now());
  if (!cta.killed()) consider(cta);
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
    case SavedWarp::At::running:
      warp.state = saved.state;
      if (saved.compute_left == 0) return peers_.scheduler.prepare(slot, now());
      warp.code = arch::OpCode::compute;
      warp.unit = static_cast<arch::Unit>(saved.unit);
      warp.next = WarpNext::compute;
      warp.compute_left = saved.compute_left;
      warp.compute_latency = saved.compute_latency;
      return peers_.scheduler.give_turn(slot, now(), warp.unit);
    case SavedWarp::At::cluster:
      warp.state = saved.state;
      warp.code = arch::OpCode::cluster_wait;
      warp.unit = arch::Unit::none;
      warp.wait = WarpWait::cluster;
      warp.cluster_level = 0;
      warp.acquires = saved.acquires;
      return;
    case SavedWarp::At::mbarrier:
      warp.state = saved.state;
      return peers_.mbarriers.resume_wait(slot, saved.lanes, saved.acquires);
    case SavedWarp::At::children:
      warp.state = saved.state;
      warp.code = arch::OpCode::wait_children;
      return peers_.launches.resume_wait(slot, saved.targets);
  }
}

// Memory has failed, or has been written to by somebody else: only the CTA is stopped by that (PRT-08).
void CtaSwap::transfer_failed(Cta& cta, arch::FaultKind kind, const std::string& where) {
  if (cta.killed()) return peers_.control.check_end(cta, now());
  const Warp* const warp = cta.has_warps() ? &warps_[cta.warps[0]] : nullptr;
  arch::FaultRecord record =
      warp ? peers_.faults.record_of(*warp, kind, warp->state.pc) : peers_.faults.record_of(cta, kind);
  if (warp) record.operation = arch::OpCode::wait_children;
  record.address = cta.start.area;
  record.where = where;
  record.cycle = now();
  peers_.faults.stop(record, cta.start.cta_slot);
}

}  // namespace heddle::sm
