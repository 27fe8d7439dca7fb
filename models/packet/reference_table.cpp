#include "packet/reference_table.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::packet {
namespace {

using arch::HsaResult;
using arch::HsaStatus;

constexpr std::uint32_t kScopesField = 0;
constexpr std::uint32_t kSignalField = 12;

struct Diffs {
  std::array<arch::Diff, arch::kDiffValues> items;
  std::uint32_t count = 0;
};

// What the packet asks of one of its kernels (PKT-06): barrier and acquire of the first and release and signal of the
// last are the packet's; another's release and signal count only if its diff has them. An acquire is dispatch
// information, which each kernel has: the stored one of a later kernel lets it see what those before it have written,
// and reaches no further than that; one that its diff sets, as far as that says.
HsaResult expand_one(const arch::Diff& diff, const ReferenceTable& table, bool first, bool last,
                     CondensedKernel& kernel) {
  if (!table.valid(diff.reference)) return {HsaStatus::invalid_argument, arch::Reason::empty_entry};
  const auto has = [&diff](std::uint32_t field) { return (diff.vector >> field & 1U) != 0; };
  kernel = {};
  kernel.fields = table.at(diff.reference);
  arch::apply(diff, kernel.fields);
  arch::SynchScopes scopes;
  if (const HsaResult result = arch::decode(scopes, kernel.fields.synch_scopes); !result.ok()) return result;
  kernel.barrier = scopes.barrier;
  kernel.acquire = first || has(kScopesField) ? scopes.acquire : std::min(scopes.acquire, arch::FenceScope::agent);
  if (last || has(kScopesField)) kernel.release = scopes.release;
  if (last || has(kSignalField)) kernel.signal = kernel.fields.completion_signal;
  kernel.reference = diff.reference;
  kernel.half_words = arch::half_words_of(diff);
  return {};
}

}  // namespace

void ReferenceTable::store(std::uint32_t entry, const arch::DispatchFields& fields) {
  HEDDLE_CHECK(entry < arch::kReferenceEntries, "a reference state table has 8 entries");
  entries_[entry] = fields;
  valid_[entry] = true;
}

const arch::DispatchFields& ReferenceTable::at(std::uint32_t entry) const {
  HEDDLE_CHECK(valid(entry), "the table entry is empty");
  return entries_[entry];
}

void ReferenceTable::clear() {
  entries_ = {};
  valid_ = {};
}

// A condensed packet has the bit of its first kernel (PKT-06). Barrier bits of table entries are known on the chip
// wherever the tables lie.
bool ReferenceTables::barrier_bit(std::uint32_t queue, const arch::PacketBytes& bytes) const {
  if (arch::type_of(bytes) != arch::PacketType::condensed_dispatch) return (bytes[1] & 1) != 0;
  const std::uint32_t kernels = bytes[1];
  const std::uint32_t entry = bytes[2] & 7U;
  const bool changed = (bytes[2] & 8U) != 0;  // bit 0 of the vector: the scopes follow
  if (kernels == 0) return false;
  if (changed) return (bytes[4] & 1) != 0;
  const ReferenceTable& table = of(queue);
  return table.valid(entry) && (table.at(entry).synch_scopes & 1) != 0;
}

arch::PacketBytes encode_entry(std::uint32_t entry, const arch::DispatchFields& fields) {
  HEDDLE_CHECK(entry < arch::kReferenceEntries, "a reference state table has 8 entries");
  return arch::encode({fields, static_cast<std::uint16_t>(entry), 0}, arch::PacketType::reference_dispatch);
}

HsaResult decode_entry(const arch::PacketBytes& bytes, std::uint32_t entry, arch::DispatchFields& fields) {
  constexpr HsaResult kNoEntry{HsaStatus::invalid_argument, arch::Reason::changed_entry};
  arch::KernelDispatch packet;
  if (arch::type_of(bytes) != arch::PacketType::reference_dispatch || !arch::decode(bytes, packet).ok())
    return kNoEntry;
  if (packet.reserved0 != entry) return kNoEntry;
  fields = packet.fields;
  return {};
}

HsaResult entries_needed(const arch::PacketBytes& bytes, std::uint8_t& entries) {
  Diffs diffs;
  entries = 0;
  const HsaResult result = arch::decode(bytes, diffs.items, diffs.count);
  if (!result.ok()) return result;
  for (std::uint32_t i = 0; i < diffs.count; ++i) {
    entries = static_cast<std::uint8_t>(entries | 1U << diffs.items[i].reference);
  }
  return result;
}

std::uint32_t first_bad_diff(const arch::PacketBytes& bytes) {
  Diffs diffs;
  if (arch::decode(bytes, diffs.items, diffs.count).ok()) return 0;
  return diffs.count > 0 && diffs.count == bytes[1] ? diffs.count - 1 : diffs.count;
}

std::uint32_t first_kernel_of(const arch::PacketBytes& bytes, std::uint8_t entries) {
  Diffs diffs;
  if (!arch::decode(bytes, diffs.items, diffs.count).ok()) return 0;
  std::uint32_t kernel = 0;
  while (kernel + 1 < diffs.count && (entries >> diffs.items[kernel].reference & 1U) == 0) ++kernel;
  return kernel;
}

HsaResult expand(const arch::PacketBytes& bytes, const ReferenceTable& table, CondensedKernels& kernels,
                 std::uint32_t& bad) {
  Diffs diffs;
  kernels.count = 0;
  const HsaResult result = arch::decode(bytes, diffs.items, diffs.count);
  bad = result.ok() ? 0 : first_bad_diff(bytes);
  if (!result.ok()) return result;
  for (; bad < diffs.count; ++bad) {
    const bool last = bad + 1 == diffs.count;
    const HsaResult of_kernel = expand_one(diffs.items[bad], table, bad == 0, last, kernels.kernels[bad]);
    if (!of_kernel.ok()) return of_kernel;
  }
  kernels.count = diffs.count;
  bad = 0;
  return {};
}

}  // namespace heddle::packet
