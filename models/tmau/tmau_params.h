// Parameters of the tensor memory access units (TMAU).
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::tmau {

// Which of the waiting requests is next (TMA-03).
enum class QueueOrder : std::uint8_t {
  fifo,
  blocks_first,   // requests without a descriptor before others
  smallest_first  // by bytes of the box
};
// How a line request knows where its data go (TMA-15).
enum class Tracking : std::uint8_t {
  carried,  // its packets carry it
  table,    // they carry an index into a table of limited size
};
// TMA-42.
enum class PrefetchUnit : std::uint8_t { sector, line };

struct TmauParams {
  std::uint32_t sms = 1;     // served by one unit: SMs that follow each other in the GPC's masks
  std::uint32_t queue = 16;  // requests of each SM
  QueueOrder order = QueueOrder::fifo;
  std::uint32_t input = 28;          // cycles from the SM into the queue
  std::uint32_t descriptors = 16;    // entries of the descriptor cache
  std::uint32_t descriptor_hit = 8;  // cycles
  std::uint32_t setup = 12;          // cycles, of tensors alone
  std::uint32_t generate = 36;       // cycles to the first line request
  double rate = 1;                   // line requests per cycle
  std::uint32_t outstanding = 256;   // line requests
  Tracking tracking = Tracking::carried;
  std::uint32_t table = 256;        // entries
  std::uint32_t carried_bytes = 8;  // per request and response
  std::uint32_t response = 42;      // cycles from the network to shared memory
  std::uint32_t peer = 24;          // cycles between units
  PrefetchUnit prefetch = PrefetchUnit::line;
  bool share_receivers = false;  // two receivers of a multicast on one SM: both get the data, or an error (TMA-30)

  static void describe(ParamTable<TmauParams>& t);
};

}  // namespace heddle::tmau
