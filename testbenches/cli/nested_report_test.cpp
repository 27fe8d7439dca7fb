// What the results of a run show of nested work: reasons of waits and absences on the timeline, the rows of ctas.csv,
// and the kernels that programs launched, on the page and in stats.json.
#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/csv.h"

namespace cli_nested_report_test {

using namespace heddle::test;

namespace {

constexpr std::uint64_t kSlots = 2;  // CTA slots of an SM

// Each of 30 CTAs launches two leaves into one stream, one into another that shares the TMDQ, and two tail launches;
// with two places on each of ten SMs, waiting parents are saved.
const char* const kScenario = R"(heddle: 1
gpu: small
config: {gpu: {sm: {nested: {save_delay: 100}, limits: {ctas: 2}}, task: {nested: {tmdqs: 2}}}}
kernels:
  - {name: leaf, grid: 2, block: 32, program: [{compute: {unit: fp32, count: 20000}}]}
  - {name: after, grid: 1, block: 32, program: [{compute: {unit: fp32, count: 3000}}]}
  - name: parent
    grid: 30
    block: 64
    program:
      - stream_create: s
      - stream_create: t
      - if:
          cond: thread == 0
          then:
            - {launch: {kernel: leaf, stream: s}}
            - {launch: {kernel: leaf, stream: s}}
            - {launch: {kernel: leaf, stream: t}}
            - {launch: {kernel: after, mode: tail}}
            - {launch: {kernel: after, mode: tail}}
      - barrier
      - wait_children
submit:
  - {kernel: parent, stream: a}
  - {kernel: parent, stream: a}
)";

struct Slice {
  double begin = 0;  // us
  double end = 0;
  std::string name;
  std::map<std::string, std::int64_t> args;
};
using Lines = std::map<std::string, std::vector<Slice>>;  // by "group/line"

Lines lines_of(const std::string& file) {
  const nlohmann::json document = nlohmann::json::parse(gunzipped(file));
  const nlohmann::json& events = document.is_array() ? document : document.at("traceEvents");
  std::map<std::int64_t, std::string> groups;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> names;
  for (const nlohmann::json& event : events) {
    if (event.at("ph") != "M") continue;
    if (event.at("name") == "process_name") groups[event.at("pid")] = event.at("args").at("name");
    if (event.at("name") == "thread_name") names[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
  }
  Lines lines;
  for (const nlohmann::json& event : events) {
    if (event.at("ph") != "X") continue;
    Slice slice{event.at("ts"), event.at("ts").get<double>() + event.at("dur").get<double>(), event.at("name"), {}};
    if (event.contains("args")) {
      for (const auto& [key, value] : event.at("args").items()) slice.args[key] = value.get<std::int64_t>();
    }
    lines[groups.at(event.at("pid")) + "/" + names.at({event.at("pid"), event.at("tid")})].push_back(slice);
  }
  for (auto& [line, slices] : lines) {
    std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
  }
  return lines;
}

bool begins(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }

constexpr double kTick = 0.0021;  // two cycles, in us

// A task of device code: its run, and what its line of waits says before and after the run's CTAs.
struct Nested {
  Slice run;
  std::vector<Slice> waits;
};

std::vector<Nested> nested_of(const Lines& lines) {
  std::vector<Nested> all;
  for (const auto& [line, runs] : lines) {
    if (!begins(line, "gpu0 nested/depth ") || contains(line, "waits")) continue;
    double before = 0;
    for (const Slice& run : runs) {
      Nested task{run, {}};
      for (const Slice& wait : lines.at(line + " waits")) {
        if (wait.begin >= before - kTick && wait.end <= run.end + kTick) task.waits.push_back(wait);
      }
      before = run.end;
      all.push_back(task);
    }
  }
  return all;
}

struct Nest {
  explicit Nest(const TempDir& dir, const std::string& timing = "at") : results(run_in(dir, timing)) {}
  static Results run_in(const TempDir& dir, const std::string& timing) {
    dir.write("s.yaml", kScenario);
    return run_well(dir, {"s.yaml", "--trace", "json", "--dump", "ctas", "--timing", timing});
  }
  Results results;
};

}  // namespace

TEST_CASE("every moment between a launch and its first launch packet has a reason, and reasons are true",
          "[cli][timeline][TSK-11]") {
  const TempDir dir;
  const Nest nest(dir);
  const Lines lines = lines_of(nest.results.file("timeline.json.gz"));
  const std::vector<Nested> tasks = nested_of(lines);
  REQUIRE(tasks.size() == 2 * 30 * 5);
  std::map<std::string, double> end_of;  // of the CTAs of a grid of the host, and of what it launched by streams
  std::map<std::int64_t, double> others_end;
  for (const Nested& task : tasks) {
    if (task.run.args.at("mode") != 0) continue;
    double& end = others_end[task.run.args.at("parent")];
    end = std::max(end, task.run.end);
  }
  std::size_t first_tails = 0;
  for (const Nested& task : tasks) {
    CAPTURE(task.run.name);
    double at = task.waits.front().begin;
    std::vector<std::string> before;
    for (const Slice& wait : task.waits) {
      CAPTURE(wait.name);
      if (wait.end > task.run.begin + 1e-4) {
        // No task here launches anything.
        CHECK(wait.name == "its end is noted in memory");
        continue;
      }
      CHECK(wait.begin == Approx(at).margin(kTick));
      at = wait.end;
      before.push_back(wait.name);
    }
    CHECK(at == Approx(task.run.begin).margin(kTick));
    const bool tail = begins(task.run.name, "after");
    CHECK((std::count(before.begin(), before.end(), "waits for its parent's end") > 0) == tail);
    CHECK(before.front() == "its launch is on its way");
    if (!tail) continue;
    // All that the grid has launched otherwise comes first.
    for (std::size_t i = 0; i < task.waits.size(); ++i) {
      if (task.waits[i].name != "waits for its parent's end") continue;
      CHECK(i <= 1);
      CHECK(task.waits[i].end >= others_end.at(task.run.args.at("parent")) - kTick);
      const bool later = contains(task.waits.at(i + 1).name, ", a tail launch before it");
      first_tails += later ? 0 : 1;
    }
  }
  CHECK(first_tails == 2);  // one of each grid
  // A grid that has launched waits for its descendants from the end of its last CTA on.
  std::size_t grids = 0;
  for (const Slice& wait : lines.at("gpu0 streams/stream a waits")) grids += wait.name == "waits for its descendants";
  CHECK(grids == 2);
}

TEST_CASE("who is behind whom in a stream is so from the push to the other one's end", "[cli][timeline][TSK-11]") {
  const TempDir dir;
  const Nest nest(dir);
  const std::vector<Nested> tasks = nested_of(lines_of(nest.results.file("timeline.json.gz")));
  std::map<std::string, const Nested*> by_name;
  for (const Nested& task : tasks) by_name[task.run.name] = &task;
  std::size_t plain = 0;
  std::size_t strangers = 0;
  for (const Nested& task : tasks) {
    for (const Slice& wait : task.waits) {
      const std::size_t at = wait.name.find("behind ");
      if (at == std::string::npos || contains(wait.name, "a task that waits")) continue;
      std::string name = wait.name.substr(at + 7);
      name = name.substr(0, std::min(name.find(" in its stream"), name.find(", a tail")));
      CAPTURE(task.run.name, wait.name);
      REQUIRE(by_name.count(name) == 1);
      const Slice& ahead = by_name.at(name)->run;
      CHECK(wait.end == Approx(ahead.end).margin(2));  // and the steps that end it
      CHECK(wait.end >= ahead.end - kTick);
      const bool same = ahead.args.at("stream") == task.run.args.at("stream");
      if (task.run.args.at("mode") != 0) continue;
      CHECK(same == !begins(wait.name, "false dependency"));
      (same ? plain : strangers) += 1;
    }
  }
  CHECK(plain == 60);
  CHECK(strangers >= 57);  // up to three find that what was ahead of them has ended
}

TEST_CASE("a saved CTA has a row of ctas.csv for every stay, and its absence is on the timeline",
          "[cli][timeline][TSK-12]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  CAPTURE(timing);
  const TempDir dir;
  const Nest nest(dir, timing);
  const std::vector<Row> rows = rows_of(read_file(nest.results.file("ctas.csv")));
  // By CTA: its stays.
  std::map<std::pair<std::string, std::string>, std::vector<const Row*>> stays;
  std::map<std::string, std::vector<std::pair<std::uint64_t, int>>> edges;  // by SM
  for (const Row& row : rows) {
    stays[{row.at("task"), row.at("x")}].push_back(&row);
    edges[row.at("sm")].emplace_back(number(row, "first_instruction"), 1);
    edges[row.at("sm")].emplace_back(number(row, "end"), -1);
    CHECK(number(row, "first_instruction") < number(row, "end"));
  }
  std::uint64_t saves = 0;
  for (const auto& [cta, list] : stays) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Row& row = *list[i];
      CAPTURE(row);
      CHECK(number(row, "stay") == i);
      CHECK(row.at("saved") == (i + 1 < list.size() ? "1" : "0"));
      if (i > 0) CHECK(number(row, "launch") > number(*list[i - 1], "end"));
      saves += i > 0 ? 1 : 0;
    }
  }
  CHECK(saves > 30);
  CHECK(static_cast<double>(saves) == nest.results.stat("gpu0.task.restores"));
  // At no time more CTAs than places.
  for (auto& [sm, list] : edges) {
    std::sort(list.begin(), list.end());  // ends first
    std::int64_t running = 0;
    for (const auto& [cycle, edge] : list) {
      running += edge;
      REQUIRE(running <= static_cast<std::int64_t>(kSlots));
    }
  }
  // Absences: as many, each in a gap between two stays of its CTA; a cycle is a nanosecond.
  std::uint64_t away = 0;
  for (const auto& [line, slices] : lines_of(nest.results.file("timeline.json.gz"))) {
    if (!begins(line, "gpu0 nested/saved CTAs ")) continue;
    double free = 0;
    for (const Slice& slice : slices) {
      ++away;
      CHECK(slice.begin >= free - 1e-6);
      free = slice.end;
      bool found = false;
      for (const char* task : {"0", "1"}) {
        const auto& list = stays.at({task, std::to_string(slice.args.at("cta"))});
        for (std::size_t i = 1; i < list.size(); ++i) {
          const double left = static_cast<double>(number(*list[i - 1], "end")) / 1e3;
          const double back = static_cast<double>(number(*list[i], "launch")) / 1e3;
          const double here = static_cast<double>(number(*list[i], "end")) / 1e3;
          found = found || (slice.begin == Approx(left).margin(kTick) && slice.end >= back && slice.end <= here &&
                            std::to_string(slice.args.at("from")) == list[i - 1]->at("sm") &&
                            std::to_string(slice.args.at("to")) == list[i]->at("sm"));
        }
      }
      CHECK(found);
    }
  }
  CHECK(away == saves);
}

