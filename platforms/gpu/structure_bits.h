// The tables, registers, queues and packets of the launch hardware in bits, as laws of the configuration (CWD-44): of
// the distributor, the GPMs, MPCs and raster units, and what SMs know of CGAs. Plain C++.
//
// A number below n takes ceil(log2 n) bits, and a count up to n takes ceil(log2 (n + 1)).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/observation.h"
#include "gpu/gpu_params.h"

namespace heddle::gpu {

// Bits that tell `values` values apart: 0 for a single one.
constexpr std::uint32_t index_bits(std::uint64_t values) {
  std::uint32_t bits = 0;
  for (std::uint64_t last = values > 0 ? values - 1 : 0; last > 0; last >>= 1) ++bits;
  return bits;
}
// Bits of a count from 0 to `most`.
constexpr std::uint32_t count_bits(std::uint64_t most) { return index_bits(most + 1); }

// What an entry, or a packet, consists of.
struct BitField {
  std::string name;
  std::uint32_t bits = 0;
  std::uint32_t times = 1;  // in an entry
  std::string when = {};    // it is there only then; empty: always
};

// A source of accesses in a run: so many for each event that it counts.
struct AccessLaw {
  std::string statistic;        // without the name of the GPU; `*` stands for any number; empty: `packet` counts
  PacketKind packet = nullptr;  // packets of that type that were sent
  double times = 1;
};

enum class StructureKind : std::uint8_t { table, registers, queue, packet };
const char* structure_kind_name(StructureKind kind);

struct Structure {
  std::string block;  // "cwd", "gpc2sm", "gpm", "mpc", "raster", "sm"; of a packet: from whom to whom
  std::string name;
  StructureKind kind = StructureKind::table;
  std::uint64_t instances = 0;  // of the machine; of packets: links
  std::uint64_t entries = 0;    // of all instances together; of packets: 1
  std::vector<BitField> fields;
  std::string law;  // what entries and widths follow from
  std::vector<AccessLaw> reads = {};
  std::vector<AccessLaw> writes = {};  // of a packet: how often it is sent
  std::vector<AccessLaw> moved = {};   // bits of a packet whose size varies, as a run counts them; empty: it does not

  // With all fields: what an entry has to have room for, and the largest packet.
  std::uint64_t entry_bits() const;
  std::uint64_t bits() const { return entries * entry_bits(); }
};

// In the order of a launch's way.
std::vector<Structure> structures_of(const GpuParams& params);

// Of a run: how often entries were read and written, or the packet was sent.
struct Accesses {
  double reads = 0;
  double writes = 0;
  double bits = 0;  // that this moved
};
Accesses accesses_of(const Structure& structure, const Observation& observation);

}  // namespace heddle::gpu
