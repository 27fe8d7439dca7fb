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
  std::uint64_t told = 0;  // packets told of, beyond first
  std::uint64_t bells = 0;
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
        case 0: {  // a doorbell of any value; one beyond the ring tells of nothing
          const std::uint64_t most = p.read_index() + p.size;
          const bool wild = random.chance(10);
          const std::uint64_t index = wild ? most + random.below(1000) : random.below(most);
          REQUIRE(p.core.ring(p.first + index, cycle));
          if (!wild && index >= p.begun) p.told = std::max(p.told, index + 1);
          ++p.bells;
          for (std::uint64_t packet = 0; packet < most; ++packet)
            REQUIRE(p.core.told(p.first + packet) == (packet < p.told));
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
          REQUIRE(p.bells > 0);
          REQUIRE(packet < p.begun + p.ahead);
          // What nobody has told of is read alone, behind what is there.
          for (std::uint64_t before = p.begun; packet >= p.told && before < packet; ++before) {
            REQUIRE(p.core.waiting_at(p.first + before)->slot == QueueCore::Slot::published);
          }
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

// Producers publish in any order, and each rings once it has, with whatever value: nothing else makes the queue look.
TEST_CASE("every packet whose producer has rung becomes the head in the end", "[packet][PKT-01][PKT-14]") {
  for (const std::uint64_t seed : seeds(400)) {
    CAPTURE(seed);
    Random random(seed);
    QueueCore core;
    const std::uint32_t size = 1U << random.below(5);
    const std::uint64_t first = random.chance(50) ? 0 : random.next() >> 20;
    core.open(first, size, random.between(1, 10));
    const std::uint32_t count = random.between(1, 60);
    std::vector<bool> published(count, false);
    std::vector<std::uint64_t> reading;
    std::uint64_t begun = 0;
    std::uint64_t reads = 0;
    std::uint64_t bells = 0;
    for (std::uint64_t cycle = 0; begun < count && cycle < 100'000; ++cycle) {
      const std::uint64_t room = std::min<std::uint64_t>(count, core.read_index() - first + size);
      std::vector<std::uint64_t> absent;
      for (std::uint64_t i = begun; i < room; ++i) {
        if (!published[i]) absent.push_back(i);
      }
      if (!absent.empty() && random.chance(20)) {
        const std::uint64_t index = absent[random.below(absent.size())];
        published[index] = true;
        const std::uint64_t any = random.chance(30) ? random.next() : first + random.below(count);
        REQUIRE(core.ring(random.chance(50) ? first + index : any, cycle));
        ++bells;
      }
      while (const auto index = core.next_read()) {
        ++reads;
        reading.push_back(*index);
      }
      random.shuffle(reading);
      if (!reading.empty() && random.chance(50)) {
        const std::uint64_t index = reading.back();
        reading.pop_back();
        // The read looks at memory when it is answered: it can be older than a doorbell, never younger.
        const bool there = published[static_cast<std::size_t>(index - first)];
        core.arrived(index, there ? QueueCore::Slot::published : QueueCore::Slot::unpublished, {}, cycle);
      }
      const QueueCore::Fetched* front = core.front();
      if (front == nullptr || front->slot != QueueCore::Slot::published) continue;
      core.take_head();
      core.release_head();
      core.cleared(first + begun);
      core.complete(first + begun++);
    }
    REQUIRE(begun == count);
    REQUIRE(reads <= 11 * (bells + count));  // and no more than it was asked to look
  }
}

TEST_CASE("a read that began before a doorbell is done again", "[packet][PKT-14]") {
  QueueCore core;
  core.open(0, 8, 4);
  REQUIRE(core.ring(0, 1));
  REQUIRE(core.next_read() == 0U);
  REQUIRE_FALSE(core.next_read());
  REQUIRE(core.ring(0, 2));  // published just now, behind the read
  core.arrived(0, QueueCore::Slot::unpublished, {}, 3);
  REQUIRE(core.next_read() == 0U);
  core.arrived(0, QueueCore::Slot::unpublished, {}, 4);
  REQUIRE_FALSE(core.next_read());  // nobody has rung since
  REQUIRE(core.front()->slot == QueueCore::Slot::unpublished);
  REQUIRE(core.ring(77, 5));
  REQUIRE(core.next_read() == 0U);
  core.arrived(0, QueueCore::Slot::published, {}, 6);
  REQUIRE(core.front()->doorbell == 1);
  REQUIRE(core.next_read() == 1U);  // and what may be behind it
  core.arrived(1, QueueCore::Slot::unpublished, {}, 7);
  REQUIRE_FALSE(core.next_read());
  REQUIRE(core.waiting_at(1) == nullptr);
}

TEST_CASE("a packet that was being looked for when its doorbell rang was told of by that", "[packet][PKT-08]") {
  QueueCore core;
  core.open(0, 8, 4);
  REQUIRE(core.ring(0, 1));
  REQUIRE(core.next_read() == 0U);
  core.arrived(0, QueueCore::Slot::published, {}, 2);
  REQUIRE(core.take_head().doorbell == 1);
  core.release_head();
  REQUIRE(core.next_read() == 1U);  // untold
  REQUIRE(core.ring(2, 3));         // of it, and of the next one
  REQUIRE(core.next_read() == 2U);
  core.arrived(1, QueueCore::Slot::published, {}, 4);
  REQUIRE(core.take_head().doorbell == 3);
  core.release_head();
  REQUIRE(core.ring(3, 5));
  core.arrived(2, QueueCore::Slot::published, {}, 6);
  REQUIRE(core.take_head().doorbell == 3);  // it had been told already
  core.release_head();
  // Found before its own doorbell: by the one that made it be looked for.
  REQUIRE(core.next_read() == 3U);
  core.arrived(3, QueueCore::Slot::published, {}, 7);
  REQUIRE(core.take_head().doorbell == 5);
  core.release_head();
  REQUIRE(core.next_read() == 4U);
  core.arrived(4, QueueCore::Slot::published, {}, 8);
  REQUIRE(core.ring(4, 9));
  REQUIRE(core.take_head().doorbell == 5);
  // Also behind one that has been read and has not begun.
  QueueCore behind;
  behind.open(0, 8, 4);
  REQUIRE(behind.ring(0, 1));
  REQUIRE(behind.next_read() == 0U);
  behind.arrived(0, QueueCore::Slot::published, {}, 2);
  REQUIRE(behind.next_read() == 1U);  // untold
  REQUIRE(behind.ring(1, 3));
  behind.arrived(1, QueueCore::Slot::published, {}, 4);
  REQUIRE(behind.take_head().doorbell == 1);
  behind.release_head();
  REQUIRE(behind.take_head().doorbell == 3);
}

TEST_CASE("a wild doorbell asks for what is there, and is forgotten", "[packet][PKT-01][PKT-14]") {
  for (const std::uint64_t wild : {~std::uint64_t{0}, std::uint64_t{1} << 63, (std::uint64_t{1} << 63) - 1,
                                   std::uint64_t{9}, std::uint64_t{4}, std::uint64_t{0}}) {
    QueueCore core;
    core.open(5, 4, 100);
    REQUIRE(core.ring(wild, 1));
    REQUIRE(core.next_read() == 5U);
    REQUIRE_FALSE(core.next_read());
    core.arrived(5, QueueCore::Slot::unpublished, {}, 2);
    REQUIRE_FALSE(core.next_read());
    REQUIRE(core.front() == nullptr);
    REQUIRE_FALSE(core.told(5));
    core.stop();
    REQUIRE_FALSE(core.ring(7, 1));
    REQUIRE_FALSE(core.next_read());
  }
  QueueCore core;
  core.open(5, 4, 100);
  REQUIRE(core.ring(8, 1));  // the last that the ring can hold
  std::uint32_t reads = 0;
  while (core.next_read()) ++reads;
  REQUIRE(reads == 4);
}

TEST_CASE("a ring of one packet", "[packet][PKT-14]") {
  QueueCore core;
  core.open(3, 1, 8);
  for (std::uint64_t index = 3; index < 20; ++index) {
    REQUIRE(core.ring(index, index));
    REQUIRE(core.next_read() == index);
    REQUIRE_FALSE(core.next_read());
    core.arrived(index, QueueCore::Slot::published, {}, index);
    REQUIRE_FALSE(core.next_read());  // its slot is taken
    core.take_head();
    REQUIRE_FALSE(core.next_read());
    core.release_head();
    REQUIRE(core.cleared(index));
    REQUIRE(core.read_index() == index + 1);
    REQUIRE(core.next_read() == index + 1);  // it may be there already
    core.arrived(index + 1, QueueCore::Slot::unpublished, {}, index);
    core.complete(index);
    REQUIRE_FALSE(core.next_read());
  }
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
