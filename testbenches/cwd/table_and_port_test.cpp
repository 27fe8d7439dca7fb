// The task table's order, and the rates of the launch port.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "cwd/launcher.h"
#include "cwd/task_table.h"
#include "support/random.h"

namespace cwd_table_and_port_test {

using heddle::CheckFailed;
using heddle::Cycle;
using heddle::cwd::LaunchItem;
using heddle::cwd::LaunchPort;
using heddle::cwd::TaskTable;
using heddle::protocol::TaskPacket;
using heddle::test::Random;

namespace {

TaskPacket task(std::uint32_t operation, std::int32_t priority, std::uint32_t ctas = 1) {
  TaskPacket packet;
  packet.operation = operation;
  packet.priority = priority;
  packet.grid = {ctas, 1, 1};
  return packet;
}

}  // namespace

TEST_CASE("the task table orders by priority, then by arrival", "[cwd]") {
  for (const std::uint64_t seed : heddle::test::seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    struct Model {
      std::uint32_t operation;
      std::int32_t priority;
      std::uint32_t slot;
      bool waiting;
    };
    std::vector<Model> model;  // in order of arrival
    const std::uint32_t slots = random.between(1, 12);
    TaskTable table(slots);
    for (std::uint32_t step = 0; step < 200; ++step) {
      if (random.chance(50) && model.size() < slots) {
        const std::int32_t priority = static_cast<std::int32_t>(random.below(5)) - 2;
        const std::uint32_t slot = table.insert(task(step, priority));
        for (const Model& other : model) REQUIRE(other.slot != slot);
        REQUIRE(slot < slots);
        model.push_back({step, priority, slot, true});
      } else if (!model.empty()) {
        const std::uint32_t which = random.below(model.size());
        if (model[which].waiting) {
          table.all_placed(model[which].slot);
          model[which].waiting = false;
        } else {
          CHECK_THROWS_AS(table.remove(model[which].slot), CheckFailed);
          table.at(model[which].slot).completed = 1;
          table.remove(model[which].slot);
          model.erase(model.begin() + which);
        }
      }
      std::vector<Model> sorted = model;
      std::stable_sort(sorted.begin(), sorted.end(),
                       [](const Model& a, const Model& b) { return a.priority > b.priority; });
      std::vector<std::uint32_t> waiting;
      for (const Model& entry : sorted) {
        if (entry.waiting) waiting.push_back(entry.slot);
        REQUIRE(table.at(entry.slot).task.operation == entry.operation);
      }
      REQUIRE(table.waiting() == waiting);
      REQUIRE(table.used().size() == model.size());
    }
    table.reset();
    CHECK(table.used().empty());
    CHECK(table.waiting().empty());
    for (std::uint32_t i = 0; i < slots; ++i) CHECK(table.insert(task(i, 0)) == i);
    CHECK_THROWS_AS(table.insert(task(99, 0)), CheckFailed);
  }
}

TEST_CASE("the launch port is busy with a packet for its cycles", "[cwd][CWD-34]") {
  for (const std::uint64_t seed : heddle::test::seeds(100)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t lanes = random.between(1, 5);
    LaunchPort port(lanes, 0);
    std::vector<std::vector<std::uint64_t>> waiting(lanes);  // numbers, by lane
    std::uint64_t now = random.below(1'000'000);
    std::uint64_t number = 0;
    std::uint64_t left = 0;  // packets that have left
    std::uint64_t free_from = 0;
    for (int step = 0; step < 500; ++step) {
      if (random.chance(60)) {
        LaunchItem item;
        item.cycles = random.below(4);
        item.session = number;
        const std::uint32_t lane = random.below(lanes);
        waiting[lane].push_back(number++);
        port.push(std::move(item), lane);
        continue;
      }
      now += random.below(3);
      const std::uint64_t closed = random.below(lanes + 1);  // a lane that may not send
      std::uint32_t asked = 0;
      const auto lane = port.next(now, [&](const LaunchItem& item) {
        ++asked;
        return closed >= lanes || waiting[closed].empty() || item.session != waiting[closed].front();
      });
      if (!lane) continue;
      REQUIRE(asked <= lanes);
      REQUIRE(*lane != closed);
      REQUIRE(port.ready(now) == std::max(now, free_from));
      now = port.ready(now);
      const LaunchItem item = port.pop(*lane, now);
      free_from = now + item.cycles;
      REQUIRE(item.session == waiting[*lane].front());  // in order within a lane
      waiting[*lane].erase(waiting[*lane].begin());
      ++left;
    }
    std::size_t rest = 0;
    for (const auto& lane : waiting) rest += lane.size();
    REQUIRE(rest + left == number);
    REQUIRE(port.empty() == (rest == 0));
    port.reset();
    REQUIRE(port.empty());
    REQUIRE(port.ready(0) == 0);
  }
}

TEST_CASE("the launch port keeps the rate of the tables", "[cwd][CWD-34]") {
  for (const std::uint64_t seed : heddle::test::seeds(100)) {
    CAPTURE(seed);
    Random random(seed);
    const double commits = random.between(5, 16'000) / 1000.0;
    const std::uint32_t ctas = random.between(1, 18);
    const Cycle cycles = random.below(20);
    LaunchPort port(1, commits);
    constexpr std::uint32_t kPackets = 5'000;
    for (std::uint32_t i = 0; i < kPackets; ++i) {
      LaunchItem item;
      item.packet.num_ctas = ctas;
      item.cycles = cycles;
      port.push(std::move(item), 0);
    }
    const Cycle begin = random.below(1'000'000);
    Cycle now = begin;
    while (!port.empty()) port.pop(0, now = port.ready(now));
    const double wanted = std::max(static_cast<double>(cycles), ctas / commits) * (kPackets - 1);
    CAPTURE(commits, ctas, cycles, wanted, now - begin);
    REQUIRE(std::abs(static_cast<double>(now - begin) - wanted) <= 1.0 + kPackets * ctas * 0.5 / 65'536);
  }
}

TEST_CASE("lanes of the launch port take turns", "[cwd][CWD-43]") {
  LaunchPort port(3, 0);
  for (std::uint64_t i = 0; i < 9; ++i) {
    LaunchItem item;
    item.session = i;
    port.push(std::move(item), static_cast<std::uint32_t>(i / 3));
  }
  std::vector<std::uint64_t> order;
  while (!port.empty()) {
    const auto lane = port.next(0, [](const LaunchItem&) { return true; });
    REQUIRE(lane.has_value());
    order.push_back(port.pop(*lane, 0).session);
  }
  CHECK(order == std::vector<std::uint64_t>{0, 3, 6, 1, 4, 7, 2, 5, 8});
  CHECK_FALSE(port.next(0, [](const LaunchItem&) { return true; }).has_value());
}

}  // namespace cwd_table_and_port_test
