#include "sm/cluster_tables.h"

#include <algorithm>
#include <string>

#include "common/error.h"
#include "sm/dsmem_paths.h"

namespace heddle::sm {

using protocol::ClusterNoticePacket;

namespace {

constexpr std::size_t kCgaIds = 256;  // a gpc_local_cga_id has 8 bits

}  // namespace

ClusterTables::ClusterTables(std::uint32_t warps, std::uint32_t ctas, std::uint32_t cgas, std::uint32_t largest)
    : largest_(largest),
      slots_(cgas),
      slot_of_(kCgaIds, kNone),
      hosted_(kCgaIds, 0),
      bl_table_(warps, kNone),
      cam_(ctas, kNone) {}

void ClusterTables::reset() {
  cgas_.clear();
  free_.clear();
  std::fill(slot_of_.begin(), slot_of_.end(), kNone);
  std::fill(hosted_.begin(), hosted_.end(), 0U);
  std::fill(bl_table_.begin(), bl_table_.end(), kNone);
  std::fill(cam_.begin(), cam_.end(), kNone);
  used_ = windows_ = 0;
}

ClusterTables::Cga& ClusterTables::take(protocol::CgaId cga_id) {
  HEDDLE_CHECK(cga_id < kCgaIds, "no such gpc_local_cga_id");
  std::uint32_t& slot = slot_of_[cga_id];
  if (slot != kNone) return cgas_[slot];
  HEDDLE_CHECK(used_ < slots_, "a CGA was launched on a GPC without an sm_cga_slot for it on every SM (CWD-01)");
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(cgas_.size()));
    cgas_.emplace_back();
  }
  slot = free_.back();
  free_.pop_back();
  ++used_;
  Cga& cga = cgas_[slot];
  cga.cga_id = cga_id;
  cga.ctas = 0;
  cga.sm.fill(kNoSm);
  return cga;
}

void ClusterTables::enter(const protocol::CtaEntryPacket& entry, Cycle from) {
  Cga& cga = take(entry.cga_id);
  HEDDLE_CHECK(entry.rank < entry.ctas && entry.ctas <= arch::kMaxCgaCtas && entry.sm < kNoSm,
               "a CTA was entered that its CGA cannot have");
  if (cga.ctas == 0) {
    cga.ctas = entry.ctas;
    cga.sequence = entry.sequence;
  }
  HEDDLE_CHECK(cga.sequence == entry.sequence && cga.ctas == entry.ctas,
               "gpc_local_cga_id " + std::to_string(entry.cga_id) + " was used again before its CGA was forgotten");
  HEDDLE_CHECK(cga.sm[entry.rank] == kNoSm, "a CTA was entered twice");
  cga.sm[entry.rank] = static_cast<std::uint8_t>(entry.sm);
  cga.from[entry.rank] = from;
}

void ClusterTables::last_left(protocol::CgaId cga_id, protocol::SmInGpc own, Cycle when) {
  HEDDLE_CHECK(cga_id < kCgaIds, "no such gpc_local_cga_id");
  const std::uint32_t slot = slot_of_[cga_id];
  if (slot == kNone) return;
  const Cga& cga = cgas_[slot];
  if (cga.ctas == 0) return;
  for (std::uint32_t rank = 0; rank < cga.ctas; ++rank) {
    if (cga.sm[rank] == kNoSm || cga.from[rank] > when) return;
  }
  for (std::uint32_t rank = 0; rank < cga.ctas; ++rank) {
    if (cga.sm[rank] == own) hosted_[cga_id] |= std::uint32_t{1} << rank;
  }
  free_slot(cga_id);
}

void ClusterTables::forget(protocol::CgaId cga_id) {
  HEDDLE_CHECK(cga_id < kCgaIds, "no such gpc_local_cga_id");
  hosted_[cga_id] = 0;
  free_slot(cga_id);
}

void ClusterTables::free_slot(protocol::CgaId cga_id) {
  const std::uint32_t slot = slot_of_[cga_id];
  if (slot == kNone) return;
  for (const std::uint32_t key : cam_) {
    HEDDLE_CHECK(key == kNone || key / arch::kMaxCgaCtas != cga_id, "a CGA is forgotten whose CTA still runs here");
  }
  std::replace(bl_table_.begin(), bl_table_.end(), slot, kNone);
  slot_of_[cga_id] = kNone;
  free_.push_back(slot);
  --used_;
}

void ClusterTables::check(protocol::CgaId cga_id, std::uint64_t sequence) const {
  HEDDLE_CHECK(cga_id < kCgaIds, "no such gpc_local_cga_id");
  const std::uint32_t slot = slot_of_[cga_id];
  if (slot == kNone || cgas_[slot].ctas == 0) return;
  HEDDLE_CHECK(cgas_[slot].sequence == sequence,
               "an access of a CGA that has ended came to a new one with its id, " + std::to_string(cga_id));
}

// The CTA may begin before it has been entered: then its CGA takes its slot here.
void ClusterTables::set_warp(std::uint32_t warp, std::optional<protocol::CgaId> cga_id) {
  HEDDLE_CHECK(warp < bl_table_.size(), "no such warp slot");
  if (!cga_id) {
    bl_table_[warp] = kNone;
    return;
  }
  take(*cga_id);
  bl_table_[warp] = slot_of_[*cga_id];
}

