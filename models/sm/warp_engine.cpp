#include "sm/warp_engine.h"

#include <algorithm>

namespace heddle::sm {
namespace {

std::size_t index_of(arch::Unit unit) { return static_cast<std::size_t>(unit); }

// What an operation issues to: its code says, except for compute.
arch::Unit unit_of(const arch::Demand& demand) {
  switch (demand.code) {
    case arch::OpCode::compute:
      return demand.unit;
    case arch::OpCode::load:
    case arch::OpCode::store:
    case arch::OpCode::atomic:
    case arch::OpCode::async_copy:
    case arch::OpCode::mbarrier_init:
    case arch::OpCode::mbarrier_invalidate:
    case arch::OpCode::mbarrier_arrive:
    case arch::OpCode::mbarrier_expect:
    case arch::OpCode::mbarrier_complete:
    case arch::OpCode::mbarrier_wait:
    case arch::OpCode::mbarrier_test:
    case arch::OpCode::tensor_load:
    case arch::OpCode::tensor_store:
    case arch::OpCode::tensor_reduce:
    case arch::OpCode::tensor_prefetch:
    case arch::OpCode::bulk_load:
    case arch::OpCode::bulk_store:
    case arch::OpCode::bulk_reduce:
    case arch::OpCode::bulk_prefetch:
    case arch::OpCode::bulk_copy:
    case arch::OpCode::bulk_send:
    case arch::OpCode::bulk_drain:
    case arch::OpCode::tensor_fence:
      return arch::Unit::memory;
    case arch::OpCode::matmul:
      return arch::Unit::tensor;
    default:
      return arch::Unit::none;
  }
}

std::uint32_t warp_slots(const SmParams& params) {
  return (params.limits.warps + kPartitions - 1) / kPartitions * kPartitions;
}

}  // namespace

WarpEngine::WarpEngine(Domain& domain, MemoryOut& out, const ClusterLinks& links, const BulkLinks& bulk,
                       PacketOut<protocol::BulkRequestPacket>& bulk_out, const SmParams& params,
                       const arch::CodeStore& code, const MemoryView& view, const SmPlace& place, const char* name,
                       const std::string& stat_prefix, EngineHost& host)
    : domain_(domain),
      params_(params),
      code_(code),
      place_(place),
      nested_(view.nested),
      bulk_out_(bulk_out),
      name_(name),
      host_(host),
      stats_(domain.observation().stats, stat_prefix),
      tables_(warp_slots(params), params.limits.ctas, params.limits.max_shared_per_cta),
      memory_(domain, out, params, view, place.id, warps_, *this, stats_, tables_, links, bulk),
      partitions_(kPartitions, Partition(params.issue.policy, warp_slots(params) / kPartitions)),
      ctas_(params.limits.ctas),
      first_mover_(warp_slots(params)) {
  if (nested_.areas.count > 0) save_stats_.emplace(domain.observation().stats, stat_prefix);
  due_.fill(kNeverReady);
  interval_.fill(1);
  latency_.fill(1);
  const auto set = [this](arch::Unit unit, const UnitParams& its) {
    interval_[index_of(unit)] = (arch::kWarpLanes + its.lanes - 1) / its.lanes;
    latency_[index_of(unit)] = its.latency;
  };
  set(arch::Unit::fp32, params.issue.fp32);
  set(arch::Unit::int32, params.issue.int32);
  set(arch::Unit::fp64, params.issue.fp64);
  set(arch::Unit::sfu, params.issue.sfu);
  latency_[index_of(arch::Unit::tensor)] = std::max(1U, params.issue.tensor_latency);
}

void WarpEngine::reset() {
  memory_.reset();
  for (Partition& partition : partitions_) partition.reset();
  for (Warp& warp : warps_) {
    warp.resident = warp.stepping = false;
    warp.nested.reset();
  }
  for (Cta& cta : ctas_) {
    cta.running = false;
    cta.mbarrier_waiters.clear();
  }
  tables_.reset();
  for (Hosted& cga : hosted_) cga = {};
  hosted_cgas_ = 0;
  due_.fill(kNeverReady);
  armed_ = kNeverReady;
  issuing_ = false;
  barrier_free_ = 0;
  resident_ = shared_held_ = 0;
  order_waiters_.clear();
  failures_.clear();
  moves_.clear();
  bulk_open_.clear();
  bulk_waiters_.clear();
  aborted_.clear();
  descriptors_old_ = false;
}

void WarpEngine::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto index = static_cast<std::uint32_t>(argument);
  switch (kind) {
    case kIssue:
      if (domain_.now() == armed_) issue_all();
      return;
    case kCtaEnds:
      end(index);
      return;
    case kAcknowledged:
      release_acknowledged(index);
      return;
    case kPermitted:
      permitted(index);
      return;
    case kSaves:
      save_due(index);
      return;
    case kMoves:
      pump(index);
      return;
    case kMoved:
      move_answered(index, static_cast<std::uint32_t>(argument >> 32));
      return;
    case kGivesTurn:
      write_turn(ctas_[index]);
      return;
    default:
      failed(index);
  }
}

