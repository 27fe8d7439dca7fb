// Copy engines between two senders and a memory that answers in any order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "arch/gpu_observation.h"
#include "arch/memory_op.h"
#include "common/packet_socket.h"
#include "copy/copy_engines.h"
#include "support/protocol_checker.h"
#include "support/sim_fixture.h"

namespace heddle::test {

// Device memory from 0 on and the host's in its window, kBytes each; a socket per engine.
class FakeMemory : public sc_core::sc_module, private EventHandler, private Resettable {
 public:
  static constexpr std::uint64_t kBytes = 1 << 16;

  FakeMemory(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t sockets)
      : sc_core::sc_module(name),
        in("in", sockets, [&domain](const char* socket, std::size_t) { return new MemoryIn(socket, domain); }),
        device(kBytes),
        host(kBytes),
        domain_(domain),
        held_(sockets) {
    for (std::uint32_t i = 0; i < sockets; ++i) {
      in[i].connect<FakeMemory, &FakeMemory::request, &FakeMemory::room, &FakeMemory::blocking, &FakeMemory::debug>(
          *this, i);
    }
    domain.add_resettable(*this);
  }

  struct Seen {
    std::uint32_t engine = 0;
    bool write = false;
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
    Cycle when = 0;
    std::uint8_t subcontext = 0;
  };
  sc_core::sc_vector<MemoryIn> in;
  std::vector<std::uint8_t> device, host;
  std::function<Cycle()> latency = [] { return Cycle{100}; };
  std::function<bool(std::uint64_t, bool)> fails = [](std::uint64_t, bool) { return false; };  // address, write
  std::uint32_t places = 1'000'000;  // of each socket: with so many held, END_REQ is withheld
  bool poisons = false;
  std::vector<Seen> seen;
  std::uint32_t most_held = 0;

  std::uint8_t& byte(std::uint64_t address) {
    return arch::in_host_window(address) ? host.at(arch::host_address(address)) : device.at(address);
  }

 private:
  struct Held {
    tlm::tlm_generic_payload* payload = nullptr;
    std::uint32_t engine = 0;
  };

  bool request(tlm::tlm_generic_payload& payload, std::uint32_t engine, Cycle arrival) {
    const auto* extension = protocol::extension_of(payload);
    seen.push_back(
        {engine, payload.is_write(), payload.get_address(), payload.get_data_length(), arrival, extension->subcontext});
    most_held = std::max(most_held, ++held_[engine]);
    requests_.push_back({&payload, engine});
    domain_.schedule(arrival + latency(), *this, 0, requests_.size() - 1);
    return held_[engine] < places;
  }
  void room(std::uint32_t, Cycle) {}
  void blocking(tlm::tlm_generic_payload&, std::uint32_t, sc_core::sc_time&) {}
  unsigned debug(tlm::tlm_generic_payload&, std::uint32_t) { return 0; }

  void on_event(std::uint32_t, std::uint64_t which) override {
    const Held held = requests_[which];
    requests_[which].payload = nullptr;
    tlm::tlm_generic_payload& payload = *held.payload;
    const std::uint64_t address = payload.get_address();
    const std::uint64_t offset = arch::in_host_window(address) ? arch::host_address(address) : address;
    if (offset + payload.get_data_length() > kBytes || fails(address, payload.is_write())) {
      payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    } else {
      for (std::uint32_t i = 0; i < payload.get_data_length(); ++i) {
        std::uint8_t& here = byte(address + i);
        (payload.is_write() ? here : payload.get_data_ptr()[i]) = payload.is_write() ? payload.get_data_ptr()[i] : here;
      }
      if (poisons && payload.is_read()) protocol::extension_of(payload)->poisoned = true;
      payload.set_response_status(tlm::TLM_OK_RESPONSE);
    }
    --held_[held.engine];
    in[held.engine].respond(payload, domain_.now());
    if (in[held.engine].withholding() && held_[held.engine] < places) in[held.engine].accept(domain_.now());
  }
  void reset() override {
    requests_.clear();
    for (std::uint32_t& count : held_) count = 0;
  }

