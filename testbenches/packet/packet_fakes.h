// Stand-ins for the packet processor's neighbours: a memory that answers late and out of order, task management, copy
// engines, a host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/address_map.h"
#include "arch/gpu_observation.h"
#include "common/packet_socket.h"
#include "packet/packet_processor.h"

namespace heddle::test {

// Device memory and host memory of a mebibyte each. Requests take effect when they are answered, in any order.
class FakeMemory : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  static constexpr std::uint64_t kBytes = std::uint64_t{1} << 20;

  FakeMemory(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name),
        in("in", domain),
        written("written", domain, 5, kUnlimitedCredits),
        device_(kBytes),
        host_(kBytes),
        domain_(domain) {
    in.connect<FakeMemory, &FakeMemory::on_request, &FakeMemory::on_room, &FakeMemory::on_blocking,
               &FakeMemory::on_debug>(*this);
    domain.add_resettable(*this);
  }

  MemoryIn in;
  PacketOut<protocol::WrittenPacket> written;  // who watches a line of device memory is told of every change once
  std::function<Cycle()> delay = [] { return Cycle{50}; };
  std::function<bool()> full = [] { return false; };  // the channel stays busy for a while
  std::function<void(std::uint64_t address, bool write)> watch;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> broken;  // ranges that answer with errors
  // Of the machine itself: reached by physical addresses, and nothing else is (PKT-11).
  std::pair<std::uint64_t, std::uint64_t> own{0, 0};
  std::uint64_t write_backs = 0;
  std::uint64_t invalidates = 0;  // that have been answered
  std::uint64_t invalidates_asked = 0;
  bool broken_write_back = false;
  std::function<bool(std::uint64_t address, std::uint32_t bytes)> may_write;  // false: such a write gets an error
  bool keeps = false;  // a reset of the domain does not reach what has been asked for
  std::uint64_t served = 0;
  std::size_t open() const { return open_; }
  // Answers to what was asked before a reset.
  std::size_t answer_late() {
    const std::size_t count = late_.size();
    for (tlm::tlm_generic_payload* payload : late_) {
      payload->set_response_status(tlm::TLM_OK_RESPONSE);
      in.respond(*payload, domain_.now());
    }
    late_.clear();
    return count;
  }

