// Parameters of the HBM.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::memory {

// Which table of timings: see hbm_banks.h.
enum class HbmStandard { hbm2e, hbm3, hbm3e };

enum class HbmRefresh {
  off,
  all_bank,  // the whole pseudo-channel stands still
  per_bank,  // one bank after the other; the others go on
};

// Whose lines a pseudo-channel holds.
enum class HbmChannelsOf {
  hash,    // of all slices of the L2: pieces of memory are dealt to all channels
  slices,  // of a slice, or of few
};

struct HbmParams {
  HbmStandard standard = HbmStandard::hbm3;
  HbmChannelsOf channels_of = HbmChannelsOf::hash;
  std::uint32_t channels = 160;       // pseudo-channels
  double pin_rate = 5.234;            // Gbit/s
  std::uint64_t interleave = 1024;    // bytes
  std::uint32_t access_bytes = 64;    // 32, 64 or 128
  std::uint32_t read_queue = 64;      // lines per channel
  std::uint32_t write_queue = 64;     // lines per channel
  std::uint32_t write_high = 48;      // lines
  std::uint32_t write_low = 16;       // lines
  std::uint32_t row_hit_cap = 32;     // accesses
  std::uint32_t shared_streak = 4;    // accesses
  std::uint32_t port_requests = 256;  // requests
  double request_latency = 40;        // ns
  double response_latency = 40;       // ns
  HbmRefresh refresh = HbmRefresh::all_bank;
  double refresh_rate = 1;  // factor

  static void describe(ParamTable<HbmParams>& t);

  // Throws InputError if values do not fit each other.
  void check() const;
};

// Whether each of two partitions of the L2 keeps copies of what its SMs read of the other.
enum class L2Copies { none, near };

// Parameters of the L2 cache and its slices.
struct L2Params {
  std::uint64_t bytes = 50ULL << 20;  // of all slices together
  std::uint32_t ways = 16;
  std::uint32_t slices = 80;
  std::uint32_t partitions = 2;
  L2Copies copies = L2Copies::none;
  std::uint32_t tag_latency = 34;     // cycles
  std::uint32_t data_latency = 68;    // cycles
  std::uint32_t memory_latency = 10;  // cycles
  std::uint32_t bandwidth = 64;       // bytes per cycle and slice
  std::uint32_t write_bandwidth = 64;
  std::uint32_t memory_bandwidth = 64;
  std::uint32_t atomic_rate = 8;  // lane operations per cycle and slice
  std::uint32_t queue = 256;      // requests per slice
  std::uint32_t responses = 16;   // per slice
  std::uint32_t mshrs = 160;      // per slice
  std::uint32_t waiters = 192;    // requests per slice
  std::uint32_t write_buffer = 16;
  std::uint32_t eager_ways = 0;
  std::uint32_t fetch_bytes = 32;
  std::uint32_t walk_sets = 1;     // per cycle
  std::uint32_t limit_burst = 64;  // cycles

  // Lines that one slice holds.
  std::uint32_t lines_per_slice() const;
  // Throws InputError if values do not fit each other.
  void check() const;

  static void describe(ParamTable<L2Params>& t);
};

// The crossbar. Every link exists twice, for requests and for responses, with the same latency; inside a GPC and at its
// end each way has a bandwidth of its own.
struct CrossbarParams {
  std::uint32_t sm_to_tpc = 12;     // cycles
  std::uint32_t tpc_to_cpc = 10;    // cycles
  std::uint32_t cpc_to_gpc = 10;    // cycles
  std::uint32_t gpc_to_slice = 30;  // cycles
  std::uint32_t crossing = 78;      // cycles, on top of gpc_to_slice

  double sm_bandwidth = 64;          // bytes per cycle
  double sm_read_bandwidth = 128;    // bytes per cycle
  double l1_read_bandwidth = 64;     // bytes per cycle
  double tpc_bandwidth = 128;        // bytes per cycle
  double tpc_read_bandwidth = 128;   // bytes per cycle
  double cpc_bandwidth = 384;        // bytes per cycle
  double cpc_read_bandwidth = 384;   // bytes per cycle
  double gpc_bandwidth = 768;        // bytes per cycle
  double gpc_read_bandwidth = 696;   // bytes per cycle
  double copies = 2.65;              // of multicasts, per cycle and GPC
  std::uint32_t gpc_sms = 0;         // that the three are for
  double crossing_bandwidth = 2560;  // bytes per cycle
  double slice_bandwidth = 64;       // bytes per cycle

  std::uint32_t queue = 16;  // packets
  std::uint32_t header_bytes = 32;

  // What a GPC of that many SMs has of the rates of GPCs.
  double gpc_share(std::uint32_t sms) const { return gpc_sms == 0 ? 1.0 : static_cast<double>(sms) / gpc_sms; }

  static void describe(ParamTable<CrossbarParams>& t);
};

// The TLB of a GPC, for address translation (MEM-04).
struct GpcTlbParams {
  std::uint32_t entries = 512;
  std::uint32_t ways = 8;
  std::uint32_t latency = 4;
  std::uint32_t misses = 32;
  std::uint32_t queue = 16;

  static void describe(ParamTable<GpcTlbParams>& t);
};

// Of the TLB at the L2's side.
struct L2TlbParams {
  std::uint32_t entries = 4096;
  std::uint32_t ways = 16;
  std::uint32_t latency = 40;

  static void describe(ParamTable<L2TlbParams>& t);
};

struct MmuParams {
  bool enabled = false;
  GpcTlbParams gpc_tlb;
  L2TlbParams l2_tlb;
  std::uint32_t distance = 100;
  std::uint32_t walkers = 16;

  static void describe(ParamTable<MmuParams>& t);
};

}  // namespace heddle::memory
