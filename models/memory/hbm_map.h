// Which channel, bank and row hold an address.
#pragma once

#include <cstdint>

#include "common/error.h"

namespace heddle::memory {

struct HbmPlace {
  std::uint32_t channel = 0;
  std::uint32_t bank = 0;  // its group: bank % groups
  std::uint32_t row = 0;
  std::uint64_t line = 0;  // number in the channel
};

// Pieces of `interleave` bytes are dealt to channels: every run of as many consecutive pieces as there are channels has
// one in each, and a hash turns the order from row to row. Inside a channel, rows are dealt to banks, bank groups
// first, and the bank is XORed with a hash of the row. So streams and strides of powers of two spread over both, and
// the lines of a piece share a row.
class HbmMap {
 public:
  static constexpr std::uint32_t kLineBytes = 128;

  // interleave and row_bytes: powers of two, interleave from a line to a row; banks: a power of two
  HbmMap(std::uint32_t channels, std::uint32_t banks, std::uint32_t row_bytes, std::uint64_t interleave)
      : channels_(channels),
        bank_bits_(log2_of(banks)),
        piece_bits_(log2_of(interleave)),
        row_bits_(log2_of(row_bytes)) {
    HEDDLE_CHECK(channels > 0 && interleave >= kLineBytes && interleave <= row_bytes,
                 "an interleave that no row holds");
  }

  std::uint32_t channels() const { return channels_; }

  HbmPlace place(std::uint64_t address) const {
    const std::uint64_t piece = address >> piece_bits_;
    const std::uint64_t run = piece / channels_;
    // Pieces that share a row stay in the same channel.
    const std::uint64_t turn = hash(run >> (row_bits_ - piece_bits_)) >> 32;
    HbmPlace place;
    place.channel = static_cast<std::uint32_t>((piece - run * channels_ + turn) % channels_);
    const std::uint64_t local = run << piece_bits_ | (address & ((std::uint64_t{1} << piece_bits_) - 1));
    place.line = local / kLineBytes;
    const std::uint64_t row = local >> row_bits_;
    const std::uint64_t high = row >> bank_bits_;
    const std::uint64_t banks = std::uint64_t{1} << bank_bits_;
    place.bank = static_cast<std::uint32_t>((row ^ hash(high) >> 32) & (banks - 1));
    place.row = static_cast<std::uint32_t>(high);
    return place;
  }

 private:
  static std::uint64_t hash(std::uint64_t value) {
    value *= 0x9E37'79B9'7F4A'7C15U;
    return value ^ value >> 29;
  }
  static std::uint32_t log2_of(std::uint64_t value) {
    HEDDLE_CHECK(value != 0 && (value & (value - 1)) == 0, "not a power of two");
    return static_cast<std::uint32_t>(63 - __builtin_clzll(value));
  }

  std::uint32_t channels_;
  std::uint32_t bank_bits_;
  std::uint32_t piece_bits_;
  std::uint32_t row_bits_;
};

}  // namespace heddle::memory
