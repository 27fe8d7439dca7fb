#include "common/memory_socket.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/observation.h"
#include "protocol/memory_request.h"
#include "support/sim_fixture.h"

namespace heddle::test::common_memory_socket_test {
namespace {

using protocol::MemoryRequest;
using sc_core::sc_time;

sc_time ns(double count) { return sc_time(count, sc_core::SC_NS); }

DECLARE_EXTENDED_PHASE(sideband);

// The owner of an initiating socket: notes what it is told.
struct Initiator : sc_core::sc_module {
  Initiator(const sc_core::sc_module_name& name, Domain& domain) : sc_core::sc_module(name), out("out", domain) {
    out.connect<Initiator, &Initiator::response, &Initiator::room>(*this, 5);
  }
  bool response(tlm::tlm_generic_payload& payload, std::uint32_t index, Cycle arrival) {
    CHECK(index == 5);
    responses.emplace_back(&payload, arrival);
    return take;
  }
  void room(std::uint32_t index, Cycle when) {
    CHECK(index == 5);
    rooms.push_back(when);
  }

  MemoryOut out;
  bool take = true;
  std::vector<std::pair<tlm::tlm_generic_payload*, Cycle>> responses;
  std::vector<Cycle> rooms;
};

// The owner of a receiving socket.
struct Target : sc_core::sc_module {
  Target(const sc_core::sc_module_name& name, Domain& domain) : sc_core::sc_module(name), in("in", domain) {
    in.connect<Target, &Target::request, &Target::room, &Target::blocking, &Target::debug>(*this, 3);
  }
  bool request(tlm::tlm_generic_payload& payload, std::uint32_t index, Cycle arrival) {
    CHECK(index == 3);
    requests.emplace_back(&payload, arrival);
    return on_request ? on_request(payload, arrival) : take;
  }
  void room(std::uint32_t index, Cycle when) {
    CHECK(index == 3);
    rooms.push_back(when);
  }
  void blocking(tlm::tlm_generic_payload& payload, std::uint32_t index, sc_time& delay) {
    CHECK(index == 3);
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    delay += ns(11);
  }
  unsigned debug(tlm::tlm_generic_payload& payload, std::uint32_t index) {
    CHECK(index == 3);
    return payload.get_data_length() / 2;
  }

  MemoryIn in;
  bool take = true;
  std::function<bool(tlm::tlm_generic_payload&, Cycle)> on_request;
  std::vector<std::pair<tlm::tlm_generic_payload*, Cycle>> requests;
  std::vector<Cycle> rooms;
};

// Ends that are not ours: they do what the test says, and note the calls.
struct Call {
  std::string phase;
  sc_time delay;
  bool operator==(const Call& o) const { return phase == o.phase && delay == o.delay; }
};
using Behaviour = std::function<tlm::tlm_sync_enum(tlm::tlm_generic_payload&, tlm::tlm_phase&, sc_time&)>;

struct RawTarget : sc_core::sc_module, tlm::tlm_fw_transport_if<> {
  explicit RawTarget(const sc_core::sc_module_name& name) : sc_core::sc_module(name), in("in") { in.bind(*this); }
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_time& delay) override {
    calls.push_back({phase.get_name(), delay});
    if (phase != tlm::BEGIN_REQ) return tlm::TLM_COMPLETED;
    return behave(payload, phase, delay);
  }
  void b_transport(tlm::tlm_generic_payload& payload, sc_time& delay) override {
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    delay += ns(4);
  }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 42; }
  tlm::tlm_sync_enum back(tlm::tlm_generic_payload& payload, tlm::tlm_phase phase, sc_time delay) {
    return in->nb_transport_bw(payload, phase, delay);
  }

  tlm::tlm_target_socket<> in;
  Behaviour behave = [](auto&, auto&, auto&) { return tlm::TLM_ACCEPTED; };
  std::vector<Call> calls;
};

