#include "packet/packet_check.h"

#include <algorithm>
#include <array>

#include "arch/address_map.h"

namespace heddle::packet {
namespace {

using arch::HsaResult;
using arch::HsaStatus;
using arch::Reason;

constexpr std::uint32_t kDimensionBits = 3;  // in setup

constexpr HsaResult bad_argument(Reason reason) { return {HsaStatus::invalid_argument, reason}; }
constexpr HsaResult contradiction(Reason reason) { return {HsaStatus::incompatible_arguments, reason}; }
constexpr HsaResult too_much(Reason reason) { return {HsaStatus::out_of_resources, reason}; }

constexpr FieldSet kScopes = 1U << 0;
constexpr FieldSet kSetup = 1U << 1;
constexpr FieldSet kBlock = 7U << 2;
constexpr FieldSet kGrid = 7U << 5;
constexpr FieldSet kPrivate = 1U << 8;
constexpr FieldSet kGroup = 1U << 9;
constexpr FieldSet kKernarg = 1U << 11;
constexpr FieldSet kSignal = 1U << 12;
constexpr FieldSet block_and_grid(std::uint32_t dimension) { return 1U << (2 + dimension) | 1U << (5 + dimension); }

// What each rule looks at. By itself: scopes, reserved bits of setup, the sizes of each dimension, the work-items of a
// workgroup, the workgroups of each dimension, addresses, memory.
constexpr std::array<FieldSet, 14> kFieldRules{kScopes,
                                               kSetup,
                                               kSetup | block_and_grid(0),
                                               kSetup | block_and_grid(1),
                                               kSetup | block_and_grid(2),
                                               kBlock,
                                               block_and_grid(0),
                                               block_and_grid(1),
                                               block_and_grid(2),
                                               kKernarg,
                                               kObjectField,
                                               kSignal,
                                               kGroup,
                                               kPrivate};
// Together with the object: its limit of threads, shared memory, what an SM has, clusters, its program, what an SM or
// the machine can never hold.
constexpr FieldSet kThreadsRule = kBlock | kObjectField;
constexpr FieldSet kSharedRule = kGroup | kObjectField;
constexpr FieldSet kResourceRule = kBlock | kGroup | kObjectField | kRegisters;
constexpr FieldSet kClusterRule = kBlock | kGrid | kObjectField;
constexpr FieldSet kProgramRule = kObjectField | kProgram;
constexpr FieldSet kPossibleRule = kBlock | kGroup | kPrivate | kObjectField | kRegisters;
constexpr FieldSet kFitRule = kBlock | kGrid | kGroup | kPrivate | kObjectField | kRegisters;
constexpr std::array<FieldSet, 7> kObjectRules{kThreadsRule, kSharedRule,   kResourceRule, kClusterRule,
                                               kProgramRule, kPossibleRule, kFitRule};

template <std::size_t rules>
std::uint32_t count(const std::array<FieldSet, rules>& all, FieldSet changed) {
  return static_cast<std::uint32_t>(
      std::count_if(all.begin(), all.end(), [changed](FieldSet rule) { return (rule & changed) != 0; }));
}

HsaResult check_sizes(const arch::DispatchFields& fields, const arch::SmLimits& limits, FieldSet changed) {
  const std::uint32_t dimensions = fields.setup & kDimensionBits;
  if ((changed & kSetup) != 0 && dimensions == 0) return bad_argument(Reason::no_dimensions);
  std::uint64_t threads = 1;
  for (std::uint32_t i = 0; i < 3; ++i) {
    threads *= fields.workgroup[i];
    if ((changed & (kSetup | block_and_grid(i))) == 0) continue;
    if (fields.workgroup[i] == 0) return bad_argument(Reason::empty_workgroup);
    if (i >= dimensions && (fields.workgroup[i] != 1 || fields.grid[i] != 1)) {
      return bad_argument(Reason::unused_dimension);
    }
    if (fields.grid[i] < fields.workgroup[i]) return bad_argument(Reason::small_grid);
  }
  return (changed & kBlock) == 0 || threads <= limits.max_threads_per_cta ? HsaResult{}
                                                                          : bad_argument(Reason::large_workgroup);
}

HsaResult check_grid(const arch::DispatchFields& fields, FieldSet changed) {
  constexpr std::array<std::uint32_t, 3> kMost{arch::kMaxGridX, arch::kMaxGridY, arch::kMaxGridZ};
  for (std::uint32_t i = 0; i < 3; ++i) {
    if ((changed & block_and_grid(i)) == 0) continue;
    const std::uint64_t groups = (std::uint64_t{fields.grid[i]} + fields.workgroup[i] - 1) / fields.workgroup[i];
    if (groups > kMost[i]) return bad_argument(Reason::large_grid);
  }
  return {};
}

HsaResult check_addresses(const arch::DispatchFields& fields, FieldSet changed) {
  if ((changed & kKernarg) != 0) {
    if (fields.kernarg % arch::kKernargAlignment != 0) return bad_argument(Reason::kernarg_alignment);
    if (arch::in_host_window(fields.kernarg)) return bad_argument(Reason::kernarg_host);
  }
  const std::uint64_t object = fields.kernel_object;
  if ((changed & kObjectField) != 0 &&
      (object == 0 || object % arch::kKernelObjectBytes != 0 || arch::in_host_window(object))) {
    return {HsaStatus::invalid_code_object, Reason::object_address};
  }
  return (changed & kSignal) != 0 ? arch::check_signal(fields.completion_signal) : HsaResult{};
}

// In the order of arch::Resource.
constexpr std::array<Reason, arch::kResources> kTooMuch{
    Reason::sm_warps, Reason::sm_threads, Reason::sm_registers, Reason::sm_shared, Reason::sm_ctas, Reason::sm_barriers,
};

HsaResult check_resources(const arch::KernelShape& shape, const arch::SmLimits& limits) {
  if (shape.registers_per_thread > limits.max_registers_per_thread) {
    return too_much(Reason::thread_registers);
  }
  const arch::ResourceVector need = arch::need_of(limits, shape);
  const arch::ResourceVector capacity = arch::capacity_of(limits);
  for (std::size_t i = 0; i < arch::kResources; ++i) {
    if (need.amount[i] > capacity.amount[i]) return too_much(kTooMuch[i]);
  }
  return {};
}

HsaResult check_clusters(const arch::KernelShape& shape, bool partial) {
  if (!arch::why_malformed(shape.grid, shape.cluster, ~std::uint32_t{0}).empty()) {
    return contradiction(Reason::cluster_grid);
  }
  if (partial && shape.cluster.any()) return contradiction(Reason::partial_clusters);
  return {};
}

bool same(const arch::ClusterShape& a, const arch::ClusterShape& b) {
  return a.extents == b.extents && a.fallback == b.fallback && a.mode == b.mode && a.linear_memory == b.linear_memory;
}

// As far as it matters to where a kernel fits.
bool same(const arch::KernelShape& a, const arch::KernelShape& b) {
  return a.grid == b.grid && a.block == b.block && a.registers_per_thread == b.registers_per_thread &&
         a.shared_bytes == b.shared_bytes && a.local_bytes == b.local_bytes && a.cooperative == b.cooperative &&
         same(a.cluster, b.cluster);
}

}  // namespace

std::uint32_t checks_of_fields(FieldSet changed) { return count(kFieldRules, changed); }
std::uint32_t checks_with_object(FieldSet changed) { return count(kObjectRules, changed); }

HsaResult check(const arch::DispatchFields& fields, const arch::SmLimits& limits, FieldSet changed) {
  arch::SynchScopes scopes;
  if ((changed & kScopes) != 0) {
    if (const HsaResult result = arch::decode(scopes, fields.synch_scopes); !result.ok()) return result;
  }
  if ((changed & kSetup) != 0 && (fields.setup & ~kDimensionBits) != 0) {
    return {HsaStatus::invalid_packet_format, Reason::setup_bits};
  }
  if (const HsaResult result = check_sizes(fields, limits, changed); !result.ok()) return result;
  if (const HsaResult result = check_grid(fields, changed); !result.ok()) return result;
  if (const HsaResult result = check_addresses(fields, changed); !result.ok()) return result;
  if ((changed & kGroup) != 0 && fields.group_segment > limits.max_shared_per_cta) {
    return too_much(Reason::group_segment);
  }
  if ((changed & kPrivate) != 0 && fields.private_segment > limits.max_local_per_thread) {
    return too_much(Reason::private_segment);
  }
  return {};
}

HsaResult check(const arch::DispatchFields& fields, const arch::KernelObject& object, const arch::SmLimits& limits,
                FieldSet changed) {
  const std::uint64_t threads = std::uint64_t{fields.workgroup[0]} * fields.workgroup[1] * fields.workgroup[2];
  if ((changed & kThreadsRule) != 0 && object.threads_limit != 0 && threads > object.threads_limit) {
    return contradiction(Reason::threads_limit);
  }
  if ((changed & kSharedRule) != 0 && fields.group_segment < object.static_shared) {
    return {HsaStatus::invalid_allocation, Reason::small_group_segment};
  }
  const arch::KernelShape shape = arch::shape_of(fields, object, 0);
  if ((changed & kResourceRule) != 0) {
    if (const HsaResult result = check_resources(shape, limits); !result.ok()) return result;
  }
  return (changed & kClusterRule) != 0 ? check_clusters(shape, arch::items_of(fields).any()) : HsaResult{};
}

HsaResult KernelValidator::validate(const arch::DispatchFields& fields, const arch::KernelObject& object,
                                    std::uint8_t subcontext, arch::KernelShape& shape, FieldSet changed) {
  const HsaResult result = check(fields, object, limits_, changed);
  if (!result.ok()) return result;
  if ((changed & kProgramRule) != 0 && object.program != arch::kNoCode && !codes_.can_launch(object)) {
    return {HsaStatus::invalid_code_object, Reason::object_program};
  }
  shape = arch::shape_of(fields, object, subcontext);
  if ((changed & kPossibleRule) != 0 && !arch::why_impossible(limits_, shape).empty()) {
    return {HsaStatus::out_of_resources, Reason::sm_other};
  }
  if ((changed & kFitRule) == 0) return {};
  if (shape.cluster.any() && !why_never_fits(shape).empty()) {
    return {HsaStatus::out_of_resources, Reason::cluster_room};
  }
  if (shape.cooperative && !why_never_fits(shape).empty()) {
    return {HsaStatus::out_of_resources, Reason::cooperative_room};
  }
  return {};
}

const std::string& KernelValidator::why_never_fits(const arch::KernelShape& shape) {
  constexpr std::size_t kAnswersKept = 16;
  const auto known = std::find_if(answers_.begin(), answers_.end(),
                                  [&shape](const Answer& answer) { return same(answer.shape, shape); });
  if (known != answers_.end()) return known->why;
  if (answers_.size() == kAnswersKept) answers_.pop_back();
  answers_.push_front({shape, fit_.why_never_fits(shape)});
  return answers_.front().why;
}

}  // namespace heddle::packet
