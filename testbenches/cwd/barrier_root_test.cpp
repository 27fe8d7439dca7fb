// The root of the barriers of wide CGAs against sets of CTAs, under random interleavings of what GPCs report.
#include "cwd/barrier_root.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include <catch2/catch.hpp>

#include "common/timebase.h"
#include "support/random.h"

namespace cwd_barrier_root_test {

namespace {

using namespace heddle;
using heddle::test::Random;
using protocol::BarrierReleasePacket;
using protocol::BarrierReportPacket;
using protocol::BarrierSlot;

class Releases final : public PacketSender<BarrierReleasePacket> {
 public:
  struct Item {
    Cycle when;
    std::uint32_t gpc;
    BarrierReleasePacket packet;
  };
  std::vector<Item> items;

 private:
  bool do_can_send(std::uint32_t) override { return true; }
  void do_send(const BarrierReleasePacket& packet, std::uint32_t link) override { items.push_back({0, link, packet}); }
  void do_send_at(Cycle departure, const BarrierReleasePacket& packet, std::uint32_t link) override {
    items.push_back({departure, link, packet});
  }
};

cwd::CwdParams params_of(std::uint32_t report_cycles) {
  cwd::CwdParams params;
  params.gpc_distances = {60, 60, 75};
  params.barrier_report_cycles = report_cycles;
  return params;
}

struct Bench {
  explicit Bench(std::uint32_t report_cycles = 1) : params(params_of(report_cycles)) {}
  void report(std::uint32_t gpc, std::uint64_t phase, std::uint32_t arrived, std::uint32_t gone,
              std::uint64_t sequence = 9) {
    root.on_report({BarrierSlot(3), sequence, phase, arrived, gone}, gpc);
  }
  cwd::CwdParams params;
  GpuObservation observation{"gpu0"};
  PlainTimebase timebase{TimingMode::at, observation};
  arch::Topology topology{arch::Shape::from_sms_per_gpc({4, 4, 4})};
  cwd::CwdContext context{timebase, "cwd", "cwd", params, topology};
  Releases releases;
  cwd::BarrierRoot root{context, releases};
};

}  // namespace

TEST_CASE("a phase is over when all CTAs of the CGA have arrived or are gone, and not one before", "[cwd][CWD-09]") {
  Bench bench(5);
  bench.root.open(BarrierSlot(3), arch::CgaLevel::gpu, 1, 9, 10);
  bench.report(0, 0, 4, 0);
  bench.report(2, 0, 3, 1);
  bench.timebase.run();
  CHECK(bench.releases.items.empty());
  bench.report(1, 0, 1, 0);  // one of its CTAs has not been launched
  bench.timebase.run();
  CHECK(bench.releases.items.empty());
  const Cycle now = bench.timebase.now();
  bench.report(1, 0, 2, 0);
  bench.timebase.run();
  REQUIRE(bench.releases.items.size() == 3);
  for (const auto& release : bench.releases.items) {
    CHECK(release.packet.slot == BarrierSlot(3));
    CHECK(release.packet.sequence == 9);
    CHECK(release.packet.phase == 1);
    CHECK(release.when == now + 5 + (release.gpc == 2 ? 15 : 0));
  }
  CHECK(bench.observation.stats.value("gpu0.cwd.gpu_barrier_reports") == 4);
  CHECK(bench.observation.stats.value("gpu0.cwd.gpu_barrier_phases") == 1);
  // All exit: nobody is there to be let go on.
  bench.report(0, 1, 0, 4);
  bench.report(1, 1, 0, 2);
  bench.report(2, 1, 0, 4);
  bench.timebase.run();
  CHECK(bench.releases.items.size() == 3);
}

TEST_CASE("reports are taken in one after another", "[cwd][CWD-09]") {
  Bench bench(10);
  bench.root.open(BarrierSlot(3), arch::CgaLevel::gpu, 1, 9, 3);
  for (std::uint32_t gpc = 0; gpc < 3; ++gpc) bench.report(gpc, 0, 1, 0);
  bench.timebase.run();
  REQUIRE(bench.releases.items.size() == 3);
  CHECK(bench.releases.items[0].when == 30);
}

TEST_CASE("a report of a CGA that is gone is not one of the next that has its barrier", "[cwd][CWD-09]") {
  Bench bench;
  bench.root.open(BarrierSlot(3), arch::CgaLevel::gpu, 1, 9, 1);
  bench.root.open(BarrierSlot(3), arch::CgaLevel::ugpu, 1, 10, 1);
  bench.report(0, 0, 1, 0, 9);
  bench.timebase.run();
  CHECK(bench.releases.items.empty());
  bench.report(0, 0, 1, 0, 10);
  bench.timebase.run();
  REQUIRE(bench.releases.items.size() == 1);
  bench.root.reset();
  bench.report(0, 0, 1, 0, 10);
  bench.timebase.run();
  CHECK(bench.releases.items.size() == 1);
}

// GPCs hold random numbers of CTAs, which are launched late, arrive, exit before and after they have arrived; reports
// and releases take their time, in order on each link.
TEST_CASE("random CGAs at the root: each phase ends once, with everybody there", "[cwd][CWD-09]") {
  enum class State { unlaunched, running, waiting, gone };
  std::uint64_t phases = 0;
  for (const std::uint64_t seed : heddle::test::seeds(2000)) {
    CAPTURE(seed);
    Random random(seed);
    Bench bench(random.below(3));
    struct Gpc {
      std::vector<State> ctas;
      std::uint64_t phase = 0;
      std::deque<BarrierReportPacket> sent;
      std::deque<BarrierReleasePacket> coming;
      std::uint32_t told_arrived = 0, told_gone = 0;
      std::uint32_t in(State state) const {
        return static_cast<std::uint32_t>(std::count(ctas.begin(), ctas.end(), state));
      }
    };
    std::vector<Gpc> gpcs(3);
    std::uint32_t total = 0;
    for (Gpc& gpc : gpcs) gpc.ctas.assign(random.below(5), State::unlaunched);
    gpcs[0].ctas.push_back(State::unlaunched);
    for (const Gpc& gpc : gpcs) total += static_cast<std::uint32_t>(gpc.ctas.size());
    bench.root.open(BarrierSlot(3), arch::CgaLevel::gpu, 1, 9, total);
    std::size_t released = 0;
    std::uint64_t over_before = 0;
    for (int step = 0; step < 400; ++step) {
      Gpc& gpc = gpcs[random.below(3)];
      const std::uint32_t what = random.below(100);
      if (what < 20 && !gpc.sent.empty()) {
        const auto number = static_cast<std::uint32_t>(&gpc - gpcs.data());
        bench.root.on_report(gpc.sent.front(), number);
        gpc.sent.pop_front();
        bench.timebase.run();
        bool all = true;
        bool any = false;
        for (const Gpc& its : gpcs) {
          all = all && its.in(State::unlaunched) + its.in(State::running) == 0;
          any = any || its.in(State::waiting) > 0;
        }
        const bool over = bench.releases.items.size() > released;
        if (over) {
          REQUIRE(all);
          // None of them waits for the phase before.
          for (const Gpc& its : gpcs) REQUIRE((its.in(State::waiting) == 0 || its.phase == over_before));
          ++over_before;
          ++phases;
        }
        for (; released < bench.releases.items.size(); ++released) {
          const auto& item = bench.releases.items[released];
          gpcs[item.gpc].coming.push_back(item.packet);
        }
        continue;
      }
      if (what < 40 && !gpc.coming.empty()) {
        REQUIRE(gpc.coming.front().phase == gpc.phase + 1);
        gpc.phase = gpc.coming.front().phase;
        gpc.coming.pop_front();
        std::replace(gpc.ctas.begin(), gpc.ctas.end(), State::waiting, State::running);
        gpc.told_arrived = 0;
        continue;
      }
      if (gpc.ctas.empty()) continue;
      State& cta = gpc.ctas[random.below(static_cast<std::uint32_t>(gpc.ctas.size()))];
      if (cta == State::unlaunched) {
        cta = State::running;
      } else if (cta == State::running) {
        cta = random.chance(12) ? State::gone : State::waiting;
      } else if (cta == State::waiting && random.chance(10)) {
        cta = State::gone;
      }
      const std::uint32_t arrived = gpc.in(State::waiting);
      const std::uint32_t gone = gpc.in(State::gone);
      const bool launched_all_here = gpc.in(State::running) == 0;
      if (launched_all_here && (arrived != gpc.told_arrived || gone != gpc.told_gone)) {
        gpc.told_arrived = arrived;
        gpc.told_gone = gone;
        gpc.sent.push_back({BarrierSlot(3), 9, gpc.phase, arrived, gone});
      }
    }
  }
  CHECK(phases > 1000);
}

}  // namespace cwd_barrier_root_test
