// The memory management unit alone: walks, their number, sharing, changes of roots (MEM-04).
#include "memory/mmu.h"

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "common/packet_socket.h"
#include "memory/mmu_bench.h"
#include "support/random.h"

namespace memory_mmu_test {

using namespace heddle;
using namespace heddle::test;
using arch::kLargePage;
using arch::kSmallPage;
using protocol::InvalidateTlbPacket;
using protocol::TranslatedPacket;
using protocol::TranslatePacket;

namespace {

memory::MmuParams slow_params() {
  memory::MmuParams params;
  params.l2_tlb.entries = 16;
  params.l2_tlb.ways = 4;
  params.l2_tlb.latency = 5;
  params.distance = 20;
  params.walkers = 2;
  return params;
}

// One client of the unit.
struct TranslationRequester : sc_core::sc_module {
  struct Answer {
    TranslatedPacket packet;
    Cycle when = 0;
  };
  TranslationRequester(const sc_core::sc_module_name& name, Domain& its_domain, Cycle distance)
      : sc_core::sc_module(name),
        domain(its_domain),
        out("out", its_domain, distance, kUnlimitedCredits),
        in("in", its_domain, 0),
        invalidate_in("invalidate_in", its_domain, 0) {
    in.on_packet<TranslationRequester, &TranslationRequester::answered>(*this);
    invalidate_in.on_packet<TranslationRequester, &TranslationRequester::invalidated>(*this);
  }
  void ask(std::uint64_t page, std::uint8_t subcontext, std::uint32_t tag) {
    TranslatePacket packet;
    packet.page = page;
    packet.subcontext = subcontext;
    packet.tag = tag;
    out.send(packet);
  }
  void answered(const TranslatedPacket& packet, std::uint32_t) { answers.push_back({packet, domain.now()}); }
  void invalidated(const InvalidateTlbPacket& packet, std::uint32_t) {
    invalidations.emplace_back(packet.subcontext, domain.now());
  }

