// Power of a whole machine: what energy is made of, and a clock that falls.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "power/energy_account.h"
#include "support/gpu_lab.h"

namespace system_power_test {

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr std::uint32_t kCtas = 12;
constexpr std::uint32_t kThreads = 128;
constexpr std::uint32_t kElements = kCtas * kThreads;
constexpr std::uint64_t kFrom = 0x10000;
constexpr std::uint64_t kTo = 0x40000;

// Each thread loads its element, works for `rounds`, and stores 3 times the element in another place.
std::shared_ptr<ListProgram> work(std::uint32_t rounds) {
  auto p = std::make_shared<ListProgram>(4);
  p->load({}, 0, [](const Warp& w, std::uint32_t lane) { return kFrom + 4 * w.global_thread(lane); });
  p->loop(rounds);
  p->compute(arch::Unit::fp32, 8, {}, {});
  p->end_loop();
  p->store(
      {}, [](const Warp& w, std::uint32_t lane) { return 3 * w.reg(0, lane); },
      [](const Warp& w, std::uint32_t lane) { return kTo + 4 * w.global_thread(lane); }, {{0, 1}});
  p->exit();
  return p;
}

struct Run {
  explicit Run(const std::vector<std::string>& sets, TimingMode timing = TimingMode::at) : lab(params(sets, timing)) {}

  static gpu::GpuParams params(const std::vector<std::string>& sets, TimingMode timing) {
    gpu::GpuParams params = preset_params("small", sets);
    params.machine.timing = timing;
    return params;
  }
  double run(std::uint32_t rounds) {
    for (std::uint32_t i = 0; i < kElements; ++i) {
      lab.write<std::uint32_t>(kFrom + 4 * i, 7 * i + 1);
      lab.write<std::uint32_t>(kTo + 4 * i, 0);
    }
    const std::uint32_t operation = lab.run(work(rounds), {kCtas, 1, 1}, {kThreads, 1, 1});
    std::uint32_t wrong = 0;
    for (std::uint32_t i = 0; i < kElements; ++i) wrong += lab.read<std::uint32_t>(kTo + 4 * i) != 3 * (7 * i + 1);
    CHECK(wrong == 0);
    lab.gpu.check_quiescent();
    lab.gpu.settle();
    const protocol::DonePacket& done = lab.host.results.at(operation);
    return static_cast<double>(done.end - done.start) * 1e-12;  // seconds
  }
  double joules(const std::string& part) const { return lab.stat("power.joules." + part); }
  double events() const { return joules("total") - joules("idle") - joules("leakage"); }

  SimFixture sim;
  GpuLab lab;
};

const std::string kCounted = "gpu.power.accounting=true";
const std::vector<std::string> kHeld = {"gpu.power.governor=limit", "gpu.power.limit=15 W", "gpu.power.interval=1 us",
                                        "gpu.power.energy.idle=10 W", "gpu.power.energy.leakage=5 W"};

}  // namespace

TEST_CASE("accounting changes no time, in at and in lt", "[power]") {
  for (const TimingMode timing : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    Run off({}, timing);
    const double before = off.run(50);
    Run on({kCounted}, timing);
    CHECK(on.run(50) == before);
    CHECK(on.lab.gpu.domain().events_executed() == off.lab.gpu.domain().events_executed());
    CHECK(on.joules("total") > 0);
    CHECK(off.lab.observation.stats.to_json().count("gpu0.power.watts") == 0);
  }
}

