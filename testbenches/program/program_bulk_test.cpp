// Steps that ask the tensor memory access unit: what they become, and what is said of those that are wrong.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/error.h"
#include "program/program_machine.h"

namespace program_bulk_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::program;
using namespace heddle::scenario;
using arch::AtomicKind;
using arch::BulkKind;
using arch::BulkRequest;
using arch::OpCode;
using arch::TensorRule;
using Catch::Contains;
using test::ProgramMachine;

namespace {

// Tensors of 2 and of 4 dimensions, and two for im2col. The region `out` lies first.
const std::string kLists =
    "[{name: out, bytes: 64 KiB}, {name: in, bytes: 64 KiB, init: {pattern: i, type: u32}}]\n"
    "tensors:\n"
    "- {name: flat, memory: in, type: u32, size: [128, 128], box: [32, 8]}\n"
    "- {name: deep, memory: in, type: f16, size: [64, 4, 4, 4], box: [64, 2, 2, 1]}\n"
    "- {name: image, memory: in, type: f16, size: [64, 4, 4, 4], im2col: {base_corner: [0, 0], far_corner: [0, 0], "
    "channels: 64, pixels: 8}}\n"
    "- {name: rows, memory: in, type: u8, size: [64, 16, 4], swizzle: 128, im2col: {base_corner: 0, far_corner: 0, "
    "channels: 64, pixels: 8, along_w: pixels}}\n"
    "- {name: torn, memory: in, type: u8, size: [16, 0], box: [16, 1], broken: true}";

// What the first warp of a CTA issues, with the demand of each operation.
struct Issued {
  arch::Operation operation;
  arch::OperationNeeds demand;
  std::string name;
};
std::vector<Issued> issued(const std::string& steps, arch::LaneMask lanes = 1) {
  const ProgramMachine machine("  grid: 1\n  block: 32\n  program:\n" + steps, kLists);
  const arch::WarpProgram& program = *machine.kernel().program;
  arch::WarpPlace place;
  place.block = {32, 1, 1};
  place.lanes = lanes;
  place.rank = 3;
  place.cluster_size = 8;
  place.cta_x = 5;
  arch::WarpState state;
  program.start(place, state);
  std::vector<Issued> result;
  while (!state.exited) {
    Issued one;
    one.demand = program.demand(state);
    one.name = program.describe(state);
    program.issue(place, state, one.operation);
    REQUIRE(one.operation.code == one.demand.code);
    REQUIRE(one.operation.unit == one.demand.unit);
    result.push_back(one);
  }
  return result;
}
Issued first(const std::string& step, arch::LaneMask lanes = 1) { return issued("  - " + step + "\n", lanes).front(); }
BulkRequest request(const std::string& step) {
  const Issued one = first(step);
  REQUIRE(one.operation.bulk.size() == 1);
  CHECK(one.operation.unit == arch::Unit::memory);
  return one.operation.bulk.front();
}

constexpr std::uint64_t kOut = 1U << 20;
constexpr std::uint64_t kIn = kOut + (64U << 10);
constexpr std::uint64_t kFlat = kIn + (64U << 10);

bool has(const std::vector<arch::RegisterRange>& ranges, std::uint16_t reg) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const arch::RegisterRange& r) { return r.first <= reg && reg < r.first + r.count; });
}

