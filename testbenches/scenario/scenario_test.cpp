// Scenario files: what they become, and what is said of those that are wrong.
#include "scenario/scenario.h"

#include <fstream>
#include <set>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/params.h"
#include "common/yaml_util.h"
#include "scenario/scenario_schema.h"
#include "support/random.h"

namespace scenario_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::scenario;
using Catch::Contains;

namespace {

const std::string kRoot = HEDDLE_SOURCE_DIR;

const std::string kFull = R"(heddle: 1
name: everything
description: every key at least once
gpus: [h100-sxm, {preset: small}]
config: {gpu: {cwd: {table_slots: 16}}, gpu1: {}}
seed: 0xffffffffffffffff
kernels:
  - {name: gemm, grid: [64, 8], block: 256, registers: 64, shared: 48 KiB, cycles: 2000}
  - {name: uneven, grid: [2, 3, 4], block: [8, 8, 2], cycles: {min: 500 cycles, max: 1500}}
  - {name: one, grid: 1, block: 1, cycles: 1}
streams:
  - {name: urgent, priority: 3}
  - {name: other, gpu: 1, priority: -1}
submit:
  - {id: first, kernel: gemm, stream: b, at: 10 us, after: last, repeat: 3}
  - {copy: 1 MiB, stream: urgent, for: 3 us, id: load, after: [first, last]}
  - {fill: 4096, stream: b, for: 0}
  - {id: away, kernel: uneven, stream: other, repeat: 2, at: 0}
  - {id: last, kernel: one, stream: 7, after: away}
expect:
  - {stat: gpu0.cwd.ctas_launched, equals: 1537}
  - {stat: a, min: -1.5, max: 2e3}
  - {stat: b, max: 5}
  - {stat: c, about: -200, within: 2 %}
  - {stat: d, about: 10, within: 0.5}
)";

// A scenario of a few lines, into which cases put their mistake.
std::string with(const std::string& submit, const std::string& rest = {}) {
  return "heddle: 1\nkernels: [{name: gemm, grid: 4, block: 32, cycles: 10}]\n" + rest + "submit:\n" + submit + "\n";
}

