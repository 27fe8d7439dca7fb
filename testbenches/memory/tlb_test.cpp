// The TLB against a list of pages in order of use (MEM-04, PRT-08).
#include "memory/tlb.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace memory_tlb_test {

using namespace heddle;
using namespace heddle::test;
using arch::Translation;
using memory::Tlb;

namespace {

Translation page_at(std::uint64_t address, std::uint32_t bits, std::uint64_t frame, bool writable = true) {
  return {true, writable, address >> bits << bits, frame, bits};
}

// All pages in one list, the latest used last. A set is what the TLB says it is; everything else is found by looking.
struct ListOfPages {
  struct Item {
    std::uint8_t subcontext = 0;
    Translation page;
  };
  const Tlb& tlb;
  std::vector<Item> items;

  std::vector<Item>::iterator find(std::uint8_t subcontext, std::uint64_t address, std::uint32_t bits) {
    return std::find_if(items.begin(), items.end(), [=](const Item& item) {
      return item.subcontext == subcontext && item.page.page_bits == bits && item.page.page == address >> bits << bits;
    });
  }
  std::uint32_t set_of(const Item& item) const {
    return tlb.set_of(item.subcontext, item.page.page, item.page.page_bits);
  }
  void use(std::vector<Item>::iterator item) { std::rotate(item, item + 1, items.end()); }
  const Translation* look(std::uint8_t subcontext, std::uint64_t address) {
    auto found = find(subcontext, address, arch::kSmallPageBits);
    if (found == items.end()) found = find(subcontext, address, arch::kLargePageBits);
    if (found == items.end()) return nullptr;
    use(found);
    return &items.back().page;
  }
  void insert(std::uint8_t subcontext, const Translation& page) {
    const auto old = find(subcontext, page.page, page.page_bits);
    if (old != items.end()) items.erase(old);
    const Item item{subcontext, page};
    const auto same = [&](const Item& other) { return set_of(other) == set_of(item); };
    if (std::count_if(items.begin(), items.end(), same) == static_cast<std::ptrdiff_t>(tlb.ways())) {
      items.erase(std::find_if(items.begin(), items.end(), same));
    }
    items.push_back(item);
  }
  void invalidate(std::uint8_t subcontext) {
    items.erase(
        std::remove_if(items.begin(), items.end(), [=](const Item& item) { return item.subcontext == subcontext; }),
        items.end());
  }
};

}  // namespace

TEST_CASE("a TLB gives a subcontext its own pages only", "[tlb][MEM-04][PRT-08]") {
  Tlb tlb(8, 2);
  tlb.insert(1, page_at(0x50000, 16, 0x10000));
  tlb.insert(2, page_at(0x50000, 16, 0x20000, false));
  tlb.insert(2, page_at(0x40'0000, 21, 0x20'0000));
  REQUIRE(tlb.find(1, 0x5'1234) != nullptr);
  CHECK(tlb.find(1, 0x5'1234)->physical(0x5'1234) == 0x1'1234);
  CHECK(tlb.find(2, 0x5'1234)->physical(0x5'1234) == 0x2'1234);
  CHECK_FALSE(tlb.find(2, 0x5'1234)->allows(true));
  CHECK(tlb.find(3, 0x5'1234) == nullptr);
  CHECK(tlb.find(1, 0x45'0000) == nullptr);
  CHECK(tlb.find(2, 0x45'0000)->physical(0x45'0000) == 0x25'0000);
  tlb.invalidate(2);
  CHECK(tlb.find(2, 0x5'1234) == nullptr);
  CHECK(tlb.find(2, 0x45'0000) == nullptr);
  CHECK(tlb.find(1, 0x5'1234) != nullptr);
  tlb.reset();
  CHECK(tlb.size() == 0);
}

TEST_CASE("sizes of a TLB", "[tlb][MEM-04]") {
  CHECK(Tlb(64, 4).sets() == 16);
  CHECK(Tlb(67, 4).sets() == 16);
  CHECK(Tlb(3, 8).sets() == 1);
  CHECK(Tlb(3, 8).ways() == 3);
  CHECK(Tlb(1, 1).sets() == 1);
}

TEST_CASE("a TLB does what a list in order of use does", "[tlb][random][MEM-04]") {
  for (const std::uint64_t seed : seeds(40)) {
    CAPTURE(seed);
    Random random(seed);
    Tlb tlb(random.between(1, 40), random.between(1, 8));
    ListOfPages list{tlb, {}};
    const std::uint32_t subcontexts = random.between(1, 4);
    for (int step = 0; step < 3000; ++step) {
      const auto subcontext = static_cast<std::uint8_t>(random.chance(5) ? 63 : random.below(subcontexts));
      const std::uint64_t address = random.below(24) * std::uint64_t{0x3'0000} + random.below(0x1'0000);
      if (random.chance(2)) {
        tlb.invalidate(subcontext);
        list.invalidate(subcontext);
      } else if (random.chance(40)) {
        const std::uint32_t bits = random.chance(30) ? arch::kLargePageBits : arch::kSmallPageBits;
        const Translation page = page_at(address, bits, random.below(100) << bits, random.chance(50));
        tlb.insert(subcontext, page);
        list.insert(subcontext, page);
      } else {
        const Translation* wanted = list.look(subcontext, address);
        const Translation* found = tlb.find(subcontext, address);
        REQUIRE((found != nullptr) == (wanted != nullptr));
        if (found != nullptr) REQUIRE(*found == *wanted);
      }
      REQUIRE(tlb.size() == list.items.size());
    }
  }
}

}  // namespace memory_tlb_test
