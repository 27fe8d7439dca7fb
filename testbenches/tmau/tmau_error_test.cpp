// Requests that break a rule, and memory that answers with errors (TMA-06).
#include <catch2/catch.hpp>

#include "tmau/tmau.h"
#include "tmau/tmau_bench.h"

namespace tmau_error_test {

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr std::uint64_t kOther = 0x8100;
constexpr std::uint64_t kMemory = 1 << 20;

arch::TensorDescriptor good() { return matrix_at(0x1000, 64, 64, 32, 8); }

// A descriptor that breaks the rule, and no other.
arch::TensorDescriptor breaking(TensorRule rule) {
  arch::TensorDescriptor d = good();
  switch (rule) {
    case TensorRule::rank_layout:
      d.mode = arch::TensorMode::im2col;
      break;
    case TensorRule::address:
      d.address += 8;
      break;
    case TensorRule::stride_alignment:
      d.stride[1] += 8;
      break;
    case TensorRule::stride_range:
      d.stride[1] = std::uint64_t{1} << 40;
      break;
    case TensorRule::box:
      d.box[1] = 0;
      break;
    case TensorRule::inner_bytes:
      d.box[0] = 3;
      break;
    case TensorRule::inner_swizzle:
      d.swizzle = arch::Swizzle::bytes64;
      break;
    case TensorRule::nan_fill:
      d.type = arch::TensorType::u32;
      d.fill = arch::Fill::nan;
      break;
    case TensorRule::unmapped:
      d.address = kMemory - 128;
      break;
    default:
      break;
  }
  return d;
}

}  // namespace

TEST_CASE("a request that breaks a rule is dropped whole, and the others go on", "[tmau][TMA-06]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  const TensorRule rule = GENERATE(TensorRule::rank_layout, TensorRule::address, TensorRule::stride_alignment,
                                   TensorRule::stride_range, TensorRule::box, TensorRule::inner_bytes,
                                   TensorRule::inner_swizzle, TensorRule::nan_fill, TensorRule::unmapped);
  CAPTURE(arch::rule_key(rule));
  const BulkKind kind = GENERATE(BulkKind::load, BulkKind::store, BulkKind::prefetch);
  TmauBench bench(1, {}, mode, kMemory);
  bench.fill_memory(1);
  bench.put_descriptor(kDescriptor, breaking(rule));
  bench.put_descriptor(kOther, good());
  const Bytes before = bench.memory.bytes;
  const std::uint32_t first = bench.ask(0, tensor(BulkKind::load, kOther, {0, 0}, 0));
  const std::uint32_t bad = bench.ask(0, tensor(kind, kDescriptor, {0, 0}, 4096));
  const std::uint32_t again = bench.ask(0, tensor(kind, kDescriptor, {0, 0}, 4096));
  const std::uint32_t last = bench.ask(0, tensor(BulkKind::load, kOther, {32, 0}, 8192));
  bench.run();
  for (const std::uint32_t id : {bad, again}) {
    CHECK(bench.done(id).packet.kind == DoneKind::dropped);
    CHECK(bench.done(id).packet.rule == rule);
  }
  CHECK(bench.done(first).packet.kind == DoneKind::complete);
  CHECK(bench.done(last).packet.kind == DoneKind::complete);
  CHECK(bench.memory.bytes == before);
  CHECK(bench.memory.seen.size() == 2 + 16);
  CHECK(bench.sms[0]->barrier.at(0) == 2048);  // of the others
  CHECK(bench.sms[0]->given == 0);
  CHECK(bench.stat("dropped") == 2);
  bench.check_over();
}

TEST_CASE("bytes that are no descriptor", "[tmau][TMA-05][TMA-06]") {
  TmauBench bench;
  bench.fill_memory(1);
  const std::uint32_t id = bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}));
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::dropped);
  CHECK(bench.done(id).packet.rule == TensorRule::encoding);
  bench.check_over();
}