TEST_CASE("joules are the sum of counts times costs, and watts are joules over time", "[power]") {
  Run run({kCounted});
  run.run(200);
  // Each price, over every counter that the machine has.
  double expected[power::kParts] = {};
  const gpu::GpuParams& params = run.lab.gpu.params();
  for (const power::Price& price : power::prices(params.energy, params.sm.issue.tensor_flops)) {
    for (const auto& item : run.lab.observation.stats.descriptions()) {
      const std::string begin = std::string("gpu0") + price.begin;
      const std::string end = price.end;
      if (item.kind != Stats::Kind::counter || item.path.rfind(begin, 0) != 0) continue;
      if (item.path.size() < begin.size() + end.size()) continue;
      if (item.path.compare(item.path.size() - end.size(), end.size(), end) != 0) continue;
      expected[static_cast<std::size_t>(price.part)] +=
          run.lab.observation.stats.value(item.path) * price.picojoules * 1e-12;
    }
  }
  const double volts = params.power.voltage(run.lab.gpu.domain().clock().gigahertz()) / params.energy.voltage;
  double total = 0;
  for (std::size_t i = 0; i < power::kParts; ++i) {
    const auto part = static_cast<power::Part>(i);
    const double got = run.joules(power::part_name(part));
    total += got;
    if (part == power::Part::leakage || part == power::Part::idle) continue;
    CAPTURE(power::part_name(part));
    CHECK(got == Approx(expected[i] * (power::of_chip(part) ? volts * volts : 1.0)).epsilon(1e-9));
  }
  const double seconds =
      static_cast<double>(run.lab.gpu.domain().now()) * run.lab.gpu.domain().clock().period().to_seconds();
  CHECK(run.joules("idle") == Approx(params.energy.idle * seconds));
  CHECK(run.joules("leakage") == Approx(params.energy.leakage * seconds * volts * volts));
  CHECK(run.joules("total") == Approx(total));
  CHECK(run.lab.stat("power.watts") == Approx(total / seconds));
  for (const char* busy : {"sm.issue", "sm.registers", "sm.alu", "sm.l1", "xbar", "l2", "hbm.data", "hbm.activates"}) {
    CAPTURE(busy);
    CHECK(run.joules(busy) > 0);
  }
  CHECK(run.joules("sm.tensor") == 0);
}

TEST_CASE("twice the work takes twice the energy of its events", "[power]") {
  Run once({kCounted});
  once.run(400);
  Run twice({kCounted});
  twice.run(800);
  CHECK(twice.joules("sm.alu") == Approx(2 * once.joules("sm.alu")).epsilon(0.01));
  CHECK(twice.joules("hbm.data") == Approx(once.joules("hbm.data")).epsilon(0.01));  // the same bytes
  CHECK(twice.events() > 1.8 * once.events());
  CHECK(twice.events() < 2.0 * once.events());
}

TEST_CASE("the governor lowers the clock of a busy machine; results stay, the same work takes longer", "[power]") {
  Run open({kCounted});
  const double fast = open.run(4000);
  const double busy = open.lab.stat("power.watts");
  // A limit between what it takes at rest and what it takes now.
  const double rest = (open.joules("idle") + open.joules("leakage")) / (open.joules("total") / busy);
  const double limit = rest + (busy - rest) * 0.6;
  Run held({"gpu.power.governor=limit", "gpu.power.interval=1 us", "gpu.power.limit=" + std::to_string(limit) + " W"});
  const double slow = held.run(4000);
  CHECK(slow > fast * 1.05);
  CHECK(held.lab.stat("power.clock_least") < held.lab.gpu.params().machine.clock);
  CHECK(held.lab.stat("power.held") > 0);
  CHECK(held.lab.stat("power.watts") < limit * 1.05);
  CHECK(held.lab.stat("power.watts") < busy);
  // The events are the same; each takes less at a lower voltage, or as much.
  CHECK(held.events() <= open.events() * 1.0001);
}

TEST_CASE("memory keeps its clock while the chip's falls", "[power]") {
  Run held(kHeld);
  held.run(2000);
  const Domain& memory = held.lab.gpu.memory_domain();
  CHECK(&memory != &held.lab.gpu.domain());
  CHECK(memory.clock().gigahertz() == Approx(held.lab.gpu.params().machine.clock).epsilon(0.001));
  CHECK(held.lab.stat("power.clock") < held.lab.gpu.params().machine.clock);
  Run off({kCounted});
  CHECK(&off.lab.gpu.memory_domain() == &off.lab.gpu.domain());
}

TEST_CASE("after a reset energy and clock begin anew", "[power]") {
  for (const TimingMode timing : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    Run run(kHeld, timing);
    const double first = run.run(1000);
    const double joules = run.joules("total");
    const double clock = run.lab.stat("power.clock");
    run.lab.gpu.reset();
    run_until_idle();
    run.lab.host.results.clear();
    CHECK(run.lab.gpu.domain().clock().gigahertz() == Approx(run.lab.gpu.params().machine.clock).epsilon(0.001));
    const double second = run.run(1000);
    CHECK(second == Approx(first).epsilon(0.02));
    CHECK(run.joules("total") == Approx(joules).epsilon(0.05));
    CHECK(run.lab.stat("power.clock") == Approx(clock).epsilon(0.02));
  }
}

}  // namespace system_power_test