ClusterTables::Target ClusterTables::find(std::uint32_t warp, std::uint64_t address, std::uint32_t bytes,
                                          Cycle now) const {
  Target target;
  const std::uint64_t rank = arch::dsmem_rank(address);
  target.rank = static_cast<std::uint32_t>(std::min<std::uint64_t>(rank, kNone));
  target.offset = arch::dsmem_offset(address);
  const std::uint32_t slot = bl_table_[warp];
  const Cga* cga = slot == kNone ? nullptr : &cgas_[slot];
  // Before the first CTA has been entered, the CGA's size is not known either.
  const std::uint32_t ctas = cga == nullptr ? 1 : cga->ctas == 0 ? arch::kMaxCgaCtas : cga->ctas;
  if (cga != nullptr) target.cga_id = cga->cga_id;
  if (rank >= ctas) {
    target.found = Found::no_rank;
  } else if (cga != nullptr && (cga->sm[rank] == kNoSm || cga->from[rank] > now)) {
    target.found = Found::absent;
  } else if (bytes > largest_ || target.offset > largest_ - bytes) {
    target.found = Found::no_offset;
  } else if (cga != nullptr) {
    target.sm = protocol::SmInGpc(cga->sm[rank]);
    target.sequence = cga->sequence;
  }
  return target;
}

void ClusterTables::open_window(protocol::CgaId cga_id, std::uint32_t rank, std::uint32_t window) {
  HEDDLE_CHECK(cga_id < kCgaIds && rank < arch::kMaxCgaCtas, "no such CTA of a CGA");
  HEDDLE_CHECK(window < cam_.size() && cam_[window] == kNone, "the window is in the CAM already");
  HEDDLE_CHECK(!match(cga_id, rank), "two windows of one CTA in the CAM");
  cam_[window] = key_of(cga_id, rank);
  ++windows_;
}

void ClusterTables::invalidate(std::uint32_t window) {
  HEDDLE_CHECK(window < cam_.size(), "no such window");
  if (cam_[window] == kNone) return;
  cam_[window] = kNone;
  --windows_;
}

std::optional<std::uint32_t> ClusterTables::match(protocol::CgaId cga_id, std::uint32_t rank) const {
  const std::uint32_t key = key_of(cga_id, rank);
  for (std::uint32_t window = 0; window < cam_.size(); ++window) {
    if (cam_[window] == key) return window;
  }
  return std::nullopt;
}

using State = ResidentCga::State;

void ResidentCgas::reset() {
  for (ResidentCga& cga : cgas_) cga = {};
  count_ = 0;
}

void ResidentCgas::enter(const protocol::CtaStartPacket& start) {
  if (cgas_.empty()) cgas_.resize(kCgaIds);
  ResidentCga& cga = cgas_[*start.tag.cga_id];
  HEDDLE_CHECK(cga.state == State::absent || cga.tag.sequence == start.tag.sequence,
               "an id of a CGA is used again while accesses of the old one are under way (CGA-12); "
               "gpu.gpc.dsmem_flush is what prevents that");
  if (cga.state != State::absent) {
    ++cga.ctas;
    return;
  }
  cga = {};
  cga.ctas = 1;
  cga.state = State::here;
  cga.tag = start.tag;
  cga.cga = start.id.cga;
  ++count_;
}

void ResidentCgas::leave(protocol::CgaId cga_id, Cycle when) {
  ResidentCga& cga = cgas_[cga_id];
  HEDDLE_CHECK(cga.ctas > 0, "a CTA of a CGA has left that was not here");
  if (--cga.ctas == 0) tables_.last_left(cga_id, own_, when);
}

void ResidentCgas::flush(const protocol::ClusterOrderPacket& order, Cycle arrival) {
  tables_.check(order.cga_id, order.sequence);
  tables_.forget(order.cga_id);
  if (cgas_.empty() || cgas_[order.cga_id].state == State::absent) return;
  ResidentCga& cga = cgas_[order.cga_id];
  cga.state = State::flushing;
  cga.quiet = std::max(cga.quiet, arrival);
  if (flights_.of_cga(order.cga_id) == 0) flushed(order.cga_id);
}

void ResidentCgas::flushed(protocol::CgaId cga_id) {
  ResidentCga& cga = cgas_[cga_id];
  ClusterNoticePacket notice;
  notice.kind = ClusterNoticePacket::Kind::flushed;
  notice.tag = cga.tag;
  notices_.send_at(std::max(cga.quiet, time_.now()), notice);
  cga = {};
  --count_;
}

void ResidentCgas::answered(protocol::CgaId cga_id, Cycle when) {
  ResidentCga& cga = cgas_[cga_id];
  cga.quiet = std::max(cga.quiet, when);
  if (cga.state == State::flushing && flights_.of_cga(cga_id) == 0) flushed(cga_id);
}

const ResidentCga* ResidentCgas::find(protocol::CgaId cga_id, std::uint64_t sequence) const {
  if (cgas_.empty()) return nullptr;
  const ResidentCga& cga = cgas_[cga_id];
  return cga.state == State::here && cga.tag.sequence == sequence ? &cga : nullptr;
}

void ResidentCgas::trap(protocol::CgaId cga_id, std::uint32_t rank) {
  ResidentCga& cga = cgas_[cga_id];
  cga.trapped = true;
  ClusterNoticePacket notice;
  notice.kind = ClusterNoticePacket::Kind::trap;
  notice.tag = cga.tag;
  notice.rank = rank;
  notices_.send_at(time_.now(), notice);
}

}  // namespace heddle::sm
