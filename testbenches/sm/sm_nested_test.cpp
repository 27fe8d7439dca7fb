// Warps that launch child tasks: what they leave in memory, and when they go on (TSK-06 to TSK-14).
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/bits.h"
#include "sm/nested_bench.h"

namespace sm_nested_test {

using namespace heddle;
using namespace heddle::test;
using arch::LaunchMode;
using Kind = protocol::ChildPacket::Kind;

TEST_CASE("a launch leaves a task and a context in memory, and tells task management", "[sm][TSK-06][TSK-08][TSK-13]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    NestedBench bench(mode);
    bench.l2.put(kOwner + arch::tmd::kDepth, std::uint32_t{2});
    ListProgram program(4);
    program.launch_child([](const Warp&, std::uint32_t) {
      arch::ChildLaunch launch = child();
      launch.grid_x = 3;
      launch.grid_y = 4;
      launch.grid_z = 5;
      launch.priority = -7;
      launch.head = true;
      launch.args = {11, 12, 13, 14, 15, std::uint64_t{16} << 40};
      return launch;
    });
    program.exit();
    bench.start_parent(std::move(program));
    run_until_idle();
    CHECK(bench.faults.empty());
    REQUIRE(bench.mpc.exits.size() == 1);

    const std::uint64_t record = bench.task(0);
    CHECK(bench.word(record + arch::tmd::kNext) == 0);
    CHECK(bench.word(record + arch::tmd::kContext) == bench.context());
    CHECK(bench.word(record + arch::tmd::kKernel) == kKernel);
    CHECK(bench.l2.get<std::uint32_t>(record + arch::tmd::kGridX) == 3);
    CHECK(bench.l2.get<std::uint16_t>(record + arch::tmd::kGridY) == 4);
    CHECK(bench.l2.get<std::uint16_t>(record + arch::tmd::kGridZ) == 5);
    CHECK(bench.l2.get<std::uint32_t>(record + arch::tmd::kFlags) == 1U << 10);
    CHECK(bench.l2.get<std::int32_t>(record + arch::tmd::kPriority) == -7);
    CHECK(bench.l2.get<std::uint32_t>(record + arch::tmd::kDepth) == 3);
    CHECK(bench.word(record + arch::tmd::kOpen) == 1);
    for (std::uint32_t i = 0; i < 5; ++i) CHECK(bench.word(record + arch::tmd::kArgs + 8 * i) == 11 + i);
    CHECK(bench.word(record + arch::tmd::kArgs + 40) == std::uint64_t{16} << 40);

    const std::uint64_t context = bench.context();
    CHECK(bench.word(context + arch::context::kOwner) == kOwner);
    CHECK(bench.word(context + arch::context::kHome) == arch::home_of_sm(kBenchSm));
    CHECK(bench.word(context + arch::context::last_task(0)) == record);
    CHECK(bench.word(context + arch::context::kWork) == 1);  // the CTA has left, the task has not completed
    CHECK(bench.word(kOwner + arch::tmd::kOpen) == 2);
    REQUIRE(bench.tmu.packets.size() == 2);
    CHECK(bench.tmu.packets[0].kind == Kind::start);
    CHECK(bench.tmu.packets[0].record == record);
    CHECK(bench.tmu.packets[1].kind == Kind::leave);
    CHECK(bench.tmu.packets[1].record == context);
    CHECK(bench.stat("nested.launches") == 1);
    for (const FakeL2::Seen& seen : bench.l2.seen) CHECK(seen.physical);
  }
}

