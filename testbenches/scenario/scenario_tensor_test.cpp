// Tensors of scenarios: what their descriptors say, where they lie, and what is refused.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/tensor_descriptor.h"
#include "common/error.h"
#include "scenario/memory_region.h"
#include "scenario/scenario.h"
#include "support/random.h"

namespace scenario_tensor_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::program;
using namespace heddle::scenario;
using arch::Interleave;
using arch::Swizzle;
using arch::TensorDescriptor;
using arch::TensorMode;
using arch::TensorRule;
using arch::TensorType;
using Catch::Contains;

namespace {

constexpr std::uint64_t kRegion = 1U << 20;  // where x lies

// Lines 3 on: regions and tensors.
Scenario scenario(const std::string& lists) {
  return parse_scenario("heddle: 1\nsubmit: [{fill: 1, for: 0, stream: s}]\n" + lists, "t.yaml");
}
// The entry stands in line 5.
Scenario with_tensor(const std::string& entry) {
  return scenario("memory: [{name: x, bytes: 16 MiB}, {name: small, bytes: 64 KiB}]\ntensors:\n  - {" + entry + "}\n");
}
std::string error(const std::string& entry) {
  try {
    with_tensor(entry);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TensorDescriptor stored(const MemoryRegion& region) {
  const std::vector<std::uint8_t> bytes = initial_bytes(region);
  REQUIRE(bytes.size() == arch::kDescriptorBytes);
  TensorDescriptor tensor;
  REQUIRE(arch::decode(bytes.data(), tensor) == TensorRule::none);
  return tensor;
}
TensorDescriptor tensor(const std::string& entry) { return stored(with_tensor(entry).workloads[0].memory.back()); }

// Of a tensor of bytes that is right but for one thing.
std::string bytes_of_x(const std::string& more) { return "name: t, memory: x, type: u8, " + more; }

}  // namespace

TEST_CASE("a tensor becomes a region that holds its descriptor", "[workload][TMA-05]") {
  const Scenario s = scenario(
      "gpus: [small, small]\n"
      "memory: [{name: a, bytes: 100}, {name: b, bytes: 1 MiB, gpu: 1}, {name: high, bytes: 64, at: 0x100080}]\n"
      "tensors:\n"
      "  - {name: t, memory: a, type: u8, size: 64, box: 64}\n"
      "  - {name: u, memory: b, type: u8, size: 64, box: 64}\n"
      "  - {name: v, memory: a, offset: 32, type: u8, size: 64, box: 16}\n");
  const std::vector<MemoryRegion>& first = s.workloads[0].memory;
  REQUIRE(first.size() == 4);
  CHECK(first[2].name == "t");
  CHECK(first[2].bytes == 128);
  CHECK(first[2].address == kRegion + 0x100);  // behind a, past a region with an address of its own
  CHECK(first[3].address == kRegion + 0x180);
  CHECK(stored(first[2]).address == first[0].address);
  CHECK(stored(first[3]).address == first[0].address + 32);
  const std::vector<MemoryRegion>& second = s.workloads[1].memory;
  REQUIRE(second.size() == 2);
  CHECK(second[1].name == "u");
  CHECK(second[1].address == kRegion + (1U << 20));
  CHECK(stored(second[1]).address == second[0].address);
  // In portions too.
  const std::vector<std::uint8_t> whole = initial_bytes(first[3]);
  const std::vector<std::uint8_t> part = initial_bytes(first[3], 8, 16);
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 8));
}

