#include "memory/hbm.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "memory/hbm_bench.h"
#include "memory/hbm_oracle.h"
#include "memory/plain_memory.h"

namespace memory_hbm_test {

namespace {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::memory::Hbm;
using heddle::memory::HbmParams;
using heddle::memory::HbmRefresh;
using heddle::memory::HbmStandard;
using heddle::memory::table_of;
using heddle::test::HbmBench;
using heddle::test::HbmInitiator;
using heddle::test::HbmJob;
using heddle::test::HbmOracle;
using heddle::test::Random;
using heddle::test::read_lines;
using heddle::test::small_hbm;

constexpr std::uint64_t kBytes = 300'000;

}  // namespace

TEST_CASE("random traffic of several ports finds and leaves the right bytes", "[memory][MEM-02][SM-04][MEM-05]") {
  for (const std::uint64_t seed : heddle::test::seeds(4)) {
    CAPTURE(seed);
    HbmOracle oracle(kBytes, seed);
    HbmParams params = small_hbm();
    params.port_requests = 1 + static_cast<std::uint32_t>(seed % 3) * 6;
    params.read_queue = 4;
    params.write_queue = 6;
    params.write_high = 4;
    params.write_low = 2;
    HbmBench bench(params, kBytes, 3);
    std::uint32_t left = 6000;
    for (auto& initiator : bench.initiators) {
      initiator->refuse_percent = 20;
      initiator->next = [&]() -> std::optional<HbmJob> {
        if (left == 0) return std::nullopt;
        auto job = oracle.next();
        if (job) --left;
        return job;
      };
      initiator->done = [&oracle](HbmJob& job) { oracle.done(job); };
    }
    bench.run();
    CHECK(oracle.answered == 6000);
    CHECK(oracle.errors > 0);
    CHECK(bench[0].refused > 100);
    CHECK(bench[0].withheld > 0);
    std::vector<std::uint8_t> all(kBytes);
    bench.hbm.storage().read(0, all.data(), kBytes);
    CHECK(all == oracle.flat);
  }
}

TEST_CASE("blocking transport serves the same traffic", "[memory][MEM-02][HST-03]") {
  for (const TimingMode mode : {TimingMode::lt, TimingMode::at}) {
    HbmOracle oracle(kBytes, 7);
    HbmBench bench(small_hbm(), kBytes, 2, mode);
    heddle::test::start();
    for (int i = 0; i < 5000; ++i) {
      std::optional<HbmJob> job = oracle.next();
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      bench[static_cast<std::size_t>(i % 2)].blocking(*job, delay);
      CHECK(delay > sc_core::SC_ZERO_TIME);
      oracle.done(*job);
    }
    std::vector<std::uint8_t> all(kBytes);
    bench.hbm.storage().read(0, all.data(), kBytes);
    CHECK(all == oracle.flat);
    CHECK(bench.domain.idle());
  }
}

TEST_CASE("an unloaded read takes the same time in both modes", "[memory][MEM-02][HST-03]") {
  HbmParams params = small_hbm();
  params.refresh = HbmRefresh::off;
  HbmBench bench(params, kBytes, 1);
  HbmJob read;
  read.data.resize(64);
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  Cycle taken = 0;
  bench[0].next = [&, sent = false]() mutable -> std::optional<HbmJob> {
    if (sent) return std::nullopt;
    sent = true;
    return read;
  };
  bench[0].done = [&taken](HbmJob& job) { taken = job.answered - job.sent; };
  bench.run();
  const auto& t = table_of(params.standard);
  const double data = 64 * 8 / (t.pins * params.pin_rate);
  CHECK(static_cast<double>(taken) ==
        Approx(params.request_latency + t.rcd + t.cl + data + params.response_latency).margin(1));
  bench[0].blocking(read, delay);
  CHECK(delay / sc_core::sc_time(1, sc_core::SC_NS) == Approx(static_cast<double>(taken)).margin(1));
  CHECK(bench.stat("read_latency.mean") == Approx(static_cast<double>(taken)));
}

TEST_CASE("what cannot be done is answered with an error, and the rest goes on", "[memory][MEM-05]") {
  HbmBench bench(small_hbm(), kBytes, 1);
  struct Case {
    tlm::tlm_command command;
    std::uint64_t address;
    std::uint32_t length;
    tlm::tlm_response_status status;
  };
  const std::vector<Case> cases{
      {tlm::TLM_READ_COMMAND, kBytes - 128, 128, tlm::TLM_OK_RESPONSE},
      {tlm::TLM_READ_COMMAND, kBytes - 127, 128, tlm::TLM_ADDRESS_ERROR_RESPONSE},
      {tlm::TLM_WRITE_COMMAND, kBytes, 1, tlm::TLM_ADDRESS_ERROR_RESPONSE},
      {tlm::TLM_WRITE_COMMAND, ~std::uint64_t{0} - 31, 64, tlm::TLM_ADDRESS_ERROR_RESPONSE},
      {tlm::TLM_IGNORE_COMMAND, 0, 32, tlm::TLM_COMMAND_ERROR_RESPONSE},
      {tlm::TLM_READ_COMMAND, 0, 0, tlm::TLM_BURST_ERROR_RESPONSE},
      {tlm::TLM_WRITE_COMMAND, 0, 1, tlm::TLM_OK_RESPONSE},
  };
  std::size_t sent = 0;
  std::vector<tlm::tlm_response_status> answers(cases.size(), tlm::TLM_INCOMPLETE_RESPONSE);
  bench[0].limit = 1;
  bench[0].next = [&]() -> std::optional<HbmJob> {
    if (sent == cases.size()) return std::nullopt;
    HbmJob job;
    job.command = cases[sent].command;
    job.address = cases[sent].address;
    job.data.resize(cases[sent].length);
    ++sent;
    return job;
  };
  bench[0].done = [&](HbmJob& job) { answers[sent - 1] = job.status; };
  bench.run();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    CHECK(answers[i] == cases[i].status);
    HbmJob job;
    job.command = cases[i].command;
    job.address = cases[i].address;
    job.data.resize(cases[i].length);
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    bench[0].blocking(job, delay);
    CHECK(job.status == cases[i].status);
  }
  CHECK(bench.stat("errors") == 10);
}

