// Cores of the DMA boundary: windows of subcontexts, direct pointers, who knows atomics.
#include "host/host_windows.h"

#include <array>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/address_map.h"
#include "host/dma_direct.h"
#include "support/random.h"

namespace heddle::test::host_windows_test {
namespace {

using host::HostWindows;
using protocol::HostWindowPacket;
using What = HostWindowPacket::What;

constexpr std::uint64_t kPage = protocol::kHostWindowPage;
constexpr std::uint64_t page(std::uint64_t number) { return arch::kHostWindow + number * kPage; }

}  // namespace

TEST_CASE("windows that make no sense are refused, and change nothing", "[host][HST-06]") {
  HostWindows windows(2);
  const HostWindowPacket good{What::open, 3, page(1), kPage, true, true};
  const auto refuses = [&](auto&& change) {
    HostWindowPacket packet = good;
    change(packet);
    return !windows.change(packet) && windows.count() == 0;
  };
  CHECK(refuses([](HostWindowPacket& packet) { packet.subcontext = 64; }));
  CHECK(refuses([](HostWindowPacket& packet) { packet.address += 128; }));
  CHECK(refuses([](HostWindowPacket& packet) { packet.bytes = 100; }));
  CHECK(refuses([](HostWindowPacket& packet) { packet.bytes = 0; }));
  CHECK(refuses([](HostWindowPacket& packet) { packet.address = kPage; }));  // device memory
  CHECK(refuses([](HostWindowPacket& packet) { packet.reads = packet.writes = false; }));
  CHECK(refuses([](HostWindowPacket& packet) { packet.address = 0 - 2 * kPage, packet.bytes = 3 * kPage; }));
  CHECK(refuses([](HostWindowPacket& packet) { packet.what = What::close, packet.subcontext = 64; }));
  // Up to the last address of all.
  CHECK(windows.change({What::open, 63, 0 - kPage, kPage, true, false}));
  CHECK(windows.change(good));
  CHECK_FALSE(windows.change(good));  // full
  CHECK(windows.count() == 2);
  CHECK(windows.change({What::isolate, 0, 0, 0, false, false}));
  CHECK(windows.isolated());
  CHECK(windows.allowed(63, ~std::uint64_t{0} - 7, 8, true, false) == 8);
  CHECK(windows.allowed(63, ~std::uint64_t{0} - 7, 8, false, true) == 0);
  CHECK(windows.change({What::close, 63, 0, 0, false, false}));
  CHECK(windows.count() == 1);
  windows.reset();
  CHECK((windows.count() == 0 && !windows.isolated()));
}

TEST_CASE("a subcontext reaches the bytes of its windows, and as far as they follow each other", "[host][HST-06]") {
  for (const std::uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    Random dice(seed);
    constexpr std::uint32_t kPages = 8;
    HostWindows windows(100);
    // By subcontext and page: what it may do there.
    std::array<std::array<bool, kPages>, 3> reads{};
    std::array<std::array<bool, kPages>, 3> writes{};
    bool isolated = false;
    for (int step = 0; step < 60; ++step) {
      const std::uint32_t what = dice.below(12);
      const auto subcontext = static_cast<std::uint8_t>(dice.below(3));
      if (what == 0) {
        isolated = !isolated;
        REQUIRE(windows.change({isolated ? What::isolate : What::share, 0, 0, 0, false, false}));
      } else if (what == 1) {
        reads[subcontext] = writes[subcontext] = {};
        REQUIRE(windows.change({What::close, subcontext, 0, 0, false, false}));
      } else if (what < 4) {
        const std::uint32_t first = dice.below(kPages);
        const std::uint32_t count = dice.between(1, kPages - first);
        const bool may_read = dice.chance(70);
        const bool may_write = !may_read || dice.chance(50);
        REQUIRE(windows.change({What::open, subcontext, page(first), count * kPage, may_read, may_write}));
        for (std::uint32_t i = first; i < first + count; ++i) {
          reads[subcontext][i] |= may_read;
          writes[subcontext][i] |= may_write;
        }
      }
      const std::uint64_t begin = dice.below(kPages * kPage);
      const std::uint64_t bytes = dice.between(1, dice.chance(50) ? 128 : 3 * kPage);
      const bool write = dice.chance(50);
      std::uint64_t expected = 0;
      const auto& may = write ? writes[subcontext] : reads[subcontext];
      while (expected < bytes && begin + expected < kPages * kPage && may[(begin + expected) / kPage]) ++expected;
      if (!isolated || subcontext == 0) expected = bytes;
      REQUIRE(windows.allowed(subcontext, arch::kHostWindow + begin, bytes, !write, write) == expected);
    }
  }
}

TEST_CASE("an atomic takes both rights in one window", "[host][HST-06]") {
  HostWindows windows(10);
  REQUIRE(windows.change({What::isolate, 0, 0, 0, false, false}));
  REQUIRE(windows.change({What::open, 2, page(0), kPage, true, false}));
  CHECK(windows.allowed(2, page(0), 8, true, true) == 0);
  REQUIRE(windows.change({What::open, 2, page(0), kPage, true, true}));
  CHECK(windows.allowed(2, page(0), 8, true, true) == 8);
}

TEST_CASE("direct pointers are found where they were granted, and are gone where they were taken back",
          "[host][HST-02]") {
  using Grant = host::DirectGrants::Grant;
  std::array<unsigned char, 4096> memory{};
  host::DirectGrants grants;
  Grant grant;
  grant.subcontext = 1;
  grant.first = 0x1000;
  grant.last = 0x1FFF;
  grant.pointer = memory.data();
  grant.allowed[0] = true;
  grants.add(grant);
  REQUIRE(grants.find(1, 0x1000, 8, false) != nullptr);
  CHECK(grants.find(1, 0x1FF8, 8, false)->at(0x1FF8) == memory.data() + 0xFF8);
  CHECK(grants.find(1, 0x1FF9, 8, false) == nullptr);
  CHECK(grants.find(1, 0x0FFF, 8, false) == nullptr);
  CHECK(grants.find(1, 0x1000, 8, true) == nullptr);
  CHECK(grants.find(2, 0x1000, 8, false) == nullptr);
  CHECK((grants.knows(1, 0x1000, false) && !grants.knows(1, 0x1000, true) && !grants.knows(1, 0x2000, false)));
  Grant refusal;
  refusal.subcontext = 1;
  refusal.asked[1] = true;
  refusal.first = 0x2000;
  refusal.last = ~std::uint64_t{0};
  grants.add(refusal);
  CHECK((grants.knows(1, 0x2000, true) && grants.find(1, 0x2000, 8, false) == nullptr));
  CHECK_FALSE(grants.knows(1, 0x2000, false));  // it was asked for writes
  grants.invalidate(0x2000, 0x2FFF);            // nothing of the grant; what was refused may be granted now
  CHECK(grants.find(1, 0x1000, 8, false) != nullptr);
  CHECK_FALSE(grants.knows(1, 0x2000, true));
  grants.invalidate(0x0, 0x1000);
  CHECK(grants.find(1, 0x1800, 8, false) == nullptr);
  // The oldest of too many goes.
  for (std::uint64_t i = 0; i < 17; ++i) {
    grant.first = i << 16;
    grant.last = grant.first + 0xFFFF;
    grants.add(grant);
  }
  CHECK(grants.find(1, 0, 8, false) == nullptr);
  for (std::uint64_t i = 1; i < 17; ++i) CHECK(grants.find(1, i << 16, 8, false) != nullptr);
  grants.clear();
  CHECK(grants.find(1, 5 << 16, 8, false) == nullptr);
}

TEST_CASE("what is known of atomics holds for a region, until another one takes its place", "[host][HST-06]") {
  using Verdict = host::AtomicRegions::Verdict;
  host::AtomicRegions regions;
  CHECK(regions.at(0) == Verdict::unknown);
  regions.note(100, true);
  CHECK((regions.at(0) == Verdict::knows && regions.at(4095) == Verdict::knows));
  CHECK(regions.at(4096) == Verdict::unknown);
  regions.note(5000, false);
  CHECK((regions.at(4096) == Verdict::ignores && regions.at(0) == Verdict::knows));
  regions.note(256 * 4096 + 8, false);
  CHECK((regions.at(256 * 4096) == Verdict::ignores && regions.at(0) == Verdict::unknown));
  regions.clear();
  CHECK(regions.at(4096) == Verdict::unknown);
}

}  // namespace heddle::test::host_windows_test