  Domain& domain;
  PacketOut<TranslatePacket> out;
  PacketIn<TranslatedPacket> in;
  PacketIn<InvalidateTlbPacket> invalidate_in;
  std::vector<Answer> answers;
  std::vector<std::pair<std::uint8_t, Cycle>> invalidations;
};

// The unit with such clients only.
struct UnitBench : MmuBench {
  UnitBench(const memory::MmuParams& parameters, TimingMode mode, std::uint32_t clients)
      : MmuBench(parameters, mode, 0, 0, clients) {
    for (std::uint32_t i = 0; i < clients; ++i) {
      requesters.push_back(std::make_unique<TranslationRequester>(("requester" + std::to_string(i)).c_str(), domain,
                                                                  parameters.distance));
      requesters.back()->out.bind(mmu.translate_in[i]);
      mmu.translated_out.bind(requesters.back()->in);
      mmu.invalidate_out.bind(requesters.back()->invalidate_in);
    }
  }
  std::vector<std::unique_ptr<TranslationRequester>> requesters;
};

}  // namespace

TEST_CASE("a walk reads an entry of each level, a large page one less, and a known page none", "[mmu][MEM-04]") {
  SimFixture sim;
  UnitBench bench(slow_params(), TimingMode::at, 1);
  Space& space = bench.add_space();
  space.map(0, kSmallPage, kSmallPage, true);
  space.map(kLargePage, 2 * kLargePage, kLargePage, false);
  start();
  bench.set_root(7, space.tables.root());
  run_until_idle();
  TranslationRequester& requester = *bench.requesters[0];
  const auto cycles = [&](std::uint64_t page, std::uint8_t subcontext) {
    const Cycle begin = bench.domain.now();
    requester.answers.clear();
    requester.ask(page, subcontext, 5);
    run_until_idle();
    REQUIRE(requester.answers.size() == 1);
    REQUIRE(requester.answers[0].packet.tag == 5);
    return requester.answers[0].when - begin;
  };
  CHECK(cycles(0, 7) == 20 + 5 + 4 * 10 + 20);
  CHECK(requester.answers[0].packet.translation.frame == kSmallPage);
  CHECK(requester.answers[0].packet.translation.page_bits == 16);
  CHECK(requester.answers[0].packet.translation.writable);
  CHECK(cycles(kLargePage + 5 * kSmallPage, 7) == 20 + 5 + 3 * 10 + 20);
  CHECK(requester.answers[0].packet.translation.page == kLargePage);
  CHECK(requester.answers[0].packet.translation.frame == 2 * kLargePage);
  CHECK(requester.answers[0].packet.translation.page_bits == 21);
  CHECK_FALSE(requester.answers[0].packet.translation.writable);
  CHECK(cycles(kLargePage + 9 * kSmallPage, 7) == 20 + 5 + 20);
  CHECK(cycles(kSmallPage, 7) == 20 + 5 + 4 * 10 + 20);  // nothing is there
  CHECK_FALSE(requester.answers[0].packet.translation.present);
  CHECK(cycles(kSmallPage, 7) == 20 + 5 + 4 * 10 + 20);  // faults are not kept
  CHECK(cycles(std::uint64_t{1} << 50, 7) == 20 + 5 + 20);
  CHECK_FALSE(requester.answers[0].packet.translation.present);
  CHECK(cycles(0, 3) == 20 + 5 + 20);
  CHECK(requester.answers[0].packet.translation.page_bits == arch::Translation::kWholeSpace);
  CHECK(bench.stat("mmu.faults") == 3);
  CHECK(bench.violations().empty());
}

TEST_CASE("asks for one page share a walk, and walks wait for walkers", "[mmu][MEM-04]") {
  SimFixture sim;
  UnitBench bench(slow_params(), TimingMode::at, 3);
  Space& space = bench.add_space();
  space.map(0, 0, 16 * kSmallPage, true);
  start();
  bench.set_root(1, space.tables.root());
  run_until_idle();
  for (std::uint32_t page = 0; page < 6; ++page) {
    for (auto& requester : bench.requesters) requester->ask(page * kSmallPage, 1, page);
  }
  run_until_idle();
  CHECK(bench.stat("mmu.walks") == 6);
  CHECK(bench.stat("mmu.merged") == 12);
  for (auto& requester : bench.requesters) {
    REQUIRE(requester->answers.size() == 6);
    for (std::uint32_t i = 0; i < 6; ++i) {
      CHECK(requester->answers[i].packet.tag == i);
      CHECK(requester->answers[i].packet.translation.frame == i * kSmallPage);
      // Two at a time: each pair takes four reads of ten cycles.
      CHECK(requester->answers[i].when - requester->answers[0].when == i / 2 * 40);
    }
  }
}

TEST_CASE("a table outside memory maps nothing", "[mmu][PRT-08]") {
  SimFixture sim;
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  UnitBench bench(slow_params(), mode, 1);
  start();
  bench.set_root(1, std::uint64_t{1} << 40);
  bench.set_root(2, 8);  // not where a table can be
  run_until_idle();
  bench.requesters[0]->ask(0, 1, 0);
  bench.requesters[0]->ask(0, 2, 1);
  run_until_idle();
  REQUIRE(bench.requesters[0]->answers.size() == 2);
  for (const TranslationRequester::Answer& answer : bench.requesters[0]->answers)
    CHECK_FALSE(answer.packet.translation.present);
  sc_core::sc_time delay;
  CHECK_FALSE(bench.mmu.translate_blocking(1, 0, delay).present);
  CHECK_FALSE(bench.mmu.translate_blocking(2, 0, delay).present);
  CHECK_FALSE(bench.mmu.translate_debug(1, 0).present);
  CHECK(bench.mmu.translate_blocking(3, 0, delay).untranslated());
  CHECK(bench.violations().empty());
}

TEST_CASE("a changed root is told to everybody, and overtakes walks", "[mmu][MEM-04][PRT-08]") {
  SimFixture sim;
  UnitBench bench(slow_params(), TimingMode::at, 2);
  Space& before = bench.add_space();
  Space& after = bench.add_space();
  before.map(0, kSmallPage, kSmallPage, true);
  after.map(0, 2 * kSmallPage, kSmallPage, true);
  start();
  bench.set_root(1, before.tables.root());
  run_until_idle();
  bench.requesters[0]->invalidations.clear();
  bench.requesters[1]->invalidations.clear();
  const Cycle begin = bench.domain.now();
  bench.requesters[0]->ask(0, 1, 0);
  // In the middle of the walk.
  run_until(bench.domain.clock().time_of(begin + 20 + 5 + 25));
  bench.set_root(1, after.tables.root());
  run_until_idle();
  for (auto& requester : bench.requesters) {
    CHECK(requester->invalidations == std::vector<std::pair<std::uint8_t, Cycle>>{{1, begin + 50 + 20}});
  }
  REQUIRE(bench.requesters[0]->answers.size() == 1);
  CHECK(bench.requesters[0]->answers[0].packet.translation.frame == 2 * kSmallPage);
  CHECK(bench.stat("mmu.restarts") == 1);
  // And one that goes away.
  bench.requesters[0]->answers.clear();
  bench.set_root(1, before.tables.root());
  run_until_idle();
  bench.requesters[0]->ask(0, 1, 0);
  run_until(bench.domain.clock().time_of(bench.domain.now() + 50));
  bench.set_root(1, 0);
  run_until_idle();
  REQUIRE(bench.requesters[0]->answers.size() == 1);
  CHECK(bench.requesters[0]->answers[0].packet.translation.page_bits == arch::Translation::kWholeSpace);
  CHECK(bench.mmu.idle());
}

TEST_CASE("random asks are answered once each, as the tables say", "[mmu][random][MEM-04][PRT-08]") {
  for (const std::uint64_t seed : seeds(30)) {
    CAPTURE(seed);
    Random random(seed);
    SimFixture sim;
    memory::MmuParams params;
    params.l2_tlb.entries = random.between(1, 30);
    params.l2_tlb.ways = random.between(1, 4);
    params.l2_tlb.latency = random.between(0, 10);
    params.distance = random.between(0, 30);
    params.walkers = random.between(1, 5);
    const TimingMode mode = random.chance(30) ? TimingMode::lt : TimingMode::at;
    const std::uint32_t clients = random.between(1, 4);
    UnitBench bench(params, mode, clients);
    bench.table_memory.latency = random.between(1, 40);
    bench.table_memory.depth = random.between(1, 4);
    for (std::uint32_t i = 0; i < 3; ++i) {
      Space& space = bench.add_space();
      for (std::uint32_t n = random.between(1, 10); n > 0; --n) {
        const std::uint64_t unit = random.chance(30) ? kLargePage : kSmallPage;
        space.map(random.below(3) * unit, random.below(3) * unit, unit * random.between(1, 3), random.chance(50));
      }
    }
    start();
    std::map<std::uint32_t, std::pair<std::uint64_t, std::uint8_t>> asked;
    std::uint32_t tags = 0;
    for (int part = 0; part < 4; ++part) {
      for (std::uint8_t subcontext = 1; subcontext < 4; ++subcontext) {
        const std::uint32_t space = random.below(4);
        bench.set_root(subcontext, space == 3 ? 0 : bench.spaces[space]->tables.root());
      }
      run_until_idle();
      for (int i = 0; i < 60; ++i) {
        const std::uint64_t page = random.below(80) * kSmallPage;
        const auto subcontext = static_cast<std::uint8_t>(random.below(4));
        asked[tags] = {page, subcontext};
        bench.requesters[random.below(clients)]->ask(page, subcontext, tags++);
        if (random.chance(30)) {
          run_until(sc_core::sc_time_stamp() + sc_core::sc_time(random.between(1, 60), sc_core::SC_NS));
        }
      }
      if (part == 1) {
        bench.reset();
        asked.clear();
        for (auto& requester : bench.requesters) requester->answers.clear();
        continue;
      }
      run_until_idle();
      for (auto& requester : bench.requesters) {
        for (const TranslationRequester::Answer& answer : requester->answers) {
          const TranslatedPacket& packet = answer.packet;
          REQUIRE(asked.count(packet.tag) == 1);
          const auto [page, subcontext] = asked.at(packet.tag);
          asked.erase(packet.tag);
          const std::uint64_t root = bench.mmu.root(subcontext);
          REQUIRE((packet.translation.page_bits == arch::Translation::kWholeSpace) == (root == 0));
          if (root == 0) continue;
          const auto space = std::find_if(bench.spaces.begin(), bench.spaces.end(),
                                          [&](const auto& item) { return item->tables.root() == root; });
          const auto* range = (*space)->mappings.find(page);
          REQUIRE(packet.translation.present == (range != nullptr));
          if (range == nullptr) continue;
          REQUIRE(packet.translation.frame + (page - packet.translation.page) ==
                  range->physical + (page - range->first));
          REQUIRE(packet.translation.writable == range->writable);
        }
        requester->answers.clear();
      }
      REQUIRE(asked.empty());
      REQUIRE(bench.mmu.idle());
    }
    for (const std::string& violation : bench.violations()) FAIL_CHECK(violation);
  }
}

}  // namespace memory_mmu_test
