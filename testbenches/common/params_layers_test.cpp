// Layers of configuration, and configurations that are broken at random.
#include <string>

#include <catch2/catch.hpp>

#include "common/params.h"
#include "common/params_fixture.h"
#include "support/random.h"

namespace common_params_layers_test {

using namespace heddle;
using namespace heddle::test;
using Catch::Contains;

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

TEST_CASE("mutated configurations parse or are refused, nothing else", "[common][params][fuzz]") {
  YAML::Emitter out;
  Fixture().binder.dump(out);
  const std::string original =
      std::string(out.c_str()) + "\n# comment\nx: &anchor [{a: !!str b}, 'q', \"d\"]\ny: |\n  text\nz: *anchor\n";
  const auto seed = GENERATE(11U, 12U, 13U, 14U);
  CAPTURE(seed);
  test::Random random(seed);
  const std::string alphabet = "\n \t:{}[],-#&*!|>'\"%@`~?0.e\\\x01\x7f\xc3\xff";
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = original;
    const auto changes = random.between(1, 6);
    for (std::uint64_t k = 0; k < changes && !text.empty(); ++k) {
      const std::size_t at = random.below(text.size());
      const char c = alphabet[random.below(alphabet.size())];
      switch (random.below(5)) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        case 2:
          text.erase(at, random.between(1, 20));
          break;
        case 3:
          text.insert(at, text.substr(random.below(text.size()), random.below(40)));
          break;
        default:
          text[at] = static_cast<char>(random.below(256));
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

}  // namespace common_params_layers_test
