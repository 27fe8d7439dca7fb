// Which subcontexts hold which TPCs: credit counters and the local-memory block index table (CWD-19, CWD-32).
//
// A subcontext holds a TPC while a CTA of it runs there; that takes one of its credits. Where its CTAs use local memory
// it also takes a block of local memory, as large as the TPC's threads need.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/kernel_record.h"

namespace heddle::cwd {

class TpcHolds {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // `credits`: TPCs that each subcontext may hold, 0: all. `blocks`: of local memory, 0: one per TPC.
  TpcHolds(std::uint32_t tpcs, std::uint32_t credits, std::uint32_t blocks);

  // A CTA goes to the TPC. Returns the local-memory block that this has assigned to the subcontext there, or kNone.
  // What it takes must be there.
  std::uint32_t launch(std::uint32_t subcontext, std::uint32_t tpc, bool local);
  void complete(std::uint32_t subcontext, std::uint32_t tpc, bool local);

  bool held(std::uint32_t subcontext, std::uint32_t tpc) const { return row(subcontext).ctas[tpc] > 0; }
  // The entry of the block index table, or kNone.
  std::uint32_t block(std::uint32_t subcontext, std::uint32_t tpc) const { return row(subcontext).block[tpc]; }
  std::uint32_t credits(std::uint32_t subcontext) const { return row(subcontext).credits; }
  std::uint32_t blocks() const { return static_cast<std::uint32_t>(free_blocks_.size()); }
  // True if a launch may find that it cannot take a TPC.
  bool limited(bool local) const { return local || credits_ < tpcs_; }
  // Nothing is held, every credit and every block is back.
  bool empty() const;
  void reset();

 private:
  struct Row {
    std::vector<std::uint32_t> ctas;   // by TPC
    std::vector<std::uint32_t> local;  // of those, with local memory
    std::vector<std::uint32_t> block;
    std::uint32_t credits = 0;
  };
  const Row& row(std::uint32_t subcontext) const { return rows_[subcontext]; }

  std::uint32_t tpcs_;
  std::uint32_t credits_;
  std::uint32_t all_blocks_;
  std::vector<Row> rows_;                   // by subcontext
  std::vector<std::uint32_t> free_blocks_;  // the last one is given next
};

}  // namespace heddle::cwd
