// What heddle_speed_bench measures: kernels that do one thing many times.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "bench/bare_events.h"
#include "support/cluster_lab.h"
#include "support/gemm_program.h"
#include "support/gpu_lab.h"

namespace heddle::bench {

struct Spent {
  std::uint64_t units = 0;
  double seconds = 0;  // of CPU time
};

struct Probe {
  std::string name;
  std::uint64_t count = 0;                    // of a round
  std::function<Spent(std::uint64_t)> run{};  // so many units or a few more
};

// What is measured, and nothing else: a function of its own, so that callgrind can tell.
__attribute__((noinline)) inline double timed(const std::function<void()>& work) {
  const double begin = cpu_seconds();
  work();
  return cpu_seconds() - begin;
}

// Loads that follow each other, four under way at a time: of the lines of device memory from an address on, dealt out
// to all warps, or of the shared memory of the next CTA of the cluster. Written for speed: what is timed is the
// machine, not the program.
class StreamReads final : public arch::WarpProgram {
 public:
  struct Range {
    std::uint64_t base = std::uint64_t{1} << 24;  // cluster: an offset
    std::uint64_t bytes = 0;                      // a power of two of them is read over and over
    std::uint64_t warps = 1;                      // that share them
    bool cluster = false;
  };
  StreamReads(std::uint32_t loads, std::uint8_t width, const Range& range)
      : loads_(loads), width_(width), range_(range), pieces_(range.bytes / width / arch::kWarpLanes) {
    const auto words = static_cast<std::uint16_t>(width / 4);
    for (std::uint16_t i = 0; i < kInFlight; ++i) {
      demands_[i] = {arch::OpCode::load, arch::Unit::memory, {}, {{static_cast<std::uint16_t>(i * words), words}}, {}};
    }
  }
  std::uint32_t registers() const override { return kInFlight * width_ / 4U; }
  void start(const arch::WarpPlace&, arch::WarpState& state) const override {
    state.pc = 0;
    state.exited = false;
    state.registers.assign(std::size_t{registers()} * arch::kWarpLanes, 0);
  }
  const arch::OperationNeeds& demand(const arch::WarpState& state) const override {
    return state.pc == loads_ ? exit_ : demands_[state.pc % kInFlight];
  }
  void issue(const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) const override {
    if (state.pc == loads_) {
      operation.code = arch::OpCode::exit;
      state.exited = true;
      return;
    }
    operation.code = arch::OpCode::load;
    operation.unit = arch::Unit::memory;
    operation.space = range_.cluster ? arch::Space::cluster : arch::Space::global;
    operation.order = arch::Order::weak;
    operation.lanes = place.lanes;
    operation.width = width_;
    operation.destination = demands_[state.pc % kInFlight].writes.front().first;
    std::uint64_t base = range_.base;
    if (range_.cluster) {
      base = arch::dsmem_address(
          (place.rank + 1) % place.cluster_size,
          static_cast<std::uint32_t>(range_.base + (state.pc + place.warp) % pieces_ * width_ * arch::kWarpLanes));
    } else {
      const std::uint64_t me = place.cta * place.warps + place.warp;
      base += (state.pc * range_.warps + me) % pieces_ * width_ * arch::kWarpLanes;
    }
    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) operation.address[lane] = base + width_ * lane;
    ++state.pc;
  }
  std::string describe(const arch::WarpState&) const override { return {}; }

 private:
  static constexpr std::uint32_t kInFlight = 4;
  std::uint32_t loads_;
  std::uint8_t width_;
  Range range_;
  std::uint64_t pieces_;
  arch::OperationNeeds demands_[kInFlight];
  arch::OperationNeeds exit_;
};

inline gpu::GpuParams machine(const std::string& timing, std::vector<std::string> sets = {}) {
  sets.push_back("gpu.timing=" + timing);
  return test::preset_params("h100-sxm", sets);
}

// Where lines come from.
enum class Lines { l2, dram };

