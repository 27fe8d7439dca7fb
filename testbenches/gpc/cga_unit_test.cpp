// The GPC_CGAs of a GPC without SystemC: barrier, flush, and launches that wait for an id.
#include "gpc/cga_unit.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "common/timebase.h"

namespace gpc_cga_unit_test {

namespace {

using namespace heddle;
using namespace heddle::gpc;
using protocol::CgaCompletePacket;
using protocol::ClusterNoticePacket;
using protocol::ClusterOrderPacket;

// Takes packets and notes when they were sent.
template <class Packet>
class Log final : public PacketSender<Packet> {
 public:
  explicit Log(Timebase& timebase) : timebase_(timebase) {}

  struct Item {
    Cycle when;
    std::uint32_t link;
    Packet packet;
  };
  std::vector<Item> items;

 private:
  bool do_can_send(std::uint32_t) override { return true; }
  void do_send(const Packet& packet, std::uint32_t link) override { items.push_back({timebase_.now(), link, packet}); }
  void do_send_at(Cycle departure, const Packet& packet, std::uint32_t link) override {
    items.push_back({departure, link, packet});
  }
  Timebase& timebase_;
};

GpcParams small() {
  GpcParams params;
  params.cga_ids = 2;
  params.cga_barriers = 2;
  params.barrier_near = 50;
  params.barrier_far = 80;
  params.cga_flush = 30;
  return params;
}

struct Bench : CgaIdListener {
  explicit Bench(const GpcParams& params = small())
      : unit(timebase, params, protocol::GpcId(3), topology.gpc(0), {0, 1, 2, 3}, {orders, completions, reports}, *this,
             "gpu0.gpc3.gpm", "gpm") {}

  void cga_id_freed() override { freed.push_back(timebase.now()); }

  // A CGA of one CTA on each of TPC 0 and TPC 2.
  std::uint32_t start(std::uint64_t sequence) {
    protocol::LaunchPacket launch;
    launch.slot = heddle::protocol::TaskSlot(1);
    launch.operation = 7;
    launch.sequence = sequence;
    launch.cga_ctas = 2;
    REQUIRE(unit.begin(launch));
    const protocol::CgaId id = unit.launching(launch);
    protocol::CtaTag tag;
    tag.sequence = sequence;
    tag.cga_id = id;
    unit.launch(tag, 0, 0b1);
    unit.launch(tag, 2, 0b10000);
    return id;
  }
  void notice(ClusterNoticePacket::Kind kind, std::uint32_t id, std::uint32_t rank, Cycle when, std::uint32_t tpc = 0) {
    ClusterNoticePacket packet;
    packet.kind = kind;
    packet.tag.cga_id = heddle::protocol::CgaId(id);
    packet.rank = rank;
    unit.notice(packet, tpc, when);
  }
  void complete(std::uint32_t id, std::uint32_t rank) {
    protocol::CtaCompletePacket packet;
    packet.tag.cga_id = heddle::protocol::CgaId(id);
    packet.rank = rank;
    unit.cta_done(packet, rank == 0 ? 0 : 4);
  }

