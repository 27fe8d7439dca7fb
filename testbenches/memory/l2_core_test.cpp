#include "memory/l2_core.h"

#include "memory/l2_core_bench.h"

namespace heddle::test::memory_l2_core_test {

TEST_CASE("a line mask knows its bytes and sectors", "[memory][MEM-01]") {
  for (std::uint32_t first = 0; first < 128; ++first) {
    for (std::uint32_t count = 1; first + count <= 128; ++count) {
      const LineMask mask = LineMask::range(first, count);
      bool right = true;
      for (std::uint32_t i = 0; i < 128; ++i) right = right && mask.test(i) == (i >= first && i < first + count);
      REQUIRE(right);
      const std::uint32_t last = (first + count - 1) / 32;
      REQUIRE(mask.touched() == (2U << last) - (1U << first / 32));
    }
  }
  for (std::uint32_t sectors = 0; sectors < 16; ++sectors) {
    REQUIRE(LineMask::sectors(sectors).touched() == sectors);
    for (std::uint32_t i = 0; i < 128; ++i)
      REQUIRE(LineMask::sectors(sectors).test(i) == ((sectors >> i / 32 & 1U) != 0));
  }
}

namespace {

struct Directed {
  explicit Directed(const L2Config& config = tiny_core()) : core(config, counts), memory(kCoreLines) {}

  L2Core::Outcome serve(L2Op& op) {
    const L2Core::Outcome outcome = core.serve(op.access, &op);
    memory.start(core);
    return outcome;
  }
  void answer_all() {
    while (!memory.under_way.empty()) {
      memory.answer(0, core);
      memory.start(core);
    }
    for (const L2Core::Served& served : core.served()) {
      static_cast<L2Op*>(served.request)->status = served.status;
      order.push_back(static_cast<L2Op*>(served.request));
    }
    core.served().clear();
  }

