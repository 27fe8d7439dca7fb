// Programs that ask the distributor how many of their clusters fit (CWD-24).
#include <cstdint>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/packet_socket.h"
#include "protocol/occupancy_query.h"
#include "sm/program_bench.h"

namespace heddle::test::sm_occupancy_query_test {
namespace {

using arch::CgaLevel;
using arch::CgaMode;

constexpr std::uint32_t kQueryWay = 30;
constexpr std::uint32_t kAnswerWay = 11;
constexpr Cycle kThinks = 200;

sm::SmContext place() {
  sm::SmContext context = bench_place();
  context.query_way = kQueryWay;
  context.answer_way = kAnswerWay;
  return context;
}

// Answers 40 to the first query, 41 to the second …, each after the same time.
struct Distributor : sc_core::sc_module {
  Distributor(const sc_core::sc_module_name& name, Domain& domain_, sm::Sm& sm)
      : sc_core::sc_module(name), in("in", domain_, 0), out("out", domain_, 0, kUnlimitedCredits), domain(domain_) {
    in.on_packet<Distributor, &Distributor::on_query>(*this);
    sm.query_out.bind(in);
    out.bind(sm.answer_in);
  }
  void on_query(const protocol::OccupancyQueryPacket& query, std::uint32_t) {
    queries.emplace_back(domain.now(), query);
    protocol::OccupancyAnswerPacket answer;
    answer.tag = query.tag;
    answer.active = 39 + queries.size();
    out.send_at(domain.now() + kThinks, answer);
  }
  PacketIn<protocol::OccupancyQueryPacket> in;
  PacketOut<protocol::OccupancyAnswerPacket> out;
  Domain& domain;
  std::vector<std::pair<Cycle, protocol::OccupancyQueryPacket>> queries;
};

// Stores what it got: lane i at 256 + 4 * i.
ListProgram asks(std::array<std::uint32_t, arch::kCgaLevels> ctas, CgaMode mode) {
  ListProgram program(2);
  program.query_occupancy(ctas, mode, 0);
  program.store(
      {}, [](const Warp& warp, std::uint32_t lane) { return warp.reg(0, lane); },
      [](const Warp& warp, std::uint32_t lane) { return 256 + 128 * warp.place.warp + 4 * lane; }, {{0, 1}});
  program.exit();
  return program;
}

}  // namespace

TEST_CASE("a warp asks for clusters of its own kernel and waits for the answer", "[sm][CWD-24]") {
  ProgramBench bench({}, TimingMode::at, 1 << 20, 0, place());
  Distributor distributor("distributor", bench.domain, bench.sm);
  const std::uint32_t code = bench.add(asks({0, 4, 0, 32}, CgaMode::multicast), 40, 1000);
  protocol::CtaStartPacket start = bench.packet(code);
  start.subcontext = 9;
  start.local_bytes = 64;
  bench.mpc.start(0, start);
  run_until_idle();
  REQUIRE(distributor.queries.size() == 2);  // two warps, each for itself
  const auto& [arrival, query] = distributor.queries[0];
  CHECK(arrival == bench.first_issue() + kQueryWay);
  CHECK(query.need == start.need);
  CHECK_FALSE(query.cluster.has(CgaLevel::cpc));
  CHECK(query.cluster.of(CgaLevel::gpc) == arch::Dim3{4, 1, 1});
  CHECK_FALSE(query.cluster.has(CgaLevel::ugpu));
  CHECK(query.cluster.of(CgaLevel::gpu) == arch::Dim3{32, 1, 1});
  CHECK(query.cluster.mode == CgaMode::multicast);
  CHECK(query.local_memory);
  CHECK_FALSE(query.largest);
  CHECK(query.subcontext == 9);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    CHECK(bench.l2.get<std::uint32_t>(256 + 4 * lane) == 40);
    CHECK(bench.l2.get<std::uint32_t>(384 + 4 * lane) == (lane < 8 ? 41 : 0));
  }
  // From the cycle after the issue to the answer at the warp.
  CHECK(bench.stat("stall.occupancy") == 2 * (kQueryWay + kThinks + kAnswerWay - 1));
  CHECK(bench.faults.empty());
  bench.sm.check_idle();
}

TEST_CASE("a CTA that is stopped while it asks ends with the answer", "[sm][CWD-24]") {
  ProgramBench bench({}, TimingMode::at, 1 << 20, 0, place());
  Distributor distributor("distributor", bench.domain, bench.sm);
  bench.start(bench.add(asks({0, 4, 0, 0}, CgaMode::load_balancing), 32));
  bench.mpc.abort(100, 5);
  run_until_idle();
  REQUIRE(distributor.queries.size() == 1);
  REQUIRE(bench.mpc.exits.size() == 1);
  CHECK(bench.mpc.exits[0].first > distributor.queries[0].first + kThinks);
  CHECK(bench.l2.get<std::uint32_t>(256) == 0);  // it has gone no further
  bench.sm.check_idle();
}

TEST_CASE("without a distributor a query is a fault", "[sm][CWD-24]") {
  ProgramBench bench({}, TimingMode::at, 1 << 20, 0, place());
  bench.start(bench.add(asks({0, 4, 0, 0}, CgaMode::load_balancing), 32));
  run_until_idle();
  REQUIRE(bench.faults.size() == 1);
  CHECK(bench.faults[0].kind == arch::FaultKind::unsupported);
}

}  // namespace heddle::test::sm_occupancy_query_test
