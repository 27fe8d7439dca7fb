#include "sm/cta_control.h"

#include <algorithm>
#include <utility>

#include "common/bits.h"
#include "common/error.h"
#include "sm/accesses.h"
#include "sm/barrier_unit.h"
#include "sm/bulk_unit.h"
#include "sm/cluster_tables.h"
#include "sm/cta_swap.h"
#include "sm/cta_table.h"
#include "sm/dependency_unit.h"
#include "sm/device_launch_unit.h"
#include "sm/faults.h"
#include "sm/l1_cache.h"
#include "sm/launch_sequence.h"
#include "sm/load_store_unit.h"
#include "sm/sm_occupancy.h"
#include "sm/timed_ctas.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {

using protocol::ClusterNoticePacket;
using protocol::ClusterOrderPacket;

namespace {

// Events; the argument is the CTA slot.
enum Event : std::uint32_t { kEnds, kPermitted };

// The extents of the CGA whose ranks CTAs know: of the innermost one above CPC_CGAs, which may have been split into a
// smaller size (CWD-21).
arch::Dim3 cluster_shape(const arch::ClusterShape& cluster, std::uint32_t size) {
  for (std::size_t index = 0; index < arch::kBarrierLevels; ++index) {
    const arch::CgaLevel level = arch::barrier_level(index);
    if (cluster.has(level)) return level == cluster.outermost() ? cluster.size(size) : cluster.of(level);
  }
  return {};
}

bool is_faulted(const Cta& cta) { return cta.fate != CtaFate::lives && !cta.saved; }

arch::WarpPlace place_of(const Cta& cta, std::uint32_t number) {
  const arch::CtaId& id = cta.start.id;
  arch::WarpPlace place;
  place.grid = cta.code->grid;
  place.block = cta.block;
  place.workgroup = cta.code->block;
  place.kernarg = cta.code->kernarg_of(id.index);
  place.cta_x = id.cta.x;
  place.cta_y = id.cta.y;
  place.cta_z = id.cta.z;
  place.cta = id.index;
  place.cluster = id.cga;
  place.rank = id.rank;
  place.cluster_size = id.cga_size;
  place.cluster_shape = cluster_shape(cta.code->cluster, id.size);
  place.warp = number;
  place.warps = cta.live;
  const std::uint64_t threads = place.block.count() - std::uint64_t{number} * arch::kWarpLanes;
  place.lanes = threads >= arch::kWarpLanes ? ~arch::LaneMask{0} : (arch::LaneMask{1} << threads) - 1;
  return place;
}

// Of a program; kNoProgram: it is none.
std::uint32_t text_of(const arch::CodeStore& codes, std::uint32_t code) {
  const bool program = code != arch::kNoCode && codes.at(code).program != nullptr;
  return program ? codes.at(code).text : KernelAccount::kNoProgram;
}

}  // namespace

CtaControl::CtaControl(const UnitContext& context, const arch::CodeStore& code, const arch::LaunchMemory& nested,
                       const Units& units, const Memory& memory, const Links& links)
    : SmUnit(context),
      code_(code),
      nested_(nested),
      start_cycles_(context.time.cost(context.params.start_cycles)),
      setup_(context.params.setup, heddle::has_costs(context.time.mode())),
      units_(units),
      memory_(memory),
      links_(links) {}

void CtaControl::reset() {
  ctas_.reset();
  fence_ = 0;
  setup_.reset();
  for (Warp& warp : warps_) warp.wait = WarpWait::exited;
}

void CtaControl::on_start(const protocol::CtaStartPacket& start, std::uint32_t, Cycle arrival) {
  HEDDLE_CHECK(start.cta_slot < ctas_.size(), "a CTA slot was started twice, or does not exist");
  Cta& cta = ctas_[start.cta_slot];
  if (cta.stage == CtaStage::exit_permitted) permitted(cta);  // in this cycle, and not heard of yet
  HEDDLE_CHECK(!cta.here(), "a CTA slot was started twice");
  cta.arrive(start, arrival);
  if (stats_.charges()) (void)stats_.kernels->row_of(cta.operation, text_of(code_, start.code));
  memory_.occupancy.enter(cta);
  if (cta.in_cga()) memory_.cgas.enter(start);
  if (start.code != arch::kNoCode && code_.at(start.code).program != nullptr) return run(cta, arrival);
  units_.swap.enter(cta);
  const bool aborted = units_.faults.aborted(cta.operation);
  if (aborted && !cta.was_saved()) {
    cta.fate = CtaFate::refused;
    return end_at(cta, arrival);
  }
  units_.timed.begin(cta, arrival);
  if (!cta.was_saved()) return;
  if (aborted) cta.fate = CtaFate::killed;
  if (warps_.empty()) warps_.resize(units_.scheduler.slots());
  units_.swap.begin_restore(cta, arrival);
}

