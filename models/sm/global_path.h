// Accesses of warps to device memory: lines, the L1, and requests to the L2.
//
// What an instruction does to the L1 is done when it issues: the port serves instructions in that order.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/address_map.h"
#include "arch/warp_program.h"
#include "common/reservation.h"
#include "common/timebase.h"
#include "sm/accesses.h"
#include "sm/l1_cache.h"
#include "sm/l2_port.h"
#include "sm/lane_data.h"
#include "sm/load_batch.h"

namespace heddle::protocol {
enum class MemoryAction : std::uint8_t;
}

namespace heddle::sm {

// What asynchronous copies write to shared memory when their data arrive takes cycles of the SM's port, like any other
// wavefront. Answers are known ahead of their time, and the port serves in the order of time: each waits for its own.
class CopyArrivals final : private EventHandler {
 public:
  CopyArrivals(Timebase& time, IssuePort& port, AccessTable& accesses, SmStats& stats)
      : time_(time), port_(port), accesses_(accesses), stats_(stats) {}

  // Those sectors of a transaction arrive, and take the banks that many cycles: only then have they ended.
  void arrive(std::uint32_t transaction, std::uint8_t sectors, std::uint32_t cycles, Cycle arrival);
  // What the L1 held is written behind the read that has just taken the port: gives the last cycle of that.
  Cycle write_hit(Cycle begin, std::uint32_t cycles) { return use_port(begin, cycles); }

 private:
  const char* handler_name() const override { return "copy arrivals"; }
  // `kind`: cycles. `argument`: the transaction, and above it its sectors.
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  Cycle use_port(Cycle from, std::uint32_t cycles);

  Timebase& time_;
  IssuePort& port_;
  AccessTable& accesses_;
  SmStats& stats_;
};

// Told how loads end that were put off.
class LoadClient : public AccessClient {
 public:
  // `result`: as access() would have given it.
  virtual void load_ended(const PutOffLoad& load, const MemoryResult& result) = 0;

 protected:
  ~LoadClient() = default;
};

class GlobalPath final : public L2Client, public LoadOwner {
 public:
  GlobalPath(Timebase& time, const MemoryView& view, protocol::SmId sm, const MemoryParams& params,
             std::vector<Warp>& warps, SharedMemory& shared, L1Cache& l1, IssuePort& port, AccessTable& accesses,
             L2Port& l2, SmStats& stats);

  // Loads, stores, atomics and copies of device memory, aligned. What a release waits for has been waited for. Accesses
  // to the machine's own structures are strong and physical: their addresses are not translated, whatever the
  // subcontext of the warp (MEM-04).
  MemoryResult access(const arch::Operation& operation, std::uint32_t warp, Cycle now, AccessClient& client,
                      AccessUse use = AccessUse::warp, bool physical = false);
  // All slices write back what they hold (a release at system scope): an access like others.
  MemoryResult flush(std::uint32_t warp, Cycle now, AccessClient& client);
  // To the L2 and back: what a fence beyond the CTA does once all else has been answered.
  MemoryResult fence(std::uint32_t warp, Cycle now, AccessClient& client);
  // A read of a line, physical, that brings instructions or constants and leaves the L1 as it is. `number` comes back
  // as Access::pc.
  MemoryResult fetch(std::uint32_t warp, std::uint64_t address, std::uint32_t number, Cycle departure,
                     AccessClient& client);

  void answered(protocol::MemoryRequest& request, const L2Owner& owner, Cycle arrival) override;
  // Loads of warps are put off, and this client hears of their end; before, they are open.
  void serve_loads(LoadClient& client) { client_ = &client; }
  // Loads that were put off are carried out: what comes next must find them done, and their ends known.
  void settle() {
    if (put_off_ != 0) batch_->settle(*this);
  }
  void warm(PutOffLoad& load, bool data) const override;
  void finish(PutOffLoad& load) override;
  void reset() {
    fills_.reset();
    put_off_ = 0;
  }

 private:
  // The instruction that is being carried out.
  struct Instruction {
    const arch::Operation& operation;
    const LineAccesses& lines;
    std::uint32_t warp;
    Cycle begin;
    Requester requester;
    AccessClient& client;
    AccessUse use;
  };

  bool can_wait(const Instruction& its) const;
  void put_off(const Instruction& its);
  // Of a line that is read in one call.
  struct LineResult {
    AccessFailure failure = AccessFailure::none;
    std::uint8_t missing = 0;  // sectors that were not in the L1
    Cycle arrival = 0;         // of the last of them that was under way; 0: all were there
    std::uint32_t hit = 0;     // cycles that a copy's write takes: of what was there
    std::uint32_t come = 0;    // and of what has come
  };
  template <class Deliver>
  LineResult read_line(const LineAccess& line, const Requester& requester, const L1Cache::Place& place,
                       const LinePlace& at, Cycle tags, Deliver&& deliver);
  MemoryResult load(const Instruction& its);
  MemoryResult load_now(const Instruction& its);
  MemoryResult ended(std::uint32_t access, Cycle last, Cycle arrival);
  void fail(std::uint32_t access, const LineAccess& line, const LineResult& result);
  std::uint32_t begin(const PutOffLoad& load);
  MemoryResult load_strong(const Instruction& its);
  MemoryResult change(const Instruction& its);
  std::uint32_t begin_fence(std::uint32_t warp, AccessClient& client);
  void ask_slice(std::uint32_t access, std::uint64_t address, protocol::MemoryAction action, Cycle departure);
  std::uint32_t begin(const Instruction& its) {
    return accesses_.begin(its.operation, its.warp, its.lines.unit_stride, its.client, its.use);
  }
  void fill_store(protocol::MemoryRequest& request, const Instruction& its, const LineAccess& line);
  // Straight to where the operation wants it: `bytes` are those of the line from `offset` on. Gives the cycles that a
  // copy's write takes.
  std::uint32_t deliver_hit(const Instruction& its, const LineAccess& line, std::uint8_t sectors,
                            const std::uint8_t* bytes, std::uint32_t offset);
  void read_ended(protocol::MemoryRequest& request, std::uint32_t entry, AccessFailure failure, Cycle arrival);

  const MemoryParams params_;
  std::vector<Warp>& warps_;
  SharedMemory& shared_;
  L1Cache& l1_;
  IssuePort& port_;
  AccessTable& accesses_;
  L2Port& l2_;
  CopyArrivals copies_;
  PendingFills fills_;      // of calls
  LoadBatch* const batch_;  // null: no load is put off
  LoadClient* client_ = nullptr;
  std::uint32_t put_off_ = 0;  // loads of this SM
  SmStats& stats_;
  std::vector<std::uint64_t> slice_addresses_;  // one of each slice of the machine or of the instance
  const std::uint64_t fence_address_;
};

}  // namespace heddle::sm