  Domain& domain_;
  std::vector<std::uint32_t> held_;
  std::vector<Held> requests_;
};

// In a sender's place.
class FakeSender : public sc_core::sc_module, private EventHandler {
 public:
  FakeSender(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name),
        out("out", domain, 0, kUnlimitedCredits),
        done_in("done_in", domain, 0),
        share_out("share_out", domain, 0, kUnlimitedCredits),
        domain_(domain) {
    done_in.on_packet<FakeSender, &FakeSender::on_done>(*this);
  }
  void send(Cycle when, const protocol::CopyRequestPacket& request) {
    requests_.push_back(request);
    domain_.schedule(when, *this, 0, requests_.size() - 1);
  }
  const protocol::CopyDonePacket& done(std::uint32_t tag) const {
    for (const protocol::CopyDonePacket& packet : dones) {
      if (packet.tag == tag) return packet;
    }
    throw CheckFailed("no copy has ended with tag " + std::to_string(tag));
  }
  PacketOut<protocol::CopyRequestPacket> out;
  PacketIn<protocol::CopyDonePacket> done_in;
  PacketOut<protocol::SubcontextPacket> share_out;
  std::vector<protocol::CopyDonePacket> dones;

 private:
  void on_event(std::uint32_t, std::uint64_t which) override { out.send(requests_[which]); }
  void on_done(const protocol::CopyDonePacket& done, std::uint32_t) { dones.push_back(done); }
  Domain& domain_;
  std::vector<protocol::CopyRequestPacket> requests_;
};

struct CopyBench {
  explicit CopyBench(const copy::CopyParams& params = {}, TimingMode mode = TimingMode::at, Cycle run_ahead = 0,
                     const arch::Instances& instances = {})
      : domain("domain", 1.0, mode, run_ahead, observation),
        copies("copies", domain, "copy", params, instances),
        memory("memory", domain, params.engines),
        packets("packets", domain),
        registers("registers", domain) {
    registers.share_out.bind(copies.share_in);
    packets.out.bind(copies.request_in(0));
    copies.done_out(0).bind(packets.done_in);
    registers.out.bind(copies.request_in(1));
    copies.done_out(1).bind(registers.done_in);
    for (std::uint32_t i = 0; i < params.engines; ++i) {
      checkers.push_back(std::make_unique<ProtocolChecker>(fmt::format("checker{}", i).c_str()));
      copies.memory_out(i).bind(checkers[i]->in);
      checkers[i]->out.bind(memory.in[i]);
    }
  }
  double stat(const std::string& name) const { return observation.stats.value("gpu0.copy." + name); }
  std::vector<std::string> violations() const {
    std::vector<std::string> result;
    for (const auto& checker : checkers) {
      result.insert(result.end(), checker->violations.begin(), checker->violations.end());
      if (!checker->finished()) result.push_back("a transaction is open");
    }
    return result;
  }

  SimFixture sim;
  GpuObservation observation{"gpu0"};
  Domain domain;
  copy::CopyEngines copies;
  FakeMemory memory;
  FakeSender packets;
  FakeSender registers;
  std::vector<std::unique_ptr<ProtocolChecker>> checkers;
};

inline protocol::CopyRequestPacket copy_request(std::uint32_t tag, std::uint64_t from, std::uint64_t to,
                                                std::uint64_t bytes) {
  protocol::CopyRequestPacket request;
  request.tag = tag;
  request.from = from;
  request.to = to;
  request.bytes = bytes;
  return request;
}
inline protocol::CopyRequestPacket fill_request(std::uint32_t tag, std::uint64_t to, std::uint64_t bytes,
                                                std::uint32_t value) {
  protocol::CopyRequestPacket request;
  request.tag = tag;
  request.kind = protocol::CopyKind::fill;
  request.to = to;
  request.bytes = bytes;
  request.value = value;
  return request;
}

}  // namespace heddle::test