void CtaControl::run_out(Cta& cta) {
  units_.swap.stop(cta);
  ask_to_leave(cta, true);
}

void CtaControl::warp_stops(std::uint32_t slot) { units_.swap.stopped(ctas_[warps_[slot].cta]); }

// The CTA has a program.
void CtaControl::run(Cta& cta, Cycle arrival) {
  if (warps_.empty()) warps_.resize(units_.scheduler.slots());
  const bool begins = !ctas_.runs(cta.start.tag.operation);  // no other CTA of its operation is here
  units_.swap.enter(cta);
  cta.code = &code_.at(cta.start.code);
  const arch::CtaId& id = cta.start.id;
  cta.block = cta.code->block_of({id.cta.x, id.cta.y, id.cta.z});
  if (units_.faults.aborted(cta.operation)) {
    cta.fate = CtaFate::refused;
    if (!cta.was_saved()) return end_at(cta, arrival);
    cta.fate = CtaFate::killed;  // but its context is to be left
    return units_.swap.begin_restore(cta, arrival);
  }
  const Cycle first = arrival + start_cycles_;
  cta.last = first;
  if (begins || cta.queue) acquire(cta);                          // an entry is as new as a kernel
  if (begins) units_.bulk.begin_kernel(cta.start.tag.operation);  // TMA-04
  memory_.windows.enter(cta);
  const std::uint64_t threads = cta.block.count();
  cta.live = static_cast<std::uint32_t>((threads + arch::kWarpLanes - 1) / arch::kWarpLanes);
  cta.barriers.start(cta.live);
  const Cycle launches = setup_.shared_ready(first, cta.code->shared_bytes);
  for (std::uint32_t warp = 0; warp < cta.live; ++warp) enter_warp(cta, warp, launches);
  if (cta.was_saved()) return units_.swap.begin_restore(cta, arrival);
  if (cta.queue) QueueTurns::find(cta);
}

// MEM-06. What the fence of an earlier kernel has emptied is as new as that fence.
void CtaControl::acquire(const Cta& cta) {
  const std::optional<std::uint64_t>& fence = cta.start.fence;
  if (!fence) note_acquire(cta.operation);
  if (fence && *fence <= fence_) return;
  fence_ = fence.value_or(fence_);
  memory_.l1.invalidate_all();
}

void CtaControl::enter_warp(Cta& cta, std::uint32_t number, Cycle first) {
  const std::uint32_t slot =
      number == 0 ? units_.scheduler.enter_first() : units_.scheduler.enter_behind(cta.warps[number - 1]);
  cta.warps.push_back(slot);
  Warp& warp = warps_[slot];
  warp.cta = cta.start.cta_slot;
  warp.subcontext = cta.start.subcontext;
  warp.kernel = stats_.row_of(cta.operation);
  warp.program = cta.code->program.get();
  warp.place = place_of(cta, number);
  warp.state.pc = 0;
  warp.state.exited = false;
  warp.program->start(warp.place, warp.state);
  warp.scoreboard.start(warp.program->registers());
  warp.begin();
  if (cta.was_saved()) {
    warp.wait = WarpWait::restore;
  } else {
    const std::uint32_t registers = warp.program->registers();
    units_.scheduler.prepare(slot, setup_.launch(slot % kSubPartitions, first, registers));
  }
}

void CtaControl::place(const Cta& cta, std::uint32_t slot) {
  Warp& warp = warps_[slot];
  const std::uint64_t kernarg = warp.place.kernarg;
  warp.place = place_of(cta, warp.place.warp);
  warp.place.kernarg = kernarg;
}

void CtaControl::on_event(std::uint32_t kind, std::uint64_t argument) {
  Cta& cta = ctas_[static_cast<std::uint32_t>(argument)];
  if (kind == kEnds) return end(cta);
  permitted(cta);
}

IssueResult CtaControl::issue(std::uint32_t slot, const arch::Operation& operation) {
  return operation.code == arch::OpCode::exit ? exit(slot) : release_shared(slot, operation);
}

IssueResult CtaControl::exit(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  warp.wait = WarpWait::exited;
  ++time_.observation().progress;
  --cta.live;
  cta.last = std::max(cta.last, now() + 1);
  if (!units_.barriers.warp_exits(slot)) return IssueResult::fault(arch::FaultKind::barrier, 0, 0);
  units_.swap.consider(cta);
  check_end(cta, now());
  return IssueResult::blocks();
}

