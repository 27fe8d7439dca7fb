// The published curves of tensor memory access on GH200 (hibouwu/CUDA_optimazation EXP-14, EXP-15, EXP-17 and R18), and
// the programs that measure the same on the model (TMA-30, TMA-45).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/tensor_probes.h"
#include "support/cluster_lab.h"

namespace heddle::probes {

// What one request moves. A row has 128 bytes; the next one follows at once, or 144 bytes further.
enum class Curve : std::uint8_t { block, rows, padded };

constexpr std::array<std::uint32_t, 6> kCurveKib{1, 4, 8, 16, 32, 64};
constexpr std::uint32_t kRowBytes = 128;
constexpr std::uint32_t kRowsOfBox = 256;  // the most that a box may have: 64 KiB are two requests

// Bytes of device memory that a request touches.
inline std::uint64_t span_of(Curve curve, std::uint32_t bytes) {
  return curve == Curve::padded ? std::uint64_t{bytes / kRowBytes - 1} * 144 + kRowBytes : bytes;
}

// Where data lie whose end is far: a request is over with its last line, and on silicon, where the partitions alternate
// more finely than every 1,024 bytes, some of the last lines are far. The first CTA runs in the first GPC.
inline std::uint64_t far_end(const gpu::GpuParams& params, std::uint64_t span) {
  const arch::AddressMap map(params.machine.memory, params.l2.slices, params.l2.partitions);
  std::uint64_t at = kData;
  while (map.slice_of(at + span - 1) < map.slices() / map.partitions()) at += 1024;
  return at;
}

inline arch::TensorDescriptor rows_tensor(Curve curve, std::uint64_t address, std::uint32_t bytes) {
  arch::TensorDescriptor tensor;
  tensor.type = arch::TensorType::f32;
  tensor.rank = 2;
  tensor.address = address;
  const std::uint64_t rows = bytes / kRowBytes;
  tensor.size = {kRowBytes / 4, rows, 1, 1, 1};
  tensor.stride = {0, curve == Curve::padded ? std::uint64_t{144} : kRowBytes, 0, 0, 0};
  tensor.box[0] = kRowBytes / 4;
  tensor.box[1] = static_cast<std::uint16_t>(std::min<std::uint64_t>(rows, kRowsOfBox));
  return tensor;
}

// All requests that move `bytes` bytes between device memory and kShared.
inline void move_all(ListProgram& p, Curve curve, BulkKind kind, std::uint64_t address, std::uint32_t bytes) {
  const bool load = kind == BulkKind::load;
  const bool reduces = kind == BulkKind::reduce;
  if (curve == Curve::block) {
    bulk(p,
         load      ? OpCode::bulk_load
         : reduces ? OpCode::bulk_reduce
                   : OpCode::bulk_store,
         [=](const Warp&) {
           BulkRequest request = test::block_request(kind, address, bytes, kShared);
           if (load) request.barrier = 0;
           return request;
         });
    return;
  }
  const std::uint32_t rows = bytes / kRowBytes;
  for (std::uint32_t row = 0; row < rows; row += kRowsOfBox) {
    bulk(p,
         load      ? OpCode::tensor_load
         : reduces ? OpCode::tensor_reduce
                   : OpCode::tensor_store,
         [=](const Warp&) {
           BulkRequest request = test::tensor_request(kind, kTensors, {0, static_cast<std::int32_t>(row), 0, 0, 0},
                                                      kShared + row * kRowBytes);
           if (load) request.barrier = 0;
           return request;
         });
  }
}

// Steps of one warp of the CTA.
inline void of_warp(ListProgram& p, std::uint32_t warp, const std::function<void(ListProgram&)>& body) {
  test::only_if(
      p, [warp](const Warp& w) { return w.place.warp == warp; }, body);
}

// One CTA of 128 threads, of which one makes a request, over and over: cycles of a turn. All wait for a load, and
// for each other; for a store waits who made it. Data are in the L2.
inline double turn_cycles(const std::string& preset, Curve curve, BulkKind kind, std::uint32_t bytes,
                          const std::vector<std::string>& sets = {}) {
  constexpr std::uint64_t kTurns = 8;
  test::SimFixture sim;
  const gpu::GpuParams params = test::preset_params(preset, sets);
  GpuLab lab(params);
  const std::uint64_t address = far_end(params, span_of(curve, bytes));
  if (curve != Curve::block) test::write_descriptor(lab, kTensors, rows_tensor(curve, address, bytes));
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  of_warp(p, 0, [](ListProgram& q) { q.mbarrier_init(0, 1); });
  p.barrier();
  const auto turns = [&](std::uint64_t count) {
    const std::size_t loop = p.loop(count);
    of_warp(p, 0, [=](ListProgram& q) {
      if (kind == BulkKind::load) q.mbarrier_arrive(arch::Space::shared, 0, 1, bytes);
      move_all(q, curve, kind, address, bytes);
      if (kind != BulkKind::load) {
        test::bulk_commit(q);
        test::bulk_wait(q, 0);
      }
    });
    if (kind == BulkKind::load) {
      p.mbarrier_wait(0, [=](const Warp& w, std::uint32_t) { return w.count(loop) % 2; });
      p.barrier();
    }
    p.end_loop();
  };
  turns(4);
  read_clock(p, 2, {});
  turns(kTurns);
  read_clock(p, 3, {});
  of_warp(p, 0, [](ListProgram& q) { store_clocks(q, 2, 3); });
  p.exit();
  lab.run(program, {1, 1, 1}, {128, 1, 1}, kShared + bytes);
  HEDDLE_CHECK(lab.gpu.log().faults().empty(), "a probe had a fault");
  return noted(lab) / kTurns;
}

// Multicasts of 16 KiB, one under way per cluster: the first CTA makes it, all wait for it and for each other.
struct Multicast {
  static constexpr std::uint32_t kBytes = 16'384;