// One instruction of each partition that can issue. The first turn goes round, as all share the memory unit.
void WarpEngine::issue_all() {
  armed_ = kNeverReady;
  issuing_ = true;
  const Cycle now = domain_.now();
  for (std::uint32_t i = 0; i < kPartitions; ++i) {
    const std::uint32_t p = (now + i) % kPartitions;
    if (due_[p] > now) continue;
    Partition& partition = partitions_[p];
    const std::uint32_t chosen = partition.choose(now, memory_.free());
    if (chosen != Partition::kNone) issue(chosen * kPartitions + p);
    due_[p] = partition.next(memory_.free());
  }
  issuing_ = false;
  arm();
}

void WarpEngine::arm() {
  const Cycle first = *std::min_element(due_.begin(), due_.end());
  if (first >= armed_) return;
  armed_ = std::max(first, domain_.now());
  domain_.schedule(armed_, *this, kIssue);
}

// A warp can go on, or earlier than was thought.
void WarpEngine::wake(std::uint32_t slot) {
  const std::uint32_t p = slot % kPartitions;
  const Cycle when = partitions_[p].next_of(slot / kPartitions, memory_.free());
  if (when >= due_[p]) return;
  due_[p] = when;
  if (!issuing_) arm();
}

void WarpEngine::memory_goes_on(Cycle when) {
  for (std::uint32_t p = 0; p < kPartitions; ++p) {
    const Cycle next = partitions_[p].next(memory_.free());
    if (next != kNeverReady) due_[p] = std::min(due_[p], std::max(next, when));
  }
  moves_go_on(when);
  if (!issuing_) arm();
}

// The next operation is looked at: when can it issue? Not before `from`; what it waits beyond counts as `stall`.
void WarpEngine::prepare(std::uint32_t slot, Cycle from, Counter& stall) {
  Warp& warp = warps_[slot];
  const arch::Demand& demand = warp.program->demand(warp.state);
  warp.code = demand.code;
  warp.unit = unit_of(demand);
  warp.writes = demand.writes;
  warp.accumulators = demand.accumulators;
  warp.since = from;
  const Cycle ready = warp.scoreboard.ready(demand, from);
  if (ready == kNeverReady) {
    warp.wait = WarpWait::registers;
    partition_of(slot).block(slot / kPartitions);
    return;
  }
  warp.wait = WarpWait::issue;
  if (ready > from) {
    stall.add(ready - from);
    warp.since = ready;
  }
  partition_of(slot).ready(slot / kPartitions, ready, warp.unit);
  wake(slot);
}

// It has waited for memory or its like, and goes on at `ready`.
void WarpEngine::resume(std::uint32_t slot, Cycle ready, Counter& stall) {
  const Cycle from = std::max(warps_[slot].since, ready);
  stall.add(from - warps_[slot].since);
  prepare(slot, from);
}

void WarpEngine::issue(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  const Cycle now = domain_.now();
  stats_.stall_issue.add(now - warp.since);
  if (warp.compute_left > 0) {
    run_compute(slot);
    return;
  }
  if (warp.held) {
    warp.held = false;
    partition_of(slot).issued(slot / kPartitions, now, 1, 1);
    partition_of(slot).block(slot / kPartitions);
    run_held(slot);
    return;
  }
  if (warp.nested != nullptr) return nested_step(slot);
  warp.issued_pc = warp.state.pc;
  static thread_local arch::Operation operation;  // large, and needed by one SM at a time
  warp.program->issue(warp.place, warp.state, operation);
  issuing_code_ = operation.code;
  run(slot, operation);
}

// The operation has been carried out: its registers hold values from `ready` on, and the next one follows.
void WarpEngine::finish(std::uint32_t slot, Cycle ready, Cycle next) {
  Warp& warp = warps_[slot];
  for (const arch::RegisterRange& range : warp.writes) warp.scoreboard.write(range, ready);
  prepare(slot, next);
}

}  // namespace heddle::sm
