// Which subcontexts hold which TPCs: credits, enable masks, and the local-memory block index table (CWD-19, CWD-32,
// PRT-02 to PRT-07).
//
// A subcontext holds a TPC while a CTA of it runs there; that takes one of its credits. Where its CTAs use local memory
// it also takes a block of local memory, as large as the TPC's threads need. Credits are counted in every mode and
// asked for in the dynamic one, so that the mode can change at any time.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/sm_limits.h"
#include "arch/task_record.h"
#include "arch/topology.h"
#include "cwd/lake_fill.h"
#include "protocol/host_task.h"

namespace heddle::cwd {

using protocol::ShareRefusal;
// "the machine has no such TPC"
const char* refusal_text(ShareRefusal refusal);

// What a launch on a TPC takes besides free slots.
struct TpcPrice {
  enum class Bar : std::uint8_t {
    none,
    mask,    // the subcontext may not run there
    drains,  // static mode: CTAs of another subcontext still run there
    block,   // static mode: no local-memory block has been set, or another still has it
    cut,     // dynamic mode: the subcontext has fewer credits than it holds TPCs, and gives this one up
  };
  Bar bar = Bar::none;
  bool credit = false;
  bool block = false;  // one that is not assigned
};

struct QuotaOptions {
  protocol::PartitionMode mode = protocol::PartitionMode::none;
  std::uint32_t credits = 0;  // of every subcontext at the start; 0: one per TPC
  std::uint32_t blocks = 0;   // of local memory, of each subcontext; 0: one per TPC
};

// The blocks of local memory of one subcontext (PRT-06): which are free, and for which TPC software has set them.
class LocalBlocks {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  explicit LocalBlocks(std::uint32_t count) : count_(count) { reset(); }
  void reset();

  std::uint32_t count() const { return count_; }
  std::uint32_t free() const { return static_cast<std::uint32_t>(free_.size()); }
  bool is_free(std::uint32_t block) const { return place_[block] != kNone; }
  // Any that is free; there must be one.
  std::uint32_t take();
  // That one, which is free.
  void take(std::uint32_t block);
  void give(std::uint32_t block);
  // Software sets a block for the owner in place of `old`; kNone: none. False, and nothing happens: it is another's.
  bool set_owner(std::uint64_t owner, std::uint32_t old, std::uint32_t block);

 private:
  std::uint32_t count_;
  std::vector<std::uint32_t> free_;    // the last one is given next
  std::vector<std::uint32_t> place_;   // by block: its place among them; kNone: in use
  std::vector<std::uint64_t> owners_;  // by block: for whom software has set it
};

// What local memory the subcontexts have (PRT-06): where it lies, and how much of it each thread.
class LocalMemories {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 24;  // of a thread

  LocalMemories() { reset(); }
  void reset() { all_.assign(arch::kSubcontexts, {}); }

  // Refused while a block is in use.
  ShareRefusal set_address(std::uint32_t subcontext, std::uint64_t address, bool in_use);
  ShareRefusal set_bytes(std::uint32_t subcontext, std::uint64_t bytes, bool in_use);

  const arch::LocalMemory& of(std::uint32_t subcontext) const { return all_[subcontext]; }
  // A kernel whose threads have so much fits into what the subcontext has; always, if nobody has said what it has.
  bool holds(std::uint32_t subcontext, std::uint32_t bytes) const {
    return all_[subcontext].bytes == 0 || bytes <= all_[subcontext].bytes;
  }

 private:
  std::vector<arch::LocalMemory> all_;
};

class TpcQuota {
 public:
  static constexpr std::uint32_t kNone = LocalBlocks::kNone;
  static constexpr std::uint64_t kMostCredits = 4096;
  using Mode = protocol::PartitionMode;

  TpcQuota(std::uint32_t tpcs, const QuotaOptions& options);

