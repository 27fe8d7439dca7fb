// The reference state table, and its entries in memory.
#include "packet/reference_table.h"

#include <catch2/catch.hpp>

#include "common/error.h"
#include "packet/entry_oracle.h"
#include "packet/random_packet.h"
#include "support/random.h"

namespace packet_reference_table_test {

using namespace heddle::arch;
using namespace heddle::packet;
namespace oracle = heddle::oracle;
using heddle::CheckFailed;

namespace {

struct HoldsAll final : FitCheck {
  std::string why_never_fits(const KernelShape&) const override { return {}; }
};

struct Lab {
  HoldsAll fit;
  CodeStore codes;
  BroughtCode brought{codes, nullptr, nullptr};
  KernelValidator validator{SmLimits(), brought, fit};

  // Random packets that fit random objects, without programs.
  bool make(oracle::Rng& rng, oracle::Image& image, oracle::ObjectImage& object, StoredKernel& kernel) {
    image = oracle::random_dispatch(rng, 6);
    object = oracle::random_object(rng);
    oracle::set_number(object, 8, 4, 0);
    KernelDispatch packet;
    if (!decode(image, packet).ok() || !decode(object, kernel.object).ok()) return false;
    kernel.fields = packet.fields;
    if (!validator.validate(kernel.fields).ok()) return false;
    if (!validator.validate(kernel.fields, kernel.object, 0, kernel.shape).ok()) return false;
    kernel.items = items_of(kernel.fields);
    return true;
  }
};

}  // namespace

TEST_CASE("a reference state table has as many entries as it is made with, empty at first", "[packet][PKT-05]") {
  for (const std::uint32_t size : {8U, 1U, 32U}) {
    ReferenceTable table(size);
    StoredKernel kernel;
    CHECK(table.size() == size);
    for (std::uint32_t i = 0; i < size + 2; ++i) CHECK_FALSE(table.valid(i));
    for (std::uint32_t i = 0; i < size; ++i) {
      kernel.fields.kernarg = 16 * i;
      kernel.object.name = std::to_string(i);
      table.store(i, kernel);
      for (std::uint32_t j = 0; j < size + 2; ++j) CHECK(table.valid(j) == (j <= i));
    }
    kernel.fields.kernarg = 4096;
    table.store(size / 2, kernel);
    for (std::uint32_t i = 0; i < size; ++i) {
      CHECK(table.at(i).fields.kernarg == (i == size / 2 ? 4096 : 16 * i));
      if (i != size / 2) CHECK(table.at(i).object.name == std::to_string(i));
    }
    CHECK_THROWS_AS(table.store(size, kernel), CheckFailed);
    CHECK_THROWS_AS(table.at(size), CheckFailed);
    table.clear();
    for (std::uint32_t i = 0; i < size; ++i) {
      CHECK_FALSE(table.valid(i));
      CHECK_THROWS_AS(table.at(i), CheckFailed);
    }
  }
}

TEST_CASE("an entry in memory has what was worked out of its packet, and the kernel object",
          "[packet][PKT-05][PKT-11]") {
  HEDDLE_RANDOM(dice);
  oracle::Rng rng(dice.next());
  Lab lab;
  int made = 0;
  while (made < 3'000) {
    oracle::Image image;
    oracle::ObjectImage object;
    StoredKernel kernel;
    if (!lab.make(rng, image, object, kernel)) continue;
    ++made;
    const auto number = static_cast<std::uint32_t>(rng.below(32));
    const oracle::EntryImage expected = oracle::entry_of(number, image, object);
    const EntryBytes bytes = encode_entry(number, kernel);
    if (bytes != expected) FAIL("bytes of entry " << made);
    if (scopes_of_entry(bytes) != image[1]) FAIL("scopes of entry " << made);
    StoredKernel back;
    if (!decode_entry(bytes, number, lab.validator, back).ok()) FAIL("entry " << made << " is refused");
    const bool same = back.fields == kernel.fields && encode(back.object) == object &&
                      back.shape.grid == kernel.shape.grid && back.shape.block == kernel.shape.block &&
                      back.shape.shared_bytes == kernel.shape.shared_bytes && back.items.items == kernel.items.items &&
                      back.shape.subcontext == 0;
    if (!same) FAIL("entry " << made << " there and back");
    if (decode_entry(bytes, (number + 1) % 32, lab.validator, back).ok()) FAIL("another number of entry " << made);
  }
}

TEST_CASE("an entry in memory that software has overwritten is none", "[packet][PKT-11]") {
  HEDDLE_RANDOM(dice);
  oracle::Rng rng(dice.next());
  Lab lab;
  int refused = 0;
  int taken = 0;
  while (refused + taken < 10'000) {
    oracle::Image image;
    oracle::ObjectImage object;
    StoredKernel kernel;
    if (!lab.make(rng, image, object, kernel)) continue;
    oracle::EntryImage entry = oracle::entry_of(5, image, object);
    for (std::uint64_t i = 1 + rng.below(3); i > 0; --i) oracle::damage(rng, entry);
    StoredKernel back;
    const HsaResult verdict = decode_entry(entry, 5, lab.validator, back);
    if (!verdict.ok()) {
      if (verdict.status != HsaStatus::invalid_argument) FAIL("status");
      ++refused;
      continue;
    }
    ++taken;
    if (const char* wrong = oracle::judge_taken_entry(entry, 5); wrong != nullptr) FAIL(wrong);
  }
  CHECK(refused > 5'000);
  CHECK(taken > 100);
  EntryBytes nothing{};
  StoredKernel back;
  CHECK(decode_entry(nothing, 0, lab.validator, back).status == HsaStatus::invalid_argument);
  nothing[6] = 1;
  CHECK(scopes_of_entry(nothing) == 0);  // empty, whatever else is there
}

}  // namespace packet_reference_table_test
