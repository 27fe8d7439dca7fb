#include "sm/cta_swap.h"

#include <algorithm>

#include "common/error.h"
#include "sm/barrier_unit.h"
#include "sm/bulk_unit.h"
#include "sm/cta_control.h"
#include "sm/cta_table.h"
#include "sm/device_launch_unit.h"
#include "sm/faults.h"
#include "sm/sm_occupancy.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {

CtaSwap::CtaSwap(const UnitContext& context, const arch::LaunchMemory& memory, const std::string& prefix,
                 const SwapPeers& peers)
    : SmUnit(context),
      memory_(memory),
      peers_(peers),
      saves_(context, memory, prefix, peers, *this),
      members_(context, peers, saves_),
      stop_(context, peers, saves_, members_) {}

void CtaSwap::phase_passed(const Cta& cta, Cycle when) {
  if (cta.in_cga() && saves_.of(cta).makes_room) saves_.at(std::max(when, now()) + 1, CtaSaves::kStopped, cta);
}

void CtaSwap::on_event(std::uint32_t kind, std::uint64_t argument) {
  Cta& cta = ctas_[static_cast<std::uint32_t>(argument)];
  switch (kind) {
    case CtaSaves::kStopped:
      return stop_.try_save(cta);
    case CtaSaves::kOrdered:
      return members_.obey(cta);
    default:
      return waited(cta);
  }
}

void CtaSwap::waited(Cta& cta) {
  if (saves_.of(cta).due != now() || saves_.of(cta).makes_room || !saves_.all_wait(cta)) return;
  if (!saves_.is_wanted(cta)) return;
  if (!saves_.is_settled(cta)) return saves_.consider(cta);
  if (!saves_.image().is_sound(cta)) return;
  if (cta.in_cga()) return members_.announce(cta);
  using Kind = SaveHome::Kind;
  const bool counted = memory_.shared_contexts && cta.was_saved() && !cta.owed;
  saves_.begin_save(cta, {memory_.shared_contexts ? Kind::shared : Kind::own, arch::home_of_sm(place_.id), counted});
}

void CtaSwap::transfer_changed(std::uint32_t transfer) {
  Cta& cta = ctas_[*peers_.transfers[transfer].cta];
  const CtaSave& save = saves_.of(cta);
  if (!save.is_saving()) return restore_changed(cta);
  if (save.with_cga) return members_.save_changed(cta);
  save_changed(cta);
}

void CtaSwap::save_changed(Cta& cta) {
  CtaSave& save = saves_.of(cta);
  const Transfer& transfer = peers_.transfers[save.transfer];
  if (transfer.steps->claims() && save.state == State::saving) {
    save.state = State::claiming;
    ++cta.open;
  }
  if (transfer.steps->revokes() && !cta.exposed) peers_.occupancy.expose(cta);
  const ContextTransfer::Outcome outcome = transfer.steps->outcome();
  if (outcome == ContextTransfer::Outcome::open) return;
  const Cycle cycles = now() - transfer.begin;
  const std::uint64_t bytes = transfer.steps->header()->bytes + transfer.steps->header()->local;
  const bool late = transfer.steps->came_late();
  const bool makes_room = save.makes_room;
  const std::uint64_t area = transfer.steps->area();
  if (outcome == ContextTransfer::Outcome::no_area) saves_.of(cta).lacks_chunks(*transfer.steps->header());
  saves_.detach(cta);
  switch (outcome) {
    case ContextTransfer::Outcome::saved:
      saves_.stats().saves.add();
      saves_.stats().bytes.add(bytes);
      saves_.stats().save_cycles.add(cycles);
      // Whoever completed the last of the tasks may not have found it. Of one that has been killed no warp is counted
      // as a waiter any more, and nobody would look for it.
      if (!makes_room && (late || (memory_.shared_contexts && cta.killed()))) {
        peers_.tasks.send({protocol::ChildPacket::Kind::wake, cta.context.address, 0, 0});
      }
      if (makes_room) {
        cta.preempted = true;
        peers_.tasks.send({protocol::ChildPacket::Kind::preempted, area, 0, 0});
      }
      return saves_.saved(cta);
    case ContextTransfer::Outcome::woken:
      saves_.stats().woken.add();
      break;
    case ContextTransfer::Outcome::no_area:
      saves_.stats().no_area.add();
      break;
    default:
      if (!cta.killed()) return saves_.failed(cta, arch::FaultKind::address, "saving its CTA");
  }
  if (cta.killed()) return peers_.control.check_end(cta, now());
  if (makes_room) saves_.thaw(cta);
  if (save.woken) return peers_.launches.on_wake({cta.context.address});
  saves_.consider(cta);
}

bool CtaSwap::woken(Cta& cta) {
  CtaSave& save = saves_.of(cta);
  // One that makes room looks at its tasks again when it is back, or goes on.
  const bool goes = save.makes_room && (save.state == State::saving || (save.announced && save.is_here()));
  if (save.is_parked() || goes) {
    save.woken = true;
    return true;
  }
  if (save.announced && save.is_here()) members_.refuse(cta);
  if (save.state != State::saving && save.state != State::claiming) return false;
  if (saves_.steps(cta).claims()) {
    save.woken = true;
    return true;
  }
  saves_.stats().woken.add();
  stop(cta);
  return false;
}

