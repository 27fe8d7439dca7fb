// Programmatic dependent launch on whole machines: kernels that start ahead of the end of the one before them see what
// that has written once they have waited for it, and nothing is lost.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/gpu_lab.h"
#include "support/random.h"

namespace system_dependent_launch_test {

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr std::uint64_t kWords = 0x10'0000;
constexpr std::uint32_t kThreads = 64;

// When a kernel lets the next one go.
enum class LetGo { never, first, between, last };

struct Part {
  LetGo let_go = LetGo::never;
  std::uint32_t ctas = 8;
  std::uint32_t before = 10;  // instructions ahead of what it waits for
  std::uint32_t behind = 10;
  std::uint32_t turn = 0;  // which thread has which word
};

// Adds 1 to as many words as there are threads; it has read them before it waits, so that its L1 has old ones.
std::shared_ptr<ListProgram> adder(const Part& part, std::uint32_t words) {
  auto program = std::make_shared<ListProgram>(6);
  ListProgram& p = *program;
  const auto lanes = [=](const Warp& warp) {
    arch::LaneMask mask = 0;
    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
      if (warp.global_thread(lane) < words) mask |= arch::LaneMask{1} << lane;
    }
    return mask;
  };
  const auto address = [=](const Warp& warp, std::uint32_t lane) {
    return kWords + 4 * ((warp.global_thread(lane) + part.turn) % words);
  };
  ListProgram::Access access;
  access.lanes = lanes;
  if (part.let_go == LetGo::first) p.launch_dependents();
  p.load(access, 4, address);
  p.compute(arch::Unit::int32, part.before, {{4, 1}});
  if (part.let_go == LetGo::between) p.launch_dependents();
  p.grid_dependency_wait();
  p.load(access, 2, address);
  p.set(3, [](const Warp& warp, std::uint32_t lane) { return std::uint64_t{warp.reg(2, lane)} + 1; }, {{2, 1}});
  p.store(access, ListProgram::of_register(3), address, {{3, 1}});
  p.compute(arch::Unit::int32, part.behind);
  if (part.let_go == LetGo::last) p.launch_dependents();
  p.exit();
  return program;
}

}  // namespace

TEST_CASE("who waits for the kernel before it sees all that it wrote, however early it started", "[system]") {
  double overlaps = 0;
  double waited = 0;
  for (const std::uint64_t seed : seeds(40)) {
    Random random(seed);
    const std::string mode = random.chance(60) ? "at" : "lt";
    std::vector<std::string> sets{"gpu.timing=" + mode};
    if (random.chance(30)) sets.emplace_back("gpu.cwd.preemption=instruction");
    if (random.chance(30)) sets.emplace_back("gpu.sm.limits.ctas=2");
    if (random.chance(50)) sets.emplace_back("gpu.task.gap.drain=300");
    INFO("seed " << seed << " " << mode);
    SimFixture fixture;
    GpuLab lab(preset_params("small", sets));
    const std::uint32_t words = kThreads * random.between(1, 24);
    for (std::uint32_t i = 0; i < words; ++i) lab.write<std::uint32_t>(kWords + 4 * i, 1000 + i);
    const std::uint32_t kernels = random.between(2, 8);
    std::vector<std::uint32_t> operations;
    for (std::uint32_t i = 0; i < kernels; ++i) {
      Part part;
      part.let_go = static_cast<LetGo>(random.below(4));
      part.ctas = words / kThreads + (random.chance(30) ? random.between(1, 20) : 0);
      part.before = random.between(1, 400);
      part.behind = random.between(1, 400);
      part.turn = random.below(words);
      protocol::SubmitPacket packet = lab.packet(adder(part, words), {part.ctas, 1, 1}, {kThreads, 1, 1});
      packet.programmatic = random.chance(80);
      operations.push_back(lab.submit(packet));
    }
    run_until_idle();
    REQUIRE(lab.host.results.size() == kernels);
    for (std::uint32_t i = 0; i < words; ++i) {
      REQUIRE(lab.read<std::uint32_t>(kWords + 4 * i) == 1000 + i + kernels);
    }
    for (std::size_t i = 1; i < operations.size(); ++i) {
      const protocol::DonePacket& before = lab.host.results.at(operations[i - 1]);
      const protocol::DonePacket& behind = lab.host.results.at(operations[i]);
      REQUIRE(behind.status == protocol::DoneStatus::ok);
      REQUIRE(behind.end >= before.end);
      overlaps += behind.start < before.end ? 1 : 0;
    }
    const auto json = lab.observation.stats.to_json();
    for (const auto& [path, stat] : json.items()) {
      if (path.find(".stall.dependency") != std::string::npos) waited += stat.at("value").get<double>();
    }
  }
  // Else nothing of this was tried.
  CHECK(overlaps > 20);
  CHECK(waited > 0);
}

