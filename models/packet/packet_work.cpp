#include "packet/packet_work.h"

#include <algorithm>
#include <cmath>

#include "packet/packet_check.h"
#include "packet/reference_table.h"

namespace heddle::packet {
namespace {

constexpr std::uint32_t kArgumentsField = 11;

std::uint64_t times(std::uint64_t amount, std::uint64_t rate) { return (amount + rate - 1) / rate; }

}  // namespace

PacketWork work_of_packet() { return {arch::kPacketBytes, 0, 0}; }
PacketWork work_of_object() { return {arch::kKernelObjectBytes, 0, 0}; }
PacketWork work_of_entry() { return {kEntryBytes, 0, checks_of_fields(kAllFields) + checks_with_object(kAllFields)}; }
PacketWork work_of_code(std::uint64_t bytes) { return {bytes, 0, 0}; }
PacketWork work_of_half_words(std::uint64_t count) { return {0, count, 0}; }
PacketWork work_of_checks(std::uint64_t rules) { return {0, 0, rules}; }

PacketWork work_of_other(arch::PacketType type) {
  constexpr std::uint32_t kCommon = 3;  // scopes, reserved fields, completion signal
  PacketWork work = work_of_packet();
  work.checks = kCommon;
  if (type == arch::PacketType::barrier_and || type == arch::PacketType::barrier_or)
    work.checks += arch::kBarrierSignals;
  if (type == arch::PacketType::vendor) work.checks += 3;
  return work;
}

PacketWork work_of_dispatch() { return {kDispatchBytes, 0, 0}; }
PacketWork work_of_clean_up(bool signal) { return {kCleanUpBytes + (signal ? kSignalBytes : 0U), 0, 0}; }

WorkRates::WorkRates(const PacketParams& params, double cycle_ns)
    : bytes_(params.step_bytes),
      half_words_(params.step_half_words),
      checks_(params.step_checks),
      step_ns_(params.circuit == Circuit::packet
                   ? params.step
                   : static_cast<double>(std::uint64_t{params.program_instructions} * params.program_issue) *
                         cycle_ns) {}

std::uint64_t WorkRates::steps(const PacketWork& work) const {
  return times(work.bytes, bytes_) + times(work.half_words, half_words_) + times(work.checks, checks_);
}

Cycle PacketCircuit::spend(Cycle now, const PacketWork& work) {
  const auto cycles = static_cast<Cycle>(std::llround(rates_.ns(work) / cycle_ns_));
  if (!alone_) return cycles;
  free_ = std::max(now, free_) + cycles;
  return free_ - now;
}

DecodeCosts decode_costs(const PacketParams& params, double cycle_ns, double memory_ns) {
  const WorkRates rates(params, cycle_ns);
  const bool on_chip = params.table == TablePlace::scratch;
  const auto access = [&](std::uint64_t bits) {
    if (!on_chip) return memory_ns;
    return static_cast<double>(times(bits, params.table_bits) + params.table_latency) * cycle_ns;
  };
  DecodeCosts costs;
  PacketWork whole = work_of_packet();
  whole += work_of_checks(checks_of_fields(kAllFields));
  costs.plain = rates.ns(whole);
  whole = work_of_object();
  whole += work_of_checks(checks_with_object(kAllFields));
  costs.plain += rates.ns(whole);
  costs.reference = costs.plain + access(kEntryBits);
  costs.condensed = rates.ns(work_of_packet()) + access(0);
  PacketWork diff =
      work_of_half_words(params.diff_format().header_half_words() + arch::half_words_of(params.diff, kArgumentsField));
  diff += work_of_checks(checks_of_fields(FieldSet{1} << kArgumentsField));
  if (!on_chip) diff += work_of_entry();
  costs.diff = rates.ns(diff) + access(kEntryBits) - access(0);
  return costs;
}

}  // namespace heddle::packet
