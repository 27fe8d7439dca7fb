// What lies in instruction memory, and what launches borrow of it.
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/kernel_object.h"
#include "common/error.h"
#include "support/list_program.h"
#include "support/random.h"

namespace arch_code_store_test {

using namespace heddle;
using namespace heddle::arch;
using heddle::test::ListProgram;
using heddle::test::Random;

namespace {

std::shared_ptr<const WarpProgram> some_program() {
  auto program = std::make_shared<ListProgram>(1);
  program->exit();
  return program;
}

KernelShape kernel_of(const Dim3& grid, const Dim3& block, std::uint32_t shared = 0) {
  KernelShape kernel;
  kernel.grid = grid;
  kernel.block = block;
  kernel.shared_bytes = shared;
  return kernel;
}

// What the numbers should mean, kept the plain way.
struct Expected {
  const WarpProgram* program = nullptr;
  KernelShape kernel;
  WorkItems items;
  std::uint64_t kernarg = 0;
  std::uint32_t of = kNoCode;   // of what is lent: the program
  const Code* place = nullptr;  // where it was when it came
};

void check(const Code& code, const Expected& expected) {
  REQUIRE(&code == expected.place);
  REQUIRE(code.program.get() == expected.program);
  REQUIRE(code.grid == expected.kernel.grid);
  REQUIRE(code.block == expected.kernel.block);
  REQUIRE(code.shared_bytes == expected.kernel.shared_bytes);
  REQUIRE(code.cluster.of(CgaLevel::gpc) == expected.kernel.cluster.of(CgaLevel::gpc));
  REQUIRE(code.items.items == expected.items.items);
  REQUIRE(code.kernarg == expected.kernarg);
}

Dim3 random_extents(Random& random, std::uint32_t most) {
  return {random.between(1, most), random.between(1, most), random.between(1, most)};
}

WorkItems random_items(Random& random, const KernelShape& kernel) {
  if (random.chance(30)) return {};
  const auto covered = [&](std::uint32_t grid, std::uint32_t block) {
    return random.between((grid - 1) * block + 1, grid * block);
  };
  return {{covered(kernel.grid.x, kernel.block.x), covered(kernel.grid.y, kernel.block.y),
           covered(kernel.grid.z, kernel.block.z)}};
}

}  // namespace

TEST_CASE("programs and what is lent of them come and go", "[arch][PKT-03]") {
  for (const std::uint64_t seed : test::seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    CodeStore store;
    std::map<std::uint32_t, Expected> programs;
    std::map<std::uint32_t, Expected> lent;
    std::size_t most = 0;
    std::uint32_t highest = 0;
    for (int round = 0; round < 200; ++round) {
      Expected made;
      made.kernel = kernel_of(random_extents(random, 9), random_extents(random, 9), random.below(1000));
      if (random.chance(30)) made.kernel.cluster.of(CgaLevel::gpc) = random_extents(random, 3);
      const std::uint32_t action = random.below(100);
      if (programs.empty() || action < 10) {
        const auto program = some_program();
        made.program = program.get();
        const std::uint32_t number = store.add(program, made.kernel);
        REQUIRE(number != kNoCode);
        made.place = &store.at(number);
        REQUIRE(lent.count(number) == 0);
        REQUIRE(programs.emplace(number, made).second);
      } else if (action < 55) {
        const auto& [program, known] = *std::next(programs.begin(), random.below(programs.size()));
        made.program = known.program;
        made.items = random_items(random, made.kernel);
        made.of = program;
        made.kernarg = random.chance(50) ? random.next() : 0;
        const std::uint32_t number = store.lend(program, made.kernel, made.items, made.kernarg);
        REQUIRE(number != kNoCode);
        made.place = &store.at(number);
        REQUIRE(programs.count(number) == 0);
        REQUIRE(lent.emplace(number, made).second);
      } else if (action < 94 && !lent.empty()) {
        const auto gone = std::next(lent.begin(), random.below(lent.size()));
        store.give_back(gone->first);
        CHECK_THROWS_AS(store.at(gone->first), CheckFailed);
        CHECK_THROWS_AS(store.give_back(gone->first), CheckFailed);
        lent.erase(gone);
      } else if (action >= 94 && action < 97) {
        const auto gone = std::next(programs.begin(), random.below(programs.size()));
        const std::uint32_t number = gone->first;
        const bool used =
            std::any_of(lent.begin(), lent.end(), [&](const auto& one) { return one.second.of == number; });
        REQUIRE((store.launches(number) > 0) == used);
        if (used) {
          CHECK_THROWS_AS(store.remove(number), CheckFailed);
        } else {
          store.remove(number);
          CHECK_THROWS_AS(store.at(number), CheckFailed);
          programs.erase(gone);
          if (random.chance(50)) {
            const auto program = some_program();
            made.program = program.get();
            const std::uint32_t place = random.chance(50) ? number : number + 1000;
            if (programs.count(place) + lent.count(place) == 0) {
              store.add_at(place, program, made.kernel);
              CHECK_THROWS_AS(store.add_at(place, program, made.kernel), CheckFailed);
              made.place = &store.at(place);
              programs.emplace(place, made);
            }
          }
        }
      } else if (action >= 97) {
        store.reset();
        for (const auto& entry : lent) REQUIRE_THROWS_AS(store.at(entry.first), CheckFailed);
        lent.clear();
      }
      most = std::max(most, lent.size());
      REQUIRE(store.lent() == lent.size());
      for (const auto& [number, expected] : programs) check(store.at(number), expected);
      for (const auto& [number, expected] : lent) check(store.at(number), expected);
      // Numbers are used again: there are never more than were needed at a time, or asked for.
      highest = std::max({highest, programs.empty() ? 0 : programs.rbegin()->first,
                          static_cast<std::uint32_t>(programs.size() + most)});
      const std::uint32_t end = highest;
      REQUIRE((lent.empty() || lent.rbegin()->first <= end));
      for (std::uint32_t number = 0; number <= end + 2; ++number) {
        REQUIRE(store.has(number) == (programs.count(number) > 0));
      }
    }
  }
}

TEST_CASE("a launch lets go of its program when it is given back", "[arch]") {
  CodeStore store;
  auto program = some_program();
  const std::uint32_t number = store.add(program, kernel_of({2, 1, 1}, {3, 1, 1}));
  const long before = program.use_count();
  const std::uint32_t launch = store.lend(number, kernel_of({2, 1, 1}, {3, 1, 1}), {{5, 1, 1}}, 64);
  CHECK(program.use_count() == before + 1);
  store.give_back(launch);
  CHECK(program.use_count() == before);
}

TEST_CASE("what a code store refuses", "[arch]") {
  CodeStore store;
  const KernelShape kernel = kernel_of({3, 2, 1}, {4, 4, 1});
  CHECK_THROWS_AS(store.add(std::shared_ptr<const WarpProgram>(), kernel), CheckFailed);
  CHECK_THROWS_AS(store.at(kNoCode), CheckFailed);
  CHECK_THROWS_AS(store.lend(1, kernel, {}, 0), CheckFailed);
  const std::uint32_t program = store.add(some_program(), kernel);
  const std::uint32_t launch = store.lend(program, kernel, {}, 0);
  CHECK_FALSE(store.has(launch));
  CHECK_THROWS_AS(store.lend(kNoCode, kernel, {}, 0), CheckFailed);
  CHECK_THROWS_AS(store.lend(launch, kernel, {}, 0), CheckFailed);  // a launch is no program
  CHECK_THROWS_AS(store.give_back(program), CheckFailed);
  CHECK_THROWS_AS(store.give_back(kNoCode), CheckFailed);
  CHECK_THROWS_AS(store.give_back(launch + 1), CheckFailed);
  // Work-items that the grid does not cover, or that it covers with CTAs to spare.
  for (const Dim3& items :
       {Dim3{13, 8, 1}, Dim3{8, 8, 1}, Dim3{12, 4, 1}, Dim3{12, 9, 1}, Dim3{12, 8, 2}, Dim3{12, 8, 0}}) {
    CAPTURE(items.x, items.y, items.z);
    CHECK_THROWS_AS(store.lend(program, kernel, {items}, 0), CheckFailed);
  }
  CHECK(store.lent() == 1);
  store.lend(program, kernel, {{9, 5, 1}}, 0);
  store.lend(program, kernel, {{12, 8, 1}}, 0);
  CHECK(store.lent() == 3);
}

TEST_CASE("the blocks of a grid hold every work-item once", "[arch][PKT-03]") {
  for (const std::uint64_t seed : test::seeds(2000)) {
    CAPTURE(seed);
    Random random(seed);
    Code code;
    code.grid = random_extents(random, 4);
    code.block = random_extents(random, 5);
    code.items = random_items(random, kernel_of(code.grid, code.block));
    const Dim3 all = code.items.any()
                         ? code.items.items
                         : Dim3{code.grid.x * code.block.x, code.grid.y * code.block.y, code.grid.z * code.block.z};
    std::set<std::vector<std::uint32_t>> seen;
    for (std::uint32_t cta = 0; cta < code.grid.count(); ++cta) {
      const Dim3 at{cta % code.grid.x, cta / code.grid.x % code.grid.y, cta / code.grid.x / code.grid.y};
      const Dim3 block = code.block_of(at);
      REQUIRE(block.count() > 0);
      REQUIRE(block.x <= code.block.x);
      REQUIRE(block.y <= code.block.y);
      REQUIRE(block.z <= code.block.z);
      for (std::uint32_t thread = 0; thread < block.count(); ++thread) {
        const std::vector<std::uint32_t> item{at.x * code.block.x + thread % block.x,
                                              at.y * code.block.y + thread / block.x % block.y,
                                              at.z * code.block.z + thread / block.x / block.y};
        REQUIRE(item[0] < all.x);
        REQUIRE(item[1] < all.y);
        REQUIRE(item[2] < all.z);
        REQUIRE(seen.insert(item).second);
      }
    }
    REQUIRE(seen.size() == all.count());
    if (code.items.any()) REQUIRE_THROWS_AS(code.block_of({code.grid.x, 0, 0}), CheckFailed);
  }
}

TEST_CASE("work-items whose number does not fit into 64 bits", "[arch][PKT-03]") {
  Code code;
  code.block = {3, 1, 1};
  code.items = {{1U << 31, 1U << 17, 1U << 16}};  // 2^64
  CHECK(code.block_of({(1U << 31) / 3, 0, 0}) == Dim3{2, 1, 1});
  CHECK(code.block_of({0, 5, 7}) == Dim3{3, 1, 1});
  code.block = {1024, 1, 1};
  code.items = {{0xFFFF'FFFF, 1, 1}};
  CHECK(code.block_of({(1U << 22) - 1, 0, 0}) == Dim3{1023, 1, 1});
}

TEST_CASE("the CTAs of a queue task find their entries, round after round", "[arch][TSK-05]") {
  CodeStore store;
  KernelShape kernel;
  kernel.block = {64, 1, 1};
  const std::uint32_t number = store.add(std::make_shared<heddle::test::ListProgram>(1), kernel);
  const std::uint32_t launch = store.lend(number, kernel, QueueGeometry{0x4000, 3});
  const Code& code = store.at(launch);
  CHECK(code.grid.x == kMaxGridX);
  CHECK(code.block_of({7, 0, 0}) == Dim3{64, 1, 1});
  for (std::uint64_t ticket = 0; ticket < 9; ++ticket) {
    CHECK(code.queue.turn(ticket) == 0x4000 + ticket % 3 * 64);
    CHECK(code.kernarg_of(ticket) == 0x4000 + ticket % 3 * 64 + 8);
  }
  CHECK(store.at(number).kernarg_of(5) == 0);
  CHECK_THROWS_AS(store.lend(number, kernel, QueueGeometry{}), CheckFailed);
  store.give_back(launch);
  CHECK(store.lent() == 0);
}

}  // namespace arch_code_store_test
