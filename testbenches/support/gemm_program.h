// A pipelined matrix multiply for the tensor memory access unit: C (f32, M x N) = A (bf16, M x K) x B (bf16, stored as
// N x K). CTAs compute tiles of 128 x 128 from tiles of 128 x 64 of A and B. Warp 0 brings them, eight warps multiply.
//
// In clusters of 1 x 2 the two CTAs share their tile of B, of 2 x 1 that of A, of 2 x 2 both: each brings its part of
// what is shared to all that need it.
//
// For comparison the warps that multiply may bring the tiles themselves, by asynchronous copies of 16 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "support/tensor_lab.h"

namespace heddle::test {

struct GemmShape {
  std::uint32_t m = 512;
  std::uint32_t n = 512;
  std::uint32_t k = 512;
  std::uint32_t cluster_x = 1;  // CTAs along N: they share A
  std::uint32_t cluster_y = 1;  // CTAs along M: they share B
  bool async_copies = false;    // in place of bulk loads; without clusters
};

class TensorGemm {
 public:
  static constexpr std::uint32_t kTile = 128;
  static constexpr std::uint32_t kDepth = 64;
  static constexpr std::uint32_t kStages = 4;
  static constexpr std::uint32_t kTileBytes = kTile * kDepth * 2;
  static constexpr std::uint32_t kStageBytes = 2 * kTileBytes;
  static constexpr std::uint32_t kData = 1024;    // offset of the stages
  static constexpr std::uint32_t kEmpty = 64;     // offset of the barriers for empty stages; those for full ones: 0
  static constexpr std::uint32_t kConsumers = 8;  // warps
  static constexpr std::uint64_t kDescriptors = 4096;

  // Matrices lie behind each other from `base` on.
  TensorGemm(const GemmShape& shape, std::uint64_t base)
      : shape_(shape),
        a_(base),
        b_(a_ + std::uint64_t{2} * shape.m * shape.k),
        c_(b_ + std::uint64_t{2} * shape.n * shape.k) {}

  std::uint64_t a() const { return a_; }
  std::uint64_t b() const { return b_; }
  std::uint64_t c() const { return c_; }
  arch::Dim3 grid() const { return {shape_.n / kTile, shape_.m / kTile, 1}; }
  static arch::Dim3 block() { return {32 * (1 + kConsumers), 1, 1}; }
  static std::uint32_t shared() { return kData + kStages * kStageBytes; }
  arch::ClusterShape cluster() const {
    arch::ClusterShape cluster;
    if (shape_.cluster_x * shape_.cluster_y == 1) return cluster;
    cluster.of(arch::CgaLevel::gpc) = {shape_.cluster_x, shape_.cluster_y, 1};
    cluster.mode = arch::CgaMode::multicast;
    return cluster;
  }

  void write_descriptors(GpuLab& lab) const {
    write_descriptor(lab, kDescriptors, operand(a_, shape_.m, kTile / shape_.cluster_x));
    write_descriptor(lab, kDescriptors + 128, operand(b_, shape_.n, kTile / shape_.cluster_y));
    arch::TensorDescriptor c;
    c.type = arch::TensorType::f32;
    c.rank = 2;
    c.address = c_;
    c.size = {shape_.n, shape_.m, 1, 1, 1};
    c.stride = {0, std::uint64_t{4} * shape_.n, 0, 0, 0};
    c.box = {kTile, kTile, 1, 1, 1};
    write_descriptor(lab, kDescriptors + 256, c);
  }

  std::shared_ptr<ListProgram> program() const {
    auto program = std::make_shared<ListProgram>(kRegisters);
    ListProgram& p = *program;
    const auto is_producer = [](const Warp& warp) { return warp.place.warp == 0; };
    if (shape_.async_copies) {
      only(
          p, [=](const Warp& warp) { return !is_producer(warp); }, [this](ListProgram& q) { copy_and_consume(q); });
      p.exit();
      return program;
    }
    only(p, is_producer, [this](ListProgram& q) { init_barriers(q); });
    meet(p);
    only(p, is_producer, [this](ListProgram& q) { produce(q); });
    only(
        p, [=](const Warp& warp) { return !is_producer(warp); }, [this](ListProgram& q) { consume(q); });
    meet(p);
    p.exit();
    return program;
  }

 private:
  static constexpr std::uint16_t kSums = 0;      // 64 registers
  static constexpr std::uint16_t kAddress = 64;  // of copies, 3 registers
  static constexpr std::uint32_t kRegisters = 68;

  arch::TensorDescriptor operand(std::uint64_t address, std::uint32_t rows, std::uint32_t box_rows) const {
    arch::TensorDescriptor tensor;
    tensor.type = arch::TensorType::bf16;
    tensor.rank = 2;
    tensor.swizzle = arch::Swizzle::bytes128;
    tensor.address = address;
    tensor.size = {shape_.k, rows, 1, 1, 1};
    tensor.stride = {0, std::uint64_t{2} * shape_.k, 0, 0, 0};
    tensor.box = {kDepth, box_rows, 1, 1, 1};
    return tensor;
  }