std::string error(const std::string& text) {
  try {
    parse_scenario(text, "s.yaml");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

std::string kernel_error(const std::string& kernel) {
  return error("heddle: 1\nsubmit: [{kernel: k, stream: a}]\nkernels:\n  - " + kernel + "\n");
}

std::string expect_error(const std::string& expectation) {
  return error(with("  - {kernel: gemm, stream: a}", "expect: [" + expectation + "]\n"));
}

}  // namespace

TEST_CASE("a scenario becomes one workload per GPU", "[workload][scenario]") {
  const Scenario s = parse_scenario(kFull, "dir/full.yaml");
  CHECK(s.name == "everything");
  CHECK(s.description == "every key at least once");
  CHECK(s.gpus == std::vector<std::string>{"h100-sxm", "small"});
  CHECK(s.gpus_named);
  CHECK(s.seed == 0xffffffffffffffffU);
  CHECK(s.config["gpu"]["cwd"]["table_slots"].as<int>() == 16);
  REQUIRE(s.workloads.size() == 2);

  const Workload& w = s.workloads[0];
  CHECK(w.format == "scenario");
  CHECK(w.name == "everything");
  CHECK(w.warnings.empty());
  REQUIRE(w.streams.size() == 3);
  CHECK(w.streams[0].name == "urgent");
  CHECK(w.streams[0].priority == 3);
  CHECK(w.streams[1].name == "b");  // not declared: in the order of use
  CHECK(w.streams[1].priority == 0);
  CHECK(w.streams[2].name == "7");
  REQUIRE(w.ops.size() == 6);
  CHECK(w.kernels() == 4);
  for (std::size_t i = 0; i < 3; ++i) {
    const Op& op = w.ops[i];
    CHECK(op.kernel.name == "gemm");
    CHECK(op.kernel.grid == arch::Dim3{64, 8, 1});
    CHECK(op.kernel.block == arch::Dim3{256, 1, 1});
    CHECK(op.kernel.registers_per_thread == 64);
    CHECK(op.kernel.shared_bytes == 48 * 1024);
    CHECK(op.kernel.duration.min == 2000);
    CHECK(op.kernel.duration.max == 2000);
    CHECK(op.enqueue == 10'000);
    CHECK(op.stream == 1);
  }
  REQUIRE(w.ops[0].after.size() == 1);  // the first of the repeated ones waits; its stream orders the others
  CHECK(w.ops[0].after[0].from == 5);
  CHECK(w.ops[0].after[0].source == EdgeSource::recorded);
  CHECK(w.ops[1].after.empty());
  CHECK(w.ops[3].kind == OpKind::copy);
  CHECK(w.ops[3].bytes == 1 << 20);
  CHECK(w.ops[3].duration == 3000);
  CHECK(w.ops[3].enqueue == 0);
  CHECK(w.ops[3].kernel.name == "load");
  REQUIRE(w.ops[3].after.size() == 2);
  CHECK(w.ops[3].after[0].from == 2);  // `after` a repeated operation means its last
  CHECK(w.ops[3].after[1].from == 5);  // which may stand later
  CHECK(w.ops[4].kind == OpKind::fill);
  CHECK(w.ops[4].bytes == 4096);
  CHECK(w.ops[4].duration == 0);
  REQUIRE(w.ops[5].after.size() == 1);
  CHECK(w.ops[5].after[0].from == 1);
  CHECK(w.ops[5].after[0].gpu == 1);

  const Workload& other = s.workloads[1];
  REQUIRE(other.ops.size() == 2);
  CHECK(other.streams[0].priority == -1);
  CHECK(other.ops[1].kernel.grid == arch::Dim3{2, 3, 4});
  CHECK(other.ops[1].kernel.block == arch::Dim3{8, 8, 2});
  CHECK(other.ops[1].kernel.duration.min == 500);
  CHECK(other.ops[1].kernel.duration.max == 1500);
}

TEST_CASE("expectations judge values", "[workload][scenario]") {
  const Scenario s = parse_scenario(kFull, "full.yaml");
  REQUIRE(s.expectations.size() == 5);
  const auto& e = s.expectations;
  CHECK(e[0].where.line == 21);
  CHECK(e[0].holds(1537));
  CHECK_FALSE(e[0].holds(1537.5));
  CHECK(e[0].text() == "= 1537");
  CHECK(e[1].holds(-1.5));
  CHECK(e[1].holds(2000));
  CHECK_FALSE(e[1].holds(2001));
  CHECK_FALSE(e[1].holds(std::numeric_limits<double>::quiet_NaN()));
  CHECK(e[1].text() == "-1.5 to 2000");
  CHECK(e[2].holds(-1e9));
  CHECK(e[2].text() == "<= 5");
  CHECK(e[3].holds(-204));
  CHECK_FALSE(e[3].holds(-204.1));
  CHECK(e[3].text() == "-200 +- 2 %");
  CHECK(e[4].holds(9.5));
  CHECK_FALSE(e[4].holds(9.4));
}

TEST_CASE("what a scenario leaves out has a default", "[workload][scenario]") {
  const Scenario s = parse_scenario(with("  - {kernel: gemm, stream: a}"), "dir/plain.yaml");
  CHECK(s.name == "plain");
  CHECK(s.gpus == std::vector<std::string>{kDefaultPreset});
  CHECK_FALSE(s.gpus_named);
  CHECK_FALSE(s.seed);
  CHECK((!s.config.IsDefined() || s.config.IsNull()));
  CHECK(s.expectations.empty());
  CHECK(s.workloads.at(0).ops.at(0).enqueue == 0);
  CHECK(s.workloads[0].ops[0].kernel.registers_per_thread == 0);
  CHECK(parse_scenario(with("  - {kernel: gemm, stream: a}", "gpu: {preset: small}\n"), "s").gpus.at(0) == "small");
}

TEST_CASE("what is described and never used is worth a warning", "[workload][scenario]") {
  const Scenario s =
      parse_scenario(with("  - {copy: 1 B, stream: a, for: 1 ns}", "streams: [{name: idle}]\n"), "s.yaml");
  REQUIRE(s.workloads[0].warnings.size() == 2);
  CHECK_THAT(s.workloads[0].warnings[0], Contains("kernel gemm is never submitted"));
  CHECK_THAT(s.workloads[0].warnings[1], Contains("stream idle is never used"));
}

TEST_CASE("files that are no scenario are refused", "[workload][scenario]") {
  CHECK_THAT(error(""), Contains("s.yaml: the file is empty"));
  CHECK_THAT(error("# only a comment\n"), Contains("empty"));
  CHECK_THAT(error("just text"), Contains("this is not a scenario"));
  CHECK_THAT(error("[1, 2]"), Contains("this is not a scenario"));
  CHECK_THAT(error("name: x\n"), Contains("the key \"heddle\" is missing") && Contains("heddle: 1"));
  CHECK_THAT(error("heddle: 2\nnew_key: 1\n"), Contains("s.yaml:1:9: format version \"2\" is not known"));
  CHECK_THAT(error("heddle: [1]\n"), Contains("format version a list is not known"));
  CHECK_THAT(error("heddle: 1\nname: {\n"), Contains("s.yaml:") && Contains("not valid YAML"));
  CHECK_THAT(error("heddle: 1\nheddle: 1\n"), Contains("s.yaml:2:1: the key \"heddle\" stands twice"));
  CHECK_THAT(error("heddle: 1\n"), Contains("the key \"submit\" is missing"));
  CHECK_THAT(error("heddle: 1\nsubmit: []\n"), Contains("nothing to run"));
  CHECK_THAT(error("heddle: 1\nsubmit:\n"), Contains("a list or a map is expected, found nothing"));
  CHECK_THROWS_WITH(read_scenario("/nonexistent/s.yaml"), Contains("there is no such file"));
  CHECK_THROWS_WITH(read_scenario(kRoot), Contains("a folder"));
}

TEST_CASE("mistakes in the top level and in streams", "[workload][scenario]") {
  const std::string ok = "  - {kernel: gemm, stream: a}";
  CHECK_THAT(error(with(ok, "kernel: []\n")),
             Contains("s.yaml:3:1: scenario: unknown key \"kernel\"") && Contains("did you mean kernels?"));
  CHECK_THAT(error(with(ok, "gpu: small\ngpus: [small]\n")), Contains("use one of the two"));
  CHECK_THAT(error(with(ok, "gpus: []\n")), Contains("a scenario needs a GPU"));
  CHECK_THAT(error(with(ok, "gpus: [[a]]\n")), Contains("the name of a preset is expected, found a list"));
  CHECK_THAT(error(with(ok, "gpus: [{presset: a}]\n")), Contains("did you mean preset?"));
  CHECK_THAT(error(with(ok, "config: 3\n")), Contains("a map is expected, found \"3\""));
  CHECK_THAT(error(with(ok, "seed: -1\n")), Contains("-1 is negative"));
  CHECK_THAT(error(with(ok, "seed: now\n")), Contains("not a number"));
  CHECK_THAT(error(with(ok, "name: \"a\\nb\"\n")), Contains("one line"));
  CHECK_THAT(error(with(ok, "streams: [{name: a}, {name: a}]\n")), Contains("stream a, name: there are two streams a"));
  CHECK_THAT(error(with(ok, "streams: [{name: a, gpu: 1}]\n")), Contains("stream a, gpu: 1 is out of range"));
  CHECK_THAT(error(with(ok, "streams: [{name: a, priority: high}]\n")),
             Contains("not a number") && Contains("larger is more urgent"));
  CHECK_THAT(error(with(ok, "streams: [a]\n")),
             Contains("stream: a map is expected, found \"a\"") && Contains("write {name: …}"));
}

TEST_CASE("mistakes in kernels", "[workload][scenario]") {
  CHECK_THAT(kernel_error("{name: k, grid: 1, block: 1}"),
             Contains("s.yaml:4:5: kernel k: the key \"cycles\" is missing"));
  CHECK_THAT(kernel_error("{name: k, grid: 1, block: 1, cycles: 1, register: 3}"), Contains("did you mean registers?"));
  CHECK_THAT(kernel_error("{name: k, grid: 0, block: 1, cycles: 1}"), Contains("kernel k, grid: 0 is out of range"));
  CHECK_THAT(kernel_error("{name: k, grid: [1, 65536], block: 1, cycles: 1}"), Contains("65536 is out of range"));
  CHECK_THAT(kernel_error("{name: k, grid: [1, 2, 3, 4], block: 1, cycles: 1}"), Contains("one to three numbers"));
  CHECK_THAT(kernel_error("{name: k, grid: [], block: 1, cycles: 1}"), Contains("one to three numbers"));
  CHECK_THAT(kernel_error("{name: k, grid: [[1]], block: 1, cycles: 1}"), Contains("found a list"));
  CHECK_THAT(kernel_error("{name: k, grid: {x: 1}, block: 1, cycles: 1}"),
             Contains("an integer or a list is expected"));
  CHECK_THAT(kernel_error("{name: k, grid: 1.5, block: 1, cycles: 1}"), Contains("not a whole number"));
  CHECK_THAT(kernel_error("{name: k, grid: 1, block: 1, cycles: 1 us}"), Contains("1 us is in us, cycles is expected"));
  CHECK_THAT(kernel_error("{name: k, grid: 1, block: 1, cycles: 0}"), Contains("out of range"));
  CHECK_THAT(kernel_error("{name: k, grid: 1, block: 1, cycles: {min: 5, max: 4}}"),
             Contains("min is larger than max"));
  CHECK_THAT(kernel_error("{name: k, grid: 1, block: 1, cycles: {min: 5}}"),
             Contains("kernel k, cycles: the key \"max\""));
  CHECK_THAT(kernel_error("{name: k, grid: 1, block: 1, cycles: 1, shared: 48 KB}"), Contains("KiB"));
  CHECK_THAT(kernel_error("{name: k, grid: 1, block: 1, cycles: 1, shared: 4 GiB}"), Contains("out of range"));
  CHECK_THAT(kernel_error("{name: k, grid: 1, block: 1, cycles: 1}\n  - {name: k, grid: 1, block: 1, cycles: 1}"),
             Contains("s.yaml:5:12") && Contains("there are two kernels k"));
}

TEST_CASE("mistakes in operations", "[workload][scenario]") {
  CHECK_THAT(error(with("  - {stream: a}")), Contains("what to do is missing"));
  CHECK_THAT(error(with("  - gemm")), Contains("what to do is missing"));
  CHECK_THAT(error(with("  - {kernel: gemm, copy: 1, stream: a}")), Contains("it is both a kernel and a copy"));
  CHECK_THAT(error(with("  - {kernel: gemm}")), Contains("the key \"stream\" is missing"));
  CHECK_THAT(error(with("  - {kernel: gem, stream: a}")),
             Contains("s.yaml:4:14: operation: there is no kernel gem") && Contains("did you mean gemm?"));
  CHECK_THAT(error(with("  - {kernel: gemm, stream: a, for: 3 us}")), Contains("unknown key \"for\""));
  CHECK_THAT(error(with("  - {copy: 1 MiB, stream: a}")), Contains("the key \"for\" is missing"));
  CHECK_THAT(error(with("  - {copy: 1 MiB, stream: a, for: 3}")), Contains("3 has no unit") && Contains("ns, us"));
  CHECK_THAT(error(with("  - {copy: 0, stream: a, for: 3 us}")), Contains("out of range"));
  CHECK_THAT(error(with("  - {kernel: gemm, stream: a, at: 10}")), Contains("10 has no unit"));
  CHECK_THAT(error(with("  - {kernel: gemm, stream: a, at: 10 cycles}")),
             Contains("10 cycles is in cycles, ns is expected"));
  CHECK_THAT(error(with("  - {kernel: gemm, stream: a, at: -1 ns}")), Contains("out of range"));
  CHECK_THAT(error(with("  - {kernel: gemm, stream: a, repeat: 0}")), Contains("out of range"));
  CHECK_THAT(
      error(with("  - {kernel: gemm, stream: a, repeat: 600000}\n  - {kernel: gemm, stream: a, repeat: 600000}")),
      Contains("s.yaml:5:5") && Contains("more than 1000000 operations"));
  CHECK_THAT(error(with("  - {id: x, kernel: gemm, stream: a}\n  - {id: x, kernel: gemm, stream: a}")),
             Contains("operation x, id: there are two operations x"));
  CHECK_THAT(error(with("  - {id: first, kernel: gemm, stream: a}\n  - {kernel: gemm, stream: a, after: frist}")),
             Contains("s.yaml:5:38: operation, after: there is no operation frist") && Contains("did you mean first?"));
  CHECK_THAT(error(with("  - {id: x, kernel: gemm, stream: a, after: [x, x]}")), Contains("x stands twice"));
  CHECK_THAT(error(with("  - {id: x, kernel: gemm, stream: a, after: [[x]]}")), Contains("found a list"));
  // Operations of different GPUs may wait for each other (LNK-09).
  CHECK(error(with("  - {id: x, kernel: gemm, stream: a}\n  - {id: y, kernel: gemm, stream: b, after: x}",
                   "gpus: [small, small]\nstreams: [{name: b, gpu: 1}]\n")) == "accepted");
}

TEST_CASE("operations that wait in a circle are refused with their lines, and others are not", "[scenario]") {
  CHECK_THAT(error(with("  - {id: x, kernel: gemm, stream: a, after: x}")),
             Contains("s.yaml:4:45: operations wait in a circle") &&
                 Contains("operation x (line 4) waits for operation x (line 4)") && Contains("leave one of these"));
  // Through a stream: who stands behind waits.
  CHECK_THAT(error(with("  - {id: x, kernel: gemm, stream: a, after: z}\n  - {kernel: gemm, stream: a}\n"
                        "  - {id: z, kernel: gemm, stream: a}")),
             Contains("s.yaml:4:45:") && Contains("operation x (line 4) waits for operation z (line 6), operation z "
                                                  "(line 6) stands in its stream behind operation x (line 4)"));
  CHECK_THAT(
      error(with("  - {id: x, kernel: gemm, stream: a, after: y}\n  - {id: y, kernel: gemm, stream: b, after: x}",
                 "gpus: [small, small]\nstreams: [{name: b, gpu: 1}]\n")),
      Contains("circle"));

  // Whoever can be reached from itself waits in a circle: all pairs, by brute force.
  HEDDLE_RANDOM(random);
  int circles = 0;
  int others = 0;
  for (int round = 0; round < 400; ++round) {
    constexpr std::size_t kOps = 6;
    std::vector<std::vector<bool>> waits(kOps, std::vector<bool>(kOps));
    std::vector<std::size_t> streams;
    std::string operations;
    for (std::size_t i = 0; i < kOps; ++i) {
      streams.push_back(random.below(3));
      operations += fmt::format("  - {{id: o{}, kernel: gemm, stream: s{}, after: [", i, streams[i]);
      for (std::size_t j = 0; j < kOps; ++j) {
        const bool asked = random.below(10) == 0;
        waits[i][j] = asked || (j < i && streams[i] == streams[j]);
        if (asked) operations += fmt::format("o{}, ", j);
      }
      operations += "]}\n";
    }
    for (std::size_t k = 0; k < kOps; ++k) {
      for (std::size_t i = 0; i < kOps; ++i) {
        for (std::size_t j = 0; j < kOps; ++j) waits[i][j] = waits[i][j] || (waits[i][k] && waits[k][j]);
      }
    }
    bool circle = false;
    for (std::size_t i = 0; i < kOps; ++i) circle = circle || waits[i][i];
    const std::string said = error(with(operations, "gpus: [small, small]\nstreams: [{name: s2, gpu: 1}]\n"));
    CAPTURE(operations, said);
    CHECK((said.find("wait in a circle") != std::string::npos) == circle);
    CHECK((said == "accepted") == !circle);
    ++(circle ? circles : others);
  }
  CHECK(circles > 50);
  CHECK(others > 50);
}

TEST_CASE("mistakes in expectations", "[workload][scenario]") {
  CHECK_THAT(expect_error("{stat: x}"), Contains("expectation x: it does not say clearly"));
  CHECK_THAT(expect_error("{stat: x, equals: 1, min: 0}"), Contains("does not say clearly"));
  CHECK_THAT(expect_error("{stat: x, about: 1}"), Contains("does not say clearly"));
  CHECK_THAT(expect_error("{stat: x, within: 1}"), Contains("does not say clearly"));
  CHECK_THAT(expect_error("{stat: x, min: 2, max: 1}"), Contains("min is larger"));
  CHECK_THAT(expect_error("{stat: x, min: 2 us}"), Contains("a number without unit is expected"));
  CHECK_THAT(expect_error("{stat: x, about: 2, within: -1}"), Contains("out of range"));
  CHECK_THAT(expect_error("{stat: x, equals: .nan}"), Contains("not a finite number"));
  CHECK_THAT(expect_error("{equals: 1}"), Contains("the key \"stat\" is missing"));
  CHECK_THAT(expect_error("{stat: x, equal: 1}"), Contains("did you mean equals?"));
}

TEST_CASE("scenarios are recognised by their content", "[workload][scenario]") {
  CHECK(looks_like_scenario("heddle: 1\n"));
  CHECK(looks_like_scenario("# comment\n---\nname: x\nheddle : 1\n"));
  CHECK(looks_like_scenario("\xef\xbb\xbf\"heddle\": 1\r\n"));
  CHECK(looks_like_scenario("  {\n \"heddle\": 1, \"submit\": []}"));
  CHECK(looks_like_scenario("{heddle: 1}"));
  CHECK_FALSE(looks_like_scenario(""));
  CHECK_FALSE(looks_like_scenario("{"));
  CHECK_FALSE(looks_like_scenario("heddle"));
  CHECK_FALSE(looks_like_scenario("heddles: 1"));
  CHECK_FALSE(looks_like_scenario("x:\n  heddle: 1\n"));
  CHECK_FALSE(looks_like_scenario("\x1f\x8b\x08heddle: 1"));
  CHECK_FALSE(looks_like_scenario("{\"traceEvents\": [{\"name\": \"\nheddle: 1\"}]}"));
}

TEST_CASE("the shipped scenarios read without warnings", "[workload][scenario]") {
  const std::string name = GENERATE(
      std::string("first_light"), std::string("no_progress"), std::string("million_ctas"), std::string("two_gpus"),
      std::string("saxpy"), std::string("histogram"), std::string("gemm_1024"), std::string("tma_gemm_2x1"),
      std::string("tma_gemm_2x2"), std::string("tma_gemm_4096"), std::string("tma_conv"), std::string("tma_split_k"),
      std::string("tma_copy_compare"), std::string("tma_halo_conv"), std::string("tensor_interface"),
      std::string("missing_fence"), std::string("tensor_copies"), std::string("async_store"));
  const std::string path = kRoot + "/scenarios/" + name + ".yaml";
  const Scenario s = read_scenario(path);
  CHECK(looks_like_scenario(read_text_file(path).substr(0, 4096)));
  std::uint64_t ctas = 0;
  for (const Workload& workload : s.workloads) {
    CHECK(workload.warnings.empty());
    CHECK(workload.kernels() > 0);
    for (const Op& op : workload.ops) ctas += op.kind == OpKind::kernel ? op.kernel.grid.count() : 0;
  }
  if (name == "first_light") CHECK(ctas == 198'681);
  if (name == "million_ctas") CHECK(ctas == 1'000'000);
  if (name == "two_gpus") {
    CHECK(ctas == 2368);
    CHECK_NOTHROW(ParamLayers(2).add(s.config, {Origin::Kind::file, s.file}));
  }
}

TEST_CASE("mutated scenarios parse or are refused, nothing else", "[workload][scenario][fuzz]") {
  const auto seed = GENERATE(21U, 22U, 23U);
  CAPTURE(seed);
  test::Random random(seed);
  const std::string alphabet = "\n \t:{}[],-#&*!|>'\"%@`~?0.e1\\\xc3\xff";
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string text = kFull;
    const auto changes = random.between(1, 5);
    for (std::uint64_t k = 0; k < changes; ++k) {
      const std::size_t at = random.below(text.size());
      const char c = alphabet[random.below(alphabet.size())];
      switch (random.below(4)) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        case 2:
          text.erase(at, random.between(1, 12));
          break;
        default:
          text.insert(at, text.substr(random.below(text.size()), random.below(30)));
          break;
      }
    }
    try {
      parse_scenario(text, "s.yaml");
    } catch (const InputError& e) {
      ++refused;
      if (e.message().empty()) FAIL("an error without a message");
    }
  }
  CHECK(refused > 100);
}

}  // namespace scenario_test