TEST_CASE("rows of tasks that programs launched have their kernel, parent and depth", "[cli][TSK-11]") {
  const TempDir dir;
  const Nest nest(dir);
  std::map<std::string, std::size_t> ctas;
  for (const Row& row : rows_of(read_file(nest.results.file("ctas.csv")))) {
    CAPTURE(row);
    const bool child = number(row, "task") >= 1U << 30U;
    CHECK(row.at("depth") == (child ? "1" : "0"));
    CHECK((row.at("kernel") == "parent") != child);
    CHECK(row.at("subcontext") == "0");
    if (child) CHECK((row.at("parent") == "0" || row.at("parent") == "1"));
    if (!child) CHECK(row.at("parent").empty());
    if (row.at("saved") == "0") ++ctas[row.at("kernel")];
  }
  CHECK(ctas == std::map<std::string, std::size_t>{{"parent", 60}, {"leaf", 360}, {"after", 120}});
}

TEST_CASE("the page and stats.json have kernels that programs launched, by name, parent and depth", "[cli][TSK-11]") {
  const std::string submit = GENERATE("streams", "aql", "tmdq");
  CAPTURE(submit);
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  const Results results = run_well(dir, {"s.yaml", "--submit", submit});
  const nlohmann::json& rows = results.page().at("gpus").at(0).at("launched");
  CHECK(results.document().at("gpus").at(0).at("launched") == rows);
  REQUIRE(rows.size() == 3);
  std::map<std::string, nlohmann::json> by_name;
  double false_dependencies = 0;
  double tasks = 0;
  double saves = 0;
  for (const nlohmann::json& row : rows) {
    by_name[row.at("name")] = row;
    false_dependencies += row.at("false_dependencies").get<double>();
    tasks += row.at("tasks").get<double>();
    saves += row.at("saves").get<double>();
    CHECK(row.at("parent") == (row.at("name") == "parent" ? "" : "parent"));
    CHECK(row.at("depth") == (row.at("name") == "parent" ? 0 : 1));
    CHECK(row.at("mean_below_us").is_null());
  }
  CHECK(tasks == results.stat("gpu0.task.children"));
  CHECK(false_dependencies == results.stat("gpu0.task.false_dependencies"));
  CHECK(saves == results.stat("gpu0.task.restores"));
  CHECK(by_name.at("parent").at("saves") == saves);
  CHECK(by_name.at("leaf").at("tasks") == 180);
  CHECK(by_name.at("after").at("tasks") == 120);
  CHECK(by_name.at("leaf").at("mean_us").get<double>() == Approx(20).epsilon(0.05));
  CHECK(by_name.at("after").at("mean_us").get<double>() == Approx(3).epsilon(0.05));
}

