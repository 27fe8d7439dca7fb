#include "arch/aql_diff.h"

#include "arch/byte_codec.h"
#include "common/error.h"

namespace heddle::arch {
namespace {

constexpr DiffFormat kTextFormat{};  // of the text: 3 and 13 bits, of packets
constexpr std::size_t kDiffOffset = 2;

// Bits of each field, in the order of a diff vector.
using FieldBits = std::array<std::uint32_t, kDispatchFields>;
constexpr FieldBits kFieldBits{8, 16, 16, 16, 16, 32, 32, 32, 32, 32, 64, 64, 64};
constexpr FieldBits kStoredBits{8, 16, 16, 16, 32, 16, 16, 16, 32, 32, 32, 64, 64};

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

bool holds(DiffOf of, std::uint32_t field, std::uint64_t value) {
  const std::uint32_t bits = bits_of_field(of, field);
  return bits == 64 || value >> bits == 0;
}

std::uint64_t take_value(HalfWords& from, std::uint32_t half_words) {
  std::uint64_t value = 0;
  for (std::uint32_t i = 0; i < half_words; ++i) value |= std::uint64_t{from.next()} << (16 * i);
  return value;
}

HsaResult take_header(HalfWords& from, const DiffFormat& format, WrittenDiff& diff) {
  const std::uint64_t header = take_value(from, format.header_half_words());
  diff = {};
  diff.reference = static_cast<std::uint32_t>(header & ((1U << format.reference_bits) - 1));
  const std::uint64_t vector = header >> format.reference_bits;
  if (vector >> format.vector_bits != 0) return bad_format(Reason::diff_header);
  if (vector >> kDispatchFields != 0) return bad_format(Reason::diff_fields);
  diff.vector = static_cast<std::uint32_t>(vector);
  diff.half_words = format.header_half_words();
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
    if (diff.has(field)) diff.half_words += half_words_of(format.of, field);
  }
  return {};
}

HsaResult take_diff(HalfWords& from, const DiffFormat& format, WrittenDiff& diff) {
  constexpr HsaResult kPastEnd = bad_format(Reason::diff_past_end);
  if (from.left() < format.header_half_words()) return kPastEnd;
  if (const HsaResult result = take_header(from, format, diff); !result.ok()) return result;
  if (diff.half_words - format.header_half_words() > from.left()) return kPastEnd;
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
    if (!diff.has(field)) continue;
    diff.values[field] = take_value(from, half_words_of(format.of, field));
    if (!holds(format.of, field, diff.values[field])) return bad_format(Reason::wide_value);
  }
  return {};
}

}  // namespace

bool DispatchFields::operator==(const DispatchFields& o) const {
  return synch_scopes == o.synch_scopes && setup == o.setup && workgroup == o.workgroup && grid == o.grid &&
         private_segment == o.private_segment && group_segment == o.group_segment && kernel_object == o.kernel_object &&
         kernarg == o.kernarg && completion_signal == o.completion_signal;
}

std::uint32_t bits_of_field(DiffOf of, std::uint32_t field) {
  HEDDLE_CHECK(field < kDispatchFields, "a dispatch has thirteen fields");
  return (of == DiffOf::packet ? kFieldBits : kStoredBits)[field];
}

std::uint32_t half_words_of(DiffOf of, std::uint32_t field) { return (bits_of_field(of, field) + 15) / 16; }

std::uint32_t half_words_of(std::uint32_t field) { return half_words_of(DiffOf::packet, field); }

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
  std::uint32_t count = kTextFormat.header_half_words();
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
    if ((diff.vector >> field & 1U) != 0) count += half_words_of(field);
  }
  return count;
}

void apply(const Diff& diff, DispatchFields& fields) {
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
    if ((diff.vector >> field & 1U) != 0) set_field(fields, field, field_of(diff.values, field));
  }
}

bool append(CondensedPacket& packet, std::uint32_t& used, const DiffFormat& format, const WrittenDiff& diff) {
  HEDDLE_CHECK(diff.reference >> format.reference_bits == 0 && diff.vector >> format.vector_bits == 0 &&
                   diff.vector >> kDispatchFields == 0,
               "a diff that no packet can say");
  std::uint32_t needed = format.header_half_words();
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
    if (!diff.has(field)) continue;
    HEDDLE_CHECK(holds(format.of, field, diff.values[field]), "a value that its field is too narrow for");
    needed += half_words_of(format.of, field);
  }
  if (used + needed > kDiffValues || packet.kernels == 255) return false;
  const auto put = [&](std::uint64_t value, std::uint32_t half_words) {
    for (std::uint32_t i = 0; i < half_words; ++i) packet.diff[used++] = static_cast<std::uint16_t>(value >> (16 * i));
  };
  put(diff.reference | std::uint64_t{diff.vector} << format.reference_bits, format.header_half_words());
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
    if (diff.has(field)) put(diff.values[field], half_words_of(format.of, field));
  }
  ++packet.kernels;
  return true;
}

bool append(CondensedPacket& packet, std::uint32_t& used, const Diff& diff) {
  WrittenDiff written;
  written.reference = diff.reference;
  written.vector = diff.vector;
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) written.values[field] = field_of(diff.values, field);
  return append(packet, used, kTextFormat, written);
}

PacketBytes encode(const CondensedPacket& packet) {
  PacketBytes bytes{};
  bytes[0] = static_cast<std::uint8_t>(PacketType::condensed_dispatch);
  bytes[1] = packet.kernels;
  for (std::size_t i = 0; i < kDiffValues; ++i) put_number(bytes, kDiffOffset + 2 * i, 2, packet.diff[i]);
  return bytes;
}

HsaResult decode(const PacketBytes& bytes, const DiffFormat& format, WrittenDiffs& diffs, std::uint32_t& kernels) {
  kernels = 0;
  if (type_of(bytes) != PacketType::condensed_dispatch) return bad_format(Reason::other_type);
  const std::uint32_t count = bytes[1];
  if (count == 0) return bad_format(Reason::no_kernels);
  HalfWords from(bytes);
  for (; kernels < count; ++kernels) {
    if (kernels == kDiffValues) return bad_format(Reason::many_kernels);
    if (const HsaResult result = take_diff(from, format, diffs[kernels]); !result.ok()) return result;
  }
  while (from.left() > 0) {
    if (from.next() != 0) return bad_format(Reason::rest_not_zero);
  }
  return {};
}

HsaResult decode_first(const PacketBytes& bytes, const DiffFormat& format, WrittenDiff& diff) {
  if (type_of(bytes) != PacketType::condensed_dispatch) return bad_format(Reason::other_type);
  if (bytes[1] == 0) return bad_format(Reason::no_kernels);
  HalfWords from(bytes);
  return take_diff(from, format, diff);
}

HsaResult decode(const PacketBytes& bytes, std::array<Diff, kDiffValues>& diffs, std::uint32_t& kernels) {
  WrittenDiffs written;
  const HsaResult result = decode(bytes, kTextFormat, written, kernels);
  if (!result.ok()) return result;
  for (std::uint32_t i = 0; i < kernels; ++i) {
    diffs[i] = {static_cast<std::uint8_t>(written[i].reference), static_cast<std::uint16_t>(written[i].vector), {}};
    for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
      if (written[i].has(field)) set_field(diffs[i].values, field, written[i].values[field]);
    }
  }
  return {};
}

}  // namespace heddle::arch
