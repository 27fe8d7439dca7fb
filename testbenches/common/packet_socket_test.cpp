// Packet links: when packets and credits arrive, in which order, and that no link holds more than its credits.
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

#include "support/seed.h"
#include "support/sim_fixture.h"

using namespace heddle;
using Catch::Contains;
using test::Dice;
using test::failure_of;
using test::run_until;
using test::run_until_idle;
using test::SimFixture;

namespace {

struct Launch {
  std::uint64_t number = 0;
};
struct Complete {
  std::uint64_t number = 0;
};

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
static_assert(!std::is_convertible_v<tlm::tlm_fw_transport_if<packet_protocol<Launch>>*,
                                     tlm::tlm_fw_transport_if<packet_protocol<Complete>>*>);

struct Arrival {
  Cycle cycle;
  std::uint64_t number;
  bool operator==(const Arrival& other) const { return cycle == other.cycle && number == other.number; }
};
std::ostream& operator<<(std::ostream& os, const Arrival& a) { return os << a.number << "@" << a.cycle; }

// Something to do at a cycle: the scripts of these tests.
class Agenda final : private EventHandler {
 public:
  explicit Agenda(Domain& domain) : domain_(domain) {}
  void at(Cycle cycle, std::function<void()> action) {
    actions_.push_back(std::move(action));
    domain_.schedule(cycle, *this, 0, actions_.size() - 1);
  }

 private:
  void on_event(std::uint32_t, std::uint64_t argument) override {
    const std::function<void()> action = actions_[argument];  // it may add others
    action();
  }
  Domain& domain_;
  std::vector<std::function<void()>> actions_;
};

class Receiver final : public sc_core::sc_module {
 public:
  Receiver(const sc_core::sc_module_name& name, Domain& d, Cycle credit_latency,
           CreditReturn credit_return = CreditReturn::on_receipt, std::uint32_t number = 0)
      : sc_core::sc_module(name), domain(d), in("in", d, credit_latency, credit_return) {
    in.on_packet<Receiver, &Receiver::receive>(*this, number);
  }
  void receive(const Launch& packet, std::uint32_t number) {
    arrivals.push_back({domain.now(), packet.number});
    index = number;
    if (then) then(packet);
  }
  Domain& domain;
  PacketIn<Launch> in;
  std::vector<Arrival> arrivals;
  std::uint32_t index = 0;
  std::function<void(const Launch&)> then;
};

class Sender final : public sc_core::sc_module {
 public:
  Sender(const sc_core::sc_module_name& name, Domain& d, Cycle latency, std::uint32_t places)
      : sc_core::sc_module(name), domain(d), out("out", d, latency, places) {
    out.on_credit<Sender, &Sender::credit>(*this);
  }
  void credit(std::uint32_t link) {
    credits.push_back({domain.now(), link});
    if (then) then(link);
  }
  Domain& domain;
  PacketOut<Launch> out;
  std::vector<Arrival> credits;  // number: the link
  std::function<void(std::uint32_t)> then;
};

struct Setup {
  Cycle latency = 4;
  std::uint32_t credits = 2;
  Cycle credit_latency = 3;
  CreditReturn credit_return = CreditReturn::on_receipt;
  TimingMode mode = TimingMode::at;
  Cycle run_ahead = 1000;
  std::uint32_t receivers = 1;
};

struct Bench {
  explicit Bench(const Setup& setup)
      : domain("domain", 1.755, setup.mode, setup.run_ahead, observation),
        agenda(domain),
        sender("sender", domain, setup.latency, setup.credits) {
    for (std::uint32_t i = 0; i < setup.receivers; ++i) {
      receivers.push_back(std::make_unique<Receiver>(sc_core::sc_gen_unique_name("receiver"), domain,
                                                     setup.credit_latency, setup.credit_return, 10 + i));
      sender.out.bind(receivers.back()->in);
    }
  }
  Receiver& receiver() { return *receivers.front(); }
  void send_at(Cycle cycle, std::uint64_t number, std::uint32_t link = 0) {
    agenda.at(cycle, [this, number, link] { sender.out.send({number}, link); });
  }

  SimFixture sim;
  Observation observation{"gpu0"};
  Domain domain;
  Agenda agenda;
  Sender sender;
  std::vector<std::unique_ptr<Receiver>> receivers;
};

using Arrivals = std::vector<Arrival>;

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
  struct Foreign final : sc_core::sc_module, tlm::tlm_bw_transport_if<packet_protocol<Launch>> {
    explicit Foreign(const sc_core::sc_module_name& name) : sc_core::sc_module(name) { out.bind(*this); }
    tlm::tlm_sync_enum nb_transport_bw(PacketTransfer<Launch>& transfer, PacketPhase& phase,
                                       sc_core::sc_time& delay) override {
      credits.push_back(
          {static_cast<Cycle>((sc_core::sc_time_stamp() + delay).to_seconds() * 1e9 + 0.5), transfer.link});
      credits_only = credits_only && phase == PacketPhase::credit;
      return tlm::TLM_ACCEPTED;
    }
    void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
    tlm::tlm_initiator_socket<kPacketBusWidth, packet_protocol<Launch>> out{"out"};
    Arrivals credits;
    bool credits_only = true;
  } foreign("foreign");
  foreign.out.bind(receiver.in);
  test::start();
  PacketTransfer<Launch> transfer;
  transfer.packet.number = 77;
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
TEST_CASE("random traffic with credits follows a queue model to the cycle", "[packet_socket]") {
  HEDDLE_DICE(dice);
  for (int round = 0; round < 150; ++round) {
    Setup setup;
    setup.latency = dice.between(0, 12);
    setup.credit_latency = dice.between(0, 9);
    setup.credits = dice.small(1, 6);
    setup.receivers = dice.small(1, 4);
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
      Cycle ready = dice.between(0, 30);
      const std::uint64_t count = dice.between(0, 40);
      for (std::uint64_t i = 0; i < count; ++i) {
        list.push_back({ready, dice.one_in(4) ? 0 : dice.between(0, 25)});
        ready += dice.one_in(2) ? 0 : dice.between(0, 10);
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
