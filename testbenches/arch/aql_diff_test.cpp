// Diffs of condensed packets: fields, half-words, limits.
#include "arch/aql_diff.h"

#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "packet/packet_oracle.h"
#include "support/random.h"

namespace arch_aql_diff_test {

using namespace heddle::arch;
namespace oracle = heddle::oracle;
using heddle::CheckFailed;

namespace {

struct Decoded {
  HsaResult verdict;
  std::array<Diff, kDiffValues> diffs;
  std::uint32_t kernels = 0;
};
Decoded decoded(const PacketBytes& bytes) {
  Decoded result;
  result.verdict = decode(bytes, result.diffs, result.kernels);
  return result;
}
bool bad_format(const PacketBytes& bytes) { return decoded(bytes).verdict.status == HsaStatus::invalid_packet_format; }

// A packet of half-words as they are.
PacketBytes packet_of(unsigned kernels, const std::vector<unsigned>& half_words) {
  PacketBytes bytes{7, static_cast<std::uint8_t>(kernels)};
  for (std::size_t i = 0; i < half_words.size(); ++i) oracle::set_number(bytes, 2 + 2 * i, 2, half_words[i]);
  return bytes;
}

DispatchFields all_fields() {
  return {0x11,
          0x2221,
          {0x3332, 0x4443, 0x5554},
          {0x66666665, 0x77777776, 0x88888887},
          0x99999998,
          0xAAAAAAA9,
          0xBBBBBBBBBBBBBBBA,
          0xCCCCCCCCCCCCCCCB,
          0xDDDDDDDDDDDDDDDC};
}

}  // namespace

TEST_CASE("thirteen fields by their number", "[packet][PKT-06]") {
  const DispatchFields fields = all_fields();
  const std::vector<std::uint64_t> values{0x11,
                                          0x2221,
                                          0x3332,
                                          0x4443,
                                          0x5554,
                                          0x66666665,
                                          0x77777776,
                                          0x88888887,
                                          0x99999998,
                                          0xAAAAAAA9,
                                          0xBBBBBBBBBBBBBBBA,
                                          0xCCCCCCCCCCCCCCCB,
                                          0xDDDDDDDDDDDDDDDC};
  const std::vector<std::uint32_t> sizes{1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 4, 4, 4};
  DispatchFields copy;
  for (std::uint32_t i = 0; i < kDispatchFields; ++i) {
    CHECK(field_of(fields, i) == values[i]);
    CHECK(half_words_of(i) == sizes[i]);
    DispatchFields one;
    set_field(one, i, values[i]);
    for (std::uint32_t j = 0; j < kDispatchFields; ++j) CHECK(field_of(one, j) == (i == j ? values[i] : 0));
    CHECK_FALSE(copy == fields);
    set_field(copy, i, values[i]);
  }
  CHECK(copy == fields);
  CHECK_THROWS_AS(half_words_of(13U), CheckFailed);
  CHECK_THROWS_AS(field_of(fields, 13), CheckFailed);
  CHECK_THROWS_AS(set_field(copy, 13, 0), CheckFailed);
}

TEST_CASE("a diff is its header, then new values in ascending order, low half-word first", "[packet][PKT-06]") {
  Diff diff;
  diff.reference = 5;
  diff.vector = 0x1FFF;
  diff.values = all_fields();
  CondensedPacket packet;
  std::uint32_t used = 0;
  REQUIRE(append(packet, used, diff));
  CHECK(used == 28);
  CHECK(half_words_of(diff) == 28);
  CHECK(packet.kernels == 1);
  const std::array<std::uint16_t, kDiffValues> expected{0xFFFD, 0x0011, 0x2221, 0x3332, 0x4443, 0x5554, 0x6665, 0x6666,
                                                        0x7776, 0x7777, 0x8887, 0x8888, 0x9998, 0x9999, 0xAAA9, 0xAAAA,
                                                        0xBBBA, 0xBBBB, 0xBBBB, 0xBBBB, 0xCCCB, 0xCCCC, 0xCCCC, 0xCCCC,
                                                        0xDDDC, 0xDDDD, 0xDDDD, 0xDDDD, 0,      0,      0};
  CHECK(packet.diff == expected);
  const Decoded back = decoded(encode(packet));
  REQUIRE(back.verdict.ok());
  CHECK(back.kernels == 1);
  CHECK(back.diffs[0].reference == 5);
  CHECK(back.diffs[0].vector == 0x1FFF);
  CHECK(back.diffs[0].values == diff.values);
}

TEST_CASE("every field alone, of every entry", "[packet][PKT-06]") {
  const DispatchFields all = all_fields();
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
    for (unsigned entry = 0; entry < kReferenceEntries; ++entry) {
      std::vector<unsigned> half_words{entry + (8U << field)};
      for (std::uint32_t i = 0; i < half_words_of(field); ++i) {
        half_words.push_back(static_cast<unsigned>(field_of(all, field) >> (16 * i) & 0xFFFF));
      }
      const Decoded back = decoded(packet_of(1, half_words));
      REQUIRE(back.verdict.ok());
      CHECK(back.diffs[0].reference == entry);
      CHECK(back.diffs[0].vector == 1U << field);
      DispatchFields base;
      base.grid = {7, 8, 9};
      base.kernarg = 0x1234;
      DispatchFields expected = base;
      set_field(expected, field, field_of(all, field));
      apply(back.diffs[0], base);
      CHECK(base == expected);
    }
  }
}

