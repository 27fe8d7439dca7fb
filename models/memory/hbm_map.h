// Which channel, bank and row hold an address.
#pragma once

#include <cstdint>

#include "common/error.h"

namespace heddle::memory {

struct DecodedAddress {
  std::uint32_t channel = 0;
  std::uint32_t bank = 0;  // its group: bank % groups
  std::uint32_t row = 0;
  std::uint64_t line = 0;  // number in the channel
};

// Chunks of `interleave` bytes are dealt to channels: every run of as many consecutive chunks as there are channels has
// one in each, and a hash turns the order from row to row. Inside a channel, rows are dealt to banks, bank groups
// first, and the bank is XORed with a hash of the row. So streams and strides of powers of two spread over both, and
// the lines of a chunk share a row.
class HbmMap {
 public:
  static constexpr std::uint32_t kLineBytes = 128;

  // interleave and row_bytes: powers of two, interleave from a line to a row; banks: a power of two
  HbmMap(std::uint32_t channels, std::uint32_t banks, std::uint32_t row_bytes, std::uint64_t interleave)
      : channels_(channels),
        bank_bits_(log2_of(banks)),
        chunk_bits_(log2_of(interleave)),
        row_bits_(log2_of(row_bytes)) {
    HEDDLE_CHECK(channels > 0 && interleave >= kLineBytes && interleave <= row_bytes,
                 "an interleave that no row holds");
  }

  std::uint32_t channels() const { return channels_; }

  DecodedAddress decode(std::uint64_t address) const {
    const std::uint64_t chunk = address >> chunk_bits_;
    const std::uint64_t run = chunk / channels_;
    // Chunks that share a row stay in the same channel.
    const std::uint64_t turn = hash(run >> (row_bits_ - chunk_bits_)) >> 32;
    DecodedAddress decoded;
    decoded.channel = static_cast<std::uint32_t>((chunk - run * channels_ + turn) % channels_);
    const std::uint64_t local = run << chunk_bits_ | (address & ((std::uint64_t{1} << chunk_bits_) - 1));
    decoded.line = local / kLineBytes;
    const std::uint64_t row = local >> row_bits_;
    const std::uint64_t high = row >> bank_bits_;
    const std::uint64_t banks = std::uint64_t{1} << bank_bits_;
    decoded.bank = static_cast<std::uint32_t>((row ^ hash(high) >> 32) & (banks - 1));
    decoded.row = static_cast<std::uint32_t>(high);
    return decoded;
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
  std::uint32_t chunk_bits_;
  std::uint32_t row_bits_;
};

}  // namespace heddle::memory
