// The memory unit of an SM: from warp instructions to shared memory, the L1 and requests to the L2.
//
// What an instruction does to shared memory and to the L1 is done when it issues: the port serves instructions in that
// order. Requests leave with the cycle in which they will have passed the tags, so that neither side needs an event.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "arch/address_map.h"
#include "arch/task_record.h"
#include "arch/warp_program.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "protocol/memory_request.h"
#include "protocol/sm_network.h"
#include "protocol/sm_tmau.h"
#include "sm/access_table.h"
#include "sm/cluster_tables.h"
#include "sm/coalescer.h"
#include "sm/dsmem_access.h"
#include "sm/l1_cache.h"
#include "sm/matmul.h"
#include "sm/memory_port.h"
#include "sm/request_ledger.h"
#include "sm/shared_memory.h"
#include "sm/sm_params.h"
#include "sm/sm_stats.h"
#include "sm/warp.h"

namespace heddle::sm {

inline const arch::LaunchMemory kNoNestedMemory{};

// What of memory an SM has to know: where its slices are, and where device-side launches keep what they need.
struct MemoryView {
  const arch::AddressMap& map;
  const arch::LaunchMemory& nested = kNoNestedMemory;
};

// The SM on the SM-to-SM network of its GPC.
struct ClusterLinks {
  PacketOut<protocol::DsmemPacket>& requests;  // to other SMs
  PacketIn<protocol::DsmemPacket>& served;     // theirs: credits go back when the replies have left (by_owner)
  PacketOut<protocol::DsmemPacket>& replies;   // to these
  std::uint32_t in_gpc = 0;                    // bit of the SM in the GPC's masks
};

// The SM's ends of the links to its TMAU that the memory unit uses.
struct BulkLinks {
  PacketOut<protocol::BulkReadPacket>& reads;  // answers
};

// What a receiver on this SM found wrong with bulk data (TMA-40).
struct BulkError {
  arch::DsmemStatus status = arch::DsmemStatus::ok;  // poison: of the mbarrier, or of what a send reduces into
  std::uint32_t rank = 0;                            // of the receiver, if the target is by_rank
  std::uint32_t offset = 0;                          // in its shared memory
  const protocol::BulkTarget& target;                // valid inside the call
};

// What the target of a DSMEM request found wrong.
struct ClusterError {
  arch::DsmemStatus status = arch::DsmemStatus::ok;
  std::uint32_t cga_id = 0;    // kNoCgaId: the CTA belongs to none, and has addressed itself
  std::uint64_t sequence = 0;  // launch of the CGA
  std::uint32_t rank = 0;      // of the target
  std::uint32_t offset = 0;    // of the lowest lane that was wrong
  // Of an access without an owner: the CTA that has gone, by its linear id in the grid and its rank in the CGA.
  std::uint64_t from_cta = 0;
  std::uint32_t from_rank = 0;
};

// Told of what ends later. Calls come inside those of the crossbar, with the cycle, now or later, that they are for.
class MemoryClient {
 public:
  // All parts have come; the access is gone afterwards.
  virtual void access_ended(const Access& access, Cycle when) = 0;
  // The same for one that comes to nothing: it is dead, or has failed.
  virtual void access_lost(const Access& access, Cycle when) = 0;
  // An error response for a part of it; `lane` is the first concerned. If access.outside, the address is an offset in
  // shared memory: the destination of a copy has been released. If access.poisoned, the data that came were corrupt.
  virtual void access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) = 0;
  // A request of that group of the ledger has been answered: what waits for earlier ones may go on.
  virtual void request_ended(RequestLedger::Mark group, Cycle when) = 0;
  static constexpr std::uint32_t kNoCta = ~std::uint32_t{0};
  // DSMEM: the target has answered with an error (CGA-08). The access is over as far as it concerns that part. Never
  // for a dead access.
  virtual void cluster_failed(const Access& access, const ClusterError& error, Cycle when) = 0;
  // DSMEM: the same for an access that has no owner any more: posted, and its CTA has gone.
  virtual void orphan_failed(const ClusterError& error, Cycle when) = 0;
  // A request of the CGA has been answered: in_flight() of it is lower, and of the CTA too. `cta`: kNoCta if that has
  // gone.
  virtual void cluster_answered(std::uint32_t cga_id, std::uint32_t cta, Cycle when) = 0;
  // A DSMEM access has changed what lies in that window at the offset: perhaps an mbarrier, a phase of which it may
  // have completed. `when`: the port's cycle for it, now or later.
  virtual void mbarrier_changed(std::uint32_t window, std::uint32_t offset, Cycle when) = 0;
  // Bulk data for a CTA here could not be written or read, or its mbarrier does not take them; or what a CTA here has
  // sent failed at its receiver.
  virtual void bulk_failed(const BulkError& error, Cycle when) = 0;
  // The unit was stopped and takes instructions again.
  virtual void memory_goes_on(Cycle when) = 0;

