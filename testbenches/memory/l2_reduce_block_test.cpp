// Reductions of a TMAU: the data of a line, element by element.
#include <array>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tensor_data.h"
#include "memory/l2_bench.h"

namespace heddle::test::memory_l2_reduce_block_test {
namespace {

using arch::AtomicKind;
using arch::ValueType;
using protocol::MemoryAction;
using protocol::MemoryRequest;

constexpr AtomicKind kKinds[] = {AtomicKind::add,    AtomicKind::min,     AtomicKind::max,       AtomicKind::bit_and,
                                 AtomicKind::bit_or, AtomicKind::bit_xor, AtomicKind::increment, AtomicKind::decrement};
constexpr ValueType kTypes[] = {ValueType::f16, ValueType::bf16, ValueType::u32, ValueType::s32,
                                ValueType::f32, ValueType::u64,  ValueType::s64, ValueType::f64};

// One element, as the atomics of its type have it: halves come in pairs there.
void reduce_one(AtomicKind kind, ValueType type, const std::uint8_t* from, std::uint8_t* to) {
  const std::uint32_t bytes = arch::bytes_of(type);
  ValueType as = type;
  if (type == ValueType::f16) as = ValueType::f16x2;
  if (type == ValueType::bf16) as = ValueType::bf16x2;
  std::uint64_t old = 0;
  std::uint64_t operand = 0;
  std::memcpy(&old, to, bytes);
  std::memcpy(&operand, from, bytes);
  const std::uint64_t result = arch::atomic_result(kind, as, old, operand, 0);
  std::memcpy(to, &result, bytes);
}

// Reductions of all kinds among reads and writes of the same lines, and what must come of them.
class Mix {
 public:
  Mix(L2Bench& bench, Random& random) : bench_(bench), random_(random), expected_(L2Bench::kBytes) {
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      // Floats of a middling size: sums neither overflow nor vanish.
      expected_[i] = bench_.memory.bytes[i] = static_cast<std::uint8_t>(i % 2 == 0 ? random_.below(256) : 0x3C);
    }
  }

  MemoryRequest& next() { return random_.chance(70) ? reduction() : plain(); }
  void compare() {
    for (std::uint64_t i = 0; i < L2Bench::kBytes; ++i) REQUIRE(bench_.debug_byte(i) == expected_[i]);
  }

 private:
  MemoryRequest& reduction() {
    AtomicKind kind = kKinds[random_.below(8)];
    ValueType type = kTypes[random_.below(8)];
    while (!arch::reduction_exists(kind, type, false)) {
      kind = kKinds[random_.below(8)];
      type = kTypes[random_.below(8)];
    }
    const std::uint32_t width = arch::bytes_of(type);
    const std::uint32_t first = random_.chance(50) ? 0 : random_.below(128 / width);
    const std::uint32_t count = random_.chance(50) ? 128 / width - first : random_.between(1, 128 / width - first);
    const std::uint64_t address = random_.below(L2Bench::kBytes / 128) * std::uint64_t{128} + first * width;
    MemoryRequest& request = bench_.reduce_block(address, count * width, kind, type);
    std::uint8_t* enables = random_.chance(60) ? request.use_enables() : nullptr;
    for (std::uint32_t i = 0; i < count * width; ++i) {
      request.data[i] = static_cast<std::uint8_t>(i % 2 == 0 ? random_.below(256) : 0x3C);
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      const bool enabled = enables == nullptr || random_.chance(60);
      if (enables != nullptr) std::memset(enables + i * width, enabled ? TLM_BYTE_ENABLED : TLM_BYTE_DISABLED, width);
      if (enabled) reduce_one(kind, type, &request.data[i * width], &expected_[address + i * width]);
    }
    return request;
  }
  MemoryRequest& plain() {
    const std::uint32_t first = random_.below(128);
    const std::uint32_t bytes = random_.between(1, 128 - first);
    const std::uint64_t address = random_.below(L2Bench::kBytes / 128) * std::uint64_t{128} + first;
    if (random_.chance(50)) return bench_.read(address, bytes);
    MemoryRequest& request = bench_.write(address, bytes, 0);
    for (std::uint32_t i = 0; i < bytes; ++i) {
      expected_[address + i] = request.data[i] =
          static_cast<std::uint8_t>((address + i) % 2 == 0 ? random_.below(256) : 0x3C);
    }
    return request;
  }

