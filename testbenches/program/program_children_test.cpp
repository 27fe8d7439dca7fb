// Steps that launch tasks, wait for them and feed queues: what every lane asks for, in nested conditions, and what is
// said of wrong ones.
#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/error.h"
#include "common/yaml_util.h"
#include "scenario/scenario.h"
#include "scenario/scenario_memory.h"
#include "support/random.h"

namespace program_children_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::program;
using namespace heddle::scenario;
using arch::LaunchMode;
using arch::OpCode;
using Catch::Contains;

namespace {

// What the lanes of warp 0 of CTA 0 ask for, in the order of the program. Atomics and loads give zeros; the number of
// a stream that is made is counted.
class Asked {
 public:
  struct Child {
    std::uint32_t lane = 0;
    arch::ChildLaunch launch;
  };
  struct Entry {
    std::uint32_t lane = 0;
    arch::QueueAppend append;
  };

  // Of an event: code, lane, handle and stream.
  using Mark = std::tuple<OpCode, std::uint32_t, std::uint64_t, std::uint64_t>;

  // `steps`: of a program; beside it stand the kernel `leaf` of 5 x 2 CTAs and the queues `jobs` and `more`.
  explicit Asked(const std::string& steps, std::uint32_t threads = 32)
      : scenario(parse_scenario(fmt::format("heddle: 1\nqueues: [{{name: jobs, capacity: 8}}, {{name: more, capacity: "
                                            "8}}]\nkernels:\n- {{name: leaf, grid: [5, 2], block: 32, cycles: 3}}\n"
                                            "- name: k\n  grid: 1\n  block: {}\n  program:\n{}\n"
                                            "submit: [{{kernel: k, stream: a}}]\n",
                                            threads, steps),
                                "p.yaml")) {
    const arch::WarpProgram& program = *scenario.workloads[0].ops[0].kernel.program;
    launches = program.launches();
    arch::WarpPlace place;
    place.block = place.workgroup = {threads, 1, 1};
    place.lanes = threads >= 32 ? ~arch::LaneMask{0} : (arch::LaneMask{1} << threads) - 1;
    arch::WarpState state;
    program.start(place, state);
    arch::Operation operation;
    for (int steps_left = 100'000; !state.exited; --steps_left) {
      REQUIRE(steps_left > 0);
      state = arch::restore(arch::save(state));
      const arch::OperationNeeds demand = program.demand(state);
      names.push_back(program.describe(state));
      program.issue(place, state, operation);
      REQUIRE(operation.code == demand.code);
      codes.push_back(operation.code);
      note(operation, state);
    }
  }

  std::uint64_t address(const std::string& name) const {
    for (const MemoryRegion& region : scenario.workloads[0].memory) {
      if (region.name == name) return region.address;
    }
    return 0;
  }

  Scenario scenario;
  bool launches = false;
  std::vector<OpCode> codes;
  std::vector<std::string> names;
  std::vector<Child> children;
  std::vector<Entry> entries;
  std::vector<std::uint64_t> closes;  // queues, by lane
  std::vector<Mark> marks;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> destroyed;  // lane, number
  std::vector<std::pair<arch::ChildWait, std::uint64_t>> waits;    // what for: of lane 1

 private:
  void note(const arch::Operation& operation, arch::WarpState& state) {
    std::size_t next = 0;
    if (operation.code == OpCode::stream_create) ++streams_;
    if (operation.code == OpCode::wait_children) {
      const bool some = operation.wait != arch::ChildWait::all;
      waits.emplace_back(operation.wait,
                         some ? operation.data[1][0] | std::uint64_t{operation.data[1][1]} << 32 : std::uint64_t{0});
    }
    if (operation.code == OpCode::launch_child && operation.destination != arch::kNoRegister) {
      for (std::uint32_t lane = 0; lane < 32; ++lane) {  // as if each had been launched
        state.of(operation.destination)[lane] = 100 + lane;
        state.of(static_cast<std::uint16_t>(operation.destination + 1))[lane] = 7;
      }
    }
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if ((operation.lanes >> lane & 1U) == 0) continue;
      if (operation.code == OpCode::launch_child) children.push_back({lane, operation.children.at(next++)});
      if (operation.code == OpCode::queue_append) entries.push_back({lane, operation.entries.at(next++)});
      if (operation.code == OpCode::queue_close) closes.push_back(operation.entries.at(next++).queue);
      if (operation.code == OpCode::event_create) {
        state.of(operation.destination)[lane] = 100;
        state.of(static_cast<std::uint16_t>(operation.destination + 1))[lane] = 7;
      }
      const bool marks_stream = operation.code == OpCode::event_record || operation.code == OpCode::stream_wait;
      if (marks_stream || operation.code == OpCode::event_destroy) {
        const auto& data = operation.data[lane];
        marks.emplace_back(operation.code, lane, data[0] | std::uint64_t{data[1]} << 32,
                           marks_stream ? data[2] | std::uint64_t{data[3]} << 32 : 0);
      }
      if (operation.code == OpCode::stream_create) state.of(operation.destination)[lane] = streams_;
      if (operation.code == OpCode::stream_destroy) destroyed.emplace_back(lane, operation.data[lane][0]);
    }
    if (operation.code == OpCode::launch_child) REQUIRE(next == operation.children.size());
    if (operation.code == OpCode::queue_append) REQUIRE(next == operation.entries.size());
  }

