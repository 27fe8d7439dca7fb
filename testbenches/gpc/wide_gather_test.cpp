// A GPC's part in the barriers of wide CGAs against what its CTAs have gone through.
#include "gpc/wide_gather.h"

#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "common/timebase.h"
#include "support/random.h"

namespace gpc_wide_gather_test {

namespace {

using namespace heddle;
using namespace heddle::gpc;
using heddle::test::Random;
using protocol::BarrierReportPacket;
using protocol::BarrierSlot;
using protocol::ClusterOrderPacket;
using protocol::CtaTag;

template <class Packet>
class Sent final : public PacketSender<Packet> {
 public:
  struct Item {
    Cycle when;
    std::uint32_t link;
    Packet packet;
  };
  std::vector<Item> items;

 private:
  bool do_can_send(std::uint32_t) override { return true; }
  void do_send(const Packet& packet, std::uint32_t link) override { items.push_back({0, link, packet}); }
  void do_send_at(Cycle departure, const Packet& packet, std::uint32_t link) override {
    items.push_back({departure, link, packet});
  }
};

CtaTag tag_of(std::uint64_t sequence, bool nested) {
  CtaTag tag;
  tag.sequence = sequence;
  if (nested) tag.cga_id = protocol::CgaId(3);
  tag.barriers.gpu = BarrierSlot(2);
  return tag;
}

struct Bench {
  GpuObservation observation{"gpu0"};
  PlainTimebase timebase{TimingMode::at, observation};
  Sent<ClusterOrderPacket> orders;
  Sent<BarrierReportPacket> reports;
  WideGather gather{timebase, protocol::GpcId(1), {10, 20, 30}, orders, reports};

  const BarrierReportPacket& last() const { return reports.items.back().packet; }
};

}  // namespace

TEST_CASE("a GPC reports when all of its CTAs that run have arrived, and tells them of the end", "[gpc][CWD-09]") {
  Bench bench;
  const CtaTag tag = tag_of(7, false);
  bench.gather.launch(tag, 0, 2);
  bench.gather.launch(tag, 2, 1);
  bench.gather.arrive(tag, 4, arch::CgaLevel::gpu, 100);
  bench.gather.arrive(tag, 9, arch::CgaLevel::gpu, 140);
  CHECK(bench.reports.items.empty());
  bench.gather.leave(tag, 5);  // the one that was waited for
  REQUIRE(bench.reports.items.size() == 1);
  CHECK(bench.reports.items[0].when == 140);
  CHECK(bench.last().slot == BarrierSlot(2));
  CHECK(bench.last().sequence == 7);
  CHECK(bench.last().phase == 0);
  CHECK(bench.last().arrived == 2);
  CHECK(bench.last().gone == 1);
  // More of the CGA come to this GPC.
  bench.gather.launch(tag, 1, 1);
  bench.gather.arrive(tag, 11, arch::CgaLevel::gpu, 150);
  CHECK(bench.last().arrived == 3);
  // One that has arrived goes without waiting: it has not arrived any more.
  bench.gather.leave(tag, 4);
  CHECK(bench.last().arrived == 2);
  CHECK(bench.last().gone == 2);
  bench.gather.release({BarrierSlot(2), 7, 1});
  REQUIRE(bench.orders.items.size() == 3);
  for (const auto& order : bench.orders.items) {
    CHECK(order.when == 10 * (order.link + 1));
    CHECK(order.packet.kind == ClusterOrderPacket::Kind::barrier);
    CHECK(order.packet.level == arch::CgaLevel::gpu);
    CHECK(order.packet.barrier == BarrierSlot(2));
    CHECK(order.packet.sequence == 7);
  }
  const std::size_t before = bench.reports.items.size();
  bench.gather.arrive(tag, 9, arch::CgaLevel::gpu, 200);
  CHECK(bench.reports.items.size() == before);
  bench.gather.arrive(tag, 11, arch::CgaLevel::gpu, 210);
  CHECK(bench.last().phase == 1);
  CHECK(bench.last().arrived == 2);
  CHECK(bench.last().gone == 2);
}

TEST_CASE("a CTA of a GPC_CGA counts once all SMs know it", "[gpc][CGA-04][CWD-09]") {
  Bench bench;
  const CtaTag tag = tag_of(7, true);
  bench.gather.launch(tag, 0, 2);
  bench.gather.arrive(tag, 0, arch::CgaLevel::gpu, 100);
  bench.gather.enter(tag, 90);
  bench.gather.arrive(tag, 1, arch::CgaLevel::gpu, 100);
  CHECK(bench.reports.items.empty());
  bench.gather.enter(tag, 300);
  REQUIRE(bench.reports.items.size() == 1);
  CHECK(bench.reports.items[0].when == 300);
}

TEST_CASE("what cannot happen at a wide barrier is caught", "[gpc][CWD-09]") {
  Bench bench;
  const CtaTag tag = tag_of(7, false);
  CHECK_THROWS_AS(bench.gather.arrive(tag, 0, arch::CgaLevel::gpu, 1), CheckFailed);
  bench.gather.launch(tag, 0, 2);
  CHECK_THROWS_AS(bench.gather.arrive(tag, 0, arch::CgaLevel::ugpu, 1), CheckFailed);
  bench.gather.arrive(tag, 0, arch::CgaLevel::gpu, 1);
  CHECK_THROWS_AS(bench.gather.arrive(tag, 0, arch::CgaLevel::gpu, 2), CheckFailed);
  CHECK_THROWS_AS(bench.gather.launch(tag_of(8, false), 0, 1), CheckFailed);  // the slot is not free
  CHECK_THROWS_AS(bench.gather.release({BarrierSlot(2), 7, 2}), CheckFailed);
  bench.gather.leave(tag, 0);
  bench.gather.leave(tag, 1);
  CHECK_THROWS_AS(bench.gather.leave(tag, 2), CheckFailed);
  bench.gather.launch(tag_of(8, false), 0, 1);
  bench.gather.release({BarrierSlot(2), 7, 1});  // of a CGA that is gone
  CHECK(bench.orders.items.empty());
}

}  // namespace gpc_wide_gather_test
