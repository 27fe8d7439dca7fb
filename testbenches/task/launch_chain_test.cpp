// Chains of device-side launches and SMs that launch, over one plain memory, with their steps in any order (TSK-13).
#include "arch/address_map.h"
#include "task/launch_world.h"

namespace heddle::test::task_launch_chain_test {
using namespace trees;

TEST_CASE("every task of a tree runs once, in its turn, and completes after its descendants, whatever the interleaving",
          "[task][TSK-07][TSK-10][TSK-12][TSK-13][TSK-16]") {
  const bool shared = GENERATE(false, true);
  std::uint32_t wakes = 0;
  std::uint32_t restores = 0;
  std::uint32_t tails = 0;
  std::uint32_t spilled = 0;
  std::uint32_t late = 0;
  std::uint32_t some = 0;
  std::uint32_t ahead = 0;
  for (const std::uint64_t seed : seeds(1000)) {
    CAPTURE(seed, shared);
    Random random(seed);
    World world(random, shared);
    // One after another, so that records are used again and the rings go round.
    for (std::uint32_t tree = 0; tree < 5; ++tree) {
      world.run_tree();
      world.check_pools();
    }
    REQUIRE(world.refusals == 0);
    wakes += world.wakes;
    restores += world.restores;
    tails += world.tails;
    spilled += world.spilled;
    late += world.late;
    some += world.some;
    ahead += world.ahead;
  }
  CHECK(wakes > 100);
  CHECK(restores > 100);
  CHECK(tails > 100);
  CHECK(spilled > 100);
  CHECK((!shared || late > 20));
  CHECK(some > 100);
  CHECK(ahead > 100);
}

TEST_CASE("launches that find no record are refused, and all others of a tree run as they should",
          "[task][TSK-12][TSK-13]") {
  const bool shared = GENERATE(false, true);
  std::uint32_t refusals = 0;
  std::uint32_t spilled = 0;
  std::uint32_t restores = 0;
  for (const std::uint64_t seed : seeds(1000)) {
    CAPTURE(seed, shared);
    Random random(seed);
    World world(random, shared, true);
    for (std::uint32_t tree = 0; tree < 5; ++tree) {
      world.run_tree();
      world.check_pools();
    }
    refusals += world.refusals;
    spilled += world.spilled;
    restores += world.restores;
  }
  CHECK(refusals > 1000);
  CHECK(spilled > 100);
  CHECK(restores > 100);
}

TEST_CASE("a task whose kernel object cannot be read is told of, and one whose record cannot is lost",
          "[task][TSK-06]") {
  RecordLine line{};
  arch::put_number(line, tmd::kContext, 8, 0x2000);
  arch::put_number(line, tmd::kKernel, 8, 0x3000);
  SECTION("the object") {
    const task::ChainPtr chain = task::start_chain(0x1000, any_space());
    REQUIRE(chain->access().address == 0x1000);
    chain->answer_line(line);
    REQUIRE(chain->access().step.address == 0x2000 + context::kOwner);
    chain->answer_word(0x5000);
    REQUIRE(chain->access().address == 0x3000);
    chain->failed();
    const auto effects = chain->take_effects();
    REQUIRE(effects.size() == 1);
    const auto& read = std::get<task::ChildRead>(effects[0]);
    CHECK_FALSE(read.readable);
    CHECK(read.parent == 0x5000);
    CHECK(chain->over());
  }
  SECTION("an address that cannot be one") {
    const std::uint64_t address = GENERATE(std::uint64_t{0}, std::uint64_t{0x3010}, arch::kHostWindow + 0x3000);
    arch::put_number(line, tmd::kKernel, 8, address);
    const task::ChainPtr chain = task::start_chain(0x1000, any_space());
    chain->answer_line(line);
    chain->answer_word(0x5000);
    CHECK_FALSE(std::get<task::ChildRead>(chain->take_effects().at(0)).readable);
  }
  SECTION("the record") {
    const task::ChainPtr chain = task::start_chain(0x1000, any_space());
    chain->failed();
    const auto effects = chain->take_effects();
    REQUIRE(effects.size() == 1);
    CHECK(std::get<task::AccessFailed>(effects[0]).record == 0x1000);
    CHECK(chain->over());
  }
}

TEST_CASE("kernel object and code are read in the address space of the grid that launches", "[task][TSK-06][MEM-04]") {
  static constexpr std::uint8_t kSubcontext = 5;
  const bool tail = GENERATE(false, true);
  RecordLine line{};
  arch::put_number(line, tmd::kContext, 8, 0x2000);
  arch::put_number(line, tmd::kKernel, 8, 0x3000);
  if (tail) {
    arch::put_number(line, tmd::kFlags, 4, static_cast<std::uint32_t>(arch::LaunchMode::tail) << 8);
    REQUIRE(task::child_record(line).mode == arch::LaunchMode::tail);
  }
  const std::uint64_t parent = tail ? 0x2000 : 0x5000;
  const auto spaces = [parent](std::uint64_t asked) -> std::optional<std::uint8_t> {
    if (asked != parent) return std::nullopt;
    return kSubcontext;
  };
  arch::KernelObject object;
  object.code = {0x4000, 200};
  object.name = "child";
  const arch::KernelObjectBytes bytes = arch::encode(object);
  const task::ChainPtr chain = task::start_chain(0x1000, spaces);
  CHECK_FALSE(chain->access().subcontext);  // records are the machine's
  chain->answer_line(line);
  if (!tail) {
    REQUIRE(chain->access().step.address == 0x2000 + context::kOwner);
    chain->answer_word(parent);
  }
  REQUIRE(chain->access().address == 0x3000);
  CHECK(chain->access().subcontext == kSubcontext);
  chain->answer_line(bytes);
  for (const std::uint64_t address : {0x4000, 0x4080}) {
    REQUIRE(chain->access().address == address);
    CHECK(chain->access().subcontext == kSubcontext);
    chain->answer_line({});
  }
  const auto effects = chain->take_effects();
  REQUIRE(effects.size() == 1);
  const auto& read = std::get<task::ChildRead>(effects[0]);
  CHECK(read.readable);
  CHECK(read.parent == parent);
  CHECK(read.code.complete());
}

}  // namespace heddle::test::task_launch_chain_test
