// Page tables: what the builder writes is what a walk finds, against a plain map of pages (MEM-04).
#include "arch/page_table.h"

#include <map>
#include <unordered_map>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"

namespace arch_page_table_test {

using namespace heddle;
using namespace heddle::test;
using arch::kLargePage;
using arch::kSmallPage;
using arch::PageEntry;
using arch::PageTables;
using arch::PageWalk;
using arch::Translation;

namespace {

// Memory in which words that nobody has written are rubbish.
struct Words {
  std::unordered_map<std::uint64_t, std::uint64_t> words;
  PageTables::Write write() {
    return [this](std::uint64_t address, std::uint64_t value) {
      REQUIRE(address % 8 == 0);
      words[address] = value;
    };
  }
  std::uint64_t read(std::uint64_t address) const {
    const auto found = words.find(address);
    return found == words.end() ? 0xDEAD'BEEF'DEAD'BEEF : found->second;
  }
  Translation walk(std::uint64_t root, std::uint64_t address) const {
    PageWalk walk(root, address);
    while (!walk.done()) walk.feed(read(walk.wanted()));
    return walk.result();
  }
};

struct Page {
  std::uint64_t frame = 0;
  bool writable = false;
};

}  // namespace

TEST_CASE("page entries that are not as they should be map nothing", "[page_table][MEM-04]") {
  const auto kind = [](std::uint64_t word, std::uint32_t level) { return arch::decode_entry(word, level).kind; };
  for (std::uint32_t level = 0; level < arch::kPageLevels; ++level) {
    CAPTURE(level);
    const auto good = level == 3 ? PageEntry::Kind::page : PageEntry::Kind::table;
    CHECK(kind(0, level) == PageEntry::Kind::none);
    CHECK(kind(0x1'0000 | 1, level) == good);
    CHECK(kind(0x1'0000, level) == PageEntry::Kind::none);
    CHECK(kind(0x1'0000 | 1 | 8, level) == PageEntry::Kind::none);
    CHECK(kind(0x1'0000 | 1 | std::uint64_t{1} << 56, level) == PageEntry::Kind::none);
    CHECK(kind(kLargePage | 5, level) == (level == 2 ? PageEntry::Kind::page : PageEntry::Kind::none));
    CHECK(kind(0x1'0000 | 3, level) == (level == 3 ? PageEntry::Kind::page : PageEntry::Kind::none));
  }
  CHECK(kind(0x100 | 1, 2) == PageEntry::Kind::table);
  CHECK(kind(0x100 | 1, 3) == PageEntry::Kind::none);       // a frame inside a page
  CHECK(kind(kSmallPage | 5, 2) == PageEntry::Kind::none);  // a large one as well
  CHECK(arch::decode_entry(arch::page_entry(kLargePage, true, true), 2).writable);
  CHECK_FALSE(arch::decode_entry(arch::page_entry(kLargePage, false, true), 2).writable);
}

TEST_CASE("addresses and roots that cannot be are not walked", "[page_table][MEM-04]") {
  Words memory;
  PageTables tables(0x4000, 1 << 20, memory.write());
  tables.map(0, 0, kLargePage, true);
  CHECK(memory.walk(tables.root(), 0).present);
  CHECK_FALSE(memory.walk(tables.root(), std::uint64_t{1} << 49).present);
  CHECK_FALSE(memory.walk(tables.root(), ~std::uint64_t{0}).present);
  CHECK_FALSE(memory.walk(tables.root() + 8, 0).present);
  const std::uint64_t last = (std::uint64_t{1} << 49) - kSmallPage;
  tables.map(last, kSmallPage, kSmallPage, false);
  CHECK(memory.walk(tables.root(), last + 5).physical(last + 5) == kSmallPage + 5);
  CHECK_FALSE(memory.walk(tables.root(), last).allows(true));
  CHECK(memory.walk(tables.root(), last).allows(false));
}

TEST_CASE("page tables that do not fit are refused with a remedy", "[page_table][MEM-04]") {
  Words memory;
  PageTables tables(0, 2048 + 8192 + 8192, memory.write());
  tables.map(0, 0, kLargePage, true);
  CHECK_THROWS_AS(tables.map(kLargePage, 0, kSmallPage, true), InputError);
  CHECK_THROWS_AS(PageTables(256, 2047, memory.write()), InputError);
}

TEST_CASE("what is mapped is found, and nothing else", "[page_table][random][MEM-04]") {
  constexpr std::uint64_t kTables = std::uint64_t{1} << 50;
  for (const std::uint64_t seed : seeds(40)) {
    CAPTURE(seed);
    Random random(seed);
    Words memory;
    PageTables tables(kTables, std::uint64_t{1} << 30, memory.write());
    std::map<std::uint64_t, Page> pages;  // by number of the small page
    // A few neighbourhoods, so that ranges meet and split each other.
    std::vector<std::uint64_t> bases;
    for (int i = 0; i < 3; ++i) bases.push_back((random.next() >> 15) / kLargePage * kLargePage);
    bases.push_back(0);
    const auto address = [&] {
      const std::uint64_t base = bases[random.below(bases.size())];
      return (base + random.below(4 * 32) * kSmallPage) & ((std::uint64_t{1} << 49) - 1);
    };
    for (int step = 0; step < 60; ++step) {
      std::uint64_t at = address();
      std::uint64_t frame = random.below(1 << 20) * kSmallPage;
      if (random.chance(50)) frame = frame / kLargePage * kLargePage + at % kLargePage;  // large ones are possible
      const std::uint64_t most = ((std::uint64_t{1} << 49) - at) / kSmallPage;
      const std::uint64_t count = std::min<std::uint64_t>(random.between(1, 80), most);
      const bool maps = random.chance(70);
      const bool writable = random.chance(50);
      if (maps) {
        tables.map(at, frame, count * kSmallPage, writable);
      } else {
        tables.unmap(at, count * kSmallPage);
      }
      for (std::uint64_t i = 0; i < count; ++i) {
        if (maps) {
          pages[at / kSmallPage + i] = {frame + i * kSmallPage, writable};
        } else {
          pages.erase(at / kSmallPage + i);
        }
      }
      for (int look = 0; look < 30; ++look) {
        const std::uint64_t where = address() + random.below(kSmallPage);
        const Translation found = memory.walk(tables.root(), where);
        const auto page = pages.find(where / kSmallPage);
        REQUIRE(found.present == (page != pages.end()));
        if (!found.present) continue;
        REQUIRE(found.covers(where));
        REQUIRE(found.physical(where) == page->second.frame + where % kSmallPage);
        REQUIRE(found.writable == page->second.writable);
      }
    }
    for (const auto& [number, page] : pages) {
      REQUIRE(memory.walk(tables.root(), number * kSmallPage).frame <= page.frame);
      REQUIRE(memory.walk(tables.root(), number * kSmallPage).physical(number * kSmallPage) == page.frame);
    }
  }
}

TEST_CASE("the estimate of a builder's memory suffices", "[page_table][random][MEM-04]") {
  for (const std::uint64_t seed : seeds(30)) {
    CAPTURE(seed);
    Random random(seed);
    Words memory;
    const std::uint32_t ranges = random.between(1, 12);
    std::uint64_t bytes = 0;
    std::vector<std::uint64_t> sizes(ranges);
    for (std::uint64_t& size : sizes) bytes += size = random.between(1, 400) * kSmallPage;
    PageTables tables(0, arch::page_table_bytes(ranges, bytes), memory.write());
    for (const std::uint64_t size : sizes) {
      const std::uint64_t at = (random.next() >> 16) / kSmallPage * kSmallPage;
      REQUIRE_NOTHROW(tables.map(at, random.below(1000) * kSmallPage, size, true));
    }
    REQUIRE(tables.used() <= arch::page_table_bytes(ranges, bytes));
  }
}

}  // namespace arch_page_table_test
