// How fast the memory path is: reads of lines that hit the L2, from warp to warp through L1, crossbar and slice, in
// both timing modes, next to what the SystemC kernel itself can do on the same machine, before and after each. Times
// are CPU times and differ from machine to machine: quote the ratio.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "bench/bare_events.h"
#include "support/gpu_lab.h"

int sc_main(int, char**) { return 0; }

namespace {

using namespace heddle;

// Every warp reads pieces of a buffer, `width` bytes per lane, four loads under way at a time. Written for speed: what
// is timed is the machine, not the program.
class StreamReads final : public arch::WarpProgram {
 public:
  StreamReads(std::uint32_t loads, std::uint8_t width, std::uint64_t warps, std::uint64_t pieces)
      : loads_(loads), width_(width), warps_(warps), pieces_(pieces) {
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
  const arch::Demand& demand(const arch::WarpState& state) const override {
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
    operation.space = arch::Space::global;
    operation.order = arch::Order::weak;
    operation.lanes = place.lanes;
    operation.width = width_;
    operation.destination = demands_[state.pc % kInFlight].writes.front().first;
    const std::uint64_t me = place.cta * place.warps + place.warp;
    const std::uint64_t base = (1ULL << 24) + (state.pc * warps_ + me) % pieces_ * width_ * arch::kWarpLanes;
    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) operation.address[lane] = base + width_ * lane;
    ++state.pc;
  }
  std::string describe(const arch::WarpState&) const override { return {}; }

 private:
  static constexpr std::uint32_t kInFlight = 4;
  std::uint32_t loads_;
  std::uint8_t width_;
  std::uint64_t warps_;
  std::uint64_t pieces_;
  arch::Demand demands_[kInFlight];
  arch::Demand exit_;
};

// Lines per second of CPU time.
double lines_per_second(const std::string& timing, std::uint8_t width, std::uint64_t lines) {
  test::SimFixture sim;
  test::GpuLab lab(test::preset_params("h100-sxm", {"gpu.timing=" + timing}));
  constexpr std::uint64_t kSet = 24ULL << 20;  // fits into the L2, and not into the L1s that a warp could meet again
  const std::uint32_t sms = lab.gpu.topology().sms();
  const std::uint64_t warps = std::uint64_t{sms} * 16;
  const std::uint64_t piece = std::uint64_t{width} * arch::kWarpLanes;
  const auto run = [&](std::uint64_t bytes) {
    const auto loads = static_cast<std::uint32_t>(bytes / piece / warps + 1);
    lab.run(std::make_shared<StreamReads>(loads, width, warps, kSet / piece), {sms, 1, 1}, {512, 1, 1});
    return static_cast<double>(loads * warps * piece) / arch::kLineBytes;
  };
  run(kSet);  // into the L2
  const double begin = bench::cpu_seconds();
  const double done = run(lines * arch::kLineBytes);
  return done / (bench::cpu_seconds() - begin);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t lines = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  for (const char* timing : argc > 2 ? std::vector<const char*>{argv[2]} : std::vector<const char*>{"at", "fast", "lt"}) {
    for (const std::uint8_t width : {std::uint8_t{4}, std::uint8_t{16}}) {
      const bench::Yardstick::Round round =
          bench::Yardstick().measure(3, [&] { return lines_per_second(timing, width, lines); });
      std::fputs(
          fmt::format("L2-hit line reads {}  {:12.0f} per second ({} per warp load): {:.1f} bare events per line "
                      "({:.1f} M/s)\n",
                      timing, round.rate, width == 4 ? "one line " : "four lines", 1 / round.ratio(), round.bare / 1e6)
              .c_str(),
          stdout);
    }
  }
  return 0;
}
