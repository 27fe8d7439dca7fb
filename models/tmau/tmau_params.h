// Parameters of the tensor memory access units (TMAU).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "arch/mbarrier.h"
#include "arch/warp_program.h"
#include "common/param_fwd.h"
#include "common/stats.h"

namespace heddle::tmau {

// Which of the waiting requests is next (TMA-03).
enum class QueueOrder : std::uint8_t {
  fifo,
  blocks_first,     // requests without a descriptor before others
  smallest_first,   // by bytes of the box
  same_type_first,  // those with elements of the type of the one before
  same_space_first  // those between the memories of the one before
};
constexpr std::size_t kQueueOrders = 5;
// Where an SM's requests wait, and how they go through the stages (TMA-44).
enum class Queues : std::uint8_t {
  one,               // in one line
  by_kind,           // tensors and blocks in lines of their own, which do not wait for each other
  prefetches_apart,  // prefetches and all others, in the same way
};
// How a line request knows where its data go (TMA-15).
enum class Tracking : std::uint8_t {
  carried,  // its packets carry it
  table,    // they carry an index into a table of limited size
};
// What becomes of a request that breaks a rule which a machine may not insist on (TMA-06).
enum class RuleAction : std::uint8_t { refuse, report };
// Which requests the units are for.
enum class Requests : std::uint8_t { all, tensors, blocks };
// TMA-42.
enum class PrefetchUnit : std::uint8_t { sector, line };

struct TmauParams {
  bool enabled = true;  // the machine has units (TMA-46)
  Requests requests = Requests::all;
  std::uint32_t sms = 1;     // served by one unit: SMs that follow each other in the GPC's masks
  std::uint32_t queue = 16;  // requests of each SM
  QueueOrder order = QueueOrder::fifo;
  Queues queues = Queues::one;
  std::uint32_t input = 28;          // cycles from the SM into the queue
  std::uint32_t descriptors = 16;    // entries of the descriptor cache
  std::uint32_t descriptor_hit = 8;  // cycles
  std::uint32_t setup = 12;          // cycles, of tensors alone
  std::uint32_t setup_loop = 10;     // cycles for each loop of the walk, besides
  std::uint32_t stages = 5;          // requests of each SM behind the queue
  std::uint32_t generate = 36;       // cycles to the first line request
  double rate = 0.75;                // line requests per cycle: of tensors' loads
  double block_rate = 0.336;         // of blocks' loads
  double store_rate = 0.25;          // of tensors' stores
  double block_store_rate = 0.143;   // of blocks' stores
  std::uint32_t turn = 16;           // line requests of an SM in a row
  std::uint32_t ahead = 8;           // cycles
  std::uint32_t outstanding = 384;   // line requests
  Tracking tracking = Tracking::carried;
  std::uint32_t table = 256;        // entries
  std::uint32_t table_latency = 4;  // cycles
  std::uint32_t carried_bytes = 8;  // per request and response
  std::uint32_t response = 42;      // cycles from the network to shared memory
  PrefetchUnit prefetch = PrefetchUnit::line;
  RuleAction shared_alignment = RuleAction::refuse;
  RuleAction empty_box = RuleAction::refuse;
  RuleAction base_outside = RuleAction::refuse;
  RuleAction inner_address = RuleAction::report;
  bool share_receivers = false;  // two receivers of a multicast on one SM: both get the data, or an error (TMA-30)

  // What such a program needs and the machine has not, in words; nullptr: nothing (TMA-46).
  const char* missing(const arch::TmauNeeds& needs) const;
  // Bytes of an index into the table.
  std::uint32_t index_bytes() const {
    std::uint32_t bytes = 1;
    while (bytes < 4 && table > std::uint64_t{1} << (8 * bytes)) ++bytes;
    return bytes;
  }
  // Lines of each SM.
  std::uint32_t lanes() const { return queues == Queues::one ? 1 : 2; }
  // Line requests per cycle of that kind of request.
  double rate_of(arch::BulkKind kind, bool tensor) const {
    const bool stores = kind == arch::BulkKind::store || kind == arch::BulkKind::reduce || kind == arch::BulkKind::send;
    if (stores) return tensor ? store_rate : block_store_rate;
    return tensor ? rate : block_rate;
  }

