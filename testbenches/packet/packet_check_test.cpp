// What is wrong with a dispatch: one field of a good one at a time, on its limits, and many at random.
#include "packet/packet_check.h"

#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "packet/packet_judge.h"
#include "packet/random_packet.h"
#include "support/random.h"

namespace packet_check_test {

using namespace heddle::arch;
namespace oracle = heddle::oracle;

namespace {

constexpr auto kGood = HsaStatus::success;
constexpr auto kArgument = HsaStatus::invalid_argument;
constexpr auto kFormat = HsaStatus::invalid_packet_format;
constexpr auto kTooMuch = HsaStatus::out_of_resources;
constexpr auto kObject = HsaStatus::invalid_code_object;
constexpr auto kSignal = HsaStatus::invalid_signal;
constexpr auto kAllocation = HsaStatus::invalid_allocation;
constexpr auto kIncompatible = HsaStatus::incompatible_arguments;

DispatchFields good() {
  DispatchFields fields;
  fields.synch_scopes = 0x0B;
  fields.setup = 3;
  fields.workgroup = {16, 4, 2};
  fields.grid = {160, 41, 6};
  fields.private_segment = 16;
  fields.group_segment = 1024;
  fields.kernel_object = 0x8000;
  fields.kernarg = 0x9010;
  fields.completion_signal = 0xA021;
  return fields;
}

HsaStatus status(const std::function<void(DispatchFields&)>& change, const SmLimits& limits = {}) {
  DispatchFields fields = good();
  change(fields);
  const HsaResult verdict = heddle::packet::check(fields, limits);
  CHECK(verdict.ok() == (verdict.reason == heddle::arch::Reason::none));
  return verdict.status;
}

HsaStatus with_object(const std::function<void(DispatchFields&, KernelObject&)>& change, const SmLimits& limits = {}) {
  DispatchFields fields = good();
  KernelObject object;
  change(fields, object);
  REQUIRE(heddle::packet::check(fields, limits).ok());
  const HsaResult verdict = heddle::packet::check(fields, object, limits);
  CHECK(verdict.ok() == (verdict.reason == heddle::arch::Reason::none));
  return verdict.status;
}

}  // namespace

TEST_CASE("dimensions of a dispatch", "[packet][PKT-03][PKT-09]") {
  CHECK(status([](DispatchFields&) {}) == kGood);
  CHECK(status([](DispatchFields& f) { f.setup = 0; }) == kArgument);
  for (std::uint32_t setup = 4; setup < 0x10000; setup = setup < 64 ? setup + 1 : setup * 2) {
    CHECK(status([&](DispatchFields& f) { f.setup = static_cast<std::uint16_t>(setup); }) == kFormat);
  }
  // Fewer dimensions: the others are 1 in workgroup and grid.
  for (std::uint16_t dimensions = 1; dimensions <= 2; ++dimensions) {
    const auto flat = [&](DispatchFields& f) {
      f.setup = dimensions;
      for (std::size_t i = dimensions; i < 3; ++i) f.workgroup[i] = 1;
      for (std::size_t i = dimensions; i < 3; ++i) f.grid[i] = 1;
    };
    CHECK(status(flat) == kGood);
    for (std::size_t i = dimensions; i < 3; ++i) {
      CHECK(status([&](DispatchFields& f) { flat(f), f.grid[i] = 2; }) == kArgument);
      CHECK(status([&](DispatchFields& f) { flat(f), f.workgroup[i] = 2, f.grid[i] = 2; }) == kArgument);
      CHECK(status([&](DispatchFields& f) { flat(f), f.workgroup[i] = 0; }) == kArgument);
      CHECK(status([&](DispatchFields& f) { flat(f), f.grid[i] = 0; }) == kArgument);
    }
  }
}

TEST_CASE("sizes of workgroup and grid", "[packet][PKT-03][PKT-09]") {
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(status([&](DispatchFields& f) { f.workgroup[i] = 0; }) == kArgument);
    CHECK(status([&](DispatchFields& f) { f.grid[i] = 0; }) == kArgument);
    CHECK(status([&](DispatchFields& f) { f.grid[i] = f.workgroup[i]; }) == kGood);
    CHECK(status([&](DispatchFields& f) { f.grid[i] = f.workgroup[i] - 1U; }) == kArgument);
    CHECK(status([&](DispatchFields& f) { f.grid[i] = 4U * f.workgroup[i] + 1; }) == kGood);  // a partial workgroup
  }
  // 1024 work-items of a workgroup, however they lie; or what the machine has.
  const auto sizes = [](std::uint16_t x, std::uint16_t y, std::uint16_t z) {
    return [=](DispatchFields& f) {
      f.workgroup = {x, y, z};
      f.grid = {x, y, z};
    };
  };
  CHECK(status(sizes(1024, 1, 1)) == kGood);
  CHECK(status(sizes(1025, 1, 1)) == kArgument);
  CHECK(status(sizes(1, 1, 1024)) == kGood);
  CHECK(status(sizes(16, 8, 8)) == kGood);
  CHECK(status(sizes(16, 8, 9)) == kArgument);
  CHECK(status(sizes(65'535, 65'535, 65'535)) == kArgument);
  SmLimits small;
  small.max_threads_per_cta = 96;
  CHECK(status(sizes(96, 1, 1), small) == kGood);
  CHECK(status(sizes(97, 1, 1), small) == kArgument);
  // CTA ids of 32, 16 and 16 bits (CWD-40).
  const auto grid = [](std::size_t i, std::uint16_t workgroup, std::uint32_t items) {
    return [=](DispatchFields& f) {
      f.workgroup[i] = workgroup;
      f.grid[i] = items;
    };
  };
  CHECK(status(grid(0, 1, 0x7FFF'FFFF)) == kGood);
  CHECK(status(grid(0, 1, 0x8000'0000)) == kArgument);
  CHECK(status(grid(0, 2, 0xFFFF'FFFE)) == kGood);
  CHECK(status(grid(0, 2, 0xFFFF'FFFF)) == kArgument);
  for (const std::size_t i : {1, 2}) {
    CHECK(status(grid(i, 2, 131'070)) == kGood);
    CHECK(status(grid(i, 2, 131'071)) == kArgument);
  }
}

TEST_CASE("addresses and segments of a dispatch", "[packet][PKT-09]") {
  for (std::size_t bit = 0; bit < 8; ++bit) {
    const std::uint64_t odd = std::uint64_t{1} << bit;
    CHECK(status([&](DispatchFields& f) { f.kernarg ^= odd; }) == (bit < 4 ? kArgument : kGood));
    CHECK(status([&](DispatchFields& f) { f.kernel_object ^= odd; }) == (bit < 7 ? kObject : kGood));
    CHECK(status([&](DispatchFields& f) { f.completion_signal ^= odd; }) == (bit >= 1 && bit < 5 ? kSignal : kGood));
  }
  CHECK(status([](DispatchFields& f) { f.kernarg = 0; }) == kGood);
  CHECK(status([](DispatchFields& f) { f.kernel_object = 0; }) == kObject);
  CHECK(status([](DispatchFields& f) { f.kernel_object = 0x8000'0000'0000'0080; }) == kObject);
  CHECK(status([](DispatchFields& f) { f.kernel_object = 0x7FFF'FFFF'FFFF'FF80; }) == kGood);
  CHECK(status([](DispatchFields& f) { f.completion_signal = 0; }) == kGood);
  CHECK(status([](DispatchFields& f) { f.completion_signal = 0x8000'0000'0000'0040; }) == kGood);
  CHECK(status([](DispatchFields& f) { f.private_segment = 524'288; }) == kGood);
  CHECK(status([](DispatchFields& f) { f.private_segment = 524'289; }) == kTooMuch);
  CHECK(status([](DispatchFields& f) { f.group_segment = 232'448; }) == kGood);
  CHECK(status([](DispatchFields& f) { f.group_segment = 232'449; }) == kTooMuch);
  CHECK(status([](DispatchFields& f) { f.group_segment = 0xFFFF'FFFF; }) == kTooMuch);
  CHECK(status([](DispatchFields& f) { f.kernarg = (std::uint64_t{1} << 63) - 16; }) == kGood);
  CHECK(status([](DispatchFields& f) { f.kernarg = std::uint64_t{1} << 63; }) == kArgument);
  CHECK(status([](DispatchFields& f) { f.completion_signal = 0xA043; }) == kGood);  // with time stamps: 64 bytes
  CHECK(status([](DispatchFields& f) { f.completion_signal = 0xA022; }) == kSignal);
  for (const unsigned scopes : {0x06U, 0x18U, 0x20U, 0x40U, 0x80U}) {
    CHECK(status([&](DispatchFields& f) { f.synch_scopes = static_cast<std::uint8_t>(scopes); }) == kFormat);
  }
}

TEST_CASE("a dispatch and its kernel object against the machine", "[packet][PKT-09][PKT-12]") {
  using F = DispatchFields;
  using K = KernelObject;
  CHECK(with_object([](F&, K&) {}) == kGood);
  // 16 x 4 x 2 work-items
  CHECK(with_object([](F&, K& k) { k.threads_limit = 128; }) == kGood);
  CHECK(with_object([](F&, K& k) { k.threads_limit = 127; }) == kIncompatible);
  CHECK(with_object([](F&, K& k) { k.registers_per_thread = 255; }) == kGood);
  CHECK(with_object([](F&, K& k) { k.registers_per_thread = 256; }) == kTooMuch);
  // The group segment is all of the shared memory: what the kernel has of its own is a part of it (PKT-14).
  CHECK(with_object([](F&, K& k) { k.static_shared = 1024; }) == kGood);
  CHECK(with_object([](F&, K& k) { k.static_shared = 1025; }) == kAllocation);
  CHECK(with_object([](F&, K& k) { k.static_shared = 0xFFFF'FFFF; }) == kAllocation);
  CHECK(with_object([](F& f, K& k) { f.group_segment = k.static_shared = 232'448; }) == kGood);
  // A whole workgroup: 1024 threads of 64 registers are all that an SM has.
  const auto whole = [](std::uint32_t registers) {
    return [registers](F& f, K& k) {
      f.workgroup = {1024, 1, 1};
      f.grid = {4096, 1, 1};
      k.registers_per_thread = registers;
    };
  };
  CHECK(with_object(whole(64)) == kGood);
  CHECK(with_object(whole(65)) == kTooMuch);
  SmLimits few;
  few.warps = 3;
  CHECK(with_object([](F&, K&) {}, few) == kTooMuch);
  few.warps = 4;
  few.threads = 127;
  CHECK(with_object([](F&, K&) {}, few) == kTooMuch);
  few.threads = 128;
  CHECK(with_object([](F&, K&) {}, few) == kGood);
  few.shared_bytes = 1024 + 1024 - 128;
  CHECK(with_object([](F&, K&) {}, few) == kTooMuch);
  few.shared_bytes = 1024 + 1024;
  CHECK(with_object([](F&, K&) {}, few) == kGood);
  few.barriers = few.barriers_per_cta - 1;
  CHECK(with_object([](F&, K&) {}, few) == kTooMuch);
}

TEST_CASE("clusters divide a grid of whole workgroups", "[packet][PKT-09][PKT-12]") {
  const auto clusters = [](Dim3 extents, std::array<std::uint32_t, 3> grid) {
    return with_object([&](DispatchFields& f, KernelObject& k) {
      f.grid = grid;  // workgroups of 16 x 4 x 2
      k.cluster.of(CgaLevel::gpc) = extents;
    });
  };
  CHECK(clusters({2, 2, 3}, {160, 40, 6}) == kGood);
  CHECK(clusters({2, 2, 3}, {176, 40, 6}) == kIncompatible);
  CHECK(clusters({2, 2, 3}, {160, 44, 6}) == kIncompatible);
  CHECK(clusters({2, 2, 3}, {160, 40, 8}) == kIncompatible);
  // Rounded up to whole workgroups the grid would do.
  CHECK(clusters({2, 2, 3}, {159, 40, 6}) == kIncompatible);
  CHECK(clusters({2, 2, 3}, {160, 39, 6}) == kIncompatible);
  CHECK(clusters({1, 1, 1}, {160, 40, 5}) == kIncompatible);
  CHECK(clusters({2, 0, 3}, {160, 40, 6}) == kIncompatible);  // the object has not been decoded
}

TEST_CASE("random dispatches on random machines", "[packet][PKT-09]") {
  HEDDLE_RANDOM(dice);
  oracle::Rng rng(dice.next());
  std::uint64_t launches = 0;
  std::uint64_t shaped = 0;
  for (int round = 0; round < 600; ++round) {
    SmLimits limits;
    limits.max_threads_per_cta = static_cast<std::uint32_t>(1 + rng.below(1024));
    limits.max_shared_per_cta = static_cast<std::uint32_t>(rng.below(262'144));
    limits.max_registers_per_thread = static_cast<std::uint32_t>(1 + rng.below(300));
    limits.warp_size = static_cast<std::uint32_t>(rng.percent(50) ? 32 : 64);
    limits.warps = static_cast<std::uint32_t>(1 + rng.below(64));
    limits.threads = static_cast<std::uint32_t>(1 + rng.below(4096));
    limits.registers = static_cast<std::uint32_t>(1 + rng.below(131'072));
    limits.shared_bytes = static_cast<std::uint32_t>(rng.below(262'144));
    oracle::Judge judge(limits);
    for (int i = 0; i < 60; ++i) {
      oracle::ObjectImage object = oracle::random_object(rng);
      if (const char* wrong = judge.object(object); wrong != nullptr) FAIL(wrong << " differs, round " << round);
      oracle::Image packet = oracle::random_dispatch(rng, rng.percent(50) ? 2 : 6);
      if (rng.percent(30)) oracle::damage(rng, packet);
      if (const char* wrong = judge.packet(packet); wrong != nullptr) FAIL(wrong << " differs, round " << round);
    }
    launches += judge.launches();
    shaped += judge.shaped();
  }
  CHECK(launches > 5'000);
  CHECK(launches < 33'000);
  CHECK(shaped > 1'000);
  CHECK(shaped < launches * 9 / 10);
}

}  // namespace packet_check_test