std::string error(const std::string& step) {
  try {
    issued("  - " + step + "\n");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("requests for tensors", "[workload][SM-02][TMA-01][TMA-05]") {
  BulkRequest load = request("tensor_load: {tensor: flat, at: [32 * cta.x, -8], to: 4096, barrier: 8 * rank}");
  CHECK(load.kind == BulkKind::load);
  CHECK(load.tensor);
  CHECK(load.descriptor == kFlat);
  CHECK(load.coordinates == std::array<std::int32_t, 5>{160, -8, 0, 0, 0});
  CHECK(load.shared == 4096);
  CHECK(load.barrier == 24);
  CHECK(load.offsets == 0);
  CHECK(load.multicast == 0);
  CHECK(load.data_cta == std::nullopt);
  CHECK(load.barrier_cta == std::nullopt);

  load = request(
      "tensor_load: {tensor: image, at: [1, 2, 3, 4], offsets: [rank, 255], to: 0, barrier: 0, multicast: 1 << 15 | "
      "3}");
  CHECK(load.descriptor == kFlat + 256);
  CHECK(load.coordinates == std::array<std::int32_t, 5>{1, 2, 3, 4, 0});
  CHECK(load.offsets == 0xFF03);
  CHECK(load.multicast == 0x8003);
  CHECK(load.data_cta == std::nullopt);
  load = request(
      "tensor_load: {tensor: flat + 64, at: [0, 0, 0, 0, 0], offsets: [1, 2, 3], to: 0, barrier: 0, cta: rank + 1}");
  CHECK(load.descriptor == kFlat + 64);
  CHECK(load.offsets == (1 | 2 << 5 | 3 << 10));
  CHECK(load.data_cta == 4);
  CHECK(load.barrier_cta == 4);
  load = request("tensor_load: {tensor: flat, at: [0, 0], to: 0, barrier: 0, cta: 1, barrier_cta: 2}");
  CHECK(load.data_cta == 1);
  CHECK(load.barrier_cta == 2);

  const BulkRequest store = request("tensor_store: {tensor: deep, at: [0, 1, 2, 3], from: 512}");
  CHECK(store.kind == BulkKind::store);
  CHECK(store.tensor);
  CHECK(store.descriptor == kFlat + 128);
  CHECK(store.shared == 512);
  CHECK(store.barrier == std::nullopt);
  const BulkRequest reduce = request("tensor_reduce: {tensor: flat, at: [0, 0], from: 16, op: max}");
  CHECK(reduce.kind == BulkKind::reduce);
  CHECK(reduce.reduction == AtomicKind::max);
  CHECK(reduce.shared == 16);
  const BulkRequest prefetch = request("tensor_prefetch: {tensor: image, at: [0, 0, 0, 0], offsets: [0, 1]}");
  CHECK(prefetch.kind == BulkKind::prefetch);
  CHECK(prefetch.tensor);
  CHECK(prefetch.offsets == 0x100);
}

TEST_CASE("requests for tensors between memories of one kind", "[workload][SM-02][TMA-44]") {
  const BulkRequest copy = request("tensor_copy: {tensor: image, at: [0, 1, 2, 3], offsets: [0, 1], to: out + 16}");
  CHECK(copy.kind == BulkKind::copy);
  CHECK(copy.tensor);
  CHECK(copy.coordinates == std::array<std::int32_t, 5>{0, 1, 2, 3, 0});
  CHECK(copy.offsets == 0x100);
  CHECK(copy.to == kOut + 16);
  CHECK(copy.shared == 0);
  BulkRequest send = request("tensor_send: {tensor: flat, from: 128, to: 256, cta: rank - 3, barrier: 8}");
  CHECK(send.kind == BulkKind::send);
  CHECK(send.tensor);
  CHECK(send.descriptor == kFlat);
  CHECK(send.shared == 128);
  CHECK(send.destination == 256);
  CHECK(send.data_cta == 0);
  CHECK(send.barrier == 8);
  CHECK_FALSE(send.reduces);
  send = request("tensor_send: {tensor: 0 + flat, from: 0, to: 0, op: max}");
  CHECK(send.reduces);
  CHECK(send.reduction == AtomicKind::max);
  CHECK(send.barrier == std::nullopt);
}

TEST_CASE("requests for blocks", "[workload][SM-02][TMA-01]") {
  BulkRequest block = request("bulk_load: {from: in + 256, to: 128, bytes: 48, barrier: 64, multicast: 2}");
  CHECK(block.kind == BulkKind::load);
  CHECK_FALSE(block.tensor);
  CHECK(block.global == kIn + 256);
  CHECK(block.shared == 128);
  CHECK(block.blocks == 3);
  CHECK(block.barrier == 64);
  CHECK(block.multicast == 2);
  block = request("bulk_store: {from: 32, to: out, bytes: 0}");
  CHECK(block.kind == BulkKind::store);
  CHECK(block.global == kOut);
  CHECK(block.shared == 32);
  CHECK(block.blocks == 0);
  block = request("bulk_reduce: {from: 32, to: out, bytes: 16 * rank, op: add, type: bf16}");
  CHECK(block.kind == BulkKind::reduce);
  CHECK(block.reduction == AtomicKind::add);
  CHECK(block.type == arch::ValueType::bf16);
  CHECK(block.blocks == 3);
  CHECK(block.global == kOut);
  block = request("bulk_prefetch: {from: in, bytes: 64 * 1024}");
  CHECK(block.kind == BulkKind::prefetch);
  CHECK(block.global == kIn);
  CHECK(block.blocks == 4096);
  block = request("bulk_copy: {from: in, to: out + 16, bytes: 16}");
  CHECK(block.kind == BulkKind::copy);
  CHECK(block.global == kIn);
  CHECK(block.to == kOut + 16);
  CHECK(block.blocks == 1);
  block = request("bulk_send: {from: 64, to: 128, cta: rank - 3, bytes: 16, barrier: 8}");
  CHECK(block.kind == BulkKind::send);
  CHECK_FALSE(block.reduces);
  CHECK(block.shared == 64);
  CHECK(block.destination == 128);
  CHECK(block.data_cta == 0);
  CHECK(block.barrier_cta == 0);
  CHECK(block.barrier == 8);
  block = request("bulk_send: {from: 64, to: 128, bytes: 16, op: dec, type: u32}");
  CHECK(block.reduces);
  CHECK(block.reduction == AtomicKind::decrement);
  CHECK(block.type == arch::ValueType::u32);
  CHECK(block.data_cta == std::nullopt);
  CHECK(block.barrier == std::nullopt);
}

TEST_CASE("reductions by name", "[workload][TMA-01]") {
  const std::vector<std::pair<std::string, AtomicKind>> names{
      {"add", AtomicKind::add},       {"min", AtomicKind::min},       {"max", AtomicKind::max},
      {"inc", AtomicKind::increment}, {"dec", AtomicKind::decrement}, {"and", AtomicKind::bit_and},
      {"or", AtomicKind::bit_or},     {"xor", AtomicKind::bit_xor}};
  for (const auto& [name, kind] : names) {
    CAPTURE(name);
    CHECK(request("bulk_reduce: {from: 0, to: out, bytes: 16, type: u32, op: " + name + "}").reduction == kind);
    CHECK(request("bulk_send: {from: 0, to: 0, bytes: 16, type: u32, op: " + name + "}").reduction == kind);
    CHECK(request("tensor_reduce: {tensor: flat, at: [0, 0], from: 0, op: " + name + "}").reduction == kind);
  }
}

TEST_CASE("each lane that takes part makes its request", "[workload][SM-02][TMA-01]") {
  const Issued one = first(
      "bulk_load: {from: in + 256 * lane, to: 256 * lane, bytes: 16 * (lane % 3), barrier: 8192, multicast: 1 << (lane "
      "% "
      "16)}",
      0x8000'0A01);
  const std::uint32_t lanes[] = {0, 9, 11, 31};
  REQUIRE(one.operation.bulk.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const BulkRequest& made = one.operation.bulk[i];
    CHECK(made.global == kIn + 256 * lanes[i]);
    CHECK(made.shared == 256 * lanes[i]);
    CHECK(made.blocks == lanes[i] % 3);
    CHECK(made.barrier == 8192);
    CHECK(made.multicast == 1U << lanes[i] % 16);
  }
  // The array is of this operation alone.
  const std::vector<Issued> two = issued(
      "  - bulk_prefetch: {from: in, bytes: 16}\n  - if: {cond: lane > 30, then: [{bulk_prefetch: {from: out, bytes: "
      "32}}]}\n",
      ~arch::LaneMask{0});
  CHECK(two[0].operation.bulk.size() == 32);
  REQUIRE(two[2].operation.bulk.size() == 1);
  CHECK(two[2].operation.bulk[0].global == kOut);
}

TEST_CASE("the registers of a request are read", "[workload][SM-02]") {
  const std::vector<Issued> steps = issued(
      "  - set: {a: 1, type: u32}\n  - set: {b: 1, type: u32}\n  - set: {c: 1, type: u32}\n"
      "  - set: {d: 1, type: u32}\n  - set: {e: 1, type: u32}\n  - set: {f: 1, type: u32}\n"
      "  - tensor_load: {tensor: flat + a, at: [b, c], to: d, barrier: e, cta: f}\n"
      "  - tensor_load: {tensor: image, at: [0, 0, 0, 0], offsets: [a, b], to: 0, barrier: 0, multicast: c}\n"
      "  - bulk_send: {from: a, to: b, bytes: 16 * c, cta: d, barrier: e, barrier_cta: f}\n"
      "  - bulk_copy: {from: a, to: b, bytes: 16}\n"
      "  - tensor_store: {tensor: flat, at: [0, a], from: b}\n"
      "  - fence_tensor: {tensor: c}\n");
  const auto reads = [&](std::size_t step, const std::string& registers) {
    for (std::uint16_t reg = 0; reg < 6; ++reg) {
      CAPTURE(step, reg);
      CHECK(has(steps[step].demand.reads, reg) == (registers[reg] != '-'));
    }
    CHECK(steps[step].demand.writes.empty());
  };
  reads(6, "abcdef");
  reads(7, "abc---");
  reads(8, "abcdef");
  reads(9, "ab----");
  reads(10, "ab----");
  reads(11, "--c---");
}

TEST_CASE("groups, drains and fences", "[workload][SM-02]") {
  CHECK(first("commit_bulk").operation.code == OpCode::bulk_commit);
  CHECK(first("commit_bulk").operation.unit == arch::Unit::none);
  CHECK(first("commit_bulk").name == "commit_bulk (line 15)");
  const arch::Operation wait = first("wait_bulk: 3").operation;
  CHECK(wait.code == OpCode::bulk_wait);
  CHECK(wait.unit == arch::Unit::none);
  CHECK(wait.count == 3);
  CHECK_FALSE(wait.read);
  CHECK(first("wait_bulk: {groups: 2, read: true}").operation.count == 2);
  CHECK(first("wait_bulk: {groups: 2, read: true}").operation.read);
  CHECK_FALSE(first("wait_bulk: {groups: 0}").operation.read);
  // `read` ends with its step.
  CHECK_FALSE(issued("  - wait_bulk: {groups: 2, read: true}\n  - wait_bulk: 0\n")[1].operation.read);
  const Issued drain = first("drain_bulk", 0xF0);
  CHECK(drain.operation.code == OpCode::bulk_drain);
  CHECK(drain.operation.lanes == 0x10);
  const Issued all = first("fence_tensor", 0xF0);
  CHECK(all.operation.code == OpCode::tensor_fence);
  CHECK(all.operation.lanes == 0x10);
  CHECK(all.operation.address[4] == 0);
  CHECK(all.name == "fence_tensor (line 15)");
  CHECK(first("fence_tensor: {}").operation.address[0] == 0);
  const Issued fence = first("fence_tensor: {tensor: deep}");
  CHECK(fence.operation.address[0] == kFlat + 128);
  CHECK(fence.name == "fence_tensor deep (line 15)");
}

TEST_CASE("names of requests in messages", "[workload][SM-02]") {
  CHECK(first("tensor_load: {tensor: flat, at: [0, 0], to: 0, barrier: 0}").name == "tensor_load flat (line 15)");
  CHECK(first("tensor_store: {tensor: 'flat + 0', at: [0, 0], from: 0}").name == "tensor_store (line 15)");
  CHECK(first("tensor_prefetch: {tensor: deep, at: [0, 0, 0, 0]}").name == "tensor_prefetch deep (line 15)");
  CHECK(first("bulk_copy: {from: in, to: out, bytes: 16}").name == "bulk_copy (line 15)");
}

TEST_CASE("numbers that no request can have stay so", "[workload][SM-02]") {
  const std::string wrong =
      GENERATE(std::string("1 / (lane - lane)"), std::string("(lane - lane) / (lane - lane)"),
               std::string("-16 - 16 * lane"), std::string("2 ^ 70"), std::string("-(2 ^ 70) - lane"));
  CAPTURE(wrong);
  const auto with = [&](const std::string& key) {
    std::string step = "bulk_load: {";
    for (const auto& [name, value] : {std::pair("from", "in"), {"to", "0"}, {"bytes", "16"}, {"barrier", "0"}}) {
      if (key != name) step += fmt::format("{}: {}, ", name, value);
    }
    return request(step + key + ": \"" + wrong + "\"}");
  };
  CHECK(with("bytes").blocks == std::uint64_t{1} << 50);
  CHECK(with("from").global == 0xFFFF'FFFF'FFFF'FFF0);
  CHECK(with("to").shared == 0xFFFF'FFF0);
  CHECK(with("barrier").barrier == 0xFFFF'FFF0);
  // Beyond the operand words (TMA-30).
  CHECK(with("cta").data_cta == 0xFFFF'FFFF);
  CHECK(with("cta").barrier_cta == 0xFFFF'FFFF);
  CHECK(with("barrier_cta").barrier_cta == 0xFFFF'FFFF);
  CHECK(with("multicast").multicast == 0xFFFF'FFFF);
  CHECK(request("tensor_prefetch: {tensor: \"" + wrong + "\", at: 0}").descriptor == 0xFFFF'FFFF'FFFF'FFF0);
  CHECK(request("bulk_copy: {from: 0, to: \"" + wrong + "\", bytes: 16}").to == 0xFFFF'FFFF'FFFF'FFF0);
  CHECK(request("bulk_send: {from: 0, to: \"" + wrong + "\", bytes: 16}").destination == 0xFFFF'FFF0);
}

TEST_CASE("numbers that are just out of range", "[workload][SM-02]") {
  const auto block = [&](const std::string& keys) {
    return request("bulk_load: {from: in, to: 0, barrier: 0, " + keys + "}");
  };
  CHECK(block("bytes: 16 * rank + 8 * rank").blocks == std::uint64_t{1} << 50);
  CHECK(block("bytes: 48 * rank").blocks == 9);
  CHECK(block("bytes: 16, multicast: 65535 + 0 * rank").multicast == 0xFFFF);
  CHECK(block("bytes: 16, multicast: 65533 + rank").multicast == 0x1'0000);
  CHECK(block("bytes: 16, cta: 250 + rank").data_cta == 253);
  CHECK(block("bytes: 16, cta: 252 + rank").data_cta == 255);
  const auto position = [&](const std::string& x) {
    return request("tensor_prefetch: {tensor: flat, at: [0, \"" + x + "\"]}").coordinates[1];
  };
  CHECK(position("2 ^ 31 - 1") == 2147483647);
  CHECK(position("2 ^ 31") == 2147483647);
  CHECK(position("-(2 ^ 31)") == -2147483648);
  CHECK(position("-(2 ^ 40)") == -2147483648);
  CHECK(position("-1.5") == -1);
  CHECK(position("1 / (lane - lane)") == 2147483647);
  CHECK(position("(lane - lane) / (lane - lane)") == -2147483648);
  // The instruction has 8 bits for each offset of an image: it never becomes another one.
  const auto offsets = [&](const std::string& w) {
    return request("tensor_prefetch: {tensor: image, at: [0, 0, 0, 0], offsets: [\"" + w + "\", 1]}");
  };
  CHECK(offsets("252 + rank").offsets == 0x1FF);
  CHECK(check_words(offsets("252 + rank")) == TensorRule::none);
  CHECK(check_words(offsets("253 + rank")) == TensorRule::mask_word);
  CHECK(check_words(offsets("2 - rank")) == TensorRule::mask_word);
  // 16 of one of 3 dimensions, 5 of one of 5; along W 5, and 9 of the halo.
  const auto of = [&](const std::string& tensor, const std::string& at, const std::string& list) {
    return check_words(request("tensor_prefetch: {tensor: " + tensor + ", at: " + at + ", offsets: " + list + "}"));
  };
  CHECK(of("flat + 64", "[0, 0, 0]", "[65532 + rank]") == TensorRule::none);
  CHECK(of("flat + 64", "[0, 0, 0]", "[65533 + rank]") == TensorRule::mask_word);
  CHECK(of("flat + 64", "[0, 0, 0, 0, 0]", "[0, 0, 28 + rank]") == TensorRule::none);
  CHECK(of("flat + 64", "[0, 0, 0, 0, 0]", "[0, 0, 29 + rank]") == TensorRule::mask_word);
  CHECK(of("flat + 64", "[0, 0, 0, 0, 0]", "[29 + rank, 0, 0]") == TensorRule::mask_word);
  CHECK(of("rows", "[0, 0, 0]", "[28 + rank, 508 + rank]") == TensorRule::none);
  CHECK(of("rows", "[0, 0, 0]", "[29 + rank, 0]") == TensorRule::mask_word);
  CHECK(of("rows", "[0, 0, 0]", "[0, 509 + rank]") == TensorRule::mask_word);
}

TEST_CASE("each field of a descriptor can be replaced", "[workload][TMA-44]") {
  arch::TensorDescriptor before;
  before.rank = 5;
  before.type = arch::TensorType::f16;
  const auto check = [&](const std::string& field, std::uint64_t value, const arch::TensorDescriptor& after) {
    CAPTURE(field);
    const auto stores =
        issued("  - replace_tensor: {tensor: flat + 64, field: " + field + ", value: " + std::to_string(value) + "}\n");
    const arch::Operation& store = stores.front().operation;
    REQUIRE(store.code == OpCode::store);
    CHECK(store.space == arch::Space::global);
    auto bytes = arch::encode(before);
    const std::uint64_t at = store.address[0] - (kFlat + 64);
    REQUIRE(at + store.width <= bytes.size());
    std::memcpy(bytes.data() + at, store.data[0].data(), store.width);
    CHECK(bytes == arch::encode(after));
  };
  const auto replaced = [&](auto&& change) {
    arch::TensorDescriptor after = before;
    change(after);
    return after;
  };
  using Map = arch::TensorDescriptor;
  check("address", 0x12'3456'7890, replaced([](Map& d) { d.address = 0x12'3456'7890; }));
  check("rank", 3, replaced([](Map& d) { d.rank = 3; }));
  check("type", 8, replaced([](Map& d) { d.type = arch::TensorType::f32; }));
  check("interleave", 2, replaced([](Map& d) { d.interleave = arch::Interleave::bytes32; }));
  check("swizzle", 4, replaced([](Map& d) { d.swizzle = arch::Swizzle::bytes96; }));
  check("fill", 1, replaced([](Map& d) { d.fill = arch::Fill::nan; }));
  for (std::uint32_t i = 0; i < 5; ++i) {
    const std::string dimension = ", dimension: " + std::to_string(i);
    check("size" + dimension, 77'000, replaced([i](Map& d) { d.size[i] = 77'000; }));
    check("stride" + dimension, 0x77'0000'0010, replaced([i](Map& d) { d.stride[i] = 0x77'0000'0010; }));
    check("box" + dimension, 256, replaced([i](Map& d) { d.box[i] = 256; }));
    check("traversal" + dimension, 7, replaced([i](Map& d) { d.traversal[i] = 7; }));
  }
}

TEST_CASE("a program knows which units it needs", "[workload][TMA-46]") {
  const auto needs = [](const std::string& step) {
    const ProgramMachine machine("  grid: 1\n  block: 32\n  program:\n  - " + step + "\n", kLists);
    const arch::TmauNeeds found = machine.kernel().program->tmau_needs();
    return std::array<bool, 3>{found.unit, found.tensors, found.blocks};
  };
  using Needs = std::array<bool, 3>;
  CHECK(needs("proxy_fence") == Needs{false, false, false});
  CHECK(needs("barrier") == Needs{false, false, false});
  CHECK(needs("commit_bulk") == Needs{true, false, false});
  CHECK(needs("wait_bulk: 0") == Needs{true, false, false});
  CHECK(needs("tensor_load: {tensor: flat, at: [0, 0], to: 0, barrier: 0}") == Needs{true, true, false});
  CHECK(needs("tensor_fetch: {tensor: flat}") == Needs{true, true, false});
  CHECK(needs("tensor_send: {tensor: flat, from: 128, to: 256, cta: 0, barrier: 8}") == Needs{true, true, false});
  CHECK(needs("bulk_copy: {from: in, to: out, bytes: 16}") == Needs{true, false, true});
  CHECK(needs("bulk_load: {from: in, to: 0, bytes: 16, barrier: 0}") == Needs{true, false, true});
}

TEST_CASE("mistakes in requests", "[workload][SM-02]") {
  CHECK_THAT(error("tensor_load: {tensor: flat, at: [0, 0], to: 0}"),
             Contains("kernel k, tensor_load: the key \"barrier\" is missing"));
  CHECK_THAT(error("tensor_load: {tensor: flat, at: [0, 0, 0], to: 0, barrier: 0}"),
             Contains("p.yaml:15:37: kernel k, tensor_load, at: the tensor has 2 dimensions, found 3 coordinates") &&
                 Contains("innermost first"));
  CHECK_THAT(error("tensor_load: {tensor: flat, at: [], to: 0, barrier: 0}"), Contains("at: the tensor has 2"));
  CHECK_THAT(error("tensor_prefetch: {tensor: in, at: [0, 0, 0, 0, 0, 0]}"),
             Contains("1 to 5 coordinates are expected, found 6"));
  CHECK_THAT(error("tensor_prefetch: {tensor: flt, at: [0, 0]}"),
             Contains("tensor: expression \"flt\": there is no flt") && Contains("did you mean flat?"));
  CHECK_THAT(error("tensor_prefetch: {tensor: flat, at: [0, y]}"), Contains("at: expression \"y\": there is no y"));
  CHECK_THAT(error("tensor_prefetch: {tensor: deep, at: [0, 0, 0, 0], offsets: [0, 0]}"),
             Contains("tensor_prefetch, offsets: the tensor is not described with `im2col`"));
  CHECK_THAT(error("tensor_prefetch: {tensor: image, at: [0, 0, 0, 0], offsets: [0, 0, 0]}"),
             Contains("offsets: 2 expected beside 4 coordinates, found 3"));
  CHECK_THAT(error("tensor_prefetch: {tensor: 'flat + 0', at: [0, 0], offsets: [0]}"),
             Contains("offsets: 0 expected beside 2 coordinates, found 1"));
  CHECK_THAT(error("tensor_prefetch: {tensor: image, at: [0, 0, 0, 0], offsets: [0, 256]}"),
             Contains("offsets: 256 is not 0 to 255"));
  CHECK_THAT(error("tensor_prefetch: {tensor: image, at: [0, 0, 0, 0], offsets: [-1, 0]}"),
             Contains("offsets: -1 is not 0 to 255"));
  CHECK_THAT(error("tensor_prefetch: {tensor: rows, at: [0, 0, 0], offsets: [32]}"),
             Contains("offsets: 32 is not 0 to 31"));
  CHECK_THAT(error("tensor_prefetch: {tensor: rows, at: [0, 0, 0], offsets: [0, 512]}"),
             Contains("offsets: 512 is not 0 to 511"));
  CHECK(error("tensor_prefetch: {tensor: image, at: [0, 0, 0, 0], offsets: [255, 0]}") == "accepted");
  CHECK(error("tensor_prefetch: {tensor: torn, at: [0, 0]}") == "accepted");

  const std::string load = "bulk_load: {from: in, to: 0, barrier: 0, ";
  CHECK_THAT(error(load + "bytes: 24}"),
             Contains("kernel k, bulk_load, bytes: 24 is not a multiple of 16") && Contains("number of bytes"));
  CHECK_THAT(error(load + "bytes: -16}"), Contains("-16 is not a multiple of 16"));
  CHECK_THAT(error(load + "bytes: 16, multicast: 3, cta: 1}"), Contains("bulk_load, multicast: `cta` stands here too"));
  CHECK_THAT(error(load + "bytes: 16, rank: 1}"), Contains("unknown key \"rank\""));
  CHECK_THAT(error("bulk_store: {from: 0, to: out, bytes: 16, barrier: 0}"), Contains("unknown key \"barrier\""));
  CHECK_THAT(error("bulk_reduce: {from: 0, to: out, bytes: 16, op: add}"), Contains("the key \"type\" is missing"));
  CHECK_THAT(error("bulk_reduce: {from: 0, to: out, bytes: 16, op: sub, type: u32}"),
             Contains("op: sub is not possible here"));
  CHECK_THAT(error("bulk_reduce: {from: 0, to: out, bytes: 16, op: min, type: f32}"),
             Contains("bulk_reduce: there is no min for f32") && Contains("add u32 s32 u64 f16"));
  CHECK_THAT(error("bulk_reduce: {from: 0, to: out, bytes: 16, op: add, type: f16x2}"),
             Contains("type: f16x2 is not possible here"));
  CHECK_THAT(error("tensor_reduce: {tensor: deep, at: [0, 0, 0, 0], from: 0, op: xor}"),
             Contains("tensor_reduce: there is no xor for f16"));
  CHECK(error("tensor_reduce: {tensor: 'deep + 0', at: [0, 0, 0, 0], from: 0, op: xor}") == "accepted");
  CHECK_THAT(error("bulk_send: {from: 0, to: 0, bytes: 16, op: add}"), Contains("op and type stand together"));
  CHECK_THAT(error("bulk_send: {from: 0, to: 0, bytes: 16, type: u32}"), Contains("op and type stand together"));
  CHECK_THAT(error("bulk_send: {from: 0, to: 0, bytes: 16, op: add, type: f32}"),
             Contains("bulk_send: there is no add for f32") && Contains("from shared to shared memory"));
  CHECK_THAT(error("bulk_send: {from: 0, to: 0, bytes: 16, multicast: 1}"), Contains("unknown key \"multicast\""));

  CHECK_THAT(error("wait_bulk: -1"), Contains("wait_bulk: -1 is negative"));
  CHECK_THAT(error("wait_bulk: {read: true}"), Contains("wait_bulk: the key \"groups\" is missing"));
  CHECK_THAT(error("wait_bulk: {groups: lane}"), Contains("wait_bulk, groups"));
  for (const std::string word : {"commit_bulk", "drain_bulk"}) {
    CHECK_THAT(error(word + ": {}"), Contains("the step " + word + " takes no keys"));
  }
  CHECK_THAT(error("bulk_commit"), Contains("there is no step bulk_commit"));
  CHECK_THAT(error("tensor_load"), Contains("there is no step tensor_load"));
  CHECK_THAT(error("matmul: {into: c, n: 8, k: 16, a: 0, b: 0, a_swizzle: 16}"),
             Contains("matmul, a_swizzle: 16 is not possible here") && Contains("did you mean 96?"));
}

}  // namespace program_bulk_test
