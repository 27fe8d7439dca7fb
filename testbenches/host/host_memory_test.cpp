#include "host/host_memory.h"

#include "host/hub_bench.h"

namespace heddle::test::host_memory_test {
namespace {

using host::HostMemory;

// An initiator of anybody's: it may keep a response for a while.
class MemoryRequester : public sc_core::sc_module, private tlm::tlm_bw_transport_if<> {
 public:
  explicit MemoryRequester(const sc_core::sc_module_name& name) : sc_core::sc_module(name), socket("socket") {
    socket.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
  }
  tlm::tlm_initiator_socket<> socket;
  bool holds = false;
  tlm::tlm_generic_payload* held = nullptr;
  std::vector<std::pair<std::uint64_t, sc_core::sc_time>> answers;  // by address

  void send(tlm::tlm_generic_payload& payload, const sc_core::sc_time& when = sc_core::SC_ZERO_TIME) {
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = when;
    REQUIRE(socket->nb_transport_fw(payload, phase, delay) == tlm::TLM_UPDATED);
    REQUIRE(phase == tlm::END_REQ);
  }
  void let_go() {
    tlm::tlm_phase phase = tlm::END_RESP;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    tlm::tlm_generic_payload& payload = *held;
    held = nullptr;
    socket->nb_transport_fw(payload, phase, delay);
  }

 private:
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    REQUIRE(phase == tlm::BEGIN_RESP);
    REQUIRE(held == nullptr);
    answers.emplace_back(payload.get_address(), sc_core::sc_time_stamp() + delay);
    if (!holds) return tlm::TLM_COMPLETED;
    held = &payload;
    return tlm::TLM_ACCEPTED;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
};

struct MemoryBench {
  explicit MemoryBench(std::uint64_t bytes = 4096) : memory("memory", bytes, sc_core::sc_time(70, sc_core::SC_NS), 2) {
    one.socket.bind(memory.port(0));
    two.socket.bind(memory.port(1));
    start();
  }
  protocol::MemoryRequest& plain(tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes) {
    protocol::MemoryRequest& request = pool.acquire();
    request.aim(command, address, bytes);
    return request;
  }
  tlm::tlm_response_status now(tlm::tlm_generic_payload& payload) {
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    one.socket->b_transport(payload, delay);
    CHECK(delay == sc_core::sc_time(70, sc_core::SC_NS));
    return payload.get_response_status();
  }