  // Changes at run time (PRT-07), also within a session: what that has seen, it may still launch on.
  // To static: refused if two masks that software has set share a TPC. A mask that it has not set is everything in the
  // other modes, and nothing in this one.
  ShareRefusal set_mode(Mode mode);
  // Credits go up by the difference to the maximum before; they may become negative. As many of the TPCs that it holds
  // are given up then: those that its mask has not, then those with the fewest CTAs, of equal ones the last. No session
  // that begins later launches there until the credits suffice again.
  ShareRefusal set_credits(std::uint32_t subcontext, std::uint64_t maximum);
  ShareRefusal enable(std::uint32_t subcontext, std::uint32_t tpc, bool enabled);
  // For static mode; kNone: none any more.
  ShareRefusal set_block(std::uint32_t subcontext, std::uint32_t tpc, std::uint64_t block);

  // A session of the subcontext begins. It reserves credits for the TPCs that it may newly take (PRT-10) and, in static
  // mode, the blocks of TPCs that have none assigned. What it has not used comes back when it ends. Credits of TPCs
  // that become empty meanwhile are its own until then.
  void open_session(std::uint32_t subcontext);
  void reserve(std::uint32_t credits);
  void reserve_block(std::uint32_t tpc);
  void close_session();

  TpcPrice price(std::uint32_t subcontext, std::uint32_t tpc, bool local) const;
  // A CTA goes to the TPC. Returns the local-memory block that this has assigned to the subcontext there, or kNone.
  // What it takes must be there.
  std::uint32_t launch(std::uint32_t subcontext, std::uint32_t tpc, bool local);
  void complete(std::uint32_t subcontext, std::uint32_t tpc, bool local);

  Mode mode() const { return mode_; }
  bool held(std::uint32_t subcontext, std::uint32_t tpc) const { return row(subcontext).ctas[tpc] > 0; }
  std::uint32_t tpcs_held(std::uint32_t subcontext) const { return row(subcontext).held; }
  std::uint32_t holders(std::uint32_t tpc) const { return holders_[tpc]; }  // subcontexts
  bool enabled(std::uint32_t subcontext, std::uint32_t tpc) const {
    return row(subcontext).masked ? row(subcontext).mask[tpc] : mode_ != Mode::static_;
  }
  // The entry of the block index table, or kNone.
  std::uint32_t block(std::uint32_t subcontext, std::uint32_t tpc) const { return row(subcontext).block[tpc]; }
  // The subcontext holds the TPC and gives it up.
  bool gives_up(std::uint32_t subcontext, std::uint32_t tpc) const { return row(subcontext).given_up[tpc]; }
  std::int64_t credits(std::uint32_t subcontext) const { return row(subcontext).credits; }
  std::uint32_t reserved(std::uint32_t subcontext) const { return row(subcontext).reserved; }
  std::int64_t maximum(std::uint32_t subcontext) const { return row(subcontext).maximum; }
  std::uint32_t blocks(std::uint32_t subcontext) const { return row(subcontext).blocks.free(); }
  // Somebody has changed the subcontext's credits, or the mode, since the start.
  bool changed(std::uint32_t subcontext) const { return mode_ != options_.mode || row(subcontext).changed; }
  // True if a launch may find that it cannot take a TPC.
  bool limited(bool local) const { return local || mode_ != Mode::none; }
  // Nothing is held, every credit and every block is back.
  bool empty() const;
  void reset();

 private:
  friend class SavedShares;
  struct Row {
    explicit Row(std::uint32_t local_blocks) : blocks(local_blocks) {}

