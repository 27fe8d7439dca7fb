// Whole GPUs that are connected: programs, copies, waits and collectives over links.
#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/params.h"
#include "gpu/gpu_params.h"
#include "replay/simulation.h"
#include "scenario/collectives.h"
#include "scenario/scenario.h"
#include "support/random.h"

namespace heddle::test::linked_gpus_test {
namespace {

using link::Topology;

struct Setup {
  std::string preset = "small";
  TimingMode timing = TimingMode::at;
  Topology topology = Topology::through_switch;
  std::vector<std::string> sets;  // parameters of all GPUs
};

struct Outcome {
  scenario::Scenario scene;
  replay::SimulationResult result;
  // The bytes of a region, wherever it lies.
  std::vector<std::uint8_t> bytes(const std::string& name) const {
    for (std::size_t g = 0; g < scene.workloads.size(); ++g) {
      const auto& regions = scene.workloads[g].memory;
      for (std::size_t i = 0; i < regions.size(); ++i) {
        if (regions[i].name == name) return result.jobs[g].regions[i];
      }
    }
    return {};
  }
  template <class T>
  std::vector<T> values(const std::string& name) const {
    const std::vector<std::uint8_t> raw = bytes(name);
    std::vector<T> all(raw.size() / sizeof(T));
    if (!all.empty()) std::memcpy(all.data(), raw.data(), all.size() * sizeof(T));
    return all;
  }
  double stat(std::size_t gpu, const std::string& name) const {
    return result.jobs[gpu].observation->stats.value(fmt::format("gpu{}.{}", gpu, name));
  }
};

Outcome run(const std::string& text, const Setup& setup) {
  Outcome outcome;
  outcome.scene = scenario::parse_scenario(text, "test.yaml");
  std::vector<replay::Job> jobs;
  for (std::size_t g = 0; g < outcome.scene.workloads.size(); ++g) {
    replay::Job job;
    job.instance = fmt::format("gpu{}", g);
    ParamBinder binder;
    job.params.bind(binder);
    ParamLayers layers(1);
    layers.add_preset(0, gpu::preset(setup.preset), {Origin::Kind::preset, setup.preset});
    layers.resolve(binder, 0);
    for (const std::string& set : setup.sets) binder.set(set);
    job.params.machine.timing = setup.timing;
    job.workload = &outcome.scene.workloads[g];
    job.packets = outcome.scene.packets;
    job.tmdqs = outcome.scene.tmdqs;
    for (const workload::MemoryRegion& region : outcome.scene.workloads[g].memory) job.regions.push_back(region.name);
    jobs.push_back(std::move(job));
  }
  replay::SimulationOptions options;
  options.links.topology = setup.topology;
  outcome.result = replay::simulate(jobs, options);
  return outcome;
}

bool good(const Outcome& outcome) {
  if (!outcome.result.progress) UNSCOPED_INFO(outcome.result.stopped);
  for (const std::string& wait : outcome.result.waits) UNSCOPED_INFO(wait);
  bool well = outcome.result.progress;
  for (const replay::JobResult& job : outcome.result.jobs) {
    for (const arch::FaultRecord& fault : job.faults) UNSCOPED_INFO(arch::text_of(fault));
    well = well && job.faults.empty();
  }
  return well;
}

constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};

}  // namespace