struct RawInitiator : sc_core::sc_module, tlm::tlm_bw_transport_if<> {
  explicit RawInitiator(const sc_core::sc_module_name& name) : sc_core::sc_module(name), out("out") { out.bind(*this); }
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_time& delay) override {
    calls.push_back({phase.get_name(), delay});
    return phase == tlm::BEGIN_RESP ? behave(payload, phase, delay) : tlm::TLM_ACCEPTED;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
  // Returns the status; `phase` as the target leaves it.
  tlm::tlm_sync_enum forward(tlm::tlm_generic_payload& payload, tlm::tlm_phase phase, sc_time delay) {
    const tlm::tlm_sync_enum status = out->nb_transport_fw(payload, phase, delay);
    left = phase.get_name();
    return status;
  }

  tlm::tlm_initiator_socket<> out;
  Behaviour behave = [](auto&, auto&, auto&) { return tlm::TLM_COMPLETED; };
  std::vector<Call> calls;
  std::string left;
};

struct Bench {
  SimFixture fixture;
  Observation observation{"gpu0"};
  Domain domain{"domain", 1.0, TimingMode::at, 100, observation};
  protocol::RequestPool pool;
};

}  // namespace

TEST_CASE("two of our sockets take two calls, and know the cycles", "[common][MEM-03]") {
  Bench bench;
  Initiator initiator("initiator", bench.domain);
  Target target("target", bench.domain);
  initiator.out.bind(target.in);
  start();
  MemoryRequest& request = bench.pool.acquire();
  CHECK(initiator.out.send(request, 30));
  REQUIRE(target.requests.size() == 1);
  CHECK(target.requests[0] == std::make_pair<tlm::tlm_generic_payload*, Cycle>(&request, 30));
  CHECK_FALSE(target.in.withholding());
  CHECK(initiator.out.can_send());
  CHECK(target.in.respond(request, 70));
  REQUIRE(initiator.responses.size() == 1);
  CHECK(initiator.responses[0].second == 70);
  CHECK(initiator.rooms.empty());
  CHECK(target.rooms.empty());
  request.release();
}

TEST_CASE("a target withholds END_REQ, and an initiator END_RESP", "[common][MEM-03]") {
  Bench bench;
  Initiator initiator("initiator", bench.domain);
  Target target("target", bench.domain);
  initiator.out.bind(target.in);
  start();
  MemoryRequest& first = bench.pool.acquire();
  MemoryRequest& second = bench.pool.acquire();
  target.take = false;
  CHECK_FALSE(initiator.out.send(first, 1));
  CHECK_FALSE(initiator.out.can_send());
  CHECK(target.in.withholding());
  CHECK_FALSE(failure_of([&] { initiator.out.send(second, 1); }).empty());
  target.in.accept(20);
  CHECK(initiator.out.can_send());
  CHECK(initiator.rooms == std::vector<Cycle>{20});
  CHECK_FALSE(failure_of([&] { target.in.accept(21); }).empty());
  CHECK_FALSE(initiator.out.send(second, 21));

  // A response before END_REQ implies it.
  initiator.take = false;
  CHECK_FALSE(target.in.respond(second, 50));
  CHECK_FALSE(target.in.withholding());
  CHECK(initiator.out.can_send());
  CHECK(initiator.rooms == std::vector<Cycle>{20, 50});
  CHECK_FALSE(target.in.can_respond());
  CHECK_FALSE(failure_of([&] { target.in.respond(first, 60); }).empty());
  initiator.out.end_response(second, 80);
  CHECK(target.in.can_respond());
  CHECK(target.rooms == std::vector<Cycle>{80});
  CHECK_FALSE(failure_of([&] { initiator.out.end_response(second, 81); }).empty());
  initiator.take = true;
  CHECK(target.in.respond(first, 90));
  first.release();
  second.release();
}

TEST_CASE("a target answers while it is asked", "[common][MEM-03]") {
  Bench bench;
  Initiator initiator("initiator", bench.domain);
  Target target("target", bench.domain);
  initiator.out.bind(target.in);
  start();
  MemoryRequest& request = bench.pool.acquire();
  for (const bool room : {true, false}) {
    CAPTURE(room);
    target.on_request = [&](tlm::tlm_generic_payload& payload, Cycle arrival) {
      CHECK(target.in.respond(payload, arrival + 100));
      return room;
    };
    // The channel is free when the call returns: nobody is told in between.
    CHECK(initiator.out.send(request, 10));
    CHECK(initiator.responses.back().second == 110);
    CHECK(initiator.rooms.empty());
    CHECK_FALSE(target.in.withholding());
  }
  // Or accepts while it is asked.
  target.on_request = [&](tlm::tlm_generic_payload&, Cycle arrival) {
    target.in.accept(arrival);
    return true;
  };
  CHECK(initiator.out.send(request, 10));
  CHECK(initiator.rooms.empty());
  request.release();
}

