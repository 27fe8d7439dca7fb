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

TEST_CASE("the launch port keeps the slower of its two rates", "[cwd]") {
  for (const std::uint64_t seed : heddle::test::seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    const double packets_per_cycle = random.chance(20) ? 0 : random.between(5, 4000) / 1000.0;
    const double ctas_per_cycle = random.chance(20) ? 0 : random.between(5, 16'000) / 1000.0;
    const std::uint32_t ctas = random.between(1, 18);
    LaunchPort port(packets_per_cycle, ctas_per_cycle);
    constexpr std::uint32_t kPackets = 20'000;
    LaunchPort::Item item;
    item.packet.num_ctas = ctas;
    for (std::uint32_t i = 0; i < kPackets; ++i) port.push(item);
    const std::uint64_t begin = random.below(1'000'000);
    std::uint64_t now = begin;
    while (!port.empty()) {
      const std::uint64_t ready = port.ready(now);
      REQUIRE(ready >= now);
      now = ready;
      port.pop(now);
    }
    const double packet_cycles = packets_per_cycle > 0 ? 1 / packets_per_cycle : 0;
    const double cta_cycles = ctas_per_cycle > 0 ? ctas / ctas_per_cycle : 0;
    const double wanted = std::max(packet_cycles, cta_cycles) * (kPackets - 1);
    const double taken = static_cast<double>(now - begin);
    CAPTURE(packets_per_cycle, ctas_per_cycle, ctas, wanted, taken);
    // The port counts in 1/65536 cycles: half of one is the error per packet, or per CTA.
    const double tolerance = 1.0 + kPackets * ctas * 0.5 / 65'536;
    REQUIRE(std::abs(taken - wanted) <= tolerance);
  }
}

TEST_CASE("the highest rates are limits, too", "[cwd]") {
  LaunchPort port(0, 4096);
  LaunchPort::Item item;
  item.packet.num_ctas = 64;
  for (int i = 0; i < 6400; ++i) port.push(item);
  std::uint64_t now = 0;
  while (!port.empty()) port.pop(now = port.ready(now));
  CHECK(now == 99);
}

TEST_CASE("an idle launch port saves nothing up", "[cwd]") {
  LaunchPort port(0.5, 0);
  LaunchPort::Item item;
  item.packet.num_ctas = 4;
  port.push(item);
  port.push(item);
  CHECK(port.ready(1000) == 1000);
  port.pop(1000);
  CHECK(port.ready(1000) == 1002);
  CHECK(port.ready(1001) == 1002);
  CHECK(port.ready(2000) == 2000);
  port.pop(2000);
  CHECK(port.empty());
  port.push(item);
  CHECK(port.ready(2000) == 2002);
  port.reset();
  CHECK(port.empty());
  CHECK(port.ready(0) == 0);
}

}  // namespace cwd_table_and_port_test
