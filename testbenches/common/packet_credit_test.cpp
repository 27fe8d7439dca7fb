// Credits of packet links: when they come back and to whom, and that no link holds more than it has.
#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/link_bench.h"
#include "common/packet_socket.h"
#include "support/random.h"

namespace common_packet_credit_test {

using namespace heddle;
using namespace heddle::test::packets;
using Catch::Contains;
using test::failure_of;
using test::Random;
using test::run_until;
using test::run_until_idle;
using test::SimFixture;

TEST_CASE("a refused sender hears of a credit when it is back, once", "[packet_socket]") {
  Setup setup;  // latency 4, credits back after 3
  Bench bench(setup);
  bench.send_at(10, 1);
  bench.send_at(12, 2);
  bool could_send = true;
  bench.agenda.at(13, [&] {
    could_send = bench.sender.out.can_send();
    CHECK(bench.sender.out.outstanding() == 2);
  });
  run_until_idle();
  CHECK_FALSE(could_send);
  CHECK(bench.sender.credits == Arrivals{{17, 0}});  // 10 + 4 + 3
  CHECK(bench.sender.out.outstanding() == 1);
  run_until(bench.domain.clock().time_of(19));  // the second comes home without an event
  CHECK(bench.sender.out.outstanding() == 0);
}

TEST_CASE("a sender that was not refused is left alone", "[packet_socket]") {
  Bench bench(Setup{});
  bench.send_at(10, 1);
  bench.send_at(11, 2);
  // Credits are back after 7 cycles; nobody has to be told.
  bench.agenda.at(16, [&] { CHECK(bench.sender.out.outstanding() == 2); });
  bench.agenda.at(17, [&] { CHECK(bench.sender.out.outstanding() == 1); });
  bench.agenda.at(18, [&] { CHECK(bench.sender.out.outstanding() == 0); });
  run_until_idle();
  CHECK(bench.sender.credits.empty());
}

TEST_CASE("a credit can be used in the very cycle in which it is back", "[packet_socket]") {
  Setup setup;
  setup.credits = 1;
  Bench bench(setup);
  bench.send_at(10, 1);
  std::vector<bool> possible;
  for (const Cycle cycle : {16, 17}) bench.agenda.at(cycle, [&] { possible.push_back(bench.sender.out.can_send()); });
  run_until_idle();
  CHECK(possible == std::vector<bool>{false, true});
}

TEST_CASE("with by_owner a credit comes back only when the owner gives it", "[packet_socket]") {
  Setup setup;
  setup.credits = 1;
  setup.credit_return = CreditReturn::by_owner;
  Bench bench(setup);
  bench.send_at(10, 1);
  bench.agenda.at(11, [&] { CHECK_FALSE(bench.sender.out.can_send()); });
  bench.agenda.at(400, [&] { CHECK(bench.sender.out.outstanding() == 1); });
  bench.agenda.at(500, [&] { bench.receiver().in.return_credit(); });
  run_until_idle();
  CHECK(bench.sender.credits == Arrivals{{503, 0}});
}

TEST_CASE("a packet without a credit, an unknown link and one credit too many are refused", "[packet_socket]") {
  Setup setup;
  setup.credit_return = CreditReturn::by_owner;
  SECTION("a packet without a credit") {
    Bench bench(setup);
    for (std::uint64_t i = 0; i < 3; ++i) bench.send_at(10, i);
    const std::string message = failure_of([] { run_until_idle(); });
    CHECK_THAT(message, Contains("packet sent without a credit on sender.out"));
    CHECK_THAT(message, Contains("(cycle 10)"));
  }
  SECTION("no such link") {
    Bench bench(setup);
    bench.send_at(10, 1, 1);
    CHECK_THAT(failure_of([] { run_until_idle(); }), Contains("no such link: sender.out"));
  }
  SECTION("a credit that was never taken") {
    Bench bench(setup);
    bench.agenda.at(10, [&] { bench.receiver().in.return_credit(); });
    CHECK_THAT(failure_of([] { run_until_idle(); }),
               Contains("a credit was returned that nobody took on receiver_0.in"));
  }
  SECTION("one credit twice, the first still on its way") {
    Bench bench(setup);
    bench.send_at(10, 1);
    bench.receiver().then = [&](const Launch&) {
      bench.receiver().in.return_credit();
      bench.receiver().in.return_credit();
    };
    CHECK_THAT(failure_of([] { run_until_idle(); }), Contains("a credit was returned that nobody took"));
  }
  SECTION("a receiver without a listener") {
    SimFixture sim;
    Observation observation{"gpu0"};
    Domain domain("domain", 1.0, TimingMode::at, 0, observation);
    Sender sender("sender", domain, 1, 1);
    struct Deaf final : sc_core::sc_module {
      Deaf(const sc_core::sc_module_name& name, Domain& d) : sc_core::sc_module(name), in("in", d, 1) {}
      PacketIn<Launch> in;
    } deaf("deaf", domain);
    sender.out.bind(deaf.in);
    Agenda agenda(domain);
    agenda.at(1, [&] { sender.out.send({1}); });
    CHECK_THAT(failure_of([] { run_until_idle(); }), Contains("nobody listens on deaf.in"));
  }
}

TEST_CASE("a broadcast socket has a link per receiver, each with credits of its own", "[packet_socket]") {
  Setup setup;
  setup.receivers = 5;
  setup.credits = 1;
  Bench bench(setup);
  bench.agenda.at(10, [&] {
    CHECK(bench.sender.out.links() == 5);
    for (const std::uint32_t link : {3U, 0U, 4U, 1U}) {
      REQUIRE(bench.sender.out.can_send(link));
      bench.sender.out.send({100 + link}, link);
      CHECK_FALSE(bench.sender.out.can_send(link));
    }
    CHECK(bench.sender.out.can_send(2));
    CHECK(bench.sender.out.outstanding(2) == 0);
  });
  run_until_idle();
  for (const std::uint32_t link : {0U, 1U, 3U, 4U}) {
    CHECK(bench.receivers[link]->arrivals == Arrivals{{14, 100 + link}});
    CHECK(bench.receivers[link]->index == 10 + link);
  }
  CHECK(bench.receivers[2]->arrivals.empty());
  std::vector<std::uint64_t> told;
  for (const Arrival& credit : bench.sender.credits) {
    CHECK(credit.cycle == 17);
    told.push_back(credit.number);
  }
  std::sort(told.begin(), told.end());
  CHECK(told == std::vector<std::uint64_t>{0, 1, 3, 4});
}

TEST_CASE("random traffic with credits follows a queue model to the cycle", "[packet_socket]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 150; ++round) {
    Setup setup;
    setup.latency = dice.between64(0, 12);
    setup.credit_latency = dice.between64(0, 9);
    setup.credits = dice.between(1, 6);
    setup.receivers = dice.between(1, 4);
    setup.credit_return = dice.one_in(3) ? CreditReturn::on_receipt : CreditReturn::by_owner;
    setup.mode = dice.one_in(5) ? TimingMode::lt : TimingMode::at;
    setup.run_ahead = dice.one_in(2) ? 0 : 1000;
    const bool by_owner = setup.credit_return == CreditReturn::by_owner;
    const bool at = setup.mode == TimingMode::at;
    CAPTURE(round, setup.latency, setup.credit_latency, setup.credits, setup.receivers, by_owner, at, setup.run_ahead);

    struct Packet {
      Cycle ready, hold;
    };
    std::vector<std::vector<Packet>> packets(setup.receivers);
    for (auto& list : packets) {
      Cycle ready = dice.between64(0, 30);
      const std::uint64_t count = dice.between64(0, 40);
      for (std::uint64_t i = 0; i < count; ++i) {
        list.push_back({ready, dice.one_in(4) ? 0 : dice.between64(0, 25)});
        ready += dice.one_in(2) ? 0 : dice.between64(0, 10);
      }
    }
    std::vector<Arrivals> expected(setup.receivers);
    for (std::uint32_t link = 0; link < setup.receivers; ++link) {
      std::vector<Cycle> back;  // when the credit of packet i is at the sender
      Cycle left = 0, released = 0;
      for (std::size_t i = 0; i < packets[link].size(); ++i) {
        left = std::max(left, packets[link][i].ready);
        if (i >= setup.credits) left = std::max(left, back[i - setup.credits]);
        const Cycle arrival = left + (at ? setup.latency : 0);
        released = by_owner ? std::max(released, arrival + packets[link][i].hold) : arrival;
        back.push_back(released + (at ? setup.credit_latency : 0));
        expected[link].push_back({arrival, i});
      }
    }

    Bench bench(setup);
    std::vector<std::deque<std::uint64_t>> waiting(setup.receivers);
    std::vector<std::uint32_t> held(setup.receivers);  // sent, credit not given back yet
    std::vector<std::uint64_t> given(setup.receivers);
    std::vector<Cycle> released(setup.receivers);
    bool too_many = false;
    const auto pump = [&](std::uint32_t link) {
      while (!waiting[link].empty() && bench.sender.out.can_send(link)) {
        bench.sender.out.send({waiting[link].front()}, link);
        waiting[link].pop_front();
        if (++held[link] > setup.credits) too_many = true;
        if (bench.sender.out.outstanding(link) > setup.credits) too_many = true;
      }
    };
    bench.sender.then = pump;
    for (std::uint32_t link = 0; link < setup.receivers; ++link) {
      for (std::size_t i = 0; i < packets[link].size(); ++i) {
        bench.agenda.at(packets[link][i].ready, [&, link, i] {
          waiting[link].push_back(i);
          pump(link);
        });
      }
      bench.receivers[link]->then = [&, link](const Launch& packet) {
        if (!by_owner) {
          --held[link];
          return;
        }
        released[link] = std::max(released[link], bench.domain.now() + packets[link][packet.number].hold);
        bench.agenda.at(released[link], [&, link] {
          --held[link];
          bench.receivers[link]->in.return_credit();
        });
      };
    }
    run_until_idle();
    run_until(sc_core::sc_time_stamp() + bench.domain.clock().time_of(10));  // credits on their way cost no event
    CHECK_FALSE(too_many);
    for (std::uint32_t link = 0; link < setup.receivers; ++link) {
      CAPTURE(link);
      if (!(bench.receivers[link]->arrivals == expected[link]))
        CHECK(bench.receivers[link]->arrivals == expected[link]);
      CHECK(bench.sender.out.outstanding(link) == 0);
      CHECK(waiting[link].empty());
    }
  }
}

}  // namespace common_packet_credit_test
