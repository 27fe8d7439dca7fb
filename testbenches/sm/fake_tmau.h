// A stand-in for the tensor memory access unit of an SM: answers requests when it is told to.
#pragma once

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "common/packet_socket.h"
#include "protocol/sm_tmau.h"
#include "sm/sm.h"

namespace heddle::test {

// Takes every request out of its queue after `pace` cycles, one after the other, and has it answered `work` cycles
// later. What it answers is the test's to say.
class FakeTmau : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  using Done = protocol::BulkDonePacket;
  using Request = protocol::BulkRequestPacket;

  FakeTmau(const sc_core::sc_module_name& name, Domain& domain, sm::Sm& sm)
      : sc_core::sc_module(name),
        request_in("request_in", domain, 0, CreditReturn::by_owner),
        done_out("done_out", domain, 0, kUnlimitedCredits),
        data_out("data_out", domain, 0, kUnlimitedCredits),
        read_out("read_out", domain, 0, kUnlimitedCredits),
        read_in("read_in", domain, 0),
        domain_(domain) {
    request_in.on_packet<FakeTmau, &FakeTmau::on_request>(*this);
    read_in.on_packet<FakeTmau, &FakeTmau::on_read>(*this);
    domain.add_resettable(*this);
    sm.bulk_out.bind(request_in);
    done_out.bind(sm.bulk_done_in);
    data_out.bind(sm.bulk_data_in);
    read_out.bind(sm.bulk_read_in);
    sm.bulk_read_out.bind(read_in);
  }

  PacketIn<Request> request_in;
  PacketOut<Done> done_out;
  PacketOut<protocol::BulkDataPacket> data_out;
  PacketOut<protocol::BulkReadPacket> read_out;
  PacketIn<protocol::BulkReadPacket> read_in;

  struct Seen {
    Cycle cycle = 0;  // of its arrival
    Request packet;
  };
  Cycle pace = 1;
  Cycle work = 50;
  // Empty: `work` cycles after it was taken, as complete or, broken, as dropped. The cycle is that of the answer,
  // kNever for none; `done` has the id already.
  std::function<Cycle(const Seen& seen, Done& done)> answer;
  // Empty: never. The cycle in which the L2 has taken it over.
  std::function<Cycle(const Seen& seen)> accepts;
  // Empty: never. The cycle of the word that its source has been read.
  std::function<Cycle(const Seen& seen)> read;
  std::vector<Seen> seen;
  std::uint32_t most_waiting = 0;  // in the queue
  std::uint32_t open = 0;          // not answered

  // For requests that have had no answer.
  void finish(Cycle cycle, const Done& done) { say(cycle, done); }

 private:
  enum Event : std::uint32_t { kTake, kSay };

  void reset() override {
    waiting_ = 0;
    open = 0;
    free_ = 0;
    said_.clear();
  }
  void on_request(const Request& packet, std::uint32_t) {
    seen.push_back({domain_.now(), packet});
    most_waiting = std::max(most_waiting, ++waiting_);
    ++open;
    free_ = std::max(free_, domain_.now()) + pace;
    domain_.schedule(free_, *this, kTake, seen.size() - 1);
  }
  void on_read(const protocol::BulkReadPacket&, std::uint32_t) {}
  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    if (kind == kSay) {
      if (said_[argument].kind != Done::Kind::read && said_[argument].kind != Done::Kind::accepted) --open;
      return done_out.send(said_[argument]);
    }
    --waiting_;
    request_in.return_credit();
    const Seen& request = seen[argument];
    const Cycle now = domain_.now();
    Done done;
    done.id = request.packet.id;
    if (read) {
      Done first = done;
      first.kind = Done::Kind::read;
      const Cycle when = read(request);
      if (when != kNever) say(when, first);
    }
    if (accepts) {
      Done first = done;
      first.kind = Done::Kind::accepted;
      const Cycle when = accepts(request);
      if (when != kNever) say(when, first);
    }
    done.rule = request.packet.broken;
    if (done.rule != arch::TensorRule::none) done.kind = Done::Kind::dropped;
    const Cycle when = answer ? answer(request, done) : now + work;
    if (when != kNever) say(when, done);
  }
  void say(Cycle when, const Done& done) {
    said_.push_back(done);
    domain_.schedule(std::max(when, domain_.now()), *this, kSay, said_.size() - 1);
  }

  Domain& domain_;
  std::uint32_t waiting_ = 0;
  Cycle free_ = 0;
  std::deque<Done> said_;
};

}  // namespace heddle::test
