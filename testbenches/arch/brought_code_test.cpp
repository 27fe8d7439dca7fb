// Code that software brings: what the machine keeps of it, and what it refuses (HST-07).
#include "arch/brought_code.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/list_program.h"
#include "support/random.h"

namespace arch_brought_code_test {

using namespace heddle;
using namespace heddle::arch;
using heddle::test::ListProgram;

namespace {

using Bytes = std::vector<std::uint8_t>;

// The first byte is the number of registers, 0 for no program; the second one says whether it is for clusters.
class PlainDecoder final : public CodeDecoder {
 public:
  DecodedCode decode(const Bytes& code) const override {
    ++asked;
    if (code[0] == 0) return {nullptr, "a first byte of 0", {}, 0};
    auto program = std::make_shared<ListProgram>(code[0]);
    program->exit();
    DecodedCode decoded{program, {}, {}, text};
    decoded.kernel.block = {code[2], 1, 1};
    if (code[1] != 0) decoded.kernel.cluster.of(CgaLevel::gpc) = {1, 1, 1};
    return decoded;
  }
  mutable unsigned asked = 0;
  std::uint64_t text = 0;
};

KernelObject object_of(const Bytes& code, std::uint32_t registers) {
  KernelObject object;
  object.code = {4096, static_cast<std::uint32_t>(code.size())};
  object.registers_per_thread = registers;
  object.name = "one";
  return object;
}

}  // namespace

TEST_CASE("the same bytes are one program, decoded once, wherever they lie", "[arch][HST-07]") {
  CodeStore codes;
  const auto decoder = std::make_shared<PlainDecoder>();
  BroughtCode brought(codes, decoder, [](const WarpProgram&) { return std::string(); });
  const Bytes first{8, 0, 32};
  const Bytes second{8, 0, 64};
  KernelObject a = object_of(first, 8);
  KernelObject b = object_of(first, 0);
  b.code.address = 8192;
  KernelObject c = object_of(second, 8);
  REQUIRE(brought.resolve(first, 0, a).ok());
  REQUIRE(brought.resolve(first, 0, b).ok());
  REQUIRE(brought.resolve(second, 0, c).ok());
  CHECK(a.program == b.program);
  CHECK(a.program != c.program);
  CHECK(codes.at(a.program).block == Dim3{32, 1, 1});
  CHECK(codes.at(c.program).block == Dim3{64, 1, 1});
  CHECK(decoder->asked == 2);
  CHECK(brought.programs() == 2);
}

TEST_CASE("a number alone is not enough to launch what was brought", "[arch][HST-07]") {
  CodeStore codes;
  const auto decoder = std::make_shared<PlainDecoder>();
  BroughtCode brought(codes, decoder, [](const WarpProgram&) { return std::string(); });
  const Bytes code{8, 0, 32};
  KernelObject own = object_of(code, 8);
  REQUIRE(brought.resolve(code, 0, own).ok());
  CHECK(brought.can_launch(own));
  KernelObject other = own;
  other.code = {};
  CHECK_FALSE(brought.can_launch(other));
  const std::uint32_t added = codes.add(decoder->decode(code).program, {});
  other.program = added;
  CHECK(brought.can_launch(other));
  own.program = added;
  CHECK_FALSE(brought.can_launch(own));
  other.program = added + 1;
  CHECK_FALSE(brought.can_launch(other));
  // A number that was somebody's code, and is anybody's then; and of a device that was saved.
  StateWriter saved("code");
  brought.save(saved);
  brought.reset();
  other.program = codes.add(decoder->decode(code).program, {});
  CHECK(brought.can_launch(other));
  CodeStore others;
  BroughtCode restored(others, decoder, [](const WarpProgram&) { return std::string(); });
  StateReader from("code", saved.bytes());
  restored.restore(from);
  REQUIRE(others.has(other.program));
  CHECK_FALSE(restored.can_launch(other));
}

TEST_CASE("code that is refused makes nothing else leave, and is decoded once", "[arch][HST-07]") {
  CodeStore codes;
  const auto decoder = std::make_shared<PlainDecoder>();
  decoder->text = BroughtCode::kMostBytes / 3 - 2000;
  BroughtCode brought(codes, decoder, [](const WarpProgram&) { return std::string(); });
  const auto bring = [&](const Bytes& code) {
    KernelObject object = object_of(code, 8);
    return brought.resolve(code, 0, object).reason;
  };
  for (std::uint8_t i = 0; i < 3; ++i) REQUIRE(bring({8, 0, 32, i}) == Reason::none);
  REQUIRE(brought.programs() == 3);
  CHECK(bring(Bytes(3000, 0)) == Reason::code_bytes);
  CHECK(brought.programs() == 3);
  decoder->text = BroughtCode::kMostBytes;  // it never has room
  const unsigned asked = decoder->asked;
  for (int i = 0; i < 3; ++i) CHECK(bring({8, 0, 32, 9}) == Reason::code_machine);
  CHECK(decoder->asked == asked + 1);
  CHECK(brought.programs() == 3);
}

TEST_CASE("code that is none, or does not suit its object or the machine, is refused with the reason",
          "[arch][HST-07][PKT-09]") {
  CodeStore codes;
  std::string limit;
  std::vector<std::string> told;
  BroughtCode brought(codes, std::make_shared<PlainDecoder>(), [&](const WarpProgram&) { return limit; });
  brought.on_refused([&](const std::string& what) { told.push_back(what); });
  const auto reason = [&](const Bytes& code, KernelObject object) {
    object.program = 5;
    const HsaResult result = brought.resolve(code, 0, object);
    CHECK((object.program == kNoCode) != result.ok());
    if (!result.ok()) CHECK(result.status == HsaStatus::invalid_code_object);
    return result.reason;
  };
  const Bytes good{8, 0, 32};
  CHECK(reason({0, 0, 0}, object_of(good, 8)) == Reason::code_bytes);
  REQUIRE(told.size() == 1);
  CHECK(told.front() == "kernel 'one', code of 3 bytes at 0x1000: a first byte of 0");
  limit = "no room for launches";
  const Bytes large{9, 0, 32};
  CHECK(reason(large, object_of(large, 9)) == Reason::code_machine);
  CHECK(brought.programs() == 0);
  limit.clear();
  CHECK(reason(large, object_of(large, 9)) == Reason::code_machine);  // it is remembered
  CHECK(reason(good, object_of(good, 7)) == Reason::code_object);
  CHECK(reason(good, object_of(good, 8)) == Reason::none);
  KernelObject clusters = object_of(good, 8);
  clusters.cluster.of(CgaLevel::gpc) = {2, 1, 1};
  CHECK(reason(good, clusters) == Reason::code_object);
  CHECK(reason({8, 1, 32}, clusters) == Reason::none);
  CHECK(reason({8, 1, 32}, object_of(good, 8)) == Reason::code_object);
  KernelObject cooperative = object_of(good, 8);
  cooperative.cooperative = true;
  CHECK(reason(good, cooperative) == Reason::code_object);

  BroughtCode without(codes, nullptr, [](const WarpProgram&) { return std::string(); });
  KernelObject object = object_of(good, 8);
  CHECK(without.resolve(good, 0, object).reason == Reason::code_machine);
}

TEST_CASE("the machine keeps so much code of a subcontext and no more", "[arch][HST-07]") {
  CodeStore codes;
  const auto decoder = std::make_shared<PlainDecoder>();
  BroughtCode brought(codes, decoder, [](const WarpProgram&) { return std::string(); });
  Bytes code(kMostCodeBytes, 1);
  struct All final : CodeUser {
    void mark_codes(std::set<std::uint32_t>& used) const override {
      for (std::uint32_t number = 0; number < 100; ++number) used.insert(number);
    }
  };
  const All all;
  brought.add_user(all);
  const auto most = static_cast<std::uint32_t>(BroughtCode::kMostBytes / (kMostCodeBytes + BroughtCode::kProgramBytes));
  for (std::uint32_t i = 0; i <= most; ++i) {
    code[3] = static_cast<std::uint8_t>(i);
    code[4] = static_cast<std::uint8_t>(i >> 8);
    KernelObject object = object_of(code, 1);
    object.cluster.of(CgaLevel::gpc) = {1, 1, 1};
    const Reason expected = i < most ? Reason::none : Reason::code_machine;
    if (brought.resolve(code, 0, object).reason != expected) FAIL("program " << i);
  }
  CHECK(brought.programs() == most);
  KernelObject other = object_of(code, 1);
  other.cluster.of(CgaLevel::gpc) = {1, 1, 1};
  CHECK(brought.resolve(code, 1, other).ok());  // of another subcontext
  code[3] = code[4] = 0;                        // the first one is still there
  KernelObject object = object_of(code, 1);
  object.cluster.of(CgaLevel::gpc) = {1, 1, 1};
  CHECK(brought.resolve(code, 0, object).ok());
}

TEST_CASE("what becomes of the expressions counts as the code does", "[arch][HST-07]") {
  CodeStore codes;
  const auto decoder = std::make_shared<PlainDecoder>();
  decoder->text = BroughtCode::kMostBytes / 4;
  BroughtCode brought(codes, decoder, [](const WarpProgram&) { return std::string(); });
  for (std::uint8_t i = 0; i < 6; ++i) {
    const Bytes code{8, 0, 32, i};
    KernelObject object = object_of(code, 8);
    CHECK(brought.resolve(code, 0, object).ok());
    CHECK(brought.programs() == i % 3U + 1);  // three have room
    CHECK(brought.bytes(0) == (i % 3 + 1) * (code.size() + decoder->text + BroughtCode::kProgramBytes));
  }
  CHECK(decoder->asked == 6);
  decoder->text = BroughtCode::kMostBytes;  // more than there is of all
  const Bytes code{8, 0, 33};
  KernelObject object = object_of(code, 8);
  CHECK(brought.resolve(code, 0, object).reason == Reason::code_machine);
}

TEST_CASE("programs that nobody uses make room for others of their subcontext", "[arch][HST-07]") {
  CodeStore codes;
  const auto decoder = std::make_shared<PlainDecoder>();
  decoder->text = BroughtCode::kMostBytes / 4;
  BroughtCode brought(codes, decoder, [](const WarpProgram&) { return std::string(); });
  struct One final : CodeUser {
    void mark_codes(std::set<std::uint32_t>& used) const override { used.insert(number); }
    std::uint32_t number = kNoCode;
  };
  One user;
  brought.add_user(user);
  const auto bring = [&](std::uint8_t number, std::uint8_t subcontext = 0) {
    const Bytes code{8, 0, 32, number};
    KernelObject object = object_of(code, 8);
    const HsaResult result = brought.resolve(code, subcontext, object);
    CHECK((result.ok() || result.reason == Reason::code_machine));
    return object.program;
  };
  const std::uint32_t known = bring(0);
  const std::uint32_t launched = bring(1);
  const std::uint32_t idle = bring(2);
  const std::uint32_t others = bring(3, 1);
  user.number = known;
  const std::uint32_t launch = codes.lend(launched, {}, WorkItems{}, 0);
  CHECK(codes.launches(launched) == 1);
  const std::uint32_t fourth = bring(4);
  CHECK(fourth == idle);  // its number is free again
  for (const std::uint32_t number : {known, launched, fourth, others}) CHECK(codes.has(number));
  CHECK(brought.programs() == 4);
  // All three are in use now: there is no room, whoever asks, until one of them is not.
  const std::uint32_t second = codes.lend(fourth, {}, WorkItems{}, 0);
  for (int i = 0; i < 2; ++i) CHECK(bring(5) == kNoCode);
  CHECK(bring(0) == known);
  codes.give_back(launch);
  CHECK(codes.launches(launched) == 0);
  CHECK(bring(5) == launched);
  CHECK(bring(0) == known);
  CHECK(codes.has(others));
  CHECK_THROWS_AS(codes.remove(fourth), CheckFailed);  // a launch has it
  codes.give_back(second);
  brought.reset();
  for (const std::uint32_t number : {known, launched, fourth, others}) CHECK_FALSE(codes.has(number));
  CHECK(brought.programs() == 0);
  CHECK(brought.bytes(0) == 0);
  const unsigned asked = decoder->asked;
  CHECK(bring(0) != kNoCode);
  CHECK(decoder->asked == asked + 1);
}

TEST_CASE("what is kept of code is saved with its numbers", "[arch][HST-07][HST-08]") {
  const auto decoder = std::make_shared<PlainDecoder>();
  const auto can = [](const WarpProgram&) { return std::string(); };
  CodeStore codes;
  BroughtCode brought(codes, decoder, can);
  const std::uint32_t loaded = codes.add(decoder->decode({8, 0, 32}).program, {});
  std::vector<std::uint32_t> numbers;
  for (std::uint8_t i = 0; i < 4; ++i) {
    const Bytes code{8, 0, 32, i};
    KernelObject object = object_of(code, 8);
    REQUIRE(brought.resolve(code, i, object).ok());
    numbers.push_back(object.program);
  }
  StateWriter saved("code");
  brought.save(saved);
  CodeStore others;
  BroughtCode restored(others, decoder, can);
  REQUIRE(others.add(decoder->decode({8, 0, 32}).program, {}) == loaded);
  const auto restore = [&](BroughtCode& to) {
    StateReader from("code", saved.bytes());
    to.restore(from);
    from.end();
  };
  restore(restored);
  StateWriter again("code");
  restored.save(again);
  CHECK(again.bytes() == saved.bytes());
  for (std::uint8_t i = 0; i < 4; ++i) {
    const Bytes code{8, 0, 32, i};
    KernelObject object = object_of(code, 8);
    REQUIRE(restored.resolve(code, 0, object).ok());
    CHECK(object.program == numbers[i]);
    CHECK(restored.bytes(i) == brought.bytes(i));
  }
  // Once more into the same machine, which has forgotten its own; and into one that has given a number to something
  // else.
  restored.reset();
  restore(restored);
  restored.reset();
  (void)others.add(decoder->decode({8, 0, 32}).program, {});
  try {
    restore(restored);
    FAIL("a number was given twice");
  } catch (const InputError& error) {
    CHECK_THAT(error.what(), Catch::Contains("has its number from something else here"));
  }
}

TEST_CASE("code that was refused is not decoded again", "[arch][HST-07]") {
  CodeStore codes;
  const auto decoder = std::make_shared<PlainDecoder>();
  BroughtCode brought(codes, decoder, [](const WarpProgram&) { return std::string(); });
  const Bytes bad{0, 0, 32};
  for (int i = 0; i < 3; ++i) {
    KernelObject object = object_of(bad, 8);
    CHECK(brought.resolve(bad, 0, object).reason == Reason::code_bytes);
  }
  CHECK(decoder->asked == 1);
  Bytes other(kMostCodeBytes, 0);
  for (std::uint8_t i = 0; i < 3; ++i) {
    other[1] = i;
    KernelObject object = object_of(other, 8);
    CHECK(brought.resolve(other, 0, object).reason == Reason::code_bytes);
  }
  KernelObject object = object_of(bad, 8);
  CHECK(brought.resolve(bad, 0, object).reason == Reason::code_bytes);
  CHECK(decoder->asked == 5);  // there was more of it than is remembered
}

TEST_CASE("code comes in lines, in any order", "[arch][HST-07]") {
  HEDDLE_RANDOM(dice);
  for (const std::uint32_t bytes : {1U, 127U, 128U, 129U, 1000U}) {
    Bytes code(bytes);
    for (std::uint8_t& byte : code) byte = static_cast<std::uint8_t>(dice.below(256));
    CodeReading reading({0x1000, bytes});
    REQUIRE(reading.lines() == (bytes + 127) / 128);
    std::vector<std::uint32_t> order(reading.lines());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[dice.below(i)]);
    for (const std::uint32_t line : order) {
      CHECK_FALSE(reading.complete());
      CHECK(reading.address(line) == 0x1000 + 128 * line);
      std::array<std::uint8_t, kCodeAlignment> data{};
      std::copy_n(code.begin() + 128 * line, reading.bytes_of(line), data.begin());
      reading.take(line, data);
    }
    CHECK(reading.complete());
    CHECK(reading.bytes() == code);
    CHECK_THROWS_AS(reading.take(0, {}), CheckFailed);
  }
}

}  // namespace arch_brought_code_test
