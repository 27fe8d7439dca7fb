// The state of a CTA as bytes (TSK-12).
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "sm/saved_cta.h"
#include "support/random.h"

namespace sm_save_state_test {

using heddle::InputError;
using heddle::arch::kWarpLanes;
using heddle::sm::CtaBarriers;
using heddle::sm::restore_cta;
using heddle::sm::save;
using heddle::sm::SavedCta;
using heddle::sm::SavedHeader;
using heddle::sm::SavedWarp;
using heddle::test::Random;

namespace {

using At = SavedWarp::At;

SavedWarp random_warp(Random& random, At at) {
  SavedWarp warp;
  warp.at = at;
  warp.issued_pc = random.below(1'000'000);
  warp.cluster_arrived = random.chance(30);
  warp.cluster_passed = warp.cluster_arrived && random.chance(50);
  if (at == At::exited) {
    warp.state.exited = true;
    return warp;
  }
  warp.state.pc = random.below(1U << 31);
  warp.state.registers.resize(std::size_t{random.below(5)} * kWarpLanes);
  for (std::uint32_t& value : warp.state.registers) value = static_cast<std::uint32_t>(random.next());
  warp.state.scalars.resize(random.below(6));
  for (std::int64_t& value : warp.state.scalars) value = static_cast<std::int64_t>(random.next());
  return warp;
}

// Warps that are left wait for children, or at barriers that still wait for somebody.
SavedCta random_cta(Random& random) {
  SavedCta cta;
  cta.operation = random.below(1U << 31);
  cta.index = random.next();
  cta.record = random.next();
  cta.context = random.next();
  cta.kernarg = random.next();
  cta.queue = random.chance(30);
  cta.gives_turn = random.chance(30);
  cta.turn_entry = random.next();
  cta.turn = random.next();
  const std::uint32_t warps = random.between(1, 12);
  std::vector<At> at(warps, At::children);
  for (std::uint32_t i = 1; i < warps; ++i) at[i] = static_cast<At>(random.below(3));
  random.shuffle(at);
  const auto exited = static_cast<std::uint32_t>(std::count(at.begin(), at.end(), At::exited));
  cta.barriers.warps = warps;
  cta.barriers.left = warps - exited;
  std::vector<std::uint32_t> barrier(warps, 0);
  const std::uint32_t first = random.below(CtaBarriers::kBarriers - 3);
  const std::uint32_t used = random.between(1, 3);
  for (std::uint32_t warp = 0; warp < warps; ++warp) {
    if (at[warp] == At::barrier) barrier[warp] = first + random.below(used);
  }
  for (std::uint32_t number = first; number < first + used; ++number) {
    CtaBarriers::Waiting waiting;
    waiting.barrier = number;
    for (std::uint32_t warp = 0; warp < warps; ++warp) {
      if (at[warp] == At::barrier && barrier[warp] == number) waiting.warps.push_back(warp);
    }
    if (waiting.warps.empty()) continue;
    random.shuffle(waiting.warps);
    const auto came = static_cast<std::uint32_t>(waiting.warps.size());
    if (random.chance(50)) waiting.threads = kWarpLanes * random.between(came + 1, cta.barriers.left);
    cta.barriers.waiting.push_back(waiting);
  }
  for (std::uint32_t warp = 0; warp < warps; ++warp) {
    cta.warps.push_back(random_warp(random, at[warp]));
    cta.warps.back().barrier = barrier[warp];
  }
  cta.cluster_arrived = random.below(warps + 1);
  cta.cluster_phases = random.below(1000);
  cta.shared.resize(random.below(300));
  for (std::uint8_t& byte : cta.shared) byte = static_cast<std::uint8_t>(random.next());
  return cta;
}

bool same(const SavedWarp& a, const SavedWarp& b) {
  return a.at == b.at && a.barrier == b.barrier && a.issued_pc == b.issued_pc &&
         a.cluster_arrived == b.cluster_arrived && a.cluster_passed == b.cluster_passed && a.state.pc == b.state.pc &&
         a.state.exited == b.state.exited && a.state.registers == b.state.registers &&
         a.state.scalars == b.state.scalars;
}

bool same(const SavedCta& a, const SavedCta& b) {
  const bool numbers = a.operation == b.operation && a.index == b.index && a.record == b.record &&
                       a.context == b.context && a.kernarg == b.kernarg && a.queue == b.queue &&
                       a.gives_turn == b.gives_turn && a.turn_entry == b.turn_entry && a.turn == b.turn &&
                       a.cluster_arrived == b.cluster_arrived && a.cluster_phases == b.cluster_phases;
  const auto equal = [](const SavedWarp& left, const SavedWarp& right) { return same(left, right); };
  return numbers && a.barriers == b.barriers && a.shared == b.shared && a.warps.size() == b.warps.size() &&
         std::equal(a.warps.begin(), a.warps.end(), b.warps.begin(), equal);
}

// As save() does it, for bytes that are wrong in another way.
void sign(std::vector<std::uint8_t>& bytes) {
  std::uint64_t sum = 0xCBF2'9CE4'8422'2325U;
  for (std::size_t i = 0; i + 8 < bytes.size(); ++i) sum = (sum ^ bytes[i]) * 0x0000'0100'0000'01B3U;
  for (std::size_t i = 0; i < 8; ++i) bytes[bytes.size() - 8 + i] = static_cast<std::uint8_t>(sum >> (8 * i));
}

std::string why(const SavedCta& cta) {
  try {
    restore_cta(save(cta));
  } catch (const InputError& error) {
    return error.message();
  }
  return {};
}

}  // namespace

TEST_CASE("the state of a CTA survives as bytes", "[sm][TSK-12]") {
  const std::uint64_t seed = heddle::test::seed();
  CAPTURE(seed);
  Random random(seed);
  for (int round = 0; round < 4000; ++round) {
    const SavedCta cta = random_cta(random);
    const std::vector<std::uint8_t> bytes = save(cta);
    const SavedCta back = restore_cta(bytes);
    REQUIRE(same(cta, back));
    REQUIRE(save(back) == bytes);
  }
}

TEST_CASE("damaged bytes of a CTA are refused", "[sm][TSK-12]") {
  const std::uint64_t seed = heddle::test::seed();
  CAPTURE(seed);
  Random random(seed + 1);
  for (int round = 0; round < 1500; ++round) {
    const std::vector<std::uint8_t> bytes = save(random_cta(random));
    std::vector<std::uint8_t> flipped = bytes;
    const std::uint32_t place = random.below(flipped.size());
    const auto mask = static_cast<std::uint8_t>(1U << random.below(8));
    flipped[place] = static_cast<std::uint8_t>(flipped[place] ^ mask);
    REQUIRE_THROWS_AS(restore_cta(flipped), InputError);
    std::vector<std::uint8_t> cut(bytes.begin(), bytes.begin() + random.below(bytes.size()));
    REQUIRE_THROWS_AS(restore_cta(cut), InputError);
    cut.resize(bytes.size() + 1 + random.below(100));
    REQUIRE_THROWS_AS(restore_cta(cut), InputError);
  }
  REQUIRE_THROWS_AS(restore_cta({}), InputError);
}

TEST_CASE("bytes that nobody has saved do no harm, even with the right check sum", "[sm][TSK-12]") {
  // What they say must be refused, or be a state that saves to the same bytes.
  const std::uint64_t seed = heddle::test::seed();
  CAPTURE(seed);
  Random random(seed + 2);
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::uint8_t> bytes = save(random_cta(random));
    const std::uint32_t changes = random.between(1, 4);
    for (std::uint32_t i = 0; i < changes; ++i) {
      bytes[8 + random.below(bytes.size() - 16)] = static_cast<std::uint8_t>(random.chance(50) ? 255 : random.next());
    }
    if (random.chance(20)) bytes.resize(bytes.size() - random.below(bytes.size() - 20));
    sign(bytes);
    try {
      const SavedCta cta = restore_cta(bytes);
      REQUIRE(save(cta) == bytes);
    } catch (const InputError&) {
      ++refused;
    }
  }
  CHECK(refused > 500);
  CHECK(refused < 4000);
}

