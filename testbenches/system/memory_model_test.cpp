// Litmus tests of the memory model (MEM-06): two CTAs on SMs of two GPCs, in every timing mode, with many offsets in
// time.
#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include <catch2/catch.hpp>

#include "arch/address_map.h"
#include "support/gpu_lab.h"

namespace system_memory_model_test {

using namespace heddle::test;
using heddle::arch::AtomicKind;
using heddle::arch::kNoRegister;
using heddle::arch::Order;
using heddle::arch::Scope;
using heddle::arch::Unit;
using heddle::arch::ValueType;

namespace {

constexpr std::uint64_t kOut = 0x10000;
constexpr std::uint32_t kShift = 64;  // bytes between the results of the two CTAs
constexpr std::uint64_t kOther = 2;   // CTAs 0 and 1 share a TPC; CTA 2 is the first on the other GPC
constexpr std::uint32_t kCtas = 3;

// A timing, and whether the partitions of the L2 keep copies.
const char* const kCopies[] = {"at, copies", "fast, copies", "lt, copies"};

std::string set_mode(const std::string& mode) {
  const std::string timing = mode.substr(0, mode.find(','));
  return "gpu={timing: " + timing + ", l2: {copies: " + (timing == mode ? "none" : "near") + "}}";
}

ListProgram::Access lane0(Order order = Order::weak, Scope scope = Scope::gpu) {
  ListProgram::Access access;
  access.lanes = ListProgram::only(0);
  access.order = order;
  access.scope = scope;
  return access;
}

ListProgram::Address at(std::uint64_t address) { return ListProgram::linear(address, 0); }

// Both CTAs run one program; what is for one of them is masked out in the other.
ListProgram::Access only_cta(std::uint64_t cta, ListProgram::Access access) {
  access.lanes = [cta](const Warp& warp) { return warp.place.cta == cta ? 1U : 0U; };
  return access;
}

// So many atomics on one word that what follows to the same slice, from the same GPC, waits in the crossbar behind
// them.
void jam(ListProgram& program, ListProgram::Address word) {
  for (int i = 0; i < 12; ++i) {
    ListProgram::Access access;
    access.order = Order::relaxed;
    program.atomic(access, AtomicKind::add, ValueType::u32, kNoRegister, ListProgram::constant(1), word);
  }
}

// A line of the slice that holds `address`, far from what the tests use.
std::uint64_t neighbour(const GpuLab& lab, std::uint64_t address) {
  const heddle::gpu::GpuParams& params = lab.gpu.params();
  const heddle::arch::AddressMap map(params.machine.memory, params.l2.slices, params.l2.partitions);
  std::uint64_t line = 0x200000;
  while (map.slice_of(line) != map.slice_of(address)) line += 128;
  return line;
}

void wait_cycles(ListProgram& program, std::uint32_t cycles) {
  if (cycles > 0) program.compute(Unit::fp32, cycles);
}

void spin_until_one(ListProgram& program, std::uint64_t flag, std::uint16_t reg, Order order, Scope scope) {
  const std::uint32_t again = program.here();
  program.load(lane0(order, scope), reg, at(flag));
  program.branch(again, [reg](const Warp& warp) { return warp.reg(reg, 0) == 0; }, {{reg, 1}});
}

struct Message {
  Order release = Order::release;  // of the fence before the flag; weak: none
  Order acquire = Order::acquire;  // of the fence behind the flag; weak: none
  Scope scope = Scope::gpu;
  bool by_atomic = false;  // the flag carries the orders itself
  bool jammed = false;     // the data's way is slow
};

// CTA 0 writes data, then the flag; the other has an old copy of the data, sees the flag, and reads the data again.
std::uint32_t message_passing(const std::string& mode, const Message& message, std::uint32_t skew, std::uint64_t data,
                              std::uint64_t flag) {
  SimFixture sim;
  GpuLab lab(preset_params("small", {set_mode(mode), "gpu.l2.queue=2"}));
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  const auto consumer = [&] {
    p.load(lane0(), 0, at(data));
    wait_cycles(p, 1);
    p.set(1, ListProgram::constant(0), {{0, 1}});
    p.store(lane0(Order::relaxed), ListProgram::constant(1), at(kOut + 4 * kShift));  // ready
    if (message.by_atomic) {
      const std::uint32_t again = p.here();
      p.atomic(lane0(message.acquire, message.scope), AtomicKind::add, ValueType::u32, 1, ListProgram::constant(0),
               at(flag));
      p.branch(again, [](const Warp& warp) { return warp.reg(1, 0) == 0; }, {{1, 1}});
    } else {
      spin_until_one(p, flag, 1, Order::relaxed, Scope::gpu);
      if (message.acquire != Order::weak) p.fence(message.acquire, message.scope);
    }
    p.load(lane0(), 2, at(data));
    p.store(lane0(), ListProgram::of_register(2), at(kOut), {{2, 1}});
    p.exit();
  };
  const auto producer = [&] {
    spin_until_one(p, kOut + 4 * kShift, 3, Order::relaxed, Scope::gpu);
    wait_cycles(p, skew);
    if (message.jammed) jam(p, at(neighbour(lab, data)));
    p.store(lane0(), ListProgram::constant(1), at(data));
    if (message.by_atomic) {
      p.atomic(lane0(message.release, message.scope), AtomicKind::exchange, ValueType::u32, kNoRegister,
               ListProgram::constant(1), at(flag));
    } else {
      if (message.release != Order::weak) p.fence(message.release, message.scope);
      p.store(lane0(Order::relaxed), ListProgram::constant(1), at(flag));
    }
    p.exit();
  };
  // One program: the consumer jumps over the producer's part, whose length is found by building it once.
  const ListProgram empty = p;
  producer();
  const std::uint32_t length = p.here();
  p = empty;
  const std::uint32_t consumer_at = length + 3;
  p.branch(3, [](const Warp& warp) { return warp.place.cta == 0; }, {});
  p.branch(consumer_at, [](const Warp& warp) { return warp.place.cta == kOther; }, {});
  p.exit();
  producer();
  HEDDLE_CHECK(p.here() == consumer_at, "the producer's part has another length");
  consumer();
  lab.run(program, {kCtas, 1, 1}, {32, 1, 1});
  REQUIRE(lab.host.results.size() == 1);
  return lab.read<std::uint32_t>(kOut);
}

// Results of message passing over offsets in time and places of data and flag.
std::set<std::uint32_t> messages(const std::string& mode, const Message& message) {
  std::set<std::uint32_t> seen;
  for (const std::uint32_t skew : {0U, 1U, 7U, 40U, 150U, 400U}) {
    for (const std::uint64_t distance : {128U, 256U, 384U, 1024U, 4096U}) {
      seen.insert(message_passing(mode, message, skew, 0x40000, 0x40000 + distance));
    }
  }
  return seen;
}

using Seen = std::set<std::uint32_t>;

}  // namespace

TEST_CASE("message passing: release and acquire carry the data over", "[system][MEM-06]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt", kCopies[0], kCopies[1], kCopies[2]);
  const Scope scope = GENERATE(Scope::cluster, Scope::gpu, Scope::system);
  const bool by_atomic = GENERATE(false, true);
  CAPTURE(mode, static_cast<int>(scope), by_atomic);
  CHECK(messages(mode, {Order::release, Order::acquire, scope, by_atomic}) == Seen{1});
}

