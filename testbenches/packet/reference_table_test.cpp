// The reference state table, and its entries in memory.
#include "packet/reference_table.h"

#include <catch2/catch.hpp>

#include "common/error.h"
#include "packet/packet_judge.h"
#include "packet/random_packet.h"
#include "support/random.h"

namespace packet_reference_table_test {

using namespace heddle::arch;
using namespace heddle::packet;
namespace oracle = heddle::oracle;
using heddle::CheckFailed;

TEST_CASE("a reference state table has eight entries, empty at first", "[packet][PKT-05]") {
  ReferenceTable table;
  DispatchFields fields;
  for (std::uint32_t i = 0; i < 10; ++i) CHECK_FALSE(table.valid(i));
  for (std::uint32_t i = 0; i < 8; ++i) {
    fields.kernarg = 16 * i;
    table.store(i, fields);
    for (std::uint32_t j = 0; j < 10; ++j) CHECK(table.valid(j) == (j <= i));
  }
  for (std::uint32_t i = 0; i < 8; ++i) CHECK(table.at(i).kernarg == 16 * i);
  fields.kernarg = 4096;
  table.store(3, fields);
  for (std::uint32_t i = 0; i < 8; ++i) CHECK(table.at(i).kernarg == (i == 3 ? 4096 : 16 * i));
  CHECK_THROWS_AS(table.store(8, fields), CheckFailed);
  CHECK_THROWS_AS(table.at(8), CheckFailed);
  table.clear();
  for (std::uint32_t i = 0; i < 8; ++i) {
    CHECK_FALSE(table.valid(i));
    CHECK_THROWS_AS(table.at(i), CheckFailed);
  }
}

TEST_CASE("an entry in memory has the bytes of its reference packet", "[packet][PKT-11]") {
  HEDDLE_RANDOM(dice);
  oracle::Rng rng(dice.next());
  for (int round = 0; round < 5'000; ++round) {
    const oracle::Image image = oracle::random_dispatch(rng, 6);
    KernelDispatch packet;
    REQUIRE(decode(image, packet).ok());
    for (std::uint32_t entry = 0; entry < 8; ++entry) {
      DispatchFields fields;
      const HsaResult verdict = decode_entry(image, entry, fields);
      if (verdict.ok() != (entry == packet.reserved0)) FAIL("entry " << entry << " of round " << round);
      if (!verdict.ok() && verdict.status != HsaStatus::invalid_argument) FAIL("status of round " << round);
      if (verdict.ok() && !(fields == packet.fields)) FAIL("fields of round " << round);
    }
    if (encode_entry(packet.reserved0, packet.fields) != image) FAIL("bytes of round " << round);
  }
  CHECK_THROWS_AS(encode_entry(8, {}), CheckFailed);
}

TEST_CASE("an entry in memory that software has overwritten is none", "[packet][PKT-11]") {
  HEDDLE_RANDOM(dice);
  oracle::Rng rng(dice.next());
  const oracle::Judge judge;
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    oracle::Image image = oracle::random_dispatch(rng, 6);
    for (std::uint64_t i = 1 + rng.below(4); i > 0; --i) oracle::damage(rng, image);
    const auto entry = static_cast<std::uint32_t>(rng.percent(90) ? image[10] % 8 : rng.below(8));
    if (const char* wrong = judge.entry(image, entry); wrong != nullptr) FAIL(wrong << " differs, round " << round);
    DispatchFields fields;
    if (!decode_entry(image, entry, fields).ok()) ++refused;
  }
  CHECK(refused > 4'000);
  CHECK(refused < 16'000);
}

}  // namespace packet_reference_table_test
