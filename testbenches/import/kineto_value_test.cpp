#include <limits>

#include <catch2/catch.hpp>

#include "import/kineto_json.h"

namespace import_kineto_value_test {

using heddle::workload::JsonValue;
using heddle::workload::Nanoseconds;
using Kind = JsonValue::Kind;

namespace {

std::optional<Nanoseconds> decimal(const std::string& text) {
  return JsonValue{Kind::decimal, 0, text}.as_microseconds();
}
std::optional<Nanoseconds> integer(std::int64_t value) { return JsonValue{Kind::integer, value, {}}.as_microseconds(); }
std::optional<Nanoseconds> text(const std::string& value) { return JsonValue{Kind::text, 0, value}.as_microseconds(); }

}  // namespace

TEST_CASE("microseconds become exact nanoseconds", "[workload][INP-01]") {
  CHECK(decimal("3743411222894.405") == 3'743'411'222'894'405);
  CHECK(decimal("1751410836000000.001") == 1'751'410'836'000'000'001);  // a double has 250 ns here
  CHECK(decimal("1751410836000000.999") == 1'751'410'836'000'000'999);
  CHECK(decimal("0.001") == 1);
  CHECK(decimal("0.0005") == 1);
  CHECK(decimal("0.00049999") == 0);
  CHECK(decimal("-12.5") == -12'500);
  CHECK(decimal("17.0") == 17'000);
  CHECK(integer(1'712'867'402'348'289) == 1'712'867'402'348'289'000);
  CHECK(integer(0) == 0);
}

TEST_CASE("microseconds are read in every notation of a number", "[workload][INP-01]") {
  CHECK(decimal("1.5e3") == 1'500'000);
  CHECK(decimal("1E+2") == 100'000);
  CHECK(decimal("25e-4") == 3);
  CHECK(decimal("1e-30") == 0);
  CHECK(decimal("000.0e40") == 0);
  CHECK(text("12.345") == 12'345);
  CHECK(text("7") == 7'000);
  CHECK(decimal("12,345") == 12'345);  // the parser's text under a locale with a decimal comma
}

TEST_CASE("what is no time is told apart", "[workload][INP-07]") {
  for (const char* wrong : {"", "-", ".", "abc", "1.2.3", "1e", "1e+", "1e99", "1e-99", "1e-9223372036854775808", "12 ",
                            " 12", "0x10", "nan", "4000000000000000.001", "99999999999999999999999999"}) {
    CAPTURE(wrong);
    CHECK_FALSE(text(wrong).has_value());
  }
  CHECK(decimal("4000000000000000") == 4'000'000'000'000'000'000);
  CHECK_FALSE(integer(4'000'000'000'000'001).has_value());
  CHECK_FALSE(integer(std::numeric_limits<std::int64_t>::min()).has_value());
  CHECK_FALSE((JsonValue{Kind::boolean, 0, {}}).as_microseconds().has_value());
  CHECK_FALSE(JsonValue{}.as_microseconds().has_value());
}

TEST_CASE("integers are read from whole decimals and text, not from others", "[workload][INP-07]") {
  CHECK(JsonValue{Kind::decimal, 0, "256.0"}.as_integer() == 256);
  CHECK(JsonValue{Kind::text, 0, "-3"}.as_integer() == -3);
  CHECK_FALSE((JsonValue{Kind::decimal, 0, "1.5"}).as_integer().has_value());
  CHECK_FALSE((JsonValue{Kind::decimal, 0, "18446744073709551615"}).as_integer().has_value());
  CHECK_FALSE((JsonValue{Kind::text, 0, "stream 7"}).as_integer().has_value());
  CHECK_FALSE((JsonValue{Kind::text, 0, ""}).as_integer().has_value());
}

}  // namespace import_kineto_value_test