  std::uint8_t* at(std::uint64_t address, std::uint64_t bytes) {
    std::vector<std::uint8_t>& memory = arch::in_host_window(address) ? host_ : device_;
    const std::uint64_t offset = arch::in_host_window(address) ? arch::host_address(address) : address;
    return offset >= kBytes || bytes > kBytes - offset ? nullptr : memory.data() + offset;
  }
  std::uint64_t get(std::uint64_t address, std::uint32_t bytes = 8) {
    std::uint64_t value = 0;
    for (std::uint32_t i = bytes; i-- > 0;) value = value << 8 | at(address, bytes)[i];
    return value;
  }
  void put(std::uint64_t address, std::uint64_t value, std::uint32_t bytes = 8) {
    std::uint8_t* to = at(address, bytes);
    HEDDLE_CHECK(to != nullptr, "a write outside memory");
    for (std::uint32_t i = 0; i < bytes; ++i) to[i] = static_cast<std::uint8_t>(value >> 8 * i);
    tell(address);
  }
  template <class Bytes>
  void put_bytes(std::uint64_t address, const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), at(address, bytes.size()));
    tell(address);
  }

 private:
  void tell(std::uint64_t address) {
    const auto found = watched_.find(address / arch::kLineBytes);
    if (found == watched_.end()) return;
    const std::set<std::uint64_t> numbers = std::move(found->second);
    watched_.erase(found);
    for (const std::uint64_t number : numbers) written.send({number});
  }

  enum : std::uint32_t { kServe, kAccept };

  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
    ++open_;
    if (protocol::extension_of(payload)->action == protocol::MemoryAction::invalidate) ++invalidates_asked;
    std::uint32_t number = 0;
    while (number < payloads_.size() && payloads_[number] != nullptr) ++number;
    if (number == payloads_.size()) payloads_.push_back(nullptr);
    payloads_[number] = &payload;
    domain_.schedule(arrival + delay(), *this, kServe, number);
    if (!full()) return true;
    domain_.schedule(arrival + 20, *this, kAccept);
    return false;
  }
  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    if (kind == kAccept) {
      if (in.withholding()) in.accept(domain_.now());
      return;
    }
    if (!in.can_respond()) {
      domain_.schedule_in(1, *this, kServe, argument);
      return;
    }
    tlm::tlm_generic_payload& payload = *payloads_[argument];
    payloads_[argument] = nullptr;
    --open_;
    ++served;
    payload.set_response_status(serve(payload));
    in.respond(payload, domain_.now());
  }
  tlm::tlm_response_status serve(tlm::tlm_generic_payload& payload) {
    const protocol::MemoryExtension* extension = protocol::extension_of(payload);
    if (extension->action == protocol::MemoryAction::write_back) {
      ++write_backs;
      return broken_write_back ? tlm::TLM_GENERIC_ERROR_RESPONSE : tlm::TLM_OK_RESPONSE;
    }
    if (extension->action == protocol::MemoryAction::invalidate) {
      ++invalidates;
      return tlm::TLM_OK_RESPONSE;
    }
    const std::uint64_t address = payload.get_address();
    const std::uint32_t bytes = payload.get_data_length();
    REQUIRE(address / arch::kLineBytes == (address + bytes - 1) / arch::kLineBytes);
    std::uint8_t* data = at(address, bytes);
    if (data == nullptr) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
    const bool is_own = address < own.second && address + bytes > own.first;
    REQUIRE((!extension->physical || is_own));
    if (is_own && !extension->physical) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
    for (const auto& [from, to] : broken) {
      if (address < to && address + bytes > from) return tlm::TLM_GENERIC_ERROR_RESPONSE;
    }
    const bool changes = !payload.is_read();
    if (changes && may_write && !may_write(address, bytes)) return tlm::TLM_GENERIC_ERROR_RESPONSE;
    if (extension->action == protocol::MemoryAction::atomic) {
      REQUIRE(extension->atomic == arch::AtomicKind::add);
      REQUIRE(extension->lanes == 1);
      REQUIRE(arch::bytes_of(extension->type) == 8);
      const std::uint64_t line = arch::line_of(address);
      put(line + extension->lane[0].offset, get(line + extension->lane[0].offset) + extension->lane[0].operand);
    } else if (payload.is_read()) {
      std::copy_n(data, bytes, payload.get_data_ptr());
      if (extension->watch != 0) {
        REQUIRE_FALSE(arch::in_host_window(address));
        watched_[address / arch::kLineBytes].insert(extension->watch);
      }
    } else {
      REQUIRE(payload.is_write());
      std::copy_n(payload.get_data_ptr(), bytes, data);
      tell(address);
    }
    if (watch) watch(address, changes);
    return tlm::TLM_OK_RESPONSE;
  }
  void on_room(std::uint32_t, Cycle) {}
  void on_blocking(tlm::tlm_generic_payload&, std::uint32_t, sc_core::sc_time&) { FAIL("a blocking request"); }
  unsigned on_debug(tlm::tlm_generic_payload&, std::uint32_t) { return 0; }
  void reset() override {
    for (tlm::tlm_generic_payload* payload : payloads_) {
      if (keeps && payload != nullptr) late_.push_back(payload);
    }
    watched_.clear();
    payloads_.clear();  // otherwise what they asked for is lost
    open_ = 0;
  }
  const char* handler_name() const override { return name(); }

  std::map<std::uint64_t, std::set<std::uint64_t>> watched_;  // by line
  std::vector<std::uint8_t> device_;
  std::vector<std::uint8_t> host_;
  Domain& domain_;
  std::vector<tlm::tlm_generic_payload*> payloads_;
  std::vector<tlm::tlm_generic_payload*> late_;
  std::size_t open_ = 0;
};

