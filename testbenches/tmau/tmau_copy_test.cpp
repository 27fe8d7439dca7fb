// Tensors from device memory to device memory, and from shared memory to shared memory (TMA-44).
#include <memory>

#include <catch2/catch.hpp>

#include "tmau/random_tensor.h"
#include "tmau/tmau.h"
#include "tmau/tmau_bench.h"

namespace tmau_copy_test {

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr std::uint64_t kRegion = 1 << 17;
constexpr std::uint64_t kDescriptor = 2 * kRegion;
constexpr std::uint64_t kMemory = 3 * kRegion;

TmauParams lenient() {
  TmauParams params;
  plain_costs(params);
  params.shared_alignment = params.empty_box = params.base_outside = tmau::RuleAction::report;
  return params;
}

RandomBox random_box(Random& random) {
  TensorRange range;
  range.memory = kRegion;
  range.box_bytes = 2048;
  return RandomTensor(random, range)();
}

BulkRequest copy_of(const RandomBox& box, std::uint64_t to) {
  BulkRequest request = tensor(BulkKind::copy, kDescriptor, box.coordinates);
  request.offsets = box.offsets;
  request.to = to;
  return request;
}

// To that CTA of the fake cluster.
BulkRequest send_of(std::uint32_t from, std::uint32_t cta, std::uint32_t to) {
  BulkRequest request = tensor(BulkKind::send, kDescriptor, {}, from);
  request.data_cta = cta;
  request.destination = to;
  return request;
}

}  // namespace

TEST_CASE("a copied box is what a load would put into shared memory, without a swizzle", "[tmau][TMA-44][TMA-13]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  const std::uint64_t seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  Random random(seed);
  TmauBench bench(1, lenient(), mode, kMemory);
  bench.fill_memory(seed);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const RandomBox box = random_box(random);
    bench.put_descriptor(kDescriptor, box.descriptor);
    (void)bench.ask(bench.domain.now() + 1, of_kind(BulkKind::forget));
    bench.run();
    const std::uint64_t to = kRegion + 16 * random.below(4096);
    Bytes expected = bench.memory.bytes;
    arch::TensorDescriptor plain = box.descriptor;
    plain.swizzle = arch::Swizzle::none;
    Bytes filled(plain.box_bytes());
    reference_load(plain, box.coordinates, box.offsets, 0, expected, filled);
    std::copy(filled.begin(), filled.end(), expected.begin() + static_cast<std::ptrdiff_t>(to));
    const std::uint32_t id = bench.ask(bench.domain.now() + 1, copy_of(box, to));
    bench.run();
    CHECK(bench.done(id).packet.kind == DoneKind::complete);
    REQUIRE((bench.memory.bytes == expected));
  }
  bench.check_over();
}

TEST_CASE("the lines of a copy end at lines of either side, and what is filled is not read", "[tmau][TMA-44][TMA-15]") {
  TmauBench bench(1, lenient(), TimingMode::at, kMemory);
  // Rows of 128 bytes that are lines; the last two of four are outside.
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 10, 32, 4));
  BulkRequest request = tensor(BulkKind::copy, kDescriptor, {0, 8});
  request.to = kRegion + 32;
  (void)bench.ask(0, request);
  bench.run();
  std::uint32_t reads = 0;
  std::uint32_t writes = 0;
  for (const TmauMemory::Seen& seen : bench.memory.seen) {
    if (seen.address >= kDescriptor) continue;
    CHECK(seen.address / 128 == (seen.address + seen.bytes - 1) / 128);
    (seen.command == tlm::TLM_WRITE_COMMAND ? writes : reads) += 1;
  }
  // Each row is 96 bytes to the end of a line, and 32 in the next.
  CHECK(reads == 2 * 2);
  CHECK(writes == 4 * 2);
  CHECK(bench.stat("bytes_out") == 512);
  const BulkMap::Row& row = bench.observation.bulk.rows().at(0);
  CHECK(row.sum.kind == BulkKind::copy);
  CHECK(row.sum.bytes == 512);
  CHECK(row.sum.used == 256);
  bench.check_over();
}