 protected:
  ~MemoryClient() = default;
};

class MemoryUnit {
 public:
  // `sm`: of the machine.
  MemoryUnit(Domain& domain, MemoryOut& out, const SmParams& params, const MemoryView& view, std::uint32_t sm,
             std::vector<Warp>& warps, MemoryClient& client, SmStats& stats, const ClusterTables& tables,
             const ClusterLinks& links, const BulkLinks& bulk);

  // The first cycle in which an instruction can issue to it; kNeverReady: it has stopped, memory_goes_on() follows.
  Cycle free() const { return stopped() ? kNeverReady : port_.free(); }
  // False while more requests wait than may, for things that do not issue through free().
  bool stopped() const {
    return open_.in_use() >= params_.requests || waiting_.size() + cluster_waiting_.size() >= params_.request_queue;
  }

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
  // `physical`: the addresses are not translated, whatever the subcontext of the warp (MEM-04); for strong accesses to
  // the machine's own structures.
  Result global(const arch::Operation& operation, std::uint32_t warp, Cycle now, bool physical = false);
  // Loads, stores, atomics, and mbarrier arrivals, expects and completes of DSMEM, aligned. All lanes have been found
  // in the tables. What lies on this SM is served at once; an error there comes as cluster_failed() all the same,
  // inside this call. Accesses that return nothing are posted unless they acquire: their results are never open,
  // access_ended() and access_lost() do not come for them, and in_flight() tells of what is under way. mbarriers:
  // data[0] and data[1] as in Operation.
  Result cluster(const arch::Operation& operation, std::uint32_t warp, Cycle now);
  // The CTA has gone, and posted accesses of it are under way: they belong to its CGA alone from now on. `index`,
  // `rank`: of the CTA in its grid and its CGA.
  void abandon(std::uint32_t cta, std::uint64_t index, std::uint32_t rank);
  // Requests of the CTA, or of the CGA, that other SMs have not answered.
  std::uint32_t in_flight_of_cta(std::uint32_t cta) const { return cluster_of_cta_[cta]; }
  std::uint32_t in_flight(std::uint32_t cga_id) const { return cluster_of_cga_[cga_id]; }
  // Requests to other SMs that wait for room on the network.
  std::size_t cluster_waiting() const { return cluster_waiting_.size(); }
  // Requests of other SMs that wait here for room to be answered.
  std::size_t served_waiting() const { return replies_.size(); }
  // The port for an operation on one word of shared memory (mbarriers); gives the cycle in which its result is there.
  Cycle touch_shared(Cycle now) { return port_.take(now, 1) + params_.shared_latency; }
  // The same for a request to the TMAU; gives the cycle in which it leaves.
  Cycle bulk_issue(Cycle now) { return port_.take(now, 1); }
  void on_cluster_request(const protocol::DsmemPacket& packet);
  // It arrives then, now or later.
  void on_cluster_reply(const protocol::DsmemPacket& packet, Cycle arrival);
  void on_cluster_room();  // of either link

