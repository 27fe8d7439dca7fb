#include "memory/l2_core.h"
#include "memory/l2_core_bench.h"

namespace heddle::test::memory_l2_core_random_test {
namespace {

L2Config with_rows(L2Config config, const arch::AddressMap& map) {
  config.map = &map;
  config.row_lines = 4;
  return config;
}

class RandomCore {
 public:
  RandomCore(std::uint64_t seed, const L2Config& config)
      : dice_(seed),
        core_(with_rows(config, map_), counts_),
        memory_(kCoreLines),
        flat_(kCoreLines * 128),
        busy_(kCoreLines, 0) {
    for (std::size_t i = 0; i < flat_.size(); ++i)
      flat_[i] = memory_.bytes[i] = static_cast<std::uint8_t>(dice_.next());
  }

  void run(std::uint32_t operations) {
    for (std::uint32_t i = 0; i < operations; ++i) {
      while (dice_.chance(45)) some_answer();
      if (dice_.chance(3)) {
        debug();
      } else if (dice_.chance(1)) {
        flush_and_compare();
      } else {
        const auto op = random_op();
        if (dice_.chance(5)) {
          at_once(*op);
        } else {
          serve(*op);
        }
      }
    }
    flush_and_compare();
    CHECK(core_.idle());
    CHECK(core_.mshrs().in_use() == 0);
  }
  const L2Counts& counts() const { return counts_; }

