// Bytes of bulk requests: those that the TMAU brings to shared memory, and those that it wants from there (TMA-01,
// TMA-20, TMA-40), shared -> shared copies among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "arch/address_map.h"
#include "arch/tensor_descriptor.h"
#include "common/index_pool.h"
#include "common/packet_port.h"
#include "protocol/sm_tmau.h"
#include "sm/bulk_arrivals.h"
#include "sm/dsmem_paths.h"
#include "sm/shared_memory.h"

namespace heddle::sm {

class BulkData final : public DsmemSender {
 public:
  struct Links {
    PacketSender<protocol::BulkReadPacket>& reads;  // answers to the TMAU
    BulkErrorListener& errors;
    WindowListener& windows;
  };
  BulkData(Timebase& time, const MemoryParams& params, const SmContext& place, const arch::SwizzleTable& swizzles,
           SharedMemory& shared, const ClusterTables& tables, IssuePort& port, DsmemClient& dsmem,
           DsmemFlights& flights, SmStats& stats, const Links& links);
  ~BulkData();

  // Bulk data arrive (BulkArrivals), now or later. Poisoned data poison what they are written to. The packet's
  // reference is released.
  void on_data(const protocol::BulkDataPacket& packet) { arrivals_.arrive(packet); }
  void on_data_ahead(const protocol::BulkDataPacket& packet, std::uint32_t, Cycle arrival) {
    arrivals_.expect(packet, arrival);
  }
  // Bytes for a store or reduction are read over the port; the answer leaves when they are there, with byte enables for
  // bytes between the lowest and the highest that are not inside. A send goes on over the SM-to-SM network, or to a
  // window of this SM, and is answered when the receiver has; DsmemFlights counts it for its CGA until then.
  void on_read(const protocol::BulkReadPacket& packet, std::uint32_t = 0);
  void send_answered(const protocol::DsmemPacket& reply, Cycle when) override;

  // Sends that have not been answered, and their payloads.
  std::size_t sends() const { return sends_.in_use(); }
  std::size_t payloads() const;
  void reset();

 private:
  // On its way to its receiver.
  struct Send {
    protocol::MemoryRequest* request = nullptr;
    protocol::BulkReadPacket packet;  // to be answered
  };

  void forward(const protocol::BulkReadPacket& packet, Cycle read);

  Timebase& time_;
  const Cycle shared_latency_;
  const SmContext& place_;
  const arch::SwizzleTable& swizzles_;
  SharedMemory& shared_;
  const ClusterTables& tables_;
  DsmemClient& dsmem_;
  DsmemFlights& flights_;
  SmStats& stats_;
  Links links_;
  BulkArrivals arrivals_;
  IndexPool<Send> sends_;
  std::unique_ptr<protocol::RequestPool> pool_;  // payloads with a bulk() that counts
};

// What a piece of a bulk request does to a window of shared memory (TMA-13, TMA-20, TMA-40). Without time.
struct BulkPlaced {
  arch::DsmemStatus status = arch::DsmemStatus::ok;
  std::uint32_t offset = 0;  // in the window, of the first byte that was wrong, in the order of the piece
  std::uint32_t cycles = 1;  // of the port
  bool completes = false;    // complete_bulk(): a phase of the mbarrier
  bool old = false;          // read_piece(): bytes that the SM has overwritten since, the first at `offset`
};

// Writes the piece: `data` are those of its inside bytes, from the lowest on; other bytes are filled. Nothing is
// written if any byte, filled ones included, would lie beyond the window. `poisoned`: the data are corrupt, and so is
// what they are written to. `place`: the window; none: nobody is there.
BulkPlaced write_piece(SharedMemory& memory, std::optional<std::uint32_t> place, const arch::SwizzleTable& swizzles,
                       const protocol::BulkTarget& target, const std::uint8_t* data, bool poisoned);

// The same without writing.
BulkPlaced check_piece(const SharedMemory& memory, std::optional<std::uint32_t> place,
                       const arch::SwizzleTable& swizzles, const protocol::BulkTarget& target);

// Reads its inside bytes: `data` gets the bytes from the lowest to the highest of them. What lies between them and is
// not inside is zero, and what no proxy fence has published is old. Nothing is read if an inside byte lies beyond the
// window or is corrupt.
BulkPlaced read_piece(const SharedMemory& memory, std::uint32_t window, const arch::SwizzleTable& swizzles,
                      const protocol::BulkTarget& target, std::uint8_t* data);

// That many bytes have come for the mbarrier at that offset.
BulkPlaced complete_bulk(SharedMemory& memory, std::uint32_t window, std::uint32_t barrier, std::uint32_t bytes);

}  // namespace heddle::sm
