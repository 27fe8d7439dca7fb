// What an SM finds at the end of its memory link: bytes with a latency, atomics included. A plain target of the base
// protocol; it knows the extension only where a request is more than a read or a write.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <vector>

#include "common/memory_socket.h"
#include "protocol/memory_request.h"

namespace heddle::test {

class FakeL2 : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  struct Seen {
    tlm::tlm_command command;
    protocol::MemoryAction action;
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t sectors;
    bool enables;
    Cycle arrival;
    std::uint8_t subcontext;
    bool physical;
  };

  FakeL2(const sc_core::sc_module_name& name, Domain& domain, std::uint64_t size)
      : sc_core::sc_module(name), in("in", domain), bytes(size), domain_(domain) {
    in.connect<FakeL2, &FakeL2::on_request, &FakeL2::on_room, &FakeL2::on_blocking, &FakeL2::on_debug>(*this);
    domain.add_resettable(*this);
  }

  MemoryIn in;
  std::vector<std::uint8_t> bytes;
  std::vector<Seen> seen;
  Cycle latency = 200;                        // from a request's arrival to its response's
  std::function<Cycle(std::uint64_t)> extra;  // cycles more, by number of the request
  std::uint64_t corrupt = ~std::uint64_t{0};  // an address: what comes of its sector is corrupt
  Cycle ahead = 0;                            // responses are given that much before they arrive
  std::size_t room = 1'000'000;               // requests that it holds
  bool silent = false;                        // no more answers
  std::size_t most = 0;                       // requests held at once
  // Translation: where the bytes of a request lie; kUnmapped and kReadOnly refuse it.
  static constexpr std::uint64_t kUnmapped = ~std::uint64_t{0};
  static constexpr std::uint64_t kReadOnly = kUnmapped - 1;
  std::function<std::uint64_t(const tlm::tlm_generic_payload&, const protocol::MemoryExtension&)> place;

  template <class T>
  T get(std::uint64_t address) const {
    T value{};
    std::memcpy(&value, bytes.data() + address, sizeof value);
    return value;
  }
  template <class T>
  void put(std::uint64_t address, T value) {
    std::memcpy(bytes.data() + address, &value, sizeof value);
  }
  std::size_t count(tlm::tlm_command command) const {
    return static_cast<std::size_t>(
        std::count_if(seen.begin(), seen.end(), [command](const Seen& one) { return one.command == command; }));
  }
  std::size_t count(protocol::MemoryAction action) const {
    return static_cast<std::size_t>(
        std::count_if(seen.begin(), seen.end(), [action](const Seen& one) { return one.action == action; }));
  }

 private:
  static constexpr std::uint32_t kServe = 0;
  static constexpr std::uint32_t kAnswer = 1;

  void reset() override {
    held_.clear();
    answers_.clear();
  }

  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
    held_.push_back(&payload);
    most = std::max(most, held_.size());
    domain_.schedule(arrival, *this, kServe, reinterpret_cast<std::uint64_t>(&payload));
    return held_.size() < room;
  }
  void on_room(std::uint32_t, Cycle) { answer(); }
  void on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t, sc_core::sc_time& delay) {
    serve(payload);
    delay += domain_.clock().period() * static_cast<double>(latency);
  }
  unsigned on_debug(tlm::tlm_generic_payload&, std::uint32_t) { return 0; }

  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    auto* payload = reinterpret_cast<tlm::tlm_generic_payload*>(argument);
    if (kind == kServe) {
      const std::uint64_t number = seen.size();
      serve(*payload);
      if (!silent) domain_.schedule_in(latency + (extra ? extra(number) : 0) - ahead, *this, kAnswer, argument);
      return;
    }
    answers_.push_back(payload);
    answer();
  }
  void answer() {
    while (!answers_.empty() && in.can_respond()) {
      tlm::tlm_generic_payload* payload = answers_.front();
      answers_.pop_front();
      held_.erase(std::find(held_.begin(), held_.end(), payload));
      in.respond(*payload, domain_.now() + ahead);
      if (in.withholding() && held_.size() < room) in.accept(domain_.now());
    }
  }

  void serve(tlm::tlm_generic_payload& payload) {
    protocol::MemoryExtension& extension = *protocol::extension_of(payload);
    std::uint64_t address = payload.get_address();
    const std::uint32_t length = payload.get_data_length();
    seen.push_back({payload.get_command(), extension.action, address, length, extension.sectors,
                    payload.get_byte_enable_ptr() != nullptr, domain_.now(), extension.subcontext, extension.physical});
    if (place && !extension.physical) address = place(payload, extension);
    if (address == kUnmapped || address == kReadOnly) {
      extension.unmapped = true;
      payload.set_response_status(address == kUnmapped ? tlm::TLM_ADDRESS_ERROR_RESPONSE
                                                       : tlm::TLM_COMMAND_ERROR_RESPONSE);
      return;
    }
    if (address + length > bytes.size()) {
      payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      return;
    }
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    const std::uint64_t sector = corrupt & ~std::uint64_t{31};
    extension.poisoned = !payload.is_write() && address < sector + 32 && sector < address + length;
    if (extension.action == protocol::MemoryAction::atomic || extension.action == protocol::MemoryAction::reduce) {
      change(arch::line_of(address), extension);
    } else if (payload.is_read()) {
      std::memcpy(payload.get_data_ptr(), bytes.data() + address, length);
    } else if (payload.is_write()) {
      const std::uint8_t* enables = payload.get_byte_enable_ptr();
      for (std::uint32_t i = 0; i < length; ++i) {
        if (enables == nullptr || enables[i] != 0) bytes[address + i] = payload.get_data_ptr()[i];
      }
    }
  }
  void change(std::uint64_t line, protocol::MemoryExtension& extension) {
    const std::uint32_t width = arch::bytes_of(extension.type);
    for (std::uint32_t i = 0; i < extension.lanes; ++i) {
      protocol::AtomicLane& lane = extension.lane[i];
      lane.old = 0;
      std::memcpy(&lane.old, bytes.data() + line + lane.offset, width);
      const std::uint64_t result =
          arch::atomic_result(extension.atomic, extension.type, lane.old, lane.operand, lane.compare);
      std::memcpy(bytes.data() + line + lane.offset, &result, width);
    }
  }

  Domain& domain_;
  std::vector<tlm::tlm_generic_payload*> held_;
  std::deque<tlm::tlm_generic_payload*> answers_;
};

}  // namespace heddle::test
