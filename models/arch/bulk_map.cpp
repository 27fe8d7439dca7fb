#include "arch/bulk_map.h"

#include <algorithm>

#include "common/error.h"

namespace heddle {
namespace {

constexpr std::size_t kMoving = static_cast<std::size_t>(arch::BulkKind::send) + 1;
static_assert(kMoving == static_cast<std::size_t>(arch::BulkKind::drain), "the kinds that move bytes come first");

}  // namespace

BulkMap::BulkMap(Stats& stats, const std::string& prefix) {
  kinds_.reserve(kMoving);
  for (std::size_t i = 0; i < kMoving; ++i) {
    kinds_.emplace_back(stats, prefix + ".bulk." + arch::bulk_name(static_cast<arch::BulkKind>(i)));
  }
}

void BulkMap::add(const Request& request) {
  const auto kind = static_cast<std::size_t>(request.kind);
  HEDDLE_CHECK(kind < kinds_.size(), "a request that moves nothing has no place among those that do");
  OfKind& stats = kinds_[kind];
  stats.bytes.add(request.bytes);
  stats.fetched.add(request.fetched);
  stats.used.add(request.used);
  if (!request.went_wrong) stats.cycles.add(request.cycles);

  const Key key{request.source, request.subcontext, request.address, request.kind};
  const auto [found, is_new] = index_.try_emplace(key, rows_.size());
  if (is_new) {
    Row row;
    row.sum.source = request.source;
    row.sum.subcontext = request.subcontext;
    row.sum.address = request.address;
    row.sum.kind = request.kind;
    rows_.push_back(row);
  }
  Row& row = rows_[found->second];
  ++row.requests;
  row.wrong += request.went_wrong ? 1 : 0;
  row.sum.bytes += request.bytes;
  row.sum.fetched += request.fetched;
  row.sum.used += request.used;
  row.sum.lines += request.lines;
  row.sum.cycles += request.went_wrong ? 0 : request.cycles;
  row.sum.described_for += request.described_for;
  if (!request.went_wrong) row.longest = std::max(row.longest, request.cycles);
}

void BulkMap::clear() {
  rows_.clear();
  index_.clear();
}

}  // namespace heddle