TEST_CASE("rules of the instruction", "[tmau][TMA-06][TMA-07]") {
  TmauBench bench(1, {}, TimingMode::at, kMemory);
  arch::TensorDescriptor d = good();
  bench.put_descriptor(kDescriptor, d);
  BulkRequest request;
  TensorRule rule = TensorRule::none;
  SECTION("descriptor address") {
    request = tensor(BulkKind::load, kDescriptor + 32, {0, 0});
    rule = TensorRule::descriptor_address;
  }
  SECTION("descriptor outside memory") {
    request = tensor(BulkKind::load, GENERATE(as<std::uint64_t>{}, kMemory - 64, kMemory, ~std::uint64_t{63}), {0, 0});
    rule = TensorRule::unmapped;
  }
  SECTION("shared address of a tensor") {
    request = tensor(GENERATE(BulkKind::load, BulkKind::store, BulkKind::reduce), kDescriptor, {0, 0}, 8);
    rule = TensorRule::shared_address;
  }
  SECTION("reduction that the tensor's type does not have") {
    request = tensor(BulkKind::reduce, kDescriptor, {0, 0});
    request.reduction = arch::AtomicKind::bit_and;
    rule = TensorRule::reduction;
  }
  SECTION("block address") {
    request = GENERATE(block_load(8, 1, 0), block_store(0, 8, 1));
    rule = TensorRule::block_address;
  }
  SECTION("source and destination of a copy") {
    request = of_kind(BulkKind::copy);
    request.blocks = 2;
    const std::uint32_t which = GENERATE(0U, 1U, 2U, 3U);
    if (which == 0) request.global = 8;
    if (which == 1) request.to = 8;
    if (which == 2) request.global = kMemory - 16;
    if (which == 3) request.to = kMemory - 16;
    rule = which < 2 ? TensorRule::block_address : TensorRule::unmapped;
  }
  SECTION("a block beyond memory") {
    request = GENERATE(block_load(kMemory - 16, 2, 0), block_load(kMemory, 1, 0), block_load(0, ~std::uint64_t{0}, 0),
                       block_load(~std::uint64_t{15}, 1, 0));
    rule = TensorRule::unmapped;
  }
  SECTION("shared address of a block") {
    request = GENERATE(block_load(0, 1, 8), block_store(8, 0, 1));
    rule = TensorRule::shared_address;
  }
  SECTION("destination of a send") {
    request = of_kind(BulkKind::send);
    request.blocks = 1;
    request.destination = 8;
    rule = TensorRule::shared_address;
  }
  SECTION("reductions of blocks") {
    request = block_store(0, 0, 1);
    request.kind = BulkKind::reduce;
    request.reduction = arch::AtomicKind::increment;
    request.type = arch::ValueType::u64;
    rule = TensorRule::reduction;
  }
  SECTION("reductions that shared memory does not have") {
    request = of_kind(BulkKind::send);
    request.blocks = 1;
    request.reduces = true;
    request.type = arch::ValueType::f32;
    rule = TensorRule::reduction;
  }
  const std::uint32_t id = bench.ask(0, request);
  const std::uint32_t other = bench.ask(0, block_load(0, 8, 0));
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::dropped);
  CHECK(arch::rule_key(bench.done(id).packet.rule) == std::string(arch::rule_key(rule)));
  CHECK(bench.done(other).packet.kind == DoneKind::complete);
  CHECK(bench.memory.of(tlm::TLM_WRITE_COMMAND).empty());
  CHECK(bench.sms[0]->given == 0);
  CHECK(bench.sms[0]->data.size() == 1);
  bench.check_over();
}

TEST_CASE("a descriptor may be the last that memory has room for", "[tmau][TMA-05][TMA-06]") {
  TmauBench bench(1, {}, TimingMode::at, kMemory);
  const std::uint64_t last = kMemory - arch::kDescriptorBytes;
  bench.put_descriptor(last, good());
  const std::uint32_t id = bench.ask(0, tensor(BulkKind::load, last, {0, 0}));
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  bench.check_over();
}

TEST_CASE("what the SM has found broken is dropped in its turn", "[tmau][TMA-06][TMA-30]") {
  TmauBench bench;
  const std::uint32_t first = bench.ask(0, block_load(0, 80, 0));
  const std::uint32_t bad = bench.ask(0, block_load(0, 80, 0), 0, [](protocol::BulkRequestPacket& packet) {
    packet.broken = TensorRule::receivers_share_sm;
  });
  const std::uint32_t nobody =
      bench.ask(0, block_load(0, 80, 0), 0, [](protocol::BulkRequestPacket& packet) { packet.by_rank = true; });
  bench.run();
  CHECK(bench.done(bad).packet.rule == TensorRule::receivers_share_sm);
  CHECK(bench.done(nobody).packet.rule == TensorRule::receivers);
  CHECK(bench.cycle_of(bad) > bench.memory.seen.back().cycle);
  CHECK(bench.cycle_of(bad) < bench.cycle_of(first));
  CHECK(bench.memory.seen.size() == 10);
  bench.check_over();
}