TEST_CASE("programs read, write and add to the memory of another GPU", "[links][LNK-01][LNK-04]") {
  const std::string text = R"yaml(
heddle: 1
name: neighbours
gpus: [small, small]
memory:
  - {name: x, bytes: 16 KiB, gpu: 0, shared: true, init: {pattern: 3 * i + 1, type: u32}}
  - {name: y, bytes: 16 KiB, gpu: 1, shared: true}
  - {name: sums, bytes: 128, gpu: 1, shared: true}
  - {name: odd, bytes: 4 KiB, gpu: 1, shared: true}
kernels:
  - name: send
    grid: 8
    block: 128
    program:
      - loop:
          var: k
          to: 4
          do:
            - load: {to: v, type: u32, at: "x + 4 * (1024 * k + 128 * cta + thread)"}
            - store: {value: 2 * v, type: u32, at: "y + 4 * (1024 * k + 128 * cta + thread)"}
      - atomic: {op: add, type: u32, at: sums + 4 * (lane % 8), value: 1}
      - if: {cond: thread == 0, then: [{atomic: {to: old, op: add, type: u32, at: sums + 64, value: 1}}]}
      - if: {cond: lane % 2 == 1, then: [{store: {value: 7, type: u8, at: odd + 128 * cta + thread}}]}
  - name: back
    grid: 8
    block: 128
    program:
      - loop:
          var: k
          to: 4
          do:
            - load: {to: v, type: u32, at: "y + 4 * (1024 * k + 128 * cta + thread)"}
            - store: {value: v + 5, type: u32, at: "x + 4 * (1024 * k + 128 * cta + thread)"}
streams: [{name: a, gpu: 0}, {name: b, gpu: 0}]
submit:
  - {kernel: send, stream: a}
  - {kernel: back, stream: a}
)yaml";
  for (const TimingMode mode : kModes) {
    for (const Topology topology : {Topology::direct, Topology::through_switch}) {
      CAPTURE(static_cast<int>(mode), static_cast<int>(topology));
      const Outcome outcome = run(text, {"small", mode, topology, {"gpu.links.ports=3"}});
      REQUIRE(good(outcome));
      const auto x = outcome.values<std::uint32_t>("x");
      const auto y = outcome.values<std::uint32_t>("y");
      for (std::uint32_t i = 0; i < 4096; ++i) {
        REQUIRE(y[i] == 6 * i + 2);
        REQUIRE(x[i] == 6 * i + 7);
      }
      const auto sums = outcome.values<std::uint32_t>("sums");
      for (std::uint32_t i = 0; i < 8; ++i) CHECK(sums[i] == 8 * 128 / 8);
      CHECK(sums[16] == 8);
      const std::vector<std::uint8_t> odd = outcome.bytes("odd");
      for (std::uint32_t i = 0; i < 1024; ++i) REQUIRE(odd[i] == (i % 2 == 1 ? 7 : 0));
      CHECK(outcome.stat(1, "links.served") >= 4096 / 32);
    }
  }
}

TEST_CASE("a flag that a GPU sets behind its data is seen behind them by another", "[links][LNK-05]") {
  // Each of 32 CTAs sends a line and then a flag; the CTA of the other GPU waits for that and checks the line.
  const std::string text = R"yaml(
heddle: 1
name: messages
gpus: [small, small]
memory:
  - {name: data, bytes: 128 KiB, gpu: 1, shared: true}
  - {name: flags, bytes: 4 KiB, gpu: 1, shared: true}
  - {name: wrong, bytes: 128, gpu: 1, shared: true}
kernels:
  - name: send
    grid: 32
    block: 256
    program:
      - loop: {var: k, to: 4, do: [{store: {value: cta + 1, type: u32, at: "data + 4096 * cta + 1024 * k + 4 * thread"}}]}
      - barrier
      - if: {cond: thread == 0, then: [{store: {value: 1, type: u32, at: flags + 4 * cta, order: release, scope: system}}]}
  - name: look
    grid: 32
    block: 256
    program:
      - set: {seen: 0, type: u32}
      - while: {cond: seen == 0, do: [{load: {to: seen, type: u32, at: flags + 4 * cta, order: acquire, scope: system}}]}
      - loop:
          var: k
          to: 4
          do:
            - load: {to: v, type: u32, at: "data + 4096 * cta + 1024 * k + 4 * thread"}
            - if: {cond: v != cta + 1, then: [{atomic: {op: add, type: u32, at: wrong, value: 1}}]}
streams: [{name: a, gpu: 0}, {name: b, gpu: 1}]
submit:
  - {kernel: look, stream: b}
  - {kernel: send, stream: a}
)yaml";
  for (const TimingMode mode : kModes) {
    for (const Topology topology : {Topology::direct, Topology::through_switch}) {
      CAPTURE(static_cast<int>(mode), static_cast<int>(topology));
      const Outcome outcome = run(text, {"small", mode, topology, {"gpu.links.ports=2", "gpu.links.bandwidth=5"}});
      REQUIRE(good(outcome));
      CHECK(outcome.values<std::uint32_t>("wrong")[0] == 0);
      CHECK(outcome.values<std::uint32_t>("data")[32 * 1024 - 1] == 32);
    }
  }
}

