// Requests to the tensor memory access unit (TMAU): what a warp asks for, what it waits for, and what comes of it
// (TMA-01, TMA-06, TMA-30, TMA-41).
#include <algorithm>

#include "arch/mbarrier.h"
#include "sm/warp_engine.h"

namespace heddle::sm {
namespace {

using arch::BulkKind;
using arch::BulkRequest;
using arch::FaultKind;
using arch::OpCode;
using arch::Operation;
using arch::TensorRule;
using protocol::BulkDonePacket;
using protocol::BulkRequestPacket;

std::uint32_t first_lane(arch::LaneMask lanes) {
  return lanes == 0 ? 0 : static_cast<std::uint32_t>(__builtin_ctz(lanes));
}

std::uint32_t nth_lane(arch::LaneMask lanes, std::uint32_t n) {
  for (; n > 0; --n) lanes &= lanes - 1;
  return first_lane(lanes);
}

bool is_tensor(OpCode code) { return code <= OpCode::tensor_prefetch; }

BulkKind kind_of(OpCode code) {
  switch (code) {
    case OpCode::tensor_load:
    case OpCode::bulk_load:
      return BulkKind::load;
    case OpCode::tensor_store:
    case OpCode::bulk_store:
      return BulkKind::store;
    case OpCode::tensor_reduce:
    case OpCode::bulk_reduce:
      return BulkKind::reduce;
    case OpCode::tensor_prefetch:
    case OpCode::bulk_prefetch:
      return BulkKind::prefetch;
    case OpCode::bulk_copy:
      return BulkKind::copy;
    case OpCode::bulk_send:
      return BulkKind::send;
    case OpCode::bulk_drain:
      return BulkKind::drain;
    default:
      return BulkKind::forget;
  }
}

// Of the warp, and not of its lanes: the warp waits for its end.
bool of_warp(OpCode code) { return code == OpCode::bulk_drain || code == OpCode::tensor_fence; }

bool as_coded(const Operation& operation) {
  const BulkKind kind = kind_of(operation.code);
  const bool tensor = is_tensor(operation.code);
  if (operation.bulk.size() != static_cast<std::size_t>(__builtin_popcount(operation.lanes))) return false;
  return std::all_of(operation.bulk.begin(), operation.bulk.end(),
                     [=](const BulkRequest& request) { return request.kind == kind && request.tensor == tensor; });
}

bool has_groups(BulkKind kind) {
  return kind == BulkKind::store || kind == BulkKind::reduce || kind == BulkKind::copy || kind == BulkKind::send;
}

bool has_receiver(BulkKind kind) { return kind == BulkKind::load || kind == BulkKind::send; }

bool has_source(BulkKind kind) { return kind == BulkKind::store || kind == BulkKind::reduce || kind == BulkKind::send; }

// What a fault of it names.
std::uint64_t address_of(const BulkRequest& request) {
  if (request.tensor || request.kind == BulkKind::forget) return request.descriptor;
  return request.kind == BulkKind::send ? request.shared : request.global;
}

// Of a tensor it is not known here: at least one unit.
std::uint64_t bytes_at_least(const BulkRequest& request) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  return request.tensor ? arch::kBulkBlock : std::min(request.blocks, kMost) * arch::kBulkBlock;
}

FaultKind fault_of(arch::DsmemStatus status, bool own) {
  switch (status) {
    case arch::DsmemStatus::out_of_range:
      return own ? FaultKind::shared_bounds : FaultKind::out_of_range;
    case arch::DsmemStatus::poison:
      return FaultKind::poison;
    case arch::DsmemStatus::mbarrier:
      return FaultKind::mbarrier;
    default:
      return FaultKind::cta_not_present;
  }
}

}  // namespace

void WarpEngine::run_bulk(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle next = domain_.now() + 1;
  const bool exists = bulk_out_.links() > 0 && (of_warp(operation.code) || as_coded(operation));
  if (!exists) return fault(slot, FaultKind::unsupported, first_lane(operation.lanes), 0);
  for (const arch::RegisterRange& range : warp.writes) warp.scoreboard.write(range, next);
  if (operation.lanes == 0) return prepare(slot, next);
  warp.bulk_sent = 0;
  if (bulk_waiters_.empty() && send_bulk(slot, operation)) return bulk_issued(slot, operation.code);
  if (warp.operation == nullptr) warp.operation = std::make_unique<Operation>();
  *warp.operation = operation;
  warp.wait = WarpWait::bulk;
  warp.since = next;
  bulk_waiters_.push_back(slot);
}

