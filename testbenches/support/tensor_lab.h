// Programs with bulk requests.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "arch/mbarrier.h"
#include "arch/tensor_descriptor.h"
#include "support/gpu_lab.h"

namespace heddle::test {

using MakeBulk = std::function<arch::BulkRequest(const Warp&)>;

// Lane 0 makes the request.
inline void bulk(ListProgram& program, arch::OpCode code, MakeBulk make, ListProgram::Reads reads = {}) {
  program.step(
      {code, arch::Unit::memory, std::move(reads), {}, {}},
      [make = std::move(make)](const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) {
        operation.lanes &= 1;
        operation.bulk.clear();
        if (operation.lanes != 0) operation.bulk.push_back(make({place, state}));
      });
}
inline void bulk_commit(ListProgram& program) { program.other(arch::OpCode::bulk_commit); }
inline void bulk_wait(ListProgram& program, std::uint32_t groups, bool read = false) {
  program.step({arch::OpCode::bulk_wait, arch::Unit::none, {}, {}, {}},
               [=](const arch::WarpPlace&, arch::WarpState&, arch::Operation& operation) {
                 operation.count = groups;
                 operation.read = read;
               });
}
inline void bulk_drain(ListProgram& program) { program.other(arch::OpCode::bulk_drain); }
// Of the descriptor at that address; 0: of all.
inline void tensor_fence(ListProgram& program, std::uint64_t descriptor) {
  program.step({arch::OpCode::tensor_fence, arch::Unit::memory, {}, {}, {}},
               [=](const arch::WarpPlace&, arch::WarpState&, arch::Operation& operation) {
                 operation.lanes &= 1;
                 operation.address[0] = descriptor;
               });
}

inline arch::BulkRequest tensor_request(arch::BulkKind kind, std::uint64_t descriptor,
                                        const std::array<std::int32_t, arch::kTensorRank>& coordinates,
                                        std::uint32_t shared, std::optional<std::uint32_t> barrier = std::nullopt) {
  arch::BulkRequest request;
  request.kind = kind;
  request.tensor = true;
  request.descriptor = descriptor;
  request.coordinates = coordinates;
  request.shared = shared;
  request.barrier = barrier;
  return request;
}
inline arch::BulkRequest block_request(arch::BulkKind kind, std::uint64_t global, std::uint64_t bytes,
                                       std::uint32_t shared, std::optional<std::uint32_t> barrier = std::nullopt) {
  arch::BulkRequest request;
  request.kind = kind;
  request.global = global;
  request.blocks = bytes / arch::kBulkBlock;
  request.shared = shared;
  request.barrier = barrier;
  return request;
}

inline void write_descriptor(GpuLab& lab, std::uint64_t address, const arch::TensorDescriptor& descriptor) {
  const auto bytes = arch::encode(descriptor);
  HEDDLE_CHECK(lab.gpu.memory().write(address, bytes.data(), bytes.size()), "a descriptor outside memory");
}

// Shared memory from `from` on goes to device memory, 16 bytes per lane: warp 0 copies, `bytes` is a multiple of 16.
// `to`: of the CTA. Uses registers 0 to 3.
inline void copy_out(ListProgram& program, std::uint32_t from, std::uint32_t bytes,
                     std::function<std::uint64_t(const Warp&)> to) {
  ListProgram::Access in;
  in.space = arch::Space::shared;
  in.width = 16;
  const std::uint32_t units = bytes / 16;
  const std::size_t loop = program.loop((units + 31) / 32);
  const auto unit = [loop](const Warp& warp, std::uint32_t lane) { return 32 * warp.count(loop) + lane; };
  in.lanes = [loop, units](const Warp& warp) {
    const std::uint64_t left = units - 32 * warp.count(loop);
    return left >= 32 ? ~arch::LaneMask{0} : (arch::LaneMask{1} << left) - 1;
  };
  ListProgram::Access out = in;
  out.space = arch::Space::global;
  program.load(in, 0, [=](const Warp& warp, std::uint32_t lane) { return from + 16 * unit(warp, lane); });
  program.store_registers(out, 0, [=, to = std::move(to)](const Warp& warp, std::uint32_t lane) {
    return to(warp) + 16 * unit(warp, lane);
  });
  program.end_loop();
}
// The other way: device memory to shared memory, by ordinary loads.
inline void copy_in(ListProgram& program, std::uint32_t to, std::uint32_t bytes,
                    std::function<std::uint64_t(const Warp&)> from) {
  ListProgram::Access in;
  in.width = 16;
  const std::uint32_t units = bytes / 16;
  const std::size_t loop = program.loop((units + 31) / 32);
  const auto unit = [loop](const Warp& warp, std::uint32_t lane) { return 32 * warp.count(loop) + lane; };
  in.lanes = [loop, units](const Warp& warp) {
    const std::uint64_t left = units - 32 * warp.count(loop);
    return left >= 32 ? ~arch::LaneMask{0} : (arch::LaneMask{1} << left) - 1;
  };
  ListProgram::Access out = in;
  out.space = arch::Space::shared;
  program.load(in, 0, [=, from = std::move(from)](const Warp& warp, std::uint32_t lane) {
    return from(warp) + 16 * unit(warp, lane);
  });
  program.store_registers(out, 0, [=](const Warp& warp, std::uint32_t lane) { return to + 16 * unit(warp, lane); });
  program.end_loop();
}

}  // namespace heddle::test
