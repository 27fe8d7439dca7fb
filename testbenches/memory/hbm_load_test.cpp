// How much the memory gives, and to whom.
#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/hbm_bench.h"

namespace memory_hbm_load_test {

namespace {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::memory::HbmParams;
using heddle::memory::HbmStandard;
using heddle::test::HbmBench;
using heddle::test::HbmJob;
using heddle::test::read_lines;
using heddle::test::small_hbm;

constexpr std::uint64_t kBytes = 300'000;

}  // namespace

TEST_CASE("the parts of the presets have the peaks of their data sheets", "[memory][MEM-02]") {
  const auto peak = [](HbmStandard standard, std::uint32_t channels, double rate) {
    HbmParams params;
    params.standard = standard;
    params.channels = channels;
    params.pin_rate = rate;
    HbmBench bench(params, kBytes, 1, TimingMode::at, 1.755);
    return bench.hbm.peak() / 1e12;
  };
  CHECK(peak(HbmStandard::hbm3, 160, 5.234) == Approx(3.35).epsilon(0.002));
  CHECK(peak(HbmStandard::hbm3e, 192, 6.25) == Approx(4.8).epsilon(0.002));
  CHECK(peak(HbmStandard::hbm2e, 80, 2.43) == Approx(1.555).epsilon(0.002));
}

TEST_CASE("a stream through the sockets reaches what the channels give", "[memory][MEM-02]") {
  HbmBench bench(small_hbm(), 1 << 26, 4);
  for (std::uint32_t port = 0; port < 4; ++port)
    read_lines(bench[port], 6000, [port](std::uint32_t i) { return (i * 4 + port) * 128; });
  Cycle last = 0;
  for (auto& initiator : bench.initiators)
    initiator->done = [&last](HbmJob& job) { last = std::max(last, job.answered); };
  bench.run();
  const double rate = 24'000 * 128 / (static_cast<double>(last) * 1e-9);
  CHECK(rate / bench.hbm.peak() > 0.87);
  CHECK(rate / bench.hbm.peak() < 0.92);
  CHECK(bench.stat("row_hits") > 0.9 * 48'000);
  CHECK(bench.stat("read_bytes") == 24'000 * 128);
  // Whole lines: an event or two per 64-byte access.
  CHECK(bench.domain.events_executed() < 48'000 * 3);
}

TEST_CASE("a hot channel saturates alone", "[memory][MEM-02]") {
  // Two ports hammer one channel, row after row; two others read all over the rest.
  const auto cool_time = [](bool heat) {
    HbmParams params = small_hbm();
    params.channels = 8;
    HbmBench bench(params, 1 << 28, 4);
    std::vector<std::uint64_t> hot;
    std::vector<std::uint64_t> cool;
    for (std::uint64_t line = 0; cool.size() < 8000; ++line) {
      const bool is_hot = bench.hbm.map().decode(line * 128).channel == 0;
      (is_hot ? hot : cool).push_back(line * 128);
    }
    Cycle last_cool = 0;
    Cycle last_hot = 0;
    std::uint32_t hot_answers = 0;
    for (std::uint32_t port = 0; port < 4; ++port) {
      const bool is_hot = port < 2;
      if (is_hot && !heat) continue;
      read_lines(bench[port], is_hot ? 1500 : 4000, [is_hot, port, hot, cool](std::uint32_t i) {
        return is_hot ? hot[(i * 2 + port) % hot.size()] : cool[i * 2 + port - 2];
      });
      bench[port].done = [&, is_hot](HbmJob& job) {
        hot_answers += is_hot ? 1 : 0;
        Cycle& last = is_hot ? last_hot : last_cool;
        last = std::max(last, job.answered);
      };
    }
    bench.run();
    if (heat) {
      CHECK(hot_answers == 3000);
      const double rate = 3000 * 128 / (static_cast<double>(last_hot) * 1e-9);
      CHECK(rate / (bench.hbm.peak() / 8) > 0.85);
      CHECK(rate / (bench.hbm.peak() / 8) < 0.92);
      CHECK(bench.hbm.sectors_of(0) == 3000 * 4);
    }
    return static_cast<double>(last_cool);
  };
  CHECK(cool_time(true) < 1.05 * cool_time(false));
}

TEST_CASE("power-of-two strides reach most of the bandwidth", "[memory][MEM-02]") {
  for (const std::uint32_t shift : {10U, 12U, 16U, 20U}) {
    CAPTURE(shift);
    HbmParams params = small_hbm();
    params.channels = 10;
    HbmBench bench(params, std::uint64_t{1} << 40, 4);
    Cycle last = 0;
    for (std::uint32_t port = 0; port < 4; ++port) {
      read_lines(bench[port], 3000, [port, shift](std::uint32_t i) { return std::uint64_t{i * 4 + port} << shift; });
      bench[port].done = [&last](HbmJob& job) { last = std::max(last, job.answered); };
    }
    bench.run();
    CHECK(12'000 * 128 / (static_cast<double>(last) * 1e-9) / bench.hbm.peak() > 0.6);
  }
}

TEST_CASE("an idle memory costs nothing, though it has to be refreshed", "[memory][MEM-02]") {
  HbmBench bench(small_hbm(), kBytes, 1);
  read_lines(bench[0], 10, [](std::uint32_t i) { return i * 128; });
  bench.run();
  const std::uint64_t events = bench.domain.events_executed();
  heddle::test::run_until(sc_core::sc_time(5, sc_core::SC_MS));
  CHECK(bench.domain.events_executed() == events);
  const double before = bench.stat("refreshes");
  read_lines(bench[0], 32, [](std::uint32_t i) { return i * 1024; });
  bench.run();
  // 5 ms hold 1282 intervals, for each of four channels.
  CHECK(bench.stat("refreshes") - before == Approx(4 * 1282).margin(8));
}

}  // namespace memory_hbm_load_test