void CtaSwap::stop(Cta& cta) {
  const CtaSave& save = saves_.of(cta);
  if (save.is_here() && save.announced) return members_.refuse(cta);
  if (save.is_here() || save.is_parked()) return;  // parked: its GPM decides
  if (save.state == State::restored) {
    --cta.open;
    saves_.of(cta).state = State::here;
    return;
  }
  ContextTransfer& steps = saves_.steps(cta);
  const bool claims = steps.claims();
  steps.cancel();
  if (claims) return;                          // what comes of that decides
  if (save.state == State::restoring) return;  // nobody knows yet what context is to be left
  const bool answers = save.state == State::saving && save.with_cga;
  saves_.detach(cta);
  if (answers) members_.refuse(cta);
}

void CtaSwap::begin_restore(Cta& cta, Cycle arrival) {
  HEDDLE_CHECK(saves_.possible(), "a saved CTA has come to a machine without areas for saved CTAs");
  const arch::RecordPool& chunks = memory_.of(cta.start.subcontext).chunks;
  const std::uint64_t area = arch::save_area_of(cta.start.area);
  std::vector<LocalPart> local = saves_.image().local_of(cta);
  saves_.begin(cta,
               arch::is_saved_cga(cta.start.area)
                   ? ContextTransfer::restore_member(chunks, area, cta.start.id.rank, arch::home_of_sm(place_.id),
                                                     std::move(local))
                   : ContextTransfer::restore(chunks, area, std::move(local)),
               State::restoring, arrival);
  if (cta.killed()) saves_.steps(cta).cancel();
}

void CtaSwap::restore_changed(Cta& cta) {
  const CtaSave& save = saves_.of(cta);
  const std::uint32_t transfer = save.transfer;
  if (peers_.transfers[transfer].steps->header() && save.state == State::restoring) header_known(cta);
  if (save.is_here()) return;
  const ContextTransfer& steps = *peers_.transfers[transfer].steps;
  if (steps.outcome() == ContextTransfer::Outcome::gone) {
    restore_gone(cta);
  } else if (steps.outcome() == ContextTransfer::Outcome::failed) {
    if (save.state == State::restoring) peers_.occupancy.restored(cta);
    saves_.detach(cta);
    saves_.failed(cta, arch::FaultKind::address, "restoring its CTA");
  } else if (steps.outcome() == ContextTransfer::Outcome::restored) {
    const std::vector<std::uint8_t> bytes = steps.bytes();
    saves_.stats().restores.add();
    saves_.stats().restore_cycles.add(now() - peers_.transfers[transfer].begin);
    saves_.detach(cta);
    if (!arch::is_saved_cga(cta.start.area)) return saves_.put_back(cta, bytes);
    members_.restored(cta, bytes);
  }
}

// A CTA of the CGA that had exited when the others were saved.
void CtaSwap::restore_gone(Cta& cta) {
  saves_.detach(cta);
  cta.saved = cta.exposed = true;                          // nobody sees anything of it
  cta.preempted = arch::is_preempted_cga(cta.start.area);  // its task has counted its end
  for (const std::uint32_t slot : cta.warps) warps_[slot].wait = WarpWait::exited;
  cta.live = 0;
  peers_.control.check_end(cta, now());
}

// It belongs to the task that it was launched for, by whatever it was sent here.
void CtaSwap::header_known(Cta& cta) {
  CtaSave& save = saves_.of(cta);
  ContextTransfer& steps = saves_.steps(cta);
  const SavedHeader& header = *steps.header();
  save.state = State::reading;
  --cta.open;
  const bool with_cga = arch::is_saved_cga(cta.start.area);
  const bool no_context = header.context == 0;
  cta.owed = header.owed;
  const bool sound = (no_context || memory_.of(cta.start.subcontext).contexts.has(header.context)) &&
                     (with_cga || header.index == cta.start.id.index) &&
                     (cta.record == 0 || cta.record == header.record);
  if (sound) {
    if (with_cga) saves_.image().take_id(cta, header);
    cta.context.address = header.context;
    if (!no_context) cta.context.state = Cta::Context::State::here;
    cta.record = header.record;
    cta.operation = header.operation;
    for (const std::uint32_t slot : cta.warps) warps_[slot].kernel = stats_.row_of(cta.operation);
  }
  peers_.occupancy.restored(cta);
  if (cta.killed()) {
    saves_.detach(cta);
    return peers_.control.check_end(cta, now());
  }
  if (sound && steps.outcome() != ContextTransfer::Outcome::failed) {
    steps.place(saves_.image().local_of(cta));  // its TPC may have been told of its block after its arrival
    if (peers_.faults.aborted(cta.operation)) peers_.control.kill(cta.start.cta_slot);
    return;
  }
  steps.cancel();
  saves_.detach(cta);
  saves_.failed(cta, arch::FaultKind::poison, "restoring its CTA: there is none in its area");
}

}  // namespace heddle::sm