  std::uint32_t streams_ = 0;
};

std::string error(const std::string& step) {
  try {
    Asked("  - " + step);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a launch has the kernel's object, its own grid, and what the step says", "[workload][TSK-01][TSK-06]") {
  const Asked plain("  - if: {cond: lane == 3, then: [{launch: {kernel: leaf}}]}");
  CHECK(plain.launches);
  REQUIRE(plain.children.size() == 1);
  const arch::ChildLaunch& usual = plain.children[0].launch;
  CHECK(plain.children[0].lane == 3);
  CHECK(usual.kernel == plain.address(kKernelObjects));
  CHECK(usual.grid_x == 5);
  CHECK(usual.grid_y == 2);
  CHECK(usual.grid_z == 1);
  CHECK(usual.mode == LaunchMode::stream);
  CHECK(usual.stream == 0);
  CHECK_FALSE(usual.priority.has_value());  // that of the launching task
  CHECK_FALSE(usual.head);
  CHECK(usual.args == std::array<std::uint64_t, arch::kChildArgs>{});

  const Asked all(
      "  - set: {v: 1000000007 * lane, type: u64}\n"
      "  - launch: {kernel: k, grid: [lane + 1, 2 * lane + 1, 3], args: [v, lane, -1, jobs, 0x10, 6], mode: tail,\n"
      "             priority: -4, insert: head}\n"
      "  - launch: {kernel: leaf, grid: 7, mode: fire_and_forget}",
      5);
  REQUIRE(all.children.size() == 10);
  for (std::uint32_t lane = 0; lane < 5; ++lane) {
    const arch::ChildLaunch& child = all.children[lane].launch;
    CHECK(all.children[lane].lane == lane);
    CHECK(child.kernel == all.address(kKernelObjects) + 128);
    CHECK(child.grid_x == lane + 1);
    CHECK(child.grid_y == 2 * lane + 1);
    CHECK(child.grid_z == 3);
    CHECK(child.args == std::array<std::uint64_t, arch::kChildArgs>{std::uint64_t{1000000007} * lane, lane,
                                                                    ~std::uint64_t{0}, all.address("jobs"), 0x10, 6});
    CHECK(child.mode == LaunchMode::tail);
    CHECK(child.priority == -4);
    CHECK(child.head);
    const arch::ChildLaunch& other = all.children[5 + lane].launch;
    CHECK(other.grid_x == 7);
    CHECK(other.grid_y == 1);
    CHECK(other.mode == LaunchMode::fire_and_forget);
    CHECK(other.args[0] == 0);
  }
  CHECK(all.names[1] == "launch k (line 10)");
}

TEST_CASE("numbers that no launch can have stay so", "[workload][TSK-06]") {
  const Asked wrong(
      "  - launch: {kernel: leaf, grid: lane - 1, stream: lane - 1}\n"
      "  - launch: {kernel: leaf, grid: [1, 2 ^ (31 + lane), 1 / (lane - 1)], stream: 2 ^ (31 + lane)}",
      3);
  REQUIRE(wrong.children.size() == 6);
  CHECK(wrong.children[0].launch.grid_x == 0);
  CHECK(wrong.children[0].launch.stream == ~std::uint32_t{0});
  CHECK(wrong.children[1].launch.grid_x == 0);
  CHECK(wrong.children[2].launch.grid_x == 1);
  CHECK(wrong.children[2].launch.stream == 1);
  CHECK(wrong.children[3].launch.grid_y == 1U << 31);
  CHECK(wrong.children[4].launch.grid_y == 0);
  CHECK(wrong.children[4].launch.grid_z == 0);
  CHECK(wrong.children[4].launch.stream == ~std::uint32_t{0});
}

TEST_CASE("a wait is for all, for a stream or for a launch", "[workload][TSK-12][TSK-16]") {
  const Asked run(
      "  - stream_create: one\n"
      "  - launch: {kernel: leaf, stream: one, to: known}\n"
      "  - wait_children: {stream: one + lane}\n"
      "  - wait_children: {launch: known}\n"
      "  - wait_children: {}\n"
      "  - wait_children");
  using arch::ChildWait;
  CHECK(run.waits == std::vector<std::pair<ChildWait, std::uint64_t>>{{ChildWait::stream, 2},
                                                                      {ChildWait::launch, std::uint64_t{7} << 32 | 101},
                                                                      {ChildWait::all, 0},
                                                                      {ChildWait::all, 0}});
}

TEST_CASE("streams, waits and queues", "[workload][TSK-05][TSK-11][TSK-12]") {
  const Asked run(
      "  - stream_create: one\n"
      "  - stream_create: two\n"
      "  - launch: {kernel: leaf, stream: \"select(lane == 0, one, two)\"}\n"
      "  - wait_children\n"
      "  - stream_destroy: two\n"
      "  - if: {cond: lane == 1, then: [{append: {queue: more, value: [lane, jobs, one + 5]}}]}",
      2);
  CHECK(run.codes.front() == OpCode::stream_create);
  CHECK(run.names[3] == "wait_children (line 12)");
  REQUIRE(run.children.size() == 2);
  CHECK(run.children[0].launch.stream == 1);
  CHECK(run.children[1].launch.stream == 2);
  CHECK(run.destroyed == std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 2}, {1, 2}});
  REQUIRE(run.entries.size() == 1);
  CHECK(run.entries[0].lane == 1);
  CHECK(run.entries[0].append.queue == run.address("more"));
  CHECK(run.entries[0].append.data ==
        std::array<std::uint64_t, arch::kQueueEntryWords>{1, run.address("jobs"), 6, 0, 0, 0, 0});
  CHECK(std::count(run.codes.begin(), run.codes.end(), OpCode::wait_children) == 1);

  for (const char* step :
       {"wait_children", "stream_create: x", "stream_destroy: 1", "append: {queue: jobs, value: 1}"}) {
    CAPTURE(step);
    CHECK(Asked(std::string("  - ") + step).launches);
  }
  CHECK_FALSE(Asked("  - barrier").launches);
}

