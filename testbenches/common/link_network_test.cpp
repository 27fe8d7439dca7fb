#include "common/link_network.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace heddle::common_link_network_test {
namespace {

using test::Random;
using Cycle = LinkPace::Cycle;

// The network's surroundings, without a simulator: events in order of time, exits that close as they are told.
class Surroundings final : public LinkNetworkListener {
 public:
  struct Left {
    Cycle when;
    std::uint32_t exit;
    std::uint64_t id;
    bool operator==(const Left& o) const { return when == o.when && exit == o.exit && id == o.id; }
  };

  void call_at(Cycle when, std::uint32_t kind, std::uint64_t argument) override {
    REQUIRE(when >= now);
    events.emplace(std::make_pair(when, order++), std::make_pair(kind, argument));
  }
  bool eject(std::uint32_t exit, const LinkPacket& packet, Cycle when) override {
    left.push_back({when, exit, reinterpret_cast<std::uintptr_t>(packet.item)});
    return !(closes && closes(exit));
  }
  void credit(std::uint32_t owner, Cycle) override { rooms.push_back(owner); }

  // Runs the events up to and including `end`.
  void run(LinkNetwork& network, Cycle end) {
    while (!events.empty() && events.begin()->first.first <= end) {
      const auto event = *events.begin();
      events.erase(events.begin());
      now = event.first.first;
      network.on_event(event.second.first, event.second.second, now);
    }
    now = end;
  }

  Cycle now = 0;
  std::uint64_t order = 0;
  std::map<std::pair<Cycle, std::uint64_t>, std::pair<std::uint32_t, std::uint64_t>> events;
  std::vector<Left> left;
  std::vector<std::uint32_t> rooms;
  std::function<bool(std::uint32_t exit)> closes;
};

LinkPacket packet_of(std::uint64_t id, std::uint32_t bytes) {
  LinkPacket packet;
  packet.item = reinterpret_cast<void*>(static_cast<std::uintptr_t>(id));
  packet.bytes = bytes;
  return packet;
}

// What a packet needs, counted byte by byte in the slowest way.
class SlowPace {
 public:
  explicit SlowPace(std::uint64_t per_cycle) : per_cycle_(per_cycle) {}
  Cycle begin(Cycle now, std::uint64_t bytes) {
    while (cycle_ < now) next();
    while (left_ == 0) next();
    const Cycle result = cycle_;
    for (; bytes > 0; --bytes) {
      while (left_ == 0) next();
      --left_;
    }
    return result;
  }

 private:
  void next() {
    ++cycle_;
    left_ = per_cycle_;
  }
  std::uint64_t per_cycle_;
  Cycle cycle_ = 0;
  std::uint64_t left_ = per_cycle_;
};

}  // namespace

TEST_CASE("a link's pace agrees with counting bytes", "[common][MEM-03]") {
  for (const std::uint64_t seed : test::seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t rate = random.between(1, 200);
    LinkPace pace(rate);
    SlowPace slow(rate);
    Cycle now = 0;
    for (int i = 0; i < 60; ++i) {
      now += random.chance(50) ? 0 : random.below(random.chance(10) ? 1000 : 8);
      const std::uint32_t bytes = random.between(1, 300);
      const Cycle begin = pace.earliest(now);
      REQUIRE(begin == slow.begin(now, bytes));
      REQUIRE(pace.free_at(begin));
      if (begin > now) REQUIRE_FALSE(pace.free_at(begin - 1));
      pace.take(begin, bytes);
      now = begin;
    }
  }
}

