// A block with a parameter of every type, bound and ready for YAML.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <yaml-cpp/yaml.h>

#include "common/error.h"
#include "common/params.h"

namespace heddle::test {

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

}  // namespace heddle::test

template <>
struct heddle::ParamTraits<heddle::test::Shape> {
  static constexpr const char* kType = "shape";
  static constexpr const char* kRange = "a list per GPC";
  using Shape = heddle::test::Shape;
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

namespace heddle::test {

inline void TestParams::describe(ParamTable<TestParams>& t) {
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

inline const Origin kFile{Origin::Kind::file, "my.yaml"};

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

}  // namespace heddle::test
