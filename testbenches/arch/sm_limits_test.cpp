// What a CTA takes of an SM, how many fit, and the occupancy that follows.
#include "arch/sm_limits.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace arch_sm_limits_test {

using namespace heddle;
using namespace heddle::arch;
using Catch::Contains;
using Catch::StartsWith;
using test::Random;

namespace {

KernelShape kernel(std::uint32_t threads, std::uint32_t registers, std::uint32_t shared,
                   std::uint32_t ctas = 1'000'000) {
  KernelShape shape;
  shape.grid = {ctas, 1, 1};
  shape.block = {threads, 1, 1};
  shape.registers_per_thread = registers;
  shape.shared_bytes = shared;
  return shape;
}

// Adds CTAs one by one until the next does not fit.
std::uint32_t count_one_by_one(const ResourceVector& capacity, ResourceVector used, const ResourceVector& need) {
  for (std::uint32_t n = 0;; ++n) {
    used.add(need);
    for (std::size_t i = 0; i < kResources; ++i) {
      if (need.amount[i] > 0 && used.amount[i] > capacity.amount[i]) return n;
    }
  }
}

ResourceVector random_need(Random& dice) {
  ResourceVector need;
  for (std::uint32_t& amount : need.amount) amount = dice.one_in(4) ? 0 : dice.between(1, dice.one_in(3) ? 3000 : 40);
  need.amount[dice.between(0, kResources - 1)] = dice.between(1, 200);  // of something it takes some
  return need;
}

}  // namespace

TEST_CASE("an SM holds by default what H100's holds", "[arch]") {
  const SmLimits limits;
  CHECK(limits.warp_size == 32);
  const ResourceVector capacity = capacity_of(limits);
  CHECK(capacity[Resource::warps] == 64);
  CHECK(capacity[Resource::threads] == 2048);
  CHECK(capacity[Resource::ctas] == 32);
  CHECK(capacity[Resource::registers] == 64 * 1024);
  CHECK(capacity[Resource::shared_bytes] == 228 * 1024);
  CHECK(capacity[Resource::barriers] == 32 * 16);
  CHECK(limits.max_shared_per_cta == 227 * 1024);
}

