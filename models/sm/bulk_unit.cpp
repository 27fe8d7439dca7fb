#include "sm/bulk_unit.h"

#include <algorithm>

#include "arch/mbarrier.h"
#include "common/bits.h"
#include "sm/faults.h"
#include "sm/warp_scheduler.h"

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

std::uint32_t first_lane(arch::LaneMask lanes) { return lanes == 0 ? 0 : bits::lowest(lanes); }

bool is_tensor(OpCode code) {
  return code <= OpCode::tensor_prefetch || (code >= OpCode::tensor_fetch && code <= OpCode::tensor_send);
}

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
    case OpCode::tensor_copy:
    case OpCode::bulk_copy:
      return BulkKind::copy;
    case OpCode::tensor_send:
    case OpCode::bulk_send:
      return BulkKind::send;
    case OpCode::tensor_fetch:
      return BulkKind::fetch;
    case OpCode::bulk_drain:
      return BulkKind::drain;
    default:
      return BulkKind::forget;
  }
}

// The request is the warp's, and not its lanes': the warp waits for its end.
bool of_warp(OpCode code) { return code == OpCode::bulk_drain || code == OpCode::tensor_fence; }

bool as_coded(const Operation& operation) {
  const BulkKind kind = kind_of(operation.code);
  const bool tensor = is_tensor(operation.code);
  if (operation.bulk.size() != bits::count(operation.lanes)) return false;
  return std::all_of(operation.bulk.begin(), operation.bulk.end(),
                     [=](const BulkRequest& request) { return request.kind == kind && request.tensor == tensor; });
}

bool has_groups(BulkKind kind) {
  return kind == BulkKind::store || kind == BulkKind::reduce || kind == BulkKind::copy || kind == BulkKind::send;
}

bool has_receiver(BulkKind kind) { return kind == BulkKind::load || kind == BulkKind::send; }

bool has_source(BulkKind kind) { return kind == BulkKind::store || kind == BulkKind::reduce || kind == BulkKind::send; }

// What a fault of the request names.
std::uint64_t address_of(const BulkRequest& request) {
  if (request.tensor || request.kind == BulkKind::forget) return request.descriptor;
  return request.kind == BulkKind::send ? request.shared : request.global;
}

// The size of a tensor is not known here: at least one unit.
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

void BulkUnit::reset() {
  open_.clear();
  waiting_.clear();
  begun_.clear();
}

void BulkUnit::begin_kernel(std::uint32_t operation) {
  const auto gone = [&](const std::pair<std::uint32_t, Cycle>& kernel) {
    return kernel.first == operation || !ctas_.runs(kernel.first);
  };
  begun_.erase(std::remove_if(begun_.begin(), begun_.end(), gone), begun_.end());
  begun_.emplace_back(operation, now());
}

Cycle BulkUnit::begin_of(std::uint32_t operation) const {
  const auto found =
      std::find_if(begun_.begin(), begun_.end(), [operation](const auto& kernel) { return kernel.first == operation; });
  return found == begun_.end() ? 0 : found->second;
}

void BulkUnit::forget(std::uint32_t slot) {
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), slot), waiting_.end());
}

const BulkOpen* BulkUnit::oldest(std::uint32_t cta_slot) const {
  const BulkOpen* oldest = nullptr;
  open_.for_each([&](const BulkOpen& open) {
    if (open.cta == cta_slot && (oldest == nullptr || open.serial < oldest->serial)) oldest = &open;
  });
  return oldest;
}

IssueResult BulkUnit::issue(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle next = now() + 1;
  if (operation.code == OpCode::bulk_commit) {
    warp.bulk.commit(operation.lanes, now());
    warp.bulk_reads.commit(operation.lanes, now());
    return IssueResult::done(next, next);
  }
  if (operation.code == OpCode::bulk_wait) return wait(slot, operation);
  if (operation.code == OpCode::proxy_fence) {
    peers_.shared.proxy_fence(warp.cta, slot);
    return IssueResult::done(next, now() + params_.memory.fence);
  }
  const bool exists = connected_ && (of_warp(operation.code) || as_coded(operation));
  if (!exists) return IssueResult::fault(FaultKind::unsupported, first_lane(operation.lanes), 0);
  warp.write_results(next);
  if (operation.lanes == 0) return IssueResult::goes_on(next);
  warp.bulk_sent = 0;
  if (waiting_.empty() && send(slot, operation)) return issued(slot, operation.code);
  warp.keep(operation);
  warp.wait = WarpWait::bulk;
  warp.since = next;
  waiting_.push_back(slot);
  return IssueResult::blocks();
}

