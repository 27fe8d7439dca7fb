// GPC_CGAs over the sockets of a GPC: ids, several masks, completion and flush; what else goes through the GPM.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "gpc/gpc_bench.h"
#include "support/random.h"

namespace gpc_cga_test {

using Catch::Contains;
using namespace heddle::test;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::CgaLevel;
using heddle::arch::ClusterShape;

namespace {

constexpr Cycle kThere = 10 + 5 + 2;           // distributor to SM, with plain()
constexpr Cycle kToGpm = 3 + 5;                // SM to GPM
constexpr Cycle kLeave = 2;                    // from the permission until the SM has let go of a CTA
constexpr Cycle kBack = kToGpm + kLeave + 40;  // SM to distributor
constexpr Cycle kAsk = 5 + 2 + kToGpm;         // GPM to SM and back

std::map<std::uint64_t, Start> by_order(const GpcBench& bench) {
  std::map<std::uint64_t, Start> starts;
  for (const Start& start : bench.starts) REQUIRE(starts.emplace(start.packet.order, start).second);
  return starts;
}

}  // namespace

TEST_CASE("the masks of a packet start CTAs one mask after another", "[gpc][CWD-31]") {
  for (const std::uint32_t queue : {1U, 16U}) {
    CAPTURE(queue);
    GpcParams params = plain();
    params.mpc_queue = queue;
    GpcBench bench(uneven(), params, TimingMode::at, 0, 4);
    bench.cwd.script = {bench.cga(0, {0b0000'1111, 0b0000'1001, 0b1000'0000}, 14, 14, true, 1),
                        bench.cga(0, {0b1111'0000, 0b1100'0001}, 21, 14, false, 1)};
    bench.cwd.start(0);
    run_until_idle();
    const std::map<std::uint64_t, Start> starts = by_order(bench);
    REQUIRE(starts.size() == 14);
    const std::vector<std::uint32_t> sms{0, 1, 2, 3, 0, 3, 7, 4, 5, 6, 7, 0, 6, 7};
    for (std::uint32_t i = 0; i < sms.size(); ++i) {
      CAPTURE(i);
      const Start& start = starts.at(14 + i);
      CHECK(start.sm == sms[i]);
      CHECK(start.packet.id.rank == i);
      CHECK(start.packet.id.cga == 1);
      CHECK(start.packet.id.cga_size == 14);
      CHECK(start.packet.id.index == 14 + i);
      CHECK(start.packet.tag.cga_id == 0);
      if (queue == 16) CHECK(start.cycle == kThere);
    }
    CHECK(bench.stat("gpm.ctas") == 14);
    CHECK(bench.stat("gpm.cgas") == 1);
    bench.expect_idle();
  }
}

TEST_CASE("a CGA id is free once the last CTA is done and the flush is over", "[gpc][CGA-12]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    GpcParams params = plain();
    params.cga_flush = 70;
    GpcBench bench(uneven(), params, mode);
    bench.duration = [](std::uint64_t index) { return Cycle{50} + index * 10; };
    bench.cwd.script = {bench.cga(4, {0b0000'0111}, 0, 3, true, 77)};
    bench.cwd.start(0);
    run_until(sc_core::sc_time(mode != TimingMode::lt ? 100 : 60, sc_core::SC_NS));
    CHECK(bench.gpm.live_cgas() == 1);
    run_until_idle();
    REQUIRE(bench.cwd.cga_completions.size() == 1);
    const bool at = mode != TimingMode::lt;
    CHECK(bench.cwd.cga_completions[0].first == 70 + (at ? kThere + kBack + kAsk + 70 : 0));
    CHECK(bench.cwd.cga_completions[0].second.slot == 4);
    CHECK(bench.cwd.cga_completions[0].second.sequence == 77);
    // Completions of the CTAs do not wait for the flush, and do not tell sequences.
    REQUIRE(bench.cwd.completions.size() == 3);
    CHECK(bench.cwd.completions[2].first == 70 + (at ? kThere + kBack : 0));
    CHECK_FALSE(bench.cwd.completions[2].second.tracked);
    bench.expect_idle();
  }
}

TEST_CASE("a CGA that is not wholly launched does not end", "[gpc][CWD-30]") {
  GpcBench bench(uneven(), plain());
  // The second half is held back by a task that holds its SM.
  bench.duration = [](std::uint64_t index) { return Cycle{index == 0 ? 5U : index < 10 ? 300U : 500U}; };
  bench.cwd.script = {bench.launch(1, 0b10, 10), bench.launch(1, 0b10, 11), bench.launch(1, 0b10, 12),
                      bench.cga(0, {0b1}, 0, 3, true, 9), bench.cga(0, {0b10, 0b10}, 1, 3, false, 9)};
  bench.cwd.start(0);
  run_until(sc_core::sc_time(400, sc_core::SC_NS));
  CHECK(bench.cwd.completed[0] == 1);
  CHECK(bench.gpm.live_ctas() == 3);
  CHECK(bench.gpm.live_cgas() == 1);
  run_until_idle();
  const std::map<std::uint32_t, std::uint64_t> expected{{0, 3}, {1, 3}};
  CHECK(bench.cwd.completed == expected);
  REQUIRE(bench.cwd.cga_completions.size() == 1);
  CHECK(bench.cwd.cga_completions[0].first == kThere + 500 + kBack + kThere + 300 + kBack + kAsk + 26);
  bench.expect_idle();
}

TEST_CASE("launches stall while no CGA id or no barrier slot is free, and name what they wait for",
          "[gpc][CGA-01][CGA-02]") {
  for (const bool ids : {true, false}) {
    CAPTURE(ids);
    GpcParams params = plain();
    params.cga_ids = ids ? 2 : 8;
    params.cga_barriers = ids ? 8 : 2;
    params.cga_flush = 30;
    GpcBench bench(uneven(), params);
    bench.duration = [](std::uint64_t index) { return index < 2 ? Cycle{100} : Cycle{300}; };
    bench.cwd.script = {bench.cga(0, {0b0000'0011}, 0, 2, true, 1), bench.cga(0, {0b0000'1100}, 2, 2, true, 2),
                        bench.cga(0, {0b0011'0000}, 4, 2, true, 3), bench.launch(1, 0b1000'0000, 0)};
    bench.cwd.start(0);
    run_until(sc_core::sc_time(100, sc_core::SC_NS));
    CHECK(bench.starts.size() == 4);
    CHECK(bench.gpm.live_cgas() == 2);
    heddle::WaitGraph waits;
    bench.domain.collect_waits(waits);
    REQUIRE(waits.size() == 1);
    CHECK_THAT(waits.chain().at(0), Contains(ids ? "for a CGA id of" : "for a CGA barrier slot of") &&
                                        Contains("operation 100") && Contains("gpu0.gpc0.gpm"));
    run_until_idle();
    REQUIRE(bench.starts.size() == 7);
    // The first CGA's flush ends, and the third CGA takes its id; what stood behind it follows at once.
    const Cycle freed = kThere + 100 + kToGpm + kLeave + kAsk + 30;
    const std::map<std::uint64_t, Start> starts = [&bench] {
      std::map<std::uint64_t, Start> result;
      for (const Start& start : bench.starts) {
        if (start.packet.tag.slot == 0) result.emplace(start.packet.order, start);
      }
      return result;
    }();
    CHECK(starts.at(2).packet.tag.cga_id == 1);
    CHECK(starts.at(4).packet.tag.cga_id == 0);
    CHECK(starts.at(4).cycle == freed + 7);
    CHECK(bench.starts.back().cycle == freed + 7);
    CHECK(bench.cwd.cga_completions.size() == 3);
    bench.expect_idle();
  }
}

TEST_CASE("completions of GPU_CGAs of CTAs name their sequence", "[gpc][CWD-09]") {
  GpcBench bench(uneven(), plain());
  bench.duration = [&bench](std::uint64_t) { return 500 - bench.domain.now(); };  // all end at cycle 500
  const auto part = [&bench](std::uint32_t slot, std::uint64_t mask, std::uint64_t raster, std::uint64_t sequence) {
    BenchLaunch packet = bench.launch(slot, mask, raster);
    packet.shape = row_of(8, CgaLevel::gpu);
    packet.sequence = sequence;
    return packet;
  };
  bench.cwd.script = {part(0, 0b0011, 0, 1), part(0, 0b1100, 8, 2), part(0, 0b1'0001, 16, 3),
                      bench.launch(1, 0b0010'0000, 0), bench.launch(1, 0b0100'0000, 1)};
  bench.cwd.script[3].sequence = 7;  // sessions of a plain grid: the CWD does not count them
  bench.cwd.script[4].sequence = 8;
  bench.cwd.start(0);
  run_until_idle();
  std::map<std::uint64_t, std::uint64_t> masks;
  for (const auto& [cycle, packet] : bench.cwd.completions) {
    CHECK(cycle == 500 + kBack);
    CHECK(packet.tracked == (packet.slot == 0));
    CHECK(masks.emplace(packet.sequence, packet.sm_mask).second);
  }
  CHECK(masks == std::map<std::uint64_t, std::uint64_t>{{1, 0b0011}, {2, 0b1100}, {3, 0b1'0001}, {0, 0b0110'0000}});
  for (const Start& start : bench.starts) CHECK_FALSE(start.packet.tag.in_cga());
  CHECK(bench.cwd.cga_completions.empty());
  bench.expect_idle();
}

namespace {

heddle::protocol::LocalMemoryPacket block(std::uint32_t tpc, std::uint8_t subcontext, std::uint32_t number) {
  return {heddle::protocol::VirtualGpcId(kVirtualGpc),
          heddle::protocol::TpcInGpc(tpc),
          subcontext,
          heddle::protocol::LocalMemoryBlock(number),
          {},
          20};
}

}  // namespace

TEST_CASE("a local-memory block reaches the SMs of the TPC that it is for", "[gpc][CWD-32]") {
  using Blocks = std::map<std::uint32_t, std::uint32_t>;  // by subcontext
  GpcBench bench(uneven(), plain());
  const auto told = [&bench](std::uint32_t tpc) {
    std::vector<Blocks> blocks;
    for (const auto& place : bench.places) {
      for (std::uint32_t i = 0; place.tpc == tpc && i < place.sms; ++i) {
        blocks.push_back(bench.sms[place.first_sm + i]->local_blocks);
      }
    }
    return blocks;
  };
  const auto all = [](std::size_t sms, const Blocks& blocks) { return std::vector<Blocks>(sms, blocks); };
  const std::size_t sms[] = {told(0).size(), told(1).size(), told(2).size()};
  bench.cwd.local_script = {block(2, 7, 31), block(0, 7, 4), block(2, 63, 5)};
  bench.cwd.start(0);
  run_until_idle();
  CHECK(told(2) == all(sms[2], {{7, 31}, {63, 5}}));
  CHECK(told(0) == all(sms[0], {{7, 4}}));
  CHECK(told(1) == all(sms[1], {}));
  CHECK(bench.stat("gpm.launch_bits") == 60);
  CHECK(bench.stat("gpm.mpc_bits") == 240);
  heddle::protocol::LocalMemoryPacket elsewhere = block(1, 7, 9);
  elsewhere.virtual_gpc = heddle::protocol::VirtualGpcId(kVirtualGpc + 1);  // a block of another GPC's TPC 1
  bench.cwd.local_script = {block(2, 7, 8), elsewhere};
  bench.cwd.start(bench.domain.now() + 1);
  run_until_idle();
  CHECK(told(2) == all(sms[2], {{7, 8}, {63, 5}}));
  CHECK(told(1) == all(sms[1], {}));
  bench.domain.reset();
  bench.cwd.local_script = {block(4, 0, 8)};
  bench.cwd.start(0);
  CHECK_THROWS_WITH(sc_core::sc_start(), Contains("a TPC that the GPC does not have"));
}

TEST_CASE("packets of CGAs that cannot be are caught", "[gpc][CWD-30]") {
  GpcBench bench(uneven(), plain());
  const auto fails = [&bench](const std::vector<BenchLaunch>& script) {
    bench.cwd.script = script;
    bench.cwd.start(0);
    return failure_of([] { run_until_idle(); });
  };
  SECTION("without a first packet") {
    CHECK_THAT(fails({bench.cga(0, {0b1}, 0, 2, false, 1)}), Contains("a CGA that has not begun"));
  }
  SECTION("mixed with another") {
    CHECK_THAT(fails({bench.cga(0, {0b1}, 0, 2, true, 1), bench.cga(0, {0b1}, 2, 2, true, 2)}),
               Contains("before all CTAs of the one before"));
  }
  SECTION("of another sequence") {
    CHECK_THAT(fails({bench.cga(0, {0b1}, 0, 2, true, 1), bench.cga(0, {0b1}, 1, 2, false, 2)}),
               Contains("a CGA that has not begun"));
  }
  SECTION("with more CTAs than it has") {
    CHECK_THAT(fails({bench.cga(0, {0b11}, 0, 3, true, 1), bench.cga(0, {0b11}, 2, 3, false, 1)}),
               Contains("more CTAs were launched than a CGA has"));
  }
  SECTION("with a count that leaves a further mask out") {
    BenchLaunch packet = bench.cga(0, {0b11, 0b1}, 0, 3, true, 1);
    packet.num_ctas = 2;
    CHECK_THAT(fails({packet}), Contains("differs from its masks"));
  }
}

TEST_CASE("random CGAs: ids unique among those alive, ranks in launch order, one flush each",
          "[gpc][CWD-30][CWD-31][CGA-01][CGA-02][CGA-03][CGA-12]") {
  for (const std::uint64_t seed : seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    GpcParams params;
    params.gpm_to_mpc = random.below(12);
    params.mpc_to_sm = random.below(6);
    params.gpm_to_cwd = random.below(80);
    params.mpc_queue = random.between(1, 3);
    params.cga_ids = random.between(1, 6);
    params.cga_barriers = random.between(1, 6);
    params.cga_flush = random.below(90);
    params.cta_broadcast = random.below(40);
    params.raster_cycles = random.below(4);
    params.cta_entries = 0;  // all at once
    const TimingMode mode = random.chance(20) ? TimingMode::lt : TimingMode::at;
    GpcBench bench(random.shape(1), params, mode, random.chance(50) ? 0 : 1024);
    const std::uint64_t longest = random.between(1, 200);
    bench.duration = [longest](std::uint64_t index) { return Cycle{1 + index * 7919 % longest}; };
    const std::uint32_t slow = random.between(1, 50);
    bench.script.drain = [slow](std::uint32_t sm) { return Cycle{sm * 31 % slow}; };
    const std::uint32_t ctas = random.between(1, std::min<std::uint64_t>(16, bench.gpc.sms * kSlots));
    const std::uint32_t cgas = random.between(1, 20);
    std::vector<std::uint32_t> wanted;  // SM by launch order
    for (std::uint32_t c = 0; c < cgas; ++c) {
      // The CGA's masks, cut into packets of one to four.
      std::vector<std::uint64_t> masks;
      for (std::uint32_t left = ctas; left > 0;) {
        std::uint64_t mask = 0;
        for (std::uint32_t bit = 0; bit < bench.gpc.sms && left > 0; ++bit) {
          if (random.chance(masks.size() > kSlots - 2 ? 100 : 60)) mask |= std::uint64_t{1} << bit, --left;
        }
        if (mask != 0) masks.push_back(mask);
      }
      bool first = true;
      for (std::size_t m = 0; m < masks.size();) {
        const std::size_t some = std::min<std::size_t>(masks.size() - m, random.between(1, 4));
        const std::vector<std::uint64_t> part(masks.begin() + static_cast<std::ptrdiff_t>(m),
                                              masks.begin() + static_cast<std::ptrdiff_t>(m + some));
        bench.cwd.script.push_back(bench.cga(0, part, wanted.size(), ctas, first, c));
        for (const std::uint64_t mask : part) {
          for (std::uint32_t bit = 0; bit < bench.gpc.sms; ++bit) {
            if ((mask >> bit & 1) != 0) wanted.push_back(bit);
          }
        }
        first = false;
        m += some;
      }
    }
    bench.cwd.start(0);
    run_until_idle();
    REQUIRE(bench.starts.size() == wanted.size());
    REQUIRE(bench.cwd.completed[0] == wanted.size());
    std::map<std::uint64_t, std::uint32_t> id_of;    // by CGA
    std::map<std::uint64_t, Cycle> begin, last_end;  // at the SMs
    std::map<std::uint64_t, Cycle> entered, drain;   // in all tables; of the slowest SM
    const auto cost = [mode](Cycle cycles) { return mode == TimingMode::lt ? 0 : cycles; };
    for (const auto& [order, start] : by_order(bench)) {
      REQUIRE(start.sm == wanted.at(order));
      REQUIRE(start.packet.id.index == order);
      REQUIRE(start.packet.id.cga == order / ctas);
      REQUIRE(start.packet.id.rank == order % ctas);
      const std::uint64_t which = order / ctas;
      REQUIRE(id_of.emplace(which, *start.packet.tag.cga_id).first->second == *start.packet.tag.cga_id);
      REQUIRE(*start.packet.tag.cga_id < params.cga_ids);
      begin[which] = begin.count(which) != 0 ? std::min(begin[which], start.cycle) : start.cycle;
      last_end[which] = std::max(last_end[which], start.cycle + bench.duration(order));
      const Cycle left_mpc = start.cycle - cost(params.mpc_to_sm);
      entered[which] = std::max(entered[which], left_mpc + cost(params.cta_broadcast + params.gpm_to_mpc));
      drain[which] = std::max(drain[which], bench.script.drain(start.sm));
    }
    REQUIRE(bench.cwd.cga_completions.size() == cgas);
    REQUIRE(bench.script.entries.size() == wanted.size() * bench.gpc.sms);
    std::set<std::uint64_t> flushed;
    std::map<std::uint64_t, Cycle> freed;  // the id
    const Cycle up = cost(kSmToMpc + params.gpm_to_mpc);
    for (const auto& [cycle, complete] : bench.cwd.cga_completions) {
      const std::uint64_t which = complete.sequence;
      REQUIRE(flushed.insert(which).second);
      const Cycle begins = std::max(last_end.at(which) + up + cost(params.mpc_to_sm), entered.at(which));
      freed[which] =
          begins + cost(params.gpm_to_mpc + params.mpc_to_sm) + drain.at(which) + up + cost(params.cga_flush);
      REQUIRE(cycle == freed.at(which) + cost(params.gpm_to_cwd));
    }
    // Two CGAs of one id: the later one begins after the flush of the earlier one.
    for (std::uint64_t a = 0; a < cgas; ++a) {
      for (std::uint64_t b = a + 1; b < cgas; ++b) {
        if (id_of.at(a) != id_of.at(b)) continue;
        REQUIRE(begin.at(b) >= freed.at(a));
      }
    }
    bench.expect_idle();
  }
}

TEST_CASE("a reset GPC has forgotten its CGAs", "[gpc][CGA-01]") {
  std::uint32_t in_flight = 0;
  for (Cycle when = 1; when < 400; when += 7) {
    CAPTURE(when);
    GpcParams params = plain();
    params.mpc_queue = 1;
    params.cga_ids = 2;
    GpcBench bench(uneven(), params);
    const auto feed = [&bench](Cycle cycle) {
      for (std::uint64_t i = 0; i < 8; ++i) {
        bench.cwd.script.push_back(bench.cga(0, {0b1100'0011, 0b1}, 9 * i, 9, true, i));
        bench.cwd.script.push_back(bench.cga(0, {0b0011'0011}, 9 * i + 5, 9, false, i));
      }
      bench.cwd.start(cycle);
    };
    feed(0);
    run_until(sc_core::sc_time(static_cast<double>(when), sc_core::SC_NS));
    in_flight += bench.gpm.live_cgas();
    bench.domain.reset();
    bench.expect_idle();
    bench.starts.clear();
    bench.cwd.cga_completions.clear();
    bench.cwd.completed.clear();
    feed(0);
    run_until_idle();
    REQUIRE(bench.starts.size() == 72);
    CHECK(bench.starts[0].packet.tag.cga_id == 0);
    CHECK(bench.cwd.completed[0] == 72);
    CHECK(bench.cwd.cga_completions.size() == 8);
    bench.expect_idle();
  }
  CHECK(in_flight > 50);
}

}  // namespace gpc_cga_test