TEST_CASE("a recursion has a row for every depth, and times of descendants", "[cli][TSK-11]") {
  const TempDir dir;
  dir.write("s.yaml", R"(heddle: 1
gpu: small
kernels:
  - name: part
    grid: 1
    block: 32
    program:
      - load: {to: level, type: u64, at: kernarg}
      - if: {cond: level > 0 && lane < 2, then: [{launch: {kernel: part, mode: fire_and_forget, args: [level - 1]}}]}
  - name: root
    grid: 1
    block: 32
    program:
      - if: {cond: lane == 0, then: [{launch: {kernel: part, args: [3]}}]}
submit:
  - {kernel: root, stream: a}
)");
  const Results results = run_well(dir, {"s.yaml"});
  const nlohmann::json& rows = results.page().at("gpus").at(0).at("launched");
  REQUIRE(rows.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(rows[i].at("depth") == i + 1);
    CHECK(rows[i].at("parent") == (i == 0 ? "root" : "part"));
    CHECK(rows[i].at("tasks") == 1U << i);
    CHECK(rows[i].at("ended") == 1U << i);
    CHECK(rows[i].at("mean_below_us").is_null() == (i == 3));
  }
}

TEST_CASE("a more urgent kernel of clusters behind CTAs of another: its stream says what it waits for",
          "[cli][timeline]") {
  const TempDir dir;
  dir.write("s.yaml", R"(heddle: 1
gpu: small
kernels:
  - {name: many, grid: 400, block: 1024, cycles: {min: 3000, max: 6000}}
  - {name: big, grid: 8, block: 256, cluster: 4, shared: 200 KiB, cycles: 1000}
submit:
  - {kernel: many, stream: a}
  - {kernel: big, stream: b, at: 5 us, priority: 1}
)");
  const Results results = run_well(dir, {"s.yaml", "--trace", "json"});
  const Lines lines = lines_of(results.file("timeline.json.gz"));
  double fits = 0;
  double all = 0;
  for (const Slice& wait : lines.at("gpu0 streams/stream b waits")) {
    CHECK(wait.name != "no task table slot");  // 126 are free
    if (wait.name == "not submitted yet") continue;
    all += wait.end - wait.begin;
    if (wait.name == "no room: its clusters do not fit into the free slots") fits += wait.end - wait.begin;
  }
  CHECK(all > 2);
  CHECK(fits > 0.9 * all);
}

TEST_CASE("a task that waits for the task table says so", "[cli][timeline]") {
  const TempDir dir;
  dir.write("s.yaml", R"(heddle: 1
gpu: small
config: {gpu: {cwd: {table_slots: 1}}}
kernels:
  - {name: one, grid: 1, block: 32, cycles: 5000}
submit:
  - {kernel: one, stream: a}
  - {kernel: one, stream: b}
)");
  const Results results = run_well(dir, {"s.yaml", "--trace", "json"});
  double waited = 0;
  for (const auto& [line, slices] : lines_of(results.file("timeline.json.gz"))) {
    if (!begins(line, "gpu0 streams/") || !contains(line, " waits")) continue;
    for (const Slice& wait : slices) waited += wait.name == "no task table slot" ? wait.end - wait.begin : 0;
  }
  CHECK(waited == Approx(5).epsilon(0.05));
}

}  // namespace cli_nested_report_test