  // The steps of `body`, with loops of their own numbers, for the warps of the condition.
  static void only(ListProgram& p, const std::function<bool(const Warp&)>& condition,
                   const std::function<void(ListProgram&)>& body) {
    ListProgram count(1);
    body(count);
    const std::uint32_t steps = count.here();
    p.branch(p.here() + 1 + steps, [condition](const Warp& warp) { return !condition(warp); }, {});
    body(p);
  }
  void meet(ListProgram& p) const {
    if (shape_.cluster_x * shape_.cluster_y == 1) {
      p.barrier();
      return;
    }
    p.cluster_arrive();
    p.cluster_wait();
  }
  // CTAs that this one shares a tile with, itself first.
  std::uint32_t partners() const { return 1 + (shape_.cluster_x - 1) + (shape_.cluster_y - 1); }
  std::uint32_t partner(std::uint32_t rank, std::uint32_t number) const {
    const std::uint32_t x = rank % shape_.cluster_x;
    const std::uint32_t y = rank / shape_.cluster_x;
    if (number == 0) return rank;
    if (number < shape_.cluster_x) return y * shape_.cluster_x + (x + number) % shape_.cluster_x;
    return (y + number - shape_.cluster_x + 1) % shape_.cluster_y * shape_.cluster_x + x;
  }

  void init_barriers(ListProgram& p) const {
    const std::uint32_t arrivals = kConsumers * partners();
    Sync sync;
    sync.lanes = [](const Warp&) { return arch::LaneMask{(1U << 2 * kStages) - 1}; };
    p.mbarrier_init(
        [](const Warp&, std::uint32_t lane) { return lane < kStages ? 8 * lane : kEmpty + 8 * (lane - kStages); },
        [arrivals](const Warp&, std::uint32_t lane) { return lane < kStages ? 1 : arrivals; }, sync);
  }

  void produce(ListProgram& p) const {
    const std::size_t loop = p.loop(shape_.k / kDepth);
    const auto stage = [loop](const Warp& warp) { return static_cast<std::uint32_t>(warp.count(loop) % kStages); };
    p.mbarrier_wait([=](const Warp& warp, std::uint32_t) { return kEmpty + 8 * stage(warp); },
                    [=](const Warp& warp, std::uint32_t) { return (warp.count(loop) / kStages % 2) ^ 1; });
    p.mbarrier_arrive(
        arch::Space::shared, [=](const Warp& warp, std::uint32_t) { return 8 * stage(warp); }, 1, kStageBytes);
    const auto load = [this, loop, stage](const Warp& warp, bool of_a) {
      const std::uint32_t x = warp.place.rank % shape_.cluster_x;
      const std::uint32_t y = warp.place.rank / shape_.cluster_x;
      const std::uint32_t parts = of_a ? shape_.cluster_x : shape_.cluster_y;
      const std::uint32_t part = of_a ? x : y;
      const std::uint32_t row = kTile * (of_a ? warp.place.cta_y : warp.place.cta_x) + kTile / parts * part;
      arch::BulkRequest request = tensor_request(
          arch::BulkKind::load, kDescriptors + (of_a ? 0 : 128),
          {static_cast<std::int32_t>(kDepth * warp.count(loop)), static_cast<std::int32_t>(row), 0, 0, 0},
          kData + kStageBytes * stage(warp) + (of_a ? 0 : kTileBytes) + kTileBytes / parts * part, 8 * stage(warp));
      if (parts == 1) return request;
      for (std::uint32_t i = 0; i < parts; ++i) {
        const std::uint32_t rank = of_a ? y * shape_.cluster_x + i : i * shape_.cluster_x + x;
        request.multicast = request.multicast | 1U << rank;
      }
      return request;
    };
    bulk(p, arch::OpCode::tensor_load, [load](const Warp& warp) { return load(warp, true); });
    bulk(p, arch::OpCode::tensor_load, [load](const Warp& warp) { return load(warp, false); });
    p.end_loop();
  }

  void consume(ListProgram& p) const {
    const std::size_t loop = p.loop(shape_.k / kDepth);
    const auto stage = [loop](const Warp& warp) { return static_cast<std::uint32_t>(warp.count(loop) % kStages); };
    p.mbarrier_wait([=](const Warp& warp, std::uint32_t) { return 8 * stage(warp); },
                    [=](const Warp& warp, std::uint32_t) { return warp.count(loop) / kStages % 2; });
    multiply(p, loop);
    // The tiles were only read: nothing has to be visible before.
    Sync sync;
    sync.order = arch::Order::relaxed;
    const std::uint32_t all = partners();
    sync.lanes = [all](const Warp&) { return (arch::LaneMask{1} << all) - 1; };
    const bool alone = all == 1;
    p.mbarrier_arrive(
        alone ? arch::Space::shared : arch::Space::cluster,
        [=](const Warp& warp, std::uint32_t lane) {
          const std::uint32_t offset = kEmpty + 8 * stage(warp);
          if (alone || lane >= all) return std::uint64_t{offset};
          return arch::dsmem_address(partner(warp.place.rank, lane), offset);
        },
        1, 0, sync);
    p.end_loop();
    store(p);
  }

