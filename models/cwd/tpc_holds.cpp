#include "cwd/tpc_holds.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::cwd {

TpcHolds::TpcHolds(std::uint32_t tpcs, std::uint32_t credits, std::uint32_t blocks)
    : tpcs_(tpcs), credits_(credits == 0 ? tpcs : std::min(credits, tpcs)), all_blocks_(blocks == 0 ? tpcs : blocks) {
  reset();
}

void TpcHolds::reset() {
  Row row;
  row.ctas.assign(tpcs_, 0);
  row.local.assign(tpcs_, 0);
  row.block.assign(tpcs_, kNone);
  row.credits = credits_;
  rows_.assign(arch::kSubcontexts, row);
  free_blocks_.clear();
  for (std::uint32_t block = all_blocks_; block-- > 0;) free_blocks_.push_back(block);
}

std::uint32_t TpcHolds::launch(std::uint32_t subcontext, std::uint32_t tpc, bool local) {
  Row& row = rows_[subcontext];
  if (row.ctas[tpc]++ == 0) {
    HEDDLE_CHECK(row.credits > 0, "a CTA was launched on a TPC without a credit for it");
    --row.credits;
  }
  if (!local || row.local[tpc]++ > 0) return kNone;
  HEDDLE_CHECK(!free_blocks_.empty(), "a CTA was launched on a TPC without a local-memory block");
  row.block[tpc] = free_blocks_.back();
  free_blocks_.pop_back();
  return row.block[tpc];
}

void TpcHolds::complete(std::uint32_t subcontext, std::uint32_t tpc, bool local) {
  Row& row = rows_[subcontext];
  HEDDLE_CHECK(row.ctas[tpc] > 0 && (!local || row.local[tpc] > 0),
               "a CTA left a TPC that its subcontext does not hold");
  if (--row.ctas[tpc] == 0) ++row.credits;
  if (!local || --row.local[tpc] > 0) return;
  free_blocks_.push_back(row.block[tpc]);
  row.block[tpc] = kNone;
}

bool TpcHolds::empty() const {
  return free_blocks_.size() == all_blocks_ && std::all_of(rows_.begin(), rows_.end(), [this](const Row& row) {
           return row.credits == credits_ &&
                  std::all_of(row.ctas.begin(), row.ctas.end(), [](std::uint32_t n) { return n == 0; });
         });
}

}  // namespace heddle::cwd