TEST_CASE("message passing: without an acquire of the right scope an old copy is read", "[system][MEM-06]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt", kCopies[0], kCopies[1], kCopies[2]);
  CAPTURE(mode);
  CHECK(messages(mode, {Order::release, Order::weak, Scope::gpu, false}) == Seen{0});
  CHECK(messages(mode, {Order::release, Order::acquire, Scope::cta, false}) == Seen{0});
}

TEST_CASE("message passing: without a release the flag can overtake the data", "[system][MEM-06]") {
  // The consumer's atomic acquires: a fence behind the flag would take longer than the data's slow way.
  CHECK(messages("at", {Order::weak, Order::acquire, Scope::gpu, true, true}).count(0) == 1);
  // The same way with a release.
  CHECK(messages("at", {Order::release, Order::acquire, Scope::gpu, true, true}) == Seen{1});
  CHECK(messages("at", {Order::release, Order::acquire, Scope::gpu, false, true}) == Seen{1});
}

TEST_CASE("an acquire fence waits for the read before it, whoever uses its value", "[system][MEM-06]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt", kCopies[0], kCopies[1], kCopies[2]);
  CAPTURE(mode);
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  for (std::uint64_t line = 1; line <= 8; ++line) {
    for (std::uint32_t skew = 1; skew <= 4000; skew += 97) {
      SimFixture sim;
      GpuLab lab(preset_params("small", {set_mode(mode), "gpu.l2.queue=2"}));
      const std::uint64_t data = 0x40000;
      const std::uint64_t flag = data + 128 * line;
      auto program = std::make_shared<ListProgram>(2);
      ListProgram& p = *program;
      p.branch(6, [](const Warp& warp) { return warp.place.cta != 0; }, {});
      p.compute(Unit::fp32, 3000);
      p.store(lane0(), ListProgram::constant(1), at(data));
      p.fence(Order::release, Scope::gpu);
      p.store(lane0(Order::relaxed), ListProgram::constant(1), at(flag));
      p.exit();
      p.compute(Unit::fp32, skew);
      // The flag's way is slow, that of the data is not.
      for (int i = 0; i < 2; ++i) jam(p, at(neighbour(lab, flag)));
      p.load(lane0(Order::relaxed), 0, at(flag));
      p.fence(Order::acquire, Scope::gpu);
      p.load(lane0(), 1, at(data));
      p.store(only_cta(kOther, lane0()), ListProgram::of_register(0), at(kOut), {{0, 1}});
      p.store(only_cta(kOther, lane0()), ListProgram::of_register(1), at(kOut + 4), {{1, 1}});
      p.exit();
      lab.run(program, {kCtas, 1, 1}, {32, 1, 1});
      seen.emplace(lab.read<std::uint32_t>(kOut), lab.read<std::uint32_t>(kOut + 4));
    }
  }
  CHECK(seen.count({1, 0}) == 0);  // the flag, and not what was written before it
  CHECK(seen.count({1, 1}) == 1);
  CHECK(seen.count({0, 0}) == 1);
}

