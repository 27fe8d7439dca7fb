// Kernels launched ahead of the end of the one before them, against a reference that looks at everything every time.
#include "task/dependents.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random_program.h"
#include "task/plain_task_bench.h"
#include "task/stream_table.h"

namespace task_dependents_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::WaitGraph;
using heddle::protocol::SubmitKind;
using heddle::protocol::SubmitPacket;
using heddle::protocol::TaskKind;
using heddle::task::Dependents;
using heddle::task::StreamTable;
using heddle::task::Task;
using heddle::task::TaskParams;
using namespace heddle::test;

namespace {

using Woken = std::vector<std::pair<std::uint32_t, std::uint32_t>>;  // operation, SM

struct Wakes {
  Wakes() {
    sink.take = [this](const heddle::protocol::WakePacket& packet, std::uint32_t sm) {
      CHECK(packet.context == 0);
      woken.emplace_back(packet.task.value(), sm);
    };
  }
  Sink<heddle::protocol::WakePacket> sink;
  Woken woken;
};

std::string name(std::uint32_t operation) { return "op" + std::to_string(operation); }

}  // namespace

// The reference: who asks is told once, at once if what it waits for is over, else in the moment in which that is.
TEST_CASE("an SM that asks is told once, and not before what it asks for is over", "[task]") {
  for (const std::uint64_t seed : seeds(2000)) {
    CAPTURE(seed);
    Random random(seed);
    Wakes wakes;
    Dependents dependents(wakes.sink, false);
    const std::uint32_t operations = random.between(2, 10);
    // Operation n + 1 is launched ahead of the end of n, or not.
    std::map<std::uint32_t, std::set<std::uint32_t>> asking;  // by operation
    std::uint32_t over = 0;                                   // those below are
    std::uint32_t launched = 0;                               // the last one that is out
    while (over < operations) {
      wakes.woken.clear();
      Woken expected;
      if (launched < over) {
        launched = over;  // nothing is out: it starts by itself
      } else if (launched == over && launched + 1 < operations && random.chance(40)) {
        dependents.launched(launched + 1, launched);
        ++launched;
      } else if (random.chance(60)) {
        const std::uint32_t which = random.between(over, launched);
        const std::uint32_t sm = random.below(6);
        dependents.asked(which, sm);
        if (which == over) {
          expected.emplace_back(which, sm);
        } else {
          asking[which].insert(sm);
        }
      } else {
        for (const std::uint32_t sm : asking[over + 1]) expected.emplace_back(over + 1, sm);
        asking.erase(over + 1);
        dependents.over(over);
        // It is over and has not ended: who is launched ahead of its end waits for nothing.
        if (launched == over && launched + 1 < operations && random.chance(50)) {
          dependents.launched(launched + 1, launched);
          ++launched;
          dependents.asked(launched, 7);
          expected.emplace_back(launched, 7);
        }
        dependents.ended(over);
        ++over;
      }
      std::sort(expected.begin(), expected.end());
      std::sort(wakes.woken.begin(), wakes.woken.end());
      REQUIRE(wakes.woken == expected);
    }
    WaitGraph waits;
    dependents.collect_waits(waits, name);
    CHECK(waits.empty());
  }
}

TEST_CASE("who waits for the kernel before it is said; a reset forgets it", "[task]") {
  Wakes wakes;
  Dependents dependents(wakes.sink, false);
  dependents.launched(4, 3);
  dependents.asked(4, 1);
  WaitGraph waits;
  dependents.collect_waits(waits, name);
  CHECK(waits.chain() == std::vector<std::string>{"the grid dependency of op4 waits: for the end of op3"});
  dependents.reset();
  WaitGraph none;
  dependents.collect_waits(none, name);
  CHECK(none.empty());
  dependents.over(3);
  CHECK(wakes.woken.empty());
  // Of the numbers before the reset none is over any more.
  dependents.reset();
  dependents.launched(4, 3);
  dependents.asked(4, 1);
  CHECK(wakes.woken.empty());
}

TEST_CASE("the last of a grid's CTAs to let the kernel behind it go does, where no CTA may have to come back",
          "[task]") {
  Wakes wakes;
  for (const bool preempts : {false, true}) {
    const Dependents dependents(wakes.sink, preempts);
    for (const bool queue : {false, true}) {
      for (const auto kind : {TaskKind::grid, TaskKind::restore}) {
        CAPTURE(preempts, queue, kind);
        Task task;
        task.packet.kind = kind;
        task.packet.grid = {3, 2, 1};
        if (queue) task.queue.emplace();
        const bool does = !preempts && !queue && kind == TaskKind::grid;
        for (std::uint32_t i = 1; i <= 6; ++i) REQUIRE(dependents.cta_lets_go(task) == (does && i == 6));
      }
    }
  }
}

