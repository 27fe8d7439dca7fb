// Packets and kernel objects that are right, byte by byte, and small damage to them.
#pragma once

#include <cstdint>

#include "packet/packet_oracle.h"

namespace heddle::oracle {

// Small and fast; the same on every platform.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9E37'79B9'7F4A'7C15U;
    std::uint64_t value = state_;
    value = (value ^ value >> 30) * 0xBF58'476D'1CE4'E5B9U;
    value = (value ^ value >> 27) * 0x94D0'49BB'1331'11EBU;
    return value ^ value >> 31;
  }
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  bool percent(std::uint64_t n) { return below(100) < n; }
  template <class T, std::size_t count>
  T pick(const std::array<T, count>& from) {
    return from[below(count)];
  }

 private:
  std::uint64_t state_;
};

inline std::uint8_t random_scopes(Rng& rng) {
  return static_cast<std::uint8_t>(rng.below(2) + 2 * rng.below(3) + 8 * rng.below(3));
}
inline std::uint64_t random_signal(Rng& rng) {
  if (rng.percent(20)) return 0;
  const std::uint64_t address = rng.percent(50) ? rng.next() : rng.below(1'000'000);
  const std::uint64_t stamped = 2 * rng.below(2);
  return address / 64 * 64 + (stamped == 0 ? 32 * rng.below(2) : 0) + stamped + rng.below(2);
}