  SimFixture fixture;
  protocol::RequestPool pool;
  HostMemory memory;
  MemoryRequester one{"one"};
  MemoryRequester two{"two"};
};

}  // namespace

TEST_CASE("ports of a host memory see the same bytes, after its latency", "[host][HST-02]") {
  MemoryBench bench;
  auto& write = bench.plain(tlm::TLM_WRITE_COMMAND, 100, 8);
  write.data.fill(0xAB);
  bench.one.send(write, sc_core::sc_time(10, sc_core::SC_NS));
  auto& early = bench.plain(tlm::TLM_READ_COMMAND, 100, 8);
  bench.two.send(early, sc_core::sc_time(9, sc_core::SC_NS));
  auto& late = bench.plain(tlm::TLM_READ_COMMAND, 100, 8);
  bench.two.send(late, sc_core::sc_time(11, sc_core::SC_NS));
  run_until_idle();
  CHECK(early.data[0] == 0);
  CHECK(late.data[7] == 0xAB);
  REQUIRE(bench.one.answers.size() == 1);
  CHECK(bench.one.answers[0].second == sc_core::sc_time(80, sc_core::SC_NS));
  CHECK(write.get_ref_count() == 1);  // nothing is kept
}

TEST_CASE("one response at a time, until the initiator has taken it", "[host][HST-02]") {
  MemoryBench bench;
  bench.one.holds = true;
  for (std::uint64_t i = 0; i < 3; ++i) {
    bench.one.send(bench.plain(tlm::TLM_READ_COMMAND, i * 64, 8));
    bench.two.send(bench.plain(tlm::TLM_READ_COMMAND, i * 64, 8));
  }
  run_until_idle();
  CHECK(bench.one.answers.size() == 1);
  CHECK(bench.two.answers.size() == 3);  // its own affair
  bench.one.let_go();
  CHECK(bench.one.answers.size() == 2);
  bench.one.holds = false;
  bench.one.let_go();
  REQUIRE(bench.one.answers.size() == 3);
  for (std::uint64_t i = 0; i < 3; ++i) CHECK(bench.one.answers[i].first == i * 64);
}

TEST_CASE("payloads that a host memory cannot carry out get the standard's error", "[host][MEM-05]") {
  MemoryBench bench(1000);
  CHECK(bench.now(bench.plain(tlm::TLM_READ_COMMAND, 999, 1)) == tlm::TLM_OK_RESPONSE);
  CHECK(bench.now(bench.plain(tlm::TLM_READ_COMMAND, 999, 2)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(bench.now(bench.plain(tlm::TLM_WRITE_COMMAND, ~std::uint64_t{0}, 1)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  auto& empty = bench.plain(tlm::TLM_WRITE_COMMAND, 0, 1);
  empty.set_data_length(0);
  CHECK(bench.now(empty) == tlm::TLM_BURST_ERROR_RESPONSE);
  // A streaming width and byte enables: the second beat goes over the first, but for its second byte.
  auto& beats = bench.plain(tlm::TLM_WRITE_COMMAND, 40, 4);
  beats.set_streaming_width(2);
  for (std::uint8_t i = 0; i < 4; ++i) beats.data[i] = static_cast<std::uint8_t>(i + 1);
  std::uint8_t* enables = beats.use_enables();
  std::fill_n(enables, 4, TLM_BYTE_ENABLED);
  enables[3] = TLM_BYTE_DISABLED;
  CHECK(bench.now(beats) == tlm::TLM_OK_RESPONSE);
  std::uint8_t bytes[2] = {};
  REQUIRE(bench.memory.read(40, bytes, 2));
  CHECK(bytes[0] == 3);
  CHECK(bytes[1] == 2);
  CHECK_FALSE(bench.memory.read(999, bytes, 2));
  CHECK_FALSE(bench.memory.write(999, bytes, 2));
  tlm::tlm_dmi dmi;
  CHECK_FALSE(bench.one.socket->get_direct_mem_ptr(beats, dmi));
  auto& debug = bench.plain(tlm::TLM_READ_COMMAND, 990, 32);
  CHECK(bench.one.socket->transport_dbg(debug) == 10);
}

TEST_CASE("a host memory carries atomics out as one, and says so", "[host][HST-02]") {
  MemoryBench bench(1000);
  auto& atomic = bench.plain(tlm::TLM_IGNORE_COMMAND, 128, 1);
  atomic.extension.action = protocol::MemoryAction::atomic;
  atomic.extension.type = arch::ValueType::u32;
  atomic.extension.atomic = arch::AtomicKind::add;
  atomic.extension.lanes = 3;
  atomic.extension.lane[0] = {5, 0, 0, 4, 0};
  atomic.extension.lane[1] = {6, 0, 0, 4, 1};
  atomic.extension.lane[2] = {7, 0, 0, 124, 2};
  CHECK_FALSE(atomic.extension.carried_out);
  CHECK(bench.now(atomic) == tlm::TLM_OK_RESPONSE);
  CHECK(atomic.extension.carried_out);
  CHECK(atomic.extension.lane[1].old == 5);
  std::uint32_t value = 0;
  REQUIRE(bench.memory.read(132, &value, 4));
  CHECK(value == 11);
  REQUIRE(bench.memory.read(252, &value, 4));
  CHECK(value == 7);
  // Errors are judged by who knows, too; a plain access says nothing.
  atomic.extension.carried_out = false;
  atomic.set_address(900);
  CHECK(bench.now(atomic) == tlm::TLM_ADDRESS_ERROR_RESPONSE);  // the line's last value is outside
  CHECK(atomic.extension.carried_out);
  atomic.extension.lane[0].offset = 2;
  CHECK(bench.now(atomic) == tlm::TLM_BURST_ERROR_RESPONSE);
  auto& plain = bench.plain(tlm::TLM_READ_COMMAND, 0, 8);
  CHECK(bench.now(plain) == tlm::TLM_OK_RESPONSE);
  CHECK_FALSE(plain.extension.carried_out);
}

}  // namespace heddle::test::host_memory_test