TEST_CASE("launches and appends in random nested conditions are those of one thread after another",
          "[workload][TSK-05][TSK-06]") {
  HEDDLE_RANDOM(dice);
  std::size_t seen = 0;
  for (int round = 0; round < 60; ++round) {
    const std::uint32_t threads = dice.between(1, 32);
    // A chain of branches within branches, a loop around a launch and an append in each part.
    struct Level {
      std::uint32_t modulus;
      std::uint32_t rest;
      std::uint32_t times;
      bool append;
    };
    std::vector<Level> levels(dice.between64(1, 4));
    for (Level& level : levels) level = {dice.between(2, 5), dice.between(0, 4), dice.between(0, 3), dice.one_in(2)};
    std::string text;
    std::string indent = "  ";
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const Level& l = levels[i];
      const std::string what =
          l.append ? fmt::format("append: {{queue: jobs, value: [{}, i{} + 10 * lane]}}", i, i)
                   : fmt::format("launch: {{kernel: leaf, grid: i{} + 1, args: [{}, 100 * lane + i{}]}}", i, i, i);
      text += fmt::format("{}- loop: {{var: i{}, to: {}, do: [{{{}}}]}}\n", indent, i, l.times, what);
      text +=
          fmt::format("{}- if:\n{}    cond: lane % {} == {}\n{}    then:\n", indent, indent, l.modulus, l.rest, indent);
      indent += "    ";
    }
    text += indent + "- launch: {kernel: k, args: 99}";
    CAPTURE(round, text, threads);
    const Asked asked(text, threads);
    std::size_t child = 0;
    std::size_t entry = 0;
    std::vector<std::uint32_t> lanes;
    for (std::uint32_t lane = 0; lane < threads; ++lane) lanes.push_back(lane);
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const Level& l = levels[i];
      for (std::uint32_t time = 0; time < l.times; ++time) {
        for (const std::uint32_t lane : lanes) {
          if (l.append) {
            REQUIRE(entry < asked.entries.size());
            const Asked::Entry& e = asked.entries[entry++];
            REQUIRE(e.lane == lane);
            REQUIRE(e.append.data[0] == i);
            REQUIRE(e.append.data[1] == time + 10 * lane);
          } else {
            REQUIRE(child < asked.children.size());
            const Asked::Child& c = asked.children[child++];
            REQUIRE(c.lane == lane);
            REQUIRE(c.launch.grid_x == time + 1);
            REQUIRE(c.launch.args[0] == i);
            REQUIRE(c.launch.args[1] == 100 * lane + time);
          }
        }
      }
      std::vector<std::uint32_t> left;
      for (const std::uint32_t lane : lanes) {
        if (lane % l.modulus == l.rest) left.push_back(lane);
      }
      lanes = left;
    }
    for (const std::uint32_t lane : lanes) {
      REQUIRE(child < asked.children.size());
      REQUIRE(asked.children[child].lane == lane);
      REQUIRE(asked.children[child++].launch.args[0] == 99);
    }
    REQUIRE(child == asked.children.size());
    REQUIRE(entry == asked.entries.size());
    seen += child + entry;
  }
  CHECK(seen > 200);
}