TEST_CASE("an initiating socket understands all that a target may answer", "[common][MEM-02][MEM-03]") {
  Bench bench;
  Initiator initiator("initiator", bench.domain);
  RawTarget target("target");
  initiator.out.bind(target.in);
  start();
  MemoryRequest& request = bench.pool.acquire();
  const auto heard = [&] { return initiator.responses.empty() ? 0 : initiator.responses.back().second; };

  SECTION("TLM_ACCEPTED, END_REQ and BEGIN_RESP later") {
    CHECK_FALSE(initiator.out.send(request, 7));
    CHECK(target.calls.back() == Call{"BEGIN_REQ", ns(7)});
    CHECK(target.back(request, tlm::END_REQ, ns(9)) == tlm::TLM_ACCEPTED);
    CHECK(initiator.rooms == std::vector<Cycle>{9});
    CHECK(target.back(request, tlm::BEGIN_RESP, ns(12)) == tlm::TLM_COMPLETED);
    CHECK(heard() == 12);
    CHECK(target.calls.size() == 1);
  }
  SECTION("TLM_ACCEPTED, BEGIN_RESP without END_REQ, END_RESP later") {
    initiator.take = false;
    CHECK_FALSE(initiator.out.send(request, 7));
    CHECK(target.back(request, tlm::BEGIN_RESP, ns(12)) == tlm::TLM_ACCEPTED);
    CHECK(initiator.rooms == std::vector<Cycle>{12});
    CHECK(initiator.out.can_send());
    CHECK(heard() == 12);
    initiator.out.end_response(request, 15);
    CHECK(target.calls.back() == Call{"END_RESP", ns(15)});
  }
  SECTION("TLM_UPDATED with END_REQ") {
    target.behave = [](auto&, tlm::tlm_phase& phase, sc_time&) {
      phase = tlm::END_REQ;
      return tlm::TLM_UPDATED;
    };
    CHECK(initiator.out.send(request, 7));
    CHECK(initiator.rooms.empty());
    CHECK(target.back(request, tlm::BEGIN_RESP, ns(12.5)) == tlm::TLM_COMPLETED);
    CHECK(heard() == 13);  // the cycle that begins then
  }
  SECTION("TLM_UPDATED with BEGIN_RESP") {
    target.behave = [](auto&, tlm::tlm_phase& phase, sc_time& delay) {
      phase = tlm::BEGIN_RESP;
      delay += ns(20);
      return tlm::TLM_UPDATED;
    };
    SECTION("taken at once") {
      CHECK(initiator.out.send(request, 7));
      CHECK(heard() == 27);
      CHECK(target.calls.back() == Call{"END_RESP", ns(27)});
    }
    SECTION("taken later") {
      initiator.take = false;
      CHECK(initiator.out.send(request, 7));
      CHECK(target.calls.size() == 1);
      initiator.out.end_response(request, 40);
      CHECK(target.calls.back() == Call{"END_RESP", ns(40)});
    }
  }
  SECTION("TLM_COMPLETED") {
    target.behave = [](auto&, tlm::tlm_phase&, sc_time& delay) {
      delay += ns(5);
      return tlm::TLM_COMPLETED;
    };
    for (const bool take : {true, false}) {
      initiator.take = take;
      CHECK(initiator.out.send(request, 7));
      CHECK(heard() == 12);
    }
    CHECK(target.calls.size() == 2);  // there is nothing to end
  }
  SECTION("BEGIN_RESP from inside the call") {
    target.behave = [&](tlm::tlm_generic_payload& payload, tlm::tlm_phase&, sc_time&) {
      CHECK(target.back(payload, tlm::BEGIN_RESP, ns(30)) == tlm::TLM_COMPLETED);
      return tlm::TLM_ACCEPTED;
    };
    CHECK(initiator.out.send(request, 7));
    CHECK(heard() == 30);
    CHECK(initiator.rooms.empty());
  }
  SECTION("a response with the delay that the request had") {
    CHECK_FALSE(initiator.out.send(request, 7));
    run_until(ns(100));
    CHECK(target.back(request, tlm::BEGIN_RESP, ns(7)) == tlm::TLM_COMPLETED);
    CHECK(heard() == 107);
  }
  SECTION("a phase that is not of the base protocol") {
    CHECK_FALSE(initiator.out.send(request, 7));
    CHECK(target.back(request, sideband, ns(1)) == tlm::TLM_ACCEPTED);
    CHECK_FALSE(initiator.out.can_send());
    CHECK(initiator.responses.empty());
  }
  SECTION("an END_REQ for another payload") {
    MemoryRequest& other = bench.pool.acquire();
    CHECK_FALSE(initiator.out.send(request, 7));
    target.back(other, tlm::END_REQ, ns(1));
    CHECK_FALSE(initiator.out.can_send());
    other.release();
  }
  SECTION("phases that only an initiator may send") {
    CHECK_FALSE(failure_of([&] { target.back(request, tlm::BEGIN_REQ, ns(1)); }).empty());
    CHECK_FALSE(failure_of([&] { target.back(request, tlm::END_RESP, ns(1)); }).empty());
  }
  SECTION("blocking and debug calls") {
    sc_time delay = ns(3);
    initiator.out.blocking(request, delay);
    CHECK(delay == ns(7));
    CHECK(initiator.out.debug(request) == 42);
  }
  SECTION("reset") {
    CHECK_FALSE(initiator.out.send(request, 7));
    run_until(ns(50));
    bench.domain.reset();
    CHECK(initiator.out.can_send());
    CHECK_FALSE(initiator.out.send(request, 2));  // cycles count from the reset
    CHECK(target.calls.back() == Call{"BEGIN_REQ", ns(2)});
    target.back(request, tlm::BEGIN_RESP, ns(6));
    CHECK(heard() == 6);
  }
  request.release();
}