TEST_CASE("the keys of a tensor stand in its descriptor", "[workload][TMA-05]") {
  TensorDescriptor d = tensor(
      "name: t, memory: x, offset: 1 KiB, type: bf16, size: [100, 50, 7], stride: [256, 12800], box: [64, 16, 2], "
      "traversal: [1, 3, 8], swizzle: 128, fill: nan");
  CHECK(d.type == TensorType::bf16);
  CHECK(d.mode == TensorMode::tile);
  CHECK(d.rank == 3);
  CHECK(d.interleave == Interleave::none);
  CHECK(d.swizzle == Swizzle::bytes128);
  CHECK(d.fill == arch::Fill::nan);
  CHECK(d.address == kRegion + 1024);
  CHECK(d.size == std::array<std::uint64_t, 5>{100, 50, 7, 1, 1});
  CHECK(d.stride == std::array<std::uint64_t, 5>{0, 256, 12800, 0, 0});
  CHECK(d.box == std::array<std::uint32_t, 5>{64, 16, 2, 1, 1});
  CHECK(d.traversal == std::array<std::uint32_t, 5>{1, 3, 8, 1, 1});

  d = tensor(
      "name: t, memory: x, type: f16, size: [64, 9, 14, 64], swizzle: 32, "
      "im2col: {base_corner: [-1, -2], far_corner: [3, 127], channels: 16, pixels: 1024}, traversal: [1, 2, 4, 1]");
  CHECK(d.mode == TensorMode::im2col);
  CHECK(d.fill == arch::Fill::zero);
  CHECK(d.swizzle == Swizzle::bytes32);
  CHECK(d.base_corner == std::array<std::int32_t, 3>{-1, -2, 0});
  CHECK(d.far_corner == std::array<std::int32_t, 3>{3, 127, 0});
  CHECK(d.channels == 16);
  CHECK(d.pixels == 1024);
  CHECK(d.traversal == std::array<std::uint32_t, 5>{1, 2, 4, 1, 1});

  d = tensor(
      "name: t, memory: x, type: u8, size: [3, 8, 8], interleave: 32, swizzle: 32, box: [1, 4, 4], stride: [256, 32, "
      "1024]");
  CHECK(d.interleave == Interleave::bytes32);
  CHECK(d.stride == std::array<std::uint64_t, 5>{256, 32, 1024, 0, 0});
}

TEST_CASE("every type of element has its name", "[workload][TMA-05]") {
  for (std::size_t i = 0; i < arch::kTensorTypes; ++i) {
    const auto type = static_cast<TensorType>(i);
    CAPTURE(arch::type_name(type));
    CHECK(tensor(fmt::format("name: t, memory: x, type: {}, size: 128, box: 128", arch::type_name(type))).type == type);
  }
}

TEST_CASE("without strides there are no gaps", "[workload][TMA-05]") {
  const auto strides = [](const std::string& more) { return tensor("name: t, memory: x, " + more).stride; };
  using Strides = std::array<std::uint64_t, 5>;
  CHECK(strides("type: f32, size: 100, box: 4") == Strides{});
  CHECK(strides("type: u16, size: [8, 3, 5, 7, 2], box: [8, 1, 1, 1, 1]") == Strides{0, 16, 48, 240, 1680});
  // N, C / slice, H, W, slice.
  CHECK(strides("type: u8, interleave: 16, size: [4, 10, 6, 2], box: [1, 1, 1, 1]") == Strides{960, 16, 160, 3840, 0});
  CHECK(strides("type: u8, interleave: 32, swizzle: 32, size: [4, 10, 2], box: [1, 1, 1]") ==
        Strides{320, 32, 1280, 0, 0});
  CHECK(strides("type: u8, interleave: 16, size: [2, 3, 4, 5, 6], box: [1, 1, 1, 1, 1]") ==
        Strides{960, 16, 48, 192, 1920});
}

TEST_CASE("random tensors are stored as they are written", "[workload][TMA-05]") {
  for (const std::uint64_t seed : test::seeds(1000)) {
    CAPTURE(seed);
    test::Random random(seed);
    TensorDescriptor d;
    d.type = static_cast<TensorType>(random.below(13));  // whole bytes
    d.rank = random.between(1, 5);
    d.address = kRegion + 16 * random.below(64);
    const std::uint32_t unit = 16 / arch::bytes_of(d.type);
    std::string size, stride, box, traversal;
    std::uint64_t step = arch::bytes_of(d.type);
    for (std::uint32_t i = 0; i < d.rank; ++i) {
      const char* comma = i == 0 ? "" : ", ";
      d.size[i] = random.between(1, 12);
      d.box[i] = i == 0 ? unit * random.between(1, 16 / arch::bytes_of(d.type)) : random.between(1, 256);
      d.traversal[i] = random.between(1, 8);
      if (i > 0) {
        step = (step * d.size[i - 1] + 15) / 16 * 16 + 16 * random.below(3);
        d.stride[i] = step;
        stride += fmt::format("{}{}", i == 1 ? "" : ", ", step);
      }
      size += fmt::format("{}{}", comma, d.size[i]);
      box += fmt::format("{}{}", comma, d.box[i]);
      traversal += fmt::format("{}{}", comma, d.traversal[i]);
    }
    const TensorDescriptor read = tensor(
        fmt::format("name: t, memory: x, offset: {}, type: {}, size: [{}], stride: [{}], box: [{}], traversal: [{}]",
                    d.address - kRegion, arch::type_name(d.type), size, stride, box, traversal));
    REQUIRE(read == d);
  }
}

