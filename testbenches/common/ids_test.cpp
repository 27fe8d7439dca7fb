// What the compiler lets pass between the numbers of packets, and what not.
#include "protocol/ids.h"

#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace common_ids_test {

using heddle::protocol::CgaId;
using heddle::protocol::SmId;
using heddle::protocol::SmInGpc;

namespace {

template <class A, class B, class = void>
struct Compares : std::false_type {};
template <class A, class B>
struct Compares<A, B, std::void_t<decltype(std::declval<A>() == std::declval<B>())>> : std::true_type {};

template <class A, class B, class = void>
struct Differs : std::false_type {};
template <class A, class B>
struct Differs<A, B, std::void_t<decltype(std::declval<A>() != std::declval<B>())>> : std::true_type {};

}  // namespace

TEST_CASE("a number becomes an id only where the code says so", "[common]") {
  STATIC_REQUIRE(std::is_constructible_v<SmId, std::uint32_t>);
  STATIC_REQUIRE(std::is_constructible_v<SmId, std::size_t>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<std::uint32_t, SmId>);
  STATIC_REQUIRE_FALSE(std::is_assignable_v<SmId&, std::uint32_t>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<SmId, double>);
  STATIC_REQUIRE(std::is_convertible_v<SmId, std::uint32_t>);
}

TEST_CASE("an id of one kind is none of another", "[common]") {
  STATIC_REQUIRE(std::is_copy_constructible_v<SmId>);
  STATIC_REQUIRE_FALSE(std::is_constructible_v<SmId, SmInGpc>);
  STATIC_REQUIRE_FALSE(std::is_assignable_v<SmId&, SmInGpc>);
  STATIC_REQUIRE(Compares<SmId, SmId>::value);
  STATIC_REQUIRE(Compares<SmId, std::uint32_t>::value);
  STATIC_REQUIRE_FALSE(Compares<SmId, SmInGpc>::value);
  STATIC_REQUIRE_FALSE(Differs<SmId, CgaId>::value);
}

TEST_CASE("an id costs what its number costs, and reads as it", "[common]") {
  STATIC_REQUIRE(sizeof(SmId) == sizeof(std::uint32_t));
  STATIC_REQUIRE(std::is_trivially_copyable_v<SmId>);
  CHECK(SmId() == 0);
  const std::vector<std::string> names{"a", "b", "c"};
  CHECK(names[SmInGpc(2)] == "c");
  CHECK(SmId(7) == SmId(7));
  CHECK(SmId(7) != SmId(8));
  CHECK(SmId(7).value() == 7);
  CHECK(std::set<CgaId>{CgaId(3), CgaId(1), CgaId(3)}.size() == 2);
}

}  // namespace common_ids_test
