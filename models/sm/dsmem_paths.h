// Accesses to distributed shared memory (DSMEM) of other CTAs of a CGA (CGA-06 to CGA-08): requests to other SMs, and
// what becomes of their replies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "arch/warp_program.h"
#include "common/fifo.h"
#include "common/packet_port.h"
#include "protocol/gpm_mpc_sm.h"
#include "protocol/sm_sm.h"
#include "sm/accesses.h"
#include "sm/cluster_tables.h"
#include "sm/dsmem_access.h"
#include "sm/l2_port.h"
#include "sm/sm_context.h"
#include "sm/warp.h"

namespace heddle::protocol {
class RequestPool;
}  // namespace heddle::protocol

namespace heddle::sm {

// Requests to other SMs that have not been answered.
class DsmemFlights {
 public:
  explicit DsmemFlights(std::uint32_t ctas) : of_cta_(ctas) {}
  std::uint32_t of_cta(std::uint32_t cta_slot) const { return of_cta_[cta_slot]; }
  std::uint32_t of_cga(protocol::CgaId cga_id) const { return of_cga_[cga_id]; }  // sends of the TMAU among them
  std::uint64_t all() const;
  // `cta_slot`: none for a send, and for an access whose CTA has gone.
  void begin(protocol::CgaId cga_id, std::optional<std::uint32_t> cta_slot) {
    ++of_cga_[cga_id];
    if (cta_slot) ++of_cta_[*cta_slot];
  }
  void end(protocol::CgaId cga_id, std::optional<std::uint32_t> cta_slot) {
    --of_cga_[cga_id];
    if (cta_slot) --of_cta_[*cta_slot];
  }
  void abandon(std::uint32_t cta_slot) { of_cta_[cta_slot] = 0; }
  void reset();

 private:
  static constexpr std::size_t kCgaIds = 256;  // a gpc_local_cga_id has 8 bits
  std::vector<std::uint32_t> of_cta_;
  std::array<std::uint32_t, kCgaIds> of_cga_{};
};

// What the target of a DSMEM request found wrong.
struct ClusterError {
  arch::DsmemStatus status = arch::DsmemStatus::ok;
  std::optional<protocol::CgaId> cga_id;  // none: the CTA belongs to none, and has addressed itself
  std::uint64_t sequence = 0;             // launch of the CGA
  std::uint32_t rank = 0;                 // of the target
  std::uint32_t offset = 0;               // of the lowest lane that was wrong
  std::uint32_t lane = 0;                 // that one
  // Of an access without an owner: the CTA that has gone, by its linear id in the grid and its rank in the CGA.
  std::uint64_t from_cta = 0;
  std::uint32_t from_rank = 0;
};

// Told of errors of targets (CGA-08).
class DsmemErrorListener {
 public:
  // The access is over as far as it concerns that transaction. Never for a dead access.
  virtual void dsmem_failed(const Access& access, const ClusterError& error, Cycle when) = 0;
  // The access has no owner any more: it was posted, and its CTA has gone.
  virtual void orphan_failed(const ClusterError& error, Cycle when) = 0;

 protected:
  ~DsmemErrorListener() = default;
};

class DsmemListener {
 public:
  // A request of the CGA has been answered: DsmemFlights says so. `cta_slot`: none if the CTA has gone.
  virtual void dsmem_answered(protocol::CgaId cga_id, std::optional<std::uint32_t> cta_slot, Cycle when) = 0;

 protected:
  ~DsmemListener() = default;
};

// Whose requests have payloads of the TMAU.
class DsmemSender {
 public:
  virtual void send_answered(const protocol::DsmemPacket& reply, Cycle when) = 0;

 protected:
  ~DsmemSender() = default;
};

class DsmemClient {
 public:
  struct Links {
    PacketSender<protocol::DsmemPacket>& requests;  // to other SMs
    DsmemListener& listener;
    DsmemErrorListener& errors;
    WindowListener& windows;
  };
  DsmemClient(Timebase& time, const MemoryParams& params, const SmContext& place, SharedMemory& shared,
              const ClusterTables& tables, IssuePort& port, RequestGate& gate, FenceTracker& fences,
              AccessTable& accesses, DsmemFlights& flights, SmStats& stats, const Links& links);
  ~DsmemClient();
  void serve(DsmemSender& sender) { sender_ = &sender; }

