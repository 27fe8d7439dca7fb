// What becomes of packets, told as operations.
#include "replay/packet_results.h"

#include <catch2/catch.hpp>

#include "common/error.h"

namespace replay_packet_results_test {

using namespace heddle;
using arch::HsaStatus;
using arch::PacketType;
using packet::PacketRecord;
using replay::PacketResults;
using replay::PreparedPacket;

namespace {

PreparedPacket carrying(std::vector<std::size_t> ops, bool begins = true, bool ends = true) {
  PreparedPacket packet;
  packet.ops = std::move(ops);
  packet.begins = begins;
  packet.ends = ends;
  return packet;
}

PacketRecord record(std::uint32_t queue, std::uint64_t index, std::uint32_t kernel, std::uint32_t operation,
                    Cycle start, PacketType type = PacketType::kernel_dispatch) {
  PacketRecord r;
  r.queue = queue;
  r.index = index;
  r.kernel = kernel;
  r.operation = operation;
  r.type = type;
  r.times = {start - 50, start - 40, start - 30, start - 20, start - 10, start, start + 100, start + 110};
  return r;
}

PacketResults fresh(std::size_t operations, std::size_t queues) {
  return PacketResults(operations, queues, 1000, [](Cycle cycle) { return 0.5 * static_cast<double>(cycle); });
}

}  // namespace

TEST_CASE("records become results on the workload's axis, kernel by kernel", "[replay][PKT-08]") {
  PacketResults results = fresh(3, 2);
  results.sent(1, carrying({}), 1900);  // a barrier packet
  results.sent(1, carrying({2, 0}), 2000);
  results.sent(0, carrying({1}), 2100);
  CHECK(results.dispatched(record(1, 1, 1, 77, 6000)) == 0);
  CHECK(results.operations().at(77) == 0);
  results.done(record(1, 0, 0, 0, 5000, PacketType::barrier_and));
  CHECK(results.ended() == 0);
  results.done(record(1, 1, 1, 77, 6000));
  CHECK(results.ended() == 1);
  const replay::OpResult& r = results.results()[0];
  CHECK(r.done);
  CHECK_FALSE(r.rejected);
  CHECK(r.submitted == 1000);
  CHECK(r.start == 2000);
  CHECK(r.end == 2050);
  REQUIRE(results.launches().size() == 1);
  CHECK(results.launches()[0].times == std::array<double, 9>{2000, 2975, 2980, 2985, 2990, 2995, 3000, 3050, 3055});
  results.done(record(1, 1, 0, 76, 5500));
  results.done(record(0, 0, 0, 78, 5500));
  CHECK(results.ended() == 3);
  CHECK_THROWS_AS(results.done(record(0, 0, 0, 78, 5500)), CheckFailed);
  CHECK_THROWS_AS(results.done(record(0, 1, 0, 78, 5500)), CheckFailed);
}

TEST_CASE("a copy in parts lasts from its first to its last", "[replay][INP-11]") {
  PacketResults results = fresh(1, 1);
  results.sent(0, carrying({0}, true, false), 1500);
  results.sent(0, carrying({0}, false, true), 1600);
  results.done(record(0, 0, 0, 0, 4000, PacketType::vendor));
  CHECK(results.ended() == 0);
  results.done(record(0, 1, 0, 0, 4400, PacketType::vendor));
  CHECK(results.ended() == 1);
  CHECK(results.results()[0].submitted == 500);
  CHECK(results.results()[0].start == 1000);
  CHECK(results.results()[0].end == 1250);
  CHECK(results.launches().empty());
}

TEST_CASE("a queue that stops ends what it will never do, once", "[replay][PKT-09]") {
  PacketResults results = fresh(6, 1);
  for (std::size_t op = 0; op < 4; ++op) results.sent(0, carrying({op}), 2000);
  results.dispatched(record(0, 0, 0, 10, 4000));  // runs on
  results.dispatched(record(0, 1, 0, 11, 4000));
  PacketRecord faulted = record(0, 1, 0, 11, 4000);
  faulted.status = HsaStatus::exception;
  results.done(faulted);
  CHECK(results.results()[1].faulted);
  CHECK_FALSE(results.results()[1].rejected);
  CHECK(results.stopped(0, 1, {4, 5, 4}, 9000) == std::vector<std::size_t>{2, 3, 4, 5});
  CHECK(results.ended() == 5);
  CHECK(results.results()[3].rejected);
  CHECK(results.results()[3].end == 8000);
  CHECK_FALSE(results.results()[0].done);
  results.done(record(0, 0, 0, 10, 4000));
  CHECK(results.ended() == 6);
  CHECK_FALSE(results.results()[0].rejected);
  // Its own record may come later than the stop.
  PacketRecord late = record(0, 2, 0, 0, 4000);
  late.status = HsaStatus::invalid_packet_format;
  late.times = {};
  results.done(late);
  CHECK(results.ended() == 6);
  CHECK(results.stopped(0, 1, {}, 9500).empty());
}

TEST_CASE("a packet that is refused never ran", "[replay][PKT-09]") {
  PacketResults results = fresh(1, 1);
  results.sent(0, carrying({0}), 2000);
  PacketRecord refused = record(0, 0, 0, 0, 4000);
  refused.status = HsaStatus::out_of_resources;
  refused.times.started = refused.times.ended = refused.times.cleaned = 0;
  results.done(refused);
  CHECK(results.results()[0].rejected);
  CHECK(results.results()[0].start == results.results()[0].submitted);
  CHECK(results.launches().empty());
}

}  // namespace replay_packet_results_test
