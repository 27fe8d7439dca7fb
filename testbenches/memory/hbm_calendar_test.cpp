// A channel of memory as calendars, beside the channel whose commands are decided one by one.
#include "memory/hbm_calendar.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/hbm_channel_bench.h"
#include "support/random.h"

namespace heddle::test::memory_hbm_calendar_test {
namespace {

using memory::HbmCalendar;
using memory::HbmMap;
using memory::HbmParams;
using memory::HbmRefresh;
using memory::HbmTick;
using memory::kTicksPerCycle;
using Request = HbmChannelBench::Request;

constexpr double kCycle = 0.57;  // ns

// Whole lines.
Request whole(std::uint64_t cycle, bool write, const memory::DecodedAddress& place, std::uint32_t tag) {
  Request request;
  request.cycle = cycle;
  request.write = write;
  request.access = {place.line, place.row, tag, static_cast<std::uint8_t>(place.bank), 15, 15};
  return request;
}

struct Both {
  double channel = 0;   // ns of the last data
  double calendar = 0;  // the same
  double mean[2] = {0, 0};
};

// The same requests to both, in order of arrival.
Both run(const HbmParams& params, const std::vector<Request>& requests) {
  HbmChannelBench bench(params, kCycle, 1000);
  bench.run(requests);
  REQUIRE(bench.lost == 0);
  Both both;
  memory::HbmCounters counters(bench.stats, "calendar");
  HbmCalendar calendar(bench.timing,
                       {params.read_queue, params.write_queue, params.write_high, params.write_low, params.row_hit_cap},
                       counters, 1000);
  const std::uint32_t accesses = 128 / params.access_bytes;
  std::uint32_t reads = 0;
  for (const Request& request : requests) {
    const HbmTick when = request.cycle * kTicksPerCycle;
    const memory::HbmAccess& access = request.access;
    if (request.write) {
      REQUIRE(calendar.write(access.bank, access.row, accesses, when) >= when);
      continue;
    }
    const HbmTick end = calendar.read(access.bank, access.row, accesses, when);
    REQUIRE(end >= when + bench.timing.read_data);
    const double ns = static_cast<double>(end) / static_cast<double>(kTicksPerCycle) * kCycle;
    const double arrival = static_cast<double>(request.cycle) * kCycle;
    both.calendar = std::max(both.calendar, ns);
    both.mean[1] += ns - arrival;
    both.channel = std::max(both.channel, bench.finished.at(access.tag));
    both.mean[0] += bench.finished.at(access.tag) - arrival;
    ++reads;
  }
  for (double& mean : both.mean) mean /= std::max(1U, reads);
  return both;
}

}  // namespace

TEST_CASE("an access to an idle channel takes what it takes alone", "[memory][MEM-02][HST-03]") {
  for (const std::uint32_t bytes : {32U, 64U, 128U}) {
    HbmParams params;
    params.access_bytes = bytes;
    params.refresh = HbmRefresh::off;
    const HbmMap map(1, memory::HbmTiming(params, kCycle).banks, 1024, 1024);
    for (const std::uint64_t line : {0U, 77U, 5001U}) {
      const Both both = run(params, {whole(100, false, map.decode(line * 128), 0)});
      CAPTURE(bytes, line);
      CHECK(both.calendar == Approx(both.channel).margin(kCycle));
    }
  }
}

TEST_CASE("a channel as calendars serves as much as one that orders its commands", "[memory][MEM-02][HST-03]") {
  struct Case {
    const char* name;
    double gap;          // cycles between requests
    std::uint32_t span;  // lines; 0: in sequence
    std::uint32_t writes;
    double tolerance;
  };
  for (const Case& its : {Case{"a stream, idle", 40, 0, 0, 0.1}, Case{"a stream, loaded", 5, 0, 0, 0.1},
                          Case{"a stream, flooded", 1, 0, 0, 0.1}, Case{"anywhere, idle", 60, 1 << 20, 0, 0.1},
                          Case{"anywhere, loaded", 12, 1 << 20, 0, 0.15}, Case{"anywhere, flooded", 2, 1 << 20, 0, 0.2},
                          Case{"few rows, flooded", 2, 256, 0, 0.2}, Case{"a stream, copied", 2, 0, 50, 0.2}}) {
    for (const HbmRefresh refresh : {HbmRefresh::off, HbmRefresh::all_bank, HbmRefresh::per_bank}) {
      HbmParams params;
      params.refresh = refresh;
      const HbmMap map(1, memory::HbmTiming(params, kCycle).banks, 1024, 1024);
      Random random(7);
      std::vector<Request> requests;
      double now = 0;
      for (std::uint32_t i = 0; i < 4000; ++i) {
        now += its.gap * random.below(201) / 100.0;
        const bool write = random.chance(its.writes);
        // A copy writes elsewhere.
        const std::uint64_t line = its.span == 0 ? i + (write ? 100'000 : 0) : random.below(its.span);
        requests.push_back(whole(static_cast<std::uint64_t>(now), write, map.decode(line * 128), i));
      }
      const Both both = run(params, requests);
      CAPTURE(its.name, static_cast<int>(refresh), both.channel, both.calendar, both.mean[0], both.mean[1]);
      CHECK(both.calendar == Approx(both.channel).epsilon(its.tolerance));
      if (its.gap >= 40) CHECK(both.mean[1] == Approx(both.mean[0]).epsilon(0.1));
      UNSCOPED_INFO(its.name << " " << both.channel << " " << both.calendar << " mean " << both.mean[0] << " "
                             << both.mean[1]);
    }
  }
}

TEST_CASE("reads go before writes that have been asked for all at once", "[memory][MEM-02][HST-03]") {
  for (const double gap : {200.0, 60.0, 25.0}) {
    HbmParams params;
    params.refresh = HbmRefresh::off;
    const HbmMap map(1, memory::HbmTiming(params, kCycle).banks, 1024, 1024);
    Random random(11);
    std::vector<Request> requests;
    for (std::uint32_t i = 0; i < 600; ++i) {
      requests.push_back(whole(100, true, map.decode(random.below(4096) * 128), i));
    }
    for (double now = 120; now < 4000; now += gap * random.below(201) / 100.0) {
      const std::uint64_t line = random.below(1 << 20);
      requests.push_back(whole(static_cast<std::uint64_t>(now), false, map.decode(line * 128),
                               static_cast<std::uint32_t>(requests.size())));
    }
    const Both both = run(params, requests);
    CAPTURE(gap, both.mean[0], both.mean[1]);
    // Behind all the writes it would be fifteen times as long.
    CHECK(both.mean[1] > 0.4 * both.mean[0]);
    CHECK(both.mean[1] < 2.5 * both.mean[0]);
  }
}

}  // namespace heddle::test::memory_hbm_calendar_test