TEST_CASE("an error in mid-box: the rest is delivered, the barrier stays short", "[tmau][TMA-06][TMA-40]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TmauBench bench(1, {}, mode);
  bench.fill_memory(1);
  bench.put_descriptor(kDescriptor, good());
  bench.memory.error = [](std::uint64_t line) { return line == 0x1200 || line == 0x1500; };
  const std::uint32_t bad = bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}));
  const std::uint32_t other = bench.ask(0, block_load(0x4000, 8, 4096, 8));
  bench.run();
  CHECK(bench.done(bad).packet.kind == DoneKind::failed);
  CHECK(bench.done(bad).packet.address == 0x1200);
  CHECK(bench.done(other).packet.kind == DoneKind::complete);
  CHECK(bench.sms[0]->barrier.at(0) == 6 * 128);
  CHECK(bench.sms[0]->barrier.at(8) == 128);
  CHECK(bench.stat("failed") == 1);
  bench.check_over();
}

TEST_CASE("of several errors the one that arrives first counts", "[tmau][TMA-06]") {
  // Memory refuses the first line 300 cycles later, and perhaps tells so at once; the source of the last one is
  // corrupt.
  const Cycle ahead = GENERATE(0, 300);
  const bool late = GENERATE(false, true);
  TmauBench bench;
  bench.memory.error = [](std::uint64_t line) { return line == 0x1000; };
  bench.memory.latency = [](std::uint64_t) { return Cycle{300}; };
  bench.memory.ahead = ahead;
  bench.sms[0]->bad = [](const protocol::BulkTarget& target) { return target.piece.shared == 384; };
  bench.sms[0]->read_cycles = [late, n = 0]() mutable { return ++n == 4 && late ? Cycle{1000} : Cycle{5}; };
  const std::uint32_t bad = bench.ask(0, block_store(0, 0x1000, 32));
  bench.run();
  CHECK(bench.done(bad).packet.kind == DoneKind::failed);
  CHECK(bench.done(bad).packet.poison == !late);
  CHECK(bench.done(bad).packet.address == (late ? 0x1000 : 384));
  bench.check_over();
}

TEST_CASE("a box that is larger than the room in shared memory is not begun", "[tmau][TMA-06]") {
  const BulkKind kind = GENERATE(BulkKind::load, BulkKind::store, BulkKind::prefetch);
  const std::uint32_t room = GENERATE(0U, 1023U, 1024U);
  TmauBench bench;
  bench.put_descriptor(kDescriptor, good());
  const std::uint32_t id = bench.ask(0, tensor(kind, kDescriptor, {0, 0}), 0,
                                     [room](protocol::BulkRequestPacket& packet) { packet.room = room; });
  bench.run();
  const bool dropped = kind != BulkKind::prefetch && room < 1024;
  CHECK(bench.done(id).packet.kind == (dropped ? DoneKind::dropped : DoneKind::complete));
  CHECK(bench.done(id).packet.rule == (dropped ? TensorRule::shared_address : TensorRule::none));
  CHECK(bench.memory.seen.size() == (dropped ? 1 : 1 + 8));  // the descriptor
  CHECK(bench.sms[0]->targets.size() == (dropped || kind == BulkKind::prefetch ? 0 : 8));
  bench.check_over();
}

TEST_CASE("poisoned data are delivered, and the barrier completes", "[tmau][TMA-06]") {
  TmauBench bench;
  bench.memory.poison = [](std::uint64_t line) { return line == 0x1080; };
  const std::uint32_t id = bench.ask(0, block_load(0x1000, 64, 0));
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bench.sms[0]->poisoned == 1);
  CHECK(bench.sms[0]->barrier.at(0) == 1024);
  bench.check_over();
}

