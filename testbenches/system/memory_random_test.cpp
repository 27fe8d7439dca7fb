// Random programs of loads, stores and atomics from many warps on a whole machine, against a flat memory.
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/flat_machine.h"
#include "support/gpu_lab.h"
#include "support/random.h"
#include "support/random_accesses.h"

namespace system_memory_random_test {

using namespace heddle::test;
using heddle::arch::AtomicKind;
using heddle::arch::kNoRegister;
using heddle::arch::Order;
using heddle::arch::ValueType;

namespace {

constexpr std::uint64_t kMemory = 1 << 20;

struct Setting {
  std::string timing;
  std::string extra = "gpu.run_ahead=1024";
};

std::vector<std::uint8_t> run_on_machine(std::uint64_t seed, const Setting& setting, const heddle::arch::Dim3& grid,
                                         const heddle::arch::Dim3& block, const std::vector<std::uint8_t>& before) {
  SimFixture sim;
  GpuLab lab(preset_params("small", {"gpu.timing=" + setting.timing, setting.extra}));
  REQUIRE(lab.gpu.memory().write(0, before.data(), before.size()));
  lab.run(random_accesses(seed), grid, block, kWindow * 8);
  REQUIRE(lab.gpu.log().faults().empty());
  REQUIRE(lab.host.results.size() == 1);
  lab.gpu.check_quiescent();
  std::vector<std::uint8_t> after(before.size());
  REQUIRE(lab.gpu.memory().read(0, after.data(), after.size()));
  return after;
}

}  // namespace

TEST_CASE("random programs leave the memory that a flat machine leaves, in both timing modes",
          "[system][SM-02][SM-04][MEM-01][MEM-06]") {
  std::set<std::vector<std::uint8_t>> different;
  for (const std::uint64_t seed : seeds(40)) {
    CAPTURE(seed);
    Random random(seed + 77);
    std::vector<std::uint8_t> before(kMemory);
    for (std::uint8_t& byte : before) byte = static_cast<std::uint8_t>(random.below(256));
    const heddle::arch::Dim3 block{random.chance(50) ? 32 * random.between(1, 8) : random.between(1, 256), 1, 1};
    const std::uint64_t warps = (block.count() + 31) / 32;
    const auto most = static_cast<std::uint32_t>((kMemory - kOwn) / kPiece / warps);
    const heddle::arch::Dim3 grid{random.between(1, std::min(most, 40U)), 1, 1};
    FlatMachine oracle(0);
    oracle.memory = before;
    oracle.run(*random_accesses(seed), grid, block, kWindow * 8);
    const auto at = run_on_machine(seed, {"at"}, grid, block, before);
    REQUIRE(at == oracle.memory);
    const auto lt = run_on_machine(seed, {"lt"}, grid, block, before);
    REQUIRE(lt == oracle.memory);
    for (const char* mode : {"at", "fast", "lt"}) {
      REQUIRE(run_on_machine(seed, {mode, "gpu.l2.copies=near"}, grid, block, before) == oracle.memory);
    }
    // A starved memory system: everything waits for everything, and nothing changes.
    REQUIRE(run_on_machine(seed, {"at", "gpu.l2={bytes: 64 KiB, mshrs: 2, waiters: 2, queue: 2, responses: 1}"}, grid,
                           block, before) == oracle.memory);
    REQUIRE(run_on_machine(seed,
                           {"at", "gpu.l2={copies: near, bytes: 64 KiB, mshrs: 4, waiters: 4, queue: 2, responses: 1}"},
                           grid, block, before) == oracle.memory);
    different.insert(at);
  }
  CHECK(different.size() > 30);
}

TEST_CASE("atomics that return values are done one after another", "[system][MEM-01]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt");
  CAPTURE(mode);
  SimFixture sim;
  GpuLab lab(preset_params("small", {"gpu.timing=" + mode}));
  constexpr std::uint32_t kCtas = 30;
  auto program = std::make_shared<ListProgram>(1);
  ListProgram::Access access;
  access.order = Order::relaxed;
  program->atomic(access, AtomicKind::add, ValueType::u32, 0, ListProgram::constant(1),
                  ListProgram::linear(kCounters, 0));
  program->store({}, ListProgram::of_register(0),
                 [](const Warp& warp, std::uint32_t lane) { return kOwn + 4 * warp.global_thread(lane); }, {{0, 1}});
  program->exit();
  lab.run(program, {kCtas, 1, 1}, {128, 1, 1});
  std::vector<bool> seen(kCtas * 128);
  for (std::uint32_t i = 0; i < kCtas * 128; ++i) {
    const auto value = lab.read<std::uint32_t>(kOwn + 4 * i);
    REQUIRE(value < seen.size());
    REQUIRE_FALSE(seen[value]);
    seen[value] = true;
  }
  CHECK(lab.read<std::uint32_t>(kCounters) == kCtas * 128);
}

}  // namespace system_memory_random_test
