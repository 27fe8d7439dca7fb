// Two hostile processes beside a victim: random programs that launch, append, reach for memory that is not theirs and
// go wrong, while the host changes shares. The victim's results and its latency are what they are alone, and all comes
// to an end, in dynamic and in static mode.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/csv.h"
#include "cli/program.h"
#include "support/random.h"

namespace cli_process_storm_test {

using namespace heddle::test;

namespace {

constexpr std::uint32_t kRounds = 36;         // of the victim
constexpr std::uint32_t kInterval = 25;       // us from one to the next
constexpr std::uint32_t kCut = 1000;          // us: from then on nobody may run
constexpr std::uint32_t kLate = kCut + 1500;  // us: what is submitted behind everything
constexpr std::uint32_t kAgain = kLate + 20;  // us: when they may run again
constexpr std::uint32_t kThreads = 8 * 64;    // of a round of the victim
constexpr std::uint32_t kWords = 16'384;      // of each hostile process

// Steps of a hostile program, each a line of YAML. Variables: x, a number of its own for each thread, and v.
class HostileProgram {
 public:
  struct Rights {
    bool faults = false;  // it may do what stops it
    bool waits = false;   // for its children: then it has no local memory, so that it can be saved
    bool launches = false;
    bool appends = false;
    std::uint32_t local = 0;
  };
  HostileProgram(Random& random, std::uint32_t process, const Rights& rights)
      : random_(random), process_(process), rights_(rights) {}

  std::string text() {
    add(0,
        fmt::format("set: {{x: thread * {} + cta * {}, type: u32}}", random_.between(1, 999), random_.between(1, 999)));
    add(0, "set: {v: 0, type: u32}");
    steps(0, random_.between(6, 14));
    if (rights_.waits) add(0, "wait_children");
    return text_;
  }

 private:
  void add(std::uint32_t depth, const std::string& step) {
    text_ += std::string(6 + 4 * depth, ' ') + "- " + step + "\n";
  }

  std::string own() const { return fmt::format("mem{} + 4 * ((x * {} + v) % {})", process_, 7, kWords); }

  void steps(std::uint32_t depth, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) step(depth);
  }

  void step(std::uint32_t depth) {
    switch (random_.below(14)) {
      case 0:
      case 1:
        return add(depth, fmt::format("load: {{to: v, type: u32, at: {}}}", own()));
      case 2:
        return add(depth, fmt::format("store: {{value: x, type: u32, at: {}}}", own()));
      case 3:
        return add(depth, fmt::format("atomic: {{op: add, value: 1, type: u32, at: {}}}", own()));
      case 4:
        return add(depth, fmt::format("store: {{space: shared, at: 4 * (thread % 256), value: v, type: u32}}"));
      case 5:
        return add(depth, "load: {space: shared, at: 4 * ((thread * 5) % 256), to: v, type: u32}");
      case 6:
        return add(depth, fmt::format("set: {{x: x * {} + v}}", random_.between(3, 99)));
      case 7:
        if (depth == 0) return add(depth, "barrier");
        return add(depth, "fence: {scope: gpu}");
      case 8:
        return block(depth, fmt::format("loop: {{var: i{}, to: {}, do: [", depth, random_.between(2, 8)));
      case 9:
        return block(depth, fmt::format("if: {{cond: lane < {}, then: [", random_.between(1, 31)));
      case 10:
        return local(depth);
      case 11:
        return launch(depth);
      case 12:
        return wrong(depth);
      default:
        return add(depth, fmt::format("compute: {{unit: {}, count: {}}}", random_.chance(50) ? "fp32" : "int32",
                                      random_.between(1, 60)));
    }
  }

  // A step with steps of its own, on one line.
  void block(std::uint32_t depth, const std::string& head) {
    if (depth > 1) return;
    const std::string before = std::move(text_);
    text_.clear();
    steps(depth + 1, random_.between(1, 4));
    std::string inner;
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = text_.find('\n', at);
      const std::string line = text_.substr(at, end - at);
      const std::size_t begin = line.find("- ") + 2;
      const std::string step = line.substr(begin);
      inner += (inner.empty() ? "" : ", ") + (step.find(':') == std::string::npos ? step : "{" + step + "}");
      at = end + 1;
    }
    text_ = before;
    if (!inner.empty()) add(depth, head + inner + "]}");
  }

  void local(std::uint32_t depth) {
    if (rights_.local == 0) return;
    const std::string at = fmt::format("4 * ((x + v) % {})", rights_.local / 4);
    if (random_.chance(50)) return add(depth, fmt::format("store: {{space: local, at: {}, value: x, type: u32}}", at));
    add(depth, fmt::format("load: {{space: local, at: {}, to: v, type: u32}}", at));
  }

