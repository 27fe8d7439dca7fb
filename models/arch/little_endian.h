// Numbers in records of bytes, lowest byte first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/error.h"

namespace heddle::arch {

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