// The requests that have not been sent, one lane after the other. False if there is no place for them all.
bool WarpEngine::send_bulk(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  if (of_warp(operation.code)) {
    if (!bulk_out_.can_send()) return false;
    BulkRequest request;
    request.kind = kind_of(operation.code);
    const std::uint32_t lane = first_lane(operation.lanes);
    if (request.kind == BulkKind::forget) request.descriptor = operation.address[lane];
    send_request(slot, request, operation.code, lane);
    return true;
  }
  for (; warp.bulk_sent < operation.bulk.size(); ++warp.bulk_sent) {
    if (!bulk_out_.can_send()) return false;
    send_request(slot, operation.bulk[warp.bulk_sent], operation.code, nth_lane(operation.lanes, warp.bulk_sent));
  }
  return true;
}

void WarpEngine::send_request(std::uint32_t slot, const BulkRequest& request, OpCode code, std::uint32_t lane) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  const std::uint32_t id = bulk_open_.take();
  BulkOpen open;
  open.cta = warp.cta;
  open.warp = slot;
  open.lane = lane;
  open.pc = warp.issued_pc;
  open.code = code;
  open.kind = request.kind;
  open.grouped = has_groups(request.kind);
  open.barrier = request.barrier;
  open.group = warp.bulk.current();
  open.address = address_of(request);
  open.serial = ++bulk_serial_;
  bulk_open_[id] = open;
  if (open.grouped) {
    warp.bulk.add();
    warp.bulk_reads.add();
  }
  ++cta.open;
  ++cta.bulk;
  stats_.bulk_requests.add();

  BulkRequestPacket packet;
  packet.request = request;
  packet.id = id;
  packet.operation = cta.start.tag.operation;
  packet.cta_slot = warp.cta;
  packet.warp = slot;
  packet.cta = cta.start.id.index;
  packet.subcontext = cta.start.subcontext;
  packet.cga_id = cta.start.tag.cga_id;
  packet.rank = cta.start.id.rank;
  packet.sequence = cta.start.tag.sequence;
  const std::uint64_t window = memory_.shared_memory().size(warp.cta);
  packet.room = static_cast<std::uint32_t>(window - std::min<std::uint64_t>(window, request.shared));
  packet.forgets = descriptors_old_;
  descriptors_old_ = false;
  if (has_receiver(request.kind)) packet.broken = find_receivers(slot, packet);
  if (packet.broken == TensorRule::none) packet.broken = check_bulk(slot, packet);
  bulk_out_.send_at(memory_.bulk_issue(domain_.now()), packet);
}

// All of them are on their way: the warp goes on at once (TMA-02), unless it is to wait for the end.
void WarpEngine::bulk_issued(std::uint32_t slot, OpCode code) {
  const Cycle next = domain_.now() + 1;
  if (!of_warp(code)) return prepare(slot, next);
  warps_[slot].wait = WarpWait::bulk_answer;
  warps_[slot].since = next;
}

void WarpEngine::on_bulk_room() {
  while (!bulk_waiters_.empty()) {
    const std::uint32_t slot = bulk_waiters_.front();
    Warp& warp = warps_[slot];
    if (!send_bulk(slot, *warp.operation)) return;
    bulk_waiters_.erase(bulk_waiters_.begin());
    const Cycle next = domain_.now() + 1;
    stats_.stall_bulk_queue.add(next - std::min(next, warp.since));
    bulk_issued(slot, warp.operation->code);
  }
}