  GpuObservation observation{"gpu0"};
  PlainTimebase timebase{TimingMode::at, observation};
  Log<ClusterOrderPacket> orders{timebase};
  Log<CgaCompletePacket> completions{timebase};
  Log<protocol::BarrierReportPacket> reports{timebase};
  arch::Topology topology{arch::Shape{{{{2, 2, 2, 2}}}}};
  std::vector<Cycle> freed;
  CgaUnit unit;
};

constexpr auto kEntered = ClusterNoticePacket::Kind::entered;
constexpr auto kArrived = ClusterNoticePacket::Kind::arrived;
constexpr auto kFlushed = ClusterNoticePacket::Kind::flushed;

TEST_CASE("a phase ends after the last arrival, and the TPCs of the CGA are told", "[gpc][CGA-13]") {
  Bench bench;
  const std::uint32_t id = bench.start(50);
  bench.notice(kEntered, id, 0, 10);
  bench.notice(kArrived, id, 0, 60);
  bench.notice(kArrived, id, 1, 20);  // both are heard ahead, in any order
  bench.timebase.run();
  CHECK(bench.orders.items.empty());  // one CTA is not known everywhere
  bench.notice(kEntered, id, 1, 15);
  bench.timebase.run();
  REQUIRE(bench.orders.items.size() == 2);
  for (const auto& order : bench.orders.items) {
    // An arrival takes a cycle; TPCs lie on a line, from 50 cycles at the first to 80 at the last.
    CHECK(order.when == 61 + (order.link == 0 ? 50 : 70));
    CHECK(order.packet.kind == ClusterOrderPacket::Kind::barrier);
    CHECK(order.packet.cga_id == id);
    CHECK(order.packet.sequence == 50);
  }
  CHECK(bench.orders.items[0].link == 0);
  CHECK(bench.orders.items[1].link == 2);
}

TEST_CASE("arrivals are taken in at their rate, one after another, whatever their CGA", "[gpc][CGA-13]") {
  for (const double rate : {0.0, 0.25, 1.0, 2.0}) {
    GpcParams params = small();
    params.barrier_arrivals = rate;
    Bench bench(params);
    const std::uint32_t first = bench.start(50);
    const std::uint32_t second = bench.start(51);
    for (const std::uint32_t id : {first, second}) {
      for (std::uint32_t rank = 0; rank < 2; ++rank) bench.notice(kEntered, id, rank, 10);
    }
    for (const std::uint32_t id : {first, second}) {
      for (std::uint32_t rank = 0; rank < 2; ++rank) bench.notice(kArrived, id, rank, 100);
    }
    bench.timebase.run();
    REQUIRE(bench.orders.items.size() == 4);
    const auto taken = [rate](double arrivals) {
      return 100 + static_cast<Cycle>(std::ceil(rate == 0 ? 0 : arrivals / rate));
    };
    CAPTURE(rate);
    CHECK(bench.orders.items[0].when == taken(2) + 50);
    CHECK(bench.orders.items[2].when == taken(4) + 50);
  }
}

TEST_CASE("an id is free once every TPC that had a CTA has answered the flush", "[gpc][CGA-12]") {
  Bench bench;
  const std::uint32_t id = bench.start(50);
  bench.notice(kEntered, id, 0, 10);
  bench.notice(kEntered, id, 1, 40);
  bench.complete(id, 0);
  bench.complete(id, 1);
  bench.timebase.run();
  REQUIRE(bench.orders.items.size() == 4);  // all TPCs are to forget it
  CHECK(bench.orders.items[0].when == 40);  // not before the SMs have heard of its last CTA
  bench.notice(kFlushed, id, 0, 90, 2);
  bench.timebase.run();
  CHECK(bench.unit.open() == 1);
  bench.notice(kFlushed, id, 0, 70, 0);
  bench.timebase.run();
  CHECK(bench.unit.open() == 0);
  REQUIRE(bench.completions.items.size() == 1);
  CHECK(bench.completions.items[0].when == 120);
  CHECK(bench.completions.items[0].packet.sequence == 50);
  CHECK(bench.freed == std::vector<Cycle>{120});
  CHECK_THROWS_AS(bench.notice(kFlushed, id, 0, 130, 0), CheckFailed);
}

TEST_CASE("a launch waits for an id", "[gpc][CGA-01]") {
  GpcParams params = small();
  params.dsmem_flush = false;
  Bench bench(params);
  const std::uint32_t first = bench.start(1);
  bench.start(2);
  protocol::LaunchPacket launch;
  launch.sequence = 3;
  launch.cga_ctas = 1;
  CHECK_FALSE(bench.unit.begin(launch));
  CHECK(bench.unit.what_lacks() == std::string("for a CGA id of"));
  for (std::uint32_t rank = 0; rank < 2; ++rank) bench.notice(kEntered, first, rank, 0);
  bench.timebase.run_until(500);
  for (std::uint32_t rank = 0; rank < 2; ++rank) bench.complete(first, rank);
  bench.timebase.run();
  CHECK(bench.freed == std::vector<Cycle>{530});
  CHECK(bench.unit.begin(launch));
  CHECK(bench.unit.launching(launch) == first);
  launch.sequence = 4;
  CHECK_THROWS_AS(bench.unit.launching(launch), CheckFailed);  // it belongs to a CGA that has not begun
}

}  // namespace

}  // namespace gpc_cga_unit_test