// Eight instructions lie in a line. What a launch costs more the first time is that each line of the device runtime is
// read from the L2 when the warp comes to it.
TEST_CASE("the device runtime is fetched like a program, once for all launches of an SM", "[sm][TSK-06][startup]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    const auto run = [mode](std::uint32_t instructions, std::uint32_t cache_bytes, std::uint32_t launches) {
      NestedBench bench(mode, 64, 8, instructions, cache_bytes);
      bench.tmu.runs = [](std::uint64_t) { return Cycle{10}; };
      ListProgram program(4);
      for (std::uint32_t i = 0; i < launches; ++i) program.launch_child(always(child()));
      program.exit();
      bench.start_parent(std::move(program));
      run_until_idle();
      CHECK(bench.faults.empty());
      REQUIRE(bench.mpc.exits.size() == 1);
      CHECK(bench.tmu.completed == launches);
      struct Run {
        double misses;
        double stall;
        Cycle end;
      };
      const bool cached = cache_bytes > 0;
      return Run{cached ? bench.stat("fetch.misses") : 0, cached ? bench.stat("stall.fetch") : 0,
                 bench.mpc.exits[0].first};
    };
    for (const std::uint32_t instructions : {1U, 8U, 9U, 100U}) {
      CAPTURE(instructions);
      const std::uint32_t lines = (instructions + 7) / 8;
      const auto once = run(instructions, 65'536, 1);
      const auto often = run(instructions, 65'536, 3);
      CHECK(once.misses == lines + 1);  // and the program's own
      CHECK(often.misses == lines + 1);
      CHECK(once.end - run(instructions, 0, 1).end == static_cast<Cycle>(once.stall));
      // Of two lines in a cache of one set of four, nothing is fetched twice; more than four push each other out.
      const auto small = run(instructions, 512, 3);
      CHECK((small.misses == lines + 1) == (lines < 4));
    }
  }
}

TEST_CASE("a child has its parent's priority unless its launch names one", "[sm][TSK-16]") {
  for (const std::int32_t own : {-3, 0, 7}) {
    NestedBench bench;
    bench.l2.put(kOwner + arch::tmd::kPriority, own);
    ListProgram program(4);
    program.launch_child(always(child()));
    arch::ChildLaunch other = child();
    other.priority = 0;
    program.launch_child(always(other));
    program.exit();
    bench.start_parent(std::move(program));
    run_until_idle();
    CHECK(bench.l2.get<std::int32_t>(bench.task(0) + arch::tmd::kPriority) == own);
    CHECK(bench.l2.get<std::int32_t>(bench.task(1) + arch::tmd::kPriority) == 0);
  }
}

TEST_CASE("a launch whose result is taken is known by its task and its ticket", "[sm][TSK-12][TSK-16]") {
  NestedBench bench(TimingMode::at, 2);
  ListProgram program(4);
  program.launch_child(
      always(child()), {}, [](const Warp&) { return arch::LaneMask{0b1011}; }, 0);
  program.store_registers({}, 0, ListProgram::linear(0x100, 4));
  program.store_registers({}, 1, ListProgram::linear(0x200, 4));
  program.exit();
  bench.start_parent(std::move(program));
  run_until_idle();
  CHECK(bench.faults.empty());
  const auto known = [&](std::uint32_t lane) {
    return bench.l2.get<std::uint32_t>(0x100 + 4 * lane) | std::uint64_t{bench.l2.get<std::uint32_t>(0x200 + 4 * lane)}
                                                               << 32;
  };
  CHECK(arch::record_of_handle(known(0)) == bench.task(0));
  CHECK(arch::record_of_handle(known(1)) == bench.task(1));
  CHECK(known(2) == 0);  // it launched nothing
  CHECK(known(3) == 0);  // no record was free
  for (std::uint32_t lane : {0U, 1U}) {
    const std::uint64_t record = bench.task(lane);
    CHECK(arch::ticket_of_handle(known(lane)) != 0);
    CHECK(bench.l2.get<std::uint32_t>(record + arch::tmd::kTicket) == arch::ticket_of_handle(known(lane)));
    CHECK((bench.l2.get<std::uint32_t>(record + arch::tmd::kFlags) & 1U << 11) != 0);
  }
  CHECK(bench.stat("nested.refused") == 1);
  CHECK(bench.stat("nested.launches") == 2);
}

