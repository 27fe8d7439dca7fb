// The SM-to-SM network under random traffic, in both timing modes, and reset while packets are under way.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "gpc/sm_network_bench.h"
#include "support/random.h"

namespace gpc_sm_network_random_test {

using namespace heddle;
using namespace heddle::test;

namespace {

struct Sent {
  Cycle cycle = 0;
  std::size_t plane = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t bytes = 0;  // of data
};

SmNetworkParams random_params(Random& random) {
  SmNetworkParams params;
  params.near = random.between(0, 60);
  params.far = random.between(0, 60);
  params.bandwidth = random.between(50, 8000) / 100.0;
  if (random.chance(50)) {
    params.gpc_bandwidth = random.between(50, 20'000) / 100.0;
    if (random.chance(50)) params.gpc_sms = random.between(1, 24);
  }
  params.queue = random.between(1, 8);
  return params;
}

arch::Shape one_gpc(Random& random) {
  arch::Shape shape = random.shape(1);
  shape.gpcs[0][0].push_back(2);  // two SMs at least
  return shape;
}

// Everything arrives once, at its SM, in the order of its pair, and not too early.
void check_arrivals(const NetworkBench& bench, const std::vector<Sent>& sent) {
  std::vector<bool> seen(sent.size(), false);
  for (std::uint32_t to = 0; to < bench.sms.size(); ++to) {
    for (const std::size_t plane : {kRequests, kReplies}) {
      std::map<std::uint32_t, std::uint64_t> last;  // number, by source
      for (const NetworkSm::Got& got : bench.sms[to]->got[plane]) {
        const std::uint64_t number = got.packet.sequence;
        REQUIRE(number < sent.size());
        REQUIRE_FALSE(seen[number]);
        seen[number] = true;
        const Sent& its = sent[number];
        REQUIRE(its.plane == plane);
        REQUIRE(its.to == to);
        REQUIRE(got.packet.from_sm == its.from);
        REQUIRE(got.cycle >= its.cycle + bench.network.latency(its.from, to));
        const auto before = last.find(its.from);
        if (before != last.end()) REQUIRE(before->second < number);
        last[its.from] = number;
      }
    }
  }
  REQUIRE(std::count(seen.begin(), seen.end(), true) == static_cast<std::ptrdiff_t>(sent.size()));
  REQUIRE(bench.network.packets() == 0);
}

// In no stretch of time does an SM get more than the port passes: the packets that begin in it end at most one later.
void check_pace(const NetworkSm& sm, std::size_t plane, double bandwidth, double slack) {
  const auto& got = sm.got[plane];
  for (std::size_t first = 0; first < got.size(); first += 7) {
    std::uint64_t bytes = 0;
    for (std::size_t i = first; i + 1 < got.size(); ++i) {
      bytes += gpc::dsmem_bytes(got[i].packet, plane == kReplies);
      const double most = bandwidth * static_cast<double>(got[i + 1].cycle - got[first].cycle + 1);
      REQUIRE(static_cast<double>(bytes) <= most + slack);
    }
  }
}

TimingMode any_mode(Random& random) {
  return random.chance(50) ? TimingMode::at : random.chance(70) ? TimingMode::fast : TimingMode::lt;
}

std::vector<Sent> random_traffic(NetworkBench& bench, Random& random) {
  const auto sms = static_cast<std::uint32_t>(bench.sms.size());
  const std::uint32_t hot = random.below(sms);
  const std::uint32_t span = random.between(1, 3000);
  std::vector<Sent> sent(random.between(1, 600));
  for (Sent& its : sent) {
    its.cycle = random.below(span);
    its.plane = random.below(2);
    its.from = random.below(sms);
    its.to = random.chance(30) ? hot : random.below(sms);
    its.bytes = random.chance(30) ? 0 : random.between(1, 32) * 4;
  }
  std::stable_sort(sent.begin(), sent.end(), [](const Sent& a, const Sent& b) { return a.cycle < b.cycle; });
  for (std::size_t i = 0; i < sent.size(); ++i) {
    bench.send(sent[i].cycle, sent[i].plane, sent[i].from, sent[i].to, sent[i].bytes, i);
  }
  return sent;
}

}  // namespace

TEST_CASE("slow SMs lose nothing and see the packets of a pair in order", "[gpc][CGA-06]") {
  double delayed = 0;
  for (const std::uint64_t seed : seeds(150)) {
    CAPTURE(seed);
    Random random(seed);
    const SmNetworkParams params = random_params(random);
    const TimingMode mode = any_mode(random);
    NetworkBench bench(one_gpc(random), params, mode, random.between(1, 9));
    const std::uint32_t slowest = random.chance(30) ? 0 : random.between(1, 60);
    for (auto& sm : bench.sms) sm->busy = [&] { return random.below(slowest + 1); };
    const std::vector<Sent> sent = random_traffic(bench, random);
    run_until_idle();
    check_arrivals(bench, sent);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> bytes;
    for (const Sent& its : sent) bytes[{its.from, its.to}] += its.bytes + gpc::kDsmemHeaderBytes;
    for (std::uint32_t from = 0; from < bench.sms.size(); ++from) {
      for (std::uint32_t to = 0; to < bench.sms.size(); ++to) {
        REQUIRE(bench.observation.clusters.bytes(0, from, to) == bytes[{from, to}]);
      }
    }
    if (mode == TimingMode::lt) continue;
    const double rate = std::round(params.bandwidth * 256) / 256;
    // A calendar counts by windows, in each of which it may be a cycle or a packet off.
    const double slack = mode == TimingMode::fast ? 2 * rate + 256 : 0.5;
    for (const auto& sm : bench.sms) {
      check_pace(*sm, kRequests, rate, slack);
      check_pace(*sm, kReplies, rate, slack);
    }
    delayed += bench.stat("delayed_requests") + bench.stat("delayed_replies");
  }
  CHECK(delayed > 1000);
}

// Each SM sends to one other: nothing meets, and the cycle of every arrival follows from the ports of its source.
TEST_CASE("without meetings every arrival is where a plain model has it", "[gpc][CGA-06]") {
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast);
  for (const std::uint64_t seed : seeds(100)) {
    CAPTURE(seed);
    Random random(seed);
    SmNetworkParams params = random_params(random);
    const std::uint32_t rate = random.between(1, 60);  // whole bytes: the model counts them one by one
    params.bandwidth = rate;
    params.gpc_bandwidth = 0;
    params.queue = 4096;
    NetworkBench bench(one_gpc(random), params, mode, 4096);
    const auto sms = static_cast<std::uint32_t>(bench.sms.size());
    const std::vector<std::uint32_t> target = random.permutation(sms);
    std::vector<Cycle> expected;
    for (std::uint32_t from = 0; from < sms; ++from) {
      for (const std::size_t plane : {kRequests, kReplies}) {
        Cycle cycle = 0;
        std::uint64_t free = 0;  // the first byte of time, cycle x rate, that the port has not given away
        for (std::uint32_t i = random.between(1, 80); i > 0; --i) {
          cycle += random.chance(50) ? 0 : random.below(20);
          const std::uint32_t bytes = random.chance(30) ? 0 : random.between(1, 32) * 4;
          bench.send(cycle, plane, from, target[from], bytes, expected.size());
          free = std::max(free, cycle * rate);
          expected.push_back(free / rate + bench.network.latency(from, target[from]));
          free += bytes + gpc::kDsmemHeaderBytes;
        }
      }
    }
    run_until_idle();
    std::size_t seen = 0;
    for (const auto& sm : bench.sms) {
      for (const auto& plane : sm->got) {
        for (const NetworkSm::Got& got : plane) {
          CAPTURE(got.packet.sequence);
          REQUIRE(got.cycle == expected.at(got.packet.sequence));
          ++seen;
        }
      }
    }
    REQUIRE(seen == expected.size());
  }
}

TEST_CASE("in lt mode the network costs nothing and keeps order, and nothing stops what is behind it",
          "[gpc][CGA-06][HST-03]") {
  SmNetworkParams params;
  params.queue = 2;
  NetworkBench bench(full_gpc(), params, TimingMode::lt, 3);
  for (std::uint32_t i = 0; i < 50; ++i) bench.send(100 + i / 10, kReplies, 3, 12, 128, i);
  bench.run(1'000);
  const auto& replies = bench.sms[12]->got[kReplies];
  REQUIRE(replies.size() == 50);
  for (std::uint32_t i = 0; i < 50; ++i) {
    CHECK(replies[i].cycle == 100 + i / 10);
    CHECK(replies[i].packet.sequence == i);
  }
  bench.sms[12]->withholds[kRequests] = true;
  for (std::uint32_t i = 0; i < 50; ++i) bench.send(2'000 + i, kRequests, 3, 12, 128, i);
  for (std::uint32_t i = 0; i < 50; ++i) bench.send(2'000 + i, kRequests, 4, 12, 128, i);
  bench.run(3'000);
  auto& requests = bench.sms[12]->got[kRequests];
  std::map<std::uint32_t, std::uint64_t> next;
  for (const NetworkSm::Got& got : requests) CHECK(got.packet.sequence == next[got.packet.from_sm]++);
  CHECK(requests.size() == 100);
  CHECK(bench.network.packets() == 0);
}

TEST_CASE("after a reset in mid-flight the network is as new", "[gpc][CGA-06]") {
  for (const std::uint64_t seed : seeds(40)) {
    CAPTURE(seed);
    Random random(seed);
    const SmNetworkParams params = random_params(random);
    const TimingMode mode = any_mode(random);
    NetworkBench bench(one_gpc(random), params, mode, random.between(1, 9));
    for (auto& sm : bench.sms) sm->withholds = {random.chance(50), random.chance(50)};
    random_traffic(bench, random);
    bench.run(random.below(2'000));
    bench.domain.reset();
    CHECK(bench.network.packets() == 0);
    WaitGraph graph;
    bench.network.collect_waits(graph);
    CHECK(graph.empty());
    for (auto& sm : bench.sms) {
      sm->withholds = {};
      sm->got = {};
    }
    // Nothing of before is left, and nothing is slower for it.
    std::vector<Sent> sent;
    for (std::uint32_t from = 0; from < bench.sms.size(); ++from) {
      const std::uint32_t to = random.below(bench.sms.size());
      sent.push_back({1'000 * Cycle{from}, random.below(2), from, to, 32});
      bench.send(sent.back().cycle, sent.back().plane, from, to, 32, from);
    }
    run_until_idle();
    check_arrivals(bench, sent);
    for (const auto& sm : bench.sms) {
      for (const auto& plane : sm->got) {
        for (const NetworkSm::Got& got : plane) {
          const Sent& its = sent[got.packet.sequence];
          REQUIRE(got.cycle == its.cycle + bench.network.latency(its.from, its.to));
        }
      }
    }
  }
}

}  // namespace gpc_sm_network_random_test