  L2Bench& bench_;
  Random& random_;
  std::vector<std::uint8_t> expected_;
};

// Cycles between the responses of several like requests to line 0.
template <class Make>
Cycle spacing(L2Bench& bench, Make&& make) {
  bench.answers.clear();
  bench.listen();
  bench.initiator.gap = 0;
  const Cycle begin = bench.domain.now();
  for (int i = 0; i < 3; ++i) bench.initiator.send(make(), begin);
  run_until_idle();
  REQUIRE(bench.answers.size() == 3);
  CHECK(bench.answers[1].arrival - bench.answers[0].arrival == bench.answers[2].arrival - bench.answers[1].arrival);
  return bench.answers[2].arrival - bench.answers[1].arrival;
}

L2Params roomy() {
  L2Params params = tiny_l2();
  params.bytes = 64 * 128;
  params.ways = 4;
  params.queue = 64;
  params.responses = 16;
  params.mshrs = 16;
  params.waiters = 32;
  return params;
}

}  // namespace

TEST_CASE("a block is reduced into its line, element by element", "[memory][TMA-07]") {
  for (const std::uint64_t seed : seeds(12)) {
    const bool blocking = seed % 3 == 0;
    CAPTURE(seed, blocking);
    Random random(seed);
    L2Bench bench(seed % 2 == 0 ? tiny_l2() : roomy(), blocking ? TimingMode::lt : TimingMode::at);
    bench.memory.latency = [&] { return Cycle{random.below(60)}; };
    Mix mix(bench, random);
    std::size_t answers = 0;
    std::size_t bad = 0;
    bench.initiator.on_response = [&](MemoryRequest& request, Cycle) {
      ++answers;
      bad += request.is_response_ok() ? 0 : 1;
    };
    for (int i = 0; i < 800; ++i) {
      MemoryRequest& request = mix.next();
      if (blocking) {
        CHECK(bench.now(request) == tlm::TLM_OK_RESPONSE);
        request.release();
      } else {
        bench.initiator.send(request, bench.domain.now());
      }
    }
    run_until_idle();
    CHECK(answers == (blocking ? 0 : 800));
    CHECK(bad == 0);
    mix.compare();
    CHECK(bench.stat("atomics") > 800);
    CHECK(bench.pool.in_use() == 0);
  }
}

TEST_CASE("a reduction of a block is one access, of so many values per cycle", "[memory][TMA-07][MEM-01]") {
  L2Bench bench(roomy());
  bench.memory.latency = [] { return Cycle{200}; };
  const auto add = [&](std::uint32_t bytes, ValueType type) -> MemoryRequest& {
    return bench.reduce_block(0, bytes, AtomicKind::add, type);
  };
  // It needs the old values: of its sectors alone.
  CHECK(bench.one(add(64, ValueType::u32)) == 34 + 10 + 200 + 68);
  CHECK(bench.stat("fills") == 2);
  CHECK(bench.one(add(64, ValueType::u32)) == 102);
  CHECK(bench.one(bench.read(0, 64)) == 102);
  bench.one(bench.read(0, 128));
  // 8 values per cycle; a pair of halves is one.
  const std::uint64_t before = bench.stat("atomics");
  CHECK(spacing(
            bench, [&]() -> auto& { return add(128, ValueType::u32); }) == 4);
  CHECK(bench.stat("atomics") - before == 3 * 32);
  CHECK(spacing(
            bench, [&]() -> auto& { return add(128, ValueType::f16); }) == 4);
  CHECK(bench.stat("atomics") - before == 6 * 32);
  CHECK(spacing(
            bench, [&]() -> auto& { return add(128, ValueType::f64); }) == 2);
  CHECK(spacing(
            bench, [&]() -> auto& { return add(36, ValueType::f32); }) == 2);
  CHECK(spacing(
            bench, [&]() -> auto& { return add(32, ValueType::f32); }) == 1);
  const auto holes = [&]() -> MemoryRequest& {
    MemoryRequest& request = add(128, ValueType::u32);
    std::memset(request.use_enables(), TLM_BYTE_DISABLED, 128);
    std::memset(request.enables.data() + 40, TLM_BYTE_ENABLED, 8);
    return request;
  };
  CHECK(spacing(bench, holes) == 1);
}

