#include "tmau/tmau_stats.h"

#include <fmt/format.h>

namespace heddle::tmau {

TmauStats::TmauStats(Stats& stats, const std::string& prefix)
    : lines(stats.counter(prefix + ".lines", "requests", "line requests to memory")),
      bytes_in(stats.counter(prefix + ".bytes_in", "bytes", "bytes that memory was asked for")),
      bytes_out(stats.counter(prefix + ".bytes_out", "bytes", "bytes of writes and reductions to memory")),
      delivered(stats.counter(prefix + ".delivered", "lines", "lines handed to shared memory of the unit's SMs")),
      fills(stats.counter(prefix + ".fills", "lines", "lines that lay outside their tensor and were filled")),
      descriptor_hits(stats.counter(prefix + ".descriptor.hits", "requests", "descriptors that were cached")),
      descriptor_misses(stats.counter(prefix + ".descriptor.misses", "requests", "descriptors that were fetched")),
      descriptor_ahead(
          stats.counter(prefix + ".descriptor.ahead", "requests",
                        "of both, those looked up while an earlier request was in the stages, generation included")),
      queue_busy(
          stats.counter(prefix + ".stage.queue", "cycles", "cycles in which some request waited in the unit's queues")),
      descriptor_busy(
          stats.counter(prefix + ".stage.descriptor", "cycles", "cycles of descriptor look-ups and fetches")),
      setup_busy(stats.counter(prefix + ".stage.setup", "cycles", "cycles of set-up")),
      generator_busy(stats.counter(prefix + ".stage.generator", "cycles",
                                   "cycles between the first and the last line request of requests")),
      wait_outstanding(stats.counter(prefix + ".wait.outstanding", "cycles",
                                     "of these, those that waited for an answer to an earlier line request")),
      wait_crossbar(
          stats.counter(prefix + ".wait.crossbar", "cycles", "of these, those that waited for room in the crossbar")),
      multicast_sent(stats.counter(prefix + ".multicast.sent", "requests", "line requests of multicast loads")),
      multicast_received(
          stats.counter(prefix + ".multicast.received", "lines",
                        "lines of multicast loads that memory gave for the unit's SMs: fills are not counted")),
      multicast_saved(stats.counter(prefix + ".multicast.saved", "requests",
                                    "requests that the L2 did not see: receivers beyond the first of each line")),
      acknowledgements(stats.counter(prefix + ".multicast.acknowledged", "lines",
                                     "lines, fills included, whose delivery other units confirmed")),
      dropped(stats.counter(prefix + ".dropped", "requests", "requests that broke a rule")),
      failed(stats.counter(prefix + ".failed", "requests", "requests with an error response")),
      flagged(stats.counter(prefix + ".flagged", "requests",
                            "im2col requests whose filter base position was outside the bounding box")),
      cycles(stats.histogram(prefix + ".cycles", "cycles", "from a request's arrival in the unit to its completion")) {
  for (std::size_t i = 0; i < kBulkKinds; ++i) {
    const char* kind = arch::bulk_name(static_cast<arch::BulkKind>(i));
    requests[i] = &stats.counter(fmt::format("{}.requests.{}", prefix, kind), "requests",
                                 fmt::format("requests that arrived: {}", kind));
  }
}

}  // namespace heddle::tmau