inline Spent read_lines(const std::string& timing, std::uint8_t width, Lines from, std::uint64_t lines) {
  test::SimFixture sim;
  test::GpuLab lab(machine(timing));
  // A set that fits into the L2, and not into the L1s that a warp could meet again; or memory that nobody has read.
  StreamReads::Range range;
  range.bytes = std::uint64_t{lines < 200'000 ? 4U : 24U} << 20;
  const std::uint32_t sms = lab.gpu.topology().sms();
  range.warps = std::uint64_t{sms} * 16;
  const std::uint64_t piece = std::uint64_t{width} * arch::kWarpLanes;
  const auto run = [&](std::uint64_t bytes) {
    const auto loads = static_cast<std::uint32_t>((bytes == 0 ? range.bytes : bytes) / piece / range.warps + 1);
    if (from == Lines::dram) {
      range.bytes = loads * piece * range.warps;
      const std::vector<std::uint8_t> some(std::size_t{1} << 20, 7);
      for (std::uint64_t at = 0; at < range.bytes; at += some.size()) {
        HEDDLE_CHECK(lab.gpu.memory().write(range.base + at, some.data(), some.size()), "lines outside memory");
      }
    }
    const auto program = std::make_shared<StreamReads>(loads, width, range);
    const auto work = [&] { lab.run(program, {sms, 1, 1}, {512, 1, 1}); };
    if (bytes == 0) {
      work();  // into the L2
      return Spent();
    }
    return Spent{loads * range.warps * piece / arch::kLineBytes, timed(work)};
  };
  if (from == Lines::l2) run(0);
  return run(lines * arch::kLineBytes);
}

// Of the next CTA of a cluster of two, 128 bytes each.
inline Spent read_neighbours(const std::string& timing, std::uint64_t accesses) {
  test::SimFixture sim;
  test::GpuLab lab(machine(timing));
  StreamReads::Range range;
  range.base = 0;
  range.bytes = 16384;
  range.cluster = true;
  const std::uint32_t ctas = lab.gpu.topology().sms() / 2 * 2;
  const std::uint64_t warps = std::uint64_t{ctas} * 8;
  const auto loads = static_cast<std::uint32_t>(accesses / warps + 1);
  const auto program = std::make_shared<StreamReads>(loads, std::uint8_t{4}, range);
  const double seconds = timed([&] { lab.run(program, {ctas, 1, 1}, {256, 1, 1}, 200 * 1024, test::clusters_of(2)); });
  return {loads * warps, seconds};
}

// Lines that a matrix multiply's tensor copies bring, with its barriers; next to nothing of it is computed.
inline Spent copy_tiles(const std::string& timing, std::uint64_t lines) {
  test::SimFixture sim;
  test::GpuLab lab(machine(timing, {"gpu.sm.issue.tensor_sample=100000"}));
  test::GemmShape shape;
  shape.cluster_x = shape.cluster_y = 2;
  shape.m = shape.n = 1024;
  const std::uint64_t per_depth = std::uint64_t{shape.m / test::TensorGemm::kTile} *
                                  (shape.n / test::TensorGemm::kTile) * test::TensorGemm::kStageBytes /
                                  arch::kLineBytes;
  shape.k = static_cast<std::uint32_t>((lines / per_depth + 1) * test::TensorGemm::kDepth);
  const test::TensorGemm gemm(shape, 1 << 20);
  gemm.write_descriptors(lab);
  const protocol::SubmitPacket packet =
      lab.packet(gemm.program(), gemm.grid(), test::TensorGemm::block(), test::TensorGemm::shared(), 0, gemm.cluster());
  const double seconds = timed([&] {
    lab.submit(packet);
    test::run_until_idle();
  });
  return {shape.k / test::TensorGemm::kDepth * per_depth, seconds};
}

// From launch to completion, with nothing to do but one instruction.
inline Spent launch_ctas(const std::string& timing, std::uint64_t ctas) {
  test::SimFixture sim;
  test::GpuLab lab(machine(timing));
  const auto packet = test::kernel_packet(0, 0, {static_cast<std::uint32_t>(ctas), 1, 1}, {32, 1, 1});
  const double seconds = timed([&] {
    lab.submit(packet);
    test::run_until_idle();
  });
  return {ctas, seconds};
}

inline std::vector<Probe> probes() {
  std::vector<Probe> all;
  for (const std::string timing : {"at", "fast", "lt"}) {
    for (const std::uint8_t width : {std::uint8_t{4}, std::uint8_t{16}}) {
      all.push_back({"L2-hit line, `" + timing + "`, " + (width == 4 ? "one line per load" : "four lines per load"),
                     1'000'000, [=](std::uint64_t count) { return read_lines(timing, width, Lines::l2, count); }});
    }
  }
  for (const std::string timing : {"at", "fast", "lt"}) {
    all.push_back({"DRAM line, `" + timing + "`", 500'000,
                   [=](std::uint64_t count) { return read_lines(timing, 4, Lines::dram, count); }});
  }
  for (const std::string timing : {"at", "fast"}) {
    all.push_back({"line of a tensor copy, `" + timing + "`", 500'000,
                   [=](std::uint64_t count) { return copy_tiles(timing, count); }});
  }
  for (const std::string timing : {"at", "fast"}) {
    all.push_back({"DSMEM access, `" + timing + "`", 500'000,
                   [=](std::uint64_t count) { return read_neighbours(timing, count); }});
  }
  all.push_back({"CTA, launch to completion", 1'000'000, [](std::uint64_t count) { return launch_ctas("at", count); }});
  return all;
}

}  // namespace heddle::bench