inline Image random_dispatch(Rng& rng, std::uint8_t type) {
  constexpr std::array<std::uint64_t, 9> kSizes{1, 2, 3, 7, 32, 64, 100, 256, 1024};
  Image image{};
  image[0] = type;
  image[1] = random_scopes(rng);
  const std::uint64_t dimensions = 1 + rng.below(3);
  set_number(image, 2, 2, dimensions);
  std::uint64_t room = 1024;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::uint64_t group = i < dimensions ? std::min(room, rng.pick(kSizes)) : 1;
    const std::uint64_t groups = i < dimensions ? 1 + rng.below(rng.percent(90) ? 64 : 65'535) : 1;
    const std::uint64_t rest = i < dimensions && rng.percent(20) && groups < 65'535 ? rng.below(group) : 0;
    room /= group;
    set_number(image, 4 + 2 * i, 2, group);
    set_number(image, 12 + 4 * i, 4, group * groups + rest);
  }
  if (type == 6) set_number(image, 10, 2, rng.below(8));
  set_number(image, 24, 4, rng.percent(70) ? 0 : rng.percent(90) ? rng.below(524'289) : rng.next());
  set_number(image, 28, 4, rng.percent(35) ? 0 : rng.below(rng.percent(60) ? 65'536 : 232'449));
  set_number(image, 32, 8, 128 + rng.next() % ((std::uint64_t{1} << (20 + rng.below(43))) - 128) / 128 * 128);
  set_number(image, 40, 8, rng.next() / (rng.percent(95) ? 32 : 16) * 16);  // few in the host's memory
  set_number(image, 56, 8, random_signal(rng));
  return image;
}

inline Image random_barrier(Rng& rng) {
  Image image{};
  image[0] = rng.percent(50) ? 3 : 5;
  image[1] = random_scopes(rng);
  for (const std::size_t at : {8, 16, 24, 32, 40, 56}) set_number(image, at, 8, random_signal(rng));
  return image;
}

inline Image random_agent(Rng& rng) {
  Image image{};
  image[0] = 4;
  image[1] = random_scopes(rng);
  set_number(image, 2, 2, rng.next());
  for (const std::size_t at : {8, 16, 24, 32, 40}) set_number(image, at, 8, rng.next());
  set_number(image, 56, 8, random_signal(rng));
  return image;
}

// Ranges often touch each other or the end of their memory.
inline Image random_vendor(Rng& rng) {
  constexpr std::uint64_t kHost = std::uint64_t{1} << 63;
  constexpr std::uint64_t kLongestHold = 1'000'000'000'000;
  Image image{};
  image[1] = random_scopes(rng);
  const std::uint64_t format = 1 + rng.below(3);
  const std::uint64_t bytes = (4 + rng.below(std::uint64_t{1} << rng.below(30))) / 4 * 4;
  const std::uint64_t to = rng.percent(10) ? kHost - bytes : (std::uint64_t{1} << 31) + rng.below(1'000'000) * 4;
  const std::array<std::uint64_t, 4> sources{to < kHost - bytes ? to + bytes : kHost, to - bytes, 0 - bytes,
                                             kHost + rng.below(std::uint64_t{1} << 50)};
  image[2] = static_cast<std::uint8_t>(format);
  if (format == 2) set_number(image, 4, 4, rng.next());
  if (format == 1) set_number(image, 8, 8, rng.pick(sources));
  if (format != 3) set_number(image, 16, 8, to);
  if (format == 3) set_number(image, 24, 8, rng.percent(20) ? kLongestHold : rng.below(kLongestHold));
  if (format != 3) set_number(image, 24, 8, bytes);
  set_number(image, 56, 8, random_signal(rng));
  return image;
}

// Diffs from entries that are full, if some are: whole groups of fields of another dispatch, so that most results are
// dispatches, too.
inline Image random_condensed(Rng& rng, const Table& table, const Widths& widths = {}) {
  constexpr std::array<std::uint32_t, 10> kVectors{0x0000, 0x0800, 0x1000, 0x1800, 0x0400,
                                                   0x0001, 0x00FE, 0x0200, 0x0C00, 0x1FFF};
  Image image{};
  image[0] = 7;
  const std::size_t header_bytes = widths.reference + widths.vector > 16 ? 4 : 2;
  const std::uint64_t names = std::min<std::uint64_t>(widths.entries, std::uint64_t{1} << widths.reference);
  std::size_t at = 2;
  const std::uint64_t most = rng.percent(50) ? 31 : 1 + rng.below(6);
  while (image[1] < most) {
    const std::uint32_t vector = rng.pick(kVectors) & ((1U << std::min(13U, widths.vector)) - 1);
    std::size_t bytes = header_bytes;
    for (std::size_t i = 0; i < 13; ++i) {
      if ((vector >> i & 1U) != 0) bytes += std::max<std::size_t>(2, kPlaces[i].bytes);
    }
    if (at + bytes > 64) break;
    std::uint64_t entry = rng.below(names);
    for (std::uint64_t i = 0; i < names && !table.entry[entry].full; ++i) entry = (entry + 1) % names;
    const Image values = random_dispatch(rng, 2);
    set_number(image, at, header_bytes, entry + (std::uint64_t{vector} << widths.reference));
    at += header_bytes;
    for (std::size_t i = 0; i < 13; ++i) {
      if ((vector >> i & 1U) == 0) continue;
      set_number(image, at, std::max<std::size_t>(2, kPlaces[i].bytes), field(values, i));
      at += std::max<std::size_t>(2, kPlaces[i].bytes);
    }
    ++image[1];
  }
  return image[1] == 0 ? random_condensed(rng, table, widths) : image;
}

// The same of the stored information; `value(bit)` makes new values.
template <class Value>
Image random_stored(Rng& rng, const Table& table, const Widths& widths, const Value& value) {
  const std::size_t header_bytes = widths.reference + widths.vector > 16 ? 4 : 2;
  const std::uint64_t names = std::min<std::uint64_t>(widths.entries, std::uint64_t{1} << widths.reference);
  Image image{};
  image[0] = 7;
  std::size_t at = 2;
  for (std::uint64_t most = 1 + rng.below(8); image[1] < most;) {
    std::uint32_t vector = 0;
    for (std::uint64_t i = rng.below(4); i > 0; --i) vector |= 1U << rng.below(13);
    vector &= (1U << std::min(13U, widths.vector)) - 1;
    std::size_t bytes = header_bytes;
    for (std::size_t i = 0; i < 13; ++i) bytes += (vector >> i & 1U) != 0 ? std::max<std::size_t>(2, kOfStored[i]) : 0;
    if (at + bytes > 64) break;
    std::uint64_t entry = rng.below(names);
    for (std::uint64_t i = 0; i < names && !table.entry[entry].full; ++i) entry = (entry + 1) % names;
    set_number(image, at, header_bytes, entry + (std::uint64_t{vector} << widths.reference));
    at += header_bytes;
    for (std::size_t i = 0; i < 13; ++i) {
      if ((vector >> i & 1U) == 0) continue;
      set_number(image, at, std::max<std::size_t>(2, kOfStored[i]), value(i));
      at += std::max<std::size_t>(2, kOfStored[i]);
    }
    ++image[1];
  }
  if (image[1] == 0) image[1] = 1;  // the first entry as it is
  return image;
}

inline Image random_packet(Rng& rng, const Table& table, const Widths& widths = {}) {
  switch (rng.below(8)) {
    case 0:
      return random_vendor(rng);
    case 1:
      return random_barrier(rng);
    case 2:
      return random_agent(rng);
    case 3:
      return random_dispatch(rng, 2);
    case 4:
    case 5:
      return random_dispatch(rng, 6);
    default:
      return random_condensed(rng, table, widths);
  }
}

inline void set_extents(ObjectImage& image, std::size_t at, const Extents& extents) {
  for (std::size_t i = 0; i < 3; ++i) set_number(image, at + 2 * i, 2, extents[i]);
}

// `codes`: percent of them with code in memory.
inline ObjectImage random_object(Rng& rng, std::uint32_t codes = 0) {
  ObjectImage image{'H', 'D', 'L', 'K', 1};
  image[6] = static_cast<std::uint8_t>(rng.below(2));
  set_number(image, 8, 4, rng.percent(50) ? 0 : rng.next());
  set_number(image, 12, 4, rng.percent(70) ? 0 : rng.below(2048));
  set_number(image, 16, 4, rng.percent(10) ? 254 + rng.below(4) : rng.below(rng.percent(90) ? 256 : 1000));
  set_number(image, 20, 4, rng.percent(50) ? 0 : rng.below(rng.percent(90) ? 49'152 : 300'000));
  const std::uint64_t shortest = 1 + rng.below(rng.percent(90) ? 100'000 : std::uint64_t{1} << 47);
  set_number(image, 24, 8, shortest);
  set_number(image, 32, 8, shortest + (rng.percent(50) ? 0 : rng.below(std::uint64_t{1} << 40)));
  if (codes != 0 && rng.percent(codes)) {
    image[6] = static_cast<std::uint8_t>(image[6] + 16);
    set_number(image, 8, 4, 0);
    set_number(image, 24, 8, 128 * (1 + rng.below(std::uint64_t{1} << 30)));
    set_number(image, 32, 8, rng.percent(20) ? 1'048'576 : 1 + rng.below(5000));
  }
  if (rng.percent(30)) {
    const Extents inner{1 + rng.below(2), 1 + rng.below(2), 1};
    const std::uint64_t more = 2 + rng.below(2);
    const Extents outer{inner[0] * more, inner[1], inner[2]};
    image[6] = static_cast<std::uint8_t>(image[6] + 4 + 2 * rng.below(2));
    if (rng.percent(50)) {
      set_extents(image, 46, inner);
    } else {
      set_extents(image, rng.percent(50) ? 40 : 46, inner);
      set_extents(image, number(image, 40, 2) != 0 ? 46 : 52 + 6 * rng.below(2), outer);
      if (rng.percent(50)) set_extents(image, 64, inner);
    }
  }
  if (rng.percent(30)) {
    image[88] = static_cast<std::uint8_t>(1 + rng.below(2));
    for (std::size_t i = 0; i < 2 && image[88] == 1; ++i) image[89 + i] = static_cast<std::uint8_t>(1 + rng.below(255));
  }
  const std::uint64_t letters = rng.below(36);
  for (std::uint64_t i = 0; i < letters; ++i) image[92 + i] = static_cast<std::uint8_t>(1 + rng.below(255));
  return image;
}

// A bit, a byte, a number that is often a limit, or a copied piece.
template <class Bytes>
void damage(Rng& rng, Bytes& bytes) {
  constexpr std::array<std::uint64_t, 14> kNumbers{
      0, 1, 2, 3, 4, 8, 0x10, 0x20, 0xFF, 0xFFFF, 0x1'0000, 0x7FFF'FFFF, 0xFFFF'FFFF, ~std::uint64_t{0}};
  const std::size_t width = std::size_t{1} << rng.below(4);
  const std::size_t at = rng.below(bytes.size() / width) * width;
  switch (rng.below(6)) {
    case 0:
    case 1:
      bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ 1U << rng.below(8));
      break;
    case 2:
      bytes[at] = static_cast<std::uint8_t>(rng.next());
      break;
    case 3:
      set_number(bytes, at, width, rng.pick(kNumbers));
      break;
    case 4:
      set_number(bytes, at, width, number(bytes, at, width) + rng.below(3) - 1);
      break;
    default:
      set_number(bytes, at, width, number(bytes, rng.below(bytes.size() / width) * width, width));
      break;
  }
}

}  // namespace heddle::oracle
