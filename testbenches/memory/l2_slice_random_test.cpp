#include "arch/gpu_observation.h"
#include "memory/l2_bench.h"

namespace heddle::test::memory_l2_slice_random_test {
namespace {

using protocol::MemoryAction;

constexpr std::uint32_t kLines = 40;

// What to do, and what must come back.
struct Step {
  MemoryAction action = MemoryAction::plain;
  bool write = false;
  std::uint64_t address = 0;
  std::uint32_t bytes = 1;
  std::array<std::uint8_t, 128> data{};
  std::vector<std::uint8_t> enables;
  arch::AtomicKind atomic = arch::AtomicKind::add;
  std::uint32_t value_bytes = 4;
  std::vector<protocol::AtomicLane> lanes;
  std::uint8_t sectors = 0;
  std::array<std::uint8_t, 128> read{};
  std::vector<std::uint64_t> old;

  bool enabled(std::uint32_t i) const { return enables.empty() || enables[i] != 0; }

  protocol::MemoryRequest& request(protocol::RequestPool& pool) const {
    protocol::MemoryRequest& result = pool.acquire();
    const bool plain = action == MemoryAction::plain;
    result.aim(!plain  ? tlm::TLM_IGNORE_COMMAND
               : write ? tlm::TLM_WRITE_COMMAND
                       : tlm::TLM_READ_COMMAND,
               address, bytes);
    result.data = data;
    result.extension.action = action;
    if (action == MemoryAction::prefetch) result.extension.sectors = sectors;
    if (!enables.empty()) std::copy(enables.begin(), enables.end(), result.use_enables());
    result.extension.atomic = atomic;
    result.extension.type = value_bytes == 4 ? arch::ValueType::u32 : arch::ValueType::u64;
    result.extension.lanes = static_cast<std::uint8_t>(lanes.size());
    std::copy(lanes.begin(), lanes.end(), result.extension.lane.begin());
    return result;
  }