TEST_CASE("what is wrong with a launch is said, with the line and a remedy", "[workload][TSK-06]") {
  CHECK(error("launch: {kernel: leaf}") == "accepted");
  CHECK_THAT(error("launch: {kernel: leav}"), Contains("p.yaml:9:22:") &&
                                                  Contains("kernel k, launch: there is no kernel leav") &&
                                                  Contains("did you mean leaf?"));
  CHECK_THAT(error("launch: {grid: 3}"), Contains("the key \"kernel\" is missing"));
  CHECK_THAT(error("launch: {kernel: leaf, grid: [1, 2, 3, 4]}"),
             Contains("one to three numbers are expected, found 4"));
  CHECK_THAT(error("launch: {kernel: leaf, grid: 0}"), Contains("0 CTAs, of 1 to 2147483647"));
  CHECK_THAT(error("launch: {kernel: leaf, grid: [1, 65536]}"), Contains("65536 CTAs, of 1 to 65535"));
  CHECK_THAT(error("launch: {kernel: leaf, args: [1, 2, 3, 4, 5, 6, 7]}"), Contains("7 values, of 1 to 6"));
  CHECK_THAT(error("launch: {kernel: leaf, args: []}"), Contains("0 values, of 1 to 6"));
  CHECK_THAT(error("launch: {kernel: leaf, mode: tale}"), Contains("known: stream, fire_and_forget, tail"));
  CHECK_THAT(error("launch: {kernel: leaf, mode: tail, stream: 1}"),
             Contains("a launch of mode tail enters no stream"));
  CHECK_THAT(error("launch: {kernel: leaf, priority: 2000}"), Contains("priority"));
  CHECK_THAT(error("launch: {kernel: leaf, insert: front}"), Contains("front is not possible here"));
  CHECK_THAT(error("launch: {kernel: leaf, args: [nothing]}"), Contains("nothing"));
  CHECK_THAT(error("wait_children: {child: 1}"), Contains("child"));
  CHECK_THAT(error("wait_children: {stream: 0, launch: 1}"),
             Contains("a wait is for a stream or for a launch, not for both"));
  CHECK_THAT(error("wait_children: {launch: nothing}"), Contains("nothing"));
  CHECK_THAT(error("launch: {kernel: leaf, to: 3x}"), Contains("cannot be a name"));
  CHECK_THAT(error("wait_child"), Contains("did you mean wait_children?"));
  CHECK_THAT(error("stream_create: 3x"), Contains("cannot be a name"));
  CHECK_THAT(error("stream_create: lane"), Contains("has a meaning of its own"));
  CHECK_THAT(error("append: {queue: job, value: 1}"),
             Contains("there is no queue job") && Contains("in the list `queues`"));
  CHECK_THAT(error("queue_close: job"), Contains("there is no queue job") && Contains("p.yaml:9"));
  CHECK_THAT(error("launch: {kernel: k, queue: job}"), Contains("there is no queue job"));
  CHECK_THAT(error("launch: {kernel: leaf, queue: jobs}"), Contains("kernel leaf has no program"));
  CHECK_THAT(error("launch: {kernel: k, queue: jobs, grid: 2}"), Contains("are those of its queue"));
  CHECK_THAT(error("launch: {kernel: k, queue: jobs, args: 2}"), Contains("are those of its queue"));
  CHECK_THAT(error("launch: {kernel: k, open: true}"), Contains("only a launch with `queue`"));
  CHECK(error("launch: {kernel: k, queue: jobs, open: true}") == "accepted");
  CHECK_THAT(error("event_create: lane"), Contains("has a meaning of its own"));
  CHECK_THAT(error("event_record: {stream: 1}"), Contains("the key \"event\" is missing"));
  CHECK_THAT(error("stream_wait: {event: nothing}"), Contains("nothing"));
  CHECK_THAT(error("append: {queue: jobs}"), Contains("the key \"value\" is missing"));
  CHECK_THAT(error("append: {queue: jobs, value: [1, 2, 3, 4, 5, 6, 7, 8]}"), Contains("8 values, of 1 to 7"));
}

