#include "sm/alu.h"

#include <algorithm>

#include "common/bits.h"
#include "sm/cta_table.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {
namespace {

std::size_t index_of(arch::Unit unit) { return static_cast<std::size_t>(unit); }

}  // namespace

Alu::Alu(const UnitContext& context, WarpScheduler& scheduler) : SmUnit(context), scheduler_(scheduler) {
  interval_.fill(1);
  latency_.fill(1);
  const auto set = [this](arch::Unit unit, const UnitParams& its) {
    interval_[index_of(unit)] = (arch::kWarpLanes + its.lanes - 1) / its.lanes;
    latency_[index_of(unit)] = its.latency;
  };
  const IssueParams& issue = params_.issue;
  set(arch::Unit::fp32, issue.fp32);
  set(arch::Unit::int32, issue.int32);
  set(arch::Unit::fp64, issue.fp64);
  set(arch::Unit::sfu, issue.sfu);
  latency_[index_of(arch::Unit::tensor)] = std::max(1U, issue.tensor_latency);
}

IssueResult Alu::issue(std::uint32_t slot, const arch::Operation& operation) {
  if (operation.code == arch::OpCode::special) return read_special(slot, operation);
  Warp& warp = warps_[slot];
  warp.next = WarpNext::compute;
  warp.compute_left = std::max(1U, operation.count);
  warp.compute_latency = operation.latency + latency_[index_of(warp.unit)];
  return go_on(slot);
}

IssueResult Alu::go_on(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  const Cycle cycle = now();
  const Cycle interval = interval_[index_of(warp.unit)];
  const bool turns = params_.issue.policy == WarpPolicy::round_robin;
  const bool company = turns && scheduler_.others_before(slot, cycle + warp.compute_left);
  const auto count = std::min<std::uint64_t>(warp.compute_left, company ? 1 : params_.issue.burst);
  scheduler_.occupy(slot, count, interval);
  stats_.instructions[index_of(warp.unit)]->add(count);
  warp.compute_left -= count;
  if (warp.compute_left > 0) {
    scheduler_.interrupt(slot, cycle + count * interval);
    return IssueResult::blocks();
  }
  warp.next = WarpNext::fetch;
  const Cycle last = cycle + (count - 1) * interval;
  return IssueResult::done(last + warp.compute_latency, last + 1);
}

// CGA-10.
std::uint64_t Alu::special(std::uint32_t slot, arch::SpecialRegister which) const {
  using arch::SpecialRegister;
  const Warp& warp = warps_[slot];
  const arch::WarpPlace& place = warp.place;
  const Cta& cta = ctas_[warp.cta];
  switch (which) {
    case SpecialRegister::clock:
      return now();
    case SpecialRegister::sm:
      return place_.id;
    case SpecialRegister::sms:
      return place_.sms;
    case SpecialRegister::warp_slot:
      return slot;
    case SpecialRegister::cta_slot:
      return warp.cta;
    case SpecialRegister::cta_id_x:
      return place.cta_x;
    case SpecialRegister::cta_id_y:
      return place.cta_y;
    case SpecialRegister::cta_id_z:
      return place.cta_z;
    case SpecialRegister::grid_x:
      return place.grid.x;
    case SpecialRegister::grid_y:
      return place.grid.y;
    case SpecialRegister::grid_z:
      return place.grid.z;
    case SpecialRegister::block_x:
      return place.block.x;
    case SpecialRegister::block_y:
      return place.block.y;
    case SpecialRegister::block_z:
      return place.block.z;
    case SpecialRegister::cga_id:
      return place.cluster;
    case SpecialRegister::cga_cta_id:
      return place.rank;
    case SpecialRegister::cga_size:
      return place.cluster_size;
    case SpecialRegister::cga_x:
      return place.cluster_shape.x;
    case SpecialRegister::cga_y:
      return place.cluster_shape.y;
    case SpecialRegister::cga_z:
      return place.cluster_shape.z;
    case SpecialRegister::gpc_local_cga_id:
      return cta.start.tag.cga_id;
    case SpecialRegister::task_id:
      return cta.operation;
    case SpecialRegister::queue_position:
      return cta.queue ? place.cta : 0;
    case SpecialRegister::cga_memory:
      return cta.start.cga_memory;
  }
  return 0;
}

IssueResult Alu::read_special(std::uint32_t slot, const arch::Operation& operation) {
  Warp& warp = warps_[slot];
  const std::uint64_t value = special(slot, operation.special);
  const bool wide = operation.width == 8 || (!warp.writes.empty() && warp.writes.front().count == 2);
  std::uint32_t* registers = warp.state.of(operation.destination);
  bits::for_each(operation.lanes, [&](std::uint32_t lane) {
    registers[lane] = static_cast<std::uint32_t>(value);
    if (wide) registers[arch::kWarpLanes + lane] = static_cast<std::uint32_t>(value >> 32);
  });
  return IssueResult::done(now() + params_.issue.special_latency, now() + 1);
}

}  // namespace heddle::sm