  void apply(std::vector<std::uint8_t>& flat) {
    if (action == MemoryAction::plain) {
      read = data;
      for (std::uint32_t i = 0; i < bytes; ++i) {
        if (!enabled(i)) continue;
        if (write) flat[address + i] = data[i];
        if (!write) read[i] = flat[address + i];
      }
    }
    for (const protocol::AtomicLane& lane : lanes) {
      std::uint64_t value = 0;
      std::memcpy(&value, &flat[address + lane.offset], value_bytes);
      old.push_back(value);
      if (atomic == arch::AtomicKind::add) value += lane.operand;
      if (atomic == arch::AtomicKind::exchange) value = lane.operand;
      if (atomic == arch::AtomicKind::compare_exchange && value == lane.compare) value = lane.operand;
      std::memcpy(&flat[address + lane.offset], &value, value_bytes);
    }
  }
  void check(const protocol::MemoryRequest& request) const {
    REQUIRE(request.get_response_status() == tlm::TLM_OK_RESPONSE);
    if (action == MemoryAction::plain && !write) REQUIRE(request.data == read);
    if (action != MemoryAction::atomic) return;
    for (std::size_t i = 0; i < old.size(); ++i) REQUIRE(request.extension.lane[i].old == old[i]);
  }
};

Step random_step(Random& dice) {
  Step step;
  const std::uint64_t line = std::uint64_t{dice.below(kLines)} * 128;
  step.address = line;
  const std::uint32_t what = dice.below(100);
  if (what < 1) {
    step.action = MemoryAction::write_back;
  } else if (what < 8) {
    step.action = MemoryAction::prefetch;
    step.sectors = static_cast<std::uint8_t>(dice.between(1, 15));
  } else if (what < 28) {
    step.action = dice.chance(50) ? MemoryAction::atomic : MemoryAction::reduce;
    step.value_bytes = dice.chance(50) ? 4 : 8;
    step.atomic = std::array{arch::AtomicKind::add, arch::AtomicKind::exchange,
                             arch::AtomicKind::compare_exchange}[dice.below(3)];
    const std::uint64_t mask = step.value_bytes == 4 ? 0xFFFF'FFFF : ~std::uint64_t{0};
    for (std::uint32_t i = dice.below(33); i-- > 0;) {
      const std::uint32_t offset = dice.below(128 / step.value_bytes) * step.value_bytes;
      step.lanes.push_back({dice.next() & mask, dice.chance(50) ? 0 : dice.next() & mask, 0,
                            static_cast<std::uint8_t>(offset), static_cast<std::uint8_t>(i)});
    }
  } else {
    step.write = dice.chance(50);
    const std::uint32_t offset = dice.chance(50) ? dice.below(4) * 32 : dice.below(128);
    step.address += offset;
    step.bytes = dice.chance(50) ? std::min(32U, 128 - offset) : dice.between(1, 128 - offset);
    for (auto& byte : step.data) byte = static_cast<std::uint8_t>(dice.next());
    if (dice.chance(25)) {
      for (std::uint32_t i = 0; i < step.bytes; ++i) step.enables.push_back(dice.chance(50) ? 0xFF : 0);
    }
  }
  return step;
}

struct Script {
  Script(std::uint64_t seed, std::uint32_t steps_) : initial(L2Bench::kBytes) {
    Random dice(seed);
    for (auto& byte : initial) byte = static_cast<std::uint8_t>(dice.next());
    flat = initial;
    for (std::uint32_t i = 0; i < steps_; ++i) {
      steps.push_back(random_step(dice));
      steps.back().apply(flat);
    }
  }
  std::vector<std::uint8_t> initial;
  std::vector<std::uint8_t> flat;  // afterwards
  std::vector<Step> steps;
};

void require_equal(const std::vector<std::uint8_t>& memory, const std::vector<std::uint8_t>& flat) {
  const auto differs = std::mismatch(flat.begin(), flat.end(), memory.begin());
  CAPTURE(differs.first - flat.begin());
  REQUIRE((differs.first == flat.end()));
}

}  // namespace

TEST_CASE("an L2 slice under back-pressure from all sides is a flat memory", "[memory][MEM-01][SM-04]") {
  for (const std::uint64_t seed : seeds(8)) {
    CAPTURE(seed);
    Script script(seed, 2500);
    L2Params params = tiny_l2();
    if (seed % 2 == 0) params.queue = 64, params.mshrs = 16, params.waiters = 32, params.write_buffer = 8;
    if (seed % 4 == 3) params.tag_latency = params.memory_latency = params.data_latency = 0;
    if (seed % 4 == 1) params.queue = 1, params.responses = 1;
    Random dice(seed + 1000);
    L2Bench bench(params);
    bench.memory.bytes = script.initial;
    bench.memory.latency = [&] { return Cycle{dice.chance(20) ? dice.below(400) : dice.below(40)}; };
    bench.memory.withhold = [&] { return Cycle{dice.chance(60) ? 0 : dice.below(60)}; };
    bench.initiator.hold = [&](protocol::MemoryRequest&) { return Cycle{dice.chance(60) ? 0 : dice.below(120)}; };
    std::uint32_t answered = 0;
    Cycle last = 0;
    bench.initiator.on_response = [&](protocol::MemoryRequest& request, Cycle arrival) {
      REQUIRE(arrival >= last);
      last = arrival;
      script.steps[request.extension.entry].check(request);
      ++answered;
    };
    for (std::uint32_t i = 0; i < script.steps.size(); ++i) {
      auto& request = script.steps[i].request(bench.pool);
      request.extension.entry = i;
      bench.initiator.send(request, dice.chance(10) ? bench.domain.now() + dice.below(200) : bench.domain.now());
    }
    run_until_idle();
    REQUIRE(answered == script.steps.size());
    CHECK(bench.pool.in_use() == 0);
    for (std::uint32_t i = 0; i < 64; ++i) {
      const std::uint64_t address = dice.below(kLines * 128);
      REQUIRE(bench.debug_byte(address) == script.flat[address]);
    }
    auto& flush = bench.action(MemoryAction::write_back, 0);
    flush.extension.entry = static_cast<std::uint32_t>(script.steps.size());
    script.steps.emplace_back();
    script.steps.back().action = MemoryAction::write_back;
    bench.initiator.send(flush, bench.domain.now());
    run_until_idle();
    REQUIRE(answered == script.steps.size());
    require_equal(bench.memory.bytes, script.flat);
    CHECK(bench.stat("merges") > 0);
    CHECK(bench.stat("requests") == script.steps.size());
    WaitGraph graph;
    bench.slice.collect_waits(graph);
    CHECK(graph.empty());
  }
}

TEST_CASE("loosely timed, an L2 slice gives the same answers and the same memory", "[memory][MEM-01][HST-03]") {
  for (const std::uint64_t seed : seeds(4)) {
    CAPTURE(seed);
    const Script script(seed, 2500);
    L2Bench bench(tiny_l2(), TimingMode::lt);
    bench.memory.bytes = script.initial;
    const std::uint64_t events = bench.domain.events_executed();
    const auto transport = [&](protocol::MemoryRequest& request) {
      sc_core::sc_time delay;
      bench.initiator.out.blocking(request, delay);
      CHECK(delay >= bench.domain.clock().period() * 102);
      return delay;
    };
    for (const Step& step : script.steps) {
      auto& request = step.request(bench.pool);
      transport(request);
      step.check(request);
      request.release();
    }
    auto& flush = bench.action(MemoryAction::write_back, 0);
    transport(flush);
    flush.release();
    require_equal(bench.memory.bytes, script.flat);
    auto& miss = bench.read(63 * 128, 128);
    CHECK(transport(miss) == bench.domain.clock().period() * (34 + 10 + 10 + 68));
    CHECK(transport(miss) == bench.domain.clock().period() * 102);
    miss.release();
    CHECK(bench.domain.events_executed() == events);
    CHECK(bench.pool.in_use() == 0);
  }
}

TEST_CASE("blocking and debugging accesses among others keep the memory whole", "[memory][MEM-01][HST-02]") {
  for (const std::uint64_t seed : seeds(4)) {
    CAPTURE(seed);
    Script script(seed, 1500);
    Random dice(seed + 2000);
    L2Bench bench(tiny_l2());
    bench.memory.bytes = script.initial;
    bench.memory.latency = [&] { return Cycle{dice.below(300)}; };
    // The script works on lines 0 … 39; blocking accesses on the lines from there on, in the same sets.
    std::vector<std::uint8_t> flat = script.flat;
    std::uint32_t answered = 0;
    bench.initiator.on_response = [&](protocol::MemoryRequest& request, Cycle) {
      script.steps[request.extension.entry].check(request);
      ++answered;
      const std::uint64_t address = kLines * 128 + dice.below((64 - kLines) * 128 - 32);
      const std::uint32_t bytes = std::min(dice.between(1, 32), static_cast<std::uint32_t>(128 - address % 128));
      const bool write = dice.chance(50);
      auto& other =
          write ? bench.write(address, bytes, static_cast<std::uint8_t>(dice.next())) : bench.read(address, bytes);
      if (dice.chance(50)) {
        sc_core::sc_time delay;
        bench.initiator.out.blocking(other, delay);
        REQUIRE(other.is_response_ok());
      } else {
        REQUIRE(bench.initiator.out.debug(other) == bytes);
      }
      if (write) std::copy_n(other.data.begin(), bytes, &flat[address]);
      REQUIRE(std::equal(other.data.begin(), other.data.begin() + bytes, &flat[address]));
      other.release();
    };
    for (std::uint32_t i = 0; i < script.steps.size(); ++i) {
      auto& request = script.steps[i].request(bench.pool);
      request.extension.entry = i;
      bench.initiator.send(request, bench.domain.now());
    }
    run_until_idle();
    REQUIRE(answered == script.steps.size());
    bench.initiator.on_response = nullptr;
    bench.initiator.send(bench.action(MemoryAction::write_back, 0), bench.domain.now());
    run_until_idle();
    require_equal(bench.memory.bytes, flat);
  }
}

TEST_CASE("a slice that is reset in mid-flight begins anew", "[memory][MEM-01]") {
  for (const std::uint64_t seed : seeds(10)) {
    CAPTURE(seed);
    Random dice(seed);
    L2Bench bench(tiny_l2());
    bench.memory.latency = [&] { return Cycle{dice.below(100)}; };
    bench.initiator.hold = [&](protocol::MemoryRequest&) { return Cycle{dice.chance(50) ? 0 : dice.below(60)}; };
    Script first(seed, 400);
    for (const Step& step : first.steps) bench.initiator.send(step.request(bench.pool), bench.domain.now());
    run_until(sc_core::sc_time(dice.between(1, 4000), sc_core::SC_NS));
    bench.domain.reset();
    Script second(seed + 77, 400);
    bench.memory.bytes = second.initial;  // what was cached of the old contents must be gone
    std::uint32_t answered = 0;
    bench.initiator.on_response = [&](protocol::MemoryRequest& request, Cycle) {
      second.steps[request.extension.entry].check(request);
      ++answered;
    };
    for (std::uint32_t i = 0; i < second.steps.size(); ++i) {
      auto& request = second.steps[i].request(bench.pool);
      request.extension.entry = i;
      bench.initiator.send(request, bench.domain.now());
    }
    run_until_idle();
    REQUIRE(answered == second.steps.size());
  }
}

TEST_CASE("80 slices share out the cache and its lines", "[memory][MEM-01]") {
  SimFixture fixture;
  GpuObservation observation{"gpu0"};
  Domain domain("domain", 1.0, TimingMode::lt, 1000, observation);
  L2Params params;
  const arch::AddressMap map(80ULL << 30, params.slices, params.partitions);
  CHECK(std::uint64_t{params.lines_per_slice()} * params.slices * 128 <= params.bytes);
  CHECK(params.lines_per_slice() % params.ways == 0);
  // Consecutive lines of one slice, as many as it has, fill every set to the brim.
  L2Slice slice("slice", domain, "l2.slice7", params, map, 7);
  TestInitiator initiator("initiator", domain);
  ScatterMemory memory("memory", domain, 128);
  initiator.out.bind(slice.request_in);
  slice.memory_out.bind(memory.in);
  start();
  protocol::RequestPool pool;
  std::uint64_t written = 0;
  for (std::uint64_t line = 0; written < params.lines_per_slice(); ++line) {
    if (map.slice_of(line * 128) != 7) continue;
    auto& request = pool.acquire();
    request.aim(tlm::TLM_WRITE_COMMAND, line * 128, 128);
    sc_core::sc_time delay;
    initiator.out.blocking(request, delay);
    REQUIRE(request.is_response_ok());
    request.release();
    ++written;
  }
  CHECK(memory.writes == 0);
}

}  // namespace heddle::test::memory_l2_slice_random_test