// Who gets the data, and where those are (TMA-30). What a CTA asks for itself stays in its window.
TensorRule WarpEngine::find_receivers(std::uint32_t slot, BulkRequestPacket& packet) {
  BulkRequest& request = packet.request;
  const Cta& cta = ctas_[packet.cta_slot];
  const std::uint32_t own = packet.rank < arch::kMulticastCtas ? 1U << packet.rank : 0;
  std::uint32_t mask = request.kind == BulkKind::load ? request.multicast : 0U;
  if (mask == 0) {
    if (request.data_cta == arch::kOwnCta || request.data_cta == packet.rank) {
      request.data_cta = arch::kOwnCta;
      return TensorRule::none;
    }
    if (request.data_cta >= arch::kMulticastCtas) return TensorRule::receivers;
    mask = 1U << request.data_cta;
  }
  // CTAs that share no GPC with it have no way to it (CGA-15).
  if (!cta.in_cga()) return mask == own ? TensorRule::none : TensorRule::receivers;
  if (!enter_table(slot)) return TensorRule::receivers;
  bool shared = false;
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const std::uint64_t window = arch::dsmem_address(first_lane(rest), 0);
    const ClusterTables::Target target = tables_.find(slot, window, arch::kBulkBlock, domain_.now());
    if (target.found != ClusterTables::Found::ok) return TensorRule::receivers;
    shared |= (packet.sms >> target.sm & 1) != 0;
    packet.sms |= std::uint64_t{1} << target.sm;
  }
  packet.by_rank = true;
  packet.ctas = static_cast<std::uint16_t>(mask);
  return shared && !place_.share_receivers ? TensorRule::receivers_share_sm : TensorRule::none;
}

// What can be seen before the descriptor. All CTAs of a CGA have had the same shared memory.
TensorRule WarpEngine::check_bulk(std::uint32_t slot, const BulkRequestPacket& packet) const {
  const BulkRequest& request = packet.request;
  const std::uint32_t window = warps_[slot].cta;
  const std::uint64_t whole = ctas_[window].code->shared_bytes;
  const SharedMemory& shared = memory_.shared_memory();
  const auto inside = [&](bool there, std::uint64_t offset, std::uint64_t bytes) {
    return there ? bytes <= whole && offset <= whole - bytes : shared.contains(window, offset, bytes);
  };
  const bool receives = has_receiver(request.kind);
  if (receives && request.barrier_cta != arch::kOwnCta) {
    const bool among = request.barrier_cta < arch::kMulticastCtas && (packet.ctas >> request.barrier_cta & 1) != 0;
    if (packet.by_rank ? !among : request.barrier_cta != packet.rank) return TensorRule::barrier_cta;
  }
  if (receives && (request.kind == BulkKind::load || request.barrier != arch::kNoBarrier)) {
    const bool there = request.barrier != arch::kNoBarrier && request.barrier % arch::kMbarrierBytes == 0 &&
                       inside(packet.by_rank, request.barrier, arch::kMbarrierBytes);
    if (!there) return TensorRule::barrier_address;
  }
  const auto fits = [&](bool there, std::uint32_t offset) {
    return offset % arch::kBulkBlock == 0 && inside(there, offset, bytes_at_least(request));
  };
  const bool loads = request.kind == BulkKind::load;
  if (loads && !fits(packet.by_rank, request.shared)) return TensorRule::shared_address;
  if (has_source(request.kind) && !fits(false, request.shared)) return TensorRule::shared_address;
  if (request.kind == BulkKind::send && !fits(packet.by_rank, request.destination)) return TensorRule::shared_address;
  return TensorRule::none;
}

void WarpEngine::run_bulk_wait(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle next = domain_.now() + 1;
  for (const arch::RegisterRange& range : warp.writes) warp.scoreboard.write(range, next);
  warp.wait = WarpWait::bulk_groups;
  warp.since = next;
  warp.groups_wanted = operation.count;
  warp.wants_reads = operation.read;
  bulk_goes_on(slot);
}

void WarpEngine::bulk_goes_on(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  if (warp.wait != WarpWait::bulk_groups) return;
  const Cycle ready = (warp.wants_reads ? warp.bulk_reads : warp.bulk).ready(warp.groups_wanted, domain_.now());
  if (ready != kNeverReady) resume(slot, ready, stats_.stall_bulk);
}

void WarpEngine::on_bulk_done(const BulkDonePacket& done) {
  const Cycle now = domain_.now();
  BulkOpen& open = bulk_open_[done.id];
  Warp& warp = warps_[open.warp];
  if (open.grouped && !open.read) {
    open.read = true;
    warp.bulk_reads.end(open.group, now, true);
  }
  if (done.kind == BulkDonePacket::Kind::read) return bulk_goes_on(open.warp);

  const BulkOpen ended = open;
  bulk_open_.give_back(done.id);
  Cta& cta = ctas_[ended.cta];
  HEDDLE_CHECK(cta.running && cta.open > 0 && cta.bulk > 0, "a CTA ended before its bulk request");
  --cta.open;
  --cta.bulk;
  cta.last = std::max(cta.last, now);
  if (ended.grouped) warp.bulk.end(ended.group, now, true);
  if (done.kind != BulkDonePacket::Kind::complete) bulk_wrong(ended, done);
  if (!cta.killed && of_warp(ended.code)) {
    resume(ended.warp, now, stats_.stall_bulk);
  } else {
    bulk_goes_on(ended.warp);
  }
  check_end(cta, now);
}