TEST_CASE("what a reduction leaves goes back to memory", "[memory][TMA-07]") {
  L2Bench bench(roomy());
  bench.memory.bytes[132] = 5;
  MemoryRequest& request = bench.reduce_block(128, 16, AtomicKind::add, ValueType::u32);
  request.data[4] = 37;
  CHECK(bench.status_of(request) == tlm::TLM_OK_RESPONSE);
  CHECK(bench.memory.bytes[132] == 5);
  CHECK(bench.debug_byte(132) == 42);
  bench.one(bench.action(MemoryAction::write_back, 0));
  CHECK(bench.memory.bytes[132] == 42);
  CHECK(bench.stat("write_backs") == 1);
}

TEST_CASE("wrong reductions are refused and change nothing", "[memory][TMA-07][MEM-05]") {
  for (const bool blocking : {false, true}) {
    CAPTURE(blocking);
    L2Bench bench(roomy(), blocking ? TimingMode::lt : TimingMode::at);
    const auto status_of = [&](MemoryRequest& request) {
      if (!blocking) return bench.status_of(request);
      const tlm::tlm_response_status status = bench.now(request);
      request.release();
      return status;
    };
    bench.memory.bytes.assign(bench.memory.bytes.size(), 7);
    const auto block = [&](std::uint64_t address, std::uint32_t bytes, AtomicKind kind,
                           ValueType type) -> MemoryRequest& {
      MemoryRequest& request = bench.reduce_block(address, std::min<std::uint32_t>(bytes, 128), kind, type);
      request.set_data_length(bytes);
      request.set_streaming_width(bytes);
      request.data.fill(1);
      return request;
    };
    const auto add = [&](std::uint64_t address, std::uint32_t bytes) -> MemoryRequest& {
      return block(address, bytes, AtomicKind::add, ValueType::u32);
    };
    CHECK(status_of(block(0, 16, AtomicKind::exchange, ValueType::u32)) == tlm::TLM_COMMAND_ERROR_RESPONSE);
    CHECK(status_of(block(0, 16, AtomicKind::compare_exchange, ValueType::u64)) == tlm::TLM_COMMAND_ERROR_RESPONSE);
    CHECK(status_of(block(0, 16, AtomicKind::add, ValueType::u8)) == tlm::TLM_COMMAND_ERROR_RESPONSE);
    CHECK(status_of(block(0, 16, AtomicKind::increment, ValueType::u64)) == tlm::TLM_COMMAND_ERROR_RESPONSE);
    CHECK(status_of(block(0, 16, AtomicKind::bit_or, ValueType::f32)) == tlm::TLM_COMMAND_ERROR_RESPONSE);
    CHECK(status_of(add(L2Bench::kBytes, 16)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
    CHECK(status_of(add(~std::uint64_t{15}, 32)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
    CHECK(status_of(add(112, 20)) == tlm::TLM_BURST_ERROR_RESPONSE);  // beyond the line
    CHECK(status_of(add(0, 256)) == tlm::TLM_BURST_ERROR_RESPONSE);
    CHECK(status_of(add(0, 0)) == tlm::TLM_BURST_ERROR_RESPONSE);
    CHECK(status_of(add(2, 16)) == tlm::TLM_BURST_ERROR_RESPONSE);  // no whole elements
    CHECK(status_of(add(4, 6)) == tlm::TLM_BURST_ERROR_RESPONSE);
    MemoryRequest& half = add(0, 16);
    std::memset(half.use_enables(), TLM_BYTE_ENABLED, 16);
    half.enables[6] = TLM_BYTE_DISABLED;
    CHECK(status_of(half) == tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
    MemoryRequest& nothing = add(0, 16);
    nothing.set_data_ptr(nullptr);
    CHECK(status_of(nothing) == tlm::TLM_GENERIC_ERROR_RESPONSE);
    for (std::uint64_t i = 0; i < 256; ++i) CHECK(bench.debug_byte(i) == 7);
    CHECK(bench.stat("atomics") == 0);
    bench.memory.refused[0] = true;
    CHECK(status_of(add(0, 16)) == tlm::TLM_GENERIC_ERROR_RESPONSE);  // memory's own
  }
}

}  // namespace heddle::test::memory_l2_reduce_block_test