TEST_CASE("a receiving socket serves any initiator of the base protocol", "[common][MEM-02][MEM-03]") {
  Bench bench;
  RawInitiator initiator("initiator");
  Target target("target", bench.domain);
  initiator.out.bind(target.in);
  start();
  MemoryRequest& request = bench.pool.acquire();
  MemoryRequest& other = bench.pool.acquire();

  SECTION("a request in the middle of a cycle, accepted at once") {
    CHECK(initiator.forward(request, tlm::BEGIN_REQ, ns(2.25)) == tlm::TLM_UPDATED);
    CHECK(initiator.left == "END_REQ");
    CHECK(target.requests.back().second == 3);
    CHECK(initiator.calls.empty());
    SECTION("response taken at once") {
      CHECK(target.in.respond(request, 10));
      CHECK(initiator.calls == std::vector<Call>{{"BEGIN_RESP", ns(10)}});
    }
    SECTION("response updated to END_RESP") {
      initiator.behave = [](auto&, tlm::tlm_phase& phase, sc_time&) {
        phase = tlm::END_RESP;
        return tlm::TLM_UPDATED;
      };
      CHECK(target.in.respond(request, 10));
    }
    SECTION("END_RESP later") {
      initiator.behave = [](auto&, auto&, auto&) { return tlm::TLM_ACCEPTED; };
      CHECK_FALSE(target.in.respond(request, 10));
      CHECK(initiator.forward(request, tlm::END_RESP, ns(30)) == tlm::TLM_COMPLETED);
      CHECK(target.rooms == std::vector<Cycle>{30});
      CHECK(target.in.can_respond());
    }
    SECTION("END_RESP from inside the call") {
      initiator.behave = [&](tlm::tlm_generic_payload& payload, auto&, auto&) {
        CHECK(initiator.forward(payload, tlm::END_RESP, ns(12)) == tlm::TLM_COMPLETED);
        return tlm::TLM_ACCEPTED;
      };
      CHECK(target.in.respond(request, 10));
    }
  }
  SECTION("a request that is accepted later") {
    target.take = false;
    CHECK(initiator.forward(request, tlm::BEGIN_REQ, ns(1)) == tlm::TLM_ACCEPTED);
    CHECK_FALSE(failure_of([&] { initiator.forward(other, tlm::BEGIN_REQ, ns(1)); }).empty());
    target.in.accept(40);
    CHECK(initiator.calls == std::vector<Call>{{"END_REQ", ns(40)}});
    CHECK(initiator.forward(other, tlm::BEGIN_REQ, ns(41)) == tlm::TLM_ACCEPTED);
    CHECK(target.requests.back() == std::make_pair<tlm::tlm_generic_payload*, Cycle>(&other, 41));
  }
  SECTION("a request that is only answered") {
    target.take = false;
    CHECK(initiator.forward(request, tlm::BEGIN_REQ, ns(1)) == tlm::TLM_ACCEPTED);
    CHECK(target.in.respond(request, 40));
    CHECK(initiator.calls == std::vector<Call>{{"BEGIN_RESP", ns(40)}});
    CHECK_FALSE(target.in.withholding());
  }
  SECTION("phases that are not of the base protocol, or not of an initiator") {
    CHECK(initiator.forward(request, sideband, ns(1)) == tlm::TLM_ACCEPTED);
    CHECK(target.requests.empty());
    CHECK_FALSE(failure_of([&] { initiator.forward(request, tlm::END_REQ, ns(1)); }).empty());
    CHECK_FALSE(failure_of([&] { initiator.forward(request, tlm::END_RESP, ns(1)); }).empty());
  }
  SECTION("blocking, debug and direct access") {
    sc_time delay = ns(1);
    initiator.out->b_transport(request, delay);
    CHECK(delay == ns(12));
    CHECK(request.is_response_ok());
    request.set_data_length(64);
    CHECK(initiator.out->transport_dbg(request) == 32);
    tlm::tlm_dmi dmi;
    CHECK_FALSE(initiator.out->get_direct_mem_ptr(request, dmi));
  }
  SECTION("reset") {
    target.take = false;
    initiator.behave = [](auto&, auto&, auto&) { return tlm::TLM_ACCEPTED; };
    initiator.forward(request, tlm::BEGIN_REQ, ns(1));
    target.in.respond(other, 5);
    bench.domain.reset();
    CHECK_FALSE(target.in.withholding());
    CHECK(target.in.can_respond());
  }
  request.release();
  other.release();
}

