// The checker of the base protocol lets all that is allowed pass, and does not disturb it.
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/memory_socket.h"
#include "common/observation.h"
#include "common/protocol_rig.h"
#include "protocol/memory_request.h"

namespace heddle::test::common_protocol_checker_test {
namespace {

using namespace protocol_rig;

DECLARE_EXTENDED_PHASE(aside);

}  // namespace

TEST_CASE("the checker lets every form of the base protocol pass", "[common]") {
  Rig rig;
  ProtocolChecker& checker = rig.checker;
  SECTION("four phases, four calls") {
    CHECK(rig.forward(rig.a, tlm::BEGIN_REQ, 1) == tlm::TLM_ACCEPTED);
    CHECK_FALSE(checker.finished());
    CHECK(rig.back(rig.a, tlm::END_REQ, 2) == tlm::TLM_ACCEPTED);
    CHECK(rig.back(rig.a, tlm::BEGIN_RESP, 3) == tlm::TLM_ACCEPTED);
    CHECK_FALSE(checker.finished());
    rig.target.on_forward = [](auto&, auto&, auto&) { return tlm::TLM_COMPLETED; };
    CHECK(rig.forward(rig.a, tlm::END_RESP, 4) == tlm::TLM_COMPLETED);
  }
  SECTION("BEGIN_RESP implies END_REQ, completion END_RESP") {
    rig.initiator.on_backward = [](auto&, auto&, auto&) { return tlm::TLM_COMPLETED; };
    rig.forward(rig.a, tlm::BEGIN_REQ, 1);
    CHECK(rig.back(rig.a, tlm::BEGIN_RESP, 9) == tlm::TLM_COMPLETED);
  }
  SECTION("END_REQ and END_RESP as returns") {
    rig.target.on_forward = [](auto&, auto& phase, sc_time& delay) {
      delay += ns(3);
      return updated(phase, tlm::END_REQ);
    };
    rig.initiator.on_backward = [](auto&, auto& phase, auto&) { return updated(phase, tlm::END_RESP); };
    CHECK(rig.forward(rig.a, tlm::BEGIN_REQ, 1) == tlm::TLM_UPDATED);
    CHECK(rig.left == tlm::END_REQ);
    CHECK(rig.left_delay == ns(4));
    CHECK(rig.back(rig.a, tlm::BEGIN_RESP, 9) == tlm::TLM_UPDATED);
  }
  SECTION("BEGIN_RESP as a return") {
    rig.target.on_forward = [](Payload& payload, auto& phase, auto&) {
      if (phase == tlm::END_RESP) return tlm::TLM_ACCEPTED;
      payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      return updated(phase, tlm::BEGIN_RESP);
    };
    rig.forward(rig.a, tlm::BEGIN_REQ);
    rig.forward(rig.a, tlm::END_RESP);
    CHECK(checker.counts().errors == 1);
  }
  SECTION("early completion") {
    rig.target.on_forward = [](Payload& payload, auto&, auto&) {
      payload.set_response_status(tlm::TLM_OK_RESPONSE);
      return tlm::TLM_COMPLETED;
    };
    CHECK(rig.forward(rig.a, tlm::BEGIN_REQ) == tlm::TLM_COMPLETED);
  }
  SECTION("the response from inside the request's call, and another request from there") {
    rig.initiator.on_backward = [&](Payload& payload, auto&, auto&) {
      if (&payload == &rig.a) rig.forward(rig.b, tlm::BEGIN_REQ);
      return tlm::TLM_COMPLETED;
    };
    rig.target.on_forward = [&](Payload& payload, auto&, auto&) {
      if (&payload == &rig.a) rig.back(payload, tlm::BEGIN_RESP);
      return tlm::TLM_ACCEPTED;
    };
    rig.forward(rig.a, tlm::BEGIN_REQ);
    rig.back(rig.b, tlm::BEGIN_RESP);
    CHECK(checker.counts().completed == 2);
  }
  SECTION("many open, answered in another order; an address changed downstream; phases of others") {
    rig.initiator.on_backward = [](auto&, auto& phase, auto&) {
      return phase == tlm::BEGIN_RESP ? tlm::TLM_COMPLETED : tlm::TLM_ACCEPTED;
    };
    rig.w.use_enables();
    for (Transaction* t : {&rig.a, &rig.b, &rig.w}) {
      rig.forward(*t, tlm::BEGIN_REQ);
      rig.back(*t, tlm::END_REQ);
      rig.forward(*t, aside);
      rig.back(*t, aside);
      t->set_address(5);
    }
    rig.b.bytes[0] = 7;  // data of a read
    for (Transaction* t : {&rig.w, &rig.a, &rig.b}) rig.back(*t, tlm::BEGIN_RESP);
    CHECK(checker.counts().nonblocking == 3);
    CHECK(checker.counts().reads == 2);
    CHECK(checker.counts().writes == 1);
    CHECK(checker.counts().other_phases == 6);
  }
  SECTION("an ignored command needs no data") {
    Transaction ignored(tlm::TLM_IGNORE_COMMAND, false);
    ignored.set_data_ptr(nullptr);
    ignored.set_data_length(0);
    rig.blocking(ignored);
    CHECK(checker.counts().ignores == 1);
  }
  SECTION("blocking, without a memory manager") {
    Transaction plain(tlm::TLM_WRITE_COMMAND, false);
    Transaction inner(tlm::TLM_READ_COMMAND, false);
    rig.target.on_blocking = [&](Payload& payload, sc_time& delay) {
      payload.set_response_status(tlm::TLM_OK_RESPONSE);
      payload.set_dmi_allowed(true);
      delay += ns(2);
      if (&payload == &plain) rig.blocking(inner);  // another one
    };
    rig.blocking(plain);
    CHECK(checker.counts().blocking == 2);
  }
  SECTION("direct memory and debug") {
    tlm::tlm_dmi dmi;
    CHECK_FALSE(rig.initiator.out->get_direct_mem_ptr(rig.a, dmi));
    unsigned char byte = 0;
    rig.target.on_direct = [&](tlm::tlm_dmi& granted) {
      granted.set_dmi_ptr(&byte);
      granted.set_start_address(64);
      granted.set_end_address(64);
      granted.allow_read();
      return true;
    };
    CHECK(rig.initiator.out->get_direct_mem_ptr(rig.a, dmi));
    CHECK(dmi.get_dmi_ptr() == &byte);
    rig.target.in->invalidate_direct_mem_ptr(3, 9);
    CHECK(rig.initiator.invalid == std::pair<sc_dt::uint64, sc_dt::uint64>{3, 9});
    CHECK(rig.initiator.out->transport_dbg(rig.w) == 8);
    CHECK(checker.counts().direct == 2);
    CHECK(checker.counts().debug == 1);
  }
  CHECK(checker.violations == std::vector<std::string>{});
  CHECK(checker.finished());
  CHECK(checker.counts().completed == checker.counts().nonblocking);
}

TEST_CASE("the checker can fail at once, and forget", "[common]") {
  Rig rig;
  std::string told;
  rig.checker.on_violation = [&told](const std::string& text) { told = text; };
  rig.forward(rig.a, tlm::BEGIN_REQ);
  CHECK_FALSE(rig.checker.finished());
  rig.checker.forget();
  CHECK(rig.checker.finished());
  rig.forward(rig.b, tlm::BEGIN_REQ);
  CHECK(told.empty());
  rig.back(rig.a, tlm::END_REQ);
  CHECK(told.find("not open") != std::string::npos);
}

namespace {

// Owners of our own sockets. The target has room for `places` requests and answers what it is told to.
struct OwnInitiator : sc_core::sc_module {
  OwnInitiator(const sc_core::sc_module_name& name, Domain& domain) : sc_core::sc_module(name), out("out", domain) {
    out.connect<OwnInitiator, &OwnInitiator::response, &OwnInitiator::room>(*this);
  }
  bool response(Payload&, std::uint32_t, Cycle when) {
    arrivals.push_back(when);
    return take;
  }
  void room(std::uint32_t, Cycle when) { rooms.push_back(when); }
  MemoryOut out;
  bool take = true;
  std::vector<Cycle> arrivals, rooms;
};
struct OwnTarget : sc_core::sc_module {
  OwnTarget(const sc_core::sc_module_name& name, Domain& domain) : sc_core::sc_module(name), in("in", domain) {
    in.connect<OwnTarget, &OwnTarget::request, &OwnTarget::room, &OwnTarget::blocking, &OwnTarget::debug>(*this);
  }
  bool request(Payload& payload, std::uint32_t, Cycle when) {
    arrivals.push_back(when);
    if (at_once) {
      payload.set_response_status(tlm::TLM_OK_RESPONSE);
      in.respond(payload, when + 3);
    }
    return take;
  }
  void room(std::uint32_t, Cycle when) { rooms.push_back(when); }
  void blocking(Payload& payload, std::uint32_t, sc_time& delay) {
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    delay += ns(11);
  }
  unsigned debug(Payload& payload, std::uint32_t) { return payload.get_data_length(); }
  MemoryIn in;
  bool take = true;
  bool at_once = false;
  std::vector<Cycle> arrivals, rooms;
};

}  // namespace

TEST_CASE("our memory sockets keep to the base protocol, and the checker does not disturb them", "[common][MEM-03]") {
  SimFixture sim;
  Observation observation{"gpu0"};
  Domain domain{"domain", 1.0, TimingMode::at, 100, observation};
  protocol::RequestPool pool;
  OwnInitiator initiator("initiator", domain);
  OwnTarget target("target", domain);
  ProtocolChecker checker("checker");
  initiator.out.bind(checker.in);
  checker.out.bind(target.in);
  start();
  std::vector<protocol::MemoryRequest*> requests;
  for (std::uint32_t i = 0; i < 4; ++i) {
    requests.push_back(&pool.acquire());
    requests.back()->aim(i % 2 == 0 ? tlm::TLM_READ_COMMAND : tlm::TLM_WRITE_COMMAND, i * 128, 64);
  }
  CHECK(initiator.out.send(*requests[0], 30));
  target.take = false;  // END_REQ withheld
  CHECK_FALSE(initiator.out.send(*requests[1], 31));
  target.take = true;
  target.in.accept(40);
  CHECK(initiator.rooms == std::vector<Cycle>{40});
  target.at_once = true;  // from inside the call
  CHECK(initiator.out.send(*requests[2], 41));
  target.at_once = false;
  CHECK(initiator.out.send(*requests[3], 42));
  for (const std::uint32_t i : {3U, 0U}) {
    requests[i]->set_response_status(tlm::TLM_OK_RESPONSE);
    CHECK(target.in.respond(*requests[i], 60));
  }
  initiator.take = false;  // END_RESP withheld
  requests[1]->set_response_status(tlm::TLM_OK_RESPONSE);
  CHECK_FALSE(target.in.respond(*requests[1], 61));
  initiator.out.end_response(*requests[1], 70);
  CHECK(target.rooms == std::vector<Cycle>{70});
  CHECK(target.arrivals == std::vector<Cycle>{30, 31, 41, 42});
  CHECK(initiator.arrivals == std::vector<Cycle>{44, 60, 60, 61});
  for (protocol::MemoryRequest* request : requests) request->release();

  protocol::MemoryRequest& last = pool.acquire();
  last.aim(tlm::TLM_READ_COMMAND, 0, 32);
  sc_time delay = ns(2);
  initiator.out.blocking(last, delay);
  CHECK(delay == ns(13));
  CHECK(initiator.out.debug(last) == 32);
  CHECK(checker.violations == std::vector<std::string>{});
  CHECK(checker.finished());
  CHECK(checker.counts().completed == 4);
}

}  // namespace heddle::test::common_protocol_checker_test