TEST_CASE("what barriers and warps of a saved CTA say fits together", "[sm][TSK-12]") {
  // Four warps: one has exited, one waits for children, two at barrier 3 for all.
  SavedCta cta;
  cta.warps.resize(4);
  cta.warps[0].state.exited = true;
  cta.warps[1].at = At::children;
  cta.warps[2].at = cta.warps[3].at = At::barrier;
  cta.warps[2].barrier = cta.warps[3].barrier = 3;
  cta.barriers.warps = 4;
  cta.barriers.left = 3;
  cta.barriers.waiting = {{3, 0, {3, 2}}};
  REQUIRE(why(cta).empty());
  const auto refused = [&cta](auto&& change) {
    SavedCta other = cta;
    change(other);
    return !why(other).empty();
  };
  CHECK(refused([](SavedCta& c) { c.warps.pop_back(); }));
  CHECK(refused([](SavedCta& c) { c.warps[1].at = At::exited; }));
  CHECK(refused([](SavedCta& c) {
    c.warps[1].at = At::exited;
    c.barriers.left = 2;
  }));
  CHECK(refused([](SavedCta& c) { c.warps[2].barrier = 4; }));
  CHECK(refused([](SavedCta& c) { c.barriers.waiting[0].warps = {3}; }));
  CHECK(refused([](SavedCta& c) { c.barriers.waiting[0].warps = {3, 3}; }));
  CHECK(refused([](SavedCta& c) { c.barriers.waiting[0].warps = {3, 4}; }));
  CHECK(refused([](SavedCta& c) { c.barriers.waiting[0].warps = {1, 2, 3}; }));
  CHECK(refused([](SavedCta& c) { c.barriers.waiting[0].threads = 31; }));
  CHECK(refused([](SavedCta& c) { c.barriers.waiting[0].threads = 64; }));   // both have come
  CHECK(refused([](SavedCta& c) { c.barriers.waiting[0].threads = 128; }));  // one of them has exited
  CHECK(refused([](SavedCta& c) { c.barriers.waiting.push_back(c.barriers.waiting[0]); }));
  CHECK(refused([](SavedCta& c) {
    c.barriers.waiting[0].barrier = CtaBarriers::kBarriers;
    c.warps[2].barrier = c.warps[3].barrier = CtaBarriers::kBarriers;
  }));
  CHECK(refused([](SavedCta& c) { c.warps[1].state.exited = true; }));
}

