#include "sm/cga_members.h"

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "sm/barrier_unit.h"
#include "sm/bulk_unit.h"
#include "sm/cta_control.h"
#include "sm/cta_table.h"
#include "sm/device_launch_unit.h"
#include "sm/faults.h"
#include "sm/sm_occupancy.h"
#include "sm/timed_ctas.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {

bool CgaMembers::can_be_stopped(const Cta& cta) const {
  const bool partial = cta.in_cga() && cta.code != nullptr && cta.block != cta.code->block;
  const bool stays = cta.start.tag.barriers.any() || (cta.in_cga() && cta.start.cga_memory) || partial;
  return !stays && std::none_of(cta.warps.begin(), cta.warps.end(),
                                [this](std::uint32_t slot) { return waits_for_entry(peers_.launches.run_of(slot)); });
}

arch::ResourceVector CgaMembers::call(const Cta& cta) {
  arch::ResourceVector need{};
  for (const Cta& other : ctas_) {
    if (!other.here() || other.saved || other.start.tag.cga_id != cta.start.tag.cga_id) continue;
    saves_.of(other).called = true;
    need.add(other.need);
  }
  tell(cta, Notice::must_go);
  return need;
}

void CgaMembers::announce(Cta& cta) {
  saves_.of(cta).announced = true;
  tell(cta, Notice::can_be_saved);
}

void CgaMembers::refuse(Cta& cta) {
  saves_.of(cta).announced = false;
  tell(cta, Notice::goes_on);
}

void CgaMembers::tell(const Cta& cta, Notice kind) {
  protocol::ClusterNoticePacket notice = notice_of(cta, kind);
  const CtaSave& save = saves_.of(cta);
  notice.waits = !save.makes_room && saves_.image().waits_for_tasks(cta);
  notice.phase = (cta.cluster[0].phases - save.phases) % 2 == 1;
  if (kind == Notice::state_saved) {
    notice.area = saves_.steps(cta).area();
    notice.context = notice.waits ? cta.context.address : 0;
    notice.home = arch::home_of_sm(place_.id);
  }
  peers_.notices.send_at(now(), notice);
}

void CgaMembers::on_order(const Cta& cta, const protocol::ClusterOrderPacket& order, Cycle arrival) {
  saves_.of(cta).order = order;
  saves_.at(arrival, CtaSaves::kOrdered, cta);
}

void CgaMembers::obey(Cta& cta) {
  using Order = protocol::ClusterOrderPacket::Kind;
  CtaSave& save = saves_.of(cta);
  const protocol::ClusterOrderPacket order = save.order;
  const protocol::CtaTag& tag = cta.start.tag;
  if (!cta.here() || tag.cga_id != order.cga_id || tag.sequence != order.sequence) return;  // it has gone meanwhile
  switch (order.kind) {
    case Order::stop:
      return stop(cta);
    case Order::save:
      return begin_save(cta, order.rank);
    case Order::publish:
      if (cta.start.id.rank != order.rank) return;
      HEDDLE_CHECK(save.state == State::parked, "a CTA is to publish its CGA whose own state is not in memory");
      save.state = State::publishing;
      saves_.steps(cta).publish(*order.members, cta.start.id.cga_size, cta.start.id.size);
      return peers_.transfers.go_on_now(save.transfer);
    case Order::resume:
      return resume(cta);
    default:
      return leave(cta);
  }
}

void CgaMembers::stop(Cta& cta) {
  const bool ends = cta.stage != CtaStage::running || cta.killed() || (cta.has_warps() && cta.live == 0);
  if (ends) return;  // its GPM hears of that
  CtaSave& save = saves_.of(cta);
  if (!save.is_here() || !can_be_stopped(cta)) return refuse(cta);
  if (!cta.has_warps()) peers_.timed.pause(cta);
  saves_.freeze(cta);
}