  void launch(std::uint32_t depth) {
    if (rights_.launches && depth == 0 && launched_ < 3) {
      ++launched_;
      return add(depth,
                 fmt::format("if: {{cond: lane == 0, then: [{{launch: {{kernel: child{}, mode: {}, args: [{}]}}}}]}}",
                             random_.below(3), random_.chance(50) ? "fire_and_forget" : "stream", random_.below(1000)));
    }
    if (rights_.appends && depth == 0 && appended_ < 1) {
      ++appended_;
      add(depth, fmt::format("if: {{cond: thread == 0, then: [{{append: {{queue: queue{}, value: [{}]}}}}]}}", process_,
                             random_.below(50)));
    }
  }

  void wrong(std::uint32_t depth) {
    if (!rights_.faults || random_.chance(60)) return;
    const char* const kWrong[] = {
        "load: {to: v, type: u32, at: 1099511627776 + 4 * x}",
        "store: {value: x, type: u32, at: \"(1 << 40) + 4 * x\"}",
        "load: {to: v, type: u32, at: 1 + 4 * x}",
        "store: {value: x, type: u32, space: shared, at: 1048576}",
        "atomic: {op: add, value: 1, type: u32, at: 4 * x}",
        "store: {value: 7, type: u32, at: 0x30000000 + 4 * x}",
        "barrier: {number: 3, threads: 1024}",
    };
    add(depth, kWrong[random_.below(std::size(kWrong))]);
  }

  Random& random_;
  const std::uint32_t process_;
  const Rights rights_;
  std::string text_;
  std::uint32_t launched_ = 0;
  std::uint32_t appended_ = 0;
};

const char* const kTpcs = "[[0, 0], [0, 1], [0, 2], [1, 0]]";  // of the hostile ones; the victim has [1, 1]

// A kernel for each round, as only packets carry arguments.
std::string victim_kernel(std::uint32_t round) {
  return fmt::format(
      "  - name: victim{0}\n    grid: 8\n    block: 64\n    shared: 256 B\n    local: 32 B\n    subcontext: 3\n    "
      "program:\n"
      "      - let: {{id: cta * 64 + thread}}\n"
      "      - load: {{to: a, type: u32, at: in + 4 * id}}\n"
      "      - store: {{space: local, at: 4 * (id % 8), value: a * 3, type: u32}}\n"
      "      - store: {{space: shared, at: 4 * thread, value: {0} * 7, type: u32}}\n"
      "      - barrier\n"
      "      - load: {{to: b, type: u32, space: shared, at: 4 * (63 - thread)}}\n"
      "      - load: {{to: c, type: u32, space: local, at: 4 * (id % 8)}}\n"
      "      - store: {{value: b + c + id, type: u32, at: out + 4 * ({1} * {0} + id)}}\n",
      round, kThreads);
}

bool of_victim(const std::string& kernel) { return kernel.rfind("victim", 0) == 0; }

struct Storm {
  std::string kernels;
  std::string queues;
  std::string submits;
  std::string shares;
};

void add_hostile(Random& random, std::uint32_t process, std::uint32_t count, Storm& storm) {
  std::string appenders;
  for (std::uint32_t k = 0; k < count; ++k) {
    HostileProgram::Rights rights;
    rights.faults = random.chance(25);
    rights.launches = random.chance(30);
    rights.waits = rights.launches && random.chance(50);
    rights.appends = random.chance(15);
    rights.local = rights.waits || random.chance(50) ? 0 : 4 * random.between(1, 64);
    const std::string name = fmt::format("h{}_{}", process, k);
    const std::uint32_t grid = rights.appends ? random.between(1, 4) : random.between(1, 30);
    storm.kernels += fmt::format(
        "  - name: {}\n    grid: {}\n    block: {}\n    shared: 1 KiB\n    local: {}\n    subcontext: {}\n    "
        "program:\n{}",
        name, grid, 32 * random.between(1, 8), rights.local, process, HostileProgram(random, process, rights).text());
    storm.submits += fmt::format("  - {{kernel: {}, id: {}, stream: s{}_{}, at: {} us}}\n", name, name, process,
                                 random.below(9), random.below(kCut - 100));
    if (rights.appends) appenders += (appenders.empty() ? "" : ", ") + name;
  }
  storm.queues += fmt::format("  - {{name: queue{}, capacity: 512}}\n", process);
  storm.kernels += fmt::format(
      "  - name: eat{}\n    grid: 1\n    block: 32\n    subcontext: {}\n    program:\n"
      "      - load: {{to: n, type: u64, at: kernarg}}\n"
      "      - loop: {{var: i, to: 4, do: [{{atomic: {{op: add, value: n, type: u32, at: mem{} + 4 * lane}}}}]}}\n",
      process, process, process);
  storm.submits += fmt::format("  - {{kernel: eat{}, stream: q{}, queue: queue{}, until: [{}]}}\n", process, process,
                               process, appenders);
}

