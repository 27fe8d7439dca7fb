// The tree of the machine: the numbers of its SMs, and the text forms of its shape.
#include "arch/topology.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>
#include <yaml-cpp/yaml.h>

#include "common/error.h"
#include "support/random.h"

namespace arch_topology_test {

using namespace heddle;
using namespace heddle::arch;
using Catch::Contains;
using test::Random;

namespace {

Shape parse(const std::string& text) { return Shape::from_yaml(YAML::Load(text), {"shape.yaml", 3, 8}); }

// Uneven on every level, and even now and then.
Shape random_shape(Random& dice) {
  Shape shape;
  shape.gpcs.resize(dice.between64(1, 10));
  const bool even = dice.one_in(3);
  for (auto& gpc : shape.gpcs) {
    if (even) {
      gpc = Shape::from_sms_per_gpc({dice.between(1, 20)}).gpcs.front();
      continue;
    }
    gpc.resize(dice.between64(1, 4));
    for (auto& cpc : gpc) {
      cpc.resize(dice.between64(1, 4));
      for (auto& tpc : cpc) tpc = dice.one_in(3) ? dice.between(1, 4) : 2;
    }
  }
  return shape;
}

// The longest form: a number for every TPC.
std::string explicit_text(const Shape& shape) {
  std::string text = "[";
  for (const auto& gpc : shape.gpcs) {
    text += text.size() > 1 ? ", [" : "[";
    for (std::size_t c = 0; c < gpc.size(); ++c) {
      text += c > 0 ? ", [" : "[";
      for (std::size_t t = 0; t < gpc[c].size(); ++t) text += (t > 0 ? ", " : "") + std::to_string(gpc[c][t]);
      text += "]";
    }
    text += "]";
  }
  return text + "]";
}

}  // namespace

TEST_CASE("SM ids go through the GPCs TPC by TPC", "[arch][topology]") {
  // GPC 0: TPCs of 2, 2, 1 SMs; GPC 1: 2; GPC 2: 1, 2.
  const Topology topology(parse("[[[2, 2], [1]], [[2]], [[1, 2]]]"));
  CHECK(topology.gpcs() == 3);
  REQUIRE(topology.sms() == 10);
  const std::vector<std::string> paths = {
      "gpc0.cpc0.tpc0.sm0", "gpc0.cpc0.tpc0.sm1", "gpc1.cpc0.tpc0.sm0", "gpc1.cpc0.tpc0.sm1", "gpc2.cpc0.tpc0.sm0",
      "gpc0.cpc0.tpc1.sm0", "gpc0.cpc0.tpc1.sm1", "gpc2.cpc0.tpc1.sm0", "gpc2.cpc0.tpc1.sm1", "gpc0.cpc1.tpc2.sm0"};
  for (std::uint32_t id = 0; id < 10; ++id) CHECK(topology.sm_path(id) == paths[id]);
  CHECK(topology.gpc(0).sm_ids == std::vector<std::uint32_t>{0, 1, 5, 6, 9});
  CHECK(topology.gpc(1).sm_ids == std::vector<std::uint32_t>{2, 3});
  CHECK(topology.gpc(2).sm_ids == std::vector<std::uint32_t>{4, 7, 8});
  CHECK(topology.gpc(0).cpcs == 2);
  CHECK(topology.gpc(0).tpcs[2].cpc == 1);
  CHECK(topology.gpc(0).tpcs[2].first_sm == 4);
  CHECK(topology.sms_per_gpc() == std::vector<std::uint32_t>{5, 2, 3});
}

TEST_CASE("on H100 consecutive TPCs lie in consecutive GPCs, the surplus comes last", "[arch][topology]") {
  const Topology topology(Shape::from_sms_per_gpc({18, 18, 18, 18, 16, 16, 14, 14}));
  REQUIRE(topology.sms() == 132);
  for (std::uint32_t id = 0; id < 7 * 16; ++id) CHECK(topology.sm(id).gpc == id / 2 % 8);     // 7 TPCs in every GPC
  for (std::uint32_t id = 112; id < 124; ++id) CHECK(topology.sm(id).gpc == (id - 112) / 2);  // the eighth of six
  for (std::uint32_t id = 124; id < 132; ++id) CHECK(topology.sm(id).gpc == (id - 124) / 2);  // the ninth of four
  CHECK(topology.gpc(0).cpcs == 3);
  CHECK(topology.gpc(7).tpcs.size() == 7);
}

TEST_CASE("GPCs have virtual ids in the order of their TPCs, most first", "[arch][topology][CWD-31]") {
  // TPCs: 2, 3, 1, 3, 2
  const Topology topology(parse("[4, 6, 2, [[1, 1, 1]], 3]"));
  const std::vector<std::uint32_t> expected = {2, 0, 4, 1, 3};  // equal ones keep their order
  for (std::uint32_t g = 0; g < 5; ++g) CHECK(topology.virtual_gpc(g) == expected[g]);
  const Topology even(Shape::from_sms_per_gpc({16, 16, 16, 16}));
  for (std::uint32_t g = 0; g < 4; ++g) CHECK(even.virtual_gpc(g) == g);
}

TEST_CASE("random machines: ids, places and masks agree", "[arch][topology][CWD-31]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 500; ++round) {
    const Shape shape = random_shape(dice);
    const Topology topology(shape);
    CAPTURE(round, shape.text());
    REQUIRE(topology.sms() == shape.sms());
    REQUIRE(topology.gpcs() == shape.gpcs.size());
    REQUIRE(topology.sms_per_gpc().size() == shape.gpcs.size());

    // The numbering rule in one sentence: by TPC in the GPC, then GPC, then SM in the TPC.
    std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> keys;
    std::set<std::string> paths;
    for (std::uint32_t id = 0; id < topology.sms(); ++id) {
      const Topology::Sm& sm = topology.sm(id);
      keys.emplace_back(sm.tpc, sm.gpc, sm.in_tpc);
      paths.insert(topology.sm_path(id));
      const Topology::Gpc& gpc = topology.gpc(sm.gpc);
      REQUIRE(gpc.sm_ids.at(sm.in_gpc) == id);
      const Topology::Tpc& tpc = gpc.tpcs.at(sm.tpc);
      REQUIRE(tpc.cpc == sm.cpc);
      REQUIRE(sm.in_tpc < tpc.sms);
      REQUIRE(sm.in_gpc == tpc.first_sm + sm.in_tpc);
    }
    REQUIRE(std::is_sorted(keys.begin(), keys.end()));
    REQUIRE(paths.size() == topology.sms());

    std::vector<std::uint32_t> all;
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
      const Topology::Gpc& gpc = topology.gpc(g);
      all.insert(all.end(), gpc.sm_ids.begin(), gpc.sm_ids.end());
      REQUIRE(gpc.sms == gpc.sm_ids.size());
      REQUIRE(gpc.sms == topology.sms_per_gpc()[g]);
      REQUIRE(gpc.sms <= kMaxSmsPerGpc);
      REQUIRE(gpc.cpcs == shape.gpcs[g].size());
      // The TPCs are those of the shape, CPC by CPC, on consecutive bits.
      std::size_t t = 0;
      std::uint32_t bit = 0;
      for (std::uint32_t c = 0; c < gpc.cpcs; ++c) {
        for (const std::uint32_t sms : shape.gpcs[g][c]) {
          const Topology::Tpc& tpc = gpc.tpcs.at(t++);
          REQUIRE((tpc.cpc == c && tpc.first_sm == bit && tpc.sms == sms));
          bit += sms;
        }
      }
      REQUIRE(t == gpc.tpcs.size());
      REQUIRE(bit == gpc.sms);
    }
    std::sort(all.begin(), all.end());
    for (std::uint32_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == i);

