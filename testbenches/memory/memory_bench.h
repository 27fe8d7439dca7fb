// Neighbours for tests of the memory path: initiators that send what they are told, and targets with bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "common/domain.h"
#include "common/memory_socket.h"
#include "protocol/memory_request.h"
#include "support/random.h"
#include "support/sim_fixture.h"

namespace heddle::test {

// Sends its requests in order, each as soon as it may; hears the responses.
class TestInitiator : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  TestInitiator(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name), out("out", domain), domain_(domain) {
    out.connect<TestInitiator, &TestInitiator::response, &TestInitiator::room>(*this);
    domain.add_resettable(*this);
  }

  MemoryOut out;
  Cycle gap = 1;  // cycles between two requests, at least
  std::function<void(protocol::MemoryRequest&, Cycle arrival)> on_response;
  // Cycles for which the response channel is kept busy; 0: the response is taken at once.
  std::function<Cycle(protocol::MemoryRequest&)> hold;
  std::vector<Cycle> sent;  // when

  // From `when` on. Takes the reference over, until the response was taken.
  void send(protocol::MemoryRequest& request, Cycle when) {
    queue_.push_back({&request, when});
    pump();
  }
  std::size_t waiting() const { return queue_.size(); }

  void reset() override {
    queue_.clear();
    awaited_ = false;
    next_ = 0;
    held_ = nullptr;
  }

 private:
  static constexpr std::uint32_t kSend = 0;
  static constexpr std::uint32_t kEnd = 1;
  struct Item {
    protocol::MemoryRequest* request;
    Cycle when;
  };

  void pump() {
    if (queue_.empty() || !out.can_send() || awaited_) return;
    awaited_ = true;
    domain_.schedule(std::max({queue_.front().when, next_, domain_.now()}), *this, kSend);
  }
  void on_event(std::uint32_t kind, std::uint64_t /*argument*/) override {
    if (kind == kEnd) {
      protocol::MemoryRequest* request = held_;
      held_ = nullptr;
      out.end_response(*request, domain_.now());
      request->release();
      return;
    }
    awaited_ = false;
    protocol::MemoryRequest* request = queue_.front().request;
    queue_.pop_front();
    next_ = domain_.now() + gap;
    sent.push_back(domain_.now());
    out.send(*request, domain_.now());
    pump();
  }
  bool response(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
    auto& request = static_cast<protocol::MemoryRequest&>(payload);
    if (on_response) on_response(request, arrival);
    const Cycle busy = hold ? hold(request) : 0;
    if (busy == 0) {
      request.release();
      return true;
    }
    held_ = &request;
    domain_.schedule(arrival + busy, *this, kEnd);
    return false;
  }
  void room(std::uint32_t, Cycle when) {
    next_ = std::max(next_, when);
    pump();
  }

  Domain& domain_;
  std::deque<Item> queue_;
  bool awaited_ = false;
  Cycle next_ = 0;
  protocol::MemoryRequest* held_ = nullptr;
};

// A memory behind one socket: first in, first out, `latency` cycles from arrival to response.
class TestTarget : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  // `bytes` may be shared by several targets.
  TestTarget(const sc_core::sc_module_name& name, Domain& domain, std::vector<std::uint8_t>& bytes)
      : sc_core::sc_module(name), in("in", domain), domain_(domain), bytes_(bytes) {
    in.connect<TestTarget, &TestTarget::request, &TestTarget::room, &TestTarget::blocking, &TestTarget::debug>(*this);
    domain.add_resettable(*this);
  }

  MemoryIn in;
  Cycle latency = 10;
  Cycle gap = 0;           // cycles between two responses, at least
  std::size_t depth = 64;  // requests that it holds before it withholds END_REQ
  // Cycles for which END_REQ is withheld though there is room.
  std::function<Cycle()> hold;
  std::function<void(tlm::tlm_generic_payload&, Cycle arrival)> on_request;
  std::uint64_t served = 0;

  void reset() override {
    queue_.clear();
    awaited_ = holding_ = false;
    next_ = last_arrival_ = 0;
  }

 private:
  static constexpr std::uint32_t kServe = 0;
  static constexpr std::uint32_t kAccept = 1;
  struct Item {
    tlm::tlm_generic_payload* payload;
    Cycle ready;
  };

  bool request(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
    if (on_request) on_request(payload, arrival);
    last_arrival_ = arrival;
    queue_.push_back({&payload, arrival + latency});
    pump();
    const Cycle busy = hold ? hold() : 0;
    if (busy > 0) {
      holding_ = true;
      domain_.schedule(arrival + busy, *this, kAccept);
    }
    return !holding_ && queue_.size() < depth;
  }
  void pump() {
    if (queue_.empty() || awaited_ || !in.can_respond()) return;
    awaited_ = true;
    domain_.schedule(std::max({queue_.front().ready, next_, domain_.now()}), *this, kServe);
  }
  void on_event(std::uint32_t kind, std::uint64_t) override {
    if (kind == kAccept) {
      holding_ = false;
    } else {
      awaited_ = false;
      tlm::tlm_generic_payload& payload = *queue_.front().payload;
      queue_.pop_front();
      next_ = domain_.now() + gap;
      ++served;
      perform(payload);
      in.respond(payload, domain_.now());
      pump();
    }
    if (!holding_ && in.withholding() && queue_.size() < depth) {
      in.accept(std::max(domain_.now(), last_arrival_));  // a request may have been sent ahead of its arrival
    }
  }
  void room(std::uint32_t, Cycle) { pump(); }
  void blocking(tlm::tlm_generic_payload& payload, std::uint32_t, sc_core::sc_time& delay) {
    perform(payload);
    delay += domain_.clock().period() * static_cast<double>(latency);
  }
  unsigned debug(tlm::tlm_generic_payload& payload, std::uint32_t) {
    perform(payload);
    return payload.is_response_ok() ? payload.get_data_length() : 0;
  }
  void perform(tlm::tlm_generic_payload& payload) {
    const std::uint64_t begin = payload.get_address();
    if (begin + payload.get_data_length() > bytes_.size()) {
      payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      return;
    }
    if (payload.is_read()) std::memcpy(payload.get_data_ptr(), &bytes_[begin], payload.get_data_length());
    if (payload.is_write()) std::memcpy(&bytes_[begin], payload.get_data_ptr(), payload.get_data_length());
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
  }

  Domain& domain_;
  std::vector<std::uint8_t>& bytes_;
  std::deque<Item> queue_;
  bool awaited_ = false;
  bool holding_ = false;
  Cycle next_ = 0;
  Cycle last_arrival_ = 0;
};

}  // namespace heddle::test
