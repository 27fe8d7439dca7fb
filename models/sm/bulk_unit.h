// Requests to the tensor memory access unit (TMAU): what a warp asks for, what it waits for, and what comes of it
// (TMA-01, TMA-06, TMA-30, TMA-41).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/index_pool.h"
#include "common/packet_port.h"
#include "protocol/sm_tmau.h"
#include "sm/bulk_data.h"
#include "sm/cta_table.h"
#include "sm/issue_unit.h"

namespace heddle::sm {

class Faults;
class WarpScheduler;

// A request that the TMAU has and has not ended. Its CTA stays until then.
struct BulkOpen {
  std::uint32_t cta = 0;   // slot
  std::uint32_t warp = 0;  // slot
  std::uint32_t lane = 0;
  std::uint32_t pc = 0;
  arch::OpCode code = arch::OpCode::exit;
  arch::BulkKind kind = arch::BulkKind::load;
  bool grouped = false;
  bool read = false;                            // its source has been read
  bool unfenced = false;                        // and some of it was old: told once
  std::optional<FenceTracker::Epoch> accepted;  // the L2 has taken it over, and fences wait for the rest of it
  std::optional<std::uint32_t> barrier;         // load
  std::uint64_t group = 0;                      // of the lane
  std::uint64_t address = 0;                    // for messages
  std::uint64_t serial = 0;                     // its age
};

class BulkUnit final : private SmUnit, public IssueUnit, public BulkErrorListener {
 public:
  struct Peers {
    WarpScheduler& scheduler;
    CtaSupervisor& supervisor;
    Faults& faults;
    SharedMemory& shared;
    ClusterTables& tables;
    IssuePort& port;
    FenceTracker& fences;
    PacketSender<protocol::BulkRequestPacket>& requests;
  };
  BulkUnit(const UnitContext& context, const Peers& peers) : SmUnit(context), peers_(peers) {}
  // Without a TMAU its operations do not exist.
  void connect(bool has_tmau) { connected_ = has_tmau; }

  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;
  void on_room(std::uint32_t);
  void on_done(const protocol::BulkDonePacket& done, std::uint32_t);
  void bulk_failed(const BulkError& error, Cycle when) override;
  void missing_fence(const protocol::BulkTarget& target, std::uint32_t offset, Cycle when) override;
  // A kernel has begun here, or a CTA of it has come back: descriptors that the TMAU fetched before do not count for
  // it (TMA-04, MEM-06).
  void begin_kernel(std::uint32_t operation);
  // The warp has been killed.
  void forget(std::uint32_t slot);

  // Requests that the TMAU has not ended, and the oldest of a CTA.
  std::size_t open() const { return open_.in_use(); }
  const BulkOpen* oldest(std::uint32_t cta_slot) const;
  void reset();

 private:
  bool send(std::uint32_t slot, const arch::Operation& operation);
  void send_request(std::uint32_t slot, const arch::BulkRequest& request, arch::OpCode code, std::uint32_t lane);
  IssueResult issued(std::uint32_t slot, arch::OpCode code);
  Cycle begin_of(std::uint32_t operation) const;
  arch::TensorRule find_receivers(std::uint32_t slot, protocol::BulkRequestPacket& packet);
  arch::TensorRule check(std::uint32_t slot, const protocol::BulkRequestPacket& packet) const;
  IssueResult wait(std::uint32_t slot, const arch::Operation& operation);
  void consider_groups(std::uint32_t slot);
  void went_wrong(const BulkOpen& ended, const protocol::BulkDonePacket& done);
  const BulkOpen* find_open(const protocol::BulkTarget& target) const;
  const Cta* asked_for(const protocol::BulkTarget& target) const;
  void trap(const BulkError& error, Cycle when);

  Peers peers_;
  bool connected_ = false;
  IndexPool<BulkOpen> open_;                            // by the id that the TMAU knows
  std::uint64_t serial_ = 0;                            // of requests: their age
  std::vector<std::uint32_t> waiting_;                  // slots of warps without a place at the TMAU, oldest first
  std::vector<std::pair<std::uint32_t, Cycle>> begun_;  // kernels that are here, and since when
};

}  // namespace heddle::sm
