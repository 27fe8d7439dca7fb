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

namespace system_memory_random_test {

using namespace heddle::test;
using heddle::arch::AtomicKind;
using heddle::arch::kNoRegister;
using heddle::arch::Order;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::arch::ValueType;

namespace {

constexpr std::uint64_t kMemory = 1 << 20;
constexpr std::uint64_t kShared = 0x8000;    // read only
constexpr std::uint64_t kCounters = 0xC000;  // atomics of all warps
constexpr std::uint64_t kOwn = 0x10000;      // a piece for every warp
constexpr std::uint32_t kPiece = 1536;       // not a multiple of a page, or of what the slices are dealt
constexpr std::uint32_t kWindow = 2048;      // of shared memory for every warp

std::uint64_t warp_number(const Warp& warp) { return warp.place.cta * warp.place.warps + warp.place.warp; }

// Lanes of one access never overlap: lane l gets place (a * l + b) mod 32 of those that the piece has.
ListProgram::Address own_piece(Random& random, std::uint32_t width, Space space, bool global_base = true) {
  const std::uint32_t factor = 2 * random.below(16) + 1;
  const std::uint32_t offset = random.below(32);
  const std::uint32_t size = space == Space::global ? kPiece : kWindow;
  const std::uint32_t start = random.below((size - 32 * width) / width + 1) * width;
  return [=](const Warp& warp, std::uint32_t lane) {
    const std::uint64_t base = space == Space::global && global_base ? kOwn + kPiece * warp_number(warp)
                                                                     : std::uint64_t{kWindow} * warp.place.warp;
    return base + start + std::uint64_t{width} * ((factor * lane + offset) % 32);
  };
}

ListProgram::Lanes some_lanes(Random& random) {
  if (random.chance(50)) return {};
  const std::uint32_t mask = static_cast<std::uint32_t>(random.next());
  return [mask](const Warp& warp) { return mask ^ static_cast<std::uint32_t>(warp_number(warp) * 0x9E37'79B9U); };
}

std::shared_ptr<ListProgram> random_program(std::uint64_t seed) {
  Random random(seed);
  auto program = std::make_shared<ListProgram>(16);
  ListProgram& p = *program;
  static constexpr std::uint8_t kWidths[] = {1, 2, 4, 8, 16};
  const auto some_register = [&] { return static_cast<std::uint16_t>(4 * random.below(4)); };
  const std::uint32_t steps = random.between(10, 60);
  for (std::uint32_t i = 0; i < steps; ++i) {
    ListProgram::Access access;
    access.width = kWidths[random.below(5)];
    access.space = random.chance(30) ? Space::shared : Space::global;
    access.lanes = some_lanes(random);
    if (access.space == Space::global && random.chance(20)) access.order = Order::relaxed;
    const std::uint16_t reg = some_register();
    switch (random.below(8)) {
      case 0:
      case 1:
        p.load(access, reg, own_piece(random, access.width, access.space));
        break;
      case 2: {  // read only, at an address that a register decides
        access.space = Space::global;
        access.width = 4;
        const std::uint32_t salt = static_cast<std::uint32_t>(random.next());
        p.load(
            access, some_register(),
            [=](const Warp& warp, std::uint32_t lane) { return kShared + 4 * ((warp.reg(reg, lane) ^ salt) % 4096); },
            {{reg, 1}});
        break;
      }
      case 3:
      case 4:
        p.store_registers(access, reg, own_piece(random, access.width, access.space));
        break;
      case 5: {  // many warps on a few words; the order does not matter for the sum
        static constexpr AtomicKind kKinds[] = {AtomicKind::add, AtomicKind::bit_xor, AtomicKind::max};
        const std::uint32_t which = random.below(3);
        const std::uint32_t spread = random.between(1, 64);
        access.order = Order::relaxed;
        access.space = Space::global;
        p.atomic(access, kKinds[which], ValueType::u32, kNoRegister, ListProgram::of_register(reg),
                 [=](const Warp&, std::uint32_t lane) { return kCounters + 4 * (which * 64 + lane % spread); },
                 {{reg, 1}});
        break;
      }
      case 6: {  // in the own piece, with the old value
        const bool wide = random.chance(30);
        const std::uint32_t width = wide ? 8 : 4;
        access.order = access.space == Space::global ? Order::relaxed : Order::weak;
        static constexpr AtomicKind kKinds[] = {AtomicKind::add, AtomicKind::min, AtomicKind::bit_and,
                                                AtomicKind::exchange, AtomicKind::bit_or};
        p.atomic(access, kKinds[random.below(5)], wide ? ValueType::u64 : ValueType::u32, some_register(),
                 ListProgram::of_register(reg), own_piece(random, width, access.space), {{reg, 1}});
        break;
      }
      default:
        p.set(reg,
              [salt = static_cast<std::uint32_t>(random.next()), reg](const Warp& warp, std::uint32_t lane) {
                return warp.reg(reg, lane) * 2'654'435'761U + salt + lane;
              },
              {{reg, 1}});
    }
  }
  for (std::uint16_t reg = 0; reg < 16; reg = static_cast<std::uint16_t>(reg + 4)) {
    ListProgram::Access access;
    p.store_registers(access, reg, [reg](const Warp& warp, std::uint32_t lane) {
      return kOwn + kPiece * warp_number(warp) + kPiece - 512 + 32 * reg + 4 * lane;
    });
  }
  p.exit();
  return program;
}

struct Setting {
  std::string timing;
  std::string extra = "gpu.run_ahead=1024";
};

std::vector<std::uint8_t> run_on_machine(std::uint64_t seed, const Setting& setting, const heddle::arch::Dim3& grid,
                                         const heddle::arch::Dim3& block, const std::vector<std::uint8_t>& before) {
  SimFixture sim;
  GpuLab lab(preset_params("small", {"gpu.timing=" + setting.timing, setting.extra}));
  REQUIRE(lab.gpu.memory().write(0, before.data(), before.size()));
  lab.run(random_program(seed), grid, block, kWindow * 8);
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
    oracle.run(*random_program(seed), grid, block, kWindow * 8);
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
