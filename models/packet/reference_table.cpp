#include "packet/reference_table.h"

#include <algorithm>

#include "arch/byte_codec.h"
#include "common/error.h"

namespace heddle::packet {
namespace {

using arch::DiffOf;
using arch::HsaResult;
using arch::HsaStatus;
using arch::StoredField;
using arch::WrittenDiff;

constexpr std::uint32_t kScopesField = 0;
constexpr std::uint32_t kBlockField = 2;  // x; y and z follow
constexpr std::uint32_t kGridField = 5;
constexpr std::uint32_t kPrivateField = 8;
constexpr std::uint32_t kGroupField = 9;
constexpr std::uint32_t kKernargField = 11;
constexpr std::uint32_t kSignalField = 12;

constexpr std::size_t kAtMark = 0;
constexpr std::size_t kAtNumber = 4;
constexpr std::size_t kAtScopes = 6;
constexpr std::size_t kAtSetup = 8;
constexpr std::size_t kAtWorkgroup = 10;
constexpr std::size_t kAtGrid = 16;
constexpr std::size_t kAtPrivate = 28;
constexpr std::size_t kAtGroup = 32;
constexpr std::size_t kAtProgram = 36;
constexpr std::size_t kAtWorkgroups = 40;
constexpr std::size_t kAtPartial = 52;
constexpr std::size_t kAtKernarg = 56;
constexpr std::size_t kAtSignal = 64;
constexpr std::size_t kAtObject = 72;
constexpr std::size_t kAtContents = 128;
constexpr std::uint32_t kEntryMark = 0x45524448;  // "HDRE"
static_assert(kAtContents + arch::kKernelObjectBytes == kEntryBytes);

constexpr HsaResult kEmpty{HsaStatus::invalid_argument, arch::Reason::empty_entry};

constexpr FieldSet bit(std::uint32_t number) { return 1U << number; }

constexpr std::uint32_t index_of(StoredField field) { return static_cast<std::uint32_t>(field); }

arch::DispatchFields fields_of(const EntryBytes& bytes) {
  arch::DispatchFields fields;
  fields.synch_scopes = bytes[kAtScopes];
  fields.setup = arch::get_16(bytes, kAtSetup);
  for (std::size_t i = 0; i < 3; ++i) fields.workgroup[i] = arch::get_16(bytes, kAtWorkgroup + 2 * i);
  for (std::size_t i = 0; i < 3; ++i) fields.grid[i] = arch::get_32(bytes, kAtGrid + 4 * i);
  fields.private_segment = arch::get_32(bytes, kAtPrivate);
  fields.group_segment = arch::get_32(bytes, kAtGroup);
  fields.kernel_object = arch::get_64(bytes, kAtObject);
  fields.kernarg = arch::get_64(bytes, kAtKernarg);
  fields.completion_signal = arch::get_64(bytes, kAtSignal);
  return fields;
}

void apply_to_packet(const WrittenDiff& diff, CondensedKernel& kernel) {
  for (std::uint32_t field = 0; field < arch::kDispatchFields; ++field) {
    if (diff.has(field)) arch::set_field(kernel.kernel.fields, field, diff.values[field]);
  }
  kernel.changed = diff.vector;
  kernel.reads_object = (diff.vector & kObjectField) != 0;
}

// Block and grid of a diff of stored information: workgroups, all of them whole.
HsaResult apply_sizes(const WrittenDiff& diff, CondensedKernel& kernel) {
  arch::DispatchFields& fields = kernel.kernel.fields;
  const arch::Dim3& grid = kernel.kernel.shape.grid;
  const std::array<std::uint32_t, 3> workgroups{grid.x, grid.y, grid.z};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::uint32_t block_field = index_of(StoredField::block_x) + i;
    const std::uint32_t grid_field = index_of(StoredField::grid_x) + i;
    if (diff.has(block_field)) {
      fields.workgroup[i] = static_cast<std::uint16_t>(diff.values[block_field]);
      kernel.changed |= bit(kBlockField + i);
    }
    const std::uint64_t count = diff.has(grid_field) ? diff.values[grid_field] : workgroups[i];
    const std::uint64_t items = count * fields.workgroup[i];
    if (items > 0xFFFF'FFFF) return {HsaStatus::invalid_argument, arch::Reason::grid_items};
    if (items != fields.grid[i]) kernel.changed |= bit(kGridField + i);
    fields.grid[i] = static_cast<std::uint32_t>(items);
  }
  fields.setup = 3;  // sizes of 1 take the place of dimensions that are not used
  return {};
}

HsaResult apply_to_stored(const WrittenDiff& diff, CondensedKernel& kernel) {
  constexpr std::uint32_t kSizes = 0x7E;
  arch::DispatchFields& fields = kernel.kernel.fields;
  arch::KernelObject& object = kernel.kernel.object;
  if (diff.has(index_of(StoredField::scopes))) {
    fields.synch_scopes = static_cast<std::uint8_t>(diff.values[index_of(StoredField::scopes)]);
    kernel.changed |= bit(kScopesField);
  }
  if ((diff.vector & kSizes) != 0) {
    if (const HsaResult result = apply_sizes(diff, kernel); !result.ok()) return result;
  }
  if (diff.has(index_of(StoredField::registers))) {
    object.registers_per_thread = static_cast<std::uint32_t>(diff.values[index_of(StoredField::registers)]);
    kernel.changed |= kRegisters;
  }
  if (diff.has(index_of(StoredField::shared))) {
    object.static_shared = 0;  // whatever was: this is all of it
    fields.group_segment = static_cast<std::uint32_t>(diff.values[index_of(StoredField::shared)]);
    kernel.changed |= bit(kGroupField);
  }
  if (diff.has(index_of(StoredField::local))) {
    fields.private_segment = static_cast<std::uint32_t>(diff.values[index_of(StoredField::local)]);
    kernel.changed |= bit(kPrivateField);
  }
  if (diff.has(index_of(StoredField::program))) {
    const auto program = static_cast<std::uint32_t>(diff.values[index_of(StoredField::program)]);
    // Without a program its CTAs would need a duration, and what the object says of that was never checked.
    if (program == arch::kNoCode && object.program != arch::kNoCode) {
      return {HsaStatus::invalid_code_object, arch::Reason::object_program};
    }
    object.program = program;
    object.code = {};
    kernel.changed |= kProgram;
  }
  if (diff.has(index_of(StoredField::kernarg))) {
    fields.kernarg = diff.values[index_of(StoredField::kernarg)];
    kernel.changed |= bit(kKernargField);
  }
  if (diff.has(index_of(StoredField::signal))) {
    fields.completion_signal = diff.values[index_of(StoredField::signal)];
    kernel.changed |= bit(kSignalField);
  }
  return {};
}

// What the packet asks of one of its kernels (PKT-06, PKT-07): barrier and acquire of the first and release and signal
// of the last are the packet's; another's release and signal count only if its diff has them. An acquire is dispatch
// information, which each kernel has: the stored one of a later kernel lets it see what those before it have written,
// and reaches no further than that; one that its diff sets, as far as that says.
HsaResult expand_one(const WrittenDiff& diff, DiffOf of, const ReferenceTable& table, bool first, bool last,
                     CondensedKernel& kernel) {
  static_assert(index_of(StoredField::scopes) == kScopesField && index_of(StoredField::signal) == kSignalField);
  if (!table.valid(diff.reference)) return kEmpty;
  kernel.kernel = table.at(diff.reference);
  if (of == DiffOf::packet) {
    apply_to_packet(diff, kernel);
  } else if (const HsaResult result = apply_to_stored(diff, kernel); !result.ok()) {
    return result;
  }
  const arch::DispatchFields& fields = kernel.kernel.fields;
  arch::SynchScopes scopes;
  if (const HsaResult result = arch::decode(scopes, fields.synch_scopes); !result.ok()) return result;
  kernel.barrier = scopes.barrier;
  const bool own_scopes = diff.has(kScopesField);
  kernel.acquire = first || own_scopes ? scopes.acquire : std::min(scopes.acquire, arch::FenceScope::agent);
  if (last || own_scopes) kernel.release = scopes.release;
  if (last || diff.has(kSignalField)) kernel.signal = fields.completion_signal;
  return {};
}

}  // namespace

void ReferenceTable::store(std::uint32_t entry, const StoredKernel& kernel) {
  HEDDLE_CHECK(entry < size(), "an entry beyond the reference state table");
  entries_[entry] = kernel;
}

const StoredKernel& ReferenceTable::at(std::uint32_t entry) const {
  HEDDLE_CHECK(valid(entry), "the table entry is empty");
  return *entries_[entry];
}

EntryBytes encode_entry(std::uint32_t entry, const StoredKernel& kernel) {
  const arch::DispatchFields& fields = kernel.fields;
  EntryBytes bytes{};
  arch::put_number(bytes, kAtMark, 4, kEntryMark);
  arch::put_number(bytes, kAtNumber, 2, entry);
  bytes[kAtScopes] = fields.synch_scopes;
  arch::put_number(bytes, kAtSetup, 2, fields.setup);
  for (std::size_t i = 0; i < 3; ++i) arch::put_number(bytes, kAtWorkgroup + 2 * i, 2, fields.workgroup[i]);
  for (std::size_t i = 0; i < 3; ++i) arch::put_number(bytes, kAtGrid + 4 * i, 4, fields.grid[i]);
  arch::put_number(bytes, kAtPrivate, 4, fields.private_segment);
  arch::put_number(bytes, kAtGroup, 4, fields.group_segment);
  if (kernel.object.code.any()) arch::put_number(bytes, kAtProgram, 4, kernel.object.program);
  arch::put_number(bytes, kAtWorkgroups, 4, kernel.shape.grid.x);
  arch::put_number(bytes, kAtWorkgroups + 4, 4, kernel.shape.grid.y);
  arch::put_number(bytes, kAtWorkgroups + 8, 4, kernel.shape.grid.z);
  arch::put_number(bytes, kAtPartial, 4, kernel.items.any() ? 1 : 0);
  arch::put_number(bytes, kAtKernarg, 8, fields.kernarg);
  arch::put_number(bytes, kAtSignal, 8, fields.completion_signal);
  arch::put_number(bytes, kAtObject, 8, fields.kernel_object);
  const arch::KernelObjectBytes contents = arch::encode(kernel.object);
  std::copy(contents.begin(), contents.end(), bytes.begin() + kAtContents);
  return bytes;
}

HsaResult decode_entry(const EntryBytes& bytes, std::uint32_t entry, KernelValidator& validator, StoredKernel& kernel) {
  constexpr HsaResult kNoEntry{HsaStatus::invalid_argument, arch::Reason::changed_entry};
  if (arch::get_32(bytes, kAtMark) == 0) return kEmpty;
  StoredKernel found;
  found.fields = fields_of(bytes);
  arch::KernelObjectBytes contents;
  std::copy_n(bytes.begin() + kAtContents, contents.size(), contents.begin());
  if (!arch::decode(contents, found.object).ok() || !validator.validate(found.fields).ok()) return kNoEntry;
  if (found.object.code.any()) {
    found.object.program = arch::get_32(bytes, kAtProgram);
    if (found.object.program == arch::kNoCode) return kNoEntry;
  }
  if (!validator.validate(found.fields, found.object, 0, found.shape).ok()) {
    return kNoEntry;
  }
  found.items = arch::items_of(found.fields);
  if (encode_entry(entry, found) != bytes) return kNoEntry;
  kernel = found;
  return {};
}

std::uint8_t scopes_of_entry(const EntryBytes& bytes) {
  return arch::get_32(bytes, kAtMark) == 0 ? std::uint8_t{0} : bytes[kAtScopes];
}

std::uint32_t CondensedDiffs::first_with(std::uint32_t entry) const {
  std::uint32_t kernel = 0;
  while (kernel + 1 < count && items[kernel].reference != entry) ++kernel;
  return kernel;
}

CondensedDiffs read_diffs(const arch::PacketBytes& bytes, const arch::DiffFormat& format, std::uint32_t entries) {
  CondensedDiffs diffs;
  std::uint32_t count = 0;
  diffs.result = arch::decode(bytes, format, diffs.items, count);
  if (!diffs.result.ok()) {
    diffs.bad = count > 0 && count == bytes[1] ? count - 1 : count;
    return diffs;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    diffs.half_words += diffs.items[i].half_words;
    if (diffs.items[i].reference < entries) {
      diffs.entries |= bit(diffs.items[i].reference);
    } else if (diffs.result.ok()) {
      diffs.result = {HsaStatus::invalid_argument, arch::Reason::diff_entry};
      diffs.bad = i;
    }
  }
  diffs.count = diffs.result.ok() ? count : 0;
  return diffs;
}

// A condensed packet has the bit of its first kernel (PKT-06).
BarrierBit barrier_bit(const arch::PacketBytes& bytes, const arch::DiffFormat& format, std::uint32_t entries) {
  if (arch::type_of(bytes) != arch::PacketType::condensed_dispatch) return {(bytes[1] & 1) != 0, {}};
  WrittenDiff first;
  if (!arch::decode_first(bytes, format, first).ok() || first.reference >= entries) return {};
  if (first.has(kScopesField)) return {(first.values[kScopesField] & 1) != 0, {}};
  return {false, first.reference};
}

CondensedKernels expand(const CondensedDiffs& diffs, DiffOf of, const ReferenceTable& table) {
  CondensedKernels expanded;
  expanded.result = diffs.result;
  expanded.bad = diffs.bad;
  if (!diffs.result.ok()) return expanded;
  expanded.kernels.resize(diffs.count);
  for (std::uint32_t i = 0; i < diffs.count && expanded.result.ok(); ++i) {
    const bool last = i + 1 == diffs.count;
    expanded.result = expand_one(diffs.items[i], of, table, i == 0, last, expanded.kernels[i]);
    if (!expanded.result.ok()) expanded.bad = i;
  }
  if (!expanded.result.ok()) expanded.kernels.clear();
  return expanded;
}

}  // namespace heddle::packet
