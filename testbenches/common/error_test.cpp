// What users and maintainers read when something is wrong.
#include "common/error.h"

#include <string>

#include <catch2/catch.hpp>

#include "support/sim_fixture.h"

namespace common_error_test {

using namespace heddle;
using Catch::Contains;
using test::failure_of;

TEST_CASE("a place in a file reads as far as it is known", "[error]") {
  CHECK((SourcePos{"a.yaml", 12, 3}.text()) == "a.yaml:12:3");
  CHECK((SourcePos{"a.yaml", 12, 0}.text()) == "a.yaml:12");
  CHECK((SourcePos{"a.yaml", 0, 7}.text()) == "a.yaml");
  CHECK(SourcePos{}.text().empty());
}

TEST_CASE("an input error says where, what, and what to do", "[error]") {
  const InputError full({"a.yaml", 4, 2}, "unknown key \"smz\"", "did you mean \"sms\"?");
  CHECK(std::string(full.what()) == "a.yaml:4:2: unknown key \"smz\"\n  did you mean \"sms\"?");
  CHECK(full.where().line == 4);
  CHECK(full.message() == "unknown key \"smz\"");
  CHECK(full.remedy() == "did you mean \"sms\"?");
  CHECK(std::string(InputError({"a.yaml", 4, 2}, "bad").what()) == "a.yaml:4:2: bad");
  CHECK(std::string(InputError("bad", "do better").what()) == "bad\n  do better");
  CHECK(std::string(InputError("100 % {} of it").what()) == "100 % {} of it");  // no format string
}

TEST_CASE("a failed check says condition, place and context", "[error]") {
  const int two = 2;
  CHECK_NOTHROW([&] { HEDDLE_CHECK(two == 2, "fine"); }());
  const std::string message = failure_of([&] { HEDDLE_CHECK(two == 3, "two is not three: {}"); });
  CHECK_THAT(message, Contains("two is not three: {}"));
  CHECK_THAT(message, Contains("[two == 3]"));
  CHECK_THAT(message, Contains("error_test.cpp:"));
  CHECK_THAT(message, Contains("outside simulation"));
  CHECK_THROWS_AS(check_failed("c", "f", 1, "m"), CheckFailed);
  CHECK_THROWS_AS(check_failed("c", "f", 1, "m"), std::logic_error);
}

TEST_CASE("a check is one statement and evaluates its condition once", "[error]") {
  int count = 0;
  if (count == 0)
    HEDDLE_CHECK(++count == 1, "once");
  else
    count = 100;
  CHECK(count == 1);
}

TEST_CASE("contexts nest and are put back", "[error]") {
  struct Named final : CheckContext {
    explicit Named(std::string n) : name(std::move(n)) {}
    std::string describe() const override { return name; }
    std::string name;
  };
  const Named outer("outer"), inner("inner");
  const CheckContext* none = exchange_check_context(&outer);
  CHECK(none == nullptr);
  CHECK(exchange_check_context(&inner) == &outer);
  CHECK_THAT(failure_of([] { HEDDLE_CHECK(false, "x"); }), Catch::StartsWith("inner: x"));
  CHECK(exchange_check_context(&outer) == &inner);
  CHECK_THAT(failure_of([] { HEDDLE_CHECK(false, "x"); }), Catch::StartsWith("outer: x"));
  exchange_check_context(none);
}

}  // namespace common_error_test