// Kernels, holds and waits in streams, of which kernels may be programmatic: one starts ahead of the end of the
// operation before it only if that has let it go, and it is the next one in the stream.
TEST_CASE("a stream hands out one operation ahead of its head, if that lets it go", "[task]") {
  for (const std::uint64_t seed : seeds(1000)) {
    CAPTURE(seed);
    Random random(seed);
    ProgramLimits limits;
    limits.operations = random.between(1, 40);
    limits.streams = random.between(1, 4);
    Program program = random_program(random, limits);
    std::set<std::uint32_t> programmatic;
    for (SubmitPacket& packet : program.packets) {
      if (packet.kind != SubmitKind::kernel || !random.chance(60)) continue;
      packet.programmatic = true;
      programmatic.insert(packet.operation);
    }
    StreamTable table;
    std::map<std::uint32_t, std::vector<SubmitPacket>> streams;
    std::set<std::uint32_t> ended, free, out;
    // What may run, from nothing but what was submitted, has ended and was let go.
    const auto may_run = [&](std::uint32_t stream) {
      std::set<std::uint32_t> result;
      for (const SubmitPacket& packet : streams[stream]) {
        if (packet.kind == SubmitKind::wait) {
          if (ended.count(packet.wait_for) == 0 || !result.empty()) break;
          continue;
        }
        if (ended.count(packet.operation) != 0) continue;
        if (result.empty()) {
          result.insert(packet.operation);
          if (free.count(packet.operation) == 0) break;
          continue;
        }
        if (programmatic.count(packet.operation) != 0) result.insert(packet.operation);
        break;
      }
      return result;
    };
    std::size_t next = 0;
    std::size_t ahead = 0;
    Cycle now = 0;
    while (ended.size() < limits.operations) {
      ++now;
      std::vector<std::uint32_t> heads;
      for (const auto& [stream, packets] : streams) {
        if (const auto head = table.running(stream)) heads.push_back(stream);
      }
      if (next < program.packets.size() && (heads.empty() || random.chance(50))) {
        const SubmitPacket& packet = program.packets[next++];
        streams[packet.stream].push_back(packet);
        table.submit(packet, now);
      } else {
        REQUIRE_FALSE(heads.empty());
        const std::uint32_t stream = heads[random.below(heads.size())];
        const std::uint32_t operation = *table.running(stream);
        if (random.chance(50)) {
          free.insert(operation);
          table.let_go(stream, operation);
        } else {
          ended.insert(operation);
          out.erase(operation);
          table.complete(stream, now);
        }
      }
      for (const StreamTable::Ready& ready : table.take_ready()) {
        const StreamTable::Entry& entry = ready.ahead_of ? table.next(ready.stream) : table.head(ready.stream);
        REQUIRE(out.insert(entry.packet.operation).second);
        REQUIRE(table.entry(ready.stream, entry.packet.operation).packet.operation == entry.packet.operation);
        REQUIRE(table.is_ahead(ready.stream, entry.packet.operation) == ready.ahead_of.has_value());
        if (!ready.ahead_of) continue;
        ++ahead;
        REQUIRE(*ready.ahead_of == table.head(ready.stream).packet.operation);
      }
      std::set<std::uint32_t> expected;
      for (const auto& [stream, packets] : streams) expected.merge(may_run(stream));
      REQUIRE(out == expected);
    }
    if (programmatic.empty()) REQUIRE(ahead == 0);
  }
}

// Task management: every CTA of a kernel has to let the next one go, which starts then, and its end is reported behind
// that of the first, though it came before.
TEST_CASE("kernels of a stream end in its order, though one was launched ahead", "[task]") {
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TaskParams params;
  params.stream_gap = 0;
  params.gap.drain = 50;
  PlainBench bench(4, mode, false, params);
  bench.work = [](const heddle::protocol::TaskPacket& packet) { return Cycle{packet.operation == 0 ? 1000U : 100U}; };
  bench.submit(1, kernel_packet(0, 1, {3, 1, 1}, {32, 1, 1}));
  SubmitPacket second = kernel_packet(1, 1, {1, 1, 1}, {32, 1, 1});
  second.programmatic = true;
  bench.submit(1, second);
  bench.submit(1, kernel_packet(2, 1, {1, 1, 1}, {32, 1, 1}));
  for (Cycle cta = 0; cta < 3; ++cta) {
    bench.at(200 + 100 * cta, [&] { bench.unit.on_child({heddle::protocol::ChildPacket::Kind::lets_go, 0, 0, 0}, 0); });
  }
  bench.at(390, [&] { CHECK(bench.sent.size() == 1); });
  bench.at(600, [&] {
    REQUIRE(bench.sent.size() == 2);
    CHECK(bench.sent[1].ahead);
    CHECK_FALSE(bench.sent[0].ahead);
    bench.unit.on_child({heddle::protocol::ChildPacket::Kind::depends, 1, 5, 0}, 0);
  });
  bench.timebase.run();
  CHECK(bench.order == std::vector<std::uint32_t>{0, 1, 2});
  const auto start = [&](std::uint32_t operation) { return bench.results.at(operation).start; };
  const auto end = [&](std::uint32_t operation) { return bench.results.at(operation).end; };
  CHECK(start(1) < end(0));
  CHECK(end(1) >= end(0));
  CHECK(start(2) >= end(1));
  CHECK(bench.sent.size() == 3);
  CHECK_FALSE(bench.sent[2].ahead);
  CHECK(bench.unit.open() == 0);
}

}  // namespace task_dependents_test