// The requests that have not been sent, one lane after the other. False if there is no place for them all.
bool BulkUnit::send(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  if (of_warp(operation.code)) {
    if (!peers_.requests.can_send()) return false;
    BulkRequest request;
    request.kind = kind_of(operation.code);
    const std::uint32_t lane = first_lane(operation.lanes);
    if (request.kind == BulkKind::forget) request.descriptor = operation.address[lane];
    send_request(slot, request, operation.code, lane);
    return true;
  }
  for (; warp.bulk_sent < operation.bulk.size(); ++warp.bulk_sent) {
    if (!peers_.requests.can_send()) return false;
    send_request(slot, operation.bulk[warp.bulk_sent], operation.code, bits::nth(operation.lanes, warp.bulk_sent));
  }
  return true;
}

void BulkUnit::send_request(std::uint32_t slot, const BulkRequest& request, OpCode code, std::uint32_t lane) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  const std::uint32_t id = open_.take();
  BulkOpen open;
  open.cta = warp.cta;
  open.warp = slot;
  open.lane = lane;
  open.pc = warp.issued_pc;
  open.code = code;
  open.kind = request.kind;
  open.grouped = has_groups(request.kind);
  open.barrier = request.barrier;
  open.address = address_of(request);
  open.serial = ++serial_;
  if (open.grouped) {
    open.group = warp.bulk.of(lane).current();
    warp.bulk.of(lane).add();
    warp.bulk_reads.of(lane).add();
  }
  open_[id] = open;
  ++cta.open;
  ++cta.bulk;
  stats_.bulk_requests.add();

  BulkRequestPacket packet;
  packet.request = request;
  packet.id = id;
  packet.operation = cta.operation;
  packet.cta_slot = protocol::CtaSlot(warp.cta);
  packet.warp = protocol::WarpSlot(slot);
  packet.cta = cta.start.id.index;
  packet.subcontext = cta.start.subcontext;
  packet.kernel = warp.kernel;
  packet.cga_id = cta.start.tag.cga_id;
  packet.rank = cta.start.id.rank;
  packet.sequence = cta.start.tag.sequence;
  packet.descriptors_from = begin_of(cta.start.tag.operation);
  packet.broken = arch::check_words(request);
  if (packet.broken == TensorRule::none) {
    // These are the instruction's operands: what they do not hold does not reach the unit (TMA-30).
    arch::set_words(packet.request, arch::address_word(request), arch::mask_word(request));
    if (has_receiver(request.kind)) packet.broken = find_receivers(slot, packet);
  }
  // All CTAs of a CGA have had the same shared memory: what the one that asks has given back does not count elsewhere.
  const std::uint64_t own = peers_.shared.size(warp.cta);
  const std::uint64_t there = packet.by_rank ? cta.code->shared_bytes : own;
  const auto room = [](std::uint64_t window, std::uint64_t offset) {
    return static_cast<std::uint32_t>(window - std::min(window, offset));
  };
  packet.room = room(request.kind == BulkKind::load ? there : own, request.shared);
  packet.room_there = room(there, request.destination);
  if (packet.broken == TensorRule::none) packet.broken = check(slot, packet);
  peers_.requests.send_at(peers_.port.take(now(), 1), packet);
}

// All of them are on their way: the warp goes on at once (TMA-02), unless it is to wait for the end.
IssueResult BulkUnit::issued(std::uint32_t slot, OpCode code) {
  const Cycle next = now() + 1;
  if (!of_warp(code)) return IssueResult::goes_on(next);
  warps_[slot].wait = WarpWait::bulk_answer;
  warps_[slot].since = next;
  return IssueResult::blocks();
}

void BulkUnit::on_room(std::uint32_t) {
  while (!waiting_.empty()) {
    const std::uint32_t slot = waiting_.front();
    Warp& warp = warps_[slot];
    if (!send(slot, *warp.operation)) return;
    waiting_.erase(waiting_.begin());
    const Cycle next = now() + 1;
    waited(stats_.stall_bulk_queue, warp, next - std::min(next, warp.since));
    if (const IssueResult result = issued(slot, warp.operation->code); result.kind == IssueResult::Kind::ready) {
      peers_.scheduler.prepare(slot, result.next);
    }
  }
}

