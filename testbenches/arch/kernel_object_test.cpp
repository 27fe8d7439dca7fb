// The record that kernel_object points to, and the kernel that it makes with a packet.
#include "arch/kernel_object.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "packet/object_oracle.h"
#include "packet/random_packet.h"
#include "support/random.h"

namespace arch_kernel_object_test {

using namespace heddle::arch;
namespace oracle = heddle::oracle;
using heddle::CheckFailed;

namespace {

KernelObject full_object() {
  KernelObject object;
  object.program = 0x04030201;
  object.threads_limit = 0x14131211;
  object.registers_per_thread = 0x24232221;
  object.static_shared = 0x34333231;
  object.duration = {0x4847464544434241, 0x5857565554535251};
  object.cluster.mode = CgaMode::load_balancing;
  object.cluster.linear_memory = true;
  object.cluster.of(CgaLevel::cpc) = {2, 1, 1};
  object.cluster.of(CgaLevel::gpc) = {4, 2, 1};
  object.cluster.of(CgaLevel::gpu) = {0x800, 0x400, 3};
  object.cluster.fallback[0] = {0x400, 0x200, 1};
  object.cluster.fallback[1] = {0x200, 2, 1};
  object.name = "sweep";
  object.cooperative = true;
  return object;
}

KernelObjectBytes plain() {
  KernelObject object;
  object.name = "plain";
  return encode(object);
}

HsaStatus status_of(const KernelObjectBytes& bytes) {
  KernelObject object;
  return decode(bytes, object).status;
}

DispatchFields dispatch(std::array<std::uint16_t, 3> workgroup, std::array<std::uint32_t, 3> grid) {
  DispatchFields fields;
  fields.setup = 3;
  fields.workgroup = workgroup;
  fields.grid = grid;
  return fields;
}

}  // namespace

TEST_CASE("a kernel object lies in its 128 bytes as documented", "[packet][PKT-12]") {
  const KernelObjectBytes bytes = encode(full_object());
  const std::vector<std::uint8_t> head{'H',  'D',  'L',  'K',  1,    0,    15,   0,     // magic, version, flags
                                       0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13, 0x14,  // program, threads limit
                                       0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34,  // registers, shared memory
                                       0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,  // shortest
                                       0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,  // longest
                                       2,    0,    1,    0,    1,    0,                 // CPC_CGA
                                       4,    0,    2,    0,    1,    0,                 // GPC_CGA
                                       0,    0,    0,    0,    0,    0,                 // uGPU_CGA
                                       0,    8,    0,    4,    3,    0,                 // GPU_CGA
                                       0,    4,    0,    2,    1,    0,                 // fallbacks
                                       0,    2,    2,    0,    1,    0,    0,    0,    0,   0,   0,   0,   0,  0,
                                       0,    0,    0,    0,    0,    0,    0,    0,    's', 'w', 'e', 'e', 'p'};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    INFO("byte " << i);
    CHECK(unsigned{bytes[i]} == (i < head.size() ? head[i] : 0U));
  }
  KernelObject back;
  REQUIRE(decode(bytes, back).ok());
  CHECK(back.cluster.of(CgaLevel::gpu) == Dim3{0x800, 0x400, 3});
  CHECK(back.cluster.of(CgaLevel::ugpu) == kNoExtents);
  CHECK(back.cluster.sizes() == 3);
  CHECK(back.cooperative);
  CHECK(back.name == "sweep");
  CHECK(encode(back) == bytes);
}

