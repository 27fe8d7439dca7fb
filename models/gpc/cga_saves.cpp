#include "gpc/cga_saves.h"

#include <utility>

#include "common/bits.h"

namespace heddle::gpc {

using protocol::CgaId;
using protocol::ClusterNoticePacket;
using protocol::ClusterOrderPacket;

CgaSaves::CgaSaves(Timebase& timebase, CgaTable& cgas, const GpcParams& params, Sender sender, const char* module)
    : timebase_(timebase), cgas_(cgas), sender_(std::move(sender)), module_(module), saves_(params.cga_ids) {}

bool CgaSaves::concerns(ClusterNoticePacket::Kind kind) {
  switch (kind) {
    case ClusterNoticePacket::Kind::can_be_saved:
    case ClusterNoticePacket::Kind::goes_on:
    case ClusterNoticePacket::Kind::state_saved:
    case ClusterNoticePacket::Kind::cga_saved:
    case ClusterNoticePacket::Kind::state_back:
    case ClusterNoticePacket::Kind::must_go:
      return true;
    default:
      return false;
  }
}

void CgaSaves::notice(const ClusterNoticePacket& notice, Cycle arrival) {
  const std::uint32_t index = notices_.take();
  notices_[index] = notice;
  timebase_.schedule(arrival, *this, 0, index);
}

void CgaSaves::on_event(std::uint32_t, std::uint64_t argument) {
  const auto index = static_cast<std::uint32_t>(argument);
  const ClusterNoticePacket notice = notices_[index];
  notices_.give_back(index);
  take(notice);
}

void CgaSaves::take(const ClusterNoticePacket& notice) {
  const CgaId id = *notice.tag.cga_id;
  if (!cgas_.is_open(id) || cgas_.cga(id).sequence != notice.tag.sequence) return;
  Save& save = saves_[id];
  const Mask bit = Mask{1} << notice.rank;
  switch (notice.kind) {
    case ClusterNoticePacket::Kind::can_be_saved:
      save.ready |= bit;
      save.waits = notice.waits ? save.waits | bit : save.waits & ~bit;
      save.odd = notice.phase ? save.odd | bit : save.odd & ~bit;
      return consider(id);
    case ClusterNoticePacket::Kind::must_go:
      if (save.stage == Stage::runs) save.stage = Stage::called;
      return consider(id);
    case ClusterNoticePacket::Kind::goes_on:
      save.ready &= ~bit;
      save.waits &= ~bit;
      return refused(id);
    case ClusterNoticePacket::Kind::state_saved:
      if (save.stage != Stage::saving) return;  // it has been told to go on
      save.members.push_back({notice.rank, notice.area, notice.context, notice.home});
      save.asked &= ~bit;
      if (save.asked != 0) return;
      save.stage = Stage::publishing;
      ++timebase_.observation().progress;
      return order(id, ClusterOrderPacket::Kind::publish, save);
    case ClusterNoticePacket::Kind::state_back:
      save.stage = Stage::restoring;
      save.back |= bit;
      return look_at_restored(id);
    default:
      save.stage = Stage::leaving;
      return order(id, ClusterOrderPacket::Kind::leave, save);
  }
}

// All of it must be there.
void CgaSaves::consider(CgaId id) {
  Save& save = saves_[id];
  const CgaTable::Cga& cga = cgas_.cga(id);
  if (save.stage == Stage::restoring) return look_at_restored(id);
  if (cga.waiting > 0 || !cga.barrier.all_entered()) return;
  if (save.stage == Stage::called) {
    save.stage = Stage::stopping;
    return order(id, ClusterOrderPacket::Kind::stop, save);
  }
  if ((save.stage != Stage::runs && save.stage != Stage::stopping) || !can_be_saved(id)) return;
  save.stage = Stage::saving;
  save.asked = cga.barrier.live();
  save.members.clear();
  order(id, ClusterOrderPacket::Kind::save, save);
}

// All of it waits, for tasks, or has been stopped; and a phase of its barrier that is over has come to all: one would
// wait for ever for what others have passed.
bool CgaSaves::can_be_saved(CgaId id) const {
  const Save& save = saves_[id];
  const CgaBarrier& barrier = cgas_.cga(id).barrier;
  const Mask live = barrier.live();
  const Mask odd = barrier.phases() % 2 == 1 ? live : 0;
  if (barrier.due() || live == 0 || save.ready != live || (save.odd & live) != odd) return false;
  return save.stage == Stage::stopping || save.waits != 0;
}

void CgaSaves::phase_ends(CgaId id) {
  Save& save = saves_[id];
  if (save.stage == Stage::saving) return refused(id);
  save.ready = save.waits = 0;
}

// CTAs reach into each other's shared memory: none goes on before all are there.
void CgaSaves::look_at_restored(CgaId id) {
  Save& save = saves_[id];
  const CgaTable::Cga& cga = cgas_.cga(id);
  if (cga.waiting > 0 || !cga.barrier.all_entered() || save.back != cga.barrier.live()) return;
  save.stage = Stage::runs;
  save.back = 0;
  order(id, ClusterOrderPacket::Kind::resume, save);
  ++timebase_.observation().progress;
}

// One of them goes on: all do.
void CgaSaves::refused(CgaId id) {
  Save& save = saves_[id];
  if (save.stage != Stage::saving && save.stage != Stage::stopping) return;
  save.stage = Stage::runs;
  save.ready = save.waits = 0;
  order(id, ClusterOrderPacket::Kind::resume, save);
}

void CgaSaves::order(CgaId id, ClusterOrderPacket::Kind kind, const Save& save) {
  ClusterOrderPacket packet;
  packet.kind = kind;
  packet.cga_id = id;
  packet.sequence = cgas_.cga(id).sequence;
  packet.rank = bits::lowest(cgas_.cga(id).barrier.live());
  if (kind == ClusterOrderPacket::Kind::publish) {
    packet.members = std::make_shared<const std::vector<protocol::SavedMember>>(save.members);
  }
  sender_(id, packet);
}

// A fault can end a CTA that has been asked.
void CgaSaves::left(CgaId id, std::uint32_t rank) {
  Save& save = saves_[id];
  const Mask bit = Mask{1} << rank;
  save.ready &= ~bit;
  save.waits &= ~bit;
  save.back &= ~bit;
  if (save.stage == Stage::saving) return refused(id);
  if (save.stage == Stage::restoring) return look_at_restored(id);
  consider(id);
}

void CgaSaves::reset() {
  saves_.assign(saves_.size(), {});
  notices_.clear();
}

}  // namespace heddle::gpc