TEST_CASE("copies and sends of tensors keep to the rules", "[tmau][TMA-06][TMA-44]") {
  TmauParams params;
  plain_costs(params);
  TmauBench bench(2, params, TimingMode::at, kMemory);
  arch::TensorDescriptor matrix = matrix_at(0x1000, 64, 64, 32, 8);  // boxes of 1 KiB
  const auto rule_of = [&](const BulkRequest& request, std::uint32_t room_there = ~std::uint32_t{0}) {
    bench.put_descriptor(kDescriptor, matrix);
    (void)bench.ask(bench.domain.now() + 1, of_kind(BulkKind::forget));
    const std::uint32_t id =
        bench.ask(bench.domain.now() + 2, request, 0, [&](auto& packet) { packet.room_there = room_there; });
    bench.run();
    return bench.done(id).packet.rule;
  };
  BulkRequest copy = tensor(BulkKind::copy, kDescriptor, {0, 0});
  copy.to = kRegion;
  CHECK(rule_of(copy) == TensorRule::none);
  copy.to = kRegion + 8;
  CHECK(rule_of(copy) == TensorRule::block_address);
  copy.to = kMemory - 1024;
  CHECK(rule_of(copy) == TensorRule::none);
  copy.to = kMemory - 1008;
  CHECK(rule_of(copy) == TensorRule::unmapped);
  CHECK(rule_of(send_of(128, 1, 256), 1024) == TensorRule::none);
  CHECK(rule_of(send_of(128, 1, 256), 1008) == TensorRule::shared_address);
  CHECK(rule_of(send_of(128, 1, 272)) == TensorRule::shared_alignment);
  CHECK(rule_of(send_of(144, 1, 256)) == TensorRule::shared_alignment);
  // Between shared memories there are fewer reductions than to device memory.
  BulkRequest sum = send_of(128, 1, 256);
  sum.reduces = true;
  sum.reduction = arch::AtomicKind::add;
  CHECK(rule_of(sum) == TensorRule::reduction);  // f32
  matrix.type = arch::TensorType::u32;
  CHECK(rule_of(sum) == TensorRule::none);
  matrix.type = arch::TensorType::u6x16_padded;
  matrix.address = 0x1000;
  matrix.size = {128, 8, 1, 1, 1};
  matrix.stride[1] = 96;
  matrix.box = {128, 2, 1, 1, 1};
  copy.to = kRegion;
  CHECK(rule_of(copy) == TensorRule::packed);
}

// PTX ISA: no reduction has types below a byte, stores have all of them but b4x16_p64; the flip of 8 bytes is for
// loads.
TEST_CASE("which kinds of requests a type or swizzle is for", "[tmau][TMA-04][TMA-20]") {
  using arch::TensorType;
  const auto rule_of = [](BulkKind kind, TensorType type, arch::Swizzle swizzle) {
    arch::TensorDescriptor d = matrix_at(0x1000, 128, 8, 128, 2);
    d.type = type;
    d.stride[1] = 128;
    d.swizzle = swizzle;
    BulkRequest request = tensor(kind, kDescriptor, {});
    request.reduction = arch::AtomicKind::add;
    return tmau::check_tensor(request, {1 << 15, 1 << 15, kMemory}, {d, TensorRule::none});
  };
  struct Case {
    TensorType type;
    TensorRule load, store, reduce;
  };
  for (const Case& c : {Case{TensorType::u4x16, TensorRule::none, TensorRule::none, TensorRule::packed},
                        Case{TensorType::u4x16_padded, TensorRule::none, TensorRule::packed, TensorRule::packed},
                        Case{TensorType::u6x16_padded, TensorRule::none, TensorRule::none, TensorRule::packed},
                        Case{TensorType::u32, TensorRule::none, TensorRule::none, TensorRule::none}}) {
    CAPTURE(static_cast<int>(c.type));
    CHECK(rule_of(BulkKind::load, c.type, arch::Swizzle::none) == c.load);
    CHECK(rule_of(BulkKind::store, c.type, arch::Swizzle::none) == c.store);
    CHECK(rule_of(BulkKind::reduce, c.type, arch::Swizzle::none) == c.reduce);
  }
  constexpr arch::Swizzle kFlip = arch::Swizzle::bytes128_atom32_flip8;
  CHECK(rule_of(BulkKind::load, TensorType::u32, kFlip) == TensorRule::none);
  CHECK(rule_of(BulkKind::store, TensorType::u32, kFlip) == TensorRule::flip_store);
  CHECK(rule_of(BulkKind::reduce, TensorType::u32, kFlip) == TensorRule::flip_store);
}