  std::uint32_t ctas = 1;       // of a cluster
  std::uint32_t receivers = 1;  // of these
  bool cold = false;            // every request reads data of its own
};

inline std::shared_ptr<ListProgram> multicast_turns(const Multicast& shape, std::uint64_t turns, std::uint64_t first) {
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  const auto meet = [&] {
    if (shape.ctas == 1) {
      p.barrier();
    } else {
      test::cluster_barrier(p);
    }
  };
  of_warp(p, 0, [](ListProgram& q) { q.mbarrier_init(0, 1); });
  meet();
  const std::size_t loop = p.loop(turns);
  const auto receives = [=](const Warp& w) { return w.place.rank < shape.receivers; };
  test::only_if(
      p, [=](const Warp& w) { return w.place.warp == 0 && receives(w); },
      [](ListProgram& q) { q.mbarrier_arrive(arch::Space::shared, 0, 1, Multicast::kBytes); });
  test::only_if(
      p, [](const Warp& w) { return w.place.warp == 0 && w.place.rank == 0; },
      [=](ListProgram& q) {
        bulk(q, OpCode::bulk_load, [=](const Warp& w) {
          const std::uint64_t number =
              w.place.cta / shape.ctas * (shape.cold ? turns : 1) + (shape.cold ? w.count(loop) : 0);
          BulkRequest request = test::block_request(BulkKind::load, kData + (first + number) * Multicast::kBytes,
                                                    Multicast::kBytes, kShared, 0);
          if (shape.receivers > 1) request.multicast = static_cast<std::uint16_t>((1U << shape.receivers) - 1);
          return request;
        });
      });
  test::only_if(p, receives, [=](ListProgram& q) {
    q.mbarrier_wait(0, [=](const Warp& w, std::uint32_t) { return w.count(loop) % 2; });
  });
  meet();
  p.end_loop();
  p.exit();
  return program;
}

// Cycles of `turns` more turns of all CTAs of a grid.
inline double multicast_cycles(GpuLab& lab, const Multicast& shape, std::uint32_t grid, std::uint64_t turns) {
  std::uint64_t first = 0;
  const auto kernel = [&](std::uint64_t count) {
    const arch::ClusterShape cluster = shape.ctas == 1 ? arch::ClusterShape{} : test::clusters_of(shape.ctas);
    const double cycles = lab.cycles(
        lab.run(multicast_turns(shape, count, first), {grid, 1, 1}, {64, 1, 1}, kShared + Multicast::kBytes, cluster));
    HEDDLE_CHECK(lab.gpu.log().faults().empty(), "a probe had a fault");
    if (shape.cold) first += grid / shape.ctas * count;
    return cycles;
  };
  const double once = kernel(turns);
  return kernel(2 * turns) - once;
}

// Bytes that a grid which fills the machine gets per second, in TB/s: four CTAs on each SM at a time, of twice as
// many; data in memory. The clock and the memory of GH200.
inline double multicast_rate(std::uint32_t ctas, const std::vector<std::string>& sets = {}) {
  constexpr std::uint64_t kTurns = 4;
  constexpr std::uint32_t kGrid = 1056;
  constexpr double kClock = 1.98;
  std::vector<std::string> all{"gpu.clock=1.98", "gpu.hbm.pin_rate=6.25"};
  all.insert(all.end(), sets.begin(), sets.end());
  test::SimFixture sim;
  GpuLab lab(test::preset_params("h100-sxm", all));
  const arch::ClusterShape cluster = ctas == 1 ? arch::ClusterShape{} : test::clusters_of(ctas);
  const auto kernel = [&](std::uint64_t turns, std::uint64_t first) {
    const double result = lab.cycles(
        lab.run(multicast_turns({ctas, ctas, true}, turns, first), {kGrid, 1, 1}, {64, 1, 1}, 54 << 10, cluster));
    HEDDLE_CHECK(lab.gpu.log().faults().empty(), "a probe had a fault");
    return result;
  };
  const double start = kernel(2, 0);
  const double cycles = kernel(2 + kTurns, 2 * kGrid / ctas) - start;
  return kTurns * static_cast<double>(kGrid) * Multicast::kBytes / cycles * kClock / 1000;
}

// What a single cluster of that size reads, with all of its CTAs as receivers against one.
inline double multicast_source(std::uint32_t ctas, const std::vector<std::string>& sets = {}) {
  const auto cycles = [&](std::uint32_t receivers) {
    test::SimFixture sim;
    GpuLab lab(test::preset_params("h100-sxm", sets));
    (void)multicast_cycles(lab, {ctas, receivers, false}, ctas, 2);
    return multicast_cycles(lab, {ctas, receivers, false}, ctas, 16);
  };
  return cycles(1) / cycles(ctas);
}

// Tiles of A and B (128 x 64, bf16) of a matrix multiply in a cluster whose CTAs share A, each of which brings its part
// of it to all; one warp brings them, four stages ahead, and another one takes 512 cycles for each, as the tensor cores
// would.
inline std::shared_ptr<ListProgram> k_tiles(std::uint32_t ctas, std::uint32_t tiles) {
  constexpr std::uint32_t kTile = 16'384;
  constexpr std::uint32_t kStages = 4;
  constexpr std::uint32_t kEmpty = 256;
  constexpr std::uint32_t kMultiply = 239;  // instructions of two cycles; the rest of the 512 are waits and arrivals
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  test::Sync sync;
  sync.lanes = [=](const Warp& warp) { return warp.place.warp == 0 ? (std::uint64_t{1} << 2 * kStages) - 1 : 0; };
  p.mbarrier_init(
      [=](const Warp&, std::uint32_t lane) { return lane < kStages ? 8 * lane : kEmpty + 8 * (lane - kStages); },
      [=](const Warp&, std::uint32_t lane) { return lane < kStages ? 1 : ctas; }, sync);
  test::cluster_barrier(p);
  const auto stage = [](const Warp& w, std::size_t loop) {
    return static_cast<std::uint32_t>(w.count(loop) % kStages);
  };
  const auto turn = [](const Warp& w, std::size_t loop) { return w.count(loop) / kStages % 2; };
  of_warp(p, 0, [=](ListProgram& q) {
    const std::size_t loop = q.loop(tiles);
    q.mbarrier_wait([=](const Warp& w, std::uint32_t) { return kEmpty + 8 * stage(w, loop); },
                    [=](const Warp& w, std::uint32_t) { return turn(w, loop) ^ 1; });
    q.mbarrier_arrive(
        arch::Space::shared, [=](const Warp& w, std::uint32_t) { return 8 * stage(w, loop); }, 1, 2 * kTile);
    for (const bool shared : {true, false}) {
      bulk(q, OpCode::tensor_load, [=](const Warp& w) {
        const std::uint32_t rows = shared ? 128 / ctas : 128;
        const std::uint32_t row = shared ? rows * w.place.rank : 0;
        const auto at = static_cast<std::int32_t>(64 * w.count(loop));
        BulkRequest request = test::tensor_request(
            BulkKind::load, kTensors + (shared ? 0 : 128), {at, static_cast<std::int32_t>(row), 0, 0, 0},
            kShared + 2 * kTile * stage(w, loop) + (shared ? 128 * row : kTile), 8 * stage(w, loop));
        if (shared) request.multicast = static_cast<std::uint16_t>((1U << ctas) - 1);
        return request;
      });
    }
    q.end_loop();
  });
  of_warp(p, 1, [=](ListProgram& q) {
    const std::size_t loop = q.loop(tiles);
    q.mbarrier_wait([=](const Warp& w, std::uint32_t) { return 8 * stage(w, loop); },
                    [=](const Warp& w, std::uint32_t) { return turn(w, loop); });
    q.compute(arch::Unit::int32, kMultiply, {}, {{0, 1}});
    test::Sync all;
    all.order = arch::Order::relaxed;
    all.lanes = [=](const Warp&) { return (std::uint64_t{1} << ctas) - 1; };
    q.mbarrier_arrive(arch::Space::cluster,
                      [=](const Warp& w, std::uint32_t lane) {
                        return arch::dsmem_address(lane < ctas ? lane : 0, kEmpty + 8 * stage(w, loop));
                      },
                      1, 0, all, arch::kNoRegister, {{0, 1}});
    q.end_loop();
  });
  test::cluster_barrier(p);
  p.exit();
  return program;
}

// Cycles for each of them, in one cluster: the boxes of A inside the matrix, or wholly behind its last row.
inline double k_tile_cycles(std::uint32_t ctas, bool outside, const std::vector<std::string>& sets = {}) {
  constexpr std::uint32_t kTiles = 16;
  test::SimFixture sim;
  GpuLab lab(test::preset_params("h100-sxm", sets));
  for (const bool shared : {true, false}) {
    arch::TensorDescriptor tensor;
    tensor.type = arch::TensorType::bf16;
    tensor.rank = 2;
    tensor.swizzle = arch::Swizzle::bytes128;
    tensor.address = kData;
    tensor.size = {64 * 3 * kTiles, 128, 1, 1, 1};
    if (shared && outside) tensor.size[0] = 8;  // every box but the first is beyond it
    tensor.stride = {0, std::uint64_t{2} * 64 * 3 * kTiles, 0, 0, 0};
    tensor.box = {64, static_cast<std::uint16_t>(shared ? 128 / ctas : 128), 1, 1, 1};
    test::write_descriptor(lab, kTensors + (shared ? 0 : 128), tensor);
  }
  const auto cycles = [&](std::uint32_t tiles) {
    const double result = lab.cycles(
        lab.run(k_tiles(ctas, tiles), {ctas, 1, 1}, {64, 1, 1}, kShared + 4 * 32'768, test::clusters_of(ctas)));
    HEDDLE_CHECK(lab.gpu.log().faults().empty(), "a probe had a fault");
    return result;
  };
  (void)cycles(3 * kTiles);
  const double once = cycles(kTiles);
  return (cycles(3 * kTiles) - once) / (2 * kTiles);
}

}  // namespace heddle::probes
