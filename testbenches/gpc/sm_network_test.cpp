// The SM-to-SM network: latency, bandwidth, back-pressure, planes.
#include "gpc/sm_network.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "gpc/sm_network_bench.h"

namespace gpc_sm_network_test {

using namespace heddle;
using namespace heddle::test;

namespace {

// One packet of every pair in each plane, so far apart that none meets another.
void check_latencies(NetworkBench& bench, const std::vector<Cycle>& part) {
  Cycle cycle = 10;
  std::vector<std::pair<Cycle, std::uint32_t>> sent;  // and the source
  const auto sms = static_cast<std::uint32_t>(bench.sms.size());
  for (std::uint32_t from = 0; from < sms; ++from) {
    for (std::uint32_t to = 0; to < sms; ++to) {
      for (const std::size_t plane : {kRequests, kReplies}) {
        bench.send(cycle, plane, from, to, from % 2 == 0 ? 128 : 0, sent.size());
        sent.emplace_back(cycle, from);
        cycle += 500;
      }
    }
  }
  bench.run(cycle + 1000);
  std::size_t seen = 0;
  for (std::uint32_t to = 0; to < sms; ++to) {
    for (const std::size_t plane : {kRequests, kReplies}) {
      for (const NetworkSm::Got& got : bench.sms[to]->got[plane]) {
        const auto& [when, from] = sent.at(got.packet.sequence);
        REQUIRE(got.packet.sequence % 2 == plane);
        REQUIRE(got.packet.from_sm == from);
        REQUIRE(got.packet.to_sm == to);
        REQUIRE(got.cycle == when + part[from] + part[to]);
        REQUIRE(bench.network.latency(from, to) == part[from] + part[to]);
        ++seen;
      }
    }
  }
  CHECK(seen == sent.size());
  CHECK(bench.stat("delayed_requests") == 0);
  CHECK(bench.stat("delayed_replies") == 0);
  CHECK(bench.network.packets() == 0);
}

}  // namespace

TEST_CASE("a packet that nothing delays takes the parts of its source and of its target", "[gpc][CGA-06]") {
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast);
  SECTION("of a full GPC: a remote load of 33 cycles more is 181 to 213 cycles") {
    NetworkBench bench(full_gpc(), {}, mode);
    std::vector<Cycle> part;
    for (Cycle tpc = 0; tpc < 9; ++tpc) part.insert(part.end(), 2, 37 + tpc);
    check_latencies(bench, part);
  }
  SECTION("of TPCs of different sizes") {
    SmNetworkParams params;
    params.near = 10;
    params.far = 13;
    NetworkBench bench(arch::Shape{{{{2, 1}, {3}}}}, params, mode);
    check_latencies(bench, {10, 10, 12, 13, 13, 13});
  }
  SECTION("of one TPC") {
    NetworkBench bench(arch::Shape{{{{2}}}}, {}, mode);
    check_latencies(bench, {37, 37});
  }
  SECTION("where the middle of the way has a limit") {
    SmNetworkParams params;
    params.gpc_bandwidth = 160;
    NetworkBench bench(full_gpc(), params, mode);
    std::vector<Cycle> part;
    for (Cycle tpc = 0; tpc < 9; ++tpc) part.insert(part.end(), 2, 37 + tpc);
    check_latencies(bench, part);
  }
  SECTION("with the far end in front") {
    SmNetworkParams params;
    params.near = 9;
    params.far = 0;
    NetworkBench bench(arch::Shape{{{{1, 1, 1}}}}, params, mode);
    check_latencies(bench, {9, 5, 0});
  }
}