TEST_CASE("one request may be as long as the memory, and disabled bytes cost nothing", "[memory][MEM-02]") {
  HbmBench bench(small_hbm(), kBytes, 1);
  std::uint32_t stage = 0;
  bench[0].limit = 1;
  bench[0].next = [&]() -> std::optional<HbmJob> {
    HbmJob job;
    job.command = stage == 1 ? tlm::TLM_READ_COMMAND : tlm::TLM_WRITE_COMMAND;
    job.data.assign(kBytes, 0x3C);
    if (stage == 2) job.enables.assign(1, 0);
    if (stage++ > 2) return std::nullopt;
    return job;
  };
  std::vector<HbmJob> answers;
  bench[0].done = [&](HbmJob& job) { answers.push_back(job); };
  bench.run();
  REQUIRE(answers.size() == 3);
  for (const HbmJob& job : answers) CHECK(job.status == tlm::TLM_OK_RESPONSE);
  CHECK(answers[1].data == std::vector<std::uint8_t>(kBytes, 0x3C));
  const double ns = static_cast<double>(answers[1].answered - answers[1].sent);
  CHECK(static_cast<double>(kBytes) / ns * 1e9 > 0.8 * bench.hbm.peak());
  CHECK(answers[2].answered - answers[2].sent == 80);  // to the controller and back
}

TEST_CASE("the debug transport reads and writes any length without time", "[memory][MEM-02]") {
  HbmBench bench(small_hbm(), kBytes, 2);
  heddle::test::start();
  std::vector<std::uint8_t> bytes(kBytes, 9);
  tlm::tlm_generic_payload payload;
  const auto debug = [&](tlm::tlm_command command, std::uint64_t address, unsigned length) {
    payload.set_command(command);
    payload.set_address(address);
    payload.set_data_ptr(bytes.data());
    payload.set_data_length(length);
    return bench[1].out.debug(payload);
  };
  CHECK(debug(tlm::TLM_WRITE_COMMAND, 0, kBytes) == kBytes);
  std::fill(bytes.begin(), bytes.end(), std::uint8_t{0});
  CHECK(debug(tlm::TLM_READ_COMMAND, 100, kBytes) == kBytes - 100);
  CHECK(std::count(bytes.begin(), bytes.end(), 9) == kBytes - 100);
  CHECK(debug(tlm::TLM_READ_COMMAND, kBytes, 4) == 0);
  CHECK(debug(tlm::TLM_IGNORE_COMMAND, 0, 4) == 0);
  CHECK(bench.domain.idle());
}