    std::map<std::uint32_t, std::uint32_t> by_virtual;
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) by_virtual[topology.virtual_gpc(g)] = g;
    REQUIRE(by_virtual.size() == topology.gpcs());
    REQUIRE(by_virtual.rbegin()->first == topology.gpcs() - 1);
    for (std::uint32_t v = 1; v < topology.gpcs(); ++v) {
      const std::size_t before = topology.gpc(by_virtual[v - 1]).tpcs.size(),
                        here = topology.gpc(by_virtual[v]).tpcs.size();
      REQUIRE((before > here || (before == here && by_virtual[v - 1] < by_virtual[v])));
    }
  }
}

TEST_CASE("numbers are split evenly: two SMs per TPC, three TPCs per CPC", "[arch][shape]") {
  using Gpc = std::vector<std::vector<std::uint32_t>>;
  CHECK(parse("[18]").gpcs[0] == Gpc{{2, 2, 2}, {2, 2, 2}, {2, 2, 2}});
  CHECK(parse("[16]").gpcs[0] == Gpc{{2, 2, 2}, {2, 2, 2}, {2, 2}});
  CHECK(parse("[14]").gpcs[0] == Gpc{{2, 2, 2}, {2, 2}, {2, 2}});
  CHECK(parse("[1]").gpcs[0] == Gpc{{1}});
  CHECK(parse("[5]").gpcs[0] == Gpc{{2, 2, 1}});
  CHECK(parse("[[6, 4]]").gpcs[0] == Gpc{{2, 2, 2}, {2, 2}});
  CHECK(parse("[[3, [1, 1]]]").gpcs[0] == Gpc{{2, 1}, {1, 1}});
  CHECK(parse("[[[2, 3], [1]]]").gpcs[0] == Gpc{{2, 3}, {1}});
}

TEST_CASE("a shape is written in the shortest form that says the same", "[arch][shape]") {
  for (const char* text :
       {"[18, 18, 16]", "[1]", "[[6, 4, 6], 16]", "[[3, [1, 1]]]", "[[[3]]]", "[[[1, 1]]]", "[64, 64]"}) {
    CHECK(parse(text).text() == text);
  }
  CHECK(parse("[[6, 6, 6]]").text() == "[18]");
  CHECK(parse("[[[2, 2, 2], [2, 2]]]").text() == "[10]");
}

