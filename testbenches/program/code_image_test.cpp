// Programs as code, and back (HST-07): what is decoded does what the scenario's program does, and nothing else is.
#include "program/code_image.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/yaml_util.h"
#include "program/program_harness.h"
#include "scenario/kernel_container.h"
#include "scenario/scenario.h"
#include "support/random.h"

namespace program_code_image_test {

using namespace heddle;
using Catch::Contains;
using Bytes = std::vector<std::uint8_t>;

namespace {

// The kernel of the text, and its code.
struct Both {
  arch::KernelRecord kernel;
  Bytes code;
};
Both both(const std::string& steps, const std::string& more = "grid: 1, block: 64") {
  const std::string text =
      "heddle: 1\nkernels:\n- {name: k, " + more + ", program: " + steps +
      "}\n- {name: leaf, grid: [3, 2, 1], block: 32, cycles: 10}\nsubmit: [{kernel: k, stream: s}]\n";
  const auto scenario = scenario::parse_scenario(text, "k.yaml");
  const YAML::Node root = load_yaml(text, "k.yaml");
  Both made{scenario.workloads.front().ops.front().kernel, {}};
  const program::LaunchTargets targets{{"leaf", {0, {3, 2, 1}, false, false}}};
  const bool launches = made.kernel.program->launches();
  made.code = program::encode_code(made.kernel, root["kernels"][0]["program"],
                                   launches ? std::vector<std::string>{"leaf"} : std::vector<std::string>{}, targets);
  return made;
}

std::string why(const Bytes& code) {
  const arch::DecodedCode decoded = program::CodeImage().decode(code);
  CHECK((decoded.program == nullptr) == !decoded.why.empty());
  return decoded.why;
}

// A head before the body, with the links.
Bytes code_of(const Bytes& body, std::uint16_t links = 0) {
  Bytes code{'H', 'D', 'L', 'C', 1, 0, static_cast<std::uint8_t>(links), static_cast<std::uint8_t>(links >> 8)};
  for (unsigned i = 0; i < 4; ++i) code.push_back(static_cast<std::uint8_t>(body.size() >> 8 * i));
  code.resize(16 + std::size_t{8} * links);
  code.insert(code.end(), body.begin(), body.end());
  return code;
}
nlohmann::json plain() {
  return nlohmann::json::parse(R"({"name": "k", "block": [32, 1, 1], "registers": 0, "shared": 0, "local": 0,
      "cooperative": false, "levels": [], "launches": [], "program": [{"set": {"a": "1", "type": "u32"}}]})");
}
std::string why(const nlohmann::json& body, std::uint16_t links = 0) {
  return why(code_of(nlohmann::json::to_cbor(body), links));
}

}  // namespace

TEST_CASE("a decoded program does what the scenario's program does", "[program][HST-07]") {
  // Names whose order counts, branches, loops, shared memory, a barrier, an atomic, arguments.
  const Both made = both(R"([
    {load: {to: [out, factor], type: u64, at: kernarg}},
    {let: {double: 2 * factor, twice: 2 * double, i: thread}},
    {set: {sum: 0, type: u32}},
    {loop: {var: r, from: 0, to: 5, do: [{set: {sum: sum + r * twice + i}}]}},
    {if: {cond: lane % 2 == 0, then: [{set: {sum: sum + 100}}], else: [{set: {sum: sum + 7}}]}},
    {store: {value: sum, type: u32, at: 4 * i, space: shared}},
    barrier,
    {load: {to: other, type: u32, at: 4 * (block - 1 - i), space: shared}},
    {store: {value: other + sum, type: u32, at: out + 4 * i}},
    {atomic: {op: add, type: u32, at: out + 1024, value: 1}}])",
                         "grid: 2, block: 64, shared: 256");
  arch::DecodedCode decoded = program::CodeImage().decode(made.code);
  REQUIRE(decoded.why.empty());
  CHECK(decoded.program->registers() == made.kernel.program->registers());
  CHECK(decoded.kernel.block == made.kernel.block);
  CHECK(decoded.kernel.shared_bytes == 256);
  std::vector<Bytes> results;
  for (const bool from_code : {false, true}) {
    arch::KernelRecord kernel = made.kernel;
    if (from_code) kernel.program = decoded.program;
    Bytes memory(4096, 0);
    memory[0x800] = 0x80;  // out
    memory[0x808] = 3;     // factor
    test::ProgramRun run(kernel, memory);
    run.kernarg = 0x800;
    run.run();
    results.push_back(memory);
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0][0x80 + 1024] == 128);
}

TEST_CASE("kernels that a program launches come through the links", "[program][HST-07]") {
  Both made = both("[{if: {cond: thread == 0, then: [{launch: {kernel: leaf}}]}}]");
  REQUIRE(made.code.size() > 24);
  CHECK(made.code[6] == 1);
  const Bytes address{0x80, 0x12, 0, 0, 1, 0, 0, 0};
  std::copy(address.begin(), address.end(), made.code.begin() + 16);
  const arch::DecodedCode decoded = program::CodeImage().decode(made.code);
  REQUIRE(decoded.why.empty());
  CHECK(decoded.program->launches());
  arch::WarpPlace place;
  place.block = place.workgroup = {32, 1, 1};
  arch::WarpState state;
  decoded.program->start(place, state);
  arch::Operation operation;
  while (!state.exited && operation.children.empty()) decoded.program->issue(place, state, operation);
  REQUIRE(operation.children.size() == 1);
  CHECK(operation.children.front().kernel == 0x1'0000'1280);
  CHECK(operation.children.front().grid_x == 3);
  CHECK(operation.children.front().grid_y == 2);
}

