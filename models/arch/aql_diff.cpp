// Condensed packets: kernels as differences from table entries (PKT-06).
#include "arch/aql_packet.h"
#include "arch/byte_codec.h"
#include "common/error.h"

namespace heddle::arch {
namespace {

constexpr std::uint32_t kReferenceBits = 3;
constexpr std::uint32_t kVectorLimit = 1U << kDispatchFields;
constexpr std::size_t kDiffOffset = 2;

// Bits of each field, in the order of a diff vector.
constexpr std::array<std::uint32_t, kDispatchFields> kFieldBits{8, 16, 16, 16, 16, 32, 32, 32, 32, 32, 64, 64, 64};

bool has(const Diff& diff, std::uint32_t field) { return (diff.vector >> field & 1U) != 0; }

std::uint16_t header_of(const Diff& diff) {
  return static_cast<std::uint16_t>(diff.reference | diff.vector << kReferenceBits);
}

// The half-words of a condensed packet, one after the other.
class HalfWords {
 public:
  explicit HalfWords(const PacketBytes& bytes) : bytes_(bytes) {}
  std::uint32_t left() const { return kDiffValues - used_; }
  std::uint16_t next() {
    HEDDLE_CHECK(used_ < kDiffValues, "a half-word beyond the packet");
    return get_16(bytes_, kDiffOffset + 2 * std::size_t{used_++});
  }

 private:
  const PacketBytes& bytes_;
  std::uint32_t used_ = 0;
};

std::uint64_t take_value(HalfWords& from, std::uint32_t half_words) {
  std::uint64_t value = 0;
  for (std::uint32_t i = 0; i < half_words; ++i) value |= std::uint64_t{from.next()} << (16 * i);
  return value;
}

HsaResult take_diff(HalfWords& from, Diff& diff) {
  constexpr HsaResult kPastEnd = bad_format(Reason::diff_past_end);
  if (from.left() == 0) return kPastEnd;
  const std::uint16_t header = from.next();
  diff = {};
  diff.reference = static_cast<std::uint8_t>(header & (kReferenceEntries - 1));
  diff.vector = static_cast<std::uint16_t>(header >> kReferenceBits);
  if (half_words_of(diff) - 1 > from.left()) return kPastEnd;
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
    if (!has(diff, field)) continue;
    const std::uint64_t value = take_value(from, half_words_of(field));
    if (kFieldBits[field] < 64 && value >> kFieldBits[field] != 0) {
      return bad_format(Reason::wide_value);
    }
    set_field(diff.values, field, value);
  }
  return {};
}

}  // namespace

bool DispatchFields::operator==(const DispatchFields& o) const {
  return synch_scopes == o.synch_scopes && setup == o.setup && workgroup == o.workgroup && grid == o.grid &&
         private_segment == o.private_segment && group_segment == o.group_segment && kernel_object == o.kernel_object &&
         kernarg == o.kernarg && completion_signal == o.completion_signal;
}

std::uint32_t half_words_of(std::uint32_t field) {
  HEDDLE_CHECK(field < kDispatchFields, "a dispatch has thirteen fields");
  return (kFieldBits[field] + 15) / 16;
}

std::uint64_t field_of(const DispatchFields& fields, std::uint32_t field) {
  switch (field) {
    case 0:
      return fields.synch_scopes;
    case 1:
      return fields.setup;
    case 2:
    case 3:
    case 4:
      return fields.workgroup[field - 2];
    case 5:
    case 6:
    case 7:
      return fields.grid[field - 5];
    case 8:
      return fields.private_segment;
    case 9:
      return fields.group_segment;
    case 10:
      return fields.kernel_object;
    case 11:
      return fields.kernarg;
    default:
      HEDDLE_CHECK(field == 12, "a dispatch has thirteen fields");
      return fields.completion_signal;
  }
}

void set_field(DispatchFields& fields, std::uint32_t field, std::uint64_t value) {
  switch (field) {
    case 0:
      fields.synch_scopes = static_cast<std::uint8_t>(value);
      break;
    case 1:
      fields.setup = static_cast<std::uint16_t>(value);
      break;
    case 2:
    case 3:
    case 4:
      fields.workgroup[field - 2] = static_cast<std::uint16_t>(value);
      break;
    case 5:
    case 6:
    case 7:
      fields.grid[field - 5] = static_cast<std::uint32_t>(value);
      break;
    case 8:
      fields.private_segment = static_cast<std::uint32_t>(value);
      break;
    case 9:
      fields.group_segment = static_cast<std::uint32_t>(value);
      break;
    case 10:
      fields.kernel_object = value;
      break;
    case 11:
      fields.kernarg = value;
      break;
    default:
      HEDDLE_CHECK(field == 12, "a dispatch has thirteen fields");
      fields.completion_signal = value;
  }
}

std::uint32_t half_words_of(const Diff& diff) {
  std::uint32_t count = 1;
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
    if (has(diff, field)) count += half_words_of(field);
  }
  return count;
}

void apply(const Diff& diff, DispatchFields& fields) {
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
    if (has(diff, field)) set_field(fields, field, field_of(diff.values, field));
  }
}

bool append(CondensedPacket& packet, std::uint32_t& used, const Diff& diff) {
  HEDDLE_CHECK(diff.reference < kReferenceEntries && diff.vector < kVectorLimit, "a diff that no packet can say");
  if (used + half_words_of(diff) > kDiffValues || packet.kernels == 255) return false;
  packet.diff[used++] = header_of(diff);
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
    if (!has(diff, field)) continue;
    const std::uint64_t value = field_of(diff.values, field);
    for (std::uint32_t i = 0; i < half_words_of(field); ++i) {
      packet.diff[used++] = static_cast<std::uint16_t>(value >> (16 * i));
    }
  }
  ++packet.kernels;
  return true;
}

PacketBytes encode(const CondensedPacket& packet) {
  PacketBytes bytes{};
  bytes[0] = static_cast<std::uint8_t>(PacketType::condensed_dispatch);
  bytes[1] = packet.kernels;
  for (std::size_t i = 0; i < kDiffValues; ++i) put_number(bytes, kDiffOffset + 2 * i, 2, packet.diff[i]);
  return bytes;
}

HsaResult decode(const PacketBytes& bytes, std::array<Diff, kDiffValues>& diffs, std::uint32_t& kernels) {
  kernels = 0;
  if (type_of(bytes) != PacketType::condensed_dispatch) return bad_format(Reason::other_type);
  const std::uint32_t count = bytes[1];
  if (count == 0) return bad_format(Reason::no_kernels);
  HalfWords from(bytes);
  for (; kernels < count; ++kernels) {
    if (kernels == kDiffValues) return bad_format(Reason::many_kernels);
    if (const HsaResult result = take_diff(from, diffs[kernels]); !result.ok()) return result;
  }
  while (from.left() > 0) {
    if (from.next() != 0) return bad_format(Reason::rest_not_zero);
  }
  return {};
}

}  // namespace heddle::arch