TEST_CASE("a pool hands out requests that are like new", "[common][MEM-03]") {
  protocol::RequestPool pool;
  MemoryRequest& request = pool.acquire();
  CHECK(pool.in_use() == 1);
  request.aim(tlm::TLM_WRITE_COMMAND, 0x1000 + 30, 68);
  CHECK(request.get_streaming_width() == 68);
  CHECK(request.extension.sectors == 0b1111);
  request.aim(tlm::TLM_READ_COMMAND, 0x1000 + 32, 33);
  CHECK(request.extension.sectors == 0b0110);
  request.aim(tlm::TLM_READ_COMMAND, 0x1000 + 96, 32);
  CHECK(request.extension.sectors == 0b1000);
  std::fill_n(request.use_enables(), 32, std::uint8_t{TLM_BYTE_ENABLED});
  CHECK(request.get_byte_enable_length() == 32);
  CHECK(protocol::extension_of(request) == &request.extension);
  request.extension.action = protocol::MemoryAction::atomic;
  request.extension.lanes = 3;
  request.extension.sm = protocol::SmId(9);
  request.extension.subcontext = 2;
  std::uint8_t elsewhere[4];
  request.set_data_ptr(elsewhere);
  request.set_response_status(tlm::TLM_OK_RESPONSE);
  request.set_dmi_allowed(true);
  request.acquire();
  request.release();
  CHECK(pool.in_use() == 1);
  request.release();
  CHECK(pool.in_use() == 0);

  MemoryRequest& again = pool.acquire();
  REQUIRE(&again == &request);
  CHECK(again.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE);
  CHECK(again.get_byte_enable_ptr() == nullptr);
  CHECK(again.get_byte_enable_length() == 0);
  CHECK(again.get_data_ptr() == again.data.data());
  CHECK_FALSE(again.is_dmi_allowed());
  CHECK(again.extension.action == protocol::MemoryAction::plain);
  CHECK(again.extension.sectors == 0);
  CHECK(again.extension.lanes == 0);
  CHECK(again.extension.subcontext == 0);
  CHECK_FALSE(again.extension.sm.has_value());
  CHECK(again.get_data_length() == 0);
  CHECK(again.get_command() == tlm::TLM_IGNORE_COMMAND);
  CHECK(again.get_address() == 0);
  again.release();
  // What is not of ours has no extension.
  PayloadPool others;
  tlm::tlm_generic_payload& foreign = others.acquire();
  CHECK(protocol::extension_of(foreign) == nullptr);
  foreign.release();
}

}  // namespace heddle::test::common_memory_socket_test
