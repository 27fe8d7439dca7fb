// What requests to a device's tensor memory access units have moved, by kind and by tensor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "arch/mbarrier.h"
#include "common/stats.h"

namespace heddle {

// Machine-wide: the units say what each request has come to when it is over. Of each kind there are statistics; of each
// tensor, by the address of its descriptor, a row for the page and stats.json.
class BulkMap {
 public:
  // Whose bytes a request moves.
  enum class Source : std::uint8_t {
    block,       // no tensor: `address` is 0
    descriptor,  // a tensor with a descriptor at `address`
    carried,     // a tensor at `address`, whose parameters the instruction carried
  };
  // What one request has come to.
  struct Request {
    Source source = Source::block;
    std::uint8_t subcontext = 0;  // that the address belongs to
    std::uint64_t address = 0;
    arch::BulkKind kind = arch::BulkKind::load;
    bool went_wrong = false;          // it broke a rule, or memory answered with an error
    std::uint64_t bytes = 0;          // of the box or block, filled ones included
    std::uint64_t fetched = 0;        // of the sectors that it asked memory for
    std::uint64_t used = 0;           // of these, bytes that belong to the box or block
    std::uint64_t lines = 0;          // pieces of it
    std::uint64_t cycles = 0;         // from its arrival in the unit to its end
    std::uint64_t described_for = 0;  // cycles of these from the look-up of its descriptor to its presence
  };
  // Sums over requests with the same source and kind.
  struct Row {
    Request sum;  // went_wrong means nothing
    std::uint64_t requests = 0;
    std::uint64_t wrong = 0;  // of these
    std::uint64_t longest = 0;
  };

  // `prefix`: of the device, "gpu0". `stats` must outlive it.
  BulkMap(Stats& stats, const std::string& prefix);

  void add(const Request& request);
  // In the order of their first request's end.
  const std::vector<Row>& rows() const { return rows_; }
  // The rows are gone.
  void clear();

 private:
  struct OfKind : StatGroup {
    OfKind(Stats& stats, const std::string& prefix) : StatGroup(stats, prefix) {}
    Counter& bytes = counter("bytes", "bytes", "bytes of boxes and blocks, filled ones included");
    Counter& fetched = counter("fetched", "bytes", "bytes of the sectors that memory was asked for");
    Counter& used = counter("used", "bytes", "of these, bytes that belong to boxes and blocks");
    Histogram& cycles = histogram("cycles", "cycles", "from a request's arrival in its unit to its end");
  };
  using Key = std::tuple<Source, std::uint8_t, std::uint64_t, arch::BulkKind>;

  std::vector<OfKind> kinds_;  // those that move bytes
  std::vector<Row> rows_;
  std::map<Key, std::size_t> index_;
};

}  // namespace heddle
