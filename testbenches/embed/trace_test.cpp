// Signals of a device in a trace file of the platform's (HST-08).
#include <algorithm>
#include <cmath>
#include <fstream>
#include <heddle/gpu.h>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/embed_host.h"
#include "support/sim_fixture.h"

namespace embed_trace_test {

using namespace heddle::test;

namespace {

constexpr const char* kKernels = R"(heddle: 1
name: kernels
kernels:
  - {name: long, grid: 6, block: 64, cycles: 20000}
  - {name: endless, grid: 2, block: 32, cycles: 100000000}
submit:
  - {kernel: long, stream: s}
  - {kernel: endless, stream: s}
)";

// The changes of each signal in a VCD file: time in its own units, and value.
using Changes = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
std::map<std::string, Changes> read_vcd(const std::string& path) {
  std::ifstream in(path);
  std::map<std::string, std::string> names;  // by identifier
  std::map<std::string, Changes> changes;
  std::uint64_t now = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "$var") {
      std::string kind;
      std::string width;
      std::string id;
      std::string name;
      words >> kind >> width >> id >> name;
      names[id] = name.substr(name.rfind('.') + 1);
    } else if (first.size() > 1 && first[0] == '#') {
      now = std::stoull(first.substr(1));
    } else if (first.size() > 1 && first[0] == 'b') {
      std::string id;
      words >> id;
      changes[names.at(id)].emplace_back(now, std::stoull(first.substr(1), nullptr, 2));
    } else if (first.size() > 1 && (first[0] == '0' || first[0] == '1') && names.count(first.substr(1)) > 0) {
      changes[names.at(first.substr(1))].emplace_back(now, first[0] - '0');
    }
  }
  return changes;
}

std::uint64_t last(const Changes& changes) { return changes.empty() ? 0 : changes.back().second; }
std::uint64_t most(const Changes& changes) {
  std::uint64_t value = 0;
  for (const auto& change : changes) value = std::max(value, change.second);
  return value;
}

struct Outcome {
  std::string statistics;
  std::uint64_t ended = 0;  // ps
};

// Two kernels one after the other, then one that a reset ends.
Outcome run(heddle::Timing timing, const std::string& vcd) {
  SimFixture sim;
  heddle::GpuOptions options = small();
  options.timing = timing;
  heddle::Gpu gpu("gpu0", options);
  const heddle::Contents contents = gpu.load(write_file("trace.yaml", kKernels));
  sc_core::sc_trace_file* file = nullptr;
  if (!vcd.empty()) {
    file = sc_core::sc_create_vcd_trace_file(vcd.c_str());
    gpu.trace(file);
    CHECK_THAT(failure_of([&] { gpu.trace(file); }), Catch::Contains("call trace() once"));
  }
  Outcome outcome;
  Host host("host", gpu, [&](Host& h) {
    h.open();
    const heddle::Kernel& kernel = contents.kernel("long");
    REQUIRE(h.launch(kernel, kernel.object) == 0);
    REQUIRE(h.launch(kernel, kernel.object) == 0);
    sc_core::wait(20, sc_core::SC_US);
    for (const heddle::Statistic& one : gpu.statistics()) outcome.statistics += one.path + std::to_string(one.value);
    outcome.ended = sc_core::sc_time_stamp().value();
    sc_core::sc_stop();
  });
  sc_core::sc_start();
  if (file != nullptr) sc_core::sc_close_vcd_trace_file(file);
  return outcome;
}

}  // namespace

TEST_CASE("a platform's trace file shows what the device does, at its times", "[embed][HST-08]") {
  const heddle::Timing timing = GENERATE(heddle::Timing::at, heddle::Timing::fast, heddle::Timing::lt);
  const Outcome plain = run(timing, "");
  const Outcome traced = run(timing, scratch().file("trace"));
  CHECK(plain.statistics == traced.statistics);
  CHECK(plain.ended == traced.ended);
  std::map<std::string, Changes> signals = read_vcd(scratch().file("trace.vcd"));
  for (const char* name : {"irq", "busy", "kernels", "packets", "ctas", "hbm_bytes"}) {
    INFO(name);
    CHECK(signals.count(name) == 1);
  }
  CHECK(last(signals["packets"]) == 2);
  CHECK(last(signals["ctas"]) == 0);
  CHECK(most(signals["ctas"]) == 6);
  CHECK(most(signals["kernels"]) == 1);
  CHECK(last(signals["hbm_bytes"]) > 0);
  // Twice busy, for as long as a kernel's CTAs run: 20,000 cycles of 1 ns, and what their starts are apart.
  const Changes& busy = signals["busy"];
  std::vector<std::uint64_t> rises;
  for (std::size_t i = 1; i < busy.size(); ++i) {
    CHECK(busy[i].second != busy[i - 1].second);
    if (busy[i].second == 0) CHECK(std::abs(static_cast<double>(busy[i].first - busy[i - 1].first) - 20e6) < 0.4e6);
    if (busy[i].second == 1) rises.push_back(busy[i].first);
  }
  REQUIRE(rises.size() == 2);
  CHECK(rises[1] < traced.ended);
}

TEST_CASE("a reset is seen in the trace file, and a device is traced before it runs", "[embed][HST-08]") {
  {
    SimFixture sim;
    heddle::Gpu gpu("gpu0", small());
    heddle::Gpu late("late", small());
    const heddle::Contents contents = gpu.load(write_file("trace.yaml", kKernels));
    sc_core::sc_trace_file* file = sc_core::sc_create_vcd_trace_file(scratch().file("reset").c_str());
    gpu.trace(file);
    Host host("host", gpu, [&](Host& h) {
      h.open();
      heddle_dispatch dispatch{};
      dispatch.setup = 1;
      dispatch.workgroup[0] = 32;
      dispatch.grid[0] = 64;
      dispatch.workgroup[1] = dispatch.workgroup[2] = 1;
      dispatch.grid[1] = dispatch.grid[2] = 1;
      dispatch.kernel_object = contents.kernel("endless").object;
      heddle_packet packet;
      heddle_packet_kernel(&packet, &dispatch);
      REQUIRE(heddle_queue_submit(&h.queue, &packet, 1, 1000, nullptr) == HEDDLE_OK);
      sc_core::wait(20, sc_core::SC_US);
      gpu.reset();
      sc_core::wait(20, sc_core::SC_US);
      CHECK_THAT(failure_of([&] { late.trace(file); }), Catch::Contains("before sc_start()"));
      sc_core::sc_stop();
    });
    sc_core::sc_start();
    sc_core::sc_close_vcd_trace_file(file);
  }
  std::map<std::string, Changes> signals = read_vcd(scratch().file("reset.vcd"));
  CHECK(most(signals["ctas"]) == 2);
  REQUIRE(last(signals["ctas"]) == 0);
  CHECK(last(signals["busy"]) == 0);
  CHECK(signals["ctas"].back().first > 20'000'000);
}

}  // namespace embed_trace_test