  // Bulk data arrive now: they are written to the receivers' windows, swizzled, filled and converted as the target
  // says, over the port past its queue; then each receiver's mbarrier completes that many bytes, filled ones included,
  // and mbarrier_changed() tells. Poisoned data poison what they are written to. The packet's reference is released.
  void on_bulk_data(const protocol::BulkDataPacket& packet);
  // Bytes for a store or reduction are read over the port; the answer leaves when they are there, with byte enables for
  // bytes between the lowest and the highest that are not inside. A send goes on over the SM-to-SM network, or to a
  // window of this SM, and is answered when the receiver has; in_flight() of its CGA counts it until then.
  void on_bulk_read(const protocol::BulkReadPacket& packet);
  // Sends that have not been answered.
  std::size_t bulk_sends() const { return sends_.in_use(); }

  // The operands of a matrix multiply are read (TMA-21); gives the end.
  Cycle read_tile(const arch::MatmulTile& tile, Cycle now);
  // How boxes lie in shared memory.
  const arch::SwizzleTable& swizzles() const { return swizzles_; }
  // All slices write back what they hold (a release at system scope): an access like others.
  Result flush(std::uint32_t warp, Cycle now);

  SharedMemory& shared_memory() { return shared_; }
  const SharedMemory& shared_memory() const { return shared_; }
  L1Cache& l1() { return l1_; }
  RequestLedger& ledger() { return ledger_; }
  // The accesses of a CTA come to nothing: it has been killed.
  void forget(std::uint32_t cta);
  // Requests that have not been answered, those to other SMs among them, and those that wait for the crossbar.
  std::size_t open() const { return open_.in_use(); }
  std::size_t waiting() const { return waiting_.size(); }
  // Payloads that are out.
  std::size_t payloads() const { return pool_.in_use() - retired_.size() + send_pool_.in_use(); }

  bool on_response(tlm::tlm_generic_payload& payload, Cycle arrival);
  void on_room(Cycle when);
  void reset();

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::size_t kCgaIds = 256;
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
  struct WaitingPacket {
    protocol::DsmemPacket packet;
    Cycle earliest = 0;
  };
  // On its way to its receiver.
  struct BulkSend {
    protocol::MemoryRequest* request = nullptr;
    protocol::BulkReadPacket packet;  // to be answered
  };
  enum class Outcome : std::uint8_t { ok, error, poisoned, unmapped, read_only };  // of a request
  // Whose addresses those of an instruction are.
  struct Asker {
    std::uint8_t subcontext = 0;
    bool physical = false;
  };

  std::uint32_t begin(const arch::Operation& operation, std::uint32_t warp, bool row);
  Result end(std::uint32_t access);
  std::uint32_t add_part(std::uint32_t access, const LineAccess& line);
  Result load(const arch::Operation& operation, const LineAccesses& lines, std::uint32_t warp, Cycle begin,
              Asker asker);
  Result load_strong(const arch::Operation& operation, const LineAccesses& lines, std::uint32_t warp, Cycle begin,
                     Asker asker);
  Result change(const arch::Operation& operation, const LineAccesses& lines, std::uint32_t warp, Cycle begin,
                Asker asker);
  Outcome read_blocking(const arch::Operation& operation, std::uint32_t warp, const LineAccess& line, bool row,
                        std::uint8_t sectors, std::uint32_t entry, Cycle& arrival);
  protocol::MemoryRequest& new_request(Asker asker);
  void fill_store(protocol::MemoryRequest& request, const arch::Operation& operation, const LineAccess& line,
                  Asker asker);
  // A line as the L1 knows it.
  static std::uint64_t tagged(std::uint64_t line, Asker asker);
  static std::uint64_t tagged(std::uint64_t line, const protocol::MemoryRequest& request);
  static void fill_atomic(protocol::MemoryRequest& request, const arch::Operation& operation, const LineAccess& line);
  // Straight to where the operation wants it: `bytes` are those of the line from `offset` on.
  void deliver_hit(const arch::Operation& operation, std::uint32_t warp, const LineAccess& line, bool row,
                   std::uint8_t sectors, const std::uint8_t* bytes, std::uint32_t offset);