void add_changes(Random& random, Storm& storm) {
  for (std::uint32_t at = 5; at < kCut; at += random.between(2, 18)) {
    const std::uint32_t process = random.between(1, 2);
    const char* const kPlaces[] = {"gpc: 0, tpc: 0", "gpc: 0, tpc: 1", "gpc: 0, tpc: 2", "gpc: 1, tpc: 0"};
    std::string what;
    switch (random.below(5)) {
      case 0:
        what = fmt::format("credits: {}", random.below(5));
        break;
      case 1:
        what = fmt::format("{}, enabled: {}", kPlaces[random.below(4)], random.chance(75));
        break;
      case 2:
        what = fmt::format("sms: {} %", random.between(10, 100));
        break;
      case 3:
        what = fmt::format("warps: {} %", random.between(13, 100));  // 9 warps at least
        break;
      default:
        what = fmt::format("bandwidth_limit: {} %", random.between(5, 100));
    }
    storm.shares += fmt::format("  - {{at: {} us, subcontext: {}, {}}}\n", at, process, what);
  }
}

// Nobody may run from kCut on, so that the machine is quiet when the last kernels come. Then everybody may, all at
// once.
void add_end(bool is_static, Storm& storm) {
  const auto share = [&storm](std::uint32_t at, std::uint32_t process, const std::string& what) {
    storm.shares += fmt::format("  - {{at: {} us, subcontext: {}, {}}}\n", at, process, what);
  };
  const std::vector<std::string> places{"gpc: 0, tpc: 0", "gpc: 0, tpc: 1", "gpc: 0, tpc: 2", "gpc: 1, tpc: 0"};
  for (const std::uint32_t process : {1U, 2U}) {
    for (const char* all : {"sms: 100 %", "warps: 100 %", "bandwidth_limit: 100 %"}) share(kCut, process, all);
    share(kCut, process, "credits: 4");
    for (const std::string& place : places) share(kCut, process, place + ", enabled: true");
    // What came before has had its time.
    for (const std::string& place : places) share(kLate - 10, process, place + ", enabled: false");
  }
  share(kLate - 10, 3, "gpc: 1, tpc: 1, enabled: false");
  if (is_static) {
    storm.shares += fmt::format("  - {{at: {} us, mode: static}}\n", kLate - 5);
    for (const char* block : {"gpc: 1, tpc: 1, block: 0"}) share(kLate - 4, 3, block);
    for (std::size_t i = 0; i < places.size(); ++i) {
      for (const std::uint32_t process : {1U, 2U})
        share(kLate - 4, process, fmt::format("{}, block: {}", places[i], i));
    }
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (const std::uint32_t process : {1U, 2U}) {
      if (!is_static || i % 2 + 1 == process) share(kAgain, process, places[i] + ", enabled: true");
    }
  }
  share(kAgain, 3, "gpc: 1, tpc: 1, enabled: true");
}

// `hostile`: kernels of each of the two.
std::string scenario_of(const Storm& storm, bool hostile) {
  std::string text = fmt::format(
      "heddle: 1\ngpu: small\nconfig: {{gpu: {{mmu: {{enabled: true}}, cwd: {{partition: dynamic}}}}}}\nsubcontexts:\n"
      "  - {{id: 1, translated: true, credits: 4, tpcs: {}}}\n  - {{id: 2, translated: true, credits: 4, tpcs: {}}}\n"
      "  - {{id: 3, translated: true, credits: 1, tpcs: [[1, 1]]}}\n"
      "memory:\n  - {{name: mem1, bytes: {} B, subcontext: 1}}\n  - {{name: mem2, bytes: {} B, subcontext: 2}}\n"
      "  - {{name: in, bytes: {} B, subcontext: 3, init: {{pattern: \"i * 17\", type: u32}}}}\n"
      "  - {{name: out, bytes: {} B, subcontext: 3}}\n",
      kTpcs, kTpcs, 4 * kWords, 4 * kWords, 4 * kThreads, 4 * kThreads * (kRounds + 1));
  if (hostile) text += "queues:\n" + storm.queues;
  text += "kernels:\n";
  if (hostile) {
    for (std::uint32_t child = 0; child < 3; ++child) {
      text += fmt::format(
          "  - name: child{}\n    grid: {}\n    block: {}\n    program:\n"
          "      - load: {{to: n, type: u64, at: kernarg}}\n      - compute: {{unit: fp32, count: 50}}\n{}",
          child, 1 + child, 32 << child,
          child < 2 ? "" : "      - if: {cond: thread == 0, then: [{launch: {kernel: child0, args: [1]}}]}\n");
    }
    text += storm.kernels;
  }
  for (std::uint32_t round = 0; round <= kRounds; ++round) text += victim_kernel(round);
  text += "submit:\n";
  if (hostile) text += storm.submits;
  for (std::uint32_t round = 0; round <= kRounds; ++round) {
    text += fmt::format("  - {{kernel: victim{}, stream: v, at: {} us}}\n", round,
                        round < kRounds ? 10 + kInterval * round : kLate);
  }
  if (hostile) {
    for (const std::uint32_t process : {1U, 2U}) {
      text += fmt::format("  - {{kernel: last{}, stream: last{}, at: {} us}}\n", process, process, kLate);
    }
  }
  if (hostile) text += "share:\n" + storm.shares;
  return text +
         fmt::format("expect:\n  - {{memory: out, type: u32, pattern: \"i % {} * 52 + (i - i % {}) / {} * 7\"}}\n",
                     kThreads, kThreads, kThreads);
}

