// Parameters: tables, binding, errors, layers, and dumps that read back.
#include "common/params.h"

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "common/param_layers.h"

using namespace heddle;
using Catch::Contains;

namespace {

enum class Search { scan, bisection };

struct Shape {
  std::vector<std::vector<std::uint32_t>> gpcs = {{9, 9}, {8}};
};

struct CreditParams {
  std::uint32_t credits = 4;
  double rate = 0.5;
  static void describe(ParamTable<CreditParams>& t) {
    t.add("credits", &CreditParams::credits, {Unit::count, 1, 64}, "launches in flight", "assumption");
    t.add("rate", &CreditParams::rate, {Unit::per_cycle, 0.0, 8.0}, "launches accepted per cycle", "assumption");
  }
};

struct TestParams {
  bool fast = true;
  std::uint32_t session_cycles = 8;
  std::uint64_t shared = 228 * 1024;
  std::int64_t skew = -5;
  std::uint32_t latency = 600;
  double clock = 1.755;
  std::string label = "a: b # c\n\"quoted\"";
  std::string empty;
  Search search = Search::bisection;
  std::string policy = "no";
  Shape shape;
  CreditParams gpm{16, 1.5};
  CreditParams mpc;
  static void describe(ParamTable<TestParams>& t);
};

}  // namespace

template <>
struct heddle::ParamTraits<Shape> {
  static constexpr const char* kType = "shape";
  static constexpr const char* kRange = "a list per GPC";
  static Shape parse(const YAML::Node& node, const SourcePos& where) {
    Shape shape;
    shape.gpcs.clear();
    if (!node.IsSequence()) throw InputError("a list of GPCs is expected, found " + kind_text(node));
    for (const auto& gpc : node) {
      if (!gpc.IsSequence()) throw InputError(position(gpc, where.file), "a list per GPC is expected");
      shape.gpcs.emplace_back();
      for (const auto& cpc : gpc) {
        if (!cpc.IsScalar()) throw InputError(position(cpc, where.file), "a number of TPCs is expected");
        try {
          shape.gpcs.back().push_back(parse_quantity<std::uint32_t>(cpc.Scalar(), {Unit::count, 1, 99}));
        } catch (const InputError& error) {
          throw InputError(position(cpc, where.file), error.message());
        }
      }
    }
    return shape;
  }
  static YAML::Node format(const Shape& shape) {
    YAML::Node node(YAML::NodeType::Sequence);
    for (const auto& gpc : shape.gpcs) {
      YAML::Node list(YAML::NodeType::Sequence);
      for (const std::uint32_t tpcs : gpc) list.push_back(tpcs);
      node.push_back(list);
    }
    return node;
  }
};