namespace {

// Each of two CTAs writes its own variable and reads the other's. Returns what both have read.
std::pair<std::uint32_t, std::uint32_t> store_buffering(const std::string& mode, bool fences, Scope scope,
                                                        std::uint64_t x, std::uint64_t y, std::uint32_t skew) {
  SimFixture sim;
  GpuLab lab(preset_params("small", {set_mode(mode), "gpu.l2.queue=2"}));
  auto program = std::make_shared<ListProgram>(2);
  ListProgram& p = *program;
  const std::uint64_t jam_x = neighbour(lab, x);
  const std::uint64_t jam_y = neighbour(lab, y);
  const auto mine = [=](const Warp& warp, std::uint32_t) { return warp.place.cta == 0 ? x : y; };
  const auto other = [=](const Warp& warp, std::uint32_t) { return warp.place.cta == 0 ? y : x; };
  p.branch(2, [](const Warp& warp) { return warp.place.cta != 1; }, {});
  p.exit();
  // Both meet, so that the offset in time is the skew.
  p.atomic(lane0(Order::relaxed), AtomicKind::add, ValueType::u32, kNoRegister, ListProgram::constant(1),
           at(kOut + 4 * kShift));
  const std::uint32_t again = p.here();
  p.load(lane0(Order::relaxed), 0, at(kOut + 4 * kShift));
  p.branch(again, [](const Warp& warp) { return warp.reg(0, 0) < 2; }, {{0, 1}});
  const std::uint32_t skip = p.here() + 2;
  p.branch(skip, [](const Warp& warp) { return warp.place.cta == 0; }, {});
  p.compute(Unit::fp32, 1 + skew);
  jam(p, [=](const Warp& warp, std::uint32_t) { return warp.place.cta == 0 ? jam_x : jam_y; });
  p.store(lane0(Order::relaxed), ListProgram::constant(1), mine);
  if (fences) p.fence(Order::acquire_release, scope);
  p.load(lane0(Order::relaxed), 1, other);
  p.store(lane0(), ListProgram::of_register(1),
          [](const Warp& warp, std::uint32_t) { return kOut + kShift * warp.place.cta; }, {{1, 1}});
  p.exit();
  lab.run(program, {kCtas, 1, 1}, {32, 1, 1});
  REQUIRE(lab.host.results.size() == 1);
  return {lab.read<std::uint32_t>(kOut), lab.read<std::uint32_t>(kOut + kShift * kOther)};
}

bool both_zero_seen(const std::string& mode, bool fences, Scope scope) {
  bool seen = false;
  for (std::uint64_t line = 1; line <= 12; ++line) {
    for (const std::uint32_t skew : {0U, 3U, 20U, 60U}) {
      const auto read = store_buffering(mode, fences, scope, 0x40000, 0x40000 + 128 * line, skew);
      seen = seen || (read.first == 0 && read.second == 0);
    }
  }
  return seen;
}

}  // namespace

TEST_CASE("store buffering: with fences one of the two sees the other's store", "[system][MEM-06]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt", kCopies[0], kCopies[1], kCopies[2]);
  const Scope scope = GENERATE(Scope::cluster, Scope::gpu, Scope::system);
  CAPTURE(mode, static_cast<int>(scope));
  CHECK_FALSE(both_zero_seen(mode, true, scope));
}

TEST_CASE("store buffering: without fences both can miss", "[system][MEM-06]") {
  CHECK(both_zero_seen("at", false, Scope::gpu));
}

