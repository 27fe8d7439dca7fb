// A slice between an initiator and a memory that answers out of order, refuses what it is told to, and checks what it
// is given.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "memory/l2_slice.h"
#include "memory/memory_bench.h"

namespace heddle::test {

using memory::L2Params;
using memory::L2Slice;

class ScatterMemory : public sc_core::sc_module, private EventHandler {
 public:
  ScatterMemory(const sc_core::sc_module_name& name, Domain& domain, std::size_t size)
      : sc_core::sc_module(name), in("in", domain), bytes(size), refused(size / 32, false), domain_(domain) {
    in.connect<ScatterMemory, &ScatterMemory::request, &ScatterMemory::room, &ScatterMemory::blocking,
               &ScatterMemory::debug>(*this);
  }

  MemoryIn in;
  std::vector<std::uint8_t> bytes;
  std::vector<bool> refused;  // by sector
  std::function<Cycle()> latency = [] { return Cycle{10}; };
  std::function<Cycle()> withhold = [] { return Cycle{0}; };  // END_REQ, for so many cycles
  tlm::tlm_response_status error = tlm::TLM_GENERIC_ERROR_RESPONSE;
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::vector<Cycle> arrivals;

 private:
  enum Event : std::uint32_t { kPerform, kAnswer, kAccept };

  bool request(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
    arrivals.push_back(arrival);
    const Cycle done = arrival + latency();
    const Cycle half = arrival + latency() % (done - arrival + 1);  // when it takes effect
    domain_.schedule(half, *this, kPerform, reinterpret_cast<std::uintptr_t>(&payload));
    domain_.schedule(done, *this, kAnswer, reinterpret_cast<std::uintptr_t>(&payload));
    const Cycle busy = withhold();
    if (busy == 0) return true;
    domain_.schedule(arrival + busy, *this, kAccept);
    return false;
  }
  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    if (kind == kAccept) {
      if (in.withholding()) in.accept(domain_.now());
      return;
    }
    auto& payload = *reinterpret_cast<tlm::tlm_generic_payload*>(argument);
    if (kind == kPerform) {
      perform(payload);
      return;
    }
    REQUIRE(in.respond(payload, domain_.now()));  // the slice has room for every answer
  }
  void room(std::uint32_t, Cycle) {}
  void blocking(tlm::tlm_generic_payload& payload, std::uint32_t, sc_core::sc_time& delay) {
    perform(payload);
    delay += domain_.clock().period() * static_cast<double>(latency());
  }
  unsigned debug(tlm::tlm_generic_payload& payload, std::uint32_t) {
    move(payload);
    return payload.get_data_length();
  }

  void perform(tlm::tlm_generic_payload& payload) {
    const std::uint64_t address = payload.get_address();
    const unsigned length = payload.get_data_length();
    REQUIRE((payload.is_read() || payload.is_write()));
    REQUIRE(length > 0);
    REQUIRE(address % 32 == 0);
    REQUIRE(length % 32 == 0);
    REQUIRE(address / 128 == (address + length - 1) / 128);
    REQUIRE(address + length <= bytes.size());
    REQUIRE(payload.get_streaming_width() == length);
    REQUIRE(payload.get_byte_enable_ptr() == nullptr);
    REQUIRE(payload.get_byte_enable_length() == 0);
    REQUIRE(payload.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE);
    REQUIRE(!payload.is_dmi_allowed());
    REQUIRE(payload.get_ref_count() > 0);
    ++(payload.is_read() ? reads : writes);
    for (std::uint64_t sector = address / 32; sector < (address + length) / 32; ++sector) {
      if (!refused[sector]) continue;
      payload.set_response_status(error);
      return;
    }
    move(payload);
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
  }
  void move(tlm::tlm_generic_payload& payload) {
    std::uint8_t* here = &bytes[payload.get_address()];
    if (payload.is_read()) std::memcpy(payload.get_data_ptr(), here, payload.get_data_length());
    if (payload.is_write()) std::memcpy(here, payload.get_data_ptr(), payload.get_data_length());
  }

  Domain& domain_;
};

struct L2Bench {
  static constexpr std::uint64_t kBytes = 64 * 128;

  explicit L2Bench(const L2Params& params_, TimingMode mode = TimingMode::at, std::uint32_t slices = 1)
      : params(params_),
        domain("domain", 1.0, mode, 1000, observation),
        map(kBytes * slices, slices, 1),
        slice("slice", domain, "l2.slice0", params, map, 0),
        initiator("initiator", domain),
        memory("memory", domain, kBytes * slices) {
    initiator.out.bind(slice.request_in);
    slice.memory_out.bind(memory.in);
    start();
  }