  static void describe(ParamTable<TmauParams>& t);
};

// Statistics of a tensor memory access unit. Few, as a machine has many.
struct TmauStats : StatGroup {
  // By kind of request.
  class ByKind {
   public:
    Counter& operator[](arch::BulkKind kind) { return *counters_[static_cast<std::size_t>(kind)]; }

   private:
    friend TmauStats;
    static constexpr std::size_t kKinds = arch::kBulkKinds;
    std::array<Counter*, kKinds> counters_{};
  };

  TmauStats(Stats& stats, const std::string& prefix) : StatGroup(stats, prefix) {
    for (std::size_t i = 0; i < ByKind::kKinds; ++i) {
      const std::string kind = arch::bulk_name(static_cast<arch::BulkKind>(i));
      requests.counters_[i] = &counter("requests." + kind, "requests", "requests that arrived: " + kind);
    }
  }

  ByKind requests;
  Counter& lines = counter("lines", "requests", "line requests to memory");
  Counter& bytes_in = counter("bytes_in", "bytes", "bytes that memory was asked for");
  Counter& bytes_out = counter("bytes_out", "bytes", "bytes of writes and reductions to memory");
  Counter& delivered = counter("delivered", "lines", "lines handed to shared memory of the unit's SMs");
  Counter& fills = counter("fills", "lines", "lines that lay outside their tensor and were filled");
  Counter& descriptor_hits = counter("descriptor.hits", "requests", "descriptors that were cached");
  Counter& descriptor_misses = counter("descriptor.misses", "requests", "descriptors that were fetched");
  Counter& descriptor_ahead =
      counter("descriptor.ahead", "requests",
              "of both, those looked up while an earlier request was in the stages, generation included");
  Counter& queue_busy = counter("stage.queue", "cycles", "cycles in which some request waited in the unit's queues");
  Counter& descriptor_busy = counter("stage.descriptor", "cycles", "cycles of descriptor look-ups and fetches");
  Counter& setup_busy = counter("stage.setup", "cycles", "cycles of set-up");
  Counter& generator_busy =
      counter("stage.generator", "cycles", "cycles between the first and the last line request of requests");
  Counter& wait_outstanding =
      counter("wait.outstanding", "cycles", "of these, those that waited for an answer to an earlier line request");
  Counter& wait_crossbar = counter("wait.crossbar", "cycles", "of these, those that waited for room in the crossbar");
  Counter& multicast_sent = counter("multicast.sent", "requests", "line requests of multicast loads");
  Counter& multicast_received =
      counter("multicast.received", "lines",
              "lines of multicast loads that memory gave for the unit's SMs: fills are not counted");
  Counter& multicast_saved = counter("multicast.saved", "requests",
                                     "requests that the L2 did not see: receivers beyond the first of each line");
  Counter& acknowledgements =
      counter("multicast.acknowledged", "lines", "lines, fills included, whose delivery other units confirmed");
  Counter& dropped = counter("dropped", "requests", "requests that broke a rule");
  Counter& failed = counter("failed", "requests", "requests with an error response");
  // Rules that were broken, and only reported.
  Counter& reported_alignment = counter("reported.shared_alignment", "requests",
                                        "tensor requests whose address in shared memory was no multiple of 128");
  Counter& reported_empty =
      counter("reported.empty_box", "requests", "im2col requests whose bounding box had no pixel");
  Counter& reported_base = counter("reported.base_outside", "requests",
                                   "im2col requests whose filter base position was outside the bounding box");
  Counter& reported_inner =
      counter("reported.inner_address", "requests",
              "tensor requests whose first byte in device memory was at no multiple of 16: hardware may refuse them");
  Histogram& cycles = histogram("cycles", "cycles", "from a request's arrival in the unit to its completion");
};

}  // namespace heddle::tmau
