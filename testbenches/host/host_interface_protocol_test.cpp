// Initiators that do not keep to the base protocol: nothing of ours trips.
#include <algorithm>

#include <catch2/catch.hpp>

#include "host/host_interface_bench.h"
#include "support/random.h"

namespace heddle::test::host_interface_protocol_test {
namespace {

DECLARE_EXTENDED_PHASE(private_phase);

// Straight to the socket: a checker between would complain.
struct RudeBench : HostBench {
  using HostBench::HostBench;
  tlm::tlm_sync_enum call(host::HostInterface::TargetSocket& socket, tlm::tlm_generic_payload& payload,
                          tlm::tlm_phase& phase, sc_time delay = {}) {
    return socket.get_base_interface().nb_transport_fw(payload, phase, delay);
  }
};

}  // namespace

TEST_CASE("phases that are out of place are ignored", "[host][HST-02]") {
  RudeBench bench;
  start();
  std::uint64_t value = 0;
  tlm::tlm_generic_payload& payload =
      bench.registers.request(tlm::TLM_READ_COMMAND, 0, reinterpret_cast<std::uint8_t*>(&value), 4);
  for (tlm::tlm_phase phase : {tlm::tlm_phase(tlm::END_REQ), tlm::tlm_phase(tlm::BEGIN_RESP),
                               tlm::tlm_phase(tlm::UNINITIALIZED_PHASE), tlm::tlm_phase(private_phase)}) {
    CHECK(bench.call(bench.host.bar0(), payload, phase) == tlm::TLM_ACCEPTED);
  }
  tlm::tlm_phase phase = tlm::END_RESP;  // of nothing
  CHECK(bench.call(bench.host.bar0(), payload, phase) == tlm::TLM_COMPLETED);
  run_until_idle();
  CHECK(bench.registers.responses.empty());
  CHECK(bench.host.idle());
  payload.release();
}

TEST_CASE("a request before the end of the last one ends with an error, and the last one well", "[host][HST-02]") {
  host::HostParams params;
  params.aperture_queue = 1;
  RudeBench bench(params);
  start();
  std::vector<std::uint8_t> data(16);
  tlm::tlm_generic_payload& first = bench.memory.request(tlm::TLM_READ_COMMAND, 0, data.data(), 8);
  tlm::tlm_generic_payload& second = bench.memory.request(tlm::TLM_READ_COMMAND, 8, data.data() + 8, 8);
  CHECK(bench.memory.forward(first, tlm::BEGIN_REQ) == tlm::TLM_ACCEPTED);
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  CHECK(bench.call(bench.host.bar1(), second, phase) == tlm::TLM_COMPLETED);
  CHECK(second.get_response_status() == tlm::TLM_GENERIC_ERROR_RESPONSE);
  // The same transaction twice: the first time counts.
  phase = tlm::BEGIN_REQ;
  CHECK(bench.call(bench.host.bar1(), first, phase) == tlm::TLM_ACCEPTED);
  run_until_idle();
  REQUIRE(bench.memory.responses.size() == 1);
  CHECK(bench.memory.responses[0].payload == &first);
  CHECK(bench.memory.responses[0].status == tlm::TLM_OK_RESPONSE);
  first.release();
  second.release();
  CHECK(bench.memory.pool.in_use() == 0);
}

TEST_CASE("attributes that make no sense end with an error", "[host][HST-02]") {
  RudeBench bench;
  start();
  std::vector<std::uint8_t> data(16);
  std::uint8_t enables[4] = {0xFF, 0xFF, 0xFF, 0xFF};
  for (host::HostInterface::TargetSocket* socket : {&bench.host.bar0(), &bench.host.bar1()}) {
    tlm::tlm_generic_payload payload;
    sc_time delay;
    const auto status = [&] {
      socket->get_base_interface().b_transport(payload, delay);
      return payload.get_response_status();
    };
    payload.set_command(tlm::TLM_READ_COMMAND);
    payload.set_address(0);
    payload.set_data_ptr(data.data());
    CHECK(status() == tlm::TLM_BURST_ERROR_RESPONSE);  // no length
    payload.set_data_length(4);
    payload.set_streaming_width(4);
    payload.set_byte_enable_ptr(enables);
    payload.set_byte_enable_length(0);
    CHECK(status() == tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
    payload.set_byte_enable_length(4);
    CHECK(status() == tlm::TLM_OK_RESPONSE);
    payload.set_data_ptr(nullptr);
    CHECK(status() == tlm::TLM_GENERIC_ERROR_RESPONSE);
    CHECK(socket->get_base_interface().transport_dbg(payload) == 0);
  }
}

TEST_CASE("non-blocking transactions without a memory manager are served", "[host][HST-02]") {
  RudeBench bench;
  bench.expected_violations = {};
  start();
  std::uint64_t value = 0;
  tlm::tlm_generic_payload payload;
  payload.set_command(tlm::TLM_READ_COMMAND);
  payload.set_address(0);
  payload.set_data_ptr(reinterpret_cast<std::uint8_t*>(&value));
  payload.set_data_length(4);
  payload.set_streaming_width(4);
  bench.registers.forward(payload, tlm::BEGIN_REQ);
  run_until_idle();
  CHECK(value == host::kMagic);
  CHECK_FALSE(bench.bar0_checker.violations.empty());
  bench.bar0_checker.violations.clear();
}

TEST_CASE("random calls on the forward path never trip a check", "[host][HST-02]") {
  for (const std::uint64_t seed : seeds(20)) {
    CAPTURE(seed);
    Random random(seed);
    host::HostParams params;
    params.aperture_queue = random.between(1, 3);
    RudeBench bench(params);
    // Responses go to a port without a checker's eye on the requests.
    start();
    std::vector<std::uint8_t> data(64 * 16);
    std::vector<tlm::tlm_generic_payload*> payloads;
    for (unsigned i = 0; i < 16; ++i) {
      payloads.push_back(&bench.memory.request(random.chance(50) ? tlm::TLM_READ_COMMAND : tlm::TLM_WRITE_COMMAND,
                                               random.below(kMemoryBytes + 100), data.data() + std::size_t{64} * i,
                                               random.below(65)));
    }
    bench.memory.hold_responses = random.chance(50);
    bench.registers.hold_responses = random.chance(50);
    for (unsigned step = 0; step < 300; ++step) {
      tlm::tlm_generic_payload& payload = *payloads[random.below(16)];
      auto& socket = random.chance(50) ? bench.host.bar0() : bench.host.bar1();
      tlm::tlm_phase phase = random.chance(70) ? tlm::BEGIN_REQ : random.chance(70) ? tlm::END_RESP : tlm::END_REQ;
      REQUIRE(failure_of([&] { bench.call(socket, payload, phase, ns(random.below(40))); }).empty());
      if (random.chance(2)) REQUIRE(failure_of([&] { bench.domain.reset(); }).empty());
      if (random.chance(30)) REQUIRE(failure_of([&] { run_until_idle(); }).empty());
    }
    // Everybody ends what is open: the sockets are free again.
    for (unsigned round = 0; round < 40; ++round) {
      run_until_idle();
      for (tlm::tlm_generic_payload* payload : payloads) {
        for (auto* socket : {&bench.host.bar0(), &bench.host.bar1()}) {
          tlm::tlm_phase phase = tlm::END_RESP;
          bench.call(*socket, *payload, phase);
        }
      }
    }
    CHECK(bench.host.idle());
    bench.bar0_checker.violations.clear();
    bench.bar1_checker.violations.clear();
  }
}

}  // namespace heddle::test::host_interface_protocol_test
