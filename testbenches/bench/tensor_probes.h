// Small programs that measure the tensor memory access unit from within.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/memory_probes.h"
#include "support/tensor_lab.h"

namespace heddle::probes {

using arch::BulkKind;
using arch::BulkRequest;
using test::bulk;

constexpr std::uint32_t kShared = 1024;     // offset of what arrives; barriers lie below
constexpr std::uint64_t kTensors = 65'536;  // descriptors

// What request number `index` of a CTA is; `slot`: of its ring, whose data go to kShared + slot x bytes.
using MakeRequest = std::function<BulkRequest(const Warp&, std::uint64_t index, std::uint32_t slot)>;

// One thread per CTA makes `count` loads of `bytes` bytes each, of which `in_flight` are open at a time, and notes the
// clock before the first, after `warm` more, and behind the last. count is a multiple of in_flight.
inline std::shared_ptr<ListProgram> load_stream(std::uint64_t warm, std::uint64_t count, std::uint32_t in_flight,
                                                std::uint32_t bytes, const MakeRequest& make,
                                                OpCode code = OpCode::bulk_load) {
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  test::Sync sync;
  sync.lanes = [in_flight](const Warp&) { return (std::uint64_t{1} << in_flight) - 1; };
  p.mbarrier_init([](const Warp&, std::uint32_t lane) { return 8 * lane; }, 1, sync);
  const auto rounds = [&](std::uint64_t requests, std::uint64_t before) {
    const std::size_t loop = p.loop(requests / in_flight);
    for (std::uint32_t slot = 0; slot < in_flight; ++slot) {
      const auto index = [=](const Warp& warp) { return before + warp.count(loop) * in_flight + slot; };
      p.mbarrier_wait(8 * slot, [=](const Warp& warp, std::uint32_t) { return (index(warp) / in_flight % 2) ^ 1; });
      p.mbarrier_arrive(arch::Space::shared, 8 * slot, 1, bytes);
      bulk(p, code, [=](const Warp& warp) {
        BulkRequest request = make(warp, index(warp), slot);
        request.shared = kShared + slot * bytes;
        request.barrier = 8 * slot;
        return request;
      });
    }
    p.end_loop();
    for (std::uint32_t slot = 0; slot < in_flight; ++slot) {
      p.mbarrier_wait(8 * slot, ((before + requests) / in_flight + 1) % 2);
    }
  };
  if (warm > 0) rounds(warm, 0);
  read_clock(p, 2, {});
  rounds(count, warm);
  read_clock(p, 3, {});
  store_clocks(p, 2, 3);
  p.exit();
  return program;
}

// A block from where the ring of requests has it: `span` bytes, over and over.
inline MakeRequest blocks(std::uint32_t bytes, std::uint64_t span, std::uint64_t per_cta) {
  return [=](const Warp& warp, std::uint64_t index, std::uint32_t) {
    return test::block_request(BulkKind::load, kData + per_cta * warp.place.cta + index * bytes % span, bytes, 0);
  };
}

}  // namespace heddle::probes
