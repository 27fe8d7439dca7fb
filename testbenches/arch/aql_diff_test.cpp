// Diffs of condensed packets: fields, half-words, limits.
#include <vector>

#include <catch2/catch.hpp>

#include "arch/aql_packet.h"
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

}  // namespace arch_aql_diff_test