TEST_CASE("a kernel that does not wait may run to its end first, and ends behind the other one", "[system]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  SimFixture fixture;
  GpuLab lab(preset_params("small", {"gpu.timing=" + mode}));
  auto first = std::make_shared<ListProgram>(2);
  first->launch_dependents().compute(arch::Unit::int32, 5000).exit();
  auto second = std::make_shared<ListProgram>(2);
  second->compute(arch::Unit::int32, 10).exit();
  const std::uint32_t a = lab.submit(lab.packet(first, {1, 1, 1}, {32, 1, 1}));
  const auto run_second = [&](bool programmatic) {
    protocol::SubmitPacket packet = lab.packet(second, {1, 1, 1}, {32, 1, 1});
    packet.programmatic = programmatic;
    return lab.submit(packet);
  };
  const std::uint32_t b = run_second(true);
  const std::uint32_t c = run_second(false);
  run_until_idle();
  const auto& results = lab.host.results;
  CHECK(results.at(b).start < results.at(a).end);
  CHECK(results.at(b).end == results.at(a).end);
  CHECK(results.at(c).start >= results.at(b).end);
}

// The first CTA is over soon, the second one late.
TEST_CASE("a kernel starts once every CTA before it has let it go, or is over", "[system]") {
  struct Case {
    std::vector<std::uint32_t> soon;  // how often CTAs let it go before the second one's work
    std::uint32_t late;               // and how often the second one does behind that
    bool early;                       // the kernel starts before that work ends
  };
  for (const Case& its : {Case{{1, 1}, 0, true}, Case{{0, 1}, 0, true}, Case{{2, 0}, 1, false}, Case{{3, 0}, 0, false},
                          Case{{0, 0}, 1, false}, Case{{0, 3}, 0, true}}) {
    CAPTURE(its.soon, its.late);
    SimFixture fixture;
    GpuLab lab(preset_params("small"));
    const auto of = [](std::uint32_t cta, bool does) {
      return [=](const Warp& warp) { return does && warp.place.cta == cta ? ~arch::LaneMask{0} : arch::LaneMask{0}; };
    };
    auto first = std::make_shared<ListProgram>(2);
    for (std::uint32_t i = 0; i < 3; ++i) {
      for (std::uint32_t cta = 0; cta < 2; ++cta) first->launch_dependents(of(cta, i < its.soon[cta]));
    }
    first->step({arch::OpCode::compute, arch::Unit::int32, {}, {}, {}},
                [](const arch::WarpPlace& place, arch::WarpState&, arch::Operation& operation) {
                  operation.count = place.cta == 0 ? 1 : 20'000;
                });
    first->launch_dependents(of(1, its.late > 0)).exit();
    auto second = std::make_shared<ListProgram>(2);
    second->compute(arch::Unit::int32, 10).exit();
    const std::uint32_t a = lab.submit(lab.packet(first, {2, 1, 1}, {32, 1, 1}));
    protocol::SubmitPacket packet = lab.packet(second, {1, 1, 1}, {32, 1, 1});
    packet.programmatic = true;
    const std::uint32_t b = lab.submit(packet);
    run_until_idle();
    const auto& results = lab.host.results;
    REQUIRE(results.at(a).end - results.at(a).start > 10'000'000);  // picoseconds
    CHECK((results.at(b).start + 5'000'000 < results.at(a).end) == its.early);
  }
}

TEST_CASE("a machine that is reset while kernels run ahead starts anew", "[system]") {
  SimFixture fixture;
  GpuLab lab(preset_params("small"));
  const std::uint32_t words = kThreads * 8;
  Part part;
  part.let_go = LetGo::first;
  part.behind = 2000;
  const auto submit = [&] {
    for (std::uint32_t i = 0; i < words; ++i) lab.write<std::uint32_t>(kWords + 4 * i, 0);
    for (int i = 0; i < 3; ++i) {
      protocol::SubmitPacket packet = lab.packet(adder(part, words), {8, 1, 1}, {kThreads, 1, 1});
      packet.programmatic = true;
      lab.host.submit_until_forgotten(lab.host.now() + 1, packet);
    }
  };
  submit();
  for (Cycle i = 1; i <= 2000; ++i) lab.host.at(i, [] {});  // it does not run ahead of the reset
  run_until(sc_core::sc_time(2, sc_core::SC_US));
  REQUIRE(lab.gpu.open_operations() > 0);
  lab.gpu.reset();
  lab.host.forget();
  lab.gpu.check_quiescent();
  submit();
  run_until_idle();
  for (std::uint32_t i = 0; i < words; ++i) REQUIRE(lab.read<std::uint32_t>(kWords + 4 * i) == 3);
}

}  // namespace system_dependent_launch_test