  // Loads, stores, atomics, and mbarrier arrivals, expects and completes of DSMEM, aligned. All lanes have been found
  // in the tables. What lies on this SM is served at once; an error there comes as dsmem_failed() all the same, inside
  // this call. Accesses that return nothing are posted unless they acquire: their results are never open, the client is
  // not told of them, and DsmemFlights tells of what is under way. mbarriers: data[0] and data[1] as in Operation.
  MemoryResult access(const arch::Operation& operation, std::uint32_t warp, Cycle now, AccessClient& client);
  // A request that is the sender's.
  void send(const protocol::DsmemPacket& packet, Cycle departure);
  void abandon(std::uint32_t cta, std::uint64_t index, std::uint32_t rank);

  // It arrives then, now or later.
  void on_reply(const protocol::DsmemPacket& packet, Cycle arrival);
  // There is room on the network again.
  void send_waiting();

  // Requests that wait for room on the network.
  std::size_t waiting() const { return waiting_.size(); }
  std::size_t payloads() const;
  void reset();

 private:
  struct Open {
    protocol::MemoryRequest* request = nullptr;
    FenceTracker::Epoch epoch = 0;
    std::uint32_t transaction = 0;
    std::uint32_t place = 0;  // at the gate, where accesses are calls
  };
  struct Waiting {
    protocol::DsmemPacket packet;
    Cycle earliest = 0;
  };

  Cycle ask_own(std::uint32_t access, const LineAccess& line, const ClusterTables::Target& target,
                protocol::MemoryRequest& request, Cycle begin);
  void ask_other(std::uint32_t access, const LineAccess& line, const ClusterTables::Target& target,
                 protocol::MemoryRequest& request, Cycle departure);
  void answer(Access& access, arch::LaneMask lanes, std::uint8_t sectors, const protocol::DsmemPacket& reply,
              Cycle when);

  Timebase& time_;
  const MemoryParams params_;
  const SmContext& place_;
  SharedMemory& shared_;
  const ClusterTables& tables_;
  IssuePort& port_;
  RequestGate& gate_;
  FenceTracker& fences_;
  AccessTable& accesses_;
  DsmemFlights& flights_;
  SmStats& stats_;
  Links links_;
  DsmemSender* sender_ = nullptr;
  std::unique_ptr<protocol::RequestPool> pool_;
  IndexPool<Open> open_;
  Fifo<Waiting> waiting_;
  Cycle last_request_ = 0;  // departure
};

// Accesses of other SMs to shared memory here (CGA-06, CGA-08).
class DsmemServer {
 public:
  struct Links {
    CreditSink& served;                            // credits of requests go back when the replies have left (by_owner)
    PacketSender<protocol::DsmemPacket>& replies;  // to these
    WindowListener& windows;
  };
  DsmemServer(Timebase& time, const MemoryParams& params, const SmContext& place, SharedMemory& shared,
              const ClusterTables& tables, IssuePort& port, SmStats& stats, const Links& links)
      : time_(time),
        shared_latency_(params.shared_latency),
        mbarrier_latency_(params.mbarrier_latency),
        place_(place),
        shared_(shared),
        tables_(tables),
        port_(port),
        stats_(stats),
        links_(links) {}

  void on_request(const protocol::DsmemPacket& packet, std::uint32_t = 0);
  // There is room for replies again.
  void send_waiting();
  // Requests that wait here for room to be answered.
  std::size_t waiting() const { return waiting_.size(); }
  void reset() {
    waiting_.clear();  // the payloads are other SMs'
    last_reply_ = 0;
  }

 private:
  struct Waiting {
    protocol::DsmemPacket packet;
    Cycle earliest = 0;
  };
  void reply(const protocol::DsmemPacket& answer, Cycle departure);

  Timebase& time_;
  const Cycle shared_latency_;
  const Cycle mbarrier_latency_;
  const SmContext& place_;
  SharedMemory& shared_;
  const ClusterTables& tables_;
  IssuePort& port_;
  SmStats& stats_;
  Links links_;
  Fifo<Waiting> waiting_;
  Cycle last_reply_ = 0;  // departure
};

}  // namespace heddle::sm
