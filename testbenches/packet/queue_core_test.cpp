// The queue's core against the rules of the ring, played by an oracle that keeps every packet in a list.
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "packet/decoder.h"
#include "packet/queue_table.h"
#include "support/random.h"

namespace packet_queue_core_test {

using heddle::arch::PacketBytes;
using heddle::packet::QueueArbiter;
using heddle::packet::QueueCore;
using namespace heddle::test;

namespace {

struct Player {
  QueueCore core;
  std::uint64_t first = 0;
  std::uint32_t size = 0;
  std::uint32_t ahead = 0;
  std::uint64_t told = 0;       // packets told of, beyond first
  std::vector<bool> published;  // by packet, beyond first
  std::set<std::uint64_t> reading;
  std::set<std::uint64_t> uncleared;
  std::set<std::uint64_t> incomplete;
  std::uint64_t begun = 0;
  std::set<std::uint64_t> cleared;

  std::uint64_t read_index() const { return uncleared.empty() ? begun : *uncleared.begin(); }
};

std::uint64_t pick(Random& random, const std::set<std::uint64_t>& from) {
  auto at = from.begin();
  std::advance(at, random.below(from.size()));
  return *at;
}

PacketBytes stamped(std::uint64_t number) {
  PacketBytes bytes{};
  for (std::size_t i = 0; i < 8; ++i) bytes[8 + i] = static_cast<std::uint8_t>(number >> 8 * i);
  return bytes;
}

}  // namespace

TEST_CASE("a queue follows the rules of its ring", "[packet][PKT-01][PKT-04]") {
  for (const std::uint64_t seed : seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    Player p;
    p.first = random.chance(50) ? 0 : random.next() >> 20;
    p.size = 1U << random.between(1, 5);
    p.ahead = random.between(1, 12);
    p.core.open(p.first, p.size, p.ahead);
    std::uint64_t cycle = 1;
    bool turn = false;
    for (std::uint32_t step = 0; step < 600; ++step, ++cycle) {
      switch (random.below(9)) {
        case 0: {  // a doorbell, new or old; the producer never gets ahead of the ring
          const std::uint64_t most = p.read_index() + p.size;
          const std::uint64_t index = random.below(most);
          const bool news = index + 1 > p.told && index >= p.begun;
          REQUIRE(p.core.ring(p.first + index, cycle) == news);
          if (news) p.told = index + 1;
          break;
        }
        case 1:
          p.published.resize(std::max<std::size_t>(p.published.size(), p.read_index() + p.size), false);
          p.published[p.read_index() + random.below(p.size)] = true;
          break;
        case 2:
        case 3: {
          const auto index = p.core.next_read();
          if (!index) break;
          const std::uint64_t packet = *index - p.first;
          REQUIRE(packet >= p.begun);
          REQUIRE(packet < p.told);
          REQUIRE(packet < p.begun + p.ahead);
          REQUIRE(packet < p.read_index() + p.size);
          REQUIRE(p.reading.insert(packet).second);
          break;
        }
        case 4:
        case 5: {
          if (p.reading.empty()) break;
          const std::uint64_t packet = pick(random, p.reading);
          p.reading.erase(packet);
          const bool there = packet < p.published.size() && p.published[packet];
          p.core.arrived(p.first + packet, there ? QueueCore::Slot::published : QueueCore::Slot::unpublished,
                         stamped(packet), cycle);
          break;
        }
        case 6: {
          if (p.core.wants_retry() && random.chance(50)) REQUIRE(p.core.retry().has_value());
          const QueueCore::Fetched* front = p.core.front();
          REQUIRE((front == nullptr || !turn));
          if (front == nullptr || front->slot != QueueCore::Slot::published) break;
          REQUIRE(p.core.front_index() == p.first + p.begun);
          REQUIRE(p.core.front_is_oldest() == p.incomplete.empty());
          const QueueCore::Fetched fetched = p.core.take_head();
          REQUIRE(fetched.bytes == stamped(p.begun));
          REQUIRE(fetched.doorbell <= fetched.fetched);
          REQUIRE(fetched.doorbell > 0);
          p.uncleared.insert(p.begun);
          p.incomplete.insert(p.begun);
          ++p.begun;
          turn = true;
          break;
        }
        case 7: {
          if (turn && random.chance(50)) {
            p.core.release_head();
            turn = false;
          }
          if (p.uncleared.empty()) break;
          const std::uint64_t packet = pick(random, p.uncleared);
          const bool moves = packet == *p.uncleared.begin();
          p.uncleared.erase(packet);
          REQUIRE(p.core.cleared(p.first + packet) == moves);
          break;
        }
        default: {
          if (p.incomplete.empty()) break;
          const std::uint64_t packet = pick(random, p.incomplete);
          if (turn && packet + 1 == p.begun) break;
          p.incomplete.erase(packet);
          p.core.complete(p.first + packet);
        }
      }
      REQUIRE(p.core.read_index() == p.first + p.read_index());
      REQUIRE(p.core.open_packets() == p.incomplete.size());
      REQUIRE(p.core.oldest() == p.first + (p.incomplete.empty() ? p.begun : *p.incomplete.begin()));
    }
  }
}

TEST_CASE("all published packets of a queue become its head in the end", "[packet][PKT-01]") {
  for (const std::uint64_t seed : seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    QueueCore core;
    const std::uint32_t size = 1U << random.between(1, 4);
    core.open(0, size, random.between(1, 10));
    const std::uint32_t count = random.between(1, 60);
    std::vector<std::uint64_t> when(count);  // round in which it is published
    for (auto& round : when) round = random.below(200);
    std::vector<std::uint64_t> reading;
    std::uint64_t begun = 0;
    std::uint64_t round = 0;
    for (; begun < count && round < 100'000; ++round) {
      core.ring(std::min<std::uint64_t>(count, core.read_index() + size) - 1, round);
      while (const auto index = core.next_read()) reading.push_back(*index);
      random.shuffle(reading);
      if (!reading.empty()) {
        const std::uint64_t index = reading.back();
        reading.pop_back();
        core.arrived(index, when[index] <= round ? QueueCore::Slot::published : QueueCore::Slot::unpublished, {},
                     round);
      }
      if (core.wants_retry()) core.retry();
      const QueueCore::Fetched* front = core.front();
      if (front == nullptr || front->slot != QueueCore::Slot::published) continue;
      core.take_head();
      core.release_head();
      core.cleared(begun);
      core.complete(begun++);
    }
    REQUIRE(begun == count);
  }
}

TEST_CASE("a doorbell beyond all indices asks for no more than the ring has", "[packet][PKT-01]") {
  QueueCore core;
  core.open(5, 4, 100);
  REQUIRE(core.ring(~std::uint64_t{0}, 1));
  std::uint32_t reads = 0;
  while (core.next_read()) ++reads;
  REQUIRE(reads == 4);
  core.stop();
  REQUIRE_FALSE(core.next_read());
  REQUIRE_FALSE(core.ring(7, 1));
}

TEST_CASE("equals take turns, and the most urgent goes first", "[packet][PKT-10]") {
  SECTION("round robin: nobody is served twice while another waits") {
    QueueArbiter order(5, false);
    for (std::uint32_t queue = 0; queue < 5; ++queue) order.set_priority(queue, static_cast<std::int32_t>(queue));
    for (std::uint32_t queue = 0; queue < 5; ++queue) order.request(queue);
    for (std::uint32_t i = 0; i < 50; ++i) {
      const std::uint32_t served = order.grant().value();
      REQUIRE(served == i % 5);
      order.request(served);
    }
  }
  SECTION("random: against the rule itself") {
    for (const std::uint64_t seed : seeds(200)) {
      CAPTURE(seed);
      Random random(seed);
      const std::uint32_t queues = random.between(1, 64);
      const bool by_priority = random.chance(50);
      QueueArbiter order(queues, by_priority);
      std::vector<std::int32_t> priority(queues);
      std::vector<bool> wants(queues, false);
      std::uint32_t last = queues - 1;
      for (std::uint32_t queue = 0; queue < queues; ++queue) {
        priority[queue] = static_cast<std::int32_t>(random.below(3)) - 1;
        order.set_priority(queue, priority[queue]);
      }
      for (std::uint32_t step = 0; step < 300; ++step) {
        const std::uint32_t queue = random.below(queues);
        if (random.chance(60)) {
          order.request(queue);
          wants[queue] = true;
          continue;
        }
        if (random.chance(20)) {
          order.withdraw(queue);
          wants[queue] = false;
          continue;
        }
        std::optional<std::uint32_t> expected;
        std::uint32_t best_distance = 0;
        for (std::uint32_t other = 0; other < queues; ++other) {
          if (!wants[other]) continue;
          const std::uint32_t distance = (other + queues - last - 1) % queues;
          const std::int32_t more = !expected || !by_priority ? 0 : priority[other] - priority[*expected];
          if (expected && (more < 0 || (more == 0 && distance > best_distance))) continue;
          expected = other;
          best_distance = distance;
        }
        REQUIRE(order.grant() == expected);
        if (!expected) continue;
        wants[*expected] = false;
        last = *expected;
      }
    }
  }
}

}  // namespace packet_queue_core_test