TEST_CASE("a launch of a queue task names the queue, and a close the same", "[workload][TSK-05]") {
  const Asked open("  - launch: {kernel: k, queue: more, open: true, stream: 3}\n  - queue_close: more", 2);
  REQUIRE(open.children.size() == 2);
  for (const Asked::Child& child : open.children) {
    CHECK(child.launch.queue == open.address("more"));
    CHECK(child.launch.entries == 0);
    CHECK(child.launch.held_open);
    CHECK(child.launch.stream == 3);
    CHECK(child.launch.args == std::array<std::uint64_t, arch::kChildArgs>{});
  }
  REQUIRE(open.closes.size() == 2);
  for (const std::uint64_t queue : open.closes) CHECK(queue == open.address("more"));
  CHECK(open.names.front() == "launch k (line 9)");
  CHECK(open.names.at(1) == "queue_close more (line 10)");
  const Asked plain("  - launch: {kernel: k, queue: jobs}", 1);
  CHECK(plain.children.at(0).launch.queue == plain.address("jobs"));
  CHECK_FALSE(plain.children.at(0).launch.held_open);
}

TEST_CASE("events are recorded and waited for with the handle and the stream of each lane", "[workload][TSK-11]") {
  const Asked asked(
      "  - event_create: ready\n  - if: {cond: lane > 0, then: [{event_record: {event: ready + lane, stream: 2 * "
      "lane}}]}\n"
      "  - stream_wait: {event: ready}\n  - event_destroy: ready",
      3);
  CHECK(asked.launches);
  const std::uint64_t handle = std::uint64_t{7} << 32 | 100;
  REQUIRE(asked.marks.size() == 8);
  CHECK(asked.marks[0] == Asked::Mark{OpCode::event_record, 1, handle + 1, 2});
  CHECK(asked.marks[1] == Asked::Mark{OpCode::event_record, 2, handle + 2, 4});
  for (std::uint32_t lane = 0; lane < 3; ++lane) {
    CHECK(asked.marks[2 + lane] == Asked::Mark{OpCode::stream_wait, lane, handle, 0});
    CHECK(asked.marks[5 + lane] == Asked::Mark{OpCode::event_destroy, lane, handle, 0});
  }
}

TEST_CASE("the shipped scenarios of tasks and sharing are read", "[workload][TSK-05][TSK-11][PRT-01]") {
  for (const char* name : {"nested_quicksort", "nested_deadlock", "nested_streams", "nested_modes", "nested_events",
                           "nested_queue", "nested_sort", "host_tmdqs", "queue_task", "priorities", "partition_static",
                           "partition_dynamic", "two_address_spaces"}) {
    CAPTURE(name);
    const Scenario s = read_scenario(std::string(HEDDLE_SOURCE_DIR) + "/scenarios/" + name + ".yaml");
    CHECK_FALSE(s.description.empty());
    CHECK_FALSE(s.expectations.empty());
    for (const Workload& workload : s.workloads) CHECK(workload.warnings.empty());
  }
}

TEST_CASE("the examples of tasks on the page on scenarios are read", "[workload][TSK-05][TSK-06]") {
  const std::string page = read_text_file(std::string(HEDDLE_SOURCE_DIR) + "/docs/scenario.md");
  for (const char* name : {"tasks that launch tasks", "a queue that feeds itself", "two processes"}) {
    CAPTURE(name);
    const std::size_t begin = page.find(std::string("heddle: 1\nname: ") + name);
    REQUIRE(begin != std::string::npos);
    const Scenario s = parse_scenario(page.substr(begin, page.find("```", begin) - begin), "scenario.md");
    CHECK_FALSE(s.expectations.empty());
    CHECK(s.workloads[0].warnings.empty());
  }
}

}  // namespace program_children_test