  protocol::MemoryRequest& plain(tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes) {
    protocol::MemoryRequest& request = pool.acquire();
    request.aim(command, address, bytes);
    return request;
  }
  protocol::MemoryRequest& read(std::uint64_t address, std::uint32_t bytes) {
    return plain(tlm::TLM_READ_COMMAND, address, bytes);
  }
  protocol::MemoryRequest& write(std::uint64_t address, std::uint32_t bytes, std::uint8_t value) {
    protocol::MemoryRequest& request = plain(tlm::TLM_WRITE_COMMAND, address, bytes);
    request.data.fill(value);
    return request;
  }
  protocol::MemoryRequest& action(protocol::MemoryAction action, std::uint64_t address) {
    protocol::MemoryRequest& request = plain(tlm::TLM_IGNORE_COMMAND, address, 1);
    request.extension.action = action;
    return request;
  }
  protocol::MemoryRequest& atomic(std::uint64_t line, const std::vector<std::uint32_t>& offsets,
                                  std::uint64_t operand) {
    protocol::MemoryRequest& request = action(protocol::MemoryAction::atomic, line);
    request.extension.type = arch::ValueType::u32;
    request.extension.atomic = arch::AtomicKind::add;
    for (const std::uint32_t offset : offsets) {
      request.extension.lane[request.extension.lanes++] = {operand, 0, 0, static_cast<std::uint8_t>(offset), 0};
    }
    return request;
  }

  // The data are for the test to fill.
  protocol::MemoryRequest& reduce_block(std::uint64_t address, std::uint32_t bytes, arch::AtomicKind kind,
                                        arch::ValueType type) {
    protocol::MemoryRequest& request = plain(tlm::TLM_IGNORE_COMMAND, address, bytes);
    request.extension.action = protocol::MemoryAction::reduce_block;
    request.extension.atomic = kind;
    request.extension.type = type;
    return request;
  }
  // At once, whatever the mode of the bench.
  tlm::tlm_response_status now(protocol::MemoryRequest& request) {
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    initiator.out.blocking(request, delay);
    return request.get_response_status();
  }

  struct Answer {
    std::uint64_t address = 0;
    Cycle arrival = 0;
    tlm::tlm_response_status status = tlm::TLM_INCOMPLETE_RESPONSE;
    std::uint8_t first = 0;  // byte of the data
    std::uint64_t old = 0;   // of the first lane
    bool poisoned = false;
  };
  // Keeps what comes back, in its order.
  void listen() {
    initiator.on_response = [this](protocol::MemoryRequest& request, Cycle arrival) {
      answers.push_back({request.get_address(), arrival, request.get_response_status(), request.data[0],
                         request.extension.lane[0].old, request.extension.poisoned});
    };
  }
  // Sends one and runs until nothing is left. The request's latency, from arrival to arrival of its response.
  Cycle one(protocol::MemoryRequest& request) {
    listen();
    initiator.send(request, domain.now());
    run_until_idle();
    return answers.back().arrival - initiator.sent.back();
  }
  tlm::tlm_response_status status_of(protocol::MemoryRequest& request) {
    one(request);
    return answers.back().status;
  }
  std::uint64_t stat(const std::string& name) {
    return static_cast<std::uint64_t>(observation.stats.value("gpu0.l2.slice0." + name));
  }
  std::uint8_t debug_byte(std::uint64_t address) {
    protocol::MemoryRequest& request = read(address, 1);
    REQUIRE(initiator.out.debug(request) == 1);
    const std::uint8_t value = request.data[0];
    request.release();
    return value;
  }

  SimFixture fixture;
  L2Params params;
  GpuObservation observation{"gpu0"};
  Domain domain;
  protocol::RequestPool pool;
  arch::AddressMap map;
  L2Slice slice;
  TestInitiator initiator;
  ScatterMemory memory;
  std::vector<Answer> answers;
};

// 4 sets of 2 lines, everything scarce.
inline L2Params tiny_l2() {
  L2Params params;
  params.bytes = 8 * 128;
  params.ways = 2;
  params.slices = 1;
  params.partitions = 1;
  params.queue = 4;
  params.responses = 2;
  params.mshrs = 3;
  params.waiters = 6;
  params.write_buffer = 2;
  return params;
}

}  // namespace heddle::test