TEST_CASE("any kernel object is what its layout says, or none", "[packet][PKT-12]") {
  HEDDLE_RANDOM(dice);
  oracle::Rng rng(dice.next());
  int good = 0;
  for (int round = 0; round < 60'000; ++round) {
    KernelObjectBytes bytes = oracle::random_object(rng, 20);
    const int damaged = static_cast<int>(rng.below(3));
    for (int i = 0; i < damaged; ++i) oracle::damage(rng, bytes);
    oracle::Object expected;
    const bool right = oracle::read(bytes, expected).none();
    KernelObject object;
    const HsaResult verdict = decode(bytes, object);
    if (damaged == 0 && !right) FAIL("the maker of objects made a bad one in round " << round);
    if (verdict.ok() != right) FAIL("verdict in round " << round << ": " << reason_text(verdict.reason));
    if (!right && verdict.status != HsaStatus::invalid_code_object) FAIL("status in round " << round);
    if (!right) continue;
    ++good;
    if (encode(object) != bytes) FAIL("bytes in round " << round);
    if (object.name != expected.name || object.program != expected.program) FAIL("fields in round " << round);
    if (object.code.address != expected.code || object.code.bytes != expected.code_bytes) FAIL("code in " << round);
    if (static_cast<std::uint64_t>(object.raster.kind) != expected.order) FAIL("order in round " << round);
    if (expected.order == 1 && (object.raster.tile_x != expected.tile[0] || object.raster.tile_y != expected.tile[1])) {
      FAIL("tile in round " << round);
    }
  }
  CHECK(good > 20'000);
  CHECK(good < 59'000);
}

TEST_CASE("what is wrong with a kernel object by itself", "[packet][PKT-12][PKT-09]") {
  REQUIRE(status_of(plain()) == HsaStatus::success);
  const auto bad = HsaStatus::invalid_code_object;
  for (std::size_t bit = 0; bit < 48; ++bit) {  // magic and version
    KernelObjectBytes bytes = plain();
    bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] ^ 1U << bit % 8);
    CHECK(status_of(bytes) == bad);
  }
  const auto with = [](std::size_t at, std::size_t count, std::uint64_t value) {
    KernelObjectBytes bytes = plain();
    oracle::set_number(bytes, at, count, value);
    return status_of(bytes);
  };
  CHECK(with(6, 2, 1) == HsaStatus::success);
  for (std::size_t bit = 1; bit < 16; ++bit) {  // clusters of which none is there; bit 3: a cooperative grid
    CHECK(with(6, 2, 1U << bit) == (bit == 3 ? HsaStatus::success : bad));
  }
  // Order, tile, 0: a tile belongs to tiles alone.
  for (std::size_t bit = 0; bit < 32; ++bit) CHECK(with(88, 4, 1U << bit) == (bit == 1 ? HsaStatus::success : bad));
  CHECK(with(88, 4, 0x0004'0301) == HsaStatus::success);
  CHECK(with(88, 4, 0x0000'0301) == bad);
  CHECK(with(88, 4, 0x0004'0001) == bad);
  CHECK(with(88, 4, 0x0004'0302) == bad);
  CHECK(with(88, 1, 3) == bad);
  // Without a program: 1 <= shortest <= longest <= 2^48 cycles.
  CHECK(with(24, 8, 0) == bad);
  CHECK(with(24, 8, 2) == bad);
  CHECK(with(32, 8, 0) == bad);
  CHECK(with(32, 8, kMaxCtaCycles) == HsaStatus::success);
  CHECK(with(32, 8, kMaxCtaCycles + 1) == bad);
  KernelObject timeless;
  timeless.program = 1;
  timeless.duration = {9, 0};
  CHECK(status_of(encode(timeless)) == HsaStatus::success);
  // The name ends, and nothing follows it.
  KernelObjectBytes bytes = plain();
  for (std::size_t i = 92; i < 127; ++i) bytes[i] = 'x';
  CHECK(status_of(bytes) == HsaStatus::success);
  bytes[127] = 'x';
  CHECK(status_of(bytes) == bad);
  bytes = plain();
  bytes[92 + 6] = 'x';  // behind "plain"
  CHECK(status_of(bytes) == bad);
}

TEST_CASE("a kernel object names code in memory in place of a number", "[packet][PKT-12][HST-07]") {
  KernelObject object;
  object.program = 77;  // what a machine made of it: not in the bytes
  object.code = {0x1234'5600, 0x1'0203};
  object.name = "brought";
  const KernelObjectBytes bytes = encode(object);
  const std::vector<std::uint8_t> place{0x00, 0x56, 0x34, 0x12, 0, 0, 0, 0, 0x03, 0x02, 0x01, 0, 0, 0, 0, 0};
  CHECK(std::equal(place.begin(), place.end(), bytes.begin() + 24));
  CHECK(unsigned{bytes[6]} == 17);  // and load balancing
  CHECK(oracle::number(bytes, 8, 4) == 0);
  KernelObject back;
  REQUIRE(decode(bytes, back).ok());
  CHECK(back.program == kNoCode);
  CHECK(back.code.address == object.code.address);
  CHECK(back.code.bytes == object.code.bytes);

  const auto with = [&](std::size_t at, std::size_t count, std::uint64_t value) {
    KernelObjectBytes changed = bytes;
    oracle::set_number(changed, at, count, value);
    KernelObject read;
    const HsaResult result = decode(changed, read);
    if (!result.ok()) CHECK(result.status == HsaStatus::invalid_code_object);
    return result.reason;
  };
  CHECK(with(8, 4, 1) == Reason::object_program);
  CHECK(with(24, 8, 0) == Reason::object_code);
  CHECK(with(24, 8, 64) == Reason::object_code);
  CHECK(with(24, 8, 128) == Reason::none);
  CHECK(with(24, 8, std::uint64_t{1} << 63) == Reason::object_code);
  CHECK(with(24, 8, (std::uint64_t{1} << 63) - 128) == Reason::object_code);
  CHECK(with(32, 4, 0) == Reason::object_code);
  CHECK(with(32, 4, kMostCodeBytes) == Reason::none);
  CHECK(with(32, 4, kMostCodeBytes + 1) == Reason::object_code);
  CHECK(with(36, 4, 1) == Reason::object_reserved);
  CHECK(with(6, 2, 49) == Reason::object_flags);
  CHECK(with(6, 2, 1) == Reason::object_duration);
}

TEST_CASE("clusters of a kernel object make sense by themselves", "[packet][PKT-12]") {
  using Change = std::function<void(ClusterShape&)>;
  const auto status = [](const Change& change) {
    KernelObject object;
    object.cluster.of(CgaLevel::gpc) = {4, 2, 1};
    change(object.cluster);
    return status_of(encode(object));
  };
  const auto good = HsaStatus::success;
  const auto bad = HsaStatus::invalid_code_object;
  CHECK(status([](ClusterShape&) {}) == good);
  CHECK(status([](ClusterShape& c) { c.linear_memory = true; }) == good);
  CHECK(status([](ClusterShape& c) { c.of(CgaLevel::gpc) = {4, 0, 1}; }) == bad);
  CHECK(status([](ClusterShape& c) { c.of(CgaLevel::cpc) = {2, 2, 1}; }) == good);
  CHECK(status([](ClusterShape& c) { c.of(CgaLevel::cpc) = {3, 2, 1}; }) == bad);
  CHECK(status([](ClusterShape& c) { c.of(CgaLevel::cpc) = {0, 0, 1}; }) == bad);
  CHECK(status([](ClusterShape& c) {
          c.of(CgaLevel::cpc) = {2, 2, 1};
          c.of(CgaLevel::gpc) = kNoExtents;
        }) == bad);
  CHECK(status([](ClusterShape& c) { c.of(CgaLevel::ugpu) = {8, 2, 65'535}; }) == good);
  CHECK(status([](ClusterShape& c) { c.fallback[0] = {2, 2, 1}; }) == good);
  CHECK(status([](ClusterShape& c) { c.fallback[1] = {2, 2, 1}; }) == bad);
  CHECK(status([](ClusterShape& c) { c.fallback[0] = {4, 2, 1}; }) == bad);
  CHECK(status([](ClusterShape& c) { c.fallback[0] = {3, 2, 1}; }) == bad);
  CHECK(status([](ClusterShape& c) {
          c.of(CgaLevel::gpc) = kNoExtents;
          c.fallback[0] = {2, 2, 1};
        }) == bad);
}

TEST_CASE("objects that cannot be written are refused", "[packet][PKT-12]") {
  KernelObject object;
  object.name = std::string(35, 'n');
  CHECK_NOTHROW(encode(object));
  object.name += 'n';
  CHECK_THROWS_AS(encode(object), CheckFailed);
  object.name = std::string("a\0b", 3);
  CHECK_THROWS_AS(encode(object), CheckFailed);
  object.name = "";
  object.cluster.of(CgaLevel::gpu) = {65'535, 1, 1};
  CHECK_NOTHROW(encode(object));
  object.cluster.of(CgaLevel::gpu) = {65'536, 1, 1};
  CHECK_THROWS_AS(encode(object), CheckFailed);
  object.cluster.of(CgaLevel::gpu) = {4, 1, 1};
  object.cluster.fallback[3] = {1, 1, 65'536};
  CHECK_THROWS_AS(encode(object), CheckFailed);
}

TEST_CASE("a dispatch and its object make one kernel", "[packet][PKT-12][PKT-03]") {
  KernelObject object = full_object();
  object.static_shared = 1000;
  DispatchFields fields = dispatch({32, 4, 2}, {64, 16, 2});
  fields.group_segment = 1234;  // all of it
  fields.private_segment = 56;
  KernelShape shape = shape_of(fields, object, 7);
  CHECK(shape.grid == Dim3{2, 4, 1});
  CHECK(shape.block == Dim3{32, 4, 2});
  CHECK(shape.registers_per_thread == object.registers_per_thread);
  CHECK(shape.shared_bytes == 1234);
  CHECK(shape.local_bytes == 56);
  CHECK(shape.subcontext == 7);
  CHECK(shape.code == object.program);
  CHECK(shape.cluster.of(CgaLevel::gpc) == Dim3{4, 2, 1});
  CHECK(shape.cluster.linear_memory);
  CHECK(shape.duration.max == 1);  // that of the object is of one without a program
  object.program = 0;
  object.duration = {5, 9};
  shape = shape_of(fields, object, 7);
  CHECK(shape.code == 0);
  CHECK(shape.duration.min == 5);
  CHECK(shape.duration.max == 9);
  object.static_shared = 1234;
  CHECK(shape_of(fields, object, 0).shared_bytes == 1234);
  object.static_shared = 1235;
  CHECK_THROWS_AS(shape_of(fields, object, 0), CheckFailed);
}

TEST_CASE("workgroups at the edge of a grid can be partial", "[packet][PKT-03]") {
  const auto grid = [](const DispatchFields& fields) { return shape_of(fields, KernelObject{}, 0).grid; };
  const auto items = [](const DispatchFields& fields) { return items_of(fields); };
  CHECK_FALSE(items(dispatch({32, 4, 2}, {64, 16, 2})).any());
  const std::vector<std::array<std::uint32_t, 3>> edges{{65, 16, 2}, {64, 17, 2}, {64, 16, 3}, {95, 19, 3}};
  const std::vector<Dim3> grids{{3, 4, 1}, {2, 5, 1}, {2, 4, 2}, {3, 5, 2}};
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const DispatchFields fields = dispatch({32, 4, 2}, edges[i]);
    CHECK(grid(fields) == grids[i]);
    CHECK(items(fields).any());
    CHECK(items(fields).items == Dim3{edges[i][0], edges[i][1], edges[i][2]});
  }
  CHECK(grid(dispatch({2, 1, 1}, {0xFFFF'FFFF, 1, 1})) == Dim3{0x8000'0000, 1, 1});
  CHECK(grid(dispatch({1, 1, 1}, {0xFFFF'FFFF, 1, 1})) == Dim3{0xFFFF'FFFF, 1, 1});
}

}  // namespace arch_kernel_object_test