TEST_CASE("each limit of an SM is a parameter that decides alone", "[arch][CWD-01]") {
  const KernelShape shape = kernel(128, 32, 1024);  // 4 warps, 4096 registers, 2048 bytes, 16 barriers
  struct Case {
    std::uint32_t SmLimits::*limit;
    std::uint32_t value;
    std::uint32_t slots;
  };
  for (const Case& c : std::vector<Case>{{&SmLimits::warps, 11, 2},
                                         {&SmLimits::warps, 12, 3},
                                         {&SmLimits::threads, 639, 4},
                                         {&SmLimits::threads, 640, 5},
                                         {&SmLimits::registers, 28'671, 6},
                                         {&SmLimits::registers, 28'672, 7},
                                         {&SmLimits::shared_bytes, 18'431, 8},
                                         {&SmLimits::shared_bytes, 18'432, 9},
                                         {&SmLimits::ctas, 10, 10},
                                         {&SmLimits::barriers, 191, 11},
                                         {&SmLimits::barriers, 192, 12}}) {
    SmLimits limits;
    limits.*c.limit = c.value;
    CAPTURE(c.value);
    CHECK(free_slots(capacity_of(limits), {}, need_of(limits, shape)) == c.slots);
  }
}

TEST_CASE("what a CTA takes is rounded as the hardware allocates it", "[arch][CWD-01]") {
  const SmLimits limits;
  const auto registers = [&](std::uint32_t threads, std::uint32_t per_thread) {
    return need_of(limits, kernel(threads, per_thread, 0))[Resource::registers];
  };
  const auto shared = [&](std::uint32_t bytes) {
    return need_of(limits, kernel(32, 0, bytes))[Resource::shared_bytes];
  };
  const auto warps = [&](std::uint32_t threads) { return need_of(limits, kernel(threads, 0, 0))[Resource::warps]; };

  SECTION("threads to whole warps") {
    CHECK(warps(1) == 1);
    CHECK(warps(32) == 1);
    CHECK(warps(33) == 2);
    CHECK(warps(1024) == 32);
    CHECK(need_of(limits, kernel(33, 0, 0))[Resource::threads] == 64);
  }
  SECTION("extents multiply") {
    KernelShape shape = kernel(1, 32, 0);
    shape.block = {16, 4, 3};  // 192 threads: 6 warps
    CHECK(need_of(limits, shape)[Resource::warps] == 6);
  }
  SECTION("registers to 256 per warp") {
    CHECK(registers(128, 0) == 0);          // not known: no limit
    CHECK(registers(128, 1) == 4 * 256);    // 32 -> 256
    CHECK(registers(128, 8) == 4 * 256);    // 256
    CHECK(registers(128, 9) == 4 * 512);    // 288 -> 512
    CHECK(registers(128, 33) == 4 * 1280);  // 1056 -> 1280
    CHECK(registers(128, 168) == 4 * 5376);
    CHECK(registers(128, 255) == 4 * 8192);  // 8160 -> 8192
    CHECK(registers(1024, 64) == 65'536);
  }
  SECTION("registers for multiples of 4 warps") {
    CHECK(registers(32, 32) == 4 * 1024);
    CHECK(registers(160, 32) == 8 * 1024);
    CHECK(registers(256, 32) == 8 * 1024);
  }
  SECTION("shared memory with its reserve, to 128 bytes") {
    CHECK(shared(0) == 1024);
    CHECK(shared(1) == 1152);
    CHECK(shared(128) == 1152);
    CHECK(shared(129) == 1280);
    CHECK(shared(48 * 1024) == 49 * 1024);
    CHECK(shared(227 * 1024) == 228 * 1024);
  }
  SECTION("always one CTA slot and its barriers") {
    CHECK(need_of(limits, kernel(1, 0, 0))[Resource::ctas] == 1);
    CHECK(need_of(limits, kernel(1, 0, 0))[Resource::barriers] == 16);
  }
  SECTION("amounts beyond 32 bits do not wrap into something that fits") {
    KernelShape shape = kernel(0xFFFF'FFFF, 255, 0xFFFF'FFFF);
    const ResourceVector need = need_of(limits, shape);
    CHECK(need[Resource::warps] == 0x0800'0000);
    CHECK(need[Resource::registers] == 0xFFFF'FFFF);
    CHECK(need[Resource::shared_bytes] == 0xFFFF'FFFF);
    CHECK(free_slots(capacity_of(limits), {}, need) == 0);
  }
}

TEST_CASE("free slots are as many as CTAs that fit one by one", "[arch][CWD-01]") {
  HEDDLE_RANDOM(dice);
  std::uint32_t without = 0, with = 0;
  for (int round = 0; round < 20'000; ++round) {
    ResourceVector capacity, used;
    for (std::size_t i = 0; i < kResources; ++i) {
      capacity.amount[i] = dice.between(0, dice.one_in(2) ? 60 : 5000);
      // Sometimes more in use than there is: a limit that was lowered.
      used.amount[i] = dice.one_in(3) ? 0 : dice.between(0, capacity.amount[i] + (dice.one_in(20) ? 10 : 0));
    }
    const ResourceVector need = random_need(dice);
    const std::uint32_t expected = count_one_by_one(capacity, used, need);
    const std::uint32_t actual = free_slots(capacity, used, need);
    (expected == 0 ? without : with) += 1;
    if (actual != expected) {
      CAPTURE(round, capacity.amount, used.amount, need.amount);
      REQUIRE(actual == expected);
    }
  }
  CHECK(without > 1000);
  CHECK(with > 1000);
}

TEST_CASE("of random limits and kernels as many CTAs fit as can be added", "[arch][CWD-01]") {
  HEDDLE_RANDOM(dice);
  std::uint32_t possible = 0, impossible = 0;
  for (int round = 0; round < 20'000; ++round) {
    SmLimits limits;
    limits.warps = dice.between(1, 128);
    limits.threads = dice.between(32, 4096);
    limits.ctas = dice.between(1, 64);
    limits.registers = dice.between(1, 131'072);
    limits.register_granularity = 1U << dice.between(0, 10);
    limits.warp_granularity = dice.between(1, 8);
    limits.shared_bytes = dice.between(0, 300'000);
    limits.shared_granularity = 1U << dice.between(0, 10);
    limits.shared_reserve = dice.between(0, 2048);
    limits.barriers = dice.between(1, 600);
    limits.barriers_per_cta = dice.between(0, 20);
    const KernelShape shape =
        kernel(dice.between(1, 1024), dice.between(0, 255), dice.one_in(2) ? 0 : dice.between(0, 100'000));
    const ResourceVector capacity = capacity_of(limits);
    const ResourceVector need = need_of(limits, shape);
    // Rounding never loses anything, and never adds as much as a granule.
    const std::uint64_t warps = (shape.block.x + 31) / 32;
    bool right = need[Resource::warps] == warps && need[Resource::threads] == warps * 32;
    right = right && need[Resource::registers] >= warps * 32 * shape.registers_per_thread;
    right = right && need[Resource::shared_bytes] % limits.shared_granularity == 0;
    right = right && need[Resource::shared_bytes] >= shape.shared_bytes + limits.shared_reserve;
    right =
        right && need[Resource::shared_bytes] < shape.shared_bytes + limits.shared_reserve + limits.shared_granularity;
    // A first CTA fits exactly if nothing speaks against it.
    const std::uint32_t slots = free_slots(capacity, {}, need);
    right = right && slots == count_one_by_one(capacity, {}, need);
    right = right && (slots > 0) == why_impossible(limits, shape).empty();
    (slots > 0 ? possible : impossible) += 1;
    // Every CTA that is placed takes one slot, and gives it back.
    ResourceVector used;
    for (std::uint32_t n = 0; n < slots; ++n) {
      right = right && free_slots(capacity, used, need) == slots - n;
      used.add(need);
      right = right && used.within(capacity);
    }
    right = right && free_slots(capacity, used, need) == 0;
    for (std::uint32_t n = 0; n < slots; ++n) used.subtract(need);
    right = right && used == ResourceVector{};
    if (!right) {
      CAPTURE(round, shape.block.x, shape.registers_per_thread, shape.shared_bytes, need.amount, capacity.amount,
              slots);
      REQUIRE(right);
    }
  }
  CHECK(possible > 1000);
  CHECK(impossible > 1000);
}

TEST_CASE("occupancy of kernels worked by hand", "[arch][INP-08]") {
  const SmLimits h100;
  const std::uint32_t sms = 132;
  const auto percent = [&](const KernelShape& shape) { return occupancy_percent(h100, shape, sms); };
  // 8 warps of 1,024 registers: 8 CTAs fill registers and warps alike.
  CHECK(percent(kernel(256, 32, 0)) == Approx(100));
  // 4 warps of 5,376 registers: 21,504 per CTA, 3 CTAs, 12 warps.
  CHECK(percent(kernel(128, 168, 0)) == Approx(18.75));
  // 32 warps of 2,048 registers: one CTA has all of them.
  CHECK(percent(kernel(1024, 64, 0)) == Approx(50));
  CHECK(percent(kernel(1024, 32, 0)) == Approx(100));
  // 8 warps of 1,280: 10,240 per CTA, 6 CTAs, 48 warps.
  CHECK(percent(kernel(256, 40, 0)) == Approx(75));
  // 4 warps of 8,192 (8,160 rounded): 2 CTAs.
  CHECK(percent(kernel(128, 255, 0)) == Approx(12.5));
  // 48 KiB + 1 KiB: four CTAs of 4 warps in 228 KiB.
  CHECK(percent(kernel(128, 16, 48 * 1024)) == Approx(25));
  // 227 KiB + 1 KiB: all there is.
  CHECK(percent(kernel(256, 32, 227 * 1024)) == Approx(12.5));
  // 32 CTA slots of one warp; registers not known.
  CHECK(percent(kernel(32, 0, 0)) == Approx(50));
  // 100 threads are 4 warps: 16 CTAs.
  CHECK(percent(kernel(100, 32, 0)) == Approx(100));
  // 96 KiB of shared memory leave two CTAs of 12 warps.
  CHECK(percent(kernel(384, 32, 96 * 1024)) == Approx(37.5));

  SECTION("a grid that does not fill the machine is spread evenly over it") {
    CHECK(percent(kernel(256, 32, 0, 66)) == Approx(6.25));  // half a CTA of 8 warps per SM
    CHECK(percent(kernel(256, 32, 0, 1)) == Approx(100.0 / 8 / 132));
    CHECK(percent(kernel(256, 32, 0, 8 * 132)) == Approx(100));
    CHECK(percent(kernel(256, 32, 0, 8 * 132 - 66)) == Approx(93.75));
    KernelShape shape = kernel(256, 32, 0);
    shape.grid = {11, 3, 2};
    CHECK(percent(shape) == Approx(6.25));
  }
  SECTION("A100 has 164 KiB") {
    SmLimits a100;
    a100.shared_bytes = 164 * 1024;
    CHECK(occupancy_percent(a100, kernel(128, 16, 48 * 1024), 108) == Approx(18.75));
    CHECK(occupancy_percent(a100, kernel(256, 32, 0), 108) == Approx(100));
    CHECK(occupancy_percent(a100, kernel(256, 32, 0, 54), 108) == Approx(6.25));
  }
  SECTION("a kernel that cannot run occupies nothing") {
    CHECK(percent(kernel(1024, 255, 0)) == 0.0);
    CHECK(percent(kernel(32, 32, 300'000)) == 0.0);
  }
}

TEST_CASE("why a kernel cannot run names the resource and the limit", "[arch]") {
  SmLimits limits;
  CHECK(why_impossible(limits, kernel(1024, 64, 0)).empty());
  CHECK(why_impossible(limits, kernel(256, 255, 0)).empty());
  CHECK(why_impossible(limits, kernel(1, 0, 227 * 1024)).empty());

  CHECK(why_impossible(limits, kernel(1025, 0, 0)) == "threads: 1025 per CTA, the limit is 1024");
  CHECK(why_impossible(limits, kernel(32, 256, 0)) == "registers: 256 per thread, the limit is 255");
  CHECK(why_impossible(limits, kernel(32, 0, 232'449)) == "shared memory: 232449 bytes per CTA, the limit is 232448");
  CHECK(why_impossible(limits, kernel(32, 0, 300'000)) == "shared memory: 300000 bytes per CTA, the limit is 232448");
  // 32 warps of 8,192 registers
  CHECK_THAT(why_impossible(limits, kernel(1024, 255, 0)),
             StartsWith("registers: a CTA takes 262144") && Contains("an SM has 65536"));
  SECTION("empty extents") {
    for (const Dim3& none : {Dim3{0, 1, 1}, Dim3{1, 0, 1}, Dim3{1, 1, 0}}) {
      KernelShape shape = kernel(32, 32, 0);
      shape.grid = none;
      CHECK_THAT(why_impossible(limits, shape), StartsWith("grid"));
      shape = kernel(32, 32, 0);
      shape.block = none;
      CHECK_THAT(why_impossible(limits, shape), StartsWith("block"));
    }
  }
  SECTION("every resource of an SM") {
    limits.warps = 16;
    CHECK_THAT(why_impossible(limits, kernel(1024, 32, 0)), StartsWith("warps: a CTA takes 32") && Contains("has 16"));
    limits = {};
    limits.threads = 512;
    CHECK_THAT(why_impossible(limits, kernel(1024, 32, 0)),
               StartsWith("threads: a CTA takes 1024") && Contains("has 512"));
    limits = {};
    limits.shared_bytes = 10'000;
    CHECK_THAT(why_impossible(limits, kernel(32, 32, 9'000)),
               StartsWith("shared memory: a CTA takes 10112") && Contains("reserve") && Contains("has 10000"));
    limits = {};
    limits.ctas = 0;
    CHECK_THAT(why_impossible(limits, kernel(32, 32, 0)), StartsWith("CTA slots"));
    limits = {};
    limits.barriers = 15;
    CHECK_THAT(why_impossible(limits, kernel(32, 32, 0)), StartsWith("barriers: a CTA takes 16"));
  }
  SECTION("extents whose product does not fit 64 bits") {
    KernelShape shape = kernel(32, 32, 0);
    shape.block = {1U << 31, 1U << 31, 4};  // 2^64, which wraps to 0
    CHECK_THAT(why_impossible(limits, shape), StartsWith("threads: 2147483648 per CTA"));
    shape.block = {0x8000'0001, 0x8000'0000, 4};  // wraps to 2^33
    CHECK_THAT(why_impossible(limits, shape), StartsWith("threads"));
    shape.block = {1024, 1U << 27, 1U << 27};  // wraps to 0 too
    CHECK_THAT(why_impossible(limits, shape), StartsWith("threads"));
  }
}

TEST_CASE("every byte of local memory has a place of its own, and words of a warp lie side by side", "[arch][PRT-06]") {
  using heddle::arch::local_offset;
  const heddle::arch::LocalMemory memory{0x4000, 44};
  CHECK(memory.warp_bytes() == 32 * 44);
  CHECK(memory.block_bytes(64, 2) == 64 * 2 * 32 * 44);
  std::vector<int> taken(memory.warp_bytes(), 0);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    for (std::uint64_t offset = 0; offset < memory.bytes; ++offset) ++taken.at(local_offset(offset, lane));
  }
  CHECK(std::count(taken.begin(), taken.end(), 1) == static_cast<std::ptrdiff_t>(taken.size()));
  for (std::uint64_t word = 0; word < memory.bytes; word += 4) {
    for (std::uint32_t lane = 0; lane < 32; ++lane) CHECK(local_offset(word, lane) == word * 32 + lane * 4);
  }
}

TEST_CASE("every resource has a name of its own", "[arch]") {
  CHECK(std::string(resource_name(Resource::warps)) == "warps");
  CHECK(std::string(resource_name(Resource::threads)) == "threads");
  CHECK(std::string(resource_name(Resource::registers)) == "registers");
  CHECK(std::string(resource_name(Resource::shared_bytes)) == "shared memory");
  CHECK(std::string(resource_name(Resource::ctas)) == "CTA slots");
  CHECK(std::string(resource_name(Resource::barriers)) == "barriers");
}

}  // namespace arch_sm_limits_test
