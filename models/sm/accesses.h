// Accesses of warps to memory that are under way, the transactions that they consist of, and what becomes of the bytes
// that come.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/warp_program.h"
#include "common/cycle.h"
#include "common/index_pool.h"
#include "sm/lane_data.h"
#include "sm/shared_memory.h"
#include "sm/sm_params.h"
#include "sm/warp.h"

namespace heddle::sm {

enum class AccessKind : std::uint8_t {
  load,
  copy,
  store,
  atomic,
  reduce,
  flush,
  mbarrier,  // of another CTA of the CGA
};

// What its warp does until it has ended.
enum class AccessWait : std::uint8_t {
  none,
  blocks,    // the warp does nothing (acquire at CTA scope)
  acquires,  // the L1 forgets what it holds as well
};

// Who is left of its CTA.
enum class AccessLife : std::uint8_t {
  live,
  dead,         // the CTA has been killed
  orphan,       // posted, and the CTA has gone
  dead_orphan,  // the CTA was killed, and has gone
};

// Why nothing comes of it.
enum class AccessFailure : std::uint8_t {
  none,
  error,
  outside,    // copy: its destination has been released (CGA-09)
  poisoned,   // the data that came are corrupt
  unmapped,   // the subcontext has no page there (PRT-08)
  read_only,  // it has one, and may not write to it
  refused,    // by another SM
};

// Whose access it is.
enum class AccessUse : std::uint8_t {
  warp,      // of its program
  step,      // of a device-side launch: others rely on it, even if its CTA is killed
  transfer,  // of a CTA that is saved or restored
};

struct Access;

// Told of what ends later. Calls come inside those of the crossbar, with the cycle, now or later, that they are for.
class AccessClient {
 public:
  // All transactions have come; the access is gone afterwards.
  virtual void access_ended(const Access& access, Cycle when) = 0;
  // The same for one that comes to nothing: it is dead, or has failed.
  virtual void access_lost(const Access& access, Cycle when) = 0;
  // An error response for a transaction; `lane` is the first concerned. If access.failure is `outside`, the address is
  // an offset in shared memory.
  virtual void access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) = 0;

 protected:
  ~AccessClient() = default;
};

// One warp instruction. It is over when the last of its transactions is.
struct Access {
  AccessKind kind = AccessKind::load;
  AccessUse use = AccessUse::warp;
  AccessLife life = AccessLife::live;
  AccessFailure failure = AccessFailure::none;
  AccessWait wait = AccessWait::none;
  bool cluster = false;      // of DSMEM: its registers are there when the last reply is, without the way through the L1
  bool posted = false;       // nobody waits for it: it does not count for its CTA
  bool unit_stride = false;  // its lanes lie side by side
  std::uint8_t width = 4;
  arch::OpCode code = arch::OpCode::load;
  std::uint16_t destination = arch::kNoRegister;
  std::uint32_t warp = 0;                       // warp slot
  std::uint32_t cta = 0;                        // CTA slot
  std::uint32_t pc = 0;                         // for messages
  std::uint64_t issued = 0;                     // Warp::issued, its pc included
  std::uint32_t open = 0;                       // transactions
  Cycle last = 0;                               // latest arrival
  std::uint64_t group = 0;                      // copy: the warp's group
  std::uint64_t origin = 0;                     // orphan: linear id of the CTA that has gone
  std::uint32_t origin_rank = 0;                // orphan: rank of that CTA in its CGA
  AccessClient* client = nullptr;               // whose it is
  arch::PerLane<std::uint8_t> offset{};         // in the line; with unit stride that of lane 0 alone
  arch::PerLane<std::uint32_t> shared_address;  // copy

  bool dead() const { return life == AccessLife::dead || life == AccessLife::dead_orphan; }
  bool orphan() const { return life == AccessLife::orphan || life == AccessLife::dead_orphan; }
  bool failed() const { return failure != AccessFailure::none; }
  void fail(AccessFailure why) {
    if (failure == AccessFailure::none) failure = why;
  }
  bool writes() const { return kind == AccessKind::store || kind == AccessKind::atomic || kind == AccessKind::reduce; }
  bool returns() const { return kind == AccessKind::load || kind == AccessKind::atomic; }
  std::uint32_t offset_of(std::uint32_t lane) const {
    return unit_stride ? (offset[0] + lane * width) % arch::kLineBytes : offset[lane];
  }
};

