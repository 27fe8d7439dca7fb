// Parameters of the packet processor. Times in nanoseconds, so that presets of different clocks share them; in `lt`
// mode they cost nothing. What packets cost is counted work over rates: packet/packet_work.h.
#pragma once

#include <cstdint>

#include "arch/aql_diff.h"
#include "common/param_fwd.h"

namespace heddle::packet {

enum class QueueOrder { round_robin, priority };
enum class TablePlace { scratch, memory };
enum class TableOwner { queue, agent };
enum class CondensedOrder { in_order, overlap };
// Who processes packets: circuits made for it, or a program that runs on a general circuit, a warp of an SM (PKT-13).
enum class Circuit { packet, general };

struct PacketParams {
  std::uint32_t queues = 32;                   // user-mode queues, up to protocol::kMaxQueues
  QueueOrder order = QueueOrder::round_robin;  // at the decoder, and at in_flight (PKT-10)
  std::uint32_t fetch_ahead = 8;               // packets of a queue that are fetched before their turn
  std::uint32_t in_flight = 128;               // kernels dispatched and not complete, all queues
  std::uint32_t agents = 8;                    // agent packets of a queue that the host has at a time
  double poll = 500;                           // ns between looks at a barrier packet's signals in the host's memory
  // Rates of the processor's work (PKT-08).
  double step = 8.2;                       // ns of a step
  std::uint32_t step_bytes = 8;            // that move in or out in a step
  std::uint32_t step_half_words = 1;       // of a condensed packet that are taken apart in a step
  std::uint32_t step_checks = 1;           // rules that are checked in a step
  Circuit circuit = Circuit::packet;       // who does it (PKT-13)
  std::uint32_t program_instructions = 6;  // of a general circuit: that take the place of a step
  std::uint32_t program_issue = 6;         // cycles from one of them to the next
  // The table on the chip (PKT-11).
  std::uint32_t table_bits = 256;                       // width of its port: that many bits move in a cycle
  std::uint32_t table_latency = 4;                      // cycles from the end of an access at the port to its data
  TablePlace table = TablePlace::scratch;               // PKT-11
  TableOwner table_owner = TableOwner::queue;           // PKT-05
  CondensedOrder condensed = CondensedOrder::in_order;  // PKT-07
  // Entries of a table, and how a condensed packet names them and what differs (PKT-13).
  std::uint32_t entries = arch::kReferenceEntries;
  std::uint32_t reference_bits = 3;
  std::uint32_t vector_bits = arch::kDispatchFields;
  arch::DiffOf diff = arch::DiffOf::packet;

  arch::DiffFormat diff_format() const { return {diff, reference_bits, vector_bits}; }

  static void describe(ParamTable<PacketParams>& t);
};

}  // namespace heddle::packet