TEST_CASE("mistakes in tensors", "[workload][scenario]") {
  const std::string good = "size: [64, 4], box: [64, 2]";
  CHECK(error(bytes_of_x(good)) == "accepted");
  CHECK_THAT(error("memory: x, type: u8, " + good), Contains("t.yaml:5:") && Contains("the key \"name\" is missing"));
  CHECK_THAT(error("name: t, memory: y, type: u8, " + good),
             Contains("t.yaml:5:23: tensor t: there is no memory y") && Contains("known: x, small"));
  CHECK_THAT(error("name: t, memory: t, type: u8, " + good), Contains("there is no memory t"));
  CHECK_THAT(error("name: x, memory: x, type: u8, " + good), Contains("there are two regions or tensors x"));
  CHECK_THAT(error("name: lane, memory: x, type: u8, " + good), Contains("\"lane\" cannot be used in expressions"));
  CHECK_THAT(error("name: t, memory: x, type: f8, " + good),
             Contains("tensor t, type: f8 is not possible here") && Contains("u8"));
  CHECK_THAT(error(bytes_of_x("size: [64, 4]")),
             Contains("tensor t: neither `box` nor `im2col`") && Contains("as in: box: [64, 128]"));
  CHECK_THAT(error(bytes_of_x("size: [64, 4], box: 64")),
             Contains("tensor t, box: 2 numbers are expected, found 1") && Contains("elements per dimension"));
  CHECK_THAT(error(bytes_of_x("size: 64, box: [16, 2]")), Contains("box: 1 number is expected, found 2"));
  CHECK_THAT(error(bytes_of_x("size: [64, 4], box: [64, 2], stride: [64, 256]")),
             Contains("stride: 1 number is expected, found 2"));
  CHECK_THAT(error(bytes_of_x("size: [4, 4, 4], interleave: 16, box: [1, 1, 1], stride: [16, 64]")),
             Contains("stride: 3 numbers are expected, found 2"));
  CHECK_THAT(error(bytes_of_x(good + ", traversal: 2")), Contains("traversal: 2 numbers are expected, found 1"));
  CHECK_THAT(error(bytes_of_x(good + ", swizzle: 16")), Contains("swizzle: 16 is not possible here"));
  CHECK_THAT(error(bytes_of_x(good + ", interleave: 64")), Contains("interleave: 64 is not possible here"));
  CHECK_THAT(error(bytes_of_x(good + ", fill: one")), Contains("fill: one is not possible here"));
  CHECK_THAT(error(bytes_of_x(good + ", offset: 16 MiB")), Contains("offset: 16 MiB is out of range"));
  CHECK_THAT(error(bytes_of_x("size: [64, -1], box: [64, 2]")), Contains("size: -1 is negative"));
  CHECK_THAT(error(bytes_of_x("size: [64, x], box: [64, 2]")), Contains("t.yaml:5:") && Contains("size"));
  CHECK_THAT(error(bytes_of_x("size: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], box: 1")), Contains("more than 15 numbers"));
  CHECK_THAT(error(bytes_of_x(good + ", swizle: 32")),
             Contains("unknown key \"swizle\"") && Contains("did you mean swizzle,"));

  const std::string im2col =
      "size: [64, 9, 14, 4], im2col: {base_corner: [0, 0], far_corner: [0, 0], channels: 16, pixels: 9}";
  CHECK(error(bytes_of_x(im2col)) == "accepted");
  CHECK_THAT(error(bytes_of_x(im2col + ", box: [1, 1, 1, 1]")), Contains("tensor t, box: im2col has"));
  CHECK_THAT(
      error(bytes_of_x("size: [64, 9, 4], im2col: {base_corner: [0, 0], far_corner: 0, channels: 1, pixels: 9}")),
      Contains("tensor t, im2col, base_corner: 1 number is expected, found 2"));
  CHECK_THAT(error(bytes_of_x("size: [64, 9, 4], im2col: {base_corner: 0, far_corner: 0, channels: 16}")),
             Contains("tensor t, im2col: the key \"pixels\" is missing"));
}

TEST_CASE("a tensor may reach beyond its region: what counts is what requests touch", "[workload][scenario]") {
  const auto small = [](const std::string& more) { return error("name: t, memory: small, type: f32, " + more); };
  CHECK(small("size: [128, 128], box: [32, 2]") == "accepted");
  CHECK(small("size: [128, 1000000], box: [32, 2]") == "accepted");
  CHECK(small("size: [128, 2], stride: 0, box: [32, 2]") == "accepted");
}