TEST_CASE("without links an address of another GPU is outside memory, and a copy there is refused", "[links][LNK-01]") {
  const std::string head = R"yaml(
heddle: 1
name: nowhere
gpus: [small, small]
memory:
  - {name: x, bytes: 4 KiB, gpu: 0}
  - {name: y, bytes: 4 KiB, gpu: 1, shared: true}
streams: [{name: a, gpu: 0}]
)yaml";
  const Outcome outcome = run(head + R"yaml(
kernels:
  - {name: send, grid: 1, block: 32, program: [{store: {value: 1, type: u32, at: y + 4 * lane}}]}
submit: [{kernel: send, stream: a}]
)yaml",
                              {"small", TimingMode::fast, Topology::none, {}});
  REQUIRE(outcome.result.jobs[0].faults.size() == 1);
  CHECK(outcome.result.jobs[0].faults[0].kind == arch::FaultKind::address);
  CHECK_THROWS_WITH(run(head + "submit: [{copy: 4 KiB, from: x, to: y, stream: a}]\n",
                        {"small", TimingMode::fast, Topology::none, {}}),
                    Catch::Contains("no links"));
}

TEST_CASE("copy engines move bytes between GPUs, and streams wait across GPUs", "[links][LNK-09]") {
  const std::string text = R"yaml(
heddle: 1
name: a chain
gpus: [small, small, small]
memory:
  - {name: x, bytes: 64 KiB, gpu: 0, init: {pattern: 5 * i + 3, type: u32}}
  - {name: y, bytes: 64 KiB, gpu: 1}
  - {name: z, bytes: 64 KiB, gpu: 2}
kernels:
  - name: twice
    grid: 16
    block: 256
    program:
      - loop:
          var: k
          to: 4
          do:
            - load: {to: v, type: u32, at: "y + 4 * (4096 * k + 256 * cta + thread)"}
            - store: {value: 2 * v, type: u32, at: "y + 4 * (4096 * k + 256 * cta + thread)"}
streams: [{name: a, gpu: 0}, {name: b, gpu: 1}, {name: c, gpu: 2}]
submit:
  - {id: last, copy: 64 KiB, from: y, to: z, stream: c, after: twice}
  - {id: twice, kernel: twice, stream: b, after: first}
  - {id: first, copy: 64 KiB, from: x, to: y, stream: a}
)yaml";
  for (const TimingMode mode : kModes) {
    CAPTURE(static_cast<int>(mode));
    const Outcome outcome = run(text, {"small", mode, Topology::through_switch, {"gpu.links.ports=2"}});
    REQUIRE(good(outcome));
    const auto z = outcome.values<std::uint32_t>("z");
    for (std::uint32_t i = 0; i < z.size(); ++i) REQUIRE(z[i] == 10 * i + 6);
    const replay::OpResult& first = outcome.result.jobs[0].results[0];
    const replay::OpResult& twice = outcome.result.jobs[1].results[0];
    const replay::OpResult& last = outcome.result.jobs[2].results[0];
    const double news = link::FabricParams{}.event_latency;
    CHECK(twice.start >= first.end + news);
    CHECK(last.start >= twice.end + news);
    CHECK(twice.start <= first.end + news + 5000);
    if (mode == TimingMode::lt) continue;
    // 64 KiB over two links of 25 GB/s, with a header for each line.
    CHECK(first.end - first.start >= 65536 * 144.0 / 128 / 50);
  }
}

TEST_CASE("a large copy between GPUs has the bandwidth of its links", "[links][LNK-02][LNK-09]") {
  const std::string text = R"yaml(
heddle: 1
name: a copy
gpus: [small, small]
memory:
  - {name: x, bytes: 4 MiB, gpu: 0, init: {pattern: i, type: u32}}
  - {name: y, bytes: 4 MiB, gpu: 1}
streams: [{name: a, gpu: 0}]
submit: [{copy: 4 MiB, from: x, to: y, stream: a}]
)yaml";
  double times[2] = {};
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast}) {
    const Outcome outcome =
        run(text, {"small", mode, Topology::direct, {"gpu.links.ports=2", "gpu.links.bandwidth=10"}});
    REQUIRE(good(outcome));
    const replay::OpResult& copy = outcome.result.jobs[0].results[0];
    times[mode == TimingMode::at ? 0 : 1] = copy.end - copy.start;
    const double limit = 4 * 1048576 * 144.0 / 128 / 20;
    CHECK(copy.end - copy.start >= limit);
    CHECK(copy.end - copy.start <= limit * (mode == TimingMode::at ? 1.10 : 1.02) + 2000);
    const auto y = outcome.values<std::uint32_t>("y");
    CHECK(y[123'456] == 123'456);
    CHECK(y.back() == 1048575);
  }
  CHECK(times[1] == Approx(times[0]).epsilon(0.10));
}