// The end of the CTA's shared memory is given back (CGA-09).
IssueResult CtaControl::release_shared(std::uint32_t slot, const arch::Operation& operation) {
  const Cycle next = now() + 1;
  if (operation.lanes == 0) return IssueResult::done(next, next);
  Cta& cta = ctas_[warps_[slot].cta];
  const std::uint32_t lane = bits::lowest(operation.lanes);
  const std::uint64_t from = operation.address[lane];
  if (from > cta.code->shared_bytes) return IssueResult::fault(arch::FaultKind::shared_bounds, lane, from);
  if (memory_.windows.give_back(cta, from) > 0) {
    units_.mbarriers.look_at_waiters(cta, next);
    if (cta.killed()) return IssueResult::blocks();
  }
  return IssueResult::done(next, next);
}

void CtaControl::fault(std::uint32_t slot, arch::OpCode code, const IssueFault& wrong) {
  units_.faults.raise(slot, code, wrong);
}

void CtaControl::warp_waits(Cta& cta) {
  units_.swap.consider(cta);
  units_.swap.stopped(cta);
}

void CtaControl::check_end(Cta& cta, Cycle when) {
  if (cta.stage == CtaStage::exit_asked) return tell_drained(cta, when);
  if (cta.live > 0 || cta.open > 0 || cta.stage != CtaStage::running) return;
  const bool killed = cta.killed();
  if (cta.turn && !cta.saved) return units_.turns.give(cta, when);
  if (killed && memory_.flights.of_cta(cta.start.cta_slot) > 0) return;
  end_at(cta, std::max(killed ? cta.landed : cta.last, when));
}

void CtaControl::end_at(Cta& cta, Cycle when) {
  cta.stage = CtaStage::ending;
  time_.schedule(std::max(when, now()), *this, kEnds, cta.start.cta_slot);
}

void CtaControl::end(Cta& cta) {
  if (!cta.has_warps() || (cta.open == 0 && !in_flight(cta))) return ask_to_leave(cta, true);
  cta.stage = CtaStage::running;
  if (cta.open > 0) return;  // an error that is on its way
  if (!cta.killed() && cta.in_cga()) return ask_to_leave(cta, false);
  if (memory_.flights.of_cta(cta.start.cta_slot) == 0) end_at(cta, cta.landed);
}

bool CtaControl::in_flight(const Cta& cta) const {
  return memory_.flights.of_cta(cta.start.cta_slot) > 0 || cta.landed > now();
}

// Its warps have exited. Posted accesses of a CTA of a CGA may still be under way; any other has waited for its own
// (CGA-11). The answer can come in this call, ahead of its arrival.
void CtaControl::ask_to_leave(Cta& cta, bool drained) {
  cta.stage = drained ? CtaStage::exit_drained : CtaStage::exit_asked;
  links_.exits.send(
      {cta.start.tag, cta.start.cta_slot, drained, is_faulted(cta), cta.start.id.rank, cta.released, cta.preempted});
  if (!drained) tell_drained(cta, now());
}

// Nothing of a CTA that has asked is in flight any more, as of `when`; unless something is, or an error is on its way.
void CtaControl::tell_drained(Cta& cta, Cycle when) {
  if (cta.stage != CtaStage::exit_asked) return;  // it was permitted to leave all the same
  if (cta.open > 0 || memory_.flights.of_cta(cta.start.cta_slot) > 0) return;
  cta.stage = CtaStage::exit_drained;
  ClusterNoticePacket notice = notice_of(cta, ClusterNoticePacket::Kind::drained);
  notice.faulted = is_faulted(cta);
  links_.notices.send_at(std::max({cta.landed, when, now()}), notice);
}

// What others can see of a CTA is there until it has left: its windows are in the CAM, its context is entered as open.
// Of any other, the end is known now: it takes no event.
void CtaControl::on_permit(Cta& cta, Cycle arrival) {
  HEDDLE_CHECK(cta.stage == CtaStage::exit_asked || cta.stage == CtaStage::exit_drained,
               "a CTA may leave that has not asked");
  if (cta.has_warps() && (cta.in_cga() || cta.context.here())) {
    cta.stage = CtaStage::exit_permitted;
    time_.schedule(arrival, *this, kPermitted, cta.start.cta_slot);
  } else {
    leave(cta, arrival);
  }
}

