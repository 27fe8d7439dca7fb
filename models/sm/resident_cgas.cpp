#include "sm/resident_cgas.h"

#include <algorithm>

#include "common/error.h"
#include "sm/cluster_tables.h"
#include "sm/dsmem_client.h"

namespace heddle::sm {
namespace {

constexpr std::size_t kCgaIds = 256;  // a gpc_local_cga_id has 8 bits

}  // namespace

using protocol::ClusterNoticePacket;
using State = ResidentCga::State;

void ResidentCgas::reset() {
  for (ResidentCga& cga : cgas_) cga = {};
  count_ = 0;
}

void ResidentCgas::enter(const protocol::CtaStartPacket& start) {
  if (cgas_.empty()) cgas_.resize(kCgaIds);
  ResidentCga& cga = cgas_[start.tag.cga_id];
  HEDDLE_CHECK(cga.state == State::absent || cga.tag.sequence == start.tag.sequence,
               "an id of a CGA is used again while accesses of the old one are under way (CGA-12); "
               "gpu.gpc.dsmem_flush is what prevents that");
  if (cga.state != State::absent) return;
  cga = {};
  cga.state = State::here;
  cga.tag = start.tag;
  cga.cga = start.id.cga;
  ++count_;
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

void ResidentCgas::flushed(std::uint32_t cga_id) {
  ResidentCga& cga = cgas_[cga_id];
  ClusterNoticePacket notice;
  notice.kind = ClusterNoticePacket::Kind::flushed;
  notice.tag = cga.tag;
  notices_.send_at(std::max(cga.quiet, time_.now()), notice);
  cga = {};
  --count_;
}

void ResidentCgas::answered(std::uint32_t cga_id, Cycle when) {
  ResidentCga& cga = cgas_[cga_id];
  cga.quiet = std::max(cga.quiet, when);
  if (cga.state == State::flushing && flights_.of_cga(cga_id) == 0) flushed(cga_id);
}

const ResidentCga* ResidentCgas::find(std::uint32_t cga_id, std::uint64_t sequence) const {
  if (cgas_.empty()) return nullptr;
  const ResidentCga& cga = cgas_[cga_id];
  return cga.state == State::here && cga.tag.sequence == sequence ? &cga : nullptr;
}

void ResidentCgas::trap(std::uint32_t cga_id, std::uint32_t rank) {
  ResidentCga& cga = cgas_[cga_id];
  cga.trapped = true;
  ClusterNoticePacket notice;
  notice.kind = ClusterNoticePacket::Kind::trap;
  notice.tag = cga.tag;
  notice.rank = rank;
  notices_.send_at(time_.now(), notice);
}

}  // namespace heddle::sm
