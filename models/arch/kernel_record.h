// What a kernel launch asks of the machine. One definition, shared by everything that submits work.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "arch/cluster.h"

namespace heddle::arch {

// Limits of CWD-40: ids of 32, 16 and 16 bits.
constexpr std::uint32_t kMaxGridY = 65'535;
constexpr std::uint32_t kMaxGridZ = 65'535;
constexpr std::uint32_t kMaxGridX = 2'147'483'647;

// Subcontexts of a context (PRT-07).
constexpr std::uint32_t kSubcontexts = 64;

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
  ClusterShape cluster;                    // how CTAs are grouped
  std::uint32_t local_bytes = 0;           // local memory per thread: more than 0 takes a local-memory block per TPC
  std::uint8_t subcontext = 0;             // below kSubcontexts
  std::uint32_t code = 0;  // of its program in the machine's CodeStore; 0: none, CTAs run for `duration`
};

class WarpProgram;

struct KernelRecord : KernelShape {
  std::string name;
  std::shared_ptr<const WarpProgram> program;  // null: CTAs run for `duration`
};

}  // namespace heddle::arch
