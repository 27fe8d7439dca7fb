// What packets and kernel objects say, and what is wrong with them, written once more from the specification: by
// offsets in their bytes, without the model's decoders. A kernel of a condensed packet is a dispatch packet into whose
// bytes its diff has been copied.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/sm_limits.h"

namespace heddle::oracle {

using Image = std::array<std::uint8_t, 64>;
using ObjectImage = std::array<std::uint8_t, 128>;
using Extents = std::array<std::uint64_t, 3>;

struct Place {
  std::size_t at;
  std::size_t bytes;
};
// The thirteen fields of PKT-06 in a dispatch packet.
constexpr std::array<Place, 13> kPlaces{
    {{1, 1}, {2, 2}, {4, 2}, {6, 2}, {8, 2}, {12, 4}, {16, 4}, {20, 4}, {24, 4}, {28, 4}, {32, 8}, {40, 8}, {56, 8}}};

template <class Bytes>
std::uint64_t number(const Bytes& bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value += std::uint64_t{bytes[at + i]} << 8 * i;
  return value;
}
template <class Bytes>
void set_number(Bytes& bytes, std::size_t at, std::size_t count, std::uint64_t value) {
  for (std::size_t i = 0; i < count; ++i, value >>= 8) bytes[at + i] = static_cast<std::uint8_t>(value & 0xFF);
}
inline std::uint64_t field(const Image& image, std::size_t index) {
  return number(image, kPlaces[index].at, kPlaces[index].bytes);
}
inline void set_field(Image& image, std::size_t index, std::uint64_t value) {
  set_number(image, kPlaces[index].at, kPlaces[index].bytes, value);
}

// All status codes that something deserves; which of them is told first is not specified.
class Blame {
 public:
  void add(std::uint32_t code, bool wrong = true) {
    if (wrong) bits_ |= 1U << (code - 0x1000);
  }
  bool none() const { return bits_ == 0; }
  bool has(std::uint32_t code) const { return code >= 0x1000 && code < 0x1020 && (bits_ >> (code - 0x1000) & 1U) != 0; }
  bool fits(std::uint32_t code) const { return none() ? code == 0 : has(code); }