// Who gets the data, and where those are (TMA-30). What a CTA asks for itself stays in its window.
TensorRule BulkUnit::find_receivers(std::uint32_t slot, BulkRequestPacket& packet) {
  BulkRequest& request = packet.request;
  const Cta& cta = ctas_[packet.cta_slot];
  const std::uint32_t own = packet.rank < arch::kMulticastCtas ? 1U << packet.rank : 0;
  std::uint32_t mask = request.kind == BulkKind::load ? request.multicast : 0U;
  if (mask == 0) {
    if (!request.data_cta || *request.data_cta == packet.rank) {
      request.data_cta.reset();
      return TensorRule::none;
    }
    if (*request.data_cta >= arch::kMulticastCtas) return TensorRule::receivers;
    mask = 1U << *request.data_cta;
  }
  // CTAs that share no GPC with it have no way to it (CGA-15).
  if (!cta.in_cga()) return mask == own ? TensorRule::none : TensorRule::receivers;
  if (!peers_.tables.enter_warp(slot, cta.start.tag.cga_id)) return TensorRule::receivers;
  bool shared = false;
  for (std::uint64_t rest = mask; rest != 0; rest = bits::without_lowest(rest)) {
    const std::uint64_t window = arch::dsmem_address(bits::lowest(rest), 0);
    const ClusterTables::Target target = peers_.tables.find(slot, window, arch::kBulkBlock, now());
    if (target.found != ClusterTables::Found::ok) return TensorRule::receivers;
    shared |= (packet.sms >> target.sm & 1) != 0;
    packet.sms |= std::uint64_t{1} << target.sm;
  }
  packet.by_rank = true;
  packet.ctas = static_cast<std::uint16_t>(mask);
  return shared && !place_.share_receivers ? TensorRule::receivers_share_sm : TensorRule::none;
}

