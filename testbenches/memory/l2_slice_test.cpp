#include "memory/l2_slice.h"

#include "arch/gpu_observation.h"
#include "memory/l2_bench.h"
#include "memory/plain_memory.h"

namespace heddle::test::memory_l2_slice_test {
namespace {

using protocol::MemoryAction;

std::vector<std::uint32_t> lanes(std::uint32_t count, std::uint32_t stride) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t i = 0; i < count; ++i) result.push_back(i * stride);
  return result;
}

L2Params roomy() {
  L2Params params = tiny_l2();
  params.queue = 64;
  params.responses = 64;
  params.waiters = 64;
  return params;
}

// Cycles between the responses to `count` requests sent one per cycle, the first left out.
template <class Make>
std::vector<Cycle> spacing(L2Bench& bench, std::uint32_t count, Make&& make) {
  bench.listen();
  bench.answers.clear();
  for (std::uint32_t i = 0; i < count; ++i) bench.initiator.send(make(i), bench.domain.now());
  run_until_idle();
  std::vector<Cycle> result;
  for (std::size_t i = 1; i < bench.answers.size(); ++i) {
    result.push_back(bench.answers[i].arrival - bench.answers[i - 1].arrival);
  }
  return result;
}

}  // namespace

TEST_CASE("hits, misses and writes take the cycles of their parts", "[memory][MEM-01]") {
  L2Bench bench(roomy());
  bench.memory.latency = [] { return Cycle{200}; };
  CHECK(bench.one(bench.read(0, 32)) == 34 + 10 + 200 + 68);
  CHECK(bench.one(bench.read(0, 32)) == 102);
  CHECK(bench.one(bench.read(0, 128)) == 34 + 10 + 200 + 68);  // the other three sectors
  CHECK(bench.one(bench.read(0, 128)) == 102);
  CHECK(bench.one(bench.write(128, 128, 1)) == 102);
  CHECK(bench.one(bench.write(256, 5, 1)) == 102);  // no fetch
  CHECK(bench.one(bench.action(MemoryAction::prefetch, 512)) == 102);
  CHECK(bench.one(bench.read(512, 32)) == 102);
  CHECK(bench.one(bench.atomic(512, {0}, 1)) == 102);
  CHECK(bench.stat("requests") == 9);
  CHECK(bench.stat("hits") == 6);
  CHECK(bench.stat("fills") == 5);
  CHECK(bench.stat("atomics") == 1);
}

TEST_CASE("the data port gives two sectors per cycle", "[memory][MEM-01]") {
  L2Bench bench(roomy());
  for (std::uint64_t line = 0; line < 4; ++line) bench.one(bench.write(line * 128, 128, 1));
  CHECK(spacing(
            bench, 20, [&](std::uint32_t i) -> auto& { return bench.read(i % 4 * 128, 128); }) ==
        std::vector<Cycle>(19, 2));
  CHECK(spacing(
            bench, 20, [&](std::uint32_t i) -> auto& { return bench.read(i % 4 * 128, 64); }) ==
        std::vector<Cycle>(19, 1));
  CHECK(spacing(
            bench, 20, [&](std::uint32_t i) -> auto& { return bench.write(i % 4 * 128, 128, 2); }) ==
        std::vector<Cycle>(19, 2));
}

TEST_CASE("writes take the way into the array, while reads go on", "[memory][MEM-01]") {
  L2Params params = roomy();
  params.write_bandwidth = 32;
  L2Bench bench(params);
  for (std::uint64_t line = 0; line < 4; ++line) bench.one(bench.write(line * 128, 128, 1));
  CHECK(spacing(
            bench, 20, [&](std::uint32_t i) -> auto& { return bench.write(i % 4 * 128, 128, 2); }) ==
        std::vector<Cycle>(19, 4));
  CHECK(spacing(
            bench, 20, [&](std::uint32_t i) -> auto& { return bench.write(i % 4 * 128, 32, 2); }) ==
        std::vector<Cycle>(19, 1));
  CHECK(spacing(
            bench, 20, [&](std::uint32_t i) -> auto& { return bench.read(i % 4 * 128, 128); }) ==
        std::vector<Cycle>(19, 2));
  // In turns: a read takes the two cycles of the port that the write before it leaves.
  CHECK(spacing(
            bench, 20, [&](std::uint32_t i) -> auto& {
              return i % 2 == 0 ? bench.write(i % 4 * 128, 128, 2) : bench.read(i % 4 * 128, 128);
            }) == std::vector<Cycle>(19, 2));
}