TEST_CASE("a sent box lies at its receiver as at its sender, swizzled by its new address", "[tmau][TMA-44][TMA-20]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  const std::uint64_t seed = GENERATE(11U, 12U);
  CAPTURE(seed);
  Random random(seed);
  TmauBench bench(2, lenient(), mode, kMemory);
  bench.fill_memory(seed);
  bench.fill_windows(seed + 100);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    const RandomBox box = random_box(random);
    const arch::Swizzle swizzle = box.descriptor.swizzle;
    const auto bytes = static_cast<std::uint32_t>(box.descriptor.box_bytes());
    bench.put_descriptor(kDescriptor, box.descriptor);
    (void)bench.ask(bench.domain.now() + 1, of_kind(BulkKind::forget));
    bench.run();
    // Rows of 128 bytes stay what they are, so areas of whole periods do not meet.
    const std::uint32_t from = 1024 + 16 * random.below(64);
    const std::uint32_t to = kWindow / 2 + 16 * random.below(64);
    REQUIRE(to + bytes + 1024 <= kWindow);
    const Bytes& source = bench.sms[0]->windows[0];
    Bytes expected = bench.sms[1]->windows[0];
    for (std::uint32_t j = 0; j < bytes; ++j) {
      expected.at(swizzled_offset(swizzle, to + j)) = source.at(swizzled_offset(swizzle, from + j));
    }
    BulkRequest request = send_of(from, 1, to);
    request.barrier = 0;
    bench.sms[1]->barrier.clear();
    const std::uint32_t id =
        bench.ask(bench.domain.now() + 1, request, 0, [](auto& packet) { packet.cta_slot = protocol::CtaSlot(0); });
    bench.run();
    CHECK(bench.done(id).packet.kind == DoneKind::complete);
    REQUIRE((bench.sms[1]->windows[0] == expected));
    CHECK(bench.sms[1]->barrier[0] == bytes);
  }
  bench.check_over();
}

TEST_CASE("a sent box is reduced by the tensor's type", "[tmau][TMA-44][TMA-07]") {
  TmauBench bench(2, lenient(), TimingMode::at, kMemory);
  bench.fill_windows(5);
  arch::TensorDescriptor matrix = matrix_at(0x1000, 64, 64, 32, 2);
  matrix.type = arch::TensorType::s32;
  bench.put_descriptor(kDescriptor, matrix);
  const Bytes source = bench.sms[0]->windows[0];
  Bytes expected = bench.sms[1]->windows[0];
  for (std::uint32_t j = 0; j < 256; j += 4) {
    std::int32_t held = 0;
    std::int32_t value = 0;
    std::memcpy(&held, &expected[512 + j], 4);
    std::memcpy(&value, &source[128 + j], 4);
    const std::int32_t result = std::max(held, value);
    std::memcpy(&expected[512 + j], &result, 4);
  }
  BulkRequest request = send_of(128, 1, 512);
  request.reduces = true;
  request.reduction = arch::AtomicKind::max;
  request.type = arch::ValueType::u32;  // of blocks: it counts for nothing
  (void)bench.ask(0, request, 0, [](auto& packet) { packet.cta_slot = protocol::CtaSlot(0); });
  bench.run();
  CHECK((bench.sms[1]->windows[0] == expected));
}

}  // namespace tmau_copy_test
