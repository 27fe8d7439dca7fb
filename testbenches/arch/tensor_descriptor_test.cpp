// The tensor descriptor: its encoding there and back, its sizes, its types.
#include "arch/tensor_descriptor.h"

#include <array>
#include <functional>
#include <string>

#include <catch2/catch.hpp>

#include "arch/random_descriptor.h"
#include "arch/tensor_examples.h"
#include "common/error.h"

namespace arch_tensor_descriptor_test {

using namespace heddle::arch;
using heddle::test::columns;
using heddle::test::draw_any_tensor;
using heddle::test::draw_tensor;
using heddle::test::image;
using heddle::test::sliced;
using heddle::test::text_of;

TEST_CASE("the bytes of a box are those of the elements that the walk visits", "[arch][TMA-05][TMA-10]") {
  CHECK(image().box_bytes() == 64 * 4 * 4 * 2);
  CHECK(columns().box_bytes() == 64 * 64 * 2);
  TensorDescriptor d = image();
  d.box = {64, 5, 4, 2, 9};
  d.traversal = {7, 2, 3, 8, 1};
  CHECK(d.box_bytes() == 64 * 3 * 2 * 1 * 2);  // that of dimension 0 does not count
  d = sliced(Interleave::bytes32);
  d.box = {5, 5, 4, 2, 1};
  d.traversal = {2, 2, 3, 8, 1};
  CHECK(d.box_bytes() == 3 * 3 * 2 * 1 * 32);
  CHECK(d.step_bytes() == 32);
  CHECK(d.step(0) == 14 * 9 * 32);
  CHECK(image().step(0) == 2);
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 5'000; ++round) {
    const TensorDescriptor t = draw_tensor(dice);
    if (t.mode == TensorMode::im2col) continue;
    std::uint64_t bytes = t.step_bytes();
    for (std::uint32_t i = 0; i < t.rank; ++i) {
      std::uint64_t visited = 0;
      const std::uint32_t by = i == 0 && t.interleave == Interleave::none ? 1 : t.traversal[i];
      for (std::uint32_t c = 0; c < t.box[i]; c += by) ++visited;
      bytes *= visited;
    }
    if (t.box_bytes() != bytes) FAIL(text_of(t));
  }
}

TEST_CASE("a descriptor comes back from its 128 bytes", "[arch][TMA-05]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 40'000; ++round) {
    const TensorDescriptor d = dice.one_in(2) ? draw_tensor(dice) : draw_any_tensor(dice);
    const auto bytes = encode(d);
    TensorDescriptor back;
    back.rank = 77;
    if (decode(bytes.data(), back) != TensorRule::none || !(back == d)) FAIL(text_of(d) << " became " << text_of(back));
    if (encode(back) != bytes) FAIL("other bytes");
  }
}