TEST_CASE("a rule that a tensor breaks is named, unless it is to be broken", "[workload][TMA-05]") {
  const struct {
    TensorRule rule;
    const char* entry;
    const char* where;  // the key in front of what is to blame
  } cases[] = {
      {TensorRule::rank, "type: u8, size: [], box: []", "size: "},
      {TensorRule::rank, "type: u8, size: [16, 1, 1, 1, 1, 1], box: [16, 1, 1, 1, 1, 1]", "size: "},
      {TensorRule::rank_layout, "type: u8, size: [4, 4], interleave: 16, box: [1, 1]", "size: "},
      {TensorRule::rank_layout,
       "type: u8, size: [16, 4], im2col: {base_corner: 0, far_corner: 0, channels: 16, pixels: 1}", "size: "},
      {TensorRule::address, "type: u8, size: 16, box: 16, offset: 8", "offset: "},
      {TensorRule::extent, "type: u8, size: [16, 0], box: [16, 1]", "size: "},
      {TensorRule::extent, "type: u8, size: 4294967297, box: 16", "size: "},
      {TensorRule::stride_alignment, "type: u8, size: [17, 2], box: [16, 1]", "{name"},
      {TensorRule::stride_alignment, "type: u8, size: [16, 2], stride: 24, box: [16, 1]", "stride: "},
      {TensorRule::stride_range, "type: u8, size: [16, 1], stride: 1099511627776, box: [16, 1]", "stride: "},
      {TensorRule::packed, "type: u6x16_padded, size: 64, box: 128", "type: "},
      {TensorRule::wide,
       "type: u8, size: [64, 4, 4], swizzle: 32, im2col: {base_corner: 0, far_corner: 0, channels: 16, pixels: 1, "
       "along_w: pixels}",
       "swizzle: "},
      {TensorRule::box, "type: u8, size: [16, 2], box: [16, 257]", "box: "},
      {TensorRule::box, "type: u8, size: [16, 2], box: [16, 0]", "box: "},
      {TensorRule::inner_bytes, "type: f32, size: 64, box: 6", "box: "},
      {TensorRule::inner_swizzle, "type: f32, size: 64, box: 32, swizzle: 64", "swizzle: "},
      {TensorRule::traversal, "type: f32, size: [64, 2], box: [32, 1], traversal: [1, 9]", "traversal: "},
      {TensorRule::nan_fill, "type: s32, size: 64, box: 32, fill: nan", "fill: "},
      {TensorRule::interleave_swizzle, "type: u8, size: [1, 1, 1], interleave: 32, box: [1, 1, 1]", "interleave: "},
      {TensorRule::corner,
       "type: u8, size: [16, 4, 4, 4], im2col: {base_corner: [-129, 0], far_corner: [0, 0], channels: 16, pixels: 1}",
       "im2col: "},
  };
  for (const auto& one : cases) {
    CAPTURE(one.entry);
    const std::string entry = fmt::format("name: t, memory: x, {}", one.entry);
    const std::string message = error(entry);
    CHECK_THAT(message, Contains(fmt::format("(rule {})", rule_key(one.rule))));
    CHECK_THAT(message, Contains("`broken: true` lets it pass"));
    CHECK_THAT(message, Contains(rule_text(one.rule)));
    // The column of the value that is to blame.
    const std::string line = "  - {" + entry;
    const std::string key = one.where;
    const std::size_t column = key == "{name" ? line.find('{') + 1 : line.find(key) + key.size() + 1;
    CHECK_THAT(message, Contains(fmt::format("t.yaml:5:{}: tensor t: ", column)));
    // The machine will find it in the bytes.
    const Scenario broken = with_tensor(entry + ", broken: true");
    CHECK(arch::check(stored(broken.workloads[0].memory.back())) == one.rule);
  }
}

TEST_CASE("what is called broken breaks a rule, in the bytes as well", "[workload][scenario]") {
  CHECK_THAT(error(bytes_of_x("size: 64, box: 64, broken: true")),
             Contains("tensor t, broken: it breaks no rule") && Contains("leave it out"));
  CHECK(error(bytes_of_x("size: 64, box: 64, broken: false")) == "accepted");
  CHECK_THAT(error(bytes_of_x("size: 64, box: 65552, broken: true")),
             Contains("the rule box cannot be broken so") && Contains("just out of range"));
}

}  // namespace scenario_tensor_test
