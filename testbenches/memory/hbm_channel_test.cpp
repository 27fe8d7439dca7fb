#include "memory/hbm_channel.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/hbm_banks.h"
#include "memory/hbm_channel_bench.h"
#include "support/random.h"

namespace memory_hbm_channel_test {

namespace {

using heddle::memory::DecodedAddress;
using heddle::memory::HbmCommand;
using heddle::memory::HbmMap;
using heddle::memory::HbmParams;
using heddle::memory::HbmRefresh;
using heddle::memory::HbmStandard;
using heddle::memory::table_of;
using heddle::test::HbmChannelBench;
using heddle::test::Random;
using Request = HbmChannelBench::Request;

Request at(std::uint64_t cycle, bool write, std::uint32_t bank, std::uint32_t row, std::uint64_t line,
           std::uint32_t tag) {
  Request request;
  request.cycle = cycle;
  request.write = write;
  request.access = {line, row, tag, static_cast<std::uint8_t>(bank), 15, 15};
  return request;
}

Request line_at(const HbmMap& map, std::uint64_t cycle, bool write, std::uint64_t line, std::uint32_t tag) {
  const DecodedAddress place = map.decode(line * 128);
  return at(cycle, write, place.bank, place.row, place.line, tag);
}

HbmParams random_params(Random& random) {
  HbmParams params;
  params.standard = static_cast<HbmStandard>(random.below(3));
  params.pin_rate = 1.0 + random.below(800) / 100.0;
  params.access_bytes = 32U << random.below(3);
  params.read_queue = random.between(1, 70);
  params.write_queue = random.between(2, 70);
  params.write_high = random.between(1, params.write_queue);
  params.write_low = random.below(params.write_high);
  params.row_hit_cap = random.between(1, 40);
  params.refresh = static_cast<HbmRefresh>(random.below(3));
  params.refresh_rate = random.chance(50) ? 1 : 2;
  return params;
}

// Addresses from a stream to one bank, arrivals from a trickle to a flood.
std::vector<Request> random_requests(Random& random, const HbmChannelBench& bench, std::uint32_t count) {
  const HbmMap map(1, bench.timing.banks, bench.timing.row_bytes, 1024);
  std::vector<Request> requests;
  std::uint64_t cycle = 0;
  std::uint64_t line = 0;
  std::uint32_t kind = 0;
  std::uint32_t gap = 0;
  std::uint32_t writes = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i % 200 == 0) {
      kind = random.below(4);
      static constexpr std::uint32_t kGaps[] = {1, 2, 12, 60, 3000};
      gap = kGaps[random.below(5)];
      writes = random.chance(30) ? 0 : random.below(101);
    }
    line = kind == 0 ? line + 1 : kind == 1 ? random.below(1 << 20) : kind == 2 ? random.below(64) : line;
    cycle += random.below(gap);
    requests.push_back(line_at(map, cycle, random.chance(writes), line, i));
    if (kind == 3) {  // rows of one bank
      requests.back().access.bank = 1;
      requests.back().access.row = random.below(3);
      requests.back().access.line = 1'000'000'000 + requests.back().access.row * 8 + random.below(8);
    }
    requests.back().access.sectors = static_cast<std::uint8_t>(random.between(1, 15));
    const std::uint32_t full = requests.back().write ? requests.back().access.sectors & random.below(16) : 0;
    requests.back().access.full = static_cast<std::uint8_t>(full);
  }
  return requests;
}

}  // namespace