// What of an access lies in one line.
struct Transaction {
  std::uint32_t access = 0;
  arch::LaneMask lanes = 0;
  std::uint8_t sectors = 0;  // that have not come
};

// What a memory instruction comes to. Registers that it reads from memory have been written, if `ready` is known.
struct MemoryResult {
  Cycle ready = 0;    // when what depends on it can issue; kNever: access_ended() tells
  Cycle arrival = 0;  // if ready is known: when the last of its requests was answered; 0: there was none
  bool open = false;  // an access is under way, or has failed
  bool lost = false;  // it has failed, and is over: access_lost() does not come
};

// Accesses and transactions have numbers while they are under way.
class AccessTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  AccessTable(std::vector<Warp>& warps, SharedMemory& shared, const MemoryParams& params)
      : warps_(warps), shared_(shared), hit_rest_(params.l1_latency - params.l1_tag_latency) {}

  // The access counts as open until end().
  std::uint32_t begin(const arch::Operation& operation, std::uint32_t warp, bool unit_stride, AccessClient& client,
                      AccessUse use);
  Access& operator[](std::uint32_t access) { return accesses_[access]; }
  // Everything has been asked for. Loosely timed, everything has been answered as well.
  MemoryResult end(std::uint32_t access);
  // Everything has been asked for, and the caller says what that means. True: all has been answered already, and the
  // access is gone.
  bool close(std::uint32_t access);

  std::uint32_t add_transaction(std::uint32_t access, const LineAccess& line);
  // A transaction without an access, and its access.
  std::uint32_t take_transaction() { return transactions_.take(); }
  void give_back_transaction(std::uint32_t transaction) { transactions_.give_back(transaction); }
  void set_transaction(std::uint32_t transaction, const Transaction& its) { transactions_[transaction] = its; }
  void join(std::uint32_t transaction, std::uint32_t access);
  const Transaction& transaction(std::uint32_t transaction) const { return transactions_[transaction]; }
  Access& access_of(const Transaction& transaction) { return accesses_[transaction.access]; }

  // Bytes of a line, from `offset` on, go to the registers of those lanes, or to where a copy wants them in shared
  // memory; gives the cycles that its banks take for that, of a load none.
  std::uint32_t deliver(Access& access, arch::LaneMask lanes, std::uint8_t sectors, const std::uint8_t* bytes,
                        std::uint32_t offset, Cycle arrival);
  std::uint32_t* registers_of(const Access& access) { return warps_[access.warp].state.of(access.destination); }
  // Those sectors have not come: it is the fault of the first lane that wants one of them.
  void transaction_failed(std::uint32_t transaction, std::uint64_t line, std::uint8_t sectors, AccessFailure why,
                          Cycle arrival);
  void transaction_ended(std::uint32_t transaction, std::uint8_t sectors, Cycle arrival);

  // The accesses of a CTA come to nothing: it has been killed.
  void forget(std::uint32_t cta);
  // The CTA has gone, and posted accesses of it are under way: they belong to its CGA alone from now on. `index`,
  // `rank`: of the CTA in its grid and its CGA.
  void abandon(std::uint32_t cta, std::uint64_t index, std::uint32_t rank);
  void reset() {
    accesses_.clear();
    transactions_.clear();
  }

 private:
  std::uint32_t copy(Access& access, arch::LaneMask lanes, std::uint8_t sectors, const std::uint8_t* bytes,
                     std::uint32_t offset, Cycle arrival);

  std::vector<Warp>& warps_;
  SharedMemory& shared_;
  const Cycle hit_rest_;  // from the tags of the L1 to the registers
  IndexPool<Access> accesses_;
  IndexPool<Transaction> transactions_;
};

}  // namespace heddle::sm