 private:
  std::uint32_t bits_ = 0;
};
constexpr std::uint32_t kArgument = 0x1001;
constexpr std::uint32_t kAllocation = 0x1003;
constexpr std::uint32_t kSignal = 0x1006;
constexpr std::uint32_t kResources = 0x1008;
constexpr std::uint32_t kFormat = 0x1009;
constexpr std::uint32_t kIncompatible = 0x100D;
constexpr std::uint32_t kObject = 0x1010;

inline bool zeros(const Image& image, std::size_t first, std::size_t last) {
  return std::all_of(image.begin() + static_cast<std::ptrdiff_t>(first),
                     image.begin() + static_cast<std::ptrdiff_t>(last) + 1, [](std::uint8_t b) { return b == 0; });
}

inline void blame_scopes(Blame& blame, std::uint8_t scopes) {
  blame.add(kFormat, (scopes & 0xE0) != 0);
  blame.add(kFormat, (scopes & 0x06) == 0x06);
  blame.add(kFormat, (scopes & 0x18) == 0x18);
}
inline void blame_signal(Blame& blame, std::uint64_t handle) {
  // Bit 0 asks for an interrupt, bit 1 for time stamps, with which the record has 64 bytes.
  blame.add(kSignal, (handle & 0x1C) != 0 || (handle & 0x22) == 0x22);
}

// Header and reserved fields of types 2 and 6.
inline Blame format_of_dispatch(const Image& image) {
  Blame blame;
  blame_scopes(blame, image[1]);
  blame.add(kFormat, !zeros(image, 48, 55));
  if (image[0] == 2) blame.add(kFormat, !zeros(image, 10, 11));
  if (image[0] == 6) blame.add(kArgument, number(image, 10, 2) > 7);
  return blame;
}

// The thirteen fields (PKT-09).
inline Blame fields_of_dispatch(const Image& image, const arch::SmLimits& limits) {
  Blame blame;
  blame_scopes(blame, image[1]);
  const std::uint64_t setup = number(image, 2, 2);
  blame.add(kFormat, setup > 3);
  const std::uint64_t dimensions = setup % 4;
  blame.add(kArgument, dimensions == 0);
  std::uint64_t threads = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::uint64_t group = number(image, 4 + 2 * i, 2);
    const std::uint64_t grid = number(image, 12 + 4 * i, 4);
    blame.add(kArgument, group == 0 || grid < group);
    blame.add(kArgument, i >= dimensions && (group != 1 || grid != 1));
    threads *= group;
    if (group == 0) continue;
    const std::uint64_t ctas = grid / group + (grid % group == 0 ? 0 : 1);
    blame.add(kArgument, ctas > (i == 0 ? 0x7FFF'FFFFU : 0xFFFFU));
  }
  blame.add(kArgument, threads > limits.max_threads_per_cta);
  blame.add(kArgument, image[40] % 16 != 0 || image[47] >= 0x80);
  blame.add(kObject, zeros(image, 32, 39) || image[32] % 128 != 0 || image[39] >= 0x80);
  blame_signal(blame, number(image, 56, 8));
  blame.add(kResources, number(image, 28, 4) > limits.max_shared_per_cta);
  blame.add(kResources, number(image, 24, 4) > limits.max_local_per_thread);
  return blame;
}

inline Blame format_of_barrier(const Image& image) {
  Blame blame;
  blame_scopes(blame, image[1]);
  blame.add(kFormat, !zeros(image, 2, 7) || !zeros(image, 48, 55));
  for (const std::size_t at : {8, 16, 24, 32, 40, 56}) blame_signal(blame, number(image, at, 8));
  // A null handle is a dependency that is satisfied for AND, and not for OR.
  blame.add(kArgument, image[0] == 5 && zeros(image, 8, 47));
  return blame;
}

inline Blame format_of_agent(const Image& image) {
  Blame blame;
  blame_scopes(blame, image[1]);
  blame.add(kFormat, !zeros(image, 4, 7) || !zeros(image, 48, 55));
  blame_signal(blame, number(image, 56, 8));
  return blame;
}

__extension__ using Wide = unsigned __int128;

inline Blame format_of_vendor(const Image& image) {
  Blame blame;
  blame_scopes(blame, image[1]);
  const std::uint8_t format = image[2];
  blame.add(kFormat, image[3] != 0 || !zeros(image, 32, 55) || format == 0 || format > 3);
  const std::uint64_t from = number(image, 8, 8);
  const std::uint64_t to = number(image, 16, 8);
  const std::uint64_t bytes = number(image, 24, 8);
  const Wide half = Wide{1} << 63;
  const auto leaves = [&](std::uint64_t first) {  // device memory, or the host's
    return Wide{first} + bytes > (Wide{first} < half ? half : 2 * half);
  };
  if (format == 1) {
    blame.add(kFormat, !zeros(image, 4, 7));
    blame.add(kArgument, leaves(from) || leaves(to));
    blame.add(kArgument, bytes != 0 && Wide{from} < Wide{to} + bytes && Wide{to} < Wide{from} + bytes);
  } else if (format == 2) {
    blame.add(kFormat, !zeros(image, 8, 15));
    blame.add(kArgument, leaves(to) || to % 4 != 0 || bytes % 4 != 0);
  } else if (format == 3) {
    blame.add(kFormat, !zeros(image, 4, 23));
    blame.add(kArgument, bytes > 1'000'000'000'000);
  }
  blame_signal(blame, number(image, 56, 8));
  return blame;
}

// Reference state table: dispatch packets, of which only the thirteen fields count.
struct Table {
  std::array<Image, 8> entry{};
  std::array<bool, 8> full{};
};

struct Kernel {
  Image image{};
  std::uint32_t reference = 0;
  std::uint32_t half_words = 0;
  bool barrier = false;
  std::uint32_t acquire = 0;
  std::uint32_t release = 0;
  std::uint64_t signal = 0;
  Blame blame;  // entry and scopes
};

// The kernels of a packet of type 7, as far as its format is right (PKT-06, PKT-07).
struct Condensed {
  Blame format;
  std::uint8_t references = 0;
  std::vector<Kernel> kernels;
};

inline Condensed condensed(const Image& packet, const Table& table) {
  Condensed result;
  result.format.add(kFormat, packet[1] == 0);
  std::size_t at = 2;
  for (std::uint32_t k = 0; k < packet[1]; ++k) {
    if (at == 64) result.format.add(kFormat);
    if (at == 64) return result;
    const std::uint64_t header = number(packet, at, 2);
    const std::size_t begin = at;
    at += 2;
    Kernel kernel;
    kernel.reference = static_cast<std::uint32_t>(header % 8);
    kernel.image = table.entry[kernel.reference];
    kernel.blame.add(kArgument, !table.full[kernel.reference]);
    result.references = static_cast<std::uint8_t>(result.references | 1U << kernel.reference);
    for (std::size_t bit = 0; bit < 13; ++bit) {
      if ((header >> (3 + bit)) % 2 == 0) continue;
      const Place place = kPlaces[bit];
      const std::size_t taken = place.bytes == 1 ? 2 : place.bytes;
      if (at + taken > 64) result.format.add(kFormat);
      if (at + taken > 64) return result;
      result.format.add(kFormat, place.bytes == 1 && packet[at + 1] != 0);
      std::copy_n(packet.begin() + static_cast<std::ptrdiff_t>(at), place.bytes,
                  kernel.image.begin() + static_cast<std::ptrdiff_t>(place.at));
      at += taken;
    }
    kernel.half_words = static_cast<std::uint32_t>((at - begin) / 2);
    const std::uint8_t scopes = kernel.image[1];
    const bool last = k + 1 == packet[1];
    if (table.full[kernel.reference]) blame_scopes(kernel.blame, scopes);
    kernel.barrier = scopes % 2 == 1;
    // Of each kernel, since it is dispatch information (0054, 0143); what only the kernels before it have written needs
    // no more than the agent's scope.
    kernel.acquire = scopes / 2 % 4;
    if (k > 0 && (header & 0x0008) == 0 && kernel.acquire == 2) kernel.acquire = 1;
    if (last || (header & 0x0008) != 0) kernel.release = scopes / 8 % 4;
    if (last || (header & 0x8000) != 0) kernel.signal = number(kernel.image, 56, 8);
    result.kernels.push_back(kernel);
  }
  result.format.add(kFormat, at < 64 && !zeros(packet, at, 63));
  return result;
}

}  // namespace heddle::oracle