namespace {

// Element i of rank g: small whole numbers, whose sums are exact in any order.
std::string collective_text(const std::string& what, std::uint32_t gpus, std::uint64_t bytes, const std::string& keys) {
  std::string names = "small";
  std::string memory;
  std::string streams;
  std::string lists[2];
  for (std::uint32_t g = 0; g < gpus; ++g) {
    if (g > 0) names += ", small";
    memory += fmt::format(
        "  - {{name: x{0}, bytes: {1}, gpu: {0}, shared: true, init: {{pattern: {0} * 10 + i % 1000, type: f32}}}}\n",
        g, bytes);
    streams += fmt::format("{}{{name: s{}, gpu: {}}}", g > 0 ? ", " : "", g, g);
    lists[0] += fmt::format("{}s{}", g > 0 ? ", " : "", g);
    lists[1] += fmt::format("{}x{}", g > 0 ? ", " : "", g);
  }
  return fmt::format(
      "heddle: 1\nname: collective\ngpus: [{}]\nmemory:\n{}streams: [{}]\nsubmit:\n  - {{{}: {}, streams: [{}], "
      "buffers: [{}], threads: 128, ctas: 4{}}}\n",
      names, memory, streams, what, bytes, lists[0], lists[1], keys);
}

void check_collective(const std::string& what, std::uint32_t gpus, const Outcome& outcome) {
  const std::size_t count = outcome.values<float>("x0").size();
  const std::size_t chunk = count / gpus;
  for (std::uint32_t g = 0; g < gpus; ++g) {
    const auto x = outcome.values<float>(fmt::format("x{}", g));
    for (std::size_t i = 0; i < count; ++i) {
      const auto own = [&](std::size_t rank) { return static_cast<float>(rank * 10 + i % 1000); };
      float sum = 0;
      for (std::uint32_t r = 0; r < gpus; ++r) sum += own(r);
      CAPTURE(what, g, i);
      if (what == "all_reduce") REQUIRE(x[i] == sum);
      if (what == "all_gather") REQUIRE(x[i] == own(i / chunk));
      if (what == "reduce_scatter" && i / chunk == g) REQUIRE(x[i] == sum);
      if (what == "broadcast") REQUIRE(x[i] == own(0));
    }
  }
}

}  // namespace

TEST_CASE("collectives leave exactly what they should, in a ring and by the switch", "[links][LNK-10]") {
  for (const std::string what : {"all_reduce", "all_gather", "reduce_scatter", "broadcast"}) {
    for (const std::string algorithm : {"ring", "switch"}) {
      for (const std::uint32_t gpus : {2U, 4U}) {
        for (const TimingMode mode : {TimingMode::at, TimingMode::fast}) {
          for (const std::uint64_t bytes : {std::uint64_t{256}, std::uint64_t{48} << 10}) {
            CAPTURE(what, algorithm, gpus, static_cast<int>(mode), bytes);
            const Outcome outcome = run(collective_text(what, gpus, bytes, ", algorithm: " + algorithm),
                                        {"small", mode, Topology::through_switch, {"gpu.links.ports=4"}});
            REQUIRE(good(outcome));
            check_collective(what, gpus, outcome);
          }
        }
      }
    }
  }
}

TEST_CASE("a ring needs no switch", "[links][LNK-10]") {
  const Outcome outcome = run(collective_text("all_reduce", 3, 48 << 10, ", algorithm: ring"),
                              {"small", TimingMode::fast, Topology::direct, {"gpu.links.ports=4"}});
  REQUIRE(good(outcome));
  check_collective("all_reduce", 3, outcome);
}

