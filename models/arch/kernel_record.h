// What a kernel launch asks of the machine. One definition, shared by everything that submits work.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::arch {

// Extents of a grid (in CTAs) or of a CTA (in threads).
struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;

  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
  bool operator==(const Dim3& other) const { return x == other.x && y == other.y && z == other.z; }
  bool operator!=(const Dim3& other) const { return !(*this == other); }
};

// Limits of CWD-40: ids of 32, 16 and 16 bits.
constexpr std::uint32_t kMaxGridY = 65'535;
constexpr std::uint32_t kMaxGridZ = 65'535;
constexpr std::uint32_t kMaxGridX = 2'147'483'647;

// Longest run of a CTA, in cycles: sums of such times stay far from 64 bits.
constexpr std::uint64_t kMaxCtaCycles = std::uint64_t{1} << 48;

// How long a CTA runs on its SM, in cycles: a value from [min, max], drawn per CTA from the seed; fixed if both are
// equal.
struct CtaDuration {
  std::uint64_t min = 1;
  std::uint64_t max = 1;
};

// What the machine needs to know of a kernel. Plain data: packets carry it.
struct KernelShape {
  Dim3 grid;                               // CTAs
  Dim3 block;                              // threads per CTA
  std::uint32_t registers_per_thread = 0;  // 0: not known, then no limit
  std::uint32_t shared_bytes = 0;          // static + dynamic, per CTA
  CtaDuration duration;                    // cycles of the SM clock
};

struct KernelRecord : KernelShape {
  std::string name;
};

}  // namespace heddle::arch
