// Numbers with units, and the search for nearest names.
#include "common/quantity.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"

namespace common_quantity_test {

using namespace heddle;
using Catch::Contains;

namespace {

template <class T>
std::string message(const std::string& text, Limits<T> limits, BareNumber bare = BareNumber::in_own_unit) {
  try {
    parse_quantity(text, limits, bare);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::uint64_t whole(const std::string& text, Unit unit) { return parse_quantity<std::uint64_t>(text, {unit}); }
double real(const std::string& text, Unit unit) { return parse_quantity<double>(text, {unit}); }

}  // namespace

TEST_CASE("bare numbers are in the parameter's own unit", "[common][params]") {
  CHECK(whole("12", Unit::cycles) == 12);
  CHECK(whole("+12", Unit::count) == 12);
  CHECK(whole("1e6", Unit::count) == 1'000'000);
  CHECK(whole("4.0", Unit::count) == 4);
  CHECK(whole("0x10", Unit::none) == 16);
  CHECK(whole("0xffffffffffffffff", Unit::none) == std::numeric_limits<std::uint64_t>::max());
  CHECK(whole("18446744073709551615", Unit::none) == std::numeric_limits<std::uint64_t>::max());
  CHECK(whole("-0", Unit::none) == 0);
  CHECK(parse_quantity<std::int64_t>("-9223372036854775808", {}) == std::numeric_limits<std::int64_t>::min());
  CHECK(real("0.5", Unit::none) == 0.5);
  CHECK(real(".5", Unit::none) == 0.5);
  CHECK(real("-2.5e-3", Unit::none) == -2.5e-3);
}

TEST_CASE("units of one family are converted exactly", "[common][params]") {
  CHECK(whole("228 KiB", Unit::bytes) == 228 * 1024);
  CHECK(whole("1.5 KiB", Unit::bytes) == 1536);
  CHECK(whole("1.5KiB", Unit::bytes) == 1536);
  CHECK(whole("4096 B", Unit::kib) == 4);
  CHECK(whole("80 GiB", Unit::mib) == 81'920);
  CHECK(whole("600 ns", Unit::ns) == 600);
  CHECK(whole("0.6 us", Unit::ns) == 600);
  CHECK(whole("0.6 \u00b5s", Unit::ns) == 600);
  CHECK(whole("1000 ps", Unit::ns) == 1);
  CHECK(whole("2 s", Unit::ps) == 2'000'000'000'000);
  CHECK(whole("12 cycles", Unit::cycles) == 12);
  CHECK(whole("1 cycle", Unit::cycles) == 1);
  CHECK(real("1.755 GHz", Unit::mhz) == 1755.0);
  CHECK(real("1755 MHz", Unit::ghz) == 1.755);
  CHECK(real("2 /cycle", Unit::per_cycle) == 2.0);
  CHECK(real("64 B/cycle", Unit::bytes_per_cycle) == 64.0);
  CHECK(real("2 %", Unit::percent) == 2.0);
  CHECK(real("1 B", Unit::kib) == 1.0 / 1024);
}

TEST_CASE("units of other families are refused", "[common][params]") {
  CHECK_THAT(message<std::uint64_t>("12 ns", {Unit::cycles}), Contains("12 ns is in ns, cycles is expected"));
  CHECK_THAT(message<std::uint64_t>("12 cycles", {Unit::ns}), Contains("ps, ns, us, ms, s"));
  CHECK_THAT(message<std::uint64_t>("12 ns", {Unit::count}), Contains("a number without unit is expected"));
  CHECK_THAT(message<std::uint64_t>("12 KB", {Unit::bytes}), Contains("\"KB\"") && Contains("B, KiB, MiB, GiB"));
  CHECK_THAT(message<double>("50 %", {Unit::ghz}), Contains("is in %"));
  CHECK_THAT(message<double>("1 MHZ", {Unit::ghz}), Contains("not a known unit"));
}

TEST_CASE("numbers that do not fit are refused, never rounded", "[common][params]") {
  CHECK_THAT(message<std::uint32_t>("1.5", {}), Contains("1.5 is not a whole number"));
  CHECK_THAT(message<std::uint32_t>("1500 ps", {Unit::ns}), Contains("is not a whole number of ns"));
  CHECK_THAT(message<std::uint32_t>("1e-3", {}), Contains("not a whole number"));
  CHECK_THAT(message<std::uint32_t>("-1", {}), Contains("-1 is negative"));
  CHECK_THAT(message<std::uint32_t>("4294967296", {}), Contains("out of range"));
  CHECK_THAT(message<std::uint64_t>("18446744073709551616", {}), Contains("out of range"));
  CHECK_THAT(message<std::uint64_t>("1e99999999999", {}), Contains("out of range"));
  CHECK_THAT(message<std::uint64_t>("1e-99999999999", {}), Contains("not a whole number"));
  CHECK_THAT(message<std::int64_t>("-9223372036854775809", {}), Contains("out of range"));
  CHECK_THAT(message<std::int64_t>("9223372036854775808", {}), Contains("out of range"));
  CHECK_THAT(message<std::uint32_t>("0", {Unit::cycles, 1, 10}), Contains("out of range"));
  CHECK_THAT(message<std::uint32_t>("11 cycles", {Unit::cycles, 1, 10}), Contains("11 cycles is out of range"));
  CHECK_THAT(message<double>(".nan", {}), Contains("not a finite number"));
  CHECK_THAT(message<double>("nan", {}), Contains("not a finite number"));
  CHECK_THAT(message<double>("-.inf", {}), Contains("not a finite number"));
  CHECK_THAT(message<double>("1e400", {}), Contains("out of range"));
  CHECK_THAT(message<double>("1e308 GiB", {Unit::bytes}), Contains("out of range"));
  CHECK_THAT(message<double>("2", {Unit::none, 0.0, 1.0}), Contains("out of range"));
  for (const char* text : {"", " ", "ns", "abc", "-", ".", "e5", "1 2", "1..2", "0x", "0xg", "--1", "1,5", "010"}) {
    INFO(text);
    CHECK(message<std::uint32_t>(text, {}) != "accepted");
    CHECK(message<double>(text, {}) != "accepted");
  }
}

TEST_CASE("a unit can be required", "[common][params]") {
  CHECK_THAT(message<std::uint64_t>("12", {Unit::ns}, BareNumber::refused), Contains("12 has no unit"));
  CHECK(parse_quantity<std::uint64_t>("0", {Unit::ns}, BareNumber::refused) == 0);
}

TEST_CASE("printed numbers read back as the same number", "[common][params]") {
  test::Random random(GENERATE(1U, 2U, 3U));
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t bits = random.next() >> random.below(64);
    CHECK(parse_quantity<std::uint64_t>(number_text(bits), {}) == bits);
    const auto integer = static_cast<std::int64_t>(bits) * (random.chance(50) ? 1 : -1);
    CHECK(parse_quantity<std::int64_t>(number_text(integer), {}) == integer);
    const double value = std::ldexp(static_cast<double>(bits), static_cast<int>(random.below(600)) - 300);
    CHECK(parse_quantity<double>(number_text(value), {}) == value);
  }
}

TEST_CASE("ranges read like sentences", "[common][params]") {
  CHECK(range_text(Limits<std::uint32_t>{Unit::cycles, 1, 10'000}) == "1 to 10000 cycles");
  CHECK(range_text(Limits<std::uint64_t>{Unit::bytes}) == "at least 0 B");
  CHECK(range_text(Limits<std::int64_t>{}) == "any integer");
  CHECK(range_text(Limits<double>{Unit::ghz, 0.1, 10.0}) == "0.1 to 10 GHz");
  CHECK(range_text(Limits<double>{}) == "any number");
}

TEST_CASE("the nearest name is found", "[common][params]") {
  const std::vector<std::string> names = {"session_cycles", "level_search", "max_slots", "x"};
  CHECK(nearest("sesion_cycles", names) == "session_cycles");
  CHECK(nearest("session-cycles", names) == "session_cycles");
  CHECK(nearest("SESSION_CYCLES", names) == "session_cycles");
  CHECK(nearest("slots", names) == "max_slots");
  CHECK(nearest("banana", names).empty());
  CHECK(nearest("", names).empty());
  CHECK(nearest(std::string(100'000, 'a'), names).empty());
  CHECK(edit_distance("abcd", "abdc") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("", "abc") == 3);
  CHECK_THAT(suggestion("levl_search", names), Contains("did you mean level_search?"));
  CHECK_THAT(suggestion("banana", names), Contains("known: session_cycles"));
}

}  // namespace common_quantity_test