TEST_CASE("collectives come near to what their links carry, and not beyond it", "[links][LNK-11]") {
  constexpr std::uint64_t kBytes = 1 << 20;
  for (const std::string algorithm : {"ring", "switch"}) {
    for (const TimingMode mode : {TimingMode::at, TimingMode::fast}) {
      CAPTURE(algorithm, static_cast<int>(mode));
      // Slow links, so that nothing else counts.
      const Outcome outcome =
          run(collective_text("all_reduce", 4, kBytes, ", algorithm: " + algorithm),
              {"small", mode, Topology::through_switch, {"gpu.links.ports=2", "gpu.links.bandwidth=2"}});
      REQUIRE(good(outcome));
      double end = 0;
      for (const replay::JobResult& job : outcome.result.jobs) end = std::max(end, job.results[0].end);
      const double carried = scenario::bytes_carried(scenario::Collective::all_reduce, 4, algorithm == "switch");
      const double limit = static_cast<double>(kBytes) * carried / 4;  // ns, without headers
      CHECK(end >= limit);
      CHECK(end <= limit * (mode == TimingMode::at ? 1.5 : 2.5) + 30'000);
    }
  }
}

namespace {

// One of several that follow each other in the same streams, on the same buffers.
struct Following {
  std::string what;
  std::uint64_t bytes = 0;
  std::uint32_t ctas = 1;
  std::uint32_t threads = 32;
};

constexpr std::uint32_t kFollowingRanks = 3;
constexpr std::uint64_t kFollowingBytes = 4800;

std::string following_text(const std::vector<Following>& all, const std::string& algorithm, std::uint32_t late) {
  std::string text = "heddle: 1\nname: following\ngpus: [small, small, small]\nmemory:\n";
  for (std::uint32_t g = 0; g < kFollowingRanks; ++g) {
    text += fmt::format(
        "  - {{name: x{0}, bytes: {1}, gpu: {0}, shared: true, init: {{pattern: {0} + i % 7, type: f32}}}}\n", g,
        kFollowingBytes);
  }
  text += "kernels: [{name: before, grid: 1, block: 32, cycles: 40000}]\n";
  text += "streams: [{name: s0, gpu: 0}, {name: s1, gpu: 1}, {name: s2, gpu: 2}]\nsubmit:\n";
  text += fmt::format("  - {{kernel: before, stream: s{}}}\n", late);
  for (const Following& one : all) {
    text += fmt::format(
        "  - {{{}: {}, streams: [s0, s1, s2], buffers: [x0, x1, x2], ctas: {}, threads: {}, algorithm: {}}}\n",
        one.what, one.bytes, one.ctas, one.threads, algorithm);
  }
  return text;
}

// What the definition of each says of the buffers, one after the other.
std::vector<std::vector<float>> following_oracle(const std::vector<Following>& all) {
  std::vector<std::vector<float>> x(kFollowingRanks, std::vector<float>(kFollowingBytes / 4));
  for (std::size_t g = 0; g < x.size(); ++g) {
    for (std::size_t i = 0; i < x[g].size(); ++i) x[g][i] = static_cast<float>(g + i % 7);
  }
  for (const Following& one : all) {
    const std::vector<std::vector<float>> before = x;
    const std::size_t count = one.bytes / 4;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t part = i / (count / kFollowingRanks);
      const float sum = before[0][i] + before[1][i] + before[2][i];
      for (std::size_t g = 0; g < x.size(); ++g) {
        if (one.what == "all_reduce" || (one.what == "reduce_scatter" && part == g)) x[g][i] = sum;
        if (one.what == "all_gather") x[g][i] = before[part][i];
        if (one.what == "broadcast") x[g][i] = before[0][i];
      }
    }
  }
  return x;
}

}  // namespace

TEST_CASE("collectives that follow each other share flags and scratch memory, and each is exact", "[links][LNK-10]") {
  CAPTURE(seed());
  Random random(seed());
  const auto any = [&random](std::uint32_t count) { return static_cast<std::uint32_t>(random.below(count)); };
  const char* const kinds[] = {"broadcast", "all_gather", "reduce_scatter", "all_reduce"};
  for (const std::string algorithm : {"ring", "switch"}) {
    for (const TimingMode mode : kModes) {
      // Whoever comes late finds what the others have written ahead, as far as they can get.
      for (std::uint32_t late = 0; late < kFollowingRanks; ++late) {
        std::vector<Following> all(3, {"broadcast", 480, 2, 32});
        std::uint32_t sums = 0;
        while (all.size() < 14) {
          Following one{kinds[any(4)], 48 * (1 + any(100)), 1 + any(5), 32 * (1 + any(4))};
          const bool adds = one.what == kinds[2] || one.what == kinds[3];
          if (adds && ++sums > 6) one.what = kinds[any(2)];  // sums stay exact in f32
          all.push_back(one);
        }
        CAPTURE(algorithm, static_cast<int>(mode), late);
        const Outcome outcome =
            run(following_text(all, algorithm, late), {"small", mode, Topology::through_switch, {"gpu.links.ports=2"}});
        REQUIRE(good(outcome));
        const std::vector<std::vector<float>> expected = following_oracle(all);
        for (std::uint32_t g = 0; g < kFollowingRanks; ++g) {
          CAPTURE(g);
          REQUIRE(outcome.values<float>(fmt::format("x{}", g)) == expected[g]);
        }
      }
    }
  }
}

