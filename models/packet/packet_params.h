// Parameters of the packet processor. Times in nanoseconds, so that presets of different clocks share them; in `lt`
// mode they cost nothing.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::packet {

enum class QueueOrder { round_robin, priority };
enum class TablePlace { scratch, memory };
enum class TableOwner { queue, agent };
enum class CondensedOrder { in_order, overlap };

struct PacketParams {
  std::uint32_t queues = 32;                   // user-mode queues, up to protocol::kMaxQueues
  QueueOrder order = QueueOrder::round_robin;  // at the decoder, and at in_flight (PKT-10)
  std::uint32_t fetch_ahead = 8;               // packets of a queue that are fetched before their turn
  std::uint32_t in_flight = 128;               // kernels dispatched and not complete, all queues
  std::uint32_t agents = 8;                    // agent packets of a queue that the host has at a time
  double poll = 500;                           // ns between looks at a barrier packet's signals in the host's memory
  double decode_plain = 200;                   // ns, kernel dispatch
  double decode_reference = 220;               // ns, and storing the table entry
  double decode_condensed = 160;               // ns, once per packet
  double decode_diff = 30;                     // ns, for each kernel of it
  double decode_other = 100;                   // ns, barrier, agent and vendor packets
  double dispatch = 165;                       // ns, each kernel: handing it to task management
  double clean_up = 165;                       // ns, each packet (and each kernel of a condensed one that asks for it)
  TablePlace table = TablePlace::scratch;      // PKT-11
  TableOwner table_owner = TableOwner::queue;  // PKT-05
  CondensedOrder condensed = CondensedOrder::in_order;  // PKT-07

  static void describe(ParamTable<PacketParams>& t);
};

}  // namespace heddle::packet
