// Pages of device memory to which others have a pointer (DMI, HST-02), and how they lose it.
//
// A page is granted while no cache holds anything of it. From then on its bytes belong to whoever has the pointer,
// until the machine touches one of them: then the grant ends first. Debug accesses see the same bytes and end nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_set>

#include "common/storage.h"

namespace heddle::memory {

class DirectMemory {
 public:
  explicit DirectMemory(Storage& storage) : storage_(storage) {}

  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;  // its last byte
  };
  // What is granted as one: the page around an address of memory.
  Range page_of(std::uint64_t address) const;

  // The pointer to the first byte of the page, good until on_end is called with it. The caches have let go of the page.
  std::uint8_t* grant(std::uint64_t address);
  // Called with the range of a grant that ends, before the access that ends it.
  void on_end(std::function<void(std::uint64_t first, std::uint64_t last)> listener) { on_end_ = std::move(listener); }

  // True if anything is granted: asked before every access of the machine.
  bool any() const { return any_; }
  // An access of the machine to those bytes; they need not lie in memory.
  void end(std::uint64_t address, std::uint64_t bytes);
  void end_all();

 private:
  Storage& storage_;
  std::unordered_set<std::uint64_t> granted_;  // numbers of pages
  bool any_ = false;
  std::function<void(std::uint64_t, std::uint64_t)> on_end_;
};

}  // namespace heddle::memory