TEST_CASE("random shapes survive their text", "[arch][shape]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 2000; ++round) {
    const Shape shape = random_shape(dice);
    const std::string text = shape.text();
    CAPTURE(round, text);
    REQUIRE(parse(text).gpcs == shape.gpcs);
    REQUIRE(parse(explicit_text(shape)).gpcs == shape.gpcs);
    REQUIRE(text.size() <= explicit_text(shape).size());
    REQUIRE(ParamTraits<Shape>::parse(ParamTraits<Shape>::format(shape), {}).gpcs == shape.gpcs);
  }
}

TEST_CASE("a balanced shape differs by one SM at most", "[arch][shape]") {
  for (std::uint32_t sms = 1; sms <= 200; ++sms) {
    for (const std::uint32_t most : {1U, 7U, 16U, 18U, 64U}) {
      const Shape shape = Shape::balanced(sms, most);
      const std::vector<std::uint32_t> counts = Topology(shape).sms_per_gpc();
      const auto [low, high] = std::minmax_element(counts.begin(), counts.end());
      const bool right =
          shape.sms() == sms && *high <= most && *high - *low <= 1 && counts.size() == (sms + most - 1) / most;
      CAPTURE(sms, most, shape.text());
      REQUIRE(right);
    }
  }
}

TEST_CASE("a bad shape is refused with its place and a remedy", "[arch][shape]") {
  for (const char* text : {"18",
                           "[]",
                           "{a: 1}",
                           "",
                           "~",
                           "eighteen",
                           "[0]",
                           "[18, 0]",
                           "[65]",
                           "[-1]",
                           "[1.5]",
                           "[x]",
                           "[true]",
                           "[~]",
                           "[{a: 1}]",
                           "[[]]",
                           "[[[]]]",
                           "[[[2], []]]",
                           "[[[0]]]",
                           "[[[-2]]]",
                           "[[[x]]]",
                           "[[0]]",
                           "[[65]]",
                           "[[33, 32]]",
                           "[[[64], [1]]]",
                           "[[[[2]]]]",
                           "[4294967296]",
                           "[4294967297]",
                           "[99999999999999999999]",
                           "[[[4294967295, 2]]]"}) {
    CAPTURE(text);
    try {
      const Shape shape = parse(text);
      FAIL_CHECK("accepted as " << shape.text());
    } catch (const InputError& error) {
      CHECK_THAT(error.what(), Contains("shape.yaml:3:8"));
      CHECK_THAT(error.what(), Contains("shape"));
    }
  }
  SECTION("too many SMs in all") {
    std::string text = "[64";
    for (int i = 1; i < 256; ++i) text += ", 64";
    CHECK(parse(text + "]").sms() == 16384);
    CHECK_THROWS_WITH(parse(text + ", 1]"), Contains("16385 SMs; at most 16384 are possible"));
  }
}

TEST_CASE("uGPUs are consecutive GPCs", "[arch][CWD-10]") {
  const Shape shape = Shape::from_sms_per_gpc({18, 18, 16, 16, 14});
  const Topology whole(shape);
  CHECK(whole.ugpus() == 1);
  for (std::uint32_t g = 0; g < 5; ++g) CHECK(whole.ugpu_of(g) == 0);
  const Topology parts(shape, {2, 1, 2});
  CHECK(parts.ugpus() == 3);
  const std::vector<std::uint32_t> wanted{0, 0, 1, 2, 2};
  for (std::uint32_t g = 0; g < 5; ++g) CHECK(parts.ugpu_of(g) == wanted[g]);
  CHECK(Topology(shape, {5}).ugpus() == 1);
  for (const std::vector<std::uint32_t>& wrong :
       std::vector<std::vector<std::uint32_t>>{{2, 2}, {2, 2, 2}, {5, 1}, {4'294'967'295U, 4'294'967'295U, 7}}) {
    CHECK_THROWS_AS(Topology(shape, wrong), InputError);
    CHECK_THROWS_WITH(Topology(shape, wrong), Contains("uGPUs") && Contains("the shape has 5"));
  }
  CHECK_THROWS_WITH(Topology(shape, {2, 0, 3}), Contains("uGPU 1 has no GPC"));
}

TEST_CASE("a uGPU is at its own L2 partition; without uGPUs GPCs are dealt evenly", "[arch][CWD-46]") {
  const Shape shape = Shape::from_sms_per_gpc({18, 18, 16, 16, 14});
  const Topology parts(shape, {1, 4});
  const std::vector<std::uint32_t> own{0, 1, 1, 1, 1};
  const Topology whole(shape);
  const std::vector<std::uint32_t> halves{0, 0, 0, 1, 1};
  for (std::uint32_t g = 0; g < 5; ++g) {
    CHECK(parts.partition_of(g, 2) == own[g]);
    CHECK(whole.partition_of(g, 2) == halves[g]);
    CHECK(whole.partition_of(g, 1) == 0);
  }
}

}  // namespace arch_topology_test