TEST_CASE("a reset in mid-flight drops what is open and keeps the bytes", "[memory][MEM-02]") {
  std::vector<Cycle> first;
  HbmBench bench(small_hbm(), 1 << 20, 2);
  bench.hbm.storage().fill(0, 0x77, 1 << 20);
  for (int round = 0; round < 3; ++round) {
    std::vector<Cycle> latencies;
    std::uint32_t answers = 0;
    for (std::uint32_t port = 0; port < 2; ++port) {
      bench[port].random = Random(port + 5);
      bench[port].refuse_percent = 10;
      read_lines(
          bench[port], 500, [port](std::uint32_t i) { return (i * 37 % 4000 * 2 + port) * 128; }, port == 1);
      bench[port].done = [&, port](HbmJob& job) {
        ++answers;
        latencies.push_back(job.answered - job.sent);
        CHECK((port == 1 || job.data[5] == 0x77 || job.data[5] == 0));
      };
    }
    heddle::test::start();
    for (auto& initiator : bench.initiators) initiator->begin();
    if (round == 1) {
      heddle::test::run_until(sc_core::sc_time_stamp() + sc_core::sc_time(700, sc_core::SC_NS));
      REQUIRE(answers < 900);
      REQUIRE(bench[0].open() > 0);
    } else {
      heddle::test::run_until_idle();
      CHECK(answers == 1000);
      if (round == 0) first = latencies;
      if (round == 2) CHECK((latencies == first));  // nothing is left of the rounds before
    }
    bench.domain.reset();
    CHECK(bench[0].open() == 0);
  }
  std::uint8_t byte = 0;
  bench.hbm.storage().read((1 << 20) - 1, &byte, 1);
  CHECK(byte == 0x77);
}

TEST_CASE("requests that are kept waiting say for what", "[memory][MEM-02]") {
  HbmParams params = small_hbm();
  params.port_requests = 3;
  HbmBench bench(params, kBytes, 1);
  read_lines(bench[0], 50, [](std::uint32_t i) { return i * 128; });
  heddle::test::start();
  bench[0].begin();
  heddle::test::run_until(sc_core::sc_time(30, sc_core::SC_NS));
  CHECK(bench[0].open() == 3);
  heddle::WaitGraph graph;
  bench.domain.collect_waits(graph);
  REQUIRE(graph.size() == 1);
  CHECK(graph.chain().at(0).find("all its 3 places for requests are taken") != std::string::npos);
}

TEST_CASE("parameters that do not fit each other are refused", "[memory][MEM-02]") {
  const auto failure = [](void (*change)(HbmParams&)) {
    HbmParams params;
    change(params);
    return heddle::test::failure_of([&params] { params.check(); });
  };
  CHECK(failure([](HbmParams&) {}).empty());
  CHECK(failure([](HbmParams& p) { p.interleave = 384; }).find("interleave") != std::string::npos);
  CHECK(failure([](HbmParams& p) { p.access_bytes = 96; }).find("access_bytes") != std::string::npos);
  CHECK(failure([](HbmParams& p) { p.write_low = p.write_high; }).find("write_low") != std::string::npos);
  CHECK(failure([](HbmParams& p) { p.write_queue = 20; }).find("write_queue") != std::string::npos);
}

TEST_CASE("a plain memory can stand in the HBM's place", "[memory][MEM-02]") {
  for (const std::uint32_t refuse : {0U, 20U}) {
    heddle::test::SimFixture simulation;
    heddle::GpuObservation observation("gpu0");
    heddle::Domain domain("domain", 1.0, TimingMode::at, 1000, observation);
    heddle::test::PlainMemory memory("memory", kBytes, sc_core::sc_time(100, sc_core::SC_NS), 2);
    HbmOracle oracle(kBytes, 3);
    std::vector<std::unique_ptr<HbmInitiator>> initiators;
    std::uint32_t left = 2000;
    for (std::uint32_t port = 0; port < 2; ++port) {
      initiators.push_back(std::make_unique<HbmInitiator>(("initiator" + std::to_string(port)).c_str(), domain));
      HbmInitiator& initiator = *initiators.back();
      initiator.out.bind(memory.socket(port));
      initiator.refuse_percent = refuse;
      initiator.next = [&]() -> std::optional<HbmJob> {
        std::optional<HbmJob> job = left == 0 ? std::nullopt : oracle.next();
        if (job) --left;
        if (job && job->width != 0) job->width = static_cast<std::uint32_t>(job->data.size());
        return job;
      };
      initiator.done = [&oracle](HbmJob& job) { oracle.done(job); };
    }
    heddle::test::start();
    for (auto& initiator : initiators) initiator->begin();
    heddle::test::run_until_idle();
    CHECK(oracle.answered == 2000);
    CHECK(memory.transactions == 2000);
    CHECK(memory.bytes == oracle.flat);
  }
}

}  // namespace memory_hbm_test
