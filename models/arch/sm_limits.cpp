#include "arch/sm_limits.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/params.h"

namespace heddle::arch {
namespace {

std::uint64_t round_up(std::uint64_t value, std::uint64_t granularity) {
  return (value + granularity - 1) / granularity * granularity;
}

std::uint64_t warps_of(const SmLimits& limits, const KernelShape& kernel) {
  return (kernel.block.count() + limits.warp_size - 1) / limits.warp_size;
}

}  // namespace

void SmLimits::describe(ParamTable<SmLimits>& t) {
  const char* guide = "NVIDIA Hopper tuning guide";
  const char* calculator = "CUDA occupancy calculator, compute capability 9.0";
  t.add("warp_size", &SmLimits::warp_size, {heddle::Unit::count, 1, 128}, "threads of a warp", "PTX ISA");
  t.add("warps", &SmLimits::warps, {heddle::Unit::count, 1, 1024}, "warps that an SM holds", guide);
  t.add("threads", &SmLimits::threads, {heddle::Unit::count, 1, 65'536}, "threads that an SM holds", guide);
  t.add("ctas", &SmLimits::ctas, {heddle::Unit::count, 1, 64}, "CTA slots of an SM", guide);
  t.add("registers", &SmLimits::registers, {heddle::Unit::count, 1, 16'777'216}, "32-bit registers of an SM", guide);
  t.add("register_granularity", &SmLimits::register_granularity, {heddle::Unit::count, 1, 65'536},
        "registers of a warp are allocated in multiples of this", calculator);
  t.add("warp_granularity", &SmLimits::warp_granularity, {heddle::Unit::count, 1, 64},
        "registers are allocated for multiples of this many warps", calculator);
  t.add("shared_bytes", &SmLimits::shared_bytes, {heddle::Unit::bytes, 0, 1'073'741'824},
        "shared memory of an SM, for all its CTAs", guide);
  t.add("shared_granularity", &SmLimits::shared_granularity, {heddle::Unit::bytes, 1, 65'536},
        "shared memory of a CTA is allocated in multiples of this", calculator);
  t.add("shared_reserve", &SmLimits::shared_reserve, {heddle::Unit::bytes, 0, 65'536},
        "shared memory that every CTA takes beside its own", guide);
  t.add("cga_slots", &SmLimits::cga_slots, {heddle::Unit::count, 1, 256},
        "sm_cga_slots: GPC_CGAs that an SM can know; each that lives in its GPC takes one on every SM of it (CWD-01)",
        "assumption: one for every local CGA id, so that published occupancies are those of the other resources");
  t.add("barriers", &SmLimits::barriers, {heddle::Unit::count, 1, 65'536}, "named CTA barriers of an SM",
        "assumption: enough for every CTA slot");
  t.add("barriers_per_cta", &SmLimits::barriers_per_cta, {heddle::Unit::count, 0, 1024},
        "named barriers that a CTA takes", "PTX ISA");
  t.add("max_threads_per_cta", &SmLimits::max_threads_per_cta, {heddle::Unit::count, 1, 65'536}, "largest CTA", guide);
  t.add("max_registers_per_thread", &SmLimits::max_registers_per_thread, {heddle::Unit::count, 1, 65'536},
        "registers that a thread can have", guide);
  t.add("max_shared_per_cta", &SmLimits::max_shared_per_cta, {heddle::Unit::bytes, 0, 1'073'741'824},
        "largest shared memory of a CTA, without the reserve", guide);
  t.add("max_local_per_thread", &SmLimits::max_local_per_thread, {heddle::Unit::bytes, 0, 16'777'216},
        "largest local memory of a thread", guide);
}

const char* resource_name(Resource resource) {
  static constexpr const char* kNames[kResources] = {"warps",         "threads",   "registers",
                                                     "shared memory", "CTA slots", "barriers"};
  return kNames[static_cast<std::size_t>(resource)];
}

ResourceVector capacity_of(const SmLimits& limits) {
  return {{limits.warps, limits.threads, limits.registers, limits.shared_bytes, limits.ctas, limits.barriers}};
}

ResourceVector need_of(const SmLimits& limits, const KernelShape& kernel) {
  const std::uint64_t warps = warps_of(limits, kernel);
  const std::uint64_t per_warp =
      round_up(std::uint64_t{kernel.registers_per_thread} * limits.warp_size, limits.register_granularity);
  const std::uint64_t registers = per_warp * round_up(warps, limits.warp_granularity);
  const std::uint64_t shared =
      round_up(std::uint64_t{kernel.shared_bytes} + limits.shared_reserve, limits.shared_granularity);
  const auto narrow = [](std::uint64_t value) {  // beyond 32 bits nothing fits anyway
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, 0xFFFF'FFFFU));
  };
  // Threads are counted in whole warps: a partly filled warp takes all its lanes.
  return {
      {narrow(warps), narrow(warps * limits.warp_size), narrow(registers), narrow(shared), 1, limits.barriers_per_cta}};
}

std::uint32_t free_slots(const ResourceVector& capacity, const ResourceVector& used, const ResourceVector& need) {
  std::uint32_t slots = ~std::uint32_t{0};
  for (std::size_t i = 0; i < kResources; ++i) {
    if (need.amount[i] == 0) continue;
    const std::uint32_t left = capacity.amount[i] > used.amount[i] ? capacity.amount[i] - used.amount[i] : 0;
    slots = std::min(slots, left / need.amount[i]);
  }
  return slots;
}

std::string why_impossible(const SmLimits& limits, const KernelShape& kernel) {
  const auto too_much = [](const char* what, std::uint64_t amount, const char* unit, std::uint64_t limit) {
    return fmt::format("{}: {} {}, the limit is {}", what, amount, unit, limit);
  };
  const auto is_empty = [](const Dim3& extents) { return extents.x == 0 || extents.y == 0 || extents.z == 0; };
  if (is_empty(kernel.grid)) return "grid: an extent is 0";
  if (is_empty(kernel.block)) return "block: an extent is 0";
  // One extent alone first: the product of three can exceed 64 bits.
  for (const std::uint32_t extent : {kernel.block.x, kernel.block.y, kernel.block.z}) {
    if (extent > limits.max_threads_per_cta) return too_much("threads", extent, "per CTA", limits.max_threads_per_cta);
  }
  if (kernel.block.count() > limits.max_threads_per_cta) {
    return too_much("threads", kernel.block.count(), "per CTA", limits.max_threads_per_cta);
  }
  if (kernel.registers_per_thread > limits.max_registers_per_thread) {
    return too_much("registers", kernel.registers_per_thread, "per thread", limits.max_registers_per_thread);
  }
  if (kernel.shared_bytes > limits.max_shared_per_cta) {
    return too_much("shared memory", kernel.shared_bytes, "bytes per CTA", limits.max_shared_per_cta);
  }
  if (kernel.local_bytes > limits.max_local_per_thread) {
    return too_much("local memory", kernel.local_bytes, "bytes per thread", limits.max_local_per_thread);
  }
  if (kernel.duration.max > kMaxCtaCycles)
    return too_much("duration", kernel.duration.max, "cycles per CTA", kMaxCtaCycles);
  const ResourceVector need = need_of(limits, kernel);
  const ResourceVector capacity = capacity_of(limits);
  for (std::size_t i = 0; i < kResources; ++i) {
    if (need.amount[i] > capacity.amount[i]) {
      return fmt::format("{}: a CTA takes {} (with rounding and reserve), an SM has {}",
                         resource_name(static_cast<Resource>(i)), need.amount[i], capacity.amount[i]);
    }
  }
  return {};
}

double occupancy_percent(const SmLimits& limits, const KernelShape& kernel, std::uint32_t sms) {
  const ResourceVector need = need_of(limits, kernel);
  const double resident = free_slots(capacity_of(limits), {}, need);
  const double spread = static_cast<double>(kernel.grid.count()) / sms;
  return std::min(resident, spread) * need[Resource::warps] / limits.warps * 100.0;
}

}  // namespace heddle::arch