 private:
  L2Op* random_op() {
    ops_.push_back(std::make_unique<L2Op>());
    L2Op& op = *ops_.back();
    const std::uint64_t line = dice_.below(kCoreLines);
    const std::uint32_t what = dice_.below(100);
    if (what < 20) {
      op.atomic.action = protocol::MemoryAction::reduce;
      op.aim_atomic(line, {}, 0);
      op.atomic.action = dice_.chance(50) ? protocol::MemoryAction::atomic : protocol::MemoryAction::reduce;
      const std::uint32_t lanes = dice_.below(33);
      for (std::uint32_t i = 0; i < lanes; ++i) {
        const std::uint32_t offset = dice_.below(dice_.chance(50) ? 4 : 32) * 4;
        op.access.bytes = op.access.bytes | LineMask::range(offset, 4);
        op.atomic.lane[op.atomic.lanes++] = {dice_.next() & 0xFFFF'FFFF, 0, 0, static_cast<std::uint8_t>(offset), 0};
      }
      return &op;
    }
    if (what < 27) {
      op.access.kind = L2Access::Kind::prefetch;
      op.access.line = line;
      op.access.bytes = LineMask::sectors(dice_.between(1, 15));
      return &op;
    }
    std::uint32_t offset = dice_.below(128);
    std::uint32_t length = dice_.between(1, 128 - offset);
    if (dice_.chance(30)) offset = offset / 32 * 32, length = 32;
    op.aim(what < 60 ? L2Access::Kind::read : L2Access::Kind::write, line, offset, length);
    for (auto& byte : op.data) byte = static_cast<std::uint8_t>(dice_.next());
    if (dice_.chance(30)) {
      op.access.dense = false;
      op.access.bytes = op.access.bytes & LineMask{dice_.next(), dice_.next()};
    }
    return &op;
  }

  void serve(L2Op& op) {
    while (true) {
      const L2Core::Outcome outcome = core_.serve(op.access, &op);
      memory_.start(core_);
      if (outcome == L2Core::Outcome::stalled) {
        REQUIRE(!memory_.under_way.empty());
        some_answer();
        continue;
      }
      if (op.access.kind != L2Access::Kind::write_back) op.apply(flat_);
      if (outcome == L2Core::Outcome::done) {
        op.status = L2Core::kOk;
        op.done = true;
        op.check();
      } else {
        ++busy_[op.access.line];
      }
      return;
    }
  }

  // Done now; the order with others that wait for the line is not defined.
  void at_once(L2Op& op) {
    if (busy_[op.access.line] != 0) return;
    op.apply(flat_);
    op.status = core_.serve_blocking(op.access, memory_);
    op.check();
    memory_.start(core_);
    collect();
  }

  void debug() {
    const std::uint64_t line = dice_.below(kCoreLines);
    if (busy_[line] != 0) return;
    std::array<std::uint8_t, 128> image{};
    std::copy_n(&memory_.bytes[line * 128], 128, image.begin());
    core_.overlay(line, image.data());
    REQUIRE(std::equal(image.begin(), image.end(), &flat_[line * 128]));
    if (dice_.chance(50)) return;
    const std::uint32_t first = dice_.below(128);
    const LineMask range = LineMask::range(first, dice_.between(1, 128 - first));
    for (auto& byte : image) byte = static_cast<std::uint8_t>(dice_.next());
    const bool in_memory = dice_.chance(80);
    if (!core_.poke(line, image.data(), range, in_memory)) return;  // nothing has changed
    memory::copy_bytes(&flat_[line * 128], image.data(), range);
    if (in_memory) memory::copy_bytes(&memory_.bytes[line * 128], image.data(), range);
    for (auto& transfer : memory_.under_way) {
      if (transfer.command.line == line && transfer.command.is_write()) {
        memory::copy_bytes(transfer.data.data(), image.data(), range);
      }
    }
  }

  void some_answer() {
    if (memory_.under_way.empty()) return;
    const std::size_t count = memory_.under_way.size();
    memory_.perform(dice_.below(count));
    if (dice_.chance(30)) return;
    memory_.answer(dice_.below(count), core_);
    memory_.start(core_);
    collect();
  }

  void collect() {
    for (const L2Core::Served& served : core_.served()) {
      auto& op = *static_cast<L2Op*>(served.request);
      REQUIRE(!op.done);
      op.done = true;
      op.status = served.status;
      op.check();
      --busy_[op.access.line];
    }
    core_.served().clear();
  }

  void flush_and_compare() {
    while (std::any_of(busy_.begin(), busy_.end(), [](std::uint32_t n) { return n != 0; })) some_answer();
    ops_.clear();
    L2Op flushes[3];
    for (L2Op& op : flushes) {
      op.access.kind = L2Access::Kind::write_back;
      serve(op);
    }
    for (L2Op& op : flushes) {
      while (!op.done) some_answer();
      CHECK(op.status == L2Core::kOk);
    }
    const auto differs = std::mismatch(flat_.begin(), flat_.end(), memory_.bytes.begin());
    CAPTURE(differs.first - flat_.begin());
    REQUIRE((differs.first == flat_.end()));
    while (core_.mshrs().in_use() != 0) some_answer();
  }

  Random dice_;
  const arch::AddressMap map_{kCoreLines * 128, 1, 1};
  L2Counts counts_;
  L2Core core_;
  LooseMemory memory_;
  std::vector<std::uint8_t> flat_;
  std::vector<std::uint32_t> busy_;  // requests that wait, by line
  std::vector<std::unique_ptr<L2Op>> ops_;
};

}  // namespace

TEST_CASE("an L2 core is a flat memory, whatever order memory answers in", "[memory][MEM-01][SM-04]") {
  for (const std::uint64_t seed : seeds(12)) {
    CAPTURE(seed);
    L2Config config = tiny_core();
    if (seed % 3 == 1) config.mshrs = config.mshr_targets = 16, config.write_buffer = 8;
    if (seed % 3 == 2) config.lines = 6, config.slices = 5;  // sets: not a power of two, mostly two of the three
    RandomCore core(seed, config);
    core.run(4000);
    CHECK(core.counts().merges.value() > 0);
    CHECK(core.counts().hits.value() > 0);
    CHECK(core.counts().write_backs.value() > 0);
  }
}

TEST_CASE("lines of a row that go along change nothing but when they go", "[memory][MEM-01]") {
  std::uint64_t along = 0;
  for (const std::uint64_t seed : seeds(12)) {
    CAPTURE(seed);
    L2Config config = tiny_core();
    config.mshrs = config.mshr_targets = 16;
    config.write_buffer = 2 + seed % 8;
    config.eager_ways = 1 + seed % 2;
    config.fetch_sectors = 1U << seed % 3;
    RandomCore core(seed, config);
    core.run(4000);
    along += core.counts().written_along.value();
  }
  CHECK(along > 100);
}

}  // namespace heddle::test::memory_l2_core_random_test