TEST_CASE("31 half-words fit, and not one more", "[packet][PKT-06][PKT-09]") {
  CondensedPacket packet;
  std::uint32_t used = 0;
  Diff diff;
  diff.vector = 0x1FFF;
  REQUIRE(append(packet, used, diff));
  diff.vector = 0x0022;  // 1 + 1 + 2
  const CondensedPacket before = packet;
  CHECK_FALSE(append(packet, used, diff));
  CHECK(used == 28);
  CHECK(encode(packet) == encode(before));
  diff.vector = 0x0020;  // 1 + 2
  REQUIRE(append(packet, used, diff));
  CHECK(used == 31);
  diff.vector = 0;
  CHECK_FALSE(append(packet, used, diff));
  CHECK(decoded(encode(packet)).verdict.ok());

  packet = {};
  used = 0;
  for (unsigned i = 0; i < 31; ++i) REQUIRE(append(packet, used, diff));
  CHECK_FALSE(append(packet, used, diff));
  CHECK(packet.kernels == 31);
  CHECK(decoded(encode(packet)).kernels == 31);

  packet.kernels = 254;
  used = 0;
  CHECK(append(packet, used, diff));
  CHECK(packet.kernels == 255);
  CHECK_FALSE(append(packet, used, diff));
  CHECK(used == 1);

  diff.reference = 8;
  CHECK_THROWS_AS(append(packet, used, diff), CheckFailed);
  diff.reference = 0;
  diff.vector = 0x2000;
  CHECK_THROWS_AS(append(packet, used, diff), CheckFailed);
}

TEST_CASE("a packet whose diffs run past its end has a bad format", "[packet][PKT-09]") {
  const PacketBytes empty{7, 0};
  CHECK(bad_format(empty));  // no kernels
  for (unsigned kernels = 1; kernels < 256; ++kernels) {
    INFO(kernels << " kernels without diffs");
    CHECK(bad_format(packet_of(kernels, {})) == (kernels > 31));
  }
  // Half-words of each field at the end of the packet: complete, and one short.
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
    const std::uint32_t needed = 1 + half_words_of(field);
    for (const std::uint32_t short_of : {0U, 1U}) {
      std::vector<unsigned> half_words(31 - needed + short_of, 0);
      half_words.push_back(8U << field);
      INFO("field " << field << ", short of " << short_of);
      const Decoded result = decoded(packet_of(static_cast<unsigned>(half_words.size()), half_words));
      CHECK(result.verdict.status == (short_of == 0 ? HsaStatus::success : HsaStatus::invalid_packet_format));
      if (short_of == 1) CHECK(result.kernels == half_words.size() - 1);
    }
  }
}

TEST_CASE("half-words behind the last diff are 0", "[packet][PKT-09]") {
  for (std::size_t i = 6; i < 31; ++i) {
    for (unsigned bit = 0; bit < 16; ++bit) {
      std::vector<unsigned> half_words{0x8004, 0x20, 2, 3, 4, 0x0006};
      half_words.resize(31, 0);
      REQUIRE(decoded(packet_of(2, half_words)).verdict.ok());
      half_words[i] = 1U << bit;
      CHECK(bad_format(packet_of(2, half_words)));
    }
  }
}

TEST_CASE("the upper half of an 8-bit field in a diff is 0", "[packet][PKT-09]") {
  for (unsigned value = 0; value < 0x10000; ++value) {
    const Decoded result = decoded(packet_of(1, {0x000F, value}));
    if (result.verdict.ok() != (value < 256)) FAIL("half-word " << value);
    if (value < 256 && result.diffs[0].values.synch_scopes != value) FAIL("value " << value);
  }
}

TEST_CASE("byte 1 of a condensed packet counts kernels: it has no scopes", "[packet][PKT-06]") {
  for (unsigned kernels = 1; kernels < 32; ++kernels) {
    const Decoded result = decoded(packet_of(kernels, std::vector<unsigned>(kernels, 3)));
    REQUIRE(result.verdict.ok());
    CHECK(result.kernels == kernels);
    for (std::uint32_t i = 0; i < kernels; ++i) CHECK(result.diffs[i].reference == 3);
  }
}