TEST_CASE("barriers that are restored go on as those that were saved", "[sm][TSK-12]") {
  const std::uint64_t seed = heddle::test::seed();
  CAPTURE(seed);
  Random random(seed + 3);
  for (int round = 0; round < 3000; ++round) {
    const std::uint32_t warps = random.between(1, 10);
    CtaBarriers original;
    original.start(warps);
    CtaBarriers other;
    other.start(random.between(1, 20));
    std::vector<std::uint32_t> free(warps);
    std::iota(free.begin(), free.end(), 0U);
    const std::uint32_t restores_at = random.below(30);
    const auto released = [&free](const CtaBarriers& barriers) {
      free.insert(free.end(), barriers.opened().begin(), barriers.opened().end());
    };
    for (std::uint32_t step = 0; step < 40 && !free.empty(); ++step) {
      if (step == restores_at) {
        other.restore(original.save());
        REQUIRE(other.save() == original.save());
      }
      random.shuffle(free);
      const std::uint32_t warp = free.back();
      free.pop_back();
      CtaBarriers::Outcome outcome = CtaBarriers::Outcome::waits;
      if (random.chance(15)) {
        outcome = original.leave();
        if (step >= restores_at) REQUIRE(other.leave() == outcome);
      } else {
        const std::uint32_t number = random.below(2);
        const std::uint32_t threads = number == 0 ? 0 : kWarpLanes * std::min(2U, warps);
        outcome = original.arrive(number, threads, warp);
        if (step >= restores_at) REQUIRE(other.arrive(number, threads, warp) == outcome);
      }
      if (step >= restores_at) REQUIRE(other.opened() == original.opened());
      if (outcome == CtaBarriers::Outcome::wrong) break;
      released(original);
    }
  }
}

TEST_CASE("the first line of a saved CTA is what task management reads", "[sm][TSK-12]") {
  namespace saved = heddle::arch::saved;
  SavedHeader header;
  header.operation = 0x1122'3344;
  header.record = 0x1000'0000'0000'0080;
  header.context = 0x2000'0000'0000'0100;
  header.bytes = 12'345;
  header.index = 0x0102'0304'0506'0708;
  header.cta = {7, 8, 9};
  const heddle::sm::SavedLine line = line_of(header);
  CHECK(line[saved::kOperation] == 0x44);
  CHECK(line[saved::kRecord] == 0x80);
  CHECK(line[saved::kRecord + 7] == 0x10);
  CHECK(line[saved::kContext + 7] == 0x20);
  CHECK(line[saved::kBytes] == (12'345 & 0xFF));
  CHECK(line[saved::kIndex] == 8);
  CHECK(line[saved::kCtaX] == 7);
  CHECK(line[saved::kCtaY] == 8);
  CHECK(line[saved::kCtaZ] == 9);
  const SavedHeader back = heddle::sm::header_of(line);
  CHECK(back.operation == header.operation);
  CHECK(back.record == header.record);
  CHECK(back.context == header.context);
  CHECK(back.bytes == header.bytes);
  CHECK(back.index == header.index);
  CHECK(back.cta == header.cta);
}

}  // namespace sm_save_state_test