TEST_CASE("only the first task of a stream is started by the SM; others are linked behind it", "[sm][TSK-08][TSK-10]") {
  NestedBench bench;
  ListProgram program(4);
  // Lanes one after another.
  program.launch_child(always(child()), {}, [](const Warp&) { return arch::LaneMask{0x80000005}; });
  program.launch_child(always(child(0, LaunchMode::fire_and_forget)));
  program.launch_child(always(child(0, LaunchMode::tail)));
  program.launch_child(always(child(0, LaunchMode::tail)));
  program.exit();
  bench.start_parent(std::move(program));
  run_until_idle();
  REQUIRE(bench.mpc.exits.size() == 1);
  CHECK(bench.tmu.started == std::vector<std::uint64_t>{bench.task(0), bench.task(3)});
  CHECK(bench.word(bench.task(0) + arch::tmd::kNext) == bench.task(1));
  CHECK(bench.word(bench.task(1) + arch::tmd::kNext) == bench.task(2));
  CHECK(bench.word(bench.task(2) + arch::tmd::kNext) == 0);
  CHECK(bench.word(bench.context() + arch::context::last_task(0)) == bench.task(2));
  CHECK(bench.word(bench.context() + arch::context::kWork) == 4);  // not the tail launches
  CHECK(bench.word(kOwner + arch::tmd::kTailFirst) == bench.task(4));
  CHECK(bench.word(kOwner + arch::tmd::kTailLast) == bench.task(5));
  CHECK(bench.word(bench.task(4) + arch::tmd::kNext) == bench.task(5));
  CHECK(bench.l2.get<std::uint32_t>(bench.task(3) + arch::tmd::kFlags) == 1U << 8);
  CHECK(bench.l2.get<std::uint32_t>(bench.task(4) + arch::tmd::kFlags) == 2U << 8);
}