// It has come to nothing, or not all of it has arrived (TMA-06).
void WarpEngine::bulk_wrong(const BulkOpen& ended, const BulkDonePacket& done) {
  const Cta& cta = ctas_[ended.cta];
  if (cta.killed || aborted(cta.start.tag.operation)) return;
  const bool dropped = done.kind == BulkDonePacket::Kind::dropped;
  FaultKind wrong = done.poison ? FaultKind::poison : FaultKind::address;
  if (done.unmapped) wrong = done.read_only ? FaultKind::read_only : FaultKind::unmapped;
  arch::FaultRecord record = record_of(warps_[ended.warp], dropped ? FaultKind::tensor : wrong, ended.pc);
  record.lane = ended.lane;
  record.operation = ended.code;
  record.address = dropped ? ended.address : done.address;
  record.write = !dropped && done.write;
  record.rule = dropped ? done.rule : TensorRule::none;
  record.cycle = domain_.now();
  // What touches another's memory is stopped, whatever the unit does else (PRT-08).
  if (params_.tensor_errors == TensorErrors::trap || done.unmapped) return report(record, ended.cta);
  record.fatal = false;
  stats_.faults.add();
  if (fault_sink_) fault_sink_(record);
}

// The CTA that asked is here: always, if the data are for its own window.
WarpEngine::Cta* WarpEngine::asked_for(const protocol::BulkTarget& target) {
  if (target.cta_slot >= ctas_.size()) return nullptr;
  Cta& cta = ctas_[target.cta_slot];
  const protocol::CtaTag& tag = cta.start.tag;
  const bool same = cta.running && cta.has_warps && cta.start.id.index == target.cta && tag.cga_id == target.cga_id;
  return same && (!cta.in_cga() || tag.sequence == target.sequence) && cta.bulk > 0 ? &cta : nullptr;
}

// Bulk data and a CTA here do not go together. Between CTAs the fault is one of the CGA (CGA-08).
void WarpEngine::bulk_failed(const BulkError& error, Cycle when) {
  const protocol::BulkTarget& target = error.target;
  const Cta* cta = asked_for(target);
  HEDDLE_CHECK(cta != nullptr || target.by_rank, "bulk data for a CTA that has gone");
  if (cta == nullptr) return bulk_trapped(error, when);
  if (cta->killed) return;
  // Which of the warp's requests it was is known by what they have in common.
  const BulkOpen* found = nullptr;
  bulk_open_.for_each([&](const BulkOpen& open) {
    const bool may_be = open.warp == target.warp && open.cta == target.cta_slot && open.barrier == target.barrier;
    if (may_be && (found == nullptr || open.serial < found->serial)) found = &open;
  });
  const Warp& warp = warps_[target.warp];
  Failure failure;
  failure.cta = target.cta_slot;
  failure.record =
      record_of(warp, fault_of(error.status, !target.by_rank), found != nullptr ? found->pc : warp.issued_pc);
  arch::FaultRecord& record = failure.record;
  record.lane = found != nullptr ? found->lane : 0;
  record.operation = found != nullptr ? found->code : OpCode::bulk_load;
  record.address = error.offset;
  record.cycle = when;
  if (target.by_rank) {
    record.of_cga = true;
    record.target = error.rank;
    record.warp = record.lane = 0;
    record.where.clear();
  }
  add_failure(std::move(failure));
}

// The CTA that asked is elsewhere.
void WarpEngine::bulk_trapped(const BulkError& error, Cycle when) {
  if (hosted_.empty()) return stats_.dropped_errors.add();
  ClusterError orphan;
  orphan.status = error.status;
  orphan.cga_id = error.target.cga_id;
  orphan.sequence = error.target.sequence;
  orphan.rank = error.rank;
  orphan.offset = error.offset;
  orphan.from_cta = error.target.cta;
  orphan.from_rank = error.target.rank;
  orphan_failed(orphan, when);
}

}  // namespace heddle::sm
