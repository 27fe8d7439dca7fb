// Parameters: tables, binding, errors, and dumps that read back.
#include "common/params.h"

#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <yaml-cpp/yaml.h>

#include "common/error.h"
#include "common/params_fixture.h"
#include "common/yaml_util.h"

namespace common_params_test {

using namespace heddle;
using namespace heddle::test;
using Catch::Contains;

TEST_CASE("defaults come from the struct and are described", "[common][params]") {
  Fixture f;
  const ParamEntry e = f.entry("gpu.cwd.session_cycles");
  CHECK(e.type == "integer");
  CHECK(e.unit == Unit::cycles);
  CHECK(e.range == "1 to 10000 cycles");
  CHECK(e.default_text == "8");
  CHECK(e.value_text == "8");
  CHECK(e.description == "length of a session");
  CHECK(e.default_source == "CWD-01");
  CHECK(e.origin.kind == Origin::Kind::defaults);
  CHECK(f.entry("gpu.cwd.gpm.credits").default_text == "16");  // the outer struct's default, not the group's own
  CHECK(f.entry("gpu.cwd.mpc.credits").default_text == "4");
  CHECK(f.entry("gpu.sm.rate").type == "number");
  CHECK(f.entry("gpu.cwd.search").range == "scan, bisection");
  CHECK(f.entry("gpu.cwd.search").value_text == "bisection");
  CHECK(f.entry("gpu.cwd.shape").type == "shape");
  CHECK(f.entry("gpu.cwd.shape").value_text == "[[9, 9], [8]]");
  CHECK(f.entry("gpu.cwd.fast").value_text == "true");
}

TEST_CASE("values of every type are set, with and without units", "[common][params]") {
  Fixture f;
  f.apply(R"(
gpu:
  cwd:
    fast: no
    session_cycles: 12 cycles
    shared: 1.5 MiB
    skew: -7
    latency: {value: 1.2 us, source: "measured, page 3"}
    clock: 1980 MHz
    label: 'true'
    empty: "null"
    search: scan
    policy: "yes"
    shape: [[1], [2, 3]]
    gpm: {credits: 7}
  sm: {rate: 2 /cycle}
)");
  CHECK_FALSE(f.cwd.fast);
  CHECK(f.cwd.session_cycles == 12);
  CHECK(f.cwd.shared == 1536 * 1024);
  CHECK(f.cwd.skew == -7);
  CHECK(f.cwd.latency == 1200);
  CHECK(f.cwd.clock == 1.98);
  CHECK(f.cwd.label == "true");
  CHECK(f.cwd.empty == "null");
  CHECK(f.cwd.search == Search::scan);
  CHECK(f.cwd.policy == "yes");
  CHECK(f.cwd.shape.gpcs == std::vector<std::vector<std::uint32_t>>{{1}, {2, 3}});
  CHECK(f.cwd.gpm.credits == 7);
  CHECK(f.cwd.gpm.rate == 1.5);
  CHECK(f.cwd.mpc.credits == 4);
  CHECK(f.sm.rate == 2.0);
  CHECK(f.entry("gpu.cwd.session_cycles").origin.text == "my.yaml:5");
  CHECK(f.entry("gpu.cwd.session_cycles").value_source.empty());
  CHECK(f.entry("gpu.cwd.session_cycles").default_source == "CWD-01");
  CHECK(f.entry("gpu.cwd.latency").value_source == "measured, page 3");
  CHECK(f.entry("gpu.sm.credits").origin.kind == Origin::Kind::defaults);
}

TEST_CASE("wrong values name file, line, parameter, range and unit", "[common][params]") {
  Fixture f;
  const std::string far = f.error("gpu:\n  cwd:\n    session_cycles: 20000\n");
  CHECK_THAT(far, Contains("my.yaml:3:21: gpu.cwd.session_cycles: 20000 is out of range"));
  CHECK_THAT(far, Contains("1 to 10000 cycles") && Contains("default 8 cycles"));
  CHECK_THAT(f.error("gpu: {cwd: {session_cycles: 12 ns}}"), Contains("12 ns is in ns, cycles is expected"));
  CHECK_THAT(f.error("gpu: {cwd: {session_cycles: 1.5}}"), Contains("not a whole number of cycles"));
  CHECK_THAT(f.error("gpu: {cwd: {session_cycles: -1}}"), Contains("negative"));
  CHECK_THAT(f.error("gpu: {cwd: {session_cycles: .nan}}"), Contains("not a number"));
  CHECK_THAT(f.error("gpu: {cwd: {clock: .nan}}"), Contains("not a finite number"));
  CHECK_THAT(f.error("gpu: {cwd: {session_cycles: [1]}}"), Contains("an integer is expected, found a list"));
  CHECK_THAT(f.error("gpu: {cwd: {session_cycles: {a: 1}}}"), Contains("found a map"));
  CHECK_THAT(f.error("gpu: {cwd: {session_cycles: }}"), Contains("found nothing"));
  CHECK_THAT(f.error("gpu: {cwd: {fast: 1}}"), Contains("true or false is expected, found \"1\""));
  CHECK_THAT(f.error("gpu: {cwd: {label: [a]}}"), Contains("text is expected"));
  CHECK_THAT(f.error("gpu: {cwd: {search: bisect}}"),
             Contains("did you mean bisection") && Contains("scan, bisection"));
  CHECK_THAT(f.error("gpu: {cwd: {policy: 7}}"), Contains("no, yes, maybe"));
  CHECK_THAT(f.error("gpu:\n  cwd:\n    shape: [[1], [2, 100]]\n"),
             Contains("my.yaml:3:22: gpu.cwd.shape: 100 is out of range"));
  CHECK_THAT(f.error("gpu: {cwd: {shape: 3}}"), Contains("my.yaml:1:20: gpu.cwd.shape: a list of GPCs"));
  CHECK_THAT(f.error("gpu: {cwd: 12}"), Contains("gpu.cwd is a group of parameters: a map is expected, found \"12\""));
  CHECK_THAT(f.error("gpu: {cwd: {latency: {value: 1, from: x}}}"), Contains("unknown key from"));
  CHECK_THAT(f.error("gpu: {cwd: {latency: {value: 1, source: [x]}}}"), Contains("source must be text"));
  CHECK_THAT(f.error("gpu: {cwd: {latency: {value: {value: 1}}}}"), Contains("found a map"));
  CHECK(f.error("gpu: {cwd: }") == "accepted");
}

TEST_CASE("unknown keys name the nearest valid one", "[common][params]") {
  Fixture f;
  const std::string near = f.error("gpu:\n  cwd:\n    sesion_cycles: 1\n");
  CHECK_THAT(near, Contains("my.yaml:3:5: unknown parameter gpu.cwd.sesion_cycles"));
  CHECK_THAT(near, Contains("did you mean session_cycles?") && Contains("heddle show params"));
  CHECK_THAT(f.error("gpu: {session_cycles: 1}"), Contains("did you mean gpu.cwd.session_cycles"));
  CHECK_THAT(f.error("gpu: {cwd: {zzzzzz: 1}}"), Contains("known: fast"));
  CHECK_THAT(f.error("gqu: {cwd: {}}"), Contains("unknown parameter gqu") && Contains("did you mean gpu?"));
}

TEST_CASE("merge keys bring what a map lacks", "[common][params]") {
  const YAML::Node root = load_yaml(
      "a: &a {x: 1, y: 2}\n"
      "b: &b {<<: *a, y: 3, z: {<<: *a, x: 4}}\n"
      "c: {<<: [{x: 9}, *b], w: 5}\n"
      "d: [{<<: *b}]\n"
      "e: 1 << 3\n",
      "my.yaml");
  const auto number = [](const YAML::Node& node) { return node.as<int>(); };
  // What is merged comes first, in its order; what the map says itself stands in its place. As PyYAML has it.
  CHECK(keys(root["b"]) == std::vector<std::string>{"x", "y", "z"});
  CHECK(keys(root["c"]) == std::vector<std::string>{"x", "y", "z", "w"});
  CHECK(keys(root["b"]["z"]) == std::vector<std::string>{"x", "y"});
  CHECK(number(root["b"]["x"]) == 1);
  CHECK(number(root["b"]["y"]) == 3);  // its own wins
  CHECK(number(root["b"]["z"]["x"]) == 4);
  CHECK(number(root["b"]["z"]["y"]) == 2);
  CHECK(number(root["c"]["x"]) == 9);  // the first of several wins
  CHECK(number(root["c"]["y"]) == 3);
  CHECK(number(root["c"]["w"]) == 5);
  CHECK(number(root["d"][0]["z"]["y"]) == 2);
  CHECK(root["a"].size() == 2);
  CHECK(root["e"].Scalar() == "1 << 3");
  const auto error = [](const char* text) -> std::string {
    try {
      load_yaml(text, "my.yaml");
    } catch (const InputError& wrong) {
      return wrong.what();
    }
    return "accepted";
  };
  CHECK_THAT(error("a: 1\nb: {<<: 3}\n"), Contains("my.yaml:2:9: << wants a map, found \"3\""));
  CHECK_THAT(error("b: {<<: [{x: 1}, 3]}\n"), Contains("<< wants a map"));
  CHECK_THAT(error("a: &a {<<: *a}\n"), Contains("contains itself"));
}

TEST_CASE("YAML that says two things is refused", "[common][params]") {
  Fixture f;
  CHECK_THAT(f.error("gpu:\n  cwd: {skew: 1}\n  cwd: {skew: 2}\n"),
             Contains("my.yaml:3:3: the key \"cwd\" stands twice") && Contains("line 2"));
  CHECK_THAT(f.error("gpu: {cwd: {shape: [[1], {a: 1, a: 2}]}}"), Contains("stands twice"));
  CHECK_THAT(f.error("gpu: {}\n---\ngpu: {}\n"), Contains("a second YAML document"));
  CHECK_THAT(f.error("gpu: &g {cwd: *g}"), Contains("contains itself"));
  CHECK_THAT(f.error("gpu: {cwd: *g}"), Contains("my.yaml:1:12: not valid YAML"));
  CHECK_THAT(f.error("? [1, 2]\n: 3\n"), Contains("a key must be text"));
  CHECK_THAT(f.error("gpu: {"), Contains("not valid YAML"));
  CHECK_THAT(f.error("gpu:\n\tcwd: {}\n"), Contains("my.yaml:2:") && Contains("begins with a tab"));
  CHECK_THAT(f.error(",gpu:\n  cwd:\n"), Contains("my.yaml:1:1: not valid YAML"));
  std::string bomb = "a0: &a0 [x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += last + (k < 9 ? ", " : "]\n");
  }
  CHECK_THAT(f.error(bomb), Contains("too many values"));
  CHECK_THROWS_AS(load_yaml(std::string(100'000, '['), "x"), InputError);
}

TEST_CASE("assignments of the command line", "[common][params]") {
  Fixture f;
  f.binder.set("gpu.cwd.session_cycles=12");
  f.binder.set(" gpu.cwd.shape = [[9, 9]]");
  f.binder.set("gpu.cwd.gpm={credits: 3, rate: 2}");
  f.binder.set("gpu.cwd.label=\"x=y\"");
  CHECK(f.cwd.session_cycles == 12);
  CHECK(f.cwd.shape.gpcs == std::vector<std::vector<std::uint32_t>>{{9, 9}});
  CHECK(f.cwd.gpm.credits == 3);
  CHECK(f.cwd.label == "x=y");
  CHECK(f.entry("gpu.cwd.session_cycles").origin.text == "--set");
  CHECK(f.entry("gpu.cwd.session_cycles").origin.kind == Origin::Kind::command_line);
  CHECK_THAT(f.set_error("gpu.cwd.session_cycles=0"),
             Contains("--set gpu.cwd.session_cycles=0: gpu.cwd.session_cycles: 0"));
  CHECK_THAT(f.set_error("gpu.cwd.sesion_cycles=1"), Contains("unknown parameter gpu.cwd.sesion_cycles"));
  CHECK_THAT(f.set_error("gpu.cwd.fast.x=1"), Contains("single parameter"));
  CHECK_THAT(f.set_error("gpu..fast=1"), Contains("unknown parameter"));
  CHECK_THAT(f.set_error("gpu.cwd.session_cycles"), Contains("an assignment needs"));
  CHECK_THAT(f.set_error("=3"), Contains("an assignment needs"));
  CHECK_THAT(f.set_error("gpu.cwd.session_cycles="), Contains("found nothing"));
  CHECK_THAT(f.set_error("gpu.cwd.shape=[1"), Contains("not valid YAML"));
}

TEST_CASE("a dump is a valid input that gives the same values", "[common][params]") {
  Fixture f;
  f.apply(
      "gpu: {cwd: {skew: 3, clock: 1.7550000000000003, search: scan, gpm: {rate: 0.1},"
      " latency: {value: 7, source: \"two\\nlines\"}}}");
  f.cwd.label = GENERATE(std::string("plain"), std::string("null"), std::string("~"), std::string(""),
                         std::string("- [x]: {y} # z"), std::string("tab\tquote\"back\\slash\nline"), std::string("12"),
                         std::string(" spaces "), std::string("\u00b5-umlaut \u00fc"), std::string("&a *b !c"));
  Fixture g;
  g.binder.apply(f.binder.dump(), "", kFile);
  CHECK(g.values() == f.values());
  CHECK(g.cwd.label == f.cwd.label);
  CHECK(g.cwd.clock == f.cwd.clock);

  YAML::Emitter out;
  f.binder.dump_root(out, "gpu");
  Fixture h;
  h.binder.apply(load_yaml(out.c_str(), "dump"), "gpu", kFile);
  CHECK(h.values() == f.values());
}

TEST_CASE("mistakes of whoever writes a table are found", "[common][params]") {
  struct Bad {
    std::uint32_t x = 5;
    static void describe(ParamTable<Bad>& t) { t.add("x", &Bad::x, {Unit::count, 6, 7}, "d", "s"); }
  };
  Bad bad;
  ParamBinder binder;
  CHECK_THROWS_AS(binder.bind("gpu.bad", bad), CheckFailed);
  CreditParams a;
  binder.bind("gpu.a", a);
  CHECK_THROWS_AS(binder.bind("gpu.a", a), CheckFailed);
  CHECK_THROWS_AS(binder.bind("gpu.a.credits", a), CheckFailed);
  CHECK_THROWS_AS(binder.bind("gpu.Bad", a), CheckFailed);
}

}  // namespace common_params_test