  // For an access: its part, or the entry of the L1 for which one of its parts waits.
  void submit(protocol::MemoryRequest& request, std::uint32_t access, std::uint32_t part, std::uint32_t entry,
              Cycle departure);
  void send_waiting(Cycle now);
  void answered(protocol::MemoryRequest& request, Cycle arrival);
  static Outcome outcome_of(const protocol::MemoryRequest& request);
  void read_ended(protocol::MemoryRequest& request, std::uint32_t entry, Outcome outcome, Cycle arrival);
  void deliver(Access& access, arch::LaneMask lanes, std::uint8_t sectors, const std::uint8_t* bytes,
               std::uint32_t offset, Cycle arrival);
  void deliver_copy(Access& access, arch::LaneMask lanes, std::uint8_t sectors, const std::uint8_t* bytes,
                    std::uint32_t offset, Cycle arrival);
  void deliver_old(const Access& access, const protocol::MemoryRequest& request);
  void part_failed(std::uint32_t part, std::uint64_t line, std::uint8_t sectors, Outcome outcome, Cycle arrival);
  void part_ended(std::uint32_t part, std::uint8_t sectors, Cycle arrival);
  void go_on(Cycle when);

  // memory_cluster.cpp: DSMEM
  Cycle ask_own(std::uint32_t access, const LineAccess& line, const ClusterTables::Target& target,
                protocol::MemoryRequest& request, Cycle begin);
  void ask_other(std::uint32_t access, const LineAccess& line, const ClusterTables::Target& target,
                 protocol::MemoryRequest& request, Cycle departure);
  void cluster_answer(std::uint32_t index, arch::LaneMask lanes, std::uint8_t sectors,
                      const protocol::DsmemPacket& reply, Cycle when);
  void send_cluster(const protocol::DsmemPacket& packet, Cycle departure);
  void reply(const protocol::DsmemPacket& answer, Cycle departure);

  // memory_bulk.cpp: the TMAU
  void place_bulk(const protocol::MemoryRequest& request, const protocol::BulkTarget& target, std::uint32_t window,
                  std::uint32_t rank);
  Cycle use_port_for_bulk(Cycle from, std::uint32_t cycles);
  static void enable_inside(protocol::MemoryRequest& request, const protocol::BulkTarget& target);
  void forward(const protocol::BulkReadPacket& packet, Cycle read);
  void send_answered(const protocol::DsmemPacket& reply, Cycle when);
  void tell_changes(std::uint32_t window, const protocol::MemoryRequest& request, const DsmemResult& result,
                    Cycle done);

  Domain& domain_;
  MemoryOut& out_;
  const MemoryParams params_;
  const bool blocking_;
  const std::uint32_t sm_;
  std::vector<Warp>& warps_;
  MemoryClient& client_;
  SmStats& stats_;
  const ClusterTables& tables_;
  ClusterLinks links_;
  BulkLinks bulk_;
  std::vector<std::uint64_t> slice_addresses_;  // one of each slice

  const arch::SwizzleTable swizzles_;
  TileCosts tile_costs_;
  MemoryPort port_;
  SharedMemory shared_;
  L1Cache l1_;
  RequestLedger ledger_;
  IndexPool<Access> accesses_;
  IndexPool<Part> parts_;
  IndexPool<Open> open_;
  std::deque<Waiting> waiting_;
  Cycle last_departure_ = 0;
  std::deque<WaitingPacket> cluster_waiting_;
  std::deque<WaitingPacket> replies_;
  Cycle last_request_ = 0;                               // departure
  Cycle last_reply_ = 0;                                 // the same
  std::vector<std::uint32_t> cluster_of_cta_;            // requests in flight by CTA slot
  std::array<std::uint32_t, kCgaIds> cluster_of_cga_{};  // the same by gpc_local_cga_id, and sends
  IndexPool<BulkSend> sends_;
  protocol::RequestPool pool_;
  protocol::RequestPool send_pool_;                // payloads with a bulk() that counts: those of sends
  std::vector<protocol::MemoryRequest*> retired_;  // answered, and perhaps still looked at by who answers
  std::uint32_t depth_ = 0;                        // of calls of on_response
  bool sending_ = false;
  bool was_stopped_ = false;
};

}  // namespace heddle::sm