// What can be seen before the descriptor. All CTAs of a CGA have had the same shared memory.
TensorRule BulkUnit::check(std::uint32_t slot, const BulkRequestPacket& packet) const {
  const BulkRequest& request = packet.request;
  const std::uint32_t window = warps_[slot].cta;
  const std::uint64_t whole = ctas_[window].code->shared_bytes;
  const auto inside = [&](bool there, std::uint64_t offset, std::uint64_t bytes) {
    return there ? bytes <= whole && offset <= whole - bytes : peers_.shared.contains(window, offset, bytes);
  };
  const bool receives = has_receiver(request.kind);
  if (receives && request.barrier_cta) {
    const std::uint32_t cta = *request.barrier_cta;
    const bool among = cta < arch::kMulticastCtas && bits::contains(packet.ctas, cta);
    if (packet.by_rank ? !among : cta != packet.rank) return TensorRule::barrier_cta;
  }
  if (receives && (request.kind == BulkKind::load || request.barrier)) {
    const bool there = request.barrier && *request.barrier % arch::kMbarrierBytes == 0 &&
                       inside(packet.by_rank, *request.barrier, arch::kMbarrierBytes);
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

IssueResult BulkUnit::wait(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle next = now() + 1;
  warp.write_results(next);
  warp.wait = WarpWait::bulk_groups;
  warp.since = next;
  warp.groups_wanted = operation.count;
  warp.group_lanes = operation.lanes;
  warp.wants_reads = operation.read;
  consider_groups(slot);
  return IssueResult::blocks();
}

void BulkUnit::consider_groups(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  if (warp.wait != WarpWait::bulk_groups) return;
  const Cycle ready =
      (warp.wants_reads ? warp.bulk_reads : warp.bulk).ready(warp.group_lanes, warp.groups_wanted, now());
  if (ready != kNever) peers_.scheduler.resume(slot, ready, stats_.stall_bulk);
}

void BulkUnit::on_done(const BulkDonePacket& done, std::uint32_t) {
  const Cycle cycle = now();
  BulkOpen& open = open_[done.id];
  Warp& warp = warps_[open.warp];
  if (open.grouped && !open.read) {
    open.read = true;
    warp.bulk_reads.of(open.lane).end(open.group, cycle, true);
  }
  if (done.kind == BulkDonePacket::Kind::read) return consider_groups(open.warp);
  // The thread need not wait any longer: what it asks for from now on comes after it. Others may see it once a fence
  // has waited for memory's answer (MEM-06).
  if (done.kind == BulkDonePacket::Kind::accepted) {
    open.accepted = peers_.fences.begin();
    warp.bulk.of(open.lane).end(open.group, cycle, true);
    return consider_groups(open.warp);
  }

  const BulkOpen ended = open;
  open_.give_back(done.id);
  Cta& cta = ctas_[ended.cta];
  HEDDLE_CHECK(cta.here() && cta.open > 0 && cta.bulk > 0, "a CTA ended before its bulk request");
  --cta.open;
  --cta.bulk;
  cta.last = std::max(cta.last, cycle);
  if (ended.accepted) {
    peers_.fences.end(*ended.accepted, cycle);
    peers_.fences.tell(*ended.accepted, cycle);
  } else if (ended.grouped) {
    warp.bulk.of(ended.lane).end(ended.group, cycle, true);
  }
  if (done.kind != BulkDonePacket::Kind::complete) went_wrong(ended, done);
  if (!cta.killed() && of_warp(ended.code)) {
    peers_.scheduler.resume(ended.warp, cycle, stats_.stall_bulk);
  } else {
    consider_groups(ended.warp);
  }
  peers_.supervisor.check_end(cta, cycle);
}

// It has come to nothing, or not all of it has arrived (TMA-06).
void BulkUnit::went_wrong(const BulkOpen& ended, const BulkDonePacket& done) {
  const Cta& cta = ctas_[ended.cta];
  if (cta.killed() || peers_.faults.aborted(cta.operation)) return;
  const bool dropped = done.kind == BulkDonePacket::Kind::dropped;
  FaultKind wrong = done.poison ? FaultKind::poison : FaultKind::address;
  if (done.unmapped) wrong = done.read_only ? FaultKind::read_only : FaultKind::unmapped;
  arch::FaultRecord record = peers_.faults.record_of(warps_[ended.warp], dropped ? FaultKind::tensor : wrong, ended.pc);
  record.lane = ended.lane;
  record.operation = ended.code;
  record.address = dropped ? ended.address : done.address;
  record.write = !dropped && done.write;
  record.rule = dropped ? done.rule : TensorRule::none;
  record.cycle = now();
  // What touches another's memory is stopped, whatever the unit does else (PRT-08).
  if (params_.tensor_errors == TensorErrors::trap || done.unmapped) return peers_.faults.stop(record, ended.cta);
  record.fatal = false;
  peers_.faults.note(record);
}

// The CTA that asked is here: always, if the data are for its own window.
const Cta* BulkUnit::asked_for(const protocol::BulkTarget& target) const {
  if (target.cta_slot >= ctas_.size()) return nullptr;
  const Cta& cta = ctas_[target.cta_slot];
  const protocol::CtaTag& tag = cta.start.tag;
  const bool same = cta.here() && cta.has_warps() && cta.start.id.index == target.cta && tag.cga_id == target.cga_id;
  return same && (!cta.in_cga() || tag.sequence == target.sequence) && cta.bulk > 0 ? &cta : nullptr;
}

// The request that the data are of, which a CTA here has made.
const BulkOpen* BulkUnit::find_open(const protocol::BulkTarget& target) const {
  if (!open_.holds(target.id)) return nullptr;
  const BulkOpen& open = open_[target.id];
  return open.warp == target.warp && open.cta == target.cta_slot ? &open : nullptr;
}

// It goes on with what it has read: that is what happens to programs without the fence.
void BulkUnit::missing_fence(const protocol::BulkTarget& target, std::uint32_t offset, Cycle when) {
  HEDDLE_CHECK(find_open(target) != nullptr, "shared memory was read for a request that is over");
  BulkOpen& open = open_[target.id];
  if (open.unfenced) return;
  open.unfenced = true;
  stats_.missing_fences.add();
  arch::FaultRecord record = peers_.faults.record_of(warps_[open.warp], FaultKind::missing_fence, open.pc);
  record.lane = open.lane;
  record.operation = open.code;
  record.address = offset;
  record.fatal = false;
  record.cycle = when;
  peers_.faults.note(record);
}

// Bulk data and a CTA here do not go together. Between CTAs the fault is one of the CGA (CGA-08).
void BulkUnit::bulk_failed(const BulkError& error, Cycle when) {
  const protocol::BulkTarget& target = error.target;
  const Cta* cta = asked_for(target);
  HEDDLE_CHECK(cta != nullptr || target.by_rank, "bulk data for a CTA that has gone");
  if (cta == nullptr) return trap(error, when);
  if (cta->killed()) return;
  const BulkOpen* found = find_open(target);
  const Warp& warp = warps_[target.warp];
  arch::FaultRecord record = peers_.faults.record_of(warp, fault_of(error.status, !target.by_rank),
                                                     found != nullptr ? found->pc : warp.issued_pc);
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
  peers_.faults.stop_later(record, target.cta_slot);
}

// The CTA that asked is elsewhere.
void BulkUnit::trap(const BulkError& error, Cycle when) {
  ClusterError orphan;
  orphan.status = error.status;
  orphan.cga_id = error.target.cga_id;
  orphan.sequence = error.target.sequence;
  orphan.rank = error.rank;
  orphan.offset = error.offset;
  orphan.from_cta = error.target.cta;
  orphan.from_rank = error.target.rank;
  peers_.faults.orphan_failed(orphan, when);
}

}  // namespace heddle::sm