class FakeTasks : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  FakeTasks(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name), in("in", domain, 0), out("out", domain, 0, kUnlimitedCredits), domain_(domain) {
    in.on_packet<FakeTasks, &FakeTasks::on_dispatch>(*this);
    domain.add_resettable(*this);
  }
  struct Kernel {
    protocol::DispatchPacket packet;
    Cycle when = 0;
    Cycle ended = 0;
    bool done = false;
    bool killed = false;
    std::string label;
  };
  PacketIn<protocol::DispatchPacket> in;
  PacketOut<protocol::DispatchDonePacket> out;
  Cycle start_latency = 0;
  std::function<Cycle(const Kernel&)> duration = [](const Kernel&) { return Cycle{1000}; };
  std::function<protocol::DoneStatus(const Kernel&)> status = [](const Kernel&) { return protocol::DoneStatus::ok; };
  bool held = false;  // kernels end by release() only
  // A kernel that is to be killed ends that long afterwards; none: it is too late, and it ends as it would.
  std::function<std::optional<Cycle>(const Kernel&)> dies = [](const Kernel&) { return std::optional<Cycle>(30); };
  std::vector<Kernel> kernels;
  std::vector<std::uint32_t> kills;  // operations
  std::uint32_t running = 0;
  std::uint32_t most_running = 0;

  void release(std::size_t number) { finish(number); }

 private:
  void on_dispatch(const protocol::DispatchPacket& packet, std::uint32_t) {
    if (packet.abort) return kill(packet.operation);
    for (const Kernel& kernel : kernels) {
      if (!kernel.done && kernel.packet.operation == packet.operation) FAIL("an operation id was used twice");
    }
    kernels.push_back({packet, domain_.now(), 0, false, false, gpu_observation(domain_).labels.of(packet.operation)});
    most_running = std::max(most_running, ++running);
    if (!held) domain_.schedule_in(start_latency + duration(kernels.back()), *this, 0, kernels.size() - 1);
  }
  void kill(std::uint32_t operation) {
    kills.push_back(operation);
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      Kernel& kernel = kernels[i];
      if (kernel.packet.operation != operation || kernel.done) continue;
      const std::optional<Cycle> delay = dies(kernel);
      if (!delay) continue;
      REQUIRE_FALSE(kernel.killed);
      kernel.killed = true;
      domain_.schedule_in(*delay, *this, 1, i);
    }
  }
  void on_event(std::uint32_t kind, std::uint64_t number) override {
    if (kind == 1 || !kernels[number].killed) finish(static_cast<std::size_t>(number));
  }
  void finish(std::size_t number) {
    Kernel& kernel = kernels[number];
    REQUIRE_FALSE(kernel.done);
    kernel.done = true;
    kernel.ended = domain_.now();
    --running;
    const protocol::DoneStatus how = kernel.killed ? protocol::DoneStatus::aborted : status(kernel);
    out.send({kernel.packet.operation, how, kernel.when + start_latency, kernel.ended});
  }
  void reset() override {
    running = 0;
    kernels.clear();
    kills.clear();
  }
  const char* handler_name() const override { return name(); }

  Domain& domain_;
};

class FakeCopies : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  FakeCopies(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name), in("in", domain, 0), out("out", domain, 0, kUnlimitedCredits), domain_(domain) {
    in.on_packet<FakeCopies, &FakeCopies::on_copy>(*this);
    domain.add_resettable(*this);
  }
  PacketIn<protocol::CopyRequestPacket> in;
  PacketOut<protocol::CopyDonePacket> out;
  std::function<Cycle()> duration = [] { return Cycle{300}; };
  arch::HsaStatus status = arch::HsaStatus::success;
  std::vector<protocol::CopyRequestPacket> copies;
  std::vector<Cycle> when;

 private:
  void on_copy(const protocol::CopyRequestPacket& packet, std::uint32_t) {
    copies.push_back(packet);
    when.push_back(domain_.now());
    domain_.schedule_in(duration(), *this, 0, copies.size() - 1);
  }
  void on_event(std::uint32_t, std::uint64_t number) override {
    out.send({copies[number].tag, status, 0, when[number], domain_.now()});
  }
  void reset() override {
    copies.clear();
    when.clear();
  }
  const char* handler_name() const override { return name(); }

  Domain& domain_;
};

class FakeHost : public sc_core::sc_module {
 public:
  FakeHost(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name), out("out", domain, 0, kUnlimitedCredits), in("in", domain, 0), domain_(domain) {
    in.on_packet<FakeHost, &FakeHost::on_event>(*this);
  }
  struct Event {
    protocol::QueueEventPacket packet;
    Cycle when = 0;
  };
  PacketOut<protocol::QueueCommandPacket> out;
  PacketIn<protocol::QueueEventPacket> in;
  std::vector<Event> events;
  std::function<void(const protocol::QueueEventPacket&)> react;

 private:
  void on_event(const protocol::QueueEventPacket& packet, std::uint32_t) {
    events.push_back({packet, domain_.now()});
    if (react) react(packet);
  }
  Domain& domain_;
};

}  // namespace heddle::test
