// Time of a platform: its quantum and its resolution change when things happen, never what is in memory.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/embed_host.h"
#include "support/sim_fixture.h"

namespace embed_time_test {

using namespace heddle::test;
using heddle::Timing;
using sc_core::sc_time;

namespace {

constexpr const char* kKernels = R"(heddle: 1
name: kernels
memory:
  - {name: numbers, bytes: 4096, init: {pattern: i, type: u32}}
kernels:
  - name: triple
    grid: 4
    block: 256
    program:
      - let: {i: cta.x * block.x + thread.x}
      - load: {to: n, type: u32, at: numbers + 4 * i}
      - store: {value: 3 * n + 1, type: u32, at: numbers + 4 * i}
submit:
  - {kernel: triple, stream: s}
)";

struct Outcome {
  std::vector<std::uint32_t> numbers = std::vector<std::uint32_t>(1024);
  sc_time end;              // of the software
  sc_time furthest;         // ahead of the simulation
  std::uint64_t picos = 0;  // CLOCK_PERIOD
};

// Three launches; before each, software changes 16 words by one access each.
Outcome run(Timing timing, const std::string& preset = "small") {
  heddle::GpuOptions options;
  options.preset = preset;
  options.timing = timing;
  heddle::Gpu gpu("gpu0", options);
  const heddle::Contents contents = gpu.load(write_file("time.yaml", kKernels));
  Outcome outcome;
  bool done = false;
  Host host("host", gpu, [&](Host& h) {
    h.open();
    const heddle::Kernel& triple = contents.kernel("triple");
    for (std::uint32_t launch = 0; launch < 3; ++launch) {
      for (std::uint32_t i = 0; i < 16; ++i) {
        const std::uint64_t at = contents.region("numbers").address + 64 * i;
        std::uint32_t word = 0;
        REQUIRE(h.bus.load(h.bus.context, at, &word, 4));
        word += launch + i;
        REQUIRE(h.bus.store(h.bus.context, at, &word, 4));
        outcome.furthest = std::max(outcome.furthest, h.tlm.ahead());
      }
      REQUIRE(h.launch(triple, triple.object) == 0);
    }
    h.tlm.synchronise();
    CHECK(h.tlm.ahead() == sc_core::SC_ZERO_TIME);
    outcome.end = sc_core::sc_time_stamp();
    done = true;
    sc_core::sc_stop();
  });
  sc_core::sc_start();
  REQUIRE(done);
  REQUIRE(gpu.read_memory(contents.region("numbers").address, outcome.numbers.data(), 4096));
  outcome.picos = gpu.read_register("CLOCK_PERIOD");
  return outcome;
}

std::vector<std::uint32_t> expected() {
  std::vector<std::uint32_t> numbers(1024);
  for (std::uint32_t i = 0; i < 1024; ++i) numbers[i] = i;
  for (std::uint32_t launch = 0; launch < 3; ++launch) {
    for (std::uint32_t i = 0; i < 16; ++i) numbers[16 * i] += launch + i;
    for (std::uint32_t& n : numbers) n = 3 * n + 1;
  }
  return numbers;
}

struct Quantum {
  Quantum(double value, sc_core::sc_time_unit unit) { tlm::tlm_global_quantum::instance().set(sc_time(value, unit)); }
  ~Quantum() { tlm::tlm_global_quantum::instance().set(sc_core::SC_ZERO_TIME); }
};

}  // namespace

TEST_CASE("with a quantum software runs ahead of the device: same memory, stated times", "[embed][HST-04]") {
  struct Row {
    double microseconds;
    Timing timing;
    double end;  // nanoseconds
  };
  const std::vector<Row> rows = {
      {0, Timing::at, 66'700}, {1, Timing::at, 66'700}, {100, Timing::at, 66'700}, {1000, Timing::at, 66'700},
      {0, Timing::lt, 59'300}, {1, Timing::lt, 60'400}, {100, Timing::lt, 60'400}, {1000, Timing::lt, 60'400},
  };
  for (const Row& row : rows) {
    CAPTURE(row.microseconds, static_cast<int>(row.timing));
    SimFixture sim;
    const Quantum quantum(row.microseconds, sc_core::SC_US);
    const Outcome outcome = run(row.timing);
    CHECK(outcome.numbers == expected());
    CHECK(outcome.furthest <= sc_time(row.microseconds, sc_core::SC_US));
    CHECK((outcome.furthest > sc_core::SC_ZERO_TIME) == (row.microseconds > 0));
    CHECK(outcome.end.to_seconds() * 1e9 == Approx(row.end).epsilon(1e-9));
  }
}

TEST_CASE("a time resolution from 1 ps to 1 ns changes clocks, which is reported, and no memory", "[embed][HST-04]") {
  struct Row {
    double picoseconds;
    const char* preset;
    std::uint64_t period;  // picoseconds
    bool astray;           // by more than 5 %
  };
  const std::vector<Row> rows = {
      {1, "small", 1000, false},    {10, "small", 1000, false},     {100, "small", 1000, false},
      {1000, "small", 1000, false}, {1, "h100-sxm", 570, false},    {10, "h100-sxm", 570, false},
      {100, "h100-sxm", 600, true}, {1000, "h100-sxm", 1000, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.picoseconds, row.preset);
    SimFixture sim;
    const Reports reports("/heddle/clock");
    sc_core::sc_set_time_resolution(row.picoseconds, sc_core::SC_PS);
    const Outcome outcome = run(Timing::lt, row.preset);
    CHECK(outcome.numbers == expected());
    CHECK(outcome.picos == row.period);
    const std::vector<std::string> said = reports.of("/heddle/clock");
    REQUIRE(said.size() == (row.astray ? 1 : 0));
    if (row.astray) CHECK_THAT(said[0], Catch::StartsWith("warning: H100 SXM: a clock of 1.755 GHz is simulated as"));
  }
}

}  // namespace embed_time_test