TEST_CASE("code that is none is refused with what is wrong", "[program][HST-07]") {
  REQUIRE(why(plain()) == "");
  CHECK_THAT(why(Bytes{}), Contains("HDLC"));
  CHECK_THAT(why(Bytes(16, 'x')), Contains("HDLC"));
  Bytes code = code_of(nlohmann::json::to_cbor(plain()));
  const auto changed = [&](std::size_t at, std::uint8_t value) {
    Bytes other = code;
    other[at] = value;
    return why(other);
  };
  CHECK_THAT(changed(4, 2), Contains("version 2"));
  CHECK_THAT(changed(6, 1), Contains("length"));
  CHECK_THAT(changed(8, 0), Contains("length"));
  CHECK_THAT(changed(12, 1), Contains("length"));
  CHECK_THAT(changed(7, 255), Contains("length"));
  CHECK_THAT(changed(16, 0xFF), Contains("no CBOR"));
  code.push_back(0);
  CHECK_THAT(why(code), Contains("length"));
  CHECK_THAT(why(code_of(Bytes(100'000, 0x81))), Contains("deep"));
  // Strings, lists and maps in pieces, and tags: each as deep in one another as code is long.
  for (const std::uint8_t piece : {0x7F, 0x5F, 0x9F, 0xBF, 0xC1}) {
    CHECK_THAT(why(code_of(Bytes((1U << 20) - 16, piece))), Contains("no CBOR with a length"));
    CHECK_THAT(why(code_of(Bytes{0x81, piece, 0x61, 'a', 0xFF})), Contains("no CBOR with a length"));
  }
  CHECK_THAT(why(code_of(Bytes{0x63, 0x7F, 0x5F, 0x01})), Contains("map"));  // what stands in a text does not count
  CHECK_THAT(why(code_of(Bytes{0x9B, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF})), Contains("no CBOR"));
  CHECK_THAT(why(code_of(Bytes{0xA2, 0x61, 'a', 0x01, 0x61, 'a', 0x01})), Contains("twice"));
  CHECK_THAT(why(code_of(Bytes{0xF6})), Contains("null"));
  CHECK_THAT(why(code_of(Bytes{0x41, 0x00})), Contains("byte string"));
  CHECK_THAT(why(code_of(Bytes{0xF9, 0x3C, 0x00})), Contains("floating-point"));
  CHECK_THAT(why(code_of(Bytes{0x01})), Contains("map"));

  const auto with = [](const char* key, const char* value) {
    nlohmann::json body = plain();
    body[key] = nlohmann::json::parse(value);
    return why(body);
  };
  CHECK_THAT(with("colour", "1"), Contains("unknown key \"colour\""));
  CHECK_THAT(with("block", "[32, 1]"), Contains("three numbers"));
  CHECK_THAT(with("block", "[0, 1, 1]"), Contains("block"));
  CHECK_THAT(with("registers", "-1"), Contains("registers"));
  CHECK_THAT(with("levels", "[\"sm\"]"), Contains("no such level"));
  CHECK_THAT(with("launches", "[1]"), Contains("links"));
  CHECK_THAT(with("program", "[]"), Contains("list of steps"));
  CHECK_THAT(with("program", R"([{"sett": 1}])"), Contains("sett"));
  CHECK_THAT(with("program", R"([{"load": {"to": "a", "type": "u32", "at": "far"}}])"), Contains("far"));
  nlohmann::json less = plain();
  less.erase("local");
  CHECK_THAT(why(less), Contains("\"local\" is missing"));
}

TEST_CASE("code that is small and becomes large is refused", "[program][HST-07]") {
  // Each name stands for two of the one before, and each `set` takes the whole.
  const auto program = [](int sets) {
    nlohmann::json body = plain();
    nlohmann::json steps = nlohmann::json::parse(R"([{"set": {"v": "1", "type": "f64"}}, {"let": {"n0": "v + v"}}])");
    for (int i = 1; i < 9; ++i) {
      const std::string last = "n" + std::to_string(i - 1);
      steps.push_back({{"let", {{"n" + std::to_string(i), last + " + " + last}}}});
    }
    for (int i = 0; i < sets; ++i) steps.push_back({{"set", {{"v", "n8"}}}});
    body["program"] = steps;
    return code_of(nlohmann::json::to_cbor(body));
  };
  const arch::DecodedCode few = program::CodeImage().decode(program(10));
  REQUIRE(few.program != nullptr);
  CHECK(few.text > 40'000);
  CHECK(few.text < program::kMostText);
  const Bytes many = program(1000);
  CHECK(many.size() < 20'000);
  CHECK_THAT(why(many), Contains("the expressions so far have more than 1048576 bytes"));
}

TEST_CASE("no damage of code does more than change a program or refuse it", "[program][HST-07]") {
  HEDDLE_RANDOM(dice);
  const Both made = both(
      "[{load: {to: a, type: u64, at: kernarg}}, {loop: {var: r, from: 0, to: 4, do: [{store: {value: "
      "r, type: u32, at: a + 4 * r}}]}}, {if: {cond: thread == 0, then: [{launch: {kernel: leaf}}]}}]");
  const program::CodeImage image;
  unsigned refused = 0;
  for (int round = 0; round < 3000; ++round) {
    Bytes code = made.code;
    for (std::uint64_t i = 1 + dice.below(4); i > 0; --i) {
      const std::size_t at = dice.below(code.size());
      switch (dice.below(3)) {
        case 0:
          code[at] = static_cast<std::uint8_t>(dice.below(256));
          break;
        case 1:
          code[at] = static_cast<std::uint8_t>(code[at] ^ 1U << dice.below(8));
          break;
        default:
          code.erase(code.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    refused += image.decode(code).program == nullptr ? 1 : 0;
  }
  CHECK(refused > 1000);
  CHECK(refused < 3000);
}

}  // namespace program_code_image_test