TEST_CASE("atomics: so many values per cycle, one at a time to one address", "[memory][MEM-01]") {
  L2Bench bench(roomy());
  bench.one(bench.write(0, 128, 0));
  CHECK(spacing(
            bench, 4, [&](std::uint32_t) -> auto& { return bench.atomic(0, lanes(32, 4), 1); }) ==
        std::vector<Cycle>(3, 4));
  CHECK(spacing(
            bench, 4, [&](std::uint32_t) -> auto& { return bench.atomic(0, lanes(32, 0), 1); }) ==
        std::vector<Cycle>(3, 32));
  CHECK(bench.answers.back().old == 4 + 3 * 32);
  CHECK(spacing(
            bench, 4, [&](std::uint32_t) -> auto& { return bench.atomic(0, {4}, 1); }) == std::vector<Cycle>(3, 1));
}

TEST_CASE("a request that hits costs the slice one event", "[memory][MEM-01]") {
  L2Bench bench(roomy());
  bench.one(bench.write(0, 128, 1));
  const std::uint64_t before = bench.domain.events_executed();
  spacing(
      bench, 100, [&](std::uint32_t) -> auto& { return bench.read(0, 128); });
  CHECK(bench.domain.events_executed() - before == 200);  // one of them is the initiator's
}

TEST_CASE("wrong requests are refused and change nothing", "[memory][MEM-05]") {
  L2Bench bench(roomy());
  bench.one(bench.write(0, 128, 7));
  CHECK(bench.status_of(bench.read(L2Bench::kBytes, 32)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(bench.status_of(bench.read(~std::uint64_t{31}, 32)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(bench.status_of(bench.write(L2Bench::kBytes, 4, 1)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(bench.status_of(bench.atomic(L2Bench::kBytes, {0}, 1)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(bench.status_of(bench.action(MemoryAction::prefetch, L2Bench::kBytes)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(bench.status_of(bench.atomic(0, {2}, 1)) == tlm::TLM_BURST_ERROR_RESPONSE);
  CHECK(bench.status_of(bench.atomic(0, {128}, 1)) == tlm::TLM_BURST_ERROR_RESPONSE);
  auto& unknown = bench.atomic(0, {0}, 1);
  unknown.extension.type = arch::ValueType::u8;
  CHECK(bench.status_of(unknown) == tlm::TLM_COMMAND_ERROR_RESPONSE);
  for (const MemoryAction of_shared_memory :
       {MemoryAction::mbarrier_arrive, MemoryAction::mbarrier_expect, MemoryAction::mbarrier_complete}) {
    auto& stray = bench.atomic(0, {0}, 1);
    stray.extension.action = of_shared_memory;
    CHECK(bench.status_of(stray) == tlm::TLM_COMMAND_ERROR_RESPONSE);
  }
  auto& across = bench.write(120, 8, 1);
  across.set_data_length(9);
  across.set_streaming_width(9);
  CHECK(bench.status_of(across) == tlm::TLM_BURST_ERROR_RESPONSE);
  auto& empty = bench.write(0, 8, 1);
  empty.set_data_length(0);
  CHECK(bench.status_of(empty) == tlm::TLM_BURST_ERROR_RESPONSE);
  auto& streaming = bench.write(0, 8, 1);
  streaming.set_streaming_width(4);
  CHECK(bench.status_of(streaming) == tlm::TLM_BURST_ERROR_RESPONSE);
  auto& nothing = bench.write(0, 8, 1);
  nothing.set_data_ptr(nullptr);
  CHECK(bench.status_of(nothing) == tlm::TLM_GENERIC_ERROR_RESPONSE);
  for (std::uint64_t i = 0; i < 128; ++i) CHECK(bench.debug_byte(i) == 7);
}

TEST_CASE("a payload of another make is a plain access", "[memory][MEM-01][HST-02]") {
  L2Bench bench(roomy(), TimingMode::lt);
  std::array<std::uint8_t, 16> data{};
  data.fill(5);
  std::array<std::uint8_t, 4> enables{0xFF, 0, 0, 0xFF};  // repeated
  tlm::tlm_generic_payload payload;
  payload.set_command(tlm::TLM_WRITE_COMMAND);
  payload.set_address(120 - 16);
  payload.set_data_ptr(data.data());
  payload.set_data_length(16);
  payload.set_streaming_width(0);
  payload.set_byte_enable_ptr(enables.data());
  payload.set_byte_enable_length(4);
  payload.set_response_status(tlm::TLM_OK_RESPONSE);  // as some do
  sc_core::sc_time delay;
  bench.initiator.out.blocking(payload, delay);
  CHECK(payload.get_response_status() == tlm::TLM_OK_RESPONSE);
  CHECK(delay == bench.domain.clock().period() * 102);
  data.fill(9);
  payload.set_command(tlm::TLM_READ_COMMAND);
  payload.set_byte_enable_ptr(nullptr);
  bench.initiator.out.blocking(payload, delay);
  for (std::size_t i = 0; i < 16; ++i) CHECK(data[i] == (enables[i % 4] != 0 ? 5 : 0));
  payload.set_command(tlm::TLM_READ_COMMAND);
  data.fill(9);
  payload.set_byte_enable_ptr(enables.data());
  bench.initiator.out.blocking(payload, delay);
  for (std::size_t i = 0; i < 16; ++i) CHECK(data[i] == (enables[i % 4] != 0 ? 5 : 9));
}

TEST_CASE("a read wants the sectors that it names", "[memory][MEM-01]") {
  L2Bench bench(roomy());
  auto& request = bench.read(0, 128);
  request.extension.sectors = 0b1010;
  request.data.fill(3);
  request.acquire();
  bench.one(request);
  CHECK(bench.stat("fills") == 2);
  for (std::uint32_t i = 0; i < 128; ++i) CHECK(request.data[i] == (i / 32 % 2 == 1 ? 0 : 3));
  request.release();
}

TEST_CASE("memory's error reaches all who wait for it", "[memory][MEM-05]") {
  L2Bench bench(roomy());
  bench.memory.refused[0] = true;
  bench.memory.error = tlm::TLM_ADDRESS_ERROR_RESPONSE;
  bench.listen();
  bench.initiator.send(bench.read(0, 32), 0);
  bench.initiator.send(bench.read(0, 128), 0);
  bench.initiator.send(bench.read(32, 32), 0);
  bench.initiator.send(bench.atomic(0, {0}, 1), 0);
  run_until_idle();
  REQUIRE(bench.answers.size() == 4);
  for (const auto& answer : bench.answers) {
    CHECK(answer.status == (answer.address == 32 ? tlm::TLM_OK_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE));
  }
  bench.memory.refused[0] = false;
  CHECK(bench.status_of(bench.read(0, 32)) == tlm::TLM_OK_RESPONSE);
}

TEST_CASE("memory's silence about a status is an error too", "[memory][MEM-05]") {
  L2Bench bench(roomy());
  bench.memory.refused[0] = true;
  bench.memory.error = tlm::TLM_INCOMPLETE_RESPONSE;
  CHECK(bench.status_of(bench.read(0, 32)) == tlm::TLM_GENERIC_ERROR_RESPONSE);
}

TEST_CASE("a refused write-back is counted and told to who asked for it", "[memory][MEM-05][MEM-06]") {
  for (const bool blocking : {false, true}) {
    CAPTURE(blocking);
    L2Bench bench(roomy(), blocking ? TimingMode::lt : TimingMode::at);
    const auto status = [&](protocol::MemoryRequest& request) {
      if (!blocking) return bench.status_of(request);
      sc_core::sc_time delay;
      bench.initiator.out.blocking(request, delay);
      const auto result = request.get_response_status();
      request.release();
      return result;
    };
    status(bench.write(0, 32, 1));
    status(bench.write(128, 32, 2));
    bench.memory.refused[0] = true;
    CHECK(status(bench.action(MemoryAction::write_back, 0)) == tlm::TLM_GENERIC_ERROR_RESPONSE);
    CHECK(bench.stat("write_errors") == 1);
    CHECK(bench.memory.bytes[128] == 2);
    CHECK(status(bench.action(MemoryAction::write_back, 0)) == tlm::TLM_OK_RESPONSE);
  }
}

TEST_CASE("a debugger sees and changes the newest bytes", "[memory][SM-04]") {
  L2Bench bench(roomy());
  bench.one(bench.write(5, 3, 8));
  CHECK(bench.memory.bytes[5] == 0);
  CHECK(bench.debug_byte(5) == 8);
  CHECK(bench.debug_byte(8) == 0);
  auto& poke = bench.write(6, 4, 1);
  CHECK(bench.initiator.out.debug(poke) == 4);
  poke.release();
  CHECK(bench.memory.bytes[9] == 1);
  CHECK(bench.status_of(bench.read(6, 1)) == tlm::TLM_OK_RESPONSE);
  CHECK(bench.answers.back().first == 1);
  auto& outside = bench.read(L2Bench::kBytes, 4);
  CHECK(bench.initiator.out.debug(outside) == 0);
  outside.release();
  auto& longer = bench.read(100, 28);
  longer.set_data_length(100);
  CHECK(bench.initiator.out.debug(longer) == 28);  // the rest is another line
  longer.release();
  bench.one(bench.action(MemoryAction::write_back, 0));
  CHECK(bench.memory.bytes[5] == 8);
  CHECK(bench.memory.bytes[6] == 1);
}

TEST_CASE("a full queue withholds, and a slice that waits says for whom", "[memory][MEM-01]") {
  L2Bench bench(tiny_l2());  // 3 lines at the memory, 4 requests in the queue
  bench.memory.latency = [] { return Cycle{100'000}; };
  for (std::uint64_t line = 0; line < 12; ++line) bench.initiator.send(bench.read(line * 128, 32), 0);
  run_until(sc_core::sc_time(1000, sc_core::SC_NS));
  CHECK(bench.initiator.waiting() == 12 - 3 - 4);
  CHECK(bench.slice.request_in.withholding());
  WaitGraph graph;
  bench.slice.collect_waits(graph);
  REQUIRE(!graph.empty());
  CHECK(graph.chain().front().find("for a miss-status register") != std::string::npos);
  bench.listen();
  run_until_idle();
  CHECK(bench.answers.size() == 12);
  CHECK(bench.stat("stalls") > 90'000);
  WaitGraph after;
  bench.slice.collect_waits(after);
  CHECK(after.empty());
}

TEST_CASE("responses that nobody takes stop the slice", "[memory][MEM-01]") {
  L2Params params = tiny_l2();
  params.data_latency = 0;  // else as many again are in the pipeline
  L2Bench bench(params);
  bench.one(bench.write(0, 128, 1));
  bench.initiator.hold = [](protocol::MemoryRequest&) { return Cycle{5000}; };
  for (int i = 0; i < 12; ++i) bench.initiator.send(bench.read(0, 32), bench.domain.now());
  run_until(sc_core::sc_time_stamp() + sc_core::sc_time(1000, sc_core::SC_NS));
  CHECK(bench.initiator.waiting() == 12 - 1 - 2 - 4);  // one held there, two here, four in the queue
  WaitGraph graph;
  bench.slice.collect_waits(graph);
  CHECK(graph.chain().front().find("the crossbar") != std::string::npos);
  run_until_idle();
  CHECK(bench.answers.size() == 1 + 12);
}

TEST_CASE("a memory from elsewhere works, and its answers after a reset do no harm", "[memory][MEM-01][MEM-02]") {
  SimFixture fixture;
  GpuObservation observation{"gpu0"};
  Domain domain("domain", 1.0, TimingMode::at, 1000, observation);
  const arch::AddressMap map(8192, 1, 1);
  protocol::RequestPool pool;
  L2Slice slice("slice", domain, "l2", roomy(), map, 0);
  TestInitiator initiator("initiator", domain);
  PlainMemory memory("memory", 8192, sc_core::sc_time(300, sc_core::SC_NS), 1);
  initiator.out.bind(slice.request_in);
  slice.memory_out.bind(memory.socket(0));
  start();
  for (std::size_t i = 0; i < memory.bytes.size(); ++i) memory.bytes[i] = static_cast<std::uint8_t>(i / 128);

  std::vector<std::pair<std::uint64_t, std::uint8_t>> answers;
  initiator.on_response = [&](protocol::MemoryRequest& request, Cycle) {
    CHECK(request.is_response_ok());
    answers.emplace_back(request.get_address(), request.data[0]);
  };
  const auto read = [&](std::uint64_t line) {
    auto& request = pool.acquire();
    request.aim(tlm::TLM_READ_COMMAND, line * 128, 32);
    initiator.send(request, domain.now());
  };
  for (std::uint64_t line = 0; line < 3; ++line) read(line);
  run_until(sc_core::sc_time(100, sc_core::SC_NS));
  domain.reset();  // the memory goes on
  memory.bytes[0] = 99;
  read(3);
  read(0);
  run_until_idle();
  CHECK(answers == std::vector<std::pair<std::uint64_t, std::uint8_t>>{{3 * 128, 3}, {0, 99}});
  CHECK(memory.unknown_commands == 0);
}

}  // namespace heddle::test::memory_l2_slice_test