TEST_CASE("collectives are submitted by packets and into TMDQs as well", "[links][LNK-10]") {
  const std::vector<Following> all = {{"broadcast", 480, 2, 32},
                                      {"all_reduce", 4800, 3, 64},
                                      {"all_gather", 960, 1, 32},
                                      {"all_reduce", 480, 5, 96},
                                      {"reduce_scatter", 4800, 2, 32}};
  const std::vector<std::vector<float>> expected = following_oracle(all);
  for (const char* by : {"by: aql", "by: aql, format: reference", "by: aql, format: condensed", "by: tmdq"}) {
    for (const std::uint32_t late : {0U, 2U}) {
      std::string text = following_text(all, "ring", late);
      const std::size_t at = text.find("submit:\n");
      text.insert(text.size(), "  ]}\n");
      std::string operations;
      std::istringstream lines(text.substr(at + 8));
      for (std::string line; std::getline(lines, line);) {
        const bool one = line.rfind("  - ", 0) == 0;
        operations += one ? "    " + line.substr(4) + ",\n" : line + "\n";
      }
      text = text.substr(0, at) + fmt::format("submit: {{{}, operations: [\n{}", by, operations);
      CAPTURE(by, late, text);
      const Outcome outcome = run(text, {"small", TimingMode::fast, Topology::through_switch, {"gpu.links.ports=2"}});
      REQUIRE(good(outcome));
      for (std::uint32_t g = 0; g < kFollowingRanks; ++g) {
        CAPTURE(g);
        REQUIRE(outcome.values<float>(fmt::format("x{}", g)) == expected[g]);
      }
    }
  }
}

TEST_CASE("as many collectives of the same streams as there may be need the memory of one", "[links][LNK-10]") {
  const scenario::Scenario scene =
      scenario::parse_scenario(following_text(std::vector<Following>(400, {"all_reduce", 480, 2, 32}), "ring", 0), "t");
  for (const workload::Workload& gpu : scene.workloads) CHECK(gpu.memory.size() == 3);  // buffer, flags, scratch
  // Others may be under way at the same time.
  std::string text = following_text({{"all_reduce", 480, 2, 32}}, "ring", 0);
  text += "  - {all_reduce: 480, streams: [s0, t1, s2], buffers: [x0, x1, x2]}\n";
  text.replace(text.find("streams: ["), 10, "streams: [{name: t1, gpu: 1}, ");
  for (const workload::Workload& gpu : scenario::parse_scenario(text, "t").workloads) CHECK(gpu.memory.size() == 5);
}

TEST_CASE("what is wrong with a collective or a copy is said with file and line", "[links][LNK-10]") {
  const std::string good_text = collective_text("all_reduce", 2, 4096, "");
  const auto failure = [](std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    try {
      (void)scenario::parse_scenario(text, "test.yaml");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(failure(good_text, "streams: [s0, s1]", "streams: [s0, s7]"), Catch::Contains("no stream s7"));
  CHECK_THAT(failure(good_text, "buffers: [x0, x1]", "buffers: [x1, x0]"), Catch::Contains("same order"));
  CHECK_THAT(failure(good_text, "all_reduce: 4096", "all_reduce: 4100"), Catch::Contains("not a multiple"));
  CHECK_THAT(failure(good_text, "all_reduce: 4096", "all_reduce: 8192"), Catch::Contains("bytes only"));
  CHECK_THAT(failure(good_text, "gpu: 0, shared: true", "gpu: 0"), Catch::Contains("shared: true"));
  CHECK_THAT(failure(good_text, "threads: 128", "algorithm: tree"), Catch::Contains("tree"));
}

}  // namespace heddle::test::linked_gpus_test