// ns from the submission of each round of the victim to the end of its last CTA.
std::vector<std::uint64_t> latencies(const std::vector<Row>& rows) {
  std::vector<std::uint64_t> ends;
  std::map<std::string, std::uint64_t> by_task;
  for (const Row& row : rows) {
    if (!of_victim(row.at("kernel"))) continue;
    std::uint64_t& end = by_task[row.at("task")];
    end = std::max(end, number(row, "end"));
  }
  for (const auto& [task, end] : by_task) ends.push_back(end);
  std::sort(ends.begin(), ends.end());
  for (std::size_t round = 0; round < ends.size() && round < kRounds; ++round) {
    ends[round] -= 1000 * (10 + kInterval * round);
  }
  return ends;
}

}  // namespace

TEST_CASE("two hostile processes neither change nor delay what a third does", "[cli][stress][PRT-02][PRT-08][PRT-11]") {
  const TempDir dir;
  for (const bool is_static : {false, true}) {
    Random random(seed() + (is_static ? 1 : 0));
    Storm storm;
    for (const std::uint32_t process : {1U, 2U}) add_hostile(random, process, 70, storm);
    add_changes(random, storm);
    add_end(is_static, storm);
    for (const std::uint32_t process : {1U, 2U}) {
      storm.kernels +=
          fmt::format("  - {{name: last{}, grid: 40, block: 128, cycles: 3000, subcontext: {}}}\n", process, process);
    }
    dir.write("alone.yaml", scenario_of(storm, false));
    const std::vector<std::uint64_t> alone = latencies(dumped(dir, "alone.yaml"));
    dir.write("storm.yaml", scenario_of(storm, true));

    const Finished finished = heddle_in(dir, {"run", "storm.yaml", "--out", "out", "--dump", "ctas"});
    CAPTURE(is_static, finished.err, finished.out.substr(0, 3000));
    REQUIRE((finished.status == 0 || finished.status == 1));  // faults that nobody expects
    const Results results(dir.file("out"));
    // Right, in time, and untouched by the faults of others.
    CHECK(contains(finished.out, "met:     memory out"));
    const std::vector<Row> rows = rows_of(read_file(results.file("ctas.csv")));
    const std::vector<std::uint64_t> beside = latencies(rows);
    REQUIRE(alone.size() == kRounds + 1);
    REQUIRE(beside.size() == kRounds + 1);
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      CAPTURE(round);
      CHECK(beside[round] <= 3 * alone[round]);
    }
    std::uint64_t faults = 0;
    for (const auto& fault : results.document().at("faults")) {
      ++faults;
      CHECK_FALSE(of_victim(fault.at("kernel")));
    }
    CHECK(faults > 10);
    // The last kernels came to a quiet machine on which nobody might run, and ran when they might.
    std::map<std::string, std::uint64_t> last;
    for (const Row& row : rows) {
      const std::uint64_t launch = number(row, "launch");
      CHECK((number(row, "end") < 1000 * (kLate - 10) || launch >= 1000 * kAgain));
      if (launch >= 1000 * kAgain) ++last[row.at("kernel")];
    }
    CHECK(last ==
          std::map<std::string, std::uint64_t>{{"last1", 40}, {"last2", 40}, {fmt::format("victim{}", kRounds), 8}});
    // It was a storm.
    double operations = 0;
    for (const auto& [path, stat] : results.document().at("stats").items()) {
      if (contains(path, ".instructions.")) operations += stat.at("value").get<double>();
    }
    CAPTURE(operations);
    CHECK(operations > 1e6);
    for (const char* what : {"gpu0.task.children", "gpu0.cwd.share_changes"}) CHECK(results.stat(what) > 50);
    CHECK(results.stat("gpu0.cwd.share_refused") == 0);
  }
}

}  // namespace cli_process_storm_test