  // The part of every warp in the tiles of step `number`: eight copies of 16 bytes per thread, swizzled as the unit
  // would.
  void copy(ListProgram& p, const std::function<std::uint64_t(const Warp&)>& number) const {
    ListProgram::Access access;
    access.width = 16;
    constexpr std::uint32_t kThreads = 32 * kConsumers;
    constexpr std::uint32_t kPieces = kStageBytes / 16 / kThreads;
    for (std::uint32_t piece = 0; piece < kPieces; ++piece) {
      const bool of_a = piece < kPieces / 2;
      const auto at = [piece](const Warp& w, std::uint32_t lane) {  // in the tile
        return 16 * (piece % (kPieces / 2) * kThreads + w.thread(lane) - 32);
      };
      // Source (64 bits) and destination go on by a constant.
      p.compute(arch::Unit::int32, 3, {{kAddress, 3}}, {{kAddress, 3}});
      p.async_copy(
          access,
          [this, of_a, at, number](const Warp& w, std::uint32_t lane) {
            const std::uint64_t row = kTile * (of_a ? w.place.cta_y : w.place.cta_x) + at(w, lane) / (2 * kDepth);
            return (of_a ? a_ : b_) + 2 * (row * shape_.k + kDepth * number(w)) + at(w, lane) % (2 * kDepth);
          },
          [of_a, at, number](const Warp& w, std::uint32_t lane) {
            const std::uint32_t to = at(w, lane);
            return kData + kStageBytes * static_cast<std::uint32_t>(number(w) % kStages) + (of_a ? 0 : kTileBytes) +
                   (to ^ (to >> 3 & 0x70));
          },
          {{kAddress, 3}});
    }
  }

  // Three stages are under way while the fourth is multiplied.
  void copy_and_consume(ListProgram& p) const {
    const std::uint64_t steps = shape_.k / kDepth;
    for (std::uint32_t stage = 0; stage + 1 < kStages; ++stage) {
      copy(p, [stage](const Warp&) { return stage; });
      p.async_commit();
    }
    const std::size_t loop = p.loop(steps);
    p.async_wait(kStages - 2).barrier(1, 32 * kConsumers);  // all have their part, and have multiplied the tiles before
    const auto ahead = [loop](const Warp& w) { return w.count(loop) + kStages - 1; };
    only(
        p, [=](const Warp& w) { return ahead(w) < steps; }, [this, ahead](ListProgram& q) { copy(q, ahead); });
    p.async_commit();
    multiply(p, loop);
    p.end_loop();
    store(p);
  }

  static void multiply(ListProgram& p, std::size_t loop) {
    const arch::RegisterRange range{kSums, kTile / 2};
    // The sums are the result: what waits before the tile is used again waits for them (wgmma's wait).
    p.step({arch::OpCode::matmul, arch::Unit::tensor, {}, {}, range},
           [loop](const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) {
             const auto stage = static_cast<std::uint32_t>(state.scalars[loop] % kStages);
             arch::MatmulTile tile;
             tile.type = arch::ValueType::bf16;
             tile.n = kTile;
             tile.k = kDepth;
             tile.a = kData + kStageBytes * stage + 16 * 2 * kDepth * (place.warp - 1);
             tile.b = kData + kStageBytes * stage + kTileBytes;
             tile.a_pitch = tile.b_pitch = 2 * kDepth;
             tile.b_transposed = true;
             tile.a_swizzle = tile.b_swizzle = arch::Swizzle::bytes128;
             operation.tile = tile;
             operation.destination = kSums;
           });
    p.compute(arch::Unit::int32, 1, {range});
  }

  void store(ListProgram& p) const {
    ListProgram::Access access;
    access.space = arch::Space::shared;
    access.width = 8;
    // Other warps may still read the tiles where the result goes.
    p.barrier(1, 32 * kConsumers);
    for (std::uint16_t i = 0; i < kTile / 2; i = static_cast<std::uint16_t>(i + 2)) {
      p.store_registers(access, static_cast<std::uint16_t>(kSums + i), [i](const Warp& warp, std::uint32_t lane) {
        const std::uint32_t row = 16 * (warp.place.warp - 1) + lane / 4 + 8 * (i / 2 % 2);
        const std::uint32_t column = 8 * (i / 4) + 2 * (lane % 4);
        return std::uint64_t{kData} + 4 * (kTile * row + column);
      });
    }
    p.barrier(1, 32 * kConsumers);
    only(
        p, [](const Warp& warp) { return warp.place.warp == 1; },
        [](ListProgram& q) {
          bulk(q, arch::OpCode::tensor_store, [](const Warp& warp) {
            return tensor_request(arch::BulkKind::store, kDescriptors + 256,
                                  {static_cast<std::int32_t>(kTile * warp.place.cta_x),
                                   static_cast<std::int32_t>(kTile * warp.place.cta_y), 0, 0, 0},
                                  kData);
          });
          bulk_commit(q);
          bulk_wait(q, 0);
        });
  }

  GemmShape shape_;
  std::uint64_t a_;
  std::uint64_t b_;
  std::uint64_t c_;
};

}  // namespace heddle::test