namespace {

void TestParams::describe(ParamTable<TestParams>& t) {
  t.add("fast", &TestParams::fast, "skips what nobody sees", "assumption");
  t.add("session_cycles", &TestParams::session_cycles, {Unit::cycles, 1, 10'000}, "length of a session", "CWD-01");
  t.add("shared", &TestParams::shared, {Unit::bytes, 0, std::uint64_t{1} << 30}, "shared memory of an SM",
        "data sheet");
  t.add("skew", &TestParams::skew, {Unit::none, -100, 100}, "an offset", "assumption");
  t.add("latency", &TestParams::latency, {Unit::ns, 0, 1'000'000}, "host to device", "measured");
  t.add("clock", &TestParams::clock, {Unit::ghz, 0.001, 10.0}, "SM clock", "data sheet");
  t.add("label", &TestParams::label, "a name", "assumption");
  t.add("empty", &TestParams::empty, "another name", "assumption");
  t.add_choice("search", &TestParams::search, {{"scan", Search::scan}, {"bisection", Search::bisection}}, "how",
               "CWD-07");
  t.add_choice("policy", &TestParams::policy, {"no", "yes", "maybe"}, "what", "assumption");
  t.add("shape", &TestParams::shape, "SMs", "data sheet");
  t.group("gpm", &TestParams::gpm);
  t.group("mpc", &TestParams::mpc);
}

const Origin kFile{Origin::Kind::file, "my.yaml"};

struct Fixture {
  TestParams cwd;
  CreditParams sm;
  ParamBinder binder;
  Fixture() {
    binder.bind("gpu.cwd", cwd);
    binder.bind("gpu.sm", sm);
  }
  void apply(const std::string& text) {
    const YAML::Node node = load_yaml(text, "my.yaml");
    binder.apply(node, "", kFile);
  }
  std::string error(const std::string& text) {
    try {
      apply(text);
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  }
  std::string set_error(const std::string& text) {
    try {
      binder.set(text);
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  }
  ParamEntry entry(const std::string& path) const {
    for (const ParamEntry& e : binder.entries()) {
      if (e.path == path) return e;
    }
    FAIL("no parameter " << path);
    return {};
  }
  std::vector<std::string> values() const {
    std::vector<std::string> result;
    for (const ParamEntry& e : binder.entries()) result.push_back(e.path + "=" + e.value_text);
    return result;
  }
};

}  // namespace

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

TEST_CASE("layers win in their order, an instance within its layer", "[common][params]") {
  ParamLayers layers(2, {"run"});
  layers.add_preset(0, load_yaml("cwd: {session_cycles: 10, skew: 10, latency: 10}", "preset p"),
                    {Origin::Kind::preset, "preset p"});
  layers.add(
      load_yaml("gpu1: {cwd: {session_cycles: 31}}\ngpu: {cwd: {session_cycles: 30, skew: 30}}\nrun: {credits: 5}\n",
                "my.yaml"),
      kFile);
  Fixture first;
  Fixture second;
  CreditParams run;
  ParamBinder run_binder;
  run_binder.bind("run", run);
  SECTION("file only") {
    layers.resolve(first.binder, 0);
    layers.resolve(second.binder, 1);
    layers.resolve(run_binder, "run");
    CHECK(first.cwd.session_cycles == 30);
    CHECK(second.cwd.session_cycles == 31);
    CHECK(first.cwd.latency == 10);
    CHECK(second.cwd.latency == 600);
    CHECK(first.entry("gpu.cwd.latency").origin.text == "preset p");
    CHECK(first.entry("gpu.cwd.skew").origin.text == "my.yaml:2");
    CHECK(run.credits == 5);
  }
  SECTION("--set gpu.* wins over the file's gpu1") {
    layers.assign("gpu0.cwd.skew=41");
    layers.assign("gpu.cwd.session_cycles=40");
    layers.assign("gpu.cwd.skew=40");
    layers.assign("run.credits=6");
    layers.resolve(first.binder, 0);
    layers.resolve(second.binder, 1);
    layers.resolve(run_binder, "run");
    CHECK(second.cwd.session_cycles == 40);
    CHECK(first.cwd.skew == 41);  // within one layer the instance wins, whatever the order
    CHECK(second.cwd.skew == 40);
    CHECK(run.credits == 6);
  }
  SECTION("instances that do not exist, and unknown parts, are refused") {
    CHECK_THROWS_WITH(layers.assign("gpu7.cwd.skew=1"),
                      Contains("gpu7 does not exist: there are 2 GPUs") && Contains("gpu0 to gpu1"));
    CHECK_THROWS_WITH(layers.add(load_yaml("x: 1", "f"), kFile), Contains("unknown part of the configuration: x"));
    CHECK_THROWS_WITH(layers.add(load_yaml("\ngpu01: {}", "f"), kFile), Contains("my.yaml:2:1: gpu01 does not exist"));
    CHECK_THROWS_WITH(layers.add(load_yaml("[1]", "f"), kFile), Contains("a configuration is a map"));
    CHECK_THROWS_WITH(ParamLayers(1).assign("gpu1.x=1"), Contains("there is 1 GPU"));
    layers.assign("gpu1.cwd.skw=1");
    CHECK_NOTHROW(layers.resolve(first.binder, 0));
    CHECK_THROWS_WITH(layers.resolve(second.binder, 1),
                      Contains("--set gpu1.cwd.skw=1: unknown parameter gpu1.cwd.skw"));
  }
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

TEST_CASE("mutated configurations parse or are refused, nothing else", "[common][params][fuzz]") {
  YAML::Emitter out;
  Fixture().binder.dump(out);
  const std::string original =
      std::string(out.c_str()) + "\n# comment\nx: &anchor [{a: !!str b}, 'q', \"d\"]\ny: |\n  text\nz: *anchor\n";
  const auto seed = GENERATE(11U, 12U, 13U, 14U);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::string alphabet = "\n \t:{}[],-#&*!|>'\"%@`~?0.e\\\x01\x7f\xc3\xff";
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = original;
    const auto changes = 1 + random() % 6;
    for (std::uint64_t k = 0; k < changes && !text.empty(); ++k) {
      const std::size_t at = random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 5) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        case 2:
          text.erase(at, 1 + random() % 20);
          break;
        case 3:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
        default:
          text[at] = static_cast<char>(random() % 256);
          break;
      }
    }
    Fixture f;
    try {
      f.apply(text);
    } catch (const InputError& error) {
      ++refused;
      if (error.message().empty()) FAIL("an error without a message");
    }
  }
  CHECK(refused > 100);
}