TEST_CASE("a tail launch hangs on its grid: it makes no context, and waits for no write of its program",
          "[sm][TSK-07][TSK-13][TSK-14]") {
  for (const bool tail : {true, false}) {
    CAPTURE(tail);
    NestedBench bench;
    bench.l2.extra = [](std::uint64_t number) { return number == 0 ? 20'000 : 0; };  // of the store
    ListProgram program(4);
    program.store({}, ListProgram::Value([](const Warp&, std::uint32_t) { return 77; }),
                  [](const Warp&, std::uint32_t) { return 0x4000; });
    program.launch_child(always(child(0, tail ? LaunchMode::tail : LaunchMode::fire_and_forget)));
    program.exit();
    bench.start_parent(std::move(program));
    run_until_idle();
    CHECK(bench.faults.empty());
    REQUIRE(bench.mpc.exits.size() == 1);
    CHECK(bench.mpc.exits[0].first > 20'000);  // the end waits for all of them
    CHECK(bench.stat("nested.launches") == 1);
    const std::uint64_t record = bench.task(0);
    CHECK(bench.word(record + arch::tmd::kContext) == (tail ? kOwner : bench.context()));
    CHECK(bench.word(bench.nested.contexts.pool.base + arch::ring::kTaken) == (tail ? 0 : 1));
    CHECK(bench.word(kOwner + arch::tmd::kOpen) == (tail ? 1 : 2));
    CHECK(bench.tmu.count(Kind::leave) == (tail ? 0 : 1));
    // The depth, two for the record, its line, and the two words of the list. Or the depth, two each for record and
    // context, a line of each, and a count of each.
    CHECK(bench.stat("nested.steps") == (tail ? 6 : 9));
    CHECK(bench.stat("stall.launch") < 10'000);
    CHECK((bench.stat("stall.memory") > 10'000) == !tail);
  }
}

TEST_CASE("the device runtime is a program: each of its instructions needs the one before, and a turn that others miss",
          "[sm][TSK-13]") {
  const auto ended = [](std::uint32_t instructions, arch::LaneMask lanes, bool company) {
    NestedBench bench(TimingMode::at, 64, 8, instructions);
    ListProgram program(4);
    program.launch_child(always(child(0, LaunchMode::tail)), {}, [lanes](const Warp&) { return lanes; });
    program.exit();
    bench.start_parent(std::move(program), 1, 0);
    if (company) {
      ListProgram other(4);
      other.compute(arch::Unit::int32, 20'000);
      other.exit();
      bench.mpc.start(0, bench.packet(bench.add(std::move(other), 128), 1, 1));
    }
    run_until_idle();
    REQUIRE(bench.faults.empty());
    REQUIRE(bench.mpc.exits.size() == (company ? 2 : 1));
    CHECK(bench.stat("instructions.int32") == (company ? 80'000 : 0) + instructions * bits::count(lanes));
    std::map<std::uint32_t, Cycle> ends;
    for (const auto& [cycle, exit] : bench.mpc.exits) ends[exit.cta_slot] = cycle;
    return ends;
  };
  constexpr Cycle kLatency = 4;   // of gpu.sm.issue.int32
  constexpr Cycle kInterval = 2;  // a warp of 32 in 16 lanes
  for (const arch::LaneMask lanes : {arch::LaneMask{1}, arch::LaneMask{0b1011}}) {
    const Cycle without = ended(0, lanes, false)[0];
    for (const std::uint32_t instructions : {1U, 40U, 300U}) {
      CHECK(ended(instructions, lanes, false)[0] == without + instructions * kLatency * bits::count(lanes));
    }
  }
  const Cycle alone = ended(0, 1, true)[1];
  const Cycle beside = ended(500, 1, true)[1];
  CHECK(beside > alone + 500 * kInterval - 100);
  CHECK(beside < alone + 500 * kInterval + 100);
}

TEST_CASE("a stream shares a TMDQ only if all have one, and one that is destroyed gives its place back",
          "[sm][TSK-11]") {
  NestedBench bench;
  constexpr std::uint32_t kNumbers = 0x100;
  ListProgram program(16);
  const auto note = [&program](std::uint16_t reg) {
    program.store({}, ListProgram::of_register(reg),
                  [reg](const Warp&, std::uint32_t lane) { return kNumbers + 128 * reg + 4 * lane; }, {{reg, 1}});
  };
  const auto in = [](std::uint16_t reg) {
    return [reg](const Warp& warp, std::uint32_t lane) { return child(warp.reg(reg, lane)); };
  };
  for (std::uint16_t i = 1; i <= 5; ++i) program.stream_create(i);
  program.launch_child(always(child()));
  for (std::uint16_t i = 1; i <= 5; ++i) program.launch_child(in(i), {{i, 1}});
  program.stream_destroy(ListProgram::of_register(3), {{3, 1}});
  for (std::uint16_t i = 6; i <= 7; ++i) program.stream_create(i);
  program.launch_child(in(6), {{6, 1}});
  for (std::uint16_t i = 1; i <= 7; ++i) note(i);
  program.exit();
  bench.start_parent(std::move(program));
  run_until_idle();
  CHECK(bench.faults.empty());
  REQUIRE(bench.mpc.exits.size() == 1);
  const auto number = [&](std::uint32_t which) { return bench.l2.get<std::uint32_t>(kNumbers + 128 * which + 4 * 31); };
  for (std::uint32_t i = 1; i <= 7; ++i) CHECK(bench.l2.get<std::uint32_t>(kNumbers + 128 * i) == number(i));
  // Three have a TMDQ each; then TMDQ 0, which has stream 0, and TMDQ 1 have two.
  for (std::uint32_t i = 1; i <= 3; ++i) CHECK(number(i) == arch::stream_number(i, 0));
  CHECK(number(4) == arch::stream_number(0, 1));
  CHECK(number(5) == arch::stream_number(1, 1));
  // The one that is free has it alone, under another number; then TMDQ 2.
  CHECK(number(6) == arch::stream_number(3, 1));
  CHECK(number(7) == arch::stream_number(2, 1));
  const std::uint64_t live = bench.context() + arch::context::live_streams(0);
  CHECK(bench.word(live) == 0b10);
  CHECK(bench.word(live + 16) == 0b11);
  CHECK(bench.word(live + 32) == 0b11);
  CHECK(bench.word(live + 48) == 0b10);
  CHECK(bench.stat("nested.streams") == 7);
  CHECK(bench.tmu.started.size() == 4);
  CHECK(bench.word(bench.task(0) + arch::tmd::kNext) == bench.task(4));
  CHECK(bench.word(bench.task(1) + arch::tmd::kNext) == bench.task(5));
  CHECK(bench.word(bench.task(3) + arch::tmd::kNext) == bench.task(6));  // order within the TMDQ is kept
  CHECK(bench.l2.get<std::uint32_t>(bench.task(5) + arch::tmd::kFlags) == (number(5) << 16 | 1U));
}

TEST_CASE("children see what was written before the launch, and their parent what they wrote, after its wait",
          "[sm][TSK-12][TSK-14]") {
  for (const Cycle runs : {0, 1, 100, 500, 700, 900, 1100, 1500, 5000}) {
    for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
      CAPTURE(runs);
      NestedBench bench(mode);
      bench.l2.extra = [](std::uint64_t number) { return number % 3 * 150; };
      bool saw = true;
      bench.tmu.runs = [&](std::uint64_t) { return runs; };
      bench.tmu.on_start = [&](std::uint64_t) { saw &= bench.l2.get<std::uint32_t>(0x4000) == 77; };
      bench.tmu.on_complete = [&](std::uint64_t) { bench.l2.put(0x5000, bench.l2.get<std::uint32_t>(0x5000) + 1); };
      const auto there = [](std::uint64_t address) { return [=](const Warp&, std::uint32_t) { return address; }; };
      ListProgram program(4);
      program.load({}, 1, there(0x5000));  // into the L1
      program.store({}, ListProgram::Value([](const Warp&, std::uint32_t) { return 77; }), there(0x4000));
      program.launch_child(always(child()), {{1, 1}});
      program.launch_child(always(child()));
      program.wait_children();
      program.load({}, 2, there(0x5000));
      program.store({}, ListProgram::Value([](const Warp& warp, std::uint32_t lane) { return warp.reg(2, lane); }),
                    there(0x6000), {{2, 1}});
      program.launch_child(always(child()));
      program.wait_children();
      program.wait_children();
      program.exit();
      bench.start_parent(std::move(program));
      run_until_idle();
      CHECK(saw);
      REQUIRE(bench.mpc.exits.size() == 1);
      CHECK(bench.tmu.completed == 3);
      CHECK(bench.tmu.closed == 1);
      CHECK(bench.l2.get<std::uint32_t>(0x6000) == 2);
      CHECK(bench.stat("nested.waits") == 3);
      bench.check_clean();
    }
  }
}

TEST_CASE("a warp without children does not wait for any", "[sm][TSK-12]") {
  NestedBench bench;
  ListProgram program(4);
  program.wait_children().exit();
  bench.start_parent(std::move(program));
  run_until_idle();
  CHECK(bench.mpc.exits.size() == 1);
  CHECK(bench.l2.seen.empty());
  CHECK(bench.tmu.packets.empty());
}

TEST_CASE("who waits for children that never end is shown with them", "[sm][TSK-12]") {
  NestedBench bench;
  ListProgram program(4);
  program.launch_child(always(child()));
  program.wait_children().exit();
  bench.start_parent(std::move(program));
  run_until_idle();
  CHECK(bench.mpc.exits.empty());
  WaitGraph graph;
  bench.domain.collect_waits(graph);
  bool found = false;
  for (const std::string& line : graph.chain()) found |= line.find("children of ") != std::string::npos;
  CHECK(found);
}

TEST_CASE("launches that cannot be are faults of their lane, and nothing is launched", "[sm][TSK-06]") {
  struct Wrong {
    const char* what;
    arch::FaultKind kind;
    std::function<void(ListProgram&)> add;
  };
  const auto launch = [](const arch::ChildLaunch& wrong) {
    return [wrong](ListProgram& program) {
      program.launch_child([wrong](const Warp&, std::uint32_t lane) { return lane == 3 ? wrong : child(); }, {},
                           [](const Warp&) { return arch::LaneMask{0xC}; });
    };
  };
  arch::ChildLaunch empty = child();
  empty.grid_y = 0;
  const std::vector<Wrong> all{
      {"grid", arch::FaultKind::child, launch(empty)},
      {"stream", arch::FaultKind::child, launch(child(1))},
      {"destroy", arch::FaultKind::child,
       [](ListProgram& program) { program.stream_destroy([](const Warp&, std::uint32_t) { return 1; }); }},
      {"stream 0", arch::FaultKind::child,
       [](ListProgram& program) { program.stream_destroy([](const Warp&, std::uint32_t) { return 0; }); }},
  };
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.what);
    NestedBench bench;
    ListProgram program(4);
    wrong.add(program);
    program.exit();
    bench.start_parent(std::move(program));
    run_until_idle();
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == wrong.kind);
    REQUIRE(bench.mpc.exits.size() == 1);
    CHECK(bench.mpc.exits[0].second.faulted);
    CHECK(bench.tmu.packets.empty());
    bench.check_clean();
  }
  for (const std::uint32_t depth : {2, 3}) {
    NestedBench bench;
    bench.nested.max_depth = 3;
    bench.l2.put(kOwner + arch::tmd::kDepth, depth);
    ListProgram program(4);
    program.launch_child(always(child())).exit();
    bench.start_parent(std::move(program));
    run_until_idle();
    REQUIRE(bench.faults.size() == (depth == 2 ? 0 : 1));
    if (depth == 3) CHECK(bench.faults[0].kind == arch::FaultKind::nesting);
    CHECK(bench.tmu.started.size() == (depth == 2 ? 1 : 0));
  }
  NestedBench bench;  // a task without a TMD
  ListProgram program(4);
  program.wait_children().launch_child(always(child())).exit();
  bench.start(bench.add(std::move(program), 32));
  run_until_idle();
  REQUIRE(bench.faults.size() == 1);
  CHECK(bench.faults[0].kind == arch::FaultKind::child);
  CHECK(bench.faults[0].address == kKernel);
}

TEST_CASE("CTAs of a grid can share one context", "[sm][TSK-07]") {
  NestedBench bench;
  bench.nested.shared_contexts = true;
  const std::uint64_t context = bench.context();  // taken by task management
  bench.l2.put(bench.nested.contexts.pool.base + arch::ring::kTaken, std::uint64_t{1});
  bench.l2.put(bench.nested.contexts.pool.base + arch::ring::kUsed, std::uint64_t{1});
  bench.l2.put(context + arch::context::kWork, std::uint64_t{1});
  bench.l2.put(context + arch::context::kOwner, kOwner);
  bench.l2.put(kOwner + arch::tmd::kSharedContext, context);
  for (std::uint32_t slot = 0; slot < 2; ++slot) {
    ListProgram program(4);
    program.stream_create(1);
    program.launch_child(always(child()));
    program.launch_child([](const Warp& warp, std::uint32_t lane) { return child(warp.reg(1, lane)); }, {{1, 1}});
    program.exit();
    bench.start_parent(std::move(program), 1, slot);
  }
  run_until_idle();
  CHECK(bench.faults.empty());
  CHECK(bench.mpc.exits.size() == 2);
  for (std::uint32_t tmdq : {1U, 2U}) CHECK(bench.word(context + arch::context::live_streams(tmdq)) == 1);
  CHECK(bench.word(context + arch::context::kWork) == 5);
  CHECK(bench.word(kOwner + arch::tmd::kOpen) == 1);
  CHECK(bench.tmu.started.size() == 3);
  CHECK(bench.tmu.count(Kind::leave) == 0);
}

}  // namespace sm_nested_test
