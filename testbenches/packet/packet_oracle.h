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
using EntryImage = std::array<std::uint8_t, 256>;
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
inline Blame format_of_dispatch(const Image& image, std::uint64_t entries = 8) {
  Blame blame;
  blame_scopes(blame, image[1]);
  blame.add(kFormat, !zeros(image, 48, 55));
  if (image[0] == 2) blame.add(kFormat, !zeros(image, 10, 11));
  if (image[0] == 6) blame.add(kArgument, number(image, 10, 2) >= entries);
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

// Condensed packets, by the paragraphs of the text that they are from; spec/packets.md restates them.

// What [0105] and [0113] leave open: bits that name an entry and bits that say what differs.
struct Widths {
  std::uint32_t reference = 3;  // [0110]
  std::uint32_t vector = 13;    // [0111]
  std::uint32_t entries = 8;    // [90]
};

// An entry of the table ([90] to [92]): the packet that was processed, of which the thirteen fields count, and the
// kernel object as it was then: what was processed of a reference packet is stored ([68], [69]), not where it came
// from.
struct Entry {
  Image image{};
  ObjectImage object{};
  bool full = false;
};
struct Table {
  std::array<Entry, 32> entry{};
};

struct Kernel {
  Image image{};
  ObjectImage object{};  // of its entry
  std::uint32_t reference = 0;
  std::uint64_t vector = 0;
  std::uint32_t half_words = 0;
  bool barrier = false;
  std::uint32_t acquire = 0;
  std::uint32_t release = 0;
  std::uint64_t signal = 0;
  Blame blame;  // entry and scopes

  bool differs(std::size_t field) const { return (vector >> field) % 2 == 1; }
};

// The kernels of a packet of type 7, as far as its format is right (PKT-06, PKT-07).
struct Condensed {
  Blame format;
  std::vector<Kernel> kernels;

  // Bit = entry.
  std::uint32_t references() const {
    std::uint32_t all = 0;
    for (const Kernel& kernel : kernels) all |= kernel.reference < 32 ? std::uint32_t{1} << kernel.reference : 0;
    return all;
  }
  std::size_t first_bad() const {
    std::size_t first = 0;
    while (first < kernels.size() && kernels[first].blame.none()) ++first;
    return first;
  }
};

// [56]: scopes are dispatch information (acquire, before the kernel) and clean-up information (release, after it). A
// field whose bit is set is that dispatch's own ([0112], [0139]); for the packet as a whole the first kernel's dispatch
// information and the last one's clean-up information count ([0143], [0146]). The stored acquire of a kernel behind the
// first is for what the kernels before it have written, which needs no more than the agent's scope.
inline void ask(Kernel& kernel, bool first, bool last) {
  const std::uint8_t scopes = kernel.image[1];
  kernel.barrier = scopes % 2 == 1;
  kernel.acquire = scopes / 2 % 4;
  if (!first && !kernel.differs(0) && kernel.acquire == 2) kernel.acquire = 1;
  if (last || kernel.differs(0)) kernel.release = scopes / 8 % 4;
  if (last || kernel.differs(12)) kernel.signal = number(kernel.image, 56, 8);
}

// Where the vector is of the stored information ([0112], last sentences): scopes, block x y z, grid x y z in
// workgroups, registers, shared memory, local memory, program, arguments, signal. In terms of the packet and the object
// that would make that kernel.
inline void set_stored(Kernel& kernel, const std::array<std::uint64_t, 13>& values) {
  const auto value = [&](std::size_t bit, std::uint64_t otherwise) {
    return kernel.differs(bit) ? values[bit] : otherwise;
  };
  kernel.image[1] = static_cast<std::uint8_t>(value(0, kernel.image[1]));
  for (std::size_t i = 0; i < 3 && (kernel.vector & 0x7E) != 0; ++i) {
    const std::uint64_t items = number(kernel.image, 12 + 4 * i, 4);
    const std::uint64_t before = number(kernel.image, 4 + 2 * i, 2);
    const std::uint64_t group = value(1 + i, before);
    const std::uint64_t groups = value(4 + i, before == 0 ? 0 : items / before + (items % before == 0 ? 0 : 1));
    kernel.blame.add(kArgument, groups * group > 0xFFFF'FFFF);
    set_number(kernel.image, 4 + 2 * i, 2, group);
    set_number(kernel.image, 12 + 4 * i, 4, groups * group);
    set_number(kernel.image, 2, 2, 3);
  }
  set_number(kernel.object, 16, 4, value(7, number(kernel.object, 16, 4)));
  if (kernel.differs(8)) set_number(kernel.object, 20, 4, 0);
  set_number(kernel.image, 28, 4, value(8, number(kernel.image, 28, 4)));
  set_number(kernel.image, 24, 4, value(9, number(kernel.image, 24, 4)));
  kernel.blame.add(kObject, kernel.differs(10) && values[10] == 0 && number(kernel.object, 8, 4) != 0);
  set_number(kernel.object, 8, 4, value(10, number(kernel.object, 8, 4)));
  set_number(kernel.image, 40, 8, value(11, number(kernel.image, 40, 8)));
  set_number(kernel.image, 56, 8, value(12, number(kernel.image, 56, 8)));
}

// [0112]: the bits are fields of the reference packet.
inline void set_fields(Kernel& kernel, const std::array<std::uint64_t, 13>& values) {
  for (std::size_t bit = 0; bit < 13; ++bit) {
    if (kernel.differs(bit)) set_field(kernel.image, bit, values[bit]);
  }
}

enum class Of { packet, stored };
using FieldBytes = std::array<std::size_t, 13>;
constexpr FieldBytes kOfPacket{1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 8, 8, 8};
constexpr FieldBytes kOfStored{1, 2, 2, 2, 4, 2, 2, 2, 4, 4, 4, 8, 8};

inline Condensed condensed(const Image& packet, const Table& table, const Widths& widths = {}, Of of = Of::packet) {
  const FieldBytes& bytes = of == Of::packet ? kOfPacket : kOfStored;
  Condensed result;
  result.format.add(kFormat, packet[1] == 0);  // [0102], [0105]: num_kernels
  const std::size_t header_bytes = widths.reference + widths.vector > 16 ? 4 : 2;
  std::size_t at = 2;
  for (std::uint32_t k = 0; k < packet[1]; ++k) {
    if (at + header_bytes > 64) result.format.add(kFormat);
    if (at + header_bytes > 64) return result;
    const std::uint64_t header = number(packet, at, header_bytes);  // [0108] to [0111]
    const std::size_t begin = at;
    at += header_bytes;
    Kernel kernel;
    kernel.reference = static_cast<std::uint32_t>(header % (std::uint64_t{1} << widths.reference));
    kernel.vector = header >> widths.reference;
    const bool odd = kernel.vector >> widths.vector != 0 || kernel.vector >> 13 != 0;
    if (odd) result.format.add(kFormat);
    if (odd) return result;
    std::array<std::uint64_t, 13> values{};
    for (std::size_t bit = 0; bit < 13; ++bit) {
      if (!kernel.differs(bit)) continue;
      const std::size_t taken = std::max<std::size_t>(2, bytes[bit]);  // [0126] to [0138]: half-words, in order
      if (at + taken > 64) result.format.add(kFormat);
      if (at + taken > 64) return result;
      result.format.add(kFormat, number(packet, at, taken) >> 1 >> (8 * bytes[bit] - 1) != 0);
      values[bit] = number(packet, at, bytes[bit]);
      at += taken;
    }
    kernel.half_words = static_cast<std::uint32_t>((at - begin) / 2);
    const bool there = kernel.reference < widths.entries && table.entry[kernel.reference].full;
    kernel.blame.add(kArgument, !there);
    if (there) {
      kernel.image = table.entry[kernel.reference].image;
      kernel.object = table.entry[kernel.reference].object;
      of == Of::packet ? set_fields(kernel, values) : set_stored(kernel, values);
      blame_scopes(kernel.blame, kernel.image[1]);
      ask(kernel, k == 0, k + 1 == packet[1]);
    }
    result.kernels.push_back(kernel);
  }
  result.format.add(kFormat, at < 64 && !zeros(packet, at, 63));
  return result;
}

}  // namespace heddle::oracle
