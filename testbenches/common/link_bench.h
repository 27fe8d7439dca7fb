// A sender with receivers in one domain, and a script of what they do when.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include "common/packet_socket.h"
#include "support/sim_fixture.h"

namespace heddle::test::packets {

struct Launch {
  std::uint64_t number = 0;
};
struct Complete {
  std::uint64_t number = 0;
};

struct Arrival {
  Cycle cycle;
  std::uint64_t number;
  bool operator==(const Arrival& other) const { return cycle == other.cycle && number == other.number; }
};
inline std::ostream& operator<<(std::ostream& os, const Arrival& a) { return os << a.number << "@" << a.cycle; }

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

}  // namespace heddle::test::packets