TEST_CASE("a descriptor that does not come, or comes poisoned", "[tmau][TMA-04][TMA-06]") {
  const bool poisoned = GENERATE(false, true);
  const BulkKind kind = GENERATE(BulkKind::load, BulkKind::store);
  TmauBench bench;
  bench.put_descriptor(kDescriptor, good());
  bool broken = true;
  (poisoned ? bench.memory.poison : bench.memory.error) = [&broken](std::uint64_t line) {
    return broken && line == kDescriptor;
  };
  const std::uint32_t bad = bench.ask(0, tensor(kind, kDescriptor, {0, 0}));
  const std::uint32_t other = bench.ask(0, block_load(0, 8, 0));
  bench.run();
  CHECK(bench.done(bad).packet.kind == DoneKind::failed);
  CHECK(bench.done(bad).packet.address == kDescriptor);
  CHECK(bench.done(other).packet.kind == DoneKind::complete);
  CHECK(bench.memory.seen.size() == 2);
  broken = false;  // it is not cached
  const std::uint32_t good_one = bench.ask(5000, tensor(BulkKind::load, kDescriptor, {0, 0}));
  bench.run();
  CHECK(bench.done(good_one).packet.kind == DoneKind::complete);
  bench.check_over();
}

TEST_CASE("a store of corrupt bytes does not write them", "[tmau][TMA-06]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TmauBench bench(1, {}, mode);
  bench.fill_windows(4);
  bench.sms[0]->bad = [](const protocol::BulkTarget& target) { return target.piece.shared == 256; };
  const std::uint32_t id = bench.ask(0, block_store(0, 0x1000, 32));
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::failed);
  CHECK(bench.done(id).packet.poison);
  CHECK(bench.done(id).packet.address == 256);  // in shared memory
  for (std::uint32_t i = 0; i < 512; ++i) {
    const bool lost = i / 128 == 2;
    REQUIRE(bench.memory.bytes[0x1000 + i] == (lost ? 0 : bench.sms[0]->windows[0][i]));
  }
  bench.check_over();
}

TEST_CASE("errors of writes, copies and sends", "[tmau][TMA-06]") {
  TmauBench bench;
  bench.fill_memory(8);
  bench.memory.error = [](std::uint64_t line) { return line == 0x1080 || line == 0x2100; };
  bench.memory.poison = [](std::uint64_t line) { return line == 0x5000; };
  bench.sms[0]->bad = [](const protocol::BulkTarget& target) { return target.destination == 128; };
  const std::uint32_t store = bench.ask(0, block_store(0, 0x1000, 32));
  const auto copy = [&](std::uint64_t from, std::uint64_t to) {
    BulkRequest request = of_kind(BulkKind::copy);
    request.global = from;
    request.to = to;
    request.blocks = 32;
    return bench.ask(0, request);
  };
  const std::uint32_t from = copy(0x1000, 0x3000);
  const std::uint32_t to = copy(0x4000, 0x2000);
  const std::uint32_t poisoned = copy(0x5000, 0x6000);
  BulkRequest request = of_kind(BulkKind::send);
  request.blocks = 32;
  const std::uint32_t send = bench.ask(0, request);
  const Bytes before = bench.memory.bytes;
  bench.run();
  for (const std::uint32_t id : {store, from, to, poisoned, send}) {
    CAPTURE(id);
    CHECK(bench.done(id).packet.kind == DoneKind::failed);
  }
  CHECK(bench.done(store).packet.address == 0x1080);
  CHECK(bench.done(from).packet.address == 0x1080);
  CHECK(bench.done(to).packet.address == 0x2100);
  CHECK(bench.done(poisoned).packet.address == 0x5000);
  CHECK(std::equal(before.begin() + 0x6000, before.begin() + 0x6080, bench.memory.bytes.begin() + 0x6000));
  CHECK(std::equal(before.begin() + 0x5080, before.begin() + 0x5200, bench.memory.bytes.begin() + 0x6080));
  bench.check_over();
}