    LocalBlocks blocks;
    std::vector<std::uint32_t> ctas;   // by TPC
    std::vector<std::uint32_t> local;  // of those, with local memory
    std::vector<std::uint32_t> block;  // assigned, or reserved by the session
    std::vector<std::uint32_t> own;    // set by software
    std::vector<bool> mask;
    std::vector<bool> given_up;   // TPCs that it holds
    std::uint32_t giving_up = 0;  // so many
    bool masked = false;          // software has set some of it
    bool changed = false;
    std::uint32_t held = 0;  // TPCs
    std::uint32_t reserved = 0;
    std::int64_t credits = 0;
    std::int64_t maximum = 0;
  };
  struct Session {
    bool open = false;
    std::uint32_t subcontext = 0;
    Mode mode = Mode::none;
    std::vector<std::uint32_t> blocks;  // TPCs whose block may have to go back
  };
  const Row& row(std::uint32_t subcontext) const { return rows_[subcontext]; }
  bool session_of(std::uint32_t subcontext, Mode mode) const {
    return session_.open && session_.mode == mode && session_.subcontext == subcontext;
  }
  void check(const Row& row) const;
  void settle(Row& row);
  void give_block(Row& row, std::uint32_t tpc);

  std::uint32_t tpcs_;
  QuotaOptions options_;
  Mode mode_ = Mode::none;
  std::vector<Row> rows_;               // by subcontext
  std::vector<std::uint32_t> holders_;  // by TPC
  Session session_;
};

// Which SMs receive the CTAs of a plain grid under dynamic partitioning, CTA by CTA (PRT-03).
//
// With a credit left, every enabled TPC with room is a candidate; without one, the TPCs that the subcontext holds. A
// CTA goes to an SM whose load is at most that of every other candidate; among equals to one with most free slots, then
// to one of a held TPC, then the SM priority order decides. A TPC is held from its first CTA on.
//
// The load of an SM is the share that is taken of the resource of which most is taken, in steps of 1/kLoadSteps,
// rounded up: an idle SM comes before one that is half full, even if the kernel fits once on either.
constexpr std::uint32_t kLoadSteps = 64;
std::uint32_t load_of(const arch::ResourceVector& used, const arch::ResourceVector& capacity);

// What a plain grid finds, by SM id.
struct CreditView {
  const std::vector<std::uint16_t>& slots;  // free; TPCs with a bar have none
  const std::vector<arch::ResourceVector>& used;
  const arch::ResourceVector& need;  // of a CTA
};

// What the subcontext has to spend.
struct CreditPurse {
  std::int64_t credits = 0;
  std::uint32_t blocks = 0;
};

class CreditFill {
 public:
  // `priority`: SM ids, a permutation. `tpc_of`: by SM id, TPCs counted over the machine. `one_at_a_time`: every mask
  // has one bit, and a step is a CTA (CWD-08); otherwise it is a level, of which every SM receives one CTA.
  CreditFill(std::vector<std::uint32_t> priority, std::vector<std::uint32_t> tpc_of, const arch::Topology& topology,
             const arch::ResourceVector& capacity, bool one_at_a_time);

  // `prices`: by TPC. Places as many of the CTAs as it can.
  const Placement& place(const CreditView& view, std::uint64_t ctas, const std::vector<TpcPrice>& prices,
                         const CreditPurse& purse);
  // TPCs that the last placement takes newly: credits that it needs.
  std::uint32_t new_tpcs() const { return new_tpcs_; }

 private:
  // Larger: comes first. 0: no free slot.
  using Level = std::uint32_t;
  Level level_of(std::uint32_t sm) const;
  void fill_level(Level level);
  bool pay(std::uint32_t tpc);
  void put(std::uint32_t sm, Level level);

  const arch::Topology& topology_;
  std::vector<std::uint32_t> priority_;
  std::vector<std::uint32_t> tpc_of_;
  std::vector<std::vector<std::uint32_t>> members_;  // by TPC: SMs in priority order
  const arch::ResourceVector capacity_;
  bool one_at_a_time_;

  std::vector<std::uint16_t> slots_;
  std::vector<arch::ResourceVector> used_;
  arch::ResourceVector need_;
  Level last_ = 0;  // of the last CTA that was placed
  std::vector<TpcPrice> prices_;
  CreditPurse purse_;
  std::uint64_t left_ = 0;
  std::uint32_t new_tpcs_ = 0;
  Placement result_;
};

}  // namespace heddle::cwd