TEST_CASE("replies do not wait behind requests", "[gpc][CGA-06]") {
  SmNetworkParams params;
  params.queue = 2;
  NetworkBench bench(full_gpc(), params, TimingMode::at, 4);
  for (auto& sm : bench.sms) sm->withholds[kRequests] = true;
  // Every SM fills the ports of all others with requests.
  for (std::uint32_t from = 0; from < 18; ++from) {
    for (std::uint32_t i = 0; i < 5000; ++i) bench.send(0, kRequests, from, (from + 1 + i % 17) % 18, 128);
  }
  bench.run(100'000);
  for (auto& sm : bench.sms) {
    REQUIRE(sm->got[kRequests].size() == 2);  // what SMs hold
    REQUIRE_FALSE(sm->queued[kRequests].empty());
  }
  const std::uint64_t stuck = bench.network.packets();
  Cycle cycle = 110'000;
  for (std::uint32_t from = 0; from < 18; ++from, cycle += 200) bench.send(cycle, kReplies, from, (from + 5) % 18, 128);
  bench.run(cycle + 1000);
  for (std::uint32_t to = 0; to < 18; ++to) {
    const std::uint32_t from = (to + 13) % 18;
    REQUIRE(bench.sms[to]->got[kReplies].size() == 1);
    CHECK(bench.sms[to]->got[kReplies][0].cycle == 110'000 + from * 200 + bench.network.latency(from, to));
  }
  CHECK(bench.network.packets() == stuck);
}

TEST_CASE("a ring copy is as fast as the ports", "[gpc][CGA-06]") {
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast);
  for (const std::size_t plane : {kRequests, kReplies}) {
    NetworkBench bench(full_gpc(), {}, mode, 16);
    constexpr std::uint32_t kPackets = 4000;
    for (std::uint32_t from = 0; from < 18; ++from) {
      for (std::uint32_t i = 0; i < kPackets; ++i) bench.send(0, plane, from, from ^ 1U, 128, i);
    }
    bench.run(100'000);
    for (const auto& sm : bench.sms) {
      const auto& got = sm->got[plane];
      REQUIRE(got.size() == kPackets);
      const double cycles = static_cast<double>(got.back().cycle - got.front().cycle);
      CHECK(std::abs((kPackets - 1) * 144.0 / cycles - 18.4) < 0.01);
      CHECK(std::abs((kPackets - 1) * 128.0 / cycles - 16.34) < 0.03);  // 3.27 TB/s of 114 SMs at 1.755 GHz
    }
    // Ports take what comes: only those of the source made anybody wait.
    CHECK(bench.network.packets() == 0);
  }
}

TEST_CASE("what goes from a TPC to another shares what the GPC has for it", "[gpc][CGA-06]") {
  struct Case {
    double limit;
    std::uint32_t gpc_sms;
    double between;  // of a GPC of 18 SMs
  };
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast);
  for (const Case& c : {Case{97, 0, 97}, Case{97, 18, 97}, Case{60, 12, 90}, Case{144, 36, 72}}) {
    for (const std::size_t plane : {kRequests, kReplies}) {
      CAPTURE(c.limit, c.gpc_sms, plane);
      SmNetworkParams params;
      params.gpc_bandwidth = c.limit;
      params.gpc_sms = c.gpc_sms;
      NetworkBench bench(full_gpc(), params, mode, 16);
      // SMs 0 and 1 send to each other, all others to the same SM of the next TPC.
      const auto target = [](std::uint32_t from) { return from < 2 ? from ^ 1U : from < 16 ? from + 2 : from - 14; };
      for (std::uint32_t from = 0; from < 18; ++from) {
        for (std::uint32_t i = 0; i < 4000; ++i) bench.send(0, plane, from, target(from), 128, i);
      }
      bench.run(25'000);
      std::vector<double> rates;  // in 20,000 cycles
      for (std::uint32_t from = 0; from < 18; ++from) {
        const auto& got = bench.sms[target(from)]->got[plane];
        const auto counts = [&](const NetworkSm::Got& g) { return g.cycle >= 5'000 && g.cycle < 25'000; };
        rates.push_back(static_cast<double>(std::count_if(got.begin(), got.end(), counts)) * 144 / 20'000);
      }
      CHECK(rates[0] == Approx(18.4).epsilon(0.01));
      CHECK(rates[1] == Approx(18.4).epsilon(0.01));
      double sum = 0;
      for (std::uint32_t from = 2; from < 18; ++from) {
        CHECK(rates[from] == Approx(c.between / 16).epsilon(0.05));  // alike
        sum += rates[from];
      }
      CHECK(sum == Approx(c.between).epsilon(0.01));
    }
  }
}

TEST_CASE("fills and acknowledgements of units take the ports of their SMs", "[gpc][TMA-30][TMA-31]") {
  SmNetworkParams params;
  params.bandwidth = 16;
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast);
  NetworkBench bench(full_gpc(), params, mode, 16, 2);
  REQUIRE(bench.units.size() == 9);
  using protocol::BulkPeerPacket;
  protocol::MemoryRequest& line = bench.pool.acquire();
  line.extension.bulk.get().piece.bytes = 128;
  const auto packet = [&](BulkPeerPacket::Kind kind, std::uint32_t from, std::uint32_t to, std::uint32_t request) {
    BulkPeerPacket result;
    result.kind = kind;
    result.from_sm = protocol::SmInGpc(2 * from);
    result.to_sm = protocol::SmInGpc(2 * to);
    result.request = request;
    result.count = 1;
    result.data.request = &line;
    return result;
  };
  using Kind = BulkPeerPacket::Kind;
  const Cycle way = bench.network.latency(2, 6);
  SECTION("a line and its header are 144 bytes") {
    for (std::uint32_t i = 0; i < 10; ++i) bench.units[1]->out.send(packet(Kind::fill, 1, 3, i), 0);
    bench.run(10'000);
    REQUIRE(bench.units[3]->got.size() == 10);
    for (std::size_t i = 0; i < 10; ++i) {
      CHECK(bench.units[3]->got[i].cycle == way + 9 * i);
      CHECK(bench.units[3]->got[i].packet.request == i);
    }
    CHECK(bench.stat("request_bytes") == 1440);
  }
  SECTION("they take turns with what the SM sends") {
    for (std::uint32_t i = 0; i < 100; ++i) bench.units[1]->out.send(packet(Kind::fill, 1, 3, i), 0);
    for (std::uint32_t i = 0; i < 4; ++i) bench.send(1, kRequests, 2, 8, 128, i);
    bench.run(10'000);
    REQUIRE(bench.sms[8]->got[kRequests].size() == 4);
    // Each waits for one line of the unit, and not for all of them; where accesses are calls, who asks first goes
    // first.
    if (mode == TimingMode::at) CHECK(bench.sms[8]->got[kRequests].back().cycle <= bench.network.latency(2, 8) + 9 * 9);
  }
  SECTION("acknowledgements of a request that wait for the port become one") {
    for (std::uint32_t i = 0; i < 3; ++i) bench.units[1]->out.send(packet(Kind::fill, 1, 4, i), 0);
    for (std::uint32_t i = 0; i < 6; ++i) {
      bench.units[1]->out.send(packet(Kind::acknowledge, 1, 3, 7), 0);
      bench.units[1]->out.send(packet(Kind::acknowledge, 1, 5, 7), 0);
    }
    bench.units[1]->out.send(packet(Kind::acknowledge, 1, 3, 8), 0);
    bench.run(10'000);
    REQUIRE(bench.units[3]->got.size() == 2);
    CHECK(bench.units[3]->got[0].packet.count == 6);
    CHECK(bench.units[3]->got[1].packet.count == 1);
    CHECK(bench.units[3]->got[1].packet.request == 8);
    REQUIRE(bench.units[5]->got.size() == 1);
    CHECK(bench.units[5]->got[0].packet.count == 6);
    CHECK(bench.stat("request_bytes") == 3 * 144 + 3 * 16);
  }
  CHECK(bench.network.packets() == 0);
  line.release();
}

TEST_CASE("headers alone fill a port too, over the longest way", "[gpc][CGA-06]") {
  SmNetworkParams params;
  params.queue = 1;
  params.far = 300;
  params.bandwidth = 18.5;
  NetworkBench bench(full_gpc(), params, TimingMode::at, 8);
  constexpr std::uint32_t kPackets = 5000;
  for (std::uint32_t i = 0; i < kPackets; ++i) bench.send(0, kRequests, 17, 16, 0, i);
  bench.run(100'000);
  const auto& got = bench.sms[16]->got[kRequests];
  REQUIRE(got.size() == kPackets);
  CHECK(got.front().cycle == 600);
  CHECK(got.back().cycle - got.front().cycle == static_cast<Cycle>((kPackets - 1) * 16 / 18.5));
}

TEST_CASE("sources share the port of an SM by bytes", "[gpc][CGA-06]") {
  for (const std::uint32_t sources : {2U, 5U, 17U}) {
    CAPTURE(sources);
    SmNetworkParams params;
    params.bandwidth = 20;
    NetworkBench bench(full_gpc(), params, TimingMode::at, 16);
    for (std::uint32_t from = 1; from <= sources; ++from) {
      for (std::uint32_t i = 0; i < 12'000; ++i) bench.send(0, kRequests, from, 0, from % 3 == 0 ? 128 : from % 3 * 32);
    }
    bench.run(30'000);
    std::vector<std::uint64_t> bytes(18, 0);
    std::uint64_t total = 0;
    for (const NetworkSm::Got& got : bench.sms[0]->got[kRequests]) {
      if (got.cycle < 5'000 || got.cycle >= 30'000) continue;  // all queues are full by then
      bytes[got.packet.from_sm] += gpc::dsmem_bytes(got.packet, false);
      total += gpc::dsmem_bytes(got.packet, false);
    }
    CHECK(std::abs(static_cast<double>(total) - 20.0 * 25'000) < 300);
    const auto [least, most] = std::minmax_element(bytes.begin() + 1, bytes.begin() + 1 + sources);
    CHECK(*most - *least <= 2 * LinkNetwork::kQuantum + 2 * 144);
    CHECK(bench.stat("delayed_requests") > 0);
    CHECK(bench.stat("request_delay") > bench.stat("delayed_requests"));
  }
}

TEST_CASE("a packet whose target takes no more stops those behind it, and the chain is named", "[gpc][CGA-06]") {
  SmNetworkParams params;
  params.queue = 3;
  NetworkBench bench(arch::Shape{{{{2, 2}}}}, params, TimingMode::at, 4);
  bench.sms[1]->withholds[kRequests] = true;
  const Cycle way = bench.network.latency(0, 1);
  const auto wire = static_cast<std::size_t>(std::ceil(static_cast<double>(way) * 18.4 / 16));
  const std::size_t room = 3 + 3 + wire;  // at the SM, at its port, on the way there
  for (std::uint32_t i = 0; i < room + 2; ++i) bench.send(0, kRequests, 0, 1, 0, i);
  bench.send(5'000, kRequests, 0, 2, 0, 100);
  bench.run(10'000);
  CHECK(bench.sms[1]->got[kRequests].size() == 3);
  CHECK(bench.sms[2]->got[kRequests].empty());
  CHECK(bench.network.packets() == 3 + wire + 3);  // with those at the port out of SM 0
  WaitGraph graph;
  bench.domain.collect_waits(graph);
  const std::vector<std::string> chain = graph.chain();
  std::string text;
  for (const std::string& line : chain) text += line + "\n";
  CHECK(text ==
        "SM 0 waits: for room at the port for requests into SM 1 of gpu0.gpc0.network\n"
        "the port for requests into SM 1 of gpu0.gpc0.network waits: for room at SM 1\n");
  bench.sms[1]->withholds[kRequests] = false;
  bench.sms[1]->give_back(kRequests, 3);
  bench.run(20'000);
  CHECK(bench.sms[1]->got[kRequests].size() == room + 2);
  CHECK(bench.sms[2]->got[kRequests].size() == 1);
  WaitGraph after;
  bench.domain.collect_waits(after);
  CHECK(after.empty());
}

TEST_CASE("who waits where a GPC's limit stands between, and for whom", "[gpc][CGA-06]") {
  SmNetworkParams params;
  params.queue = 3;
  params.gpc_bandwidth = 100;
  NetworkBench bench(arch::Shape{{{{2, 2}}}}, params, TimingMode::at, 4);
  bench.sms[2]->withholds[kRequests] = true;
  for (std::uint32_t i = 0; i < 500; ++i) bench.send(0, kRequests, 0, 2, 0, i);
  bench.run(10'000);
  CHECK(bench.sms[2]->got[kRequests].size() == 3);
  WaitGraph graph;
  bench.domain.collect_waits(graph);
  std::string text;
  for (const std::string& line : graph.chain()) text += line + "\n";
  CHECK(text ==
        "SM 0 waits: for room at the port for requests between TPCs of gpu0.gpc0.network\n"
        "the port for requests between TPCs of gpu0.gpc0.network waits: for room at the port for requests into SM 2 of "
        "gpu0.gpc0.network\n"
        "the port for requests into SM 2 of gpu0.gpc0.network waits: for room at SM 2\n");
  bench.sms[2]->withholds[kRequests] = false;
  bench.sms[2]->give_back(kRequests, 3);
  bench.run(20'000);
  CHECK(bench.sms[2]->got[kRequests].size() == 500);
  CHECK(bench.network.packets() == 0);
}

TEST_CASE("packets are counted by plane and by pair of SMs", "[gpc][CGA-06]") {
  NetworkBench bench(arch::Shape{{{{2, 2}}}});
  bench.send(1, kRequests, 0, 1, 128);
  bench.send(2, kRequests, 0, 1, 0);
  bench.send(3, kRequests, 2, 0, 64);
  bench.send(4, kReplies, 1, 0, 32);
  bench.run(1'000);
  CHECK(bench.stat("requests") == 3);
  CHECK(bench.stat("request_bytes") == 144 + 16 + 80);
  CHECK(bench.stat("replies") == 1);
  CHECK(bench.stat("reply_bytes") == 48);
  CHECK(bench.observation.clusters.bytes(0, 0, 1) == 160);
  CHECK(bench.observation.clusters.bytes(0, 2, 0) == 80);
  CHECK(bench.observation.clusters.bytes(0, 1, 0) == 48);
  CHECK(bench.observation.clusters.bytes(0, 0, 2) == 0);
}

TEST_CASE("a packet that is not from its SM, or for none, is refused", "[gpc][CGA-06]") {
  for (const bool target : {false, true}) {
    NetworkBench bench(arch::Shape{{{{2, 2}}}});
    DsmemPacket packet = bench.packet(kRequests, 0, 1, 32);
    (target ? packet.to_sm : packet.from_sm) = heddle::protocol::SmInGpc(target ? 4 : 2);
    bench.sms[0]->send(1, kRequests, packet);
    CHECK_THAT(failure_of([&] { bench.run(100); }), Catch::Contains("names SMs that it is not between"));
  }
}

}  // namespace gpc_sm_network_test