TEST_CASE("rules that a parameter makes a report of", "[tmau][TMA-06][TMA-11]") {
  const TensorRule rule = GENERATE(TensorRule::shared_alignment, TensorRule::empty_box, TensorRule::base_outside,
                                   TensorRule::inner_address);
  const bool refuses = GENERATE(false, true);
  const BulkKind kind = GENERATE(BulkKind::load, BulkKind::store);
  CAPTURE(arch::rule_key(rule), refuses);
  const tmau::RuleAction action = refuses ? tmau::RuleAction::refuse : tmau::RuleAction::report;
  TmauParams params;
  if (rule == TensorRule::shared_alignment) params.shared_alignment = action;
  if (rule == TensorRule::empty_box) params.empty_box = params.base_outside = action;
  if (rule == TensorRule::base_outside) params.base_outside = action;
  if (rule == TensorRule::inner_address) params.inner_address = action;
  TmauBench bench(1, params);
  arch::TensorDescriptor d;
  d.type = arch::TensorType::f16;
  d.mode = arch::TensorMode::im2col;
  d.rank = 4;
  d.address = 0x1000;
  d.size = {16, 9, 14, 2, 1};
  d.stride = {0, 32, 288, 4032, 0};
  d.far_corner = {-2, -2, 0};  // filter bases are W 0 to 6
  d.channels = 8;
  d.pixels = 16;
  bench.put_descriptor(kDescriptor, d);
  if (rule == TensorRule::empty_box) d.far_corner[1] = -14;
  bench.put_descriptor(kOther, d);
  const std::uint32_t good = bench.ask(0, tensor(kind, kDescriptor, {8, 6, 4, 0}, 2048));
  BulkRequest request = tensor(kind, kOther, {0, 6, 0, 0}, 1024);
  if (rule == TensorRule::shared_alignment) request.shared = 1024 + 64;
  if (rule == TensorRule::base_outside) request.coordinates[1] = 7;
  if (rule == TensorRule::inner_address) request.coordinates[0] = 3;
  const std::uint32_t bad = bench.ask(0, request);
  bench.run();
  CHECK(bench.done(good).packet.kind == DoneKind::complete);
  CHECK_FALSE(bench.done(good).packet.reported.any());
  CHECK(bench.done(bad).packet.kind == (refuses ? DoneKind::dropped : DoneKind::complete));
  CHECK(bench.done(bad).packet.rule == (refuses ? rule : TensorRule::none));
  CHECK(bench.done(bad).packet.reported.has(rule) != refuses);
  CHECK(bench.stat(std::string("reported.") + arch::rule_key(rule)) == (refuses ? 0 : 1));
  bench.check_over();
}

TEST_CASE("by default hardware's rules refuse, and the inner address is reported", "[tmau][TMA-06][TMA-11]") {
  const TmauParams params;
  CHECK(params.shared_alignment == tmau::RuleAction::refuse);
  CHECK(params.empty_box == tmau::RuleAction::refuse);
  CHECK(params.base_outside == tmau::RuleAction::refuse);
  CHECK(params.inner_address == tmau::RuleAction::report);
}

TEST_CASE("a tensor may reach beyond memory as long as no box does", "[tmau][TMA-06]") {
  const BulkKind kind = GENERATE(BulkKind::load, BulkKind::store, BulkKind::prefetch);
  TmauBench bench(1, {}, TimingMode::at, kMemory);
  // Four rows of 256 bytes are there, of a million.
  arch::TensorDescriptor d = matrix_at(kMemory - 1024, 64, 1'000'000, 32, 2);
  bench.put_descriptor(kDescriptor, d);
  const std::uint32_t last = bench.ask(0, tensor(kind, kDescriptor, {32, 2}));
  const std::uint32_t beyond = bench.ask(0, tensor(kind, kDescriptor, {0, 3}));
  const std::uint32_t before = bench.ask(0, tensor(kind, kDescriptor, {0, -1}));
  const std::uint32_t right = bench.ask(0, tensor(kind, kDescriptor, {64, 3}));  // outside the tensor: nothing touched
  bench.run();
  CHECK(bench.done(last).packet.kind == DoneKind::complete);
  CHECK(bench.done(before).packet.kind == DoneKind::complete);
  CHECK(bench.done(right).packet.kind == DoneKind::complete);
  CHECK(bench.done(beyond).packet.kind == DoneKind::dropped);
  CHECK(bench.done(beyond).packet.rule == TensorRule::unmapped);
  bench.check_over();
}

TEST_CASE("a box for other CTAs has their room, and not that of the CTA that asks", "[tmau][TMA-30]") {
  // What the SM says counts: see sm_bulk_test.
  TmauBench bench(2);
  bench.put_descriptor(kDescriptor, good());
  BulkRequest request = tensor(BulkKind::load, kDescriptor, {0, 0}, 4096);
  request.multicast = 2;
  const std::uint32_t id = bench.ask(0, request, 0, [](auto& packet) { packet.room = 1024; });
  const std::uint32_t no = bench.ask(0, request, 0, [](auto& packet) { packet.room = 1023; });
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bench.done(no).packet.rule == TensorRule::shared_address);
  bench.check_over();
}

}  // namespace tmau_error_test
