// The table of a GPC's CGAs against sets and maps that are kept by hand.
#include "gpc/cga_table.h"

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace gpc_cga_table_test {

using heddle::CheckFailed;
using heddle::gpc::CgaTable;
using heddle::gpc::FreeVector;
using heddle::test::Random;

TEST_CASE("a free vector gives its lowest free number", "[gpc]") {
  for (const std::uint32_t size : {1U, 2U, 63U, 64U, 65U, 200U, 256U}) {
    CAPTURE(size);
    FreeVector numbers(size);
    std::set<std::uint32_t> used;
    Random random(size);
    for (int step = 0; step < 5000; ++step) {
      REQUIRE(numbers.any() == (used.size() < size));
      if (numbers.any() && (used.empty() || random.chance(53))) {
        std::uint32_t lowest = 0;
        while (used.count(lowest) != 0) ++lowest;
        REQUIRE(numbers.take() == lowest);
        used.insert(lowest);
      } else {
        auto which = used.begin();
        std::advance(which, random.below(used.size()));
        numbers.give(*which);
        REQUIRE_THROWS_AS(numbers.give(*which), CheckFailed);
        used.erase(which);
      }
      REQUIRE(numbers.used() == used.size());
    }
    while (numbers.any()) numbers.take();
    CHECK(numbers.used() == size);
    CHECK_THROWS_AS(numbers.take(), CheckFailed);
    CHECK_THROWS_AS(numbers.give(size), CheckFailed);
    numbers.reset();
    CHECK(numbers.used() == 0);
    CHECK(numbers.take() == 0);
  }
  CHECK_THROWS_AS(FreeVector(0), CheckFailed);
  CHECK_THROWS_AS(FreeVector(257), CheckFailed);
}

TEST_CASE("a CGA keeps its id and its barrier slot until it is closed", "[gpc][CGA-01][CGA-02]") {
  for (const std::uint64_t seed : heddle::test::seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t ids = random.between(1, 12);
    const std::uint32_t barriers = random.between(1, 12);
    CgaTable table(ids, barriers, 16);
    struct Known {
      std::uint32_t slot, ctas, launched, completed;
      std::uint64_t sequence;
    };
    std::map<std::uint32_t, Known> open;
    for (int step = 0; step < 500; ++step) {
      REQUIRE(table.open() == open.size());
      REQUIRE(table.id_free() == (open.size() < ids));
      REQUIRE(table.barrier_free() == (open.size() < barriers));
      if (open.size() < std::min(ids, barriers) && random.chance(30)) {
        const Known known{random.below(9), random.between(1, 16), 0, 0, random.next()};
        const std::uint32_t id =
            table.open(heddle::protocol::TaskSlot(known.slot), known.slot + 7, known.sequence, known.ctas, 0);
        REQUIRE(id < ids);
        REQUIRE(table.is_open(id));
        REQUIRE(open.emplace(id, known).second);
        std::set<std::uint32_t> slots;
        for (const auto& [other, unused] : open) slots.insert(table.cga(other).barrier_slot);
        REQUIRE(slots.size() == open.size());
        REQUIRE(*slots.rbegin() < barriers);
        continue;
      }
      if (open.empty()) continue;
      auto which = open.begin();
      std::advance(which, random.below(open.size()));
      auto& [id, known] = *which;
      if (known.launched < known.ctas && random.chance(60)) {
        const std::uint32_t ctas = random.between(1, known.ctas - known.launched);
        table.launch(id, ((1ULL << ctas) - 1) << known.launched);  // one on each SM
        known.launched += ctas;
      } else if (known.completed < known.launched) {
        ++known.completed;
        REQUIRE(table.complete(id, known.completed - 1, known.completed - 1, 0).last ==
                (known.completed == known.ctas));
      } else if (known.completed == known.ctas) {
        const CgaTable::Cga closed = table.close(id);
        REQUIRE(closed.slot == known.slot);
        REQUIRE(closed.operation == known.slot + 7);
        REQUIRE(closed.sequence == known.sequence);
        REQUIRE_FALSE(table.is_open(id));
        REQUIRE_THROWS_AS(table.barrier(id), CheckFailed);
        open.erase(which);
      } else {
        REQUIRE_THROWS_AS(table.complete(id, known.completed, known.completed % 16, 0), CheckFailed);
        REQUIRE_THROWS_AS(table.close(id), CheckFailed);
        REQUIRE_THROWS_AS(table.launch(id, (2ULL << (known.ctas - known.launched)) - 1), CheckFailed);
      }
    }
  }
}

// [0241], [0258]: an SM keeps its slot for a CGA until it is sure that none of its CTAs will be here any more.
TEST_CASE("the sm_cga_slot of an SM is free with the last CTA there, others with the last of all", "[gpc][CGA-11]") {
  CgaTable table(4, 4, 5);
  const std::uint32_t id = table.open(heddle::protocol::TaskSlot(0), 7, 1, 4, 0);
  table.launch(id, 0b00111);
  for (std::uint32_t rank = 0; rank < 3; ++rank) table.enter(id, rank, 10);
  // The fourth has not been launched: it may come to any SM.
  CHECK(table.complete(id, 0, 0, 20).slots == 0);
  table.launch(id, 0b00100);
  table.enter(id, 3, 40);
  // It is not known everywhere before cycle 40.
  CHECK(table.complete(id, 1, 1, 39).slots == 0);
  // Another of its CTAs is on that SM.
  CHECK(table.complete(id, 2, 2, 41).slots == 0);
  const CgaTable::Completed last = table.complete(id, 3, 2, 50);
  CHECK(last.last);
  CHECK(last.slots == 0b11111);
  table.close(id);

  const std::uint32_t next = table.open(heddle::protocol::TaskSlot(0), 7, 2, 2, 0);
  table.launch(next, 0b01010);
  for (std::uint32_t rank = 0; rank < 2; ++rank) table.enter(next, rank, 10);
  const CgaTable::Completed first = table.complete(next, 0, 1, 10);
  CHECK_FALSE(first.last);
  CHECK(first.slots == 0b00010);
  CHECK(table.complete(next, 1, 3, 11).slots == 0b11101);
}

}  // namespace gpc_cga_table_test
