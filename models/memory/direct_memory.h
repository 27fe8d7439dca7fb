// Pieces of device memory to which others have a pointer (DMI, HST-02), and how they lose it.
//
// A piece is granted while no cache holds anything of it. From then on its bytes belong to whoever has the pointer,
// until the machine touches one of them: then the grant of the whole piece ends first. Debug accesses see the same
// bytes and end nothing.
//
// Pieces are as large as they can be, for whoever fills or reads a memory that the machine lets alone. Where both sides
// work, each grant costs a look at the caches for all of it, and is soon over: where the machine has ended one, pieces
// begin small again, and double with each that is asked for there without another end; where they cannot be granted,
// they are halved.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

#include "common/storage.h"

namespace heddle::memory {

class DirectMemory {
 public:
  explicit DirectMemory(Storage& storage) : storage_(storage) {}

  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;  // its last byte
  };
  static constexpr std::uint64_t kLeastBytes = std::uint64_t{16} << 10;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 20;
  static_assert(Storage::kLeafBytes % kMostBytes == 0);

  // The grant that has that address; nothing: there is none.
  std::optional<Range> granted(std::uint64_t address) const;
  // Bytes of the piece that is to be asked for around an address of memory: kLeastBytes to kMostBytes, a power of two.
  std::uint64_t piece_bytes(std::uint64_t address) const;
  // The piece of so many bytes around it, as far as it lies in memory.
  Range piece_of(std::uint64_t address, std::uint64_t bytes) const;

  // The caches do not let go of the piece of piece_bytes(): the next one is half as large, down to kLeastBytes.
  void refuse(std::uint64_t address);
  // The pointer to the first byte of the piece, good until on_end is called with a range that touches it. The caches
  // have let go of all of it. Grants within it are a part of it from now on.
  std::uint8_t* grant(const Range& piece);
  // Called with the range of a grant that ends, before the access that ends it.
  void on_end(std::function<void(std::uint64_t first, std::uint64_t last)> listener) { on_end_ = std::move(listener); }

  // True if anything is granted: asked before every access of the machine.
  bool any() const { return any_; }
  // An access of the machine to those bytes; they need not lie in memory.
  void end(std::uint64_t address, std::uint64_t bytes);
  void end_all();

 private:
  static std::uint64_t block_of(std::uint64_t address) { return address / kMostBytes; }

  Storage& storage_;
  std::map<std::uint64_t, std::uint64_t> granted_;         // last byte by first; none touches another
  std::unordered_map<std::uint64_t, std::uint64_t> next_;  // by block: bytes of its next piece; else kMostBytes
  bool any_ = false;
  std::function<void(std::uint64_t, std::uint64_t)> on_end_;
};

}  // namespace heddle::memory
