// The operand words of requests, names, and the masks of the bytes of a line.
#include <optional>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "arch/mbarrier.h"
#include "arch/tensor_data.h"
#include "common/error.h"
#include "support/random.h"

namespace arch_bulk_test {

using namespace heddle::arch;

namespace {

constexpr std::uint32_t kMostAddress = 0xFF'FFFE;

bool same_words(const BulkRequest& a, const BulkRequest& b) {
  return a.barrier_cta == b.barrier_cta && a.barrier == b.barrier && a.data_cta == b.data_cta && a.shared == b.shared &&
         a.multicast == b.multicast && a.offsets == b.offsets;
}

// Byte by byte.
std::set<std::uint32_t> bytes_of(const ByteMask& mask) {
  std::set<std::uint32_t> result;
  for (std::uint32_t i = 0; i < 128; ++i) {
    if (mask.test(i)) result.insert(i);
  }
  return result;
}

std::set<std::uint32_t> numbers(std::uint32_t from, std::uint32_t to) {
  std::set<std::uint32_t> result;
  for (std::uint32_t i = from; i < to; ++i) result.insert(i);
  return result;
}

}  // namespace

TEST_CASE("operand words have each field in its bits", "[arch][TMA-30]") {
  BulkRequest request;
  request.barrier_cta = 0x12;
  request.barrier = 0x345678;
  request.data_cta = 0x9A;
  request.shared = 0xBCDEF0;
  request.multicast = 0xA005;
  request.offsets = 0x0102;
  CHECK(address_word(request) == 0x1234'5678'9ABC'DEF0);
  CHECK(mask_word(request) == 0xA005'0102);
  BulkRequest back;
  set_words(back, 0x1234'5678'9ABC'DEF0, 0xA005'0102);
  CHECK(same_words(back, request));
}

TEST_CASE("255 is the CTA itself, and all ones is no barrier", "[arch][TMA-30]") {
  const BulkRequest request;
  CHECK(address_word(request) == 0xFFFF'FFFF'FF00'0000);
  CHECK(mask_word(request) == 0);
  BulkRequest back;
  back.barrier = 8;
  back.data_cta = 3;
  back.barrier_cta = 3;
  back.multicast = 7;
  set_words(back, address_word(request), mask_word(request));
  CHECK(same_words(back, request));
  CHECK(back.data_cta == std::nullopt);
  CHECK(back.barrier_cta == std::nullopt);
  CHECK(back.barrier == std::nullopt);
}

TEST_CASE("requests come back from their words", "[arch][TMA-30]") {
  HEDDLE_RANDOM(dice);
  const auto cta = [&] { return dice.one_in(4) ? std::nullopt : std::optional(dice.between(0, 254)); };
  for (int round = 0; round < 20'000; ++round) {
    BulkRequest request;
    request.barrier_cta = cta();
    request.data_cta = cta();
    request.barrier = dice.one_in(4) ? std::nullopt : std::optional(dice.between(0, kMostAddress));
    request.shared = dice.between(0, kMostAddress);
    request.multicast = static_cast<std::uint16_t>(dice.next());
    request.offsets = static_cast<std::uint16_t>(dice.next());
    BulkRequest back;
    back.global = 0x1230;
    set_words(back, address_word(request), mask_word(request));
    if (!same_words(back, request)) FAIL("round " << round);
    if (back.global != 0x1230) FAIL("another field has changed");
  }
}

TEST_CASE("what the words have no bits for is not cut", "[arch][TMA-30]") {
  BulkRequest request;
  request.data_cta = 255;
  CHECK_THROWS_AS(address_word(request), heddle::CheckFailed);
  request.data_cta = 254;
  CHECK_NOTHROW(address_word(request));
  request.barrier_cta = 256;
  CHECK_THROWS_AS(address_word(request), heddle::CheckFailed);
  request.barrier_cta = 0;
  request.shared = kMostAddress + 1;
  CHECK_THROWS_AS(address_word(request), heddle::CheckFailed);
  request.shared = kMostAddress;
  request.barrier = kMostAddress + 1;
  CHECK_THROWS_AS(address_word(request), heddle::CheckFailed);
}

TEST_CASE("what does not fit a word is named by the word", "[arch][TMA-30]") {
  using heddle::arch::BulkKind;
  using heddle::arch::check_words;
  using heddle::arch::TensorRule;
  // 24 bits with all ones left out, 8 bits with 255 left out, 16 bits.
  for (const BulkKind kind : {BulkKind::load, BulkKind::store, BulkKind::reduce, BulkKind::send}) {
    BulkRequest request;
    request.kind = kind;
    request.shared = request.destination = 0xFF'FFFE;
    request.barrier = 0xFF'FFFE;
    request.data_cta = request.barrier_cta = 254;
    request.multicast = 0xFFFF;
    CHECK(check_words(request) == TensorRule::none);
    BulkRequest wrong = request;
    wrong.shared = 0x100'0000;
    CHECK(check_words(wrong) == TensorRule::address_word);
    wrong = request;
    wrong.barrier = 0xFF'FFFF;
    CHECK(check_words(wrong) == TensorRule::address_word);
    wrong = request;
    wrong.data_cta = 255;
    CHECK(check_words(wrong) == TensorRule::address_word);
    wrong = request;
    wrong.barrier_cta = 256;
    CHECK(check_words(wrong) == TensorRule::address_word);
    wrong = request;
    wrong.multicast = 0x1'0000;
    CHECK(check_words(wrong) == TensorRule::mask_word);
    wrong = request;
    wrong.destination = 0x100'0000;
    CHECK(check_words(wrong) == (kind == BulkKind::send ? TensorRule::address_word : TensorRule::none));
  }
  BulkRequest copy;
  copy.kind = BulkKind::copy;
  copy.shared = ~0U;  // it means nothing
  CHECK(check_words(copy) == TensorRule::none);
}

TEST_CASE("the data word of a send is its destination", "[arch][TMA-30]") {
  BulkRequest send;
  send.kind = heddle::arch::BulkKind::send;
  send.shared = 0x111;
  send.destination = 0x222;
  CHECK((address_word(send) & 0xFF'FFFF) == 0x222);
  BulkRequest back = send;
  back.destination = 0;
  set_words(back, address_word(send), mask_word(send));
  CHECK(back.destination == 0x222);
  CHECK(back.shared == 0x111);
}

TEST_CASE("kinds of requests have names of their own", "[arch]") {
  std::string names;
  for (std::uint32_t i = 0; i <= static_cast<std::uint32_t>(BulkKind::forget); ++i) {
    names += bulk_name(static_cast<BulkKind>(i)) + std::string(" ");
  }
  CHECK(names == "load store reduce prefetch copy send drain forget ");
}

TEST_CASE("masks of the bytes of a line", "[arch]") {
  for (std::uint32_t from = 0; from <= 128; ++from) {
    for (std::uint32_t to = from; to <= 128; ++to) {
      const ByteMask mask = ByteMask::range(from, to);
      if (bytes_of(mask) != numbers(from, to)) FAIL(from << " to " << to);
      if (mask.any() != (from != to)) FAIL(from << " to " << to);
      if (mask.any() && (mask.lowest() != from || mask.highest() != to - 1)) FAIL(from << " to " << to);
    }
    CHECK(ByteMask::first(from) == ByteMask::range(0, from));
  }
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 500; ++round) {
    ByteMask mask{dice.next() & dice.next(), dice.next() & dice.next()};
    const ByteMask other{dice.one_in(3) ? 0 : dice.next(), dice.one_in(3) ? 0 : dice.next()};
    if (dice.one_in(3)) mask.low = 0;
    if (dice.one_in(3)) mask.high = 0;
    auto expected = bytes_of(mask);
    const auto more = bytes_of(other);
    expected.insert(more.begin(), more.end());
    mask |= other;
    CHECK(bytes_of(mask) == expected);
    CHECK(mask.any() == !expected.empty());
    if (expected.empty()) continue;
    CHECK(mask.lowest() == *expected.begin());
    CHECK(mask.highest() == *expected.rbegin());
  }
  CHECK_FALSE(ByteMask{1, 0} == ByteMask{0, 1});
}

TEST_CASE("a piece knows whether all of its bytes are inside", "[arch]") {
  TensorPiece piece;
  piece.bytes = 40;
  piece.inside = ByteMask::first(40);
  CHECK(piece.all_inside());
  piece.inside = ByteMask::range(2, 40);
  CHECK_FALSE(piece.all_inside());
  piece.inside = {};
  CHECK_FALSE(piece.all_inside());
  piece.bytes = 128;
  piece.inside = ByteMask::first(128);
  CHECK(piece.all_inside());
}

}  // namespace arch_bulk_test
