// The memory sides of two SMs with a CGA of three CTAs, as a TMAU sees them.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include "arch/mbarrier.h"
#include "sm/memory_cluster_bench.h"

namespace heddle::test {

constexpr std::uint32_t kBulkBarrier = 8;  // offset of an mbarrier

struct BulkBench : ThreeCtas {
  explicit BulkBench(const UnitsShape& shape = {}, std::uint32_t bytes = 4'096) : ThreeCtas(shape, bytes) { start(); }

  // A payload for one piece, all of it inside; its data count up from `first`.
  protocol::MemoryRequest& piece(std::uint32_t shared, std::uint32_t bytes, std::uint8_t first = 1) {
    protocol::MemoryRequest& request = pool.acquire();
    for (std::uint32_t i = 0; i < request.data.size(); ++i) request.data[i] = static_cast<std::uint8_t>(first + i);
    request.set_response_status(tlm::TLM_OK_RESPONSE);
    protocol::BulkTarget& target = request.extension.bulk.get();
    target = {};
    target.piece = {0x1000, shared, bytes, arch::ByteMask::first(bytes)};
    target.cta_slot = protocol::CtaSlot(2);  // CTA 0 of the CGA, on SM 0
    target.cga_id = protocol::CgaId(kThreeCtas);
    target.sequence = 1;
    request.aim(tlm::TLM_READ_COMMAND, 0x1000, bytes);
    return request;
  }
  static protocol::BulkTarget& target_of(protocol::MemoryRequest& request) { return request.extension.bulk.get(); }

  // A send of CTA 0, of `bytes` bytes at `from`, to that offset of the CTA (none: itself).
  protocol::MemoryRequest& send(std::uint32_t from, std::uint32_t bytes, std::optional<std::uint32_t> rank,
                                std::uint32_t to) {
    protocol::MemoryRequest& request = piece(from, bytes);
    request.data.fill(0xEE);
    protocol::BulkTarget& target = target_of(request);
    target.data_cta = rank;
    target.destination = to;
    return request;
  }

  void deliver(protocol::MemoryRequest& request, std::uint32_t sm = 0) {
    unit(sm).bulk.on_data({&request, protocol::SmInGpc(sm)});
  }
  void read(protocol::MemoryRequest& request, bool forward = false) {
    protocol::BulkReadPacket packet;
    packet.request = &request;
    packet.forward = forward;
    unit(0).bulk.on_read(packet);
  }
  void reduces(protocol::MemoryRequest& request, arch::AtomicKind kind, arch::ValueType type) {
    protocol::BulkTarget& target = target_of(request);
    target.reduces = true;
    target.reduction = kind;
    target.value = type;
  }

  // An mbarrier that expects one arrival, which has come, and that many bytes.
  void expect(std::uint32_t sm, std::uint32_t window, std::uint32_t bytes, std::uint32_t offset = kBulkBarrier) {
    std::uint64_t object = 0;
    arch::mbarrier_init(object, 1);
    arch::mbarrier_arrive(object, 1, bytes);
    memory(sm).set_word(window, offset, object);
  }
  arch::Mbarrier barrier(std::uint32_t sm, std::uint32_t window, std::uint32_t offset = kBulkBarrier) {
    return arch::decode(memory(sm).word(window, offset));
  }
  sm::SharedMemory& memory(std::uint32_t sm) { return unit(sm).shared; }
  std::uint8_t* bytes(std::uint32_t sm, std::uint32_t window) { return memory(sm).data(window); }
  // The row that piece() brings lies there.
  bool holds(std::uint32_t sm, std::uint32_t window, std::uint32_t offset, std::uint32_t count,
             std::uint8_t first = 1) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (bytes(sm, window)[offset + i] != static_cast<std::uint8_t>(first + i)) return false;
    }
    return true;
  }
  sm::SmStats& stats() { return sms[0]->stats; }
  std::vector<UnitOfSm::BulkAnswer>& answers() { return sms[0]->bulk_answers; }
  std::vector<UnitOfSm::BulkFailure>& failures(std::uint32_t sm = 0) { return sms[sm]->bulk_failures; }

  protocol::RequestPool pool;  // of the TMAU
};

}  // namespace heddle::test
