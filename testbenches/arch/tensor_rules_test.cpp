// The rules of tensor descriptors against the text of TMA-06.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/random_descriptor.h"
#include "arch/tensor_descriptor.h"
#include "arch/tensor_examples.h"

namespace arch_tensor_rules_test {

using namespace heddle::arch;
using heddle::test::columns;
using heddle::test::draw_tensor;
using heddle::test::image;
using heddle::test::Random;
using heddle::test::sliced;
using heddle::test::text_of;

namespace {

using Change = std::function<void(TensorDescriptor&)>;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TensorRule after(TensorDescriptor d, const Change& change) {
  change(d);
  return check(d);
}

std::string key(TensorRule rule) { return rule_key(rule); }

// What it breaks, each rule for itself, in the words of TMA-05 and TMA-06.
std::set<TensorRule> broken(const TensorDescriptor& d) {
  std::set<TensorRule> result;
  const auto demand = [&](bool holds, TensorRule rule) {
    if (!holds) result.insert(rule);
  };
  if (d.rank == 0 || d.rank > 5) return {TensorRule::rank};
  const bool sliced = d.interleave != Interleave::none;
  const bool im2col = d.mode != TensorMode::tile;
  const bool wide = d.mode == TensorMode::im2col_w || d.mode == TensorMode::im2col_w128;
  const bool padded = d.type == TensorType::u4x16_padded || d.type == TensorType::u6x16_padded;
  demand(d.rank >= 3 || !(sliced || im2col), TensorRule::rank_layout);
  if (!result.empty()) return result;
  const std::uint64_t multiple = d.interleave == Interleave::bytes32 || padded ? 32 : 16;
  static const std::vector<std::uint32_t> kBits{8, 16, 32, 32, 64, 64, 16, 16, 32, 32, 32, 32, 64, 4, 4, 6};
  const std::uint64_t slice = d.interleave == Interleave::bytes32 ? 32 : 16;
  const std::uint64_t bits = sliced ? 8 * slice : kBits[static_cast<std::size_t>(d.type)];
  demand(d.address % multiple == 0, TensorRule::address);
  for (std::uint32_t i = 0; i < d.rank; ++i) {
    demand(d.size[i] >= 1 && d.size[i] <= 4'294'967'296, TensorRule::extent);
    const bool strided = i > 0 || sliced;
    const std::uint64_t stride = d.stride[i];
    demand(!strided || stride % multiple == 0, TensorRule::stride_alignment);
    demand(!strided || stride < 1'099'511'627'776, TensorRule::stride_range);
    demand(im2col || (d.box[i] >= 1 && d.box[i] <= 256), TensorRule::box);
    demand(!strided || (d.traversal[i] >= 1 && d.traversal[i] <= 8), TensorRule::traversal);
  }
  demand(!im2col || (d.channels >= 1 && d.channels <= 256), TensorRule::box);
  const bool all_of_128 = d.mode == TensorMode::im2col_w128;
  demand(!im2col || all_of_128 || (d.pixels >= 1 && d.pixels <= 1024), TensorRule::box);
  const std::uint64_t elements = im2col ? d.channels : d.box[0];
  // In shared memory 16 padded elements have 16 bytes.
  const std::uint64_t inner = padded ? elements : elements * bits / 8;
  demand(sliced || inner % 16 == 0, TensorRule::inner_bytes);
  if (padded) {
    demand(d.size[0] % 128 == 0 && elements == 128 && !sliced, TensorRule::packed);
    demand(d.swizzle == Swizzle::none || d.swizzle == Swizzle::bytes128 || d.swizzle == Swizzle::bytes128_atom32 ||
               d.swizzle == Swizzle::bytes128_atom64,
           TensorRule::packed);
  }
  if (d.type == TensorType::u4x16 && !sliced) demand(d.size[0] % 2 == 0 && elements % 2 == 0, TensorRule::packed);
  if (wide) {
    const bool fits = d.swizzle == Swizzle::bytes64 || d.swizzle == Swizzle::bytes128 ||
                      d.swizzle == Swizzle::bytes128_atom32 || (d.swizzle == Swizzle::bytes96 && !all_of_128);
    demand(!sliced && fits, TensorRule::wide);
  }
  static const std::map<Swizzle, std::uint64_t> kSpans{{Swizzle::none, ~0ULL},
                                                       {Swizzle::bytes32, 32},
                                                       {Swizzle::bytes64, 64},
                                                       {Swizzle::bytes96, 96},
                                                       {Swizzle::bytes128, 128},
                                                       {Swizzle::bytes128_atom32, 128},
                                                       {Swizzle::bytes128_atom32_flip8, 128},
                                                       {Swizzle::bytes128_atom64, 128}};
  demand(inner <= kSpans.at(d.swizzle), TensorRule::inner_swizzle);
  static const std::set<std::string> kFloats{"f16", "bf16", "f32", "f32_flush", "tf32", "tf32_flush", "f64"};
  demand(d.fill == Fill::zero || kFloats.count(type_name(d.type)) == 1, TensorRule::nan_fill);
  demand(d.interleave != Interleave::bytes32 || d.swizzle == Swizzle::bytes32, TensorRule::interleave_swizzle);
  demand(!sliced || d.swizzle != Swizzle::bytes96, TensorRule::interleave_swizzle);
  static const std::map<std::uint32_t, std::int32_t> kCorners{{3, 32'768}, {4, 128}, {5, 16}};
  const std::int32_t limit = wide ? 32'768 : d.rank >= 3 ? kCorners.at(d.rank) : 0;
  for (std::uint32_t i = 0; im2col && i < (wide ? 1 : d.rank - 2); ++i) {
    for (const std::int32_t corner : {d.base_corner[i], d.far_corner[i]}) {
      demand(corner >= -limit && corner < limit, TensorRule::corner);
    }
  }
  return result;
}

// The first in the order of the enumeration.
TensorRule first_broken(const TensorDescriptor& d) {
  const std::set<TensorRule> rules = broken(d);
  return rules.empty() ? TensorRule::none : *rules.begin();
}

// One field, to a value at one of the edges that rules have.
void damage(Random& dice, TensorDescriptor& d) {
  const auto edge = [&dice](const std::vector<std::uint64_t>& edges) {
    return edges[dice.between64(0, edges.size() - 1)] + dice.between64(0, 2) - 1;
  };
  const std::uint32_t i = dice.between(0, kTensorRank - 1);
  const std::uint32_t w = dice.between(0, 2);
  const auto corner = [&] {
    const auto limit = static_cast<std::int32_t>(edge({16, 128, 32'768}));
    return dice.one_in(2) ? limit : -limit;
  };
  switch (dice.between(0, 13)) {
    case 0:
      d.rank = static_cast<std::uint32_t>(edge({1, 3, 5}));
      break;
    case 1:
      d.address = edge({16, 32, 48, 1 << 16}) + 16 * dice.between64(0, 1);
      break;
    case 2:
      d.size[i] = edge({1, 100, kGiB, std::uint64_t{1} << 32});
      break;
    case 3:
      d.stride[i] = dice.one_in(2) ? edge({16, d.stride[i], d.stride[i] / 2, std::uint64_t{1} << 40})
                                   : 16 * dice.between64(0, d.stride[i] / 8);
      break;
    case 4:
      d.box[i] = static_cast<std::uint32_t>(edge({1, 8, 16, 256}));
      break;
    case 5:
      d.channels = static_cast<std::uint32_t>(edge({1, 8, 16, 256}));
      break;
    case 6:
      d.pixels = static_cast<std::uint32_t>(edge({1, 1024}));
      break;
    case 7:
      d.traversal[i] = static_cast<std::uint32_t>(edge({1, 8}));
      break;
    case 8:
      d.fill = Fill::nan;
      break;
    case 9:
      d.interleave = static_cast<Interleave>(dice.between(0, 2));
      break;
    case 10:
      d.swizzle = static_cast<Swizzle>(dice.between(0, kSwizzles - 1));
      break;
    case 11:
      (dice.one_in(2) ? d.base_corner : d.far_corner)[w] = corner();
      break;
    case 12:
      d.mode = static_cast<TensorMode>(dice.between(0, kTensorModes - 1));
      break;
    default:
      d.type = static_cast<TensorType>(dice.between(0, kTensorTypes - 1));
      if (is_padded(d.type) && dice.one_in(2)) {
        d.size[0] = 128 * dice.between(1, 3);
        d.box[0] = d.channels = 128;
        for (std::uint64_t& stride : d.stride) stride *= 2;
      }
      break;
  }
}

// Offsets of all elements of a small tensor.
std::vector<std::uint64_t> element_offsets(const TensorDescriptor& d) {
  std::vector<std::uint64_t> offsets{0};
  for (std::uint32_t i = 0; i < d.rank; ++i) {
    std::vector<std::uint64_t> more;
    for (const std::uint64_t offset : offsets) {
      for (std::uint64_t c = 0; c < d.size[i]; ++c) more.push_back(offset + c * d.step(i));
    }
    offsets = std::move(more);
  }
  return offsets;
}

}  // namespace

TEST_CASE("tensors of every layout break no rule", "[arch][TMA-06]") {
  CHECK(key(check(image())) == "none");
  CHECK(key(check(columns())) == "none");
  CHECK(key(check(sliced(Interleave::bytes16))) == "none");
  CHECK(key(check(sliced(Interleave::bytes32))) == "none");
  TensorDescriptor line;
  line.type = TensorType::u8;
  line.size[0] = 3;
  line.box[0] = 16;
  CHECK(key(check(line)) == "none");
}

TEST_CASE("rules of the tensor: one step beyond breaks them", "[arch][TMA-06]") {
  CHECK(after(image(), [](auto& d) { d.rank = 0; }) == TensorRule::rank);
  CHECK(after(image(), [](auto& d) { d.rank = 1; }) == TensorRule::none);
  CHECK(after(image(), [](auto& d) { d.rank = 5, d.stride[4] = 2 * 14 * 9 * 128; }) == TensorRule::none);
  CHECK(after(image(), [](auto& d) { d.rank = 6; }) == TensorRule::rank);
  CHECK(after(image(), [](auto& d) { d.rank = 2; }) == TensorRule::none);
  CHECK(after(columns(), [](auto& d) { d.rank = 2; }) == TensorRule::rank_layout);
  CHECK(after(columns(), [](auto& d) { d.rank = 3; }) == TensorRule::none);
  CHECK(after(sliced(Interleave::bytes16), [](auto& d) { d.rank = 2; }) == TensorRule::rank_layout);
  CHECK(after(image(), [](auto& d) { d.address = 4096 + 8; }) == TensorRule::address);
  CHECK(after(image(), [](auto& d) { d.address = 4096 + 16; }) == TensorRule::none);
  CHECK(after(sliced(Interleave::bytes16), [](auto& d) { d.address += 16; }) == TensorRule::none);
  CHECK(after(sliced(Interleave::bytes32), [](auto& d) { d.address += 16; }) == TensorRule::address);
  CHECK(after(sliced(Interleave::bytes32), [](auto& d) { d.address += 32; }) == TensorRule::none);
  CHECK(after(image(), [](auto& d) { d.size[2] = 0; }) == TensorRule::extent);
  CHECK(after(image(), [](auto& d) { d.size[0] = 0; }) == TensorRule::extent);
  CHECK(after(image(), [](auto& d) { d.size[4] = 0; }) == TensorRule::none);  // beyond the rank
}

TEST_CASE("an extent may be 2^32, and no more", "[arch][TMA-06]") {
  TensorDescriptor d;
  d.type = TensorType::u64;
  d.rank = 2;
  d.box[0] = 2;
  d.size = {std::uint64_t{1} << 32, 1, 1, 1, 1};
  d.stride[1] = std::uint64_t{1} << 35;
  CHECK(check(d) == TensorRule::none);
  CHECK(d.end() == std::uint64_t{1} << 35);
  ++d.size[0];
  CHECK(check(d) == TensorRule::extent);
  d.size = {2, std::uint64_t{1} << 32, 1, 1, 1};
  d.stride[1] = 16;
  CHECK(check(d) == TensorRule::none);
  ++d.size[1];
  CHECK(check(d) == TensorRule::extent);
}

TEST_CASE("rules of strides: one step beyond breaks them", "[arch][TMA-06]") {
  CHECK(after(image(), [](auto& d) { d.stride[2] += 8; }) == TensorRule::stride_alignment);
  CHECK(after(image(), [](auto& d) { d.stride[3] += 16; }) == TensorRule::none);
  CHECK(after(sliced(Interleave::bytes32), [](auto& d) { d.stride[3] += 16; }) == TensorRule::stride_alignment);
  CHECK(after(sliced(Interleave::bytes16), [](auto& d) { d.stride[3] += 16; }) == TensorRule::none);
  CHECK(after(image(), [](auto& d) { d.stride[0] = 7; }) == TensorRule::none);  // not interleaved: it does not count
  const auto far = [](std::uint64_t stride) { return [stride](auto& d) { d.stride[3] = stride, d.size[3] = 1; }; };
  CHECK(after(image(), far((std::uint64_t{1} << 40) - 16)) == TensorRule::none);
  CHECK(after(image(), far(std::uint64_t{1} << 40)) == TensorRule::stride_range);
  CHECK(after(image(), far(~std::uint64_t{15})) == TensorRule::stride_range);
}

TEST_CASE("strides of 0, overlapping and permuted ones are legal", "[arch][TMA-06]") {
  // Rows that overlap, a dimension that is broadcast, and one of a single element without a stride.
  CHECK(after(image(), [](auto& d) { d.stride[1] = 112; }) == TensorRule::none);
  CHECK(after(image(), [](auto& d) { d.stride[1] = 0; }) == TensorRule::none);
  CHECK(after(image(), [](auto& d) { d.size[3] = 1, d.stride[3] = 0; }) == TensorRule::none);
  // Attention: (head, sequence, heads, batch) over memory in the order (batch, sequence, heads, head).
  TensorDescriptor attention;
  attention.rank = 4;
  attention.size = {128, 512, 16, 2, 1};
  attention.stride = {0, 4096, 256, 2'097'152, 0};
  attention.box = {64, 64, 1, 1, 1};
  CHECK(check(attention) == TensorRule::none);
  CHECK(attention.end() == 511 * 4096 + 15 * 256 + 2'097'152 + 256);
  // A matrix multiply with a batch of one: the stride of the batch is 0.
  TensorDescriptor batch;
  batch.rank = 3;
  batch.size = {4096, 4096, 1, 1, 1};
  batch.stride = {0, 8192, 0, 0, 0};
  batch.box = {64, 128, 1, 1, 1};
  CHECK(check(batch) == TensorRule::none);
  for (const Interleave interleave : {Interleave::bytes16, Interleave::bytes32}) {
    CHECK(after(sliced(interleave), [](auto& t) { t.stride[0] = 0; }) == TensorRule::none);
  }
}

TEST_CASE("the end of a tensor that no address reaches is the greatest number", "[arch][TMA-06]") {
  TensorDescriptor d = image();
  d.size[3] = std::uint64_t{1} << 32;
  d.stride[3] = (std::uint64_t{1} << 40) - 16;
  CHECK(check(d) == TensorRule::none);
  CHECK(d.end() == ~std::uint64_t{0});
}

TEST_CASE("an empty bounding box has no place for a filter", "[arch][TMA-06][TMA-11]") {
  TensorDescriptor d = columns();
  CHECK_FALSE(has_empty_box(d));
  d.base_corner = {2, 0, 0};
  d.far_corner = {3 - static_cast<std::int32_t>(d.size[1]), 0, 0};
  CHECK_FALSE(has_empty_box(d));  // one column
  --d.far_corner[0];
  CHECK(has_empty_box(d));
  d.mode = TensorMode::tile;
  CHECK_FALSE(has_empty_box(d));
  d.mode = TensorMode::im2col;
  d.base_corner = d.far_corner = {};
  d.far_corner[1] = -static_cast<std::int32_t>(d.size[2]);
  CHECK(has_empty_box(d));
  d.mode = TensorMode::im2col_w;  // along W, H has no corners
  CHECK_FALSE(has_empty_box(d));
}

TEST_CASE("rules of boxes: one step beyond breaks them", "[arch][TMA-06]") {
  const Change plain = [](auto& d) { d.swizzle = Swizzle::none; };
  const auto with = [&](TensorDescriptor d, const Change& change) {
    plain(d);
    return after(d, change);
  };
  CHECK(with(image(), [](auto& d) { d.box[1] = 256; }) == TensorRule::none);
  CHECK(with(image(), [](auto& d) { d.box[1] = 257; }) == TensorRule::box);
  CHECK(with(image(), [](auto& d) { d.box[1] = 0; }) == TensorRule::box);
  CHECK(with(image(), [](auto& d) { d.box[0] = 256; }) == TensorRule::none);
  CHECK(with(image(), [](auto& d) { d.box[0] = 272; }) == TensorRule::box);
  CHECK(with(image(), [](auto& d) { d.box[0] = 0; }) == TensorRule::box);
  CHECK(with(image(), [](auto& d) { d.box[4] = 0; }) == TensorRule::none);
  CHECK(with(image(), [](auto& d) { d.channels = 0, d.pixels = 9999; }) == TensorRule::none);  // of im2col alone
  CHECK(with(columns(), [](auto& d) { d.channels = 256; }) == TensorRule::none);
  CHECK(with(columns(), [](auto& d) { d.channels = 264; }) == TensorRule::box);
  CHECK(with(columns(), [](auto& d) { d.channels = 0; }) == TensorRule::box);
  CHECK(with(columns(), [](auto& d) { d.pixels = 1024; }) == TensorRule::none);
  CHECK(with(columns(), [](auto& d) { d.pixels = 1025; }) == TensorRule::box);
  CHECK(with(columns(), [](auto& d) { d.pixels = 0; }) == TensorRule::box);
  CHECK(with(columns(), [](auto& d) { d.box[0] = 0; }) == TensorRule::none);  // of tiles alone
  CHECK(with(image(), [](auto& d) { d.box[0] = 8; }) == TensorRule::none);
  CHECK(with(image(), [](auto& d) { d.box[0] = 12; }) == TensorRule::inner_bytes);
  CHECK(with(columns(), [](auto& d) { d.channels = 4; }) == TensorRule::inner_bytes);
  CHECK(with(sliced(Interleave::bytes16), [](auto& d) { d.box[0] = 3; }) == TensorRule::none);
  CHECK(after(image(), [](auto& d) { d.box[0] = 72; }) == TensorRule::inner_swizzle);
  CHECK(after(columns(), [](auto& d) { d.channels = 72; }) == TensorRule::inner_swizzle);
  CHECK(after(image(), [](auto& d) { d.swizzle = Swizzle::bytes64, d.box[0] = 32; }) == TensorRule::none);
  CHECK(after(image(), [](auto& d) { d.swizzle = Swizzle::bytes64, d.box[0] = 40; }) == TensorRule::inner_swizzle);
  CHECK(after(image(), [](auto& d) { d.swizzle = Swizzle::bytes32, d.box[0] = 16; }) == TensorRule::none);
  CHECK(after(image(), [](auto& d) { d.swizzle = Swizzle::bytes32, d.box[0] = 24; }) == TensorRule::inner_swizzle);
  CHECK(after(sliced(Interleave::bytes16), [](auto& d) { d.box[0] = 2; }) == TensorRule::none);
  CHECK(after(sliced(Interleave::bytes16), [](auto& d) { d.box[0] = 3; }) == TensorRule::inner_swizzle);
  CHECK(after(image(), [](auto& d) { d.traversal[2] = 8; }) == TensorRule::none);
  CHECK(after(image(), [](auto& d) { d.traversal[2] = 9; }) == TensorRule::traversal);
  CHECK(after(image(), [](auto& d) { d.traversal[2] = 0; }) == TensorRule::traversal);
  CHECK(after(image(), [](auto& d) { d.traversal[0] = 0; }) == TensorRule::none);  // side by side: it does not count
  CHECK(after(sliced(Interleave::bytes16), [](auto& d) { d.traversal[0] = 9; }) == TensorRule::traversal);
}

TEST_CASE("rules of fill, interleave and corners: one step beyond breaks them", "[arch][TMA-06][TMA-11]") {
  for (std::size_t i = 0; i < kTensorTypes; ++i) {
    TensorDescriptor d;
    d.type = static_cast<TensorType>(i);
    d.box[0] = 128;
    d.size[0] = 128;
    if (d.type == TensorType::u64 || bytes_of(d.type) == 8) d.box[0] = 16;
    CHECK(check(d) == TensorRule::none);
    d.fill = Fill::nan;
    CHECK(check(d) == (is_float(d.type) ? TensorRule::none : TensorRule::nan_fill));
  }
  CHECK(after(sliced(Interleave::bytes32), [](auto& d) { d.swizzle = Swizzle::none; }) ==
        TensorRule::interleave_swizzle);
  CHECK(after(sliced(Interleave::bytes32), [](auto& d) { d.swizzle = Swizzle::bytes64; }) ==
        TensorRule::interleave_swizzle);
  CHECK(after(sliced(Interleave::bytes16), [](auto& d) { d.swizzle = Swizzle::none; }) == TensorRule::none);
  const std::map<std::uint32_t, std::int32_t> limits{{3, 32'768}, {4, 128}, {5, 16}};
  for (const auto& [rank, limit] : limits) {
    TensorDescriptor d = columns();
    d.rank = rank;
    d.stride[4] = 2 * 14 * 9 * 128;
    CAPTURE(rank);
    for (std::uint32_t i = 0; i < rank - 2; ++i) {
      CHECK(after(d, [=](auto& t) { t.base_corner[i] = -limit; }) == TensorRule::none);
      CHECK(after(d, [=](auto& t) { t.base_corner[i] = -limit - 1; }) == TensorRule::corner);
      CHECK(after(d, [=](auto& t) { t.far_corner[i] = limit - 1; }) == TensorRule::none);
      CHECK(after(d, [=](auto& t) { t.far_corner[i] = limit; }) == TensorRule::corner);
    }
    for (std::uint32_t i = rank - 2; i < 3; ++i) {
      CHECK(after(d, [=](auto& t) { t.far_corner[i] = 1'000'000; }) == TensorRule::none);
    }
    CHECK(after(d, [=](auto& t) { t.mode = TensorMode::tile, t.far_corner[0] = 1'000'000; }) == TensorRule::none);
  }
}

TEST_CASE("the first broken rule of descriptors with one to three errors is the one that is named", "[arch][TMA-06]") {
  HEDDLE_RANDOM(dice);
  std::map<TensorRule, std::uint32_t> seen;
  for (int round = 0; round < 60'000; ++round) {
    TensorDescriptor d = draw_tensor(dice);
    for (std::uint32_t i = dice.between(0, 3); i > 0; --i) damage(dice, d);
    const TensorRule expected = first_broken(d);
    ++seen[expected];
    if (check(d) == expected) continue;
    FAIL(text_of(d) << ": " << key(check(d)) << " instead of " << key(expected));
  }
  for (auto rule = static_cast<std::uint32_t>(TensorRule::rank); rule <= static_cast<std::uint32_t>(TensorRule::wide);
       ++rule) {
    CAPTURE(key(static_cast<TensorRule>(rule)));
    CHECK(seen[static_cast<TensorRule>(rule)] > 20);
  }
  CHECK(seen[TensorRule::none] > 10'000);
}

TEST_CASE("the elements of a tensor end at its end", "[arch][TMA-06]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 300; ++round) {
    TensorDescriptor d = draw_tensor(dice);
    for (std::uint64_t& size : d.size) size = std::min<std::uint64_t>(size, 7);
    REQUIRE(check(d) == TensorRule::none);
    std::vector<std::uint64_t> offsets = element_offsets(d);
    std::sort(offsets.begin(), offsets.end());
    CAPTURE(text_of(d));
    CHECK(d.address + offsets.back() + d.step_bytes() == d.end());
  }
}

TEST_CASE("every rule has a key and a text of its own", "[arch][TMA-06]") {
  std::set<std::string> keys;
  std::set<std::string> texts;
  for (std::size_t i = 0; i < kTensorRules; ++i) {
    keys.insert(rule_key(static_cast<TensorRule>(i)));
    texts.insert(rule_text(static_cast<TensorRule>(i)));
  }
  CHECK(keys.size() == kTensorRules);
  CHECK(texts.size() == kTensorRules);
  CHECK(static_cast<std::size_t>(TensorRule::reduction) == kTensorRules - 1);
  CHECK(key(TensorRule::none) == "none");
  CHECK(key(TensorRule::stride_range) == "stride_range");
  CHECK(key(TensorRule::unmapped) == "unmapped");
  CHECK(key(TensorRule::reduction) == "reduction");
  CHECK(rule_text(TensorRule::stride_range) == std::string("a stride is 2^40 or more"));
  CHECK_THAT(rule_text(TensorRule::receivers_share_sm), Catch::Contains("mode multicast"));
}

}  // namespace arch_tensor_rules_test