TEST_CASE("every command keeps all times of the standard, and everything is served", "[memory][MEM-02]") {
  std::uint64_t hits = 0;
  std::uint64_t conflicts = 0;
  std::uint64_t merged = 0;
  std::uint64_t forwarded = 0;
  for (const std::uint64_t seed : heddle::test::seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    const HbmParams params = random_params(random);
    static constexpr double kClocks[] = {1.0, 1.755, 0.3, 2.5};
    HbmChannelBench bench(params, 1 / kClocks[random.below(4)], random.below(100'000));
    const std::vector<Request> requests = random_requests(random, bench, 1500);
    bench.run(requests);
    CHECK(bench.checker.verdict() == std::vector<std::string>{});
    CHECK(bench.lost == 0);
    bench.finished.resize(requests.size(), -1);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      CAPTURE(i);
      if (requests[i].write) continue;
      REQUIRE(bench.finished[i] >= static_cast<double>(requests[i].cycle) * bench.cycle_ns);
    }
    // Refreshes keep their average rate; the last of them may lie ahead of the last work.
    const double interval = static_cast<double>(bench.timing.refi) / 1024;
    const double due = params.refresh == HbmRefresh::off ? 0 : static_cast<double>(bench.end_cycle) / interval;
    CHECK(static_cast<double>(bench.counters.refreshes.value()) <= due + 1);
    const double first = 100'000 / 1024.0 / interval;
    CHECK(static_cast<double>(bench.counters.refreshes.value()) >= due - first - bench.timing.banks - 2);
    hits += bench.counters.row_hits.value();
    conflicts += bench.counters.row_conflicts.value();
    merged += bench.counters.merged.value();
    forwarded += bench.counters.forwarded.value();
  }
  CHECK(hits > 1000);
  CHECK(conflicts > 1000);
  CHECK(merged > 100);
  CHECK(forwarded > 100);
}

TEST_CASE("a read takes as long as its row asks for", "[memory][MEM-02]") {
  HbmParams params;
  params.refresh = HbmRefresh::off;
  HbmChannelBench bench(params, 1.0);
  const auto& t = table_of(params.standard);
  const double data = 128 * 8 / (t.pins * params.pin_rate);  // a line
  const double gap = data / 2;                               // tCCD_L leaves room for another group's access
  bench.run({at(0, false, 3, 7, 1, 0), at(1000, false, 3, 7, 2, 1), at(2000, false, 3, 8, 3, 2)});
  const auto about = [](double ns) { return Approx(ns).margin(0.01); };
  CHECK(bench.finished[0] == about(t.rcd + t.cl + data + gap));
  CHECK(bench.finished[1] == about(1000 + t.cl + data + gap));
  CHECK(bench.finished[2] == about(2000 + t.rp + t.rcd + t.cl + data + gap));
}

TEST_CASE("bandwidth has the bounds that the timings give", "[memory][MEM-02]") {
  for (const HbmStandard standard : {HbmStandard::hbm2e, HbmStandard::hbm3, HbmStandard::hbm3e}) {
    HbmParams params;
    params.standard = standard;
    params.pin_rate = standard == HbmStandard::hbm2e ? 2.43 : standard == HbmStandard::hbm3 ? 5.234 : 6.25;
    const auto& t = table_of(standard);
    const auto share = [&](int pattern) {
      HbmChannelBench bench(params, 1 / 1.755);
      const HbmMap map(1, bench.timing.banks, bench.timing.row_bytes, 1024);
      Random random(9);
      std::vector<Request> requests;
      for (std::uint32_t i = 0; i < 6000; ++i) {
        const bool write = pattern == 2 && i / 64 % 2 == 1;
        const std::uint64_t line = pattern == 1 ? random.below(1 << 24) : i;
        requests.push_back(line_at(map, 0, write, line, i));
        if (pattern != 3) continue;
        requests.back().access.bank = 0;
        requests.back().access.row = i;
      }
      bench.run(requests);
      return 6000 * 128 / bench.checker.commands.back().when / bench.peak();
    };
    CAPTURE(t.name);
    const double refreshing = t.rfc / t.refi;
    // A stream loses the refreshes and, each time, what it takes to close all rows and to open the first again.
    CHECK(share(0) < 1 - refreshing);
    CHECK(share(0) > 1 - refreshing - 0.03);
    CHECK(share(1) > 0.85 - refreshing);
    CHECK(share(1) < 1 - refreshing);
    CHECK(share(2) > 0.80 - refreshing);
    CHECK(share(2) < share(0));
    // Rows of one bank: an activate per tRC.
    params.refresh = HbmRefresh::off;
    HbmChannelBench reference(params, 1 / 1.755);
    CHECK(share(3) == Approx(128 / (t.ras + t.rp) / reference.peak()).epsilon(0.01));
  }
}

TEST_CASE("bandwidth is exact though a burst is no whole number of cycles", "[memory][MEM-02]") {
  HbmParams params;
  params.refresh = HbmRefresh::off;
  for (const double clock : {0.5, 1.0, 1.41, 1.755, 1.98, 3.0}) {
    HbmChannelBench bench(params, 1 / clock);
    const HbmMap map(1, bench.timing.banks, bench.timing.row_bytes, 1024);
    std::vector<Request> requests;
    for (std::uint32_t i = 0; i < 10'000; ++i) requests.push_back(line_at(map, 0, false, i, i));
    bench.run(requests);
    const double peak = 32 * params.pin_rate / 8;  // bytes per ns
    CHECK(10'000 * 128 / bench.last_data == Approx(peak).epsilon(0.005));
  }
}

TEST_CASE("younger row hits do not starve a conflict", "[memory][MEM-02]") {
  double before = 0;
  for (const std::uint32_t streak : {1U, 8U, 64U}) {
    HbmParams params;
    params.row_hit_cap = streak;
    params.refresh = HbmRefresh::off;
    HbmChannelBench bench(params, 1.0);
    // One access to row 0, one to row 1, and then more to row 0 than the queue holds.
    std::vector<Request> requests;
    for (std::uint32_t i = 0; i < 400; ++i) requests.push_back(at(0, false, 5, i == 1 ? 1 : 0, i, i));
    bench.run(requests);
    const auto& t = table_of(params.standard);
    const double access = static_cast<double>(bench.timing.access) / 1024;
    // The streak, tCCD_L apart, and a row conflict.
    const double longest = t.rcd + std::max(t.ras, streak * 2 * access + t.rtp) + t.rp + t.rcd + t.cl + 6 * access;
    CHECK(bench.finished[1] <= longest);
    CHECK(bench.finished[1] > before);
    before = bench.finished[1];
    CHECK(bench.checker.verdict() == std::vector<std::string>{});
  }
}

TEST_CASE("neither reads nor writes starve while the other kind floods the channel", "[memory][MEM-02]") {
  for (const bool flood_of_writes : {false, true}) {
    HbmParams params;
    params.refresh = HbmRefresh::off;
    HbmChannelBench bench(params, 1.0);
    const HbmMap map(1, bench.timing.banks, bench.timing.row_bytes, 1024);
    Random random(3);
    std::vector<Request> requests;
    for (std::uint32_t i = 0; i < 8000; ++i) {
      const bool rare = i % 10 == 0;
      requests.push_back(line_at(map, i * 2U, rare != flood_of_writes, random.below(1 << 20), i));
    }
    bench.run(requests);
    double worst_read = 0;
    for (std::uint32_t i = 0; i < requests.size(); ++i)
      if (!requests[i].write) worst_read = std::max(worst_read, bench.finished[i] - bench.entered[i]);
    // A read waits for a batch of writes at most, and for the reads in front of it.
    CHECK(worst_read < 3000);
    // In a flood of reads, writes go in batches: the direction changes as often as they fill.
    const std::uint64_t batches = bench.counters.bus_turnarounds.value() / 2;
    CHECK(batches >= 8);
    CHECK(bench.checker.verdict() == std::vector<std::string>{});
  }
}

TEST_CASE("writes wait for a batch while there is something to read", "[memory][MEM-02]") {
  HbmParams params;
  params.refresh = HbmRefresh::off;
  HbmChannelBench bench(params, 1.0);
  const HbmMap map(1, bench.timing.banks, bench.timing.row_bytes, 1024);
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < 3000; ++i) requests.push_back(line_at(map, i * 4U, i % 4 == 0, i, i));
  bench.run(requests);
  // 750 writes, batches of write_high - write_low.
  const double expected = 2 * 750.0 / (params.write_high - params.write_low);
  CHECK(static_cast<double>(bench.counters.bus_turnarounds.value()) < 1.5 * expected);
  CHECK(static_cast<double>(bench.counters.bus_turnarounds.value()) > 0.5 * expected);
}

TEST_CASE("a refresh holds accesses up, whether the channel was busy or idle before", "[memory][MEM-02]") {
  HbmParams params;
  const auto& t = table_of(params.standard);
  constexpr std::uint64_t kFirst = 5000;
  // Refreshes begin at 5000 ns + n * tREFI; nothing but this read comes.
  for (const double offset : {10.0, 200.0, 340.0, 360.0, 3000.0}) {
    for (const std::uint64_t n : {0U, 1U, 40U}) {
      HbmChannelBench bench(params, 1.0, kFirst * 1024);
      const double begin = static_cast<double>(kFirst) + static_cast<double>(n) * t.refi;
      bench.run({at(static_cast<std::uint64_t>(begin + offset), false, 0, 0, 0, 0)});
      const double latency = bench.finished[0] - (begin + offset);
      const double unloaded = t.rcd + t.cl + 1.5 * 128 * 8 / (t.pins * params.pin_rate);
      CHECK(latency == Approx(unloaded + std::max(0.0, t.rfc - offset)).margin(1));
      CHECK(bench.counters.refreshes.value() == n + 1);
    }
  }
}

TEST_CASE("refreshing bank by bank costs a stream less than all at once", "[memory][MEM-02]") {
  const auto rate = [](HbmRefresh refresh) {
    HbmParams params;
    params.refresh = refresh;
    HbmChannelBench bench(params, 1.0);
    const HbmMap map(1, bench.timing.banks, bench.timing.row_bytes, 1024);
    std::vector<Request> requests;
    for (std::uint32_t i = 0; i < 8000; ++i) requests.push_back(line_at(map, 0, false, i, i));
    bench.run(requests);
    CHECK(bench.checker.verdict() == std::vector<std::string>{});
    return 8000 * 128 / bench.last_data / bench.peak();
  };
  CHECK(rate(HbmRefresh::off) > 0.99);
  CHECK(rate(HbmRefresh::per_bank) > rate(HbmRefresh::all_bank) + 0.02);
  CHECK(rate(HbmRefresh::per_bank) < rate(HbmRefresh::off));
}

TEST_CASE("a channel is looked at once or twice per access", "[memory][MEM-02]") {
  HbmParams params;
  HbmChannelBench bench(params, 1 / 1.98);
  const HbmMap map(1, bench.timing.banks, bench.timing.row_bytes, 1024);
  Random random(4);
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < 5000; ++i) requests.push_back(line_at(map, 0, i % 5 == 0, random.below(1 << 24), i));
  bench.run(requests);
  CHECK(static_cast<double>(bench.calls) < 2 * 2 * 5000.0);
}

TEST_CASE("a reset channel is as new", "[memory][MEM-02]") {
  Random random(11);
  HbmChannelBench bench(HbmParams{}, 1.0);
  const std::vector<Request> requests = random_requests(random, bench, 600);
  bench.run(requests);
  const auto first = bench.finished;
  std::vector<heddle::memory::HbmDone> done;
  for (std::uint32_t i = 0; i < 20; ++i) bench.channel.enter(i % 2 == 0, at(0, false, i, i, i, i).access);
  (void)bench.channel.advance(1024, 2048, done);
  bench.channel.reset();
  CHECK(bench.channel.waiting(false) == 0);
  CHECK(bench.channel.waiting(true) == 0);
  bench.finished.clear();
  bench.run(requests);
  CHECK(bench.finished == first);
}

}  // namespace memory_hbm_channel_test
