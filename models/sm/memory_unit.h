// The memory unit of an SM: from warp instructions to shared memory, the L1 and requests to the L2.
//
// What an instruction does to shared memory and to the L1 is done when it issues: the port serves instructions in that
// order. Requests leave with the cycle in which they will have passed the tags, so that neither side needs an event.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "arch/address_map.h"
#include "arch/warp_program.h"
#include "common/memory_socket.h"
#include "protocol/memory_request.h"
#include "sm/access_table.h"
#include "sm/coalescer.h"
#include "sm/l1_cache.h"
#include "sm/memory_port.h"
#include "sm/request_ledger.h"
#include "sm/shared_memory.h"
#include "sm/sm_params.h"
#include "sm/sm_stats.h"
#include "sm/warp.h"

namespace heddle::sm {

// What of memory an SM has to know: where its slices are.
struct MemoryView {
  const arch::AddressMap& map;
};

// Told of what ends later. Calls come inside those of the crossbar, with the cycle, now or later, that they are for.
class MemoryClient {
 public:
  // All parts have come; the access is gone afterwards.
  virtual void access_ended(const Access& access, Cycle when) = 0;
  // The same for one that comes to nothing: it is dead, or has failed.
  virtual void access_lost(const Access& access, Cycle when) = 0;
  // An error response for a part of it; `lane` is the first concerned.
  virtual void access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) = 0;
  // A request of that group of the ledger has been answered: what waits for earlier ones may go on.
  virtual void request_ended(RequestLedger::Mark group, Cycle when) = 0;
  // The unit was stopped and takes instructions again.
  virtual void memory_goes_on(Cycle when) = 0;

 protected:
  ~MemoryClient() = default;
};

class MemoryUnit {
 public:
  MemoryUnit(Domain& domain, MemoryOut& out, const SmParams& params, const MemoryView& view, std::uint32_t sm,
             std::vector<Warp>& warps, MemoryClient& client, SmStats& stats);

  // The first cycle in which an instruction can issue to it; kNeverReady: it has stopped, memory_goes_on() follows.
  Cycle free() const { return stopped() ? kNeverReady : port_.free(); }
  // False while more requests wait than may, for things that do not issue through free().
  bool stopped() const { return open_.in_use() >= params_.requests || waiting_.size() >= params_.request_queue; }

  // What an instruction comes to. Registers that it reads from memory have been written, if `ready` is known.
  struct Result {
    Cycle ready = 0;    // when what depends on it can issue; kNeverReady: access_ended() tells
    Cycle arrival = 0;  // if ready is known: when the last of its requests was answered; 0: there was none
    bool open = false;  // an access is under way, or has failed
    bool lost = false;  // it has failed, and is over: access_lost() does not come
  };
  // Loads, stores and atomics of an open window, with all lanes inside and aligned.
  Result shared(const arch::Operation& operation, std::uint32_t window, std::uint32_t warp, Cycle now);
  // Loads, stores, atomics and copies of device memory, aligned. What a release waits for has been waited for.
  Result global(const arch::Operation& operation, std::uint32_t warp, Cycle now);
  // Shared memory is read by something else; gives the end.
  Cycle read_shared(std::uint64_t bytes, Cycle now);
  // All slices write back what they hold (a release at system scope): an access like others.
  Result flush(std::uint32_t warp, Cycle now);

  SharedMemory& shared_memory() { return shared_; }
  L1Cache& l1() { return l1_; }
  RequestLedger& ledger() { return ledger_; }
  // The accesses of a CTA come to nothing: it has been killed.
  void forget(std::uint32_t cta);
  // Requests that have not been answered, and those of them that wait for the crossbar.
  std::size_t open() const { return open_.in_use(); }
  std::size_t waiting() const { return waiting_.size(); }

  bool on_response(tlm::tlm_generic_payload& payload, Cycle arrival);
  void on_room(Cycle when);
  void reset();

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Open {
    protocol::MemoryRequest* request = nullptr;
    RequestLedger::Mark group = 0;
    std::uint32_t part = kNone;   // whose answer it is, or:
    std::uint32_t entry = kNone;  // of the L1, where parts wait
  };
  struct Waiting {
    protocol::MemoryRequest* request = nullptr;
    Cycle earliest = 0;
  };

  std::uint32_t begin(const arch::Operation& operation, std::uint32_t warp, bool row);
  Result end(std::uint32_t access);
  std::uint32_t add_part(std::uint32_t access, const LineAccess& line);
  Result load(const arch::Operation& operation, const LineAccesses& lines, std::uint32_t warp, Cycle begin);
  Result load_strong(const arch::Operation& operation, const LineAccesses& lines, std::uint32_t warp, Cycle begin);
  Result change(const arch::Operation& operation, const LineAccesses& lines, std::uint32_t warp, Cycle begin);
  bool read_blocking(const arch::Operation& operation, std::uint32_t warp, const LineAccess& line, bool row,
                     std::uint8_t sectors, std::uint32_t entry, Cycle& arrival);
  void fill_store(protocol::MemoryRequest& request, const arch::Operation& operation, const LineAccess& line);
  static void fill_atomic(protocol::MemoryRequest& request, const arch::Operation& operation, const LineAccess& line);
  // Straight to where the operation wants it: `bytes` are those of the line from `offset` on.
  void deliver_hit(const arch::Operation& operation, std::uint32_t warp, const LineAccess& line, bool row,
                   std::uint8_t sectors, const std::uint8_t* bytes, std::uint32_t offset);

  // For an access: its part, or the entry of the L1 for which one of its parts waits.
  void submit(protocol::MemoryRequest& request, std::uint32_t access, std::uint32_t part, std::uint32_t entry,
              Cycle departure);
  void note_owners(protocol::MemoryRequest& request, const Open& open, const Access& access) const;
  void send_waiting(Cycle now);
  void answered(protocol::MemoryRequest& request, Cycle arrival);
  void read_ended(protocol::MemoryRequest& request, std::uint32_t entry, bool failed, Cycle arrival);
  void deliver(const Access& access, arch::LaneMask lanes, std::uint8_t sectors, const std::uint8_t* bytes,
               std::uint32_t offset);
  void deliver_old(const Access& access, const protocol::MemoryRequest& request);
  void part_failed(std::uint32_t part, std::uint64_t line, std::uint8_t sectors, Cycle arrival);
  void part_ended(std::uint32_t part, std::uint8_t sectors, Cycle arrival);

  Domain& domain_;
  MemoryOut& out_;
  const MemoryParams params_;
  const bool blocking_;
  const std::uint32_t sm_;
  std::vector<Warp>& warps_;
  MemoryClient& client_;
  SmStats& stats_;
  std::vector<std::uint64_t> slice_addresses_;  // one of each slice

  MemoryPort port_;
  SharedMemory shared_;
  L1Cache l1_;
  RequestLedger ledger_;
  IndexPool<Access> accesses_;
  IndexPool<Part> parts_;
  IndexPool<Open> open_;
  std::deque<Waiting> waiting_;
  Cycle last_departure_ = 0;
  protocol::RequestPool pool_;
  std::vector<protocol::MemoryRequest*> retired_;  // answered, and perhaps still looked at by who answers
  std::uint32_t depth_ = 0;                        // of calls of on_response
  bool sending_ = false;
  bool was_stopped_ = false;
};

}  // namespace heddle::sm