TEST_CASE("load buffering: what others write behind a barrier is not seen by a load in front of it",
          "[system][MEM-06][CGA-13]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt", kCopies[0], kCopies[1], kCopies[2]);
  const bool warm = GENERATE(true, false);  // the reader's L1 has the line already
  CAPTURE(mode, warm);
  for (std::uint32_t skew = 0; skew <= 60; skew += 4) {
    SimFixture sim;
    GpuLab lab(preset_params("small", {set_mode(mode)}));
    auto program = std::make_shared<ListProgram>(2);
    ListProgram& p = *program;
    const auto only_rank = [](std::uint32_t rank) {
      ListProgram::Access access;
      access.lanes = [rank](const Warp& warp) { return warp.place.rank == rank ? ~0U : 0U; };
      return access;
    };
    if (warm) p.load(ListProgram::Access{}, 1, ListProgram::linear(0x40000, 4));
    p.compute(Unit::fp32, 2000);
    wait_cycles(p, skew);
    // Whole lines by all lanes: nobody waits for the registers before the barrier.
    p.load(ListProgram::Access{}, 0, ListProgram::linear(0x40000, 4));
    p.cluster_arrive();
    p.cluster_wait();
    p.store(only_rank(1), ListProgram::constant(7), ListProgram::linear(0x40000, 4));
    p.store(only_rank(0), ListProgram::of_register(0), ListProgram::linear(kOut, 4), {{0, 1}});
    p.exit();
    lab.run(program, {2, 1, 1}, {32, 1, 1}, 0, clusters_of(2));
    for (std::uint32_t lane = 0; lane < 32; ++lane) REQUIRE(lab.read<std::uint32_t>(kOut + 4 * lane) == 0);
    REQUIRE(lab.read<std::uint32_t>(0x40000 + 4 * 31) == 7);
  }
}

TEST_CASE("strong reads of one address never go back in time", "[system][MEM-06]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt", kCopies[0], kCopies[1], kCopies[2]);
  CAPTURE(mode);
  SimFixture sim;
  GpuLab lab(preset_params("small", {set_mode(mode)}));
  constexpr std::uint32_t kReads = 200;
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  // CTA 0 counts upwards, the others look.
  const std::size_t loop = p.loop(kReads);
  p.store(
      only_cta(0, lane0(Order::relaxed)), [=](const Warp& warp, std::uint32_t) { return warp.count(loop) + 1; },
      at(0x40000));
  p.load(lane0(Order::relaxed), 0, at(0x40000));
  p.store(lane0(), ListProgram::of_register(0),
          [=](const Warp& warp, std::uint32_t) { return 0x50000 + 4 * (warp.place.cta * kReads + warp.count(loop)); },
          {{0, 1}});
  p.end_loop();
  p.exit();
  lab.run(program, {8, 1, 1}, {32, 1, 1});
  std::uint32_t most = 0;
  for (std::uint32_t cta = 0; cta < 8; ++cta) {
    std::uint32_t last = 0;
    for (std::uint32_t i = 0; i < kReads; ++i) {
      const auto value = lab.read<std::uint32_t>(0x50000 + 4 * (cta * kReads + i));
      REQUIRE(value >= last);
      last = value;
      if (cta == 0) REQUIRE(value >= i + 1);  // its own stores
      if (cta > 0) most = std::max(most, value);
    }
  }
  CHECK(most > 1);  // the others did see it count
}

TEST_CASE("a kernel sees what the one before it wrote", "[system][MEM-06]") {
  const std::string mode = GENERATE(as<std::string>{}, "at", "fast", "lt", kCopies[0], kCopies[1], kCopies[2]);
  CAPTURE(mode);
  SimFixture sim;
  GpuLab lab(preset_params("small", {set_mode(mode)}));
  // Every SM has an old copy of the line in its L1; then one CTA writes it; then all read again.
  const auto reader = [](std::uint64_t out) {
    auto program = std::make_shared<ListProgram>(1);
    program->load(lane0(), 0, at(0x40000));
    program->store(lane0(), ListProgram::of_register(0),
                   [out](const Warp& warp, std::uint32_t) { return out + 4 * warp.place.cta; }, {{0, 1}});
    program->exit();
    return program;
  };
  auto writer = std::make_shared<ListProgram>(1);
  writer->store(lane0(), ListProgram::constant(77), at(0x40000));
  writer->exit();
  lab.submit(reader(0x50000), {40, 1, 1}, {32, 1, 1});
  lab.submit(writer, {1, 1, 1}, {32, 1, 1});
  lab.submit(reader(0x60000), {40, 1, 1}, {32, 1, 1});
  run_until_idle();
  for (std::uint32_t cta = 0; cta < 40; ++cta) {
    CHECK(lab.read<std::uint32_t>(0x50000 + 4 * cta) == 0);
    CHECK(lab.read<std::uint32_t>(0x60000 + 4 * cta) == 77);
  }
}

}  // namespace system_memory_model_test
