// Memory for big arrays: zero, aligned, one array apart from another, also after many were given back.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/storage.h"
#include "support/random.h"

namespace common_big_memory_test {

using namespace heddle;

TEST_CASE("big memory: arrays are zero and aligned, and keep their bytes until they are given back", "[common]") {
  struct Array {
    std::uint8_t* bytes;
    std::size_t size;
    std::uint8_t mark;
  };
  const std::uint64_t seed = test::seed();
  CAPTURE(seed);
  test::Random dice(seed);
  std::vector<Array> arrays;
  const auto give_back = [&](std::size_t index) {
    const Array array = arrays[index];
    const auto same = [&array](std::uint8_t byte) { return byte == array.mark; };
    REQUIRE(std::all_of(array.bytes, array.bytes + array.size, same));
    give_back_big(array.bytes, array.size);
    arrays.erase(arrays.begin() + static_cast<std::ptrdiff_t>(index));
  };
  for (int i = 0; i < 400; ++i) {
    if (arrays.size() > 20) give_back(dice.below(arrays.size()));
    // Small ones, some that are cut from a chunk, of sizes that come again, and now and then one larger than that.
    const std::size_t size = i % 100 == 50 ? 40'000'000 + dice.below(100) : std::size_t{1} << dice.below(18);
    auto* bytes = static_cast<std::uint8_t*>(take_big(size));
    REQUIRE(reinterpret_cast<std::uintptr_t>(bytes) % 64 == 0);
    REQUIRE(std::all_of(bytes, bytes + size, [](std::uint8_t byte) { return byte == 0; }));
    const auto mark = static_cast<std::uint8_t>(1 + i % 255);
    std::memset(bytes, mark, size);
    arrays.push_back({bytes, size, mark});
  }
  while (!arrays.empty()) give_back(0);
}

TEST_CASE("big memory: an array that moves is given back once, and a new one is zero", "[common]") {
  ZeroedArray<std::uint32_t> array(10'000);
  array[9'999] = 7;
  ZeroedArray<std::uint32_t> moved = std::move(array);
  REQUIRE(moved[9'999] == 7);
  moved = ZeroedArray<std::uint32_t>(10'000);
  REQUIRE(moved[9'999] == 0);

  BigVector<std::uint64_t> vector(5'000, 3);
  vector.resize(50'000, 4);
  REQUIRE(vector[4'999] == 3);
  REQUIRE(vector[49'999] == 4);
}

}  // namespace common_big_memory_test