TEST_CASE("every field has bytes of its own, where the documentation says", "[arch][TMA-05]") {
  const TensorDescriptor zero = image();
  const auto at = [&](const std::function<void(TensorDescriptor&)>& change) {
    TensorDescriptor d = zero;
    change(d);
    CHECK_FALSE(d == zero);
    const auto before = encode(zero);
    const auto after = encode(d);
    std::string places;
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (after[i] != before[i]) places += std::to_string(i) + ":" + std::to_string(after[i]) + " ";
    }
    return places;
  };
  const auto bytes = encode(zero);
  CHECK(bytes[0] == 'T');
  CHECK(bytes[1] == 'M');
  CHECK(bytes[2] == 3);
  CHECK(at([](auto& d) { d.type = TensorType::f64; }) == "3:12 ");
  CHECK(at([](auto& d) { d.rank = 5; }) == "4:5 ");
  CHECK(at([](auto& d) { d.mode = TensorMode::im2col; }) == "5:1 ");
  CHECK(at([](auto& d) { d.fill = Fill::nan; }) == "115:1 ");
  CHECK(at([](auto& d) { d.mode = TensorMode::im2col_w128; }) == "5:3 ");
  CHECK(at([](auto& d) { d.promotion = Promotion::bytes256; }) == "5:12 ");
  CHECK(at([](auto& d) { d.swizzle = Swizzle::bytes128_atom64; }) == "7:7 ");
  CHECK(at([](auto& d) { d.interleave = Interleave::bytes32; }) == "6:2 ");
  CHECK(at([](auto& d) { d.swizzle = Swizzle::bytes64; }) == "7:2 ");
  CHECK(at([](auto& d) { d.address = 0x0123'4567'89AB'CDEF; }) == "8:239 9:205 10:171 11:137 12:103 13:69 14:35 15:1 ");
  CHECK(at([](auto& d) { d.size[4] = std::uint64_t{1} << 32; }) == "48:0 52:1 ");
  CHECK(at([](auto& d) { d.stride[0] = 0x0201; }) == "56:1 57:2 ");
  CHECK(at([](auto& d) { d.stride[4] = std::uint64_t{5} << 56; }) == "95:5 ");
  CHECK(at([](auto& d) { d.box[0] = 0x1234; }) == "96:52 97:18 ");
  CHECK(at([](auto& d) { d.box[4] = 256; }) == "104:0 105:1 ");
  CHECK(at([](auto& d) { d.channels = 256; }) == "106:0 107:1 ");
  CHECK(at([](auto& d) { d.pixels = 1024; }) == "108:0 109:4 ");
  CHECK(at([](auto& d) { d.traversal[0] = 8; }) == "110:8 ");
  CHECK(at([](auto& d) { d.traversal[4] = 7; }) == "114:7 ");
  CHECK(at([](auto& d) { d.base_corner[0] = -2; }) == "116:254 117:255 ");
  CHECK(at([](auto& d) { d.far_corner[2] = 127; }) == "126:127 ");
}

TEST_CASE("bytes that encode() cannot have written are no descriptor", "[arch][TMA-05][TMA-06]") {
  HEDDLE_RANDOM(dice);
  std::uint32_t refused = 0;
  std::uint32_t accepted = 0;
  for (int round = 0; round < 40'000; ++round) {
    auto bytes = encode(draw_tensor(dice));
    if (dice.one_in(4)) {
      for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(dice.next());
    } else {
      for (std::uint32_t i = dice.between(1, 3); i > 0; --i) {
        const std::size_t at = dice.one_in(2) ? dice.between64(0, 7) : dice.between64(0, bytes.size() - 1);
        bytes[at] = static_cast<std::uint8_t>(dice.one_in(2) ? dice.next() : bytes[at] ^ 1U << dice.between(0, 7));
      }
    }
    TensorDescriptor d;
    const TensorRule rule = decode(bytes.data(), d);
    ++(rule == TensorRule::none ? accepted : refused);
    if (rule == TensorRule::none ? encode(d) != bytes : rule != TensorRule::encoding) FAIL("round " << round);
    if (rule == TensorRule::none) check(d);  // whatever they say
  }
  CHECK(refused > 10'000);
  CHECK(accepted > 10'000);
}

TEST_CASE("each reserved bit and each number without a meaning makes the bytes no descriptor", "[arch][TMA-05]") {
  const auto good = encode(columns());
  TensorDescriptor d;
  const auto rule_of = [&](std::size_t at, std::uint32_t value) {
    auto bytes = good;
    bytes[at] = static_cast<std::uint8_t>(value);
    return decode(bytes.data(), d);
  };
  const std::array<std::uint32_t, 8> meanings{0, 0, 0, kTensorTypes, 256, 16, 3, kSwizzles};
  for (std::size_t at = 3; at < 8; ++at) {
    for (std::uint32_t value = 0; value < 256; ++value) {
      if ((rule_of(at, value) == TensorRule::none) != (value < meanings[at])) FAIL("byte " << at << ": " << value);
    }
  }
  for (const std::size_t at : {0, 1, 2, 115}) {
    std::uint32_t taken = 0;
    for (std::uint32_t value = 0; value < 256; ++value) taken += rule_of(at, value) == TensorRule::none ? 1 : 0;
    CHECK(taken == (at == 115 ? 2 : 1));
  }
  const std::array<std::uint8_t, kDescriptorBytes> nothing{};
  CHECK(decode(nothing.data(), d) == TensorRule::encoding);
}

TEST_CASE("offsets of im2col share 16 bits by the rank", "[arch][TMA-11]") {
  CHECK(offset_bits(3) == 16);
  CHECK(offset_bits(4) == 8);
  CHECK(offset_bits(5) == 5);
  CHECK(pack_offsets(3, {0xFFFF, 9, 9}) == 0xFFFF);
  CHECK(pack_offsets(4, {0x12, 0xFE, 9}) == 0xFE12);
  CHECK(pack_offsets(5, {1, 2, 31}) == (1 | 2 << 5 | 31 << 10));
  CHECK(pack_offsets(2, {1, 1, 1}) == 0);
  CHECK(unpack_offsets(3, 0x8001) == std::array<std::uint32_t, 3>{0x8001, 0, 0});
  CHECK(unpack_offsets(4, 0x8001) == std::array<std::uint32_t, 3>{0x01, 0x80, 0});
  CHECK(unpack_offsets(5, 0xFFFF) == std::array<std::uint32_t, 3>{31, 31, 31});  // the highest bit is spare
  CHECK(unpack_offsets(1, 0xFFFF) == std::array<std::uint32_t, 3>{0, 0, 0});
  CHECK_THROWS_AS(unpack_offsets(6, 0), heddle::CheckFailed);
  CHECK_THROWS_AS(pack_offsets(6, {}), heddle::CheckFailed);
  for (const std::uint32_t rank : {3U, 4U, 5U}) {
    for (std::uint32_t word = 0; word < (rank == 5 ? 0x8000U : 0x1'0000U); ++word) {
      const auto offsets = static_cast<std::uint16_t>(word);
      if (pack_offsets(rank, unpack_offsets(rank, offsets)) != offsets) FAIL("rank " << rank << ": " << word);
    }
  }
}

TEST_CASE("types have names, sizes and what reductions take them as", "[arch][TMA-07]") {
  std::string names;
  std::string values;
  std::string sizes;
  std::string floats;
  for (std::size_t i = 0; i < kTensorTypes; ++i) {
    const auto type = static_cast<TensorType>(i);
    names += type_name(type) + std::string(" ");
    values += type_name(value_type(type)) + std::string(" ");
    sizes += std::to_string(bytes_of(type));
    floats += is_float(type) ? "f" : "-";
    CHECK(bytes_of(value_type(type)) == bytes_of(type));
  }
  CHECK(names ==
        "u8 u16 u32 s32 u64 s64 f16 bf16 f32 f32_flush tf32 tf32_flush f64 u4x16 u4x16_padded "
        "u6x16_padded ");
  CHECK(values == "u8 u16 u32 s32 u64 s64 f16 bf16 f32 f32 f32 f32 f64 u8 u8 u8 ");
  CHECK(sizes == "1244882244448111");
  CHECK(floats == "------fffffff---");
}

}  // namespace arch_tensor_descriptor_test