TEST_CASE("other widths: headers of one half-word or two, entries and vectors of other sizes", "[packet][PKT-13]") {
  struct Width {
    std::uint32_t reference, vector, half_words;
  };
  for (const Width& width : {Width{3, 13, 1}, Width{4, 12, 1}, Width{1, 1, 1}, Width{4, 13, 2}, Width{8, 24, 2}}) {
    CAPTURE(width.reference, width.vector);
    const DiffFormat format{DiffOf::packet, width.reference, width.vector};
    CHECK(format.header_half_words() == width.half_words);
    WrittenDiff diff;
    diff.reference = (1U << width.reference) - 1;
    diff.vector = ((1U << std::min(13U, width.vector)) - 1) & 0x0861;
    diff.values[0] = 0x12;
    diff.values[5] = 0x8765'4321;
    diff.values[6] = 0x1234'5678;
    diff.values[11] = 0xFEDC'BA98'7654'3210;
    CondensedPacket packet;
    std::uint32_t used = 0;
    REQUIRE(append(packet, used, format, diff));
    const PacketBytes bytes = encode(packet);
    const std::uint64_t header = diff.reference | std::uint64_t{diff.vector} << width.reference;
    for (std::uint32_t i = 0; i < 2 * width.half_words; ++i) CHECK(bytes[2 + i] == (header >> 8 * i & 0xFF));
    CHECK(bytes[2 + 2 * width.half_words] == 0x12);
    WrittenDiffs diffs;
    std::uint32_t kernels = 0;
    REQUIRE(decode(bytes, format, diffs, kernels).ok());
    CHECK(kernels == 1);
    CHECK(diffs[0].reference == diff.reference);
    CHECK(diffs[0].vector == diff.vector);
    CHECK(diffs[0].half_words == used);
    for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
      CHECK(diffs[0].values[field] == (diff.has(field) ? diff.values[field] : 0));
    }
    WrittenDiff first;
    REQUIRE(decode_first(bytes, format, first).ok());
    CHECK(first.vector == diff.vector);
    // Bits that mean nothing, and fields that do not exist.
    for (std::uint32_t bit = width.reference; bit < 16 * width.half_words; ++bit) {
      PacketBytes odd = packet_of(1, {});
      odd[2 + bit / 8] = static_cast<std::uint8_t>(1U << bit % 8);
      const bool means = bit - width.reference < std::min(13U, width.vector);
      CHECK(decode(odd, format, diffs, kernels).ok() == means);
      CHECK(decode_first(odd, format, first).ok() == means);
    }
    diff.reference = 1U << width.reference;
    CHECK_THROWS_AS(append(packet, used, format, diff), CheckFailed);
    diff.reference = 0;
    diff.vector = 1U << std::min(13U, width.vector);
    CHECK_THROWS_AS(append(packet, used, format, diff), CheckFailed);
  }
}

TEST_CASE("a header of two half-words ends with the packet", "[packet][PKT-13]") {
  const DiffFormat format{DiffOf::packet, 8, 24};
  WrittenDiff same;
  CondensedPacket packet;
  std::uint32_t used = 0;
  for (int i = 0; i < 15; ++i) REQUIRE(append(packet, used, format, same));
  CHECK_FALSE(append(packet, used, format, same));  // one half-word is left
  CHECK(used == 30);
  WrittenDiffs diffs;
  std::uint32_t kernels = 0;
  REQUIRE(decode(encode(packet), format, diffs, kernels).ok());
  CHECK(kernels == 15);
  packet.kernels = 16;
  CHECK(decode(encode(packet), format, diffs, kernels).status == HsaStatus::invalid_packet_format);
  CHECK(kernels == 15);
}

TEST_CASE("fields of the stored information and their sizes", "[packet][PKT-13]") {
  const DiffFormat format{DiffOf::stored, 3, 13};
  const std::vector<std::uint32_t> bits{8, 16, 16, 16, 32, 16, 16, 16, 32, 32, 32, 64, 64};
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) {
    CAPTURE(field);
    CHECK(bits_of_field(DiffOf::stored, field) == bits[field]);
    CHECK(half_words_of(DiffOf::stored, field) == (bits[field] + 15) / 16);
    WrittenDiff diff;
    diff.reference = 2;
    diff.vector = 1U << field;
    diff.values[field] = ~std::uint64_t{0} >> (64 - bits[field]);
    CondensedPacket packet;
    std::uint32_t used = 0;
    REQUIRE(append(packet, used, format, diff));
    CHECK(used == 1 + half_words_of(DiffOf::stored, field));
    WrittenDiffs diffs;
    std::uint32_t kernels = 0;
    REQUIRE(decode(encode(packet), format, diffs, kernels).ok());
    CHECK(diffs[0].values[field] == diff.values[field]);
  }
  CHECK_THROWS_AS(bits_of_field(DiffOf::stored, 13), CheckFailed);
}

}  // namespace arch_aql_diff_test
