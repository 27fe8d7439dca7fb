// Records of bytes of any length, lowest byte first, with a check sum: how states of warps and CTAs are saved.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/error.h"

namespace heddle::arch {

// FNV-1a: against bytes that were damaged or cut, not against forgery.
inline std::uint64_t check_sum(const std::uint8_t* bytes, std::size_t count) {
  std::uint64_t sum = 0xCBF2'9CE4'8422'2325U;
  for (std::size_t i = 0; i < count; ++i) sum = (sum ^ bytes[i]) * 0x0000'0100'0000'01B3U;
  return sum;
}
constexpr std::size_t kCheckSumBytes = 8;

class ByteWriter {
 public:
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  void put(std::uint64_t value, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) bytes_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  }
  void word(std::uint64_t value) { put(value, 4); }
  // A block with its length in front.
  void block(const std::vector<std::uint8_t>& block) {
    word(block.size());
    bytes_.insert(bytes_.end(), block.begin(), block.end());
  }
  // All of it, and the sum of that behind it.
  std::vector<std::uint8_t> summed() {
    put(check_sum(bytes_.data(), bytes_.size()), kCheckSumBytes);
    return std::move(bytes_);
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

// Nothing beyond the end is read: `Fail` is called with why the bytes are none that were written, and throws.
template <void (*Fail)(const char* why)>
class ByteReader {
 public:
  // The bytes in front of `end`, from `at` on.
  ByteReader(const std::vector<std::uint8_t>& bytes, std::size_t end, std::size_t at = 0)
      : bytes_(bytes), end_(end), at_(at) {}

  std::uint64_t take(std::size_t count) {
    need(count);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) value |= std::uint64_t{bytes_[at_ + i]} << (8 * i);
    at_ += count;
    return value;
  }
  std::uint32_t word() { return static_cast<std::uint32_t>(take(4)); }
  bool flag() {
    const std::uint64_t value = take(1);
    if (value > 1) Fail("a flag is neither 0 nor 1");
    return value == 1;
  }
  // A number of things that take at least `least` bytes each.
  std::uint32_t count(std::size_t least) {
    const std::uint32_t value = word();
    need(std::uint64_t{value} * least);
    return value;
  }
  std::vector<std::uint8_t> block() {
    const std::uint32_t size = count(1);
    const auto first = bytes_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += size;
    return {first, first + static_cast<std::ptrdiff_t>(size)};
  }
  bool over() const { return at_ == end_; }

 private:
  void need(std::uint64_t count) const {
    if (count > end_ - at_) Fail("it ends too early");
  }

  const std::vector<std::uint8_t>& bytes_;
  std::size_t end_;
  std::size_t at_;
};

// Whether the sum behind all other bytes is theirs. There must be as many as it takes.
inline bool has_check_sum(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t sum = 0;
  const std::size_t end = bytes.size() - kCheckSumBytes;
  for (std::size_t i = 0; i < kCheckSumBytes; ++i) sum |= std::uint64_t{bytes[end + i]} << (8 * i);
  return sum == check_sum(bytes.data(), end);
}

// Numbers in records of bytes, lowest byte first.

// Up to 8 bytes as a number.
inline std::uint64_t load_number(const std::uint8_t* from, std::uint32_t bytes) {
  std::uint64_t value = 0;
  for (std::uint32_t i = bytes; i-- > 0;) value = value << 8 | from[i];
  return value;
}
inline void store_number(std::uint8_t* to, std::uint32_t bytes, std::uint64_t value) {
  for (std::uint32_t i = 0; i < bytes; ++i, value >>= 8) to[i] = static_cast<std::uint8_t>(value);
}

template <std::size_t size>
std::uint64_t get_number(const std::array<std::uint8_t, size>& from, std::size_t at, std::size_t bytes) {
  HEDDLE_CHECK(at + bytes <= size && bytes <= 8, "a field beyond its record");
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) value = value << 8 | from[at + i];
  return value;
}
template <std::size_t size>
std::uint16_t get_16(const std::array<std::uint8_t, size>& from, std::size_t at) {
  return static_cast<std::uint16_t>(get_number(from, at, 2));
}
template <std::size_t size>
std::uint32_t get_32(const std::array<std::uint8_t, size>& from, std::size_t at) {
  return static_cast<std::uint32_t>(get_number(from, at, 4));
}
template <std::size_t size>
std::uint64_t get_64(const std::array<std::uint8_t, size>& from, std::size_t at) {
  return get_number(from, at, 8);
}

template <std::size_t size>
void put_number(std::array<std::uint8_t, size>& to, std::size_t at, std::size_t bytes, std::uint64_t value) {
  HEDDLE_CHECK(at + bytes <= size && bytes <= 8, "a field beyond its record");
  for (std::size_t i = 0; i < bytes; ++i) to[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

}  // namespace heddle::arch