  L2Counts counts;
  L2Core core;
  LooseMemory memory;
  std::vector<L2Op*> order;
};

}  // namespace

TEST_CASE("misses to one line are fetched once and served in order", "[memory][MEM-01]") {
  Directed bench;
  L2Op read[3], write;
  for (L2Op& op : read) op.aim(L2Access::Kind::read, 5, 0, 32);
  read[1].aim(L2Access::Kind::read, 5, 64, 32);
  write.aim(L2Access::Kind::write, 5, 0, 32);
  write.data.fill(9);
  CHECK(bench.serve(read[0]) == L2Core::Outcome::waits);
  CHECK(bench.serve(write) == L2Core::Outcome::waits);  // not past the read
  CHECK(bench.serve(read[1]) == L2Core::Outcome::waits);
  CHECK(bench.serve(read[2]) == L2Core::Outcome::waits);
  CHECK(bench.memory.under_way.size() == 2);  // the second for the other sector
  bench.answer_all();
  CHECK(bench.order == std::vector<L2Op*>{&read[0], &write, &read[1], &read[2]});
  CHECK(read[0].data[0] == 0);
  CHECK(read[2].data[0] == 9);
  CHECK(bench.counts.merges.value() == 3);
  CHECK(bench.counts.fills.value() == 2);
  CHECK(bench.core.idle());
}

TEST_CASE("a partial write fetches nothing, and its sector is completed on its way out", "[memory][MEM-01]") {
  Directed bench;
  std::fill(bench.memory.bytes.begin(), bench.memory.bytes.end(), std::uint8_t{7});
  L2Op write, read, flush;
  write.aim(L2Access::Kind::write, 3, 40, 4);
  write.data.fill(1);
  CHECK(bench.serve(write) == L2Core::Outcome::done);
  CHECK(bench.memory.under_way.empty());
  read.aim(L2Access::Kind::read, 3, 41, 2);  // just what was written
  CHECK(bench.serve(read) == L2Core::Outcome::done);
  flush.access.kind = L2Access::Kind::write_back;
  CHECK(bench.serve(flush) == L2Core::Outcome::waits);
  bench.answer_all();
  CHECK(flush.status == L2Core::kOk);
  CHECK(bench.counts.write_backs.value() == 1);
  for (std::uint32_t i = 0; i < 128; ++i) CHECK(bench.memory.bytes[3 * 128 + i] == (i >= 40 && i < 44 ? 1 : 7));
}

TEST_CASE("the least recently used line leaves", "[memory][MEM-01]") {
  Directed bench;  // 4 sets of 2: lines 0, 4, 8 share one
  const auto read = [&](std::uint64_t line) {
    L2Op op;
    op.aim(L2Access::Kind::read, line, 0, 32);
    const bool hit = bench.serve(op) == L2Core::Outcome::done;
    bench.answer_all();
    return hit;
  };
  CHECK(!read(0));
  CHECK(!read(4));
  CHECK(read(0));
  CHECK(!read(8));  // instead of 4
  CHECK(read(0));
  CHECK(!read(4));
}

TEST_CASE("who waits for a refused sector gets the error, the line is not installed", "[memory][MEM-01][MEM-05]") {
  Directed bench;
  bench.memory.bad[5] = 0b0001;
  L2Op bad[2], good, prefetch;
  bad[0].aim(L2Access::Kind::read, 5, 0, 32);
  bad[1].aim_atomic(5, {4}, 1);
  good.aim(L2Access::Kind::read, 5, 64, 32);
  bench.serve(bad[0]);
  bench.serve(bad[1]);
  bench.serve(good);
  bench.answer_all();
  CHECK(bad[0].status == LooseMemory::kRefused);
  CHECK(bad[1].status == LooseMemory::kRefused);
  CHECK(good.status == L2Core::kOk);
  CHECK(bench.core.mshrs().in_use() == 0);
  L2Op again;
  again.aim(L2Access::Kind::read, 5, 0, 32);
  CHECK(bench.serve(again) == L2Core::Outcome::waits);  // asked for again
  bench.answer_all();
  CHECK(again.status == LooseMemory::kRefused);
  bench.memory.bad[6] = 0b1111;
  prefetch.access.kind = L2Access::Kind::prefetch;
  prefetch.access.line = 6;
  prefetch.access.bytes = LineMask::sectors(0b1111);
  CHECK(bench.serve(prefetch) == L2Core::Outcome::done);
  bench.answer_all();
  CHECK(bench.core.idle());
  CHECK(again.data == L2Op().data);
}

TEST_CASE("a refused write-back is counted, and answers write_back with the error", "[memory][MEM-05][MEM-06]") {
  Directed bench;
  const auto write = [&](std::uint64_t line) {
    L2Op op;
    op.aim(L2Access::Kind::write, line, 0, 32);
    CHECK(bench.serve(op) == L2Core::Outcome::done);
  };
  bench.memory.bad[0] = 1;
  write(0);
  write(4);
  write(8);  // evicts line 0
  bench.answer_all();
  CHECK(bench.counts.write_errors.value() == 1);
  L2Op flush[2];
  for (L2Op& op : flush) op.access.kind = L2Access::Kind::write_back;
  bench.memory.bad[4] = 1;
  CHECK(bench.serve(flush[0]) == L2Core::Outcome::waits);
  bench.answer_all();
  CHECK(flush[0].status == LooseMemory::kRefused);
  CHECK(bench.counts.write_errors.value() == 2);
  CHECK(bench.serve(flush[1]) == L2Core::Outcome::done);  // nothing is left
}

TEST_CASE("write_back waits for evictions under way", "[memory][MEM-06]") {
  Directed bench;
  for (const std::uint64_t line : {0, 4, 8}) {
    L2Op op;
    op.aim(L2Access::Kind::write, line, 0, 32);
    bench.serve(op);
  }
  REQUIRE(bench.memory.under_way.size() == 1);
  L2Op flush;
  flush.access.kind = L2Access::Kind::write_back;
  CHECK(bench.serve(flush) == L2Core::Outcome::waits);
  while (bench.memory.under_way.size() > 1) {  // all but the first, the eviction
    bench.memory.answer(bench.memory.under_way.size() - 1, bench.core);
    bench.memory.start(bench.core);
    CHECK(bench.core.served().empty());
  }
  bench.answer_all();
  CHECK(flush.status == L2Core::kOk);
}

TEST_CASE("what is missing decides why a request has to wait", "[memory][MEM-01]") {
  L2Config config = tiny_core();
  config.mshrs = 2;
  config.mshr_targets = 3;
  Directed bench(config);
  std::vector<std::unique_ptr<L2Op>> ops;
  const auto serve = [&](L2Access::Kind kind, std::uint64_t line) {
    ops.push_back(std::make_unique<L2Op>());
    ops.back()->aim(kind, line, 0, 32);
    return bench.serve(*ops.back());
  };
  CHECK(serve(L2Access::Kind::read, 0) == L2Core::Outcome::waits);
  CHECK(serve(L2Access::Kind::read, 4) == L2Core::Outcome::waits);
  CHECK(serve(L2Access::Kind::read, 1) == L2Core::Outcome::stalled);
  CHECK(bench.core.stall() == L2Core::Stall::mshr);
  CHECK(serve(L2Access::Kind::write, 8) == L2Core::Outcome::stalled);
  CHECK(bench.core.stall() == L2Core::Stall::way);
  CHECK(serve(L2Access::Kind::read, 0) == L2Core::Outcome::waits);
  CHECK(serve(L2Access::Kind::read, 0) == L2Core::Outcome::stalled);
  CHECK(bench.core.stall() == L2Core::Stall::mshr_target);
  bench.answer_all();
  for (const std::uint64_t line : {1, 5, 2, 6}) CHECK(serve(L2Access::Kind::write, line) == L2Core::Outcome::done);
  for (const std::uint64_t line : {9, 13}) CHECK(serve(L2Access::Kind::write, line) == L2Core::Outcome::done);
  CHECK(serve(L2Access::Kind::write, 10) == L2Core::Outcome::stalled);
  CHECK(bench.core.stall() == L2Core::Stall::write_buffer);
  bench.answer_all();
  CHECK(serve(L2Access::Kind::write, 10) == L2Core::Outcome::done);
}

TEST_CASE("a second write_back covers what became dirty behind the first", "[memory][MEM-06]") {
  Directed bench;
  const auto write = [&](std::uint64_t line, std::uint8_t value) {
    L2Op op;
    op.aim(L2Access::Kind::write, line, 0, 32);
    op.data.fill(value);
    REQUIRE(bench.serve(op) == L2Core::Outcome::done);
  };
  for (std::uint64_t line = 0; line < 4; ++line) write(line, 1);
  L2Op flush[2];
  for (L2Op& op : flush) op.access.kind = L2Access::Kind::write_back;
  CHECK(bench.serve(flush[0]) == L2Core::Outcome::waits);
  CHECK(bench.core.write_buffer().in_use() == 2);
  write(0, 2);
  CHECK(bench.serve(flush[1]) == L2Core::Outcome::waits);
  bench.answer_all();
  CHECK(bench.order == std::vector<L2Op*>{&flush[0], &flush[1]});
  CHECK(bench.memory.bytes[0] == 2);
}

TEST_CASE("all write-backs of a line that are under way are seen, the last one first", "[memory][MEM-01]") {
  L2Config config = tiny_core();
  config.write_buffer = 8;
  Directed bench(config);
  const auto write = [&](std::uint64_t line, std::uint32_t offset, std::uint32_t length, std::uint8_t value) {
    L2Op op;
    op.aim(L2Access::Kind::write, line, offset, length);
    op.data.fill(value);
    REQUIRE(bench.serve(op) == L2Core::Outcome::done);
  };
  write(0, 0, 64, 1);
  for (const std::uint64_t line : {4, 8}) write(line, 0, 32, 9);
  write(0, 32, 64, 2);
  for (const std::uint64_t line : {12, 16}) write(line, 0, 32, 9);
  std::array<std::uint8_t, 128> image{};
  bench.core.overlay(0, image.data());
  for (std::uint32_t i = 0; i < 128; ++i) REQUIRE(image[i] == (i < 32 ? 1 : i < 96 ? 2 : 0));
  bench.answer_all();
  CHECK(std::equal(image.begin(), image.end(), bench.memory.bytes.begin()));
}

TEST_CASE("a refused line takes no place", "[memory][MEM-05]") {
  Directed bench;
  bench.memory.bad[0] = 1;
  L2Op write[2], read;
  write[0].aim(L2Access::Kind::write, 4, 0, 32);
  read.aim(L2Access::Kind::read, 0, 0, 32);
  write[1].aim(L2Access::Kind::write, 8, 0, 32);
  bench.serve(write[0]);
  bench.serve(read);
  bench.answer_all();
  bench.serve(write[1]);
  CHECK(bench.memory.under_way.empty());  // line 4 is still here
}

TEST_CASE("a promoted read brings more of its line from memory, once it misses", "[memory][TMA-05]") {
  Directed bench;
  protocol::MemoryExtension wish;
  wish.promoted = 0b1111;
  L2Op read;
  read.aim(L2Access::Kind::read, 5, 32, 16);
  read.access.extension = &wish;
  CHECK(bench.serve(read) == L2Core::Outcome::waits);
  bench.answer_all();
  CHECK(bench.order.size() == 1);
  L2Op other;
  other.aim(L2Access::Kind::read, 5, 96, 32);
  CHECK(bench.serve(other) == L2Core::Outcome::done);
  // The sectors that it asks for are here: nothing is fetched for the others.
  L2Op part;
  part.aim(L2Access::Kind::read, 6, 0, 32);
  CHECK(bench.serve(part) == L2Core::Outcome::waits);
  bench.answer_all();
  L2Op hit;
  hit.aim(L2Access::Kind::read, 6, 0, 32);
  hit.access.extension = &wish;
  CHECK(bench.serve(hit) == L2Core::Outcome::done);
  CHECK(bench.memory.under_way.empty());
}

TEST_CASE("lines leave by their eviction priority, and then by age", "[memory][TMA-05]") {
  L2Config config = tiny_core();
  config.lines = config.ways = 4;
  Directed bench(config);
  const auto touch = [&](std::uint64_t line, arch::EvictionPriority priority) {
    protocol::MemoryExtension wish;
    wish.priority = priority;
    L2Op read;
    read.aim(L2Access::Kind::read, line, 0, 32);
    read.access.extension = &wish;
    (void)bench.serve(read);
    bench.answer_all();
  };
  const auto here = [&](std::uint64_t line) { return bench.core.array().find(line) != memory::L2Array::kNone; };
  using Priority = arch::EvictionPriority;
  touch(1, Priority::last);
  touch(2, Priority::normal);
  touch(3, Priority::first);
  touch(4, Priority::normal);
  touch(5, Priority::normal);
  CHECK_FALSE(here(3));
  touch(6, Priority::first);
  CHECK_FALSE(here(2));
  touch(7, Priority::last);
  CHECK_FALSE(here(6));
  touch(8, Priority::last);
  CHECK_FALSE(here(4));
  touch(9, Priority::last);
  CHECK_FALSE(here(5));
  touch(10, Priority::normal);
  CHECK_FALSE(here(1));  // the oldest of those that are to stay
}

}  // namespace heddle::test::memory_l2_core_test