TEST_CASE("a pace of a fraction of a byte per cycle is exact over time", "[common][MEM-03]") {
  LinkPace pace(42.75);
  Cycle now = 0;
  for (int i = 0; i < 10'000; ++i) {
    now = pace.earliest(now);
    pace.take(now, 32);
  }
  // The last one begins when 9,999 packets have passed.
  CHECK(now == static_cast<Cycle>(9'999 * 32 / 42.75));
  CHECK(pace.earliest(now + 1'000'000'000'000) == now + 1'000'000'000'000);
  pace.reset();
  CHECK(pace.earliest(0) == 0);
}

namespace {

// One link, cycle by cycle: a queue per input, and exits that close and open.
class SlowLink {
 public:
  struct Packet {
    std::uint64_t id;
    std::uint32_t bytes;
    std::uint32_t egress;
  };
  struct Input {
    std::deque<Packet> queue;
    std::uint64_t deficit = 0;
    std::uint64_t quantum = 0;
  };
  explicit SlowLink(std::int64_t rate) : rate_(rate) {}

  void begin_cycle() { tokens_ = std::min<std::int64_t>(tokens_, 0) + rate_; }
  // A packet that finds nothing that could go passes without arbitration.
  template <class Leave>
  void arrive(std::size_t input, const Packet& packet, Leave&& leave) {
    const bool alone = inputs[input].queue.empty() && next_of(current_) == inputs.size();
    if (alone && tokens_ > 0 && !closed[packet.egress]) {
      tokens_ -= packet.bytes;
      leave(packet);
      return;
    }
    inputs[input].queue.push_back(packet);
    serve(leave);
  }
  template <class Leave>
  void serve(Leave&& leave) {
    while (tokens_ > 0) {
      if (!can_go(current_) || inputs[current_].deficit < inputs[current_].queue.front().bytes) {
        const std::size_t next = next_of(current_);
        if (next == inputs.size()) return;
        current_ = next;
        inputs[current_].deficit += inputs[current_].quantum;
        continue;
      }
      Input& input = inputs[current_];
      const Packet packet = input.queue.front();
      input.queue.pop_front();
      input.deficit = input.queue.empty() ? 0 : input.deficit - packet.bytes;
      tokens_ -= packet.bytes;
      leave(packet);
    }
  }

  std::vector<Input> inputs;
  std::vector<bool> closed;

 private:
  bool can_go(std::size_t input) const {
    return !inputs[input].queue.empty() && !closed[inputs[input].queue.front().egress];
  }
  // The next input that can go, at last this one; none: the number of inputs.
  std::size_t next_of(std::size_t from) const {
    for (std::size_t step = 1; step <= inputs.size(); ++step) {
      const std::size_t input = (from + step) % inputs.size();
      if (can_go(input)) return input;
    }
    return inputs.size();
  }

  std::int64_t rate_;
  std::int64_t tokens_ = 0;
  std::size_t current_ = 0;
};

}  // namespace

TEST_CASE("a link agrees with a cycle-by-cycle oracle packet by packet", "[common][MEM-03]") {
  std::uint64_t closings = 0;
  std::uint64_t queued = 0;
  for (const std::uint64_t seed : test::seeds(400)) {
    CAPTURE(seed);
    Random random(seed);
    Surroundings host;
    LinkNetwork network(host);
    const std::uint32_t rate = random.between(8, 300);
    SlowLink slow(rate);
    const std::uint32_t inputs = random.chance(20) ? random.between(60, 140) : random.between(1, 9);
    const std::uint32_t exits = random.between(1, 4);
    const std::uint32_t link = network.add_link("link", rate);
    for (std::uint32_t i = 0; i < inputs; ++i) {
      LinkNetwork::BufferSpec spec;
      spec.link = link;
      spec.capacity = 10'000;
      spec.weight = random.between(1, 3);
      network.add_buffer(spec);
      slow.inputs.push_back({{}, 0, std::uint64_t{spec.weight} * LinkNetwork::kQuantum});
    }
    for (std::uint32_t exit = 0; exit < exits; ++exit) network.add_egress(link, exit);
    network.route_by_egress(link, inputs);

    // Whether an exit closes after a packet depends on the packet alone, so that both see the same.
    const std::uint64_t closing = random.chance(50) ? random.between(1, 6) : 0;
    const auto closes_after = [&](std::uint64_t id) { return closing != 0 && test::scramble(id) % 8 < closing; };
    host.closes = [&](std::uint32_t) { return closes_after(host.left.back().id); };
    slow.closed.assign(exits, false);
    std::vector<Surroundings::Left> expected;
    Cycle cycle = 0;
    const auto leave = [&](const SlowLink::Packet& packet) {
      expected.push_back({cycle, packet.egress, packet.id});
      if (closes_after(packet.id)) {
        slow.closed[packet.egress] = true;
        ++closings;
      }
    };
    std::uint64_t id = 0;
    const std::uint32_t load = random.between(1, 12);
    for (; cycle < 60 || network.packets() > 0; ++cycle) {
      REQUIRE(cycle < 100'000);
      host.run(network, cycle == 0 ? 0 : cycle - 1);
      slow.begin_cycle();
      for (std::uint32_t exit = 0; exit < exits; ++exit) {
        if (!slow.closed[exit] || test::scramble(cycle * 8 + exit) % 3 == 0) continue;
        slow.closed[exit] = false;
        network.open(inputs + exit, cycle);
      }
      slow.serve(leave);
      for (std::uint32_t i = cycle < 60 ? random.below(load) : 0; i > 0; --i) {
        const std::uint32_t input = random.below(inputs);
        LinkPacket packet = packet_of(++id, random.chance(50) ? 32 : random.between(1, 300));
        packet.egress = random.below(exits);
        network.enter(input, packet, cycle);
        slow.arrive(input, {id, packet.bytes, packet.egress}, leave);
      }
      host.run(network, cycle);
      queued = std::max(queued, network.packets());
      REQUIRE(host.left == expected);
    }
    CHECK(expected.size() == id);
  }
  CHECK(closings > 1000);
  CHECK(queued > 100);
}

TEST_CASE("inputs that always have something share a link by weight", "[common][MEM-03]") {
  for (const std::uint64_t seed : test::seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    Surroundings host;
    LinkNetwork network(host);
    const std::uint32_t link = network.add_link("link", 64);
    const std::uint32_t inputs = random.between(2, 6);
    std::vector<std::uint64_t> weights;
    for (std::uint32_t i = 0; i < inputs; ++i) {
      LinkNetwork::BufferSpec spec;
      spec.link = link;
      spec.capacity = 100'000;
      spec.weight = random.between(1, 3);
      weights.push_back(spec.weight);
      network.add_buffer(spec);
    }
    network.route_to(link, network.add_egress(link, 0));
    // Often there is no room: nobody may gain by that.
    std::uint64_t turn = 0;
    host.closes = [&](std::uint32_t) { return test::scramble(++turn + seed) % 2 == 0; };
    std::vector<std::uint32_t> size(1, 0);
    std::uint32_t largest = 0;
    for (std::uint32_t i = 0; i < inputs; ++i) {
      // Each input has packets of its own size: shares are of bytes.
      const std::uint32_t bytes = random.between(1, 10) * 32;
      largest = std::max(largest, bytes);
      for (int n = 0; n < 3000; ++n) {
        network.enter(i, packet_of(size.size() * 8 + i, bytes), 0);
        size.push_back(bytes);
      }
    }
    host.run(network, 0);
    for (Cycle cycle = 1; cycle < 1500; ++cycle) {
      network.open(inputs, cycle);
      host.run(network, cycle);
    }
    REQUIRE(host.left.size() > 300);
    const std::size_t from = random.below(100) + 10;
    std::vector<double> share(inputs);
    for (std::size_t i = from; i < host.left.size(); ++i) {
      const std::uint64_t id = host.left[i].id;
      share[id % 8] += size[id / 8];
      if (i % 16 != 0) continue;
      // Two inputs differ by a quantum and a packet each, at most.
      const double slack = 2.0 * LinkNetwork::kQuantum + 2.0 * largest;
      for (std::uint32_t a = 0; a < inputs; ++a) {
        for (std::uint32_t b = 0; b < a; ++b) {
          const double difference =
              share[a] / static_cast<double>(weights[a]) - share[b] / static_cast<double>(weights[b]);
          REQUIRE(std::abs(difference) <= slack);
        }
      }
    }
  }
}

TEST_CASE("a full place holds up those behind, and they go on in order", "[common][MEM-03]") {
  Surroundings host;
  LinkNetwork network(host);
  const std::uint32_t first = network.add_link("first", 32);
  const std::uint32_t second = network.add_link("second", 32);
  LinkNetwork::BufferSpec spec;
  spec.link = first;
  spec.capacity = 2;
  spec.owner = 7;
  const std::uint32_t entry = network.add_buffer(spec);
  spec = {};
  spec.link = second;
  spec.upstream = first;
  spec.capacity = 3;
  spec.latency = 5;
  const std::uint32_t middle = network.add_buffer(spec);
  network.route_to(first, middle);
  const std::uint32_t exit = network.add_egress(second, 9);
  network.route_to(second, exit);
  host.closes = [](std::uint32_t) { return true; };

  std::uint64_t id = 0;
  Cycle now = 0;
  for (; now < 20; ++now) {
    if (!network.full(entry)) network.enter(entry, packet_of(++id, 32), now);
    host.run(network, now);
  }
  // One has left, three fill the middle, two the entry.
  CHECK(id == 6);
  CHECK(network.packets() == 5);
  CHECK(network.packets_at(middle) == 3);
  REQUIRE(host.left.size() == 1);
  CHECK(host.left[0] == Surroundings::Left{5, 9, 1});
  std::vector<std::pair<std::uint32_t, std::uint32_t>> waits;
  network.for_each_wait([&](std::uint32_t place) { waits.emplace_back(network.upstream_of(place), place); });
  CHECK(waits == std::vector<std::pair<std::uint32_t, std::uint32_t>>{
                     {LinkNetwork::kNone, entry}, {first, middle}, {second, exit}});
  CHECK(network.name_of(network.link_of(middle)) == "second");
  CHECK(network.owner_of(entry) == 7);

  host.rooms.clear();
  for (; host.left.size() < 6; ++now) {
    REQUIRE(now < 100);
    network.open(exit, now);
    host.run(network, now);
  }
  CHECK(host.rooms == std::vector<std::uint32_t>{7});
  for (std::size_t i = 0; i < 6; ++i) CHECK(host.left[i].id == i + 1);
  CHECK(network.packets() == 0);
}

TEST_CASE("an exit that its host closes holds packets until it opens", "[common][MEM-03]") {
  Surroundings host;
  LinkNetwork network(host);
  const std::uint32_t link = network.add_link("link", 32);
  LinkNetwork::BufferSpec spec;
  spec.link = link;
  spec.capacity = 8;
  network.add_buffer(spec);
  const std::uint32_t exit = network.add_egress(link, 0);
  network.route_to(link, exit);
  network.close(exit);
  for (std::uint64_t id = 1; id <= 3; ++id) network.enter(0, packet_of(id, 32), 2);
  host.run(network, 50);
  CHECK(host.left.empty());
  network.open(exit, 50);
  host.run(network, 60);
  CHECK(host.left == std::vector<Surroundings::Left>{{50, 0, 1}, {51, 0, 2}, {52, 0, 3}});
}

TEST_CASE("a network that was reset knows nothing of what was in it", "[common][MEM-03]") {
  Surroundings host;
  LinkNetwork network(host);
  const std::uint32_t link = network.add_link("link", 16);
  LinkNetwork::BufferSpec spec;
  spec.link = link;
  spec.capacity = 4;
  network.add_buffer(spec);
  network.add_buffer(spec);
  network.route_to(link, network.add_egress(link, 0));
  host.closes = [](std::uint32_t) { return true; };
  for (std::uint32_t i = 0; i < 8; ++i) network.enter(i % 2, packet_of(i + 1, 100), i);
  host.run(network, 20);
  REQUIRE(network.full(1));
  host.events.clear();
  host.left.clear();
  network.reset();
  CHECK(network.packets() == 0);
  CHECK_FALSE(network.full(1));
  int waits = 0;
  network.for_each_wait([&](std::uint32_t) { ++waits; });
  CHECK(waits == 0);
  host.now = 0;
  network.enter(1, packet_of(99, 32), 3);
  host.run(network, 10);
  CHECK(host.left == std::vector<Surroundings::Left>{{3, 0, 99}});
}

TEST_CASE("a network refuses to be built or used wrongly", "[common][MEM-03]") {
  Surroundings host;
  LinkNetwork network(host);
  const std::uint32_t a = network.add_link("a", 1);
  const std::uint32_t b = network.add_link("b", 1);
  LinkNetwork::BufferSpec spec;
  CHECK_THROWS(network.add_buffer(spec));  // of no link
  spec.link = a;
  network.add_buffer(spec);
  spec.link = b;
  network.add_buffer(spec);
  spec.link = a;
  CHECK_THROWS(network.add_buffer(spec));  // not beside its first
  network.enter(0, packet_of(1, 32), 0);
  CHECK_THROWS(network.enter(0, packet_of(2, 32), 0));  // no room
  CHECK_THROWS(host.run(network, 5));                   // leads nowhere
}

}  // namespace heddle::common_link_network_test