void CgaMembers::begin_save(Cta& cta, std::uint32_t leader) {
  using Kind = SaveHome::Kind;
  const CtaSave& save = saves_.of(cta);
  const bool stopped = save.is_here() && cta.stage == CtaStage::running && !cta.killed() && saves_.has_stopped(cta);
  const bool rests = save.makes_room ? stopped : saves_.all_wait(cta);
  const bool sound = rests && saves_.is_settled(cta) && saves_.image().is_sound(cta);
  if (!sound) {
    refuse(cta);
    return saves_.consider(cta);
  }
  if (!saves_.begin_save(cta, {cta.start.id.rank == leader ? Kind::leader : Kind::cga, 0, false})) refuse(cta);
}

// Not all could be saved, or all are back.
void CgaMembers::resume(Cta& cta) {
  CtaSave& save = saves_.of(cta);
  if (save.state == State::restored) {
    --cta.open;
    save.state = State::here;
    save.called = false;
    const std::vector<std::uint8_t> bytes = std::move(save.bytes);
    return saves_.put_back(cta, bytes);
  }
  const bool saves = save.state == State::parked || save.state == State::saving;
  if (saves) saves_.steps(cta).cancel();
  if (saves) saves_.detach(cta);
  save.announced = false;
  if (cta.killed()) return peers_.control.check_end(cta, now());  // its end has waited for what was under way
  const bool room = save.makes_room || save.called;
  if (room) saves_.thaw(cta);
  if (!saves && !room) return;  // it has refused
  if (cta.has_warps() && cta.live == 0) return peers_.control.check_end(cta, now());
  if (std::exchange(save.woken, false)) return peers_.launches.on_wake({cta.context.address});
  saves_.consider(cta);
}

void CgaMembers::leave(Cta& cta) {
  CtaSave& save = saves_.of(cta);
  HEDDLE_CHECK(save.is_parked(), "a CTA is to leave with its CGA whose own state is not in memory");
  if (save.state == State::parked) {
    saves_.steps(cta).keep();
    saves_.detach(cta);
  } else {
    --cta.open;
    save.state = State::here;
  }
  saves_.stats().saves.add();
  cta.preempted = save.makes_room;
  if (save.record != 0) {
    peers_.tasks.send({protocol::ChildPacket::Kind::preempted, arch::saved_cga_home(save.record), 0, 0});
  }
  saves_.saved(cta);
}

void CgaMembers::save_changed(Cta& cta) {
  CtaSave& save = saves_.of(cta);
  const ContextTransfer& steps = saves_.steps(cta);
  if (save.state == State::publishing && steps.over()) {
    // A CGA that made room goes on as soon as there is some.
    if (save.makes_room && steps.header()->owed) {
      save.record = steps.cga_record();
    } else if (steps.came_late()) {
      peers_.tasks.send({protocol::ChildPacket::Kind::wake_cga, steps.cga_record(), 0, 0});
    }
    save.state = State::published;
    peers_.transfers.detach(save.transfer);
    return tell(cta, Notice::cga_saved);
  }
  if (save.state != State::saving) return;
  if (steps.parked()) {
    saves_.stats().bytes.add(steps.header()->bytes + steps.header()->local);
    saves_.stats().save_cycles.add(now() - saves_.began(cta));
    save.state = State::parked;
    return tell(cta, Notice::state_saved);
  }
  if (steps.outcome() == ContextTransfer::Outcome::open) return;
  const bool failed = steps.outcome() == ContextTransfer::Outcome::failed;
  if (steps.outcome() == ContextTransfer::Outcome::no_area) {
    save.lacks_chunks(*steps.header());
    saves_.stats().no_area.add();
  }
  saves_.detach(cta);
  refuse(cta);
  if (failed) return saves_.failed(cta, arch::FaultKind::address, "saving its CTA");
}

void CgaMembers::restored(Cta& cta, const std::vector<std::uint8_t>& bytes) {
  CtaSave& save = saves_.of(cta);
  save.state = State::restored;
  save.bytes = bytes;
  ++cta.open;
  tell(cta, Notice::state_back);
}

}  // namespace heddle::sm
