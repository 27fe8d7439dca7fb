// Packet links: what binds to what, when packets arrive and in which order, resets, and links between clocks.
#include "common/packet_socket.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include "common/link_bench.h"
#include "support/random.h"

namespace common_packet_socket_test {

using namespace heddle;
using namespace heddle::test::packets;
using Catch::Contains;
using test::failure_of;
using test::Random;
using test::run_until;
using test::run_until_idle;
using test::SimFixture;

namespace {

// What does not belong together does not compile.
template <class From, class To, class = void>
struct Binds : std::false_type {};
template <class From, class To>
struct Binds<From, To, std::void_t<decltype(std::declval<From&>().bind(std::declval<To&>()))>> : std::true_type {};

using MemoryOut = tlm::tlm_initiator_socket<>;
using MemoryIn = tlm::tlm_target_socket<>;
class Anything;
using EasyMemoryIn = tlm_utils::simple_target_socket<Anything>;
using EasyMemoryOut = tlm_utils::simple_initiator_socket<Anything>;

static_assert(Binds<PacketOut<Launch>, PacketIn<Launch>>::value);
static_assert(Binds<MemoryOut, MemoryIn>::value);
static_assert(!Binds<PacketOut<Launch>, PacketIn<Complete>>::value);
static_assert(!Binds<PacketOut<Complete>, PacketIn<Launch>>::value);
static_assert(!Binds<PacketOut<Launch>, PacketOut<Complete>>::value);
static_assert(!Binds<PacketIn<Launch>, PacketIn<Complete>>::value);
static_assert(!Binds<PacketOut<Launch>, MemoryIn>::value);
static_assert(!Binds<MemoryOut, PacketIn<Launch>>::value);
static_assert(!Binds<PacketOut<Launch>, EasyMemoryIn>::value);
static_assert(!Binds<EasyMemoryOut, PacketIn<Launch>>::value);
static_assert(!Binds<PacketIn<Launch>, PacketOut<Launch>>::value);
static_assert(!Binds<MemoryOut, PacketInSocket::Socket>::value);
static_assert(!Binds<PacketOutSocket::Socket, MemoryIn>::value);

}  // namespace

TEST_CASE("packets arrive after the link's latency, in order, never inside the sender's call", "[packet_socket]") {
  for (const Cycle run_ahead : {0, 1000}) {
    Setup setup;
    setup.run_ahead = run_ahead;
    setup.credits = kUnlimitedCredits;
    Bench bench(setup);
    bool inside = false;
    bench.agenda.at(10, [&] {
      for (std::uint64_t i = 1; i <= 3; ++i) bench.sender.out.send({i});
      inside = !bench.receiver().arrivals.empty();
      CHECK(bench.receiver().in.in_flight() == 3);
    });
    bench.send_at(11, 4);
    bench.send_at(500, 5);
    run_until_idle();
    CHECK_FALSE(inside);
    CHECK(bench.receiver().arrivals == Arrivals{{14, 1}, {14, 2}, {14, 3}, {15, 4}, {504, 5}});
    CHECK(bench.receiver().in.in_flight() == 0);
    CHECK(bench.receiver().index == 10);
    CHECK(bench.sender.out.outstanding() == 0);
    CHECK(bench.sender.out.can_send());
    CHECK(bench.sender.credits.empty());
  }
}

TEST_CASE("in lt mode links are free and keep their order", "[packet_socket]") {
  Setup setup;
  setup.mode = TimingMode::lt;
  setup.credits = 1;
  Bench bench(setup);
  std::uint64_t next = 1;
  const auto send = [&] {
    while (next <= 4 && bench.sender.out.can_send()) bench.sender.out.send({next++});
  };
  bench.sender.then = [&](std::uint32_t) { send(); };
  bench.agenda.at(10, send);
  run_until_idle();
  CHECK(bench.receiver().arrivals == Arrivals{{10, 1}, {10, 2}, {10, 3}, {10, 4}});
}

TEST_CASE("a link of latency 0 delivers in the same cycle, after the sender's event", "[packet_socket]") {
  Setup setup;
  setup.latency = 0;
  Bench bench(setup);
  bool inside = false;
  bench.agenda.at(10, [&] {
    bench.sender.out.send({1});
    inside = !bench.receiver().arrivals.empty();
  });
  run_until_idle();
  CHECK_FALSE(inside);
  CHECK(bench.receiver().arrivals == Arrivals{{10, 1}});
}

TEST_CASE("a reset in mid-flight drops packets and restores every credit", "[packet_socket]") {
  Setup setup;
  setup.receivers = 2;
  setup.credit_return = CreditReturn::by_owner;
  Bench bench(setup);
  Receiver& first = *bench.receivers[0];
  bench.send_at(10, 1);     // arrives at 14; its credit is on its way at the reset
  bench.send_at(13, 2);     // in flight at the reset
  bench.send_at(13, 3, 1);  // likewise, on the other link
  bench.agenda.at(14, [&] { CHECK_FALSE(bench.sender.out.can_send(0)); });  // refused: an event is due at 17
  first.then = [&](const Launch& packet) {
    if (packet.number == 1) first.in.return_credit();
  };
  run_until(bench.domain.clock().time_of(15));
  // From outside, before the kernel has got further; the domain may have run ahead of it by then.
  bench.domain.reset();
  const std::size_t arrived = first.arrivals.size();
  const std::size_t told = bench.sender.credits.size();
  for (const std::uint32_t link : {0U, 1U}) {
    CHECK(bench.sender.out.outstanding(link) == 0);
    CHECK(bench.receivers[link]->in.in_flight() == 0);
    for (int i = 0; i < 2; ++i) bench.sender.out.send({50U + link}, link);
    CHECK_FALSE(bench.sender.out.can_send(link));
  }
  run_until_idle();
  CHECK(Arrivals(first.arrivals.begin() + static_cast<std::ptrdiff_t>(arrived), first.arrivals.end()) ==
        Arrivals{{4, 50}, {4, 50}});
  CHECK(bench.sender.credits.size() == told);
  // The refusal after the reset still counts.
  first.in.return_credit();
  run_until_idle();
  REQUIRE(bench.sender.credits.size() == told + 1);
  CHECK(bench.sender.credits.back() == Arrival{4 + 3, 0});
}

TEST_CASE("a reset without running ahead: what was in flight never arrives", "[packet_socket]") {
  Setup setup;
  setup.run_ahead = 0;
  Bench bench(setup);
  bench.send_at(10, 1);
  bench.send_at(13, 2);
  run_until(bench.domain.clock().time_of(15));
  CHECK(bench.receiver().in.in_flight() == 1);
  CHECK(bench.sender.out.outstanding() == 2);
  bench.domain.reset();
  CHECK(bench.receiver().in.in_flight() == 0);
  CHECK(bench.sender.out.outstanding() == 0);
  run_until_idle();
  CHECK(bench.receiver().arrivals == Arrivals{{14, 1}});
}

TEST_CASE("blocking transport enters a packet too, with its delay, and does not wait", "[packet_socket]") {
  SimFixture sim;
  Observation observation{"gpu0"};
  Domain domain("domain", 1.0, TimingMode::at, 1000, observation);
  Receiver receiver("receiver", domain, 1);
  // A foreign initiator of the packet protocol, as somebody's testbench may have.
  struct Foreign final : sc_core::sc_module, tlm::tlm_bw_transport_if<packet_protocol> {
    explicit Foreign(const sc_core::sc_module_name& name) : sc_core::sc_module(name) { out.bind(*this); }
    tlm::tlm_sync_enum nb_transport_bw(PacketTransfer& transfer, PacketPhase& phase, sc_core::sc_time& delay) override {
      credits.push_back(
          {static_cast<Cycle>((sc_core::sc_time_stamp() + delay).to_seconds() * 1e9 + 0.5), transfer.link});
      credits_only = credits_only && phase == PacketPhase::credit;
      return tlm::TLM_ACCEPTED;
    }
    void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
    tlm::tlm_initiator_socket<kPacketBusWidth, packet_protocol> out{"out"};
    Arrivals credits;
    bool credits_only = true;
  } foreign("foreign");
  foreign.out.bind(receiver.in.socket());
  test::start();
  const Launch packet{77};
  PacketTransfer transfer;
  transfer.packet = &packet;
  transfer.kind = packet_kind<Launch>();
  transfer.link = 3;
  transfer.credited = true;
  sc_core::sc_time delay(12.25, sc_core::SC_NS);
  foreign.out->b_transport(transfer, delay);
  CHECK(receiver.arrivals.empty());
  CHECK(delay == sc_core::sc_time(12.25, sc_core::SC_NS));
  run_until_idle();
  CHECK(receiver.arrivals == Arrivals{{13, 77}});
  CHECK(foreign.credits == Arrivals{{14, 3}});
  CHECK(foreign.credits_only);
  // Without a credit taken none comes back.
  transfer.credited = false;
  foreign.out->b_transport(transfer, delay);
  run_until_idle();
  CHECK(receiver.arrivals.size() == 2);
  CHECK(foreign.credits.size() == 1);
  // No debug access and no direct memory on such a link; a wrong phase is the neighbour's mistake.
  tlm::tlm_dmi dmi;
  CHECK_FALSE(foreign.out->get_direct_mem_ptr(transfer, dmi));
  CHECK(foreign.out->transport_dbg(transfer) == 0);
  PacketPhase wrong = PacketPhase::credit;
  CHECK_THROWS_AS(foreign.out->nb_transport_fw(transfer, wrong, delay), CheckFailed);
  // Nor is a packet of another type taken in.
  const Complete other{78};
  transfer.packet = &other;
  transfer.kind = packet_kind<Complete>();
  CHECK_THROWS_AS(foreign.out->b_transport(transfer, delay), CheckFailed);
  CHECK_THROWS_AS(packet_of<Launch>(transfer), CheckFailed);
  run_until_idle();
  CHECK(receiver.arrivals.size() == 2);
}

// As MPCs tell an SM of CTAs of clusters.
TEST_CASE("many senders share a receiver that is for many, without credits", "[packet_socket]") {
  SimFixture sim;
  Observation observation{"gpu0"};
  Domain domain("domain", 1.0, TimingMode::at, 1000, observation);
  struct Hall final : sc_core::sc_module {
    Hall(const sc_core::sc_module_name& name, Domain& d)
        : sc_core::sc_module(name), domain(d), in("in", d, 0, CreditReturn::on_receipt, PacketSenders::many) {
      in.on_packet<Hall, &Hall::receive>(*this);
    }
    void receive(const Launch& packet, std::uint32_t) { arrivals.push_back({domain.now(), packet.number}); }
    Domain& domain;
    PacketIn<Launch> in;
    Arrivals arrivals;
  } hall("hall", domain);
  Sender near("near", domain, 2, kUnlimitedCredits);
  Sender far("far", domain, 5, kUnlimitedCredits);
  Sender credited("credited", domain, 2, 3);
  for (Sender* sender : {&near, &far, &credited}) sender->out.bind(hall.in);
  Agenda agenda(domain);
  agenda.at(10, [&] {
    far.out.send({1});
    near.out.send({2});
  });
  agenda.at(11, [&] { near.out.send({3}); });
  agenda.at(20, [&] { CHECK_THROWS_AS(credited.out.send({4}), CheckFailed); });
  run_until_idle();
  CHECK(hall.arrivals == Arrivals{{12, 2}, {13, 3}, {15, 1}});
}

TEST_CASE("two senders at a receiver for one are an error of wiring", "[packet_socket]") {
  SimFixture sim;
  Observation observation{"gpu0"};
  Domain domain("domain", 1.0, TimingMode::at, 1000, observation);
  Receiver receiver("receiver", domain, 1);
  Sender one("one", domain, 2, 1);
  Sender two("two", domain, 2, 1);
  one.out.bind(receiver.in);
  two.out.bind(receiver.in);
  CHECK_THAT(failure_of([] { test::start(); }), Contains("two senders") && Contains("receiver.in"));
}

TEST_CASE("a link between two clocks: each end counts in its own", "[packet_socket]") {
  for (const Cycle run_ahead : {0, 1000}) {
    SimFixture sim;
    Observation observation{"gpu0"};
    Domain fast("fast", 2.0, TimingMode::at, run_ahead, observation);   // 500 ps
    Domain slow("slow", 0.75, TimingMode::at, run_ahead, observation);  // 1333 ps
    Sender sender("sender", fast, 3, 1);
    Receiver receiver("receiver", slow, 2);
    sender.out.bind(receiver.in);
    Agenda agenda(fast);
    agenda.at(10, [&] {
      sender.out.send({1});
      CHECK_FALSE(sender.out.can_send());
    });
    // Something that keeps the fast domain busy meanwhile.
    for (Cycle cycle = 0; cycle < 60; ++cycle) agenda.at(cycle, [] {});
    run_until_idle();
    CHECK(receiver.arrivals == Arrivals{{5, 1}});  // 6500 ps is in the fifth cycle: 6665 ps
    CHECK(sender.credits == Arrivals{{19, 0}});    // 7 * 1333 = 9331 ps, in cycle 19: 9500 ps
  }
}

// Random traffic over several links whose receivers keep every packet for a while, against sums done by hand: packet i
// of a link leaves when it is there, its predecessor has left, and the credit of packet i - credits is back.

}  // namespace common_packet_socket_test