// What is in flight is the CGA's from now on, and so are errors of it that have not arrived.
void CtaControl::permitted(Cta& cta) {
  if (cta.stage != CtaStage::exit_permitted) return;  // another CTA has its slot by now
  const arch::CtaId& id = cta.start.id;
  const std::uint32_t slot = cta.start.cta_slot;
  if (memory_.flights.of_cta(slot) > 0) memory_.dsmem.abandon(slot, id.index, id.rank);
  if (cta.open > 0) units_.faults.orphan(slot);
  leave(cta, now());
}

void CtaControl::dsmem_answered(protocol::CgaId cga_id, std::optional<std::uint32_t> cta_slot, Cycle when) {
  if (cta_slot) {
    Cta& cta = ctas_[*cta_slot];
    cta.landed = std::max(cta.landed, when);
    if (cta.stage == CtaStage::exit_asked) {
      tell_drained(cta, when);
    } else if (cta.killed() && memory_.flights.of_cta(*cta_slot) == 0) {
      check_end(cta, when);
    }
  }
  memory_.cgas.answered(cga_id, when);
}

void CtaControl::leave(Cta& cta, Cycle when) {
  if (cta.has_warps()) {
    for (const std::uint32_t slot : cta.warps) {
      units_.scheduler.leave(slot);
      memory_.tables.set_warp(slot, std::nullopt);
    }
    memory_.windows.leave(cta);
    units_.dependencies.leave(cta);
  }
  if (cta.context.here() && !cta.saved) {
    using Kind = protocol::ChildPacket::Kind;
    if (!nested_.shared_contexts) links_.tasks.send({Kind::leave, cta.context.address, 0, 0});
    if (nested_.shared_contexts && cta.was_saved() && !cta.owed) links_.tasks.send({Kind::ended, cta.record, 0, 0});
  }
  cta.stage = CtaStage::absent;
  memory_.occupancy.leave(cta, when);
  if (cta.in_cga()) memory_.cgas.leave(*cta.start.tag.cga_id, when);
}

void CtaControl::kill(std::uint32_t cta_slot) {
  Cta& cta = ctas_[cta_slot];
  units_.swap.stop(cta);
  if (cta.code == nullptr) units_.timed.stop(cta);
  memory_.accesses.forget(cta_slot);
  for (const std::uint32_t slot : cta.warps) {
    units_.scheduler.kill(slot);
    warps_[slot].wait = WarpWait::exited;
    units_.fences.forget(slot);
    units_.bulk.forget(slot);
  }
  cta.fate = CtaFate::killed;
  cta.live = 0;
  for (const std::uint32_t slot : cta.warps) units_.launches.stop(slot);
  cta.mbarrier_waiters.clear();
  units_.scheduler.rearm();
  check_end(cta, cta.begin);
}

void CtaControl::on_abort(const protocol::AbortPacket& abort, std::uint32_t) {
  if (abort.preemption) {
    if ((abort.preemption->sms >> place_.in_gpc & 1) != 0) units_.swap.make_room(*abort.preemption);
    return;
  }
  units_.faults.abort(abort.operation);
  for (std::uint32_t slot = 0; slot < ctas_.size(); ++slot) {
    const Cta& cta = std::as_const(ctas_)[slot];
    const bool runs = cta.stage == CtaStage::running && !cta.killed();
    if (runs && cta.operation == abort.operation) kill(slot);
  }
}

void CtaControl::on_order(const ClusterOrderPacket& order, std::uint32_t, Cycle arrival) {
  switch (order.kind) {
    case ClusterOrderPacket::Kind::permit:
      return on_permit(ctas_[order.cta_slot], arrival);
    case ClusterOrderPacket::Kind::flush:
      return memory_.cgas.flush(order, arrival);
    default:
      break;
  }
  const bool wide = order.level != arch::CgaLevel::gpc;
  for (Cta& cta : ctas_) {
    const bool barrier = order.kind == ClusterOrderPacket::Kind::barrier;
    if (!cta.here() || (barrier && (cta.killed() || !cta.has_warps()))) continue;
    const protocol::CtaTag& tag = cta.start.tag;
    if (tag.sequence != order.sequence) continue;  // it comes to nobody: who had arrived has exited
    if (wide ? tag.barriers.of(order.level) != order.barrier : tag.cga_id != order.cga_id) continue;
    if (order.kind == ClusterOrderPacket::Kind::barrier) {
      units_.barriers.pass(cta, order.level, arrival);
      units_.swap.phase_passed(cta, arrival);
    } else {
      units_.swap.on_order(cta, order, arrival);
    }
  }
}

}  // namespace heddle::sm
