// Matrix multiplies of scenarios, executed without an SM, against direct computation.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tensor_data.h"
#include "common/error.h"
#include "common/yaml_util.h"
#include "program/program_machine.h"

namespace program_tiles_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::scenario;
using Catch::Contains;
using test::ProgramMachine;

namespace {

// A kernel of one CTA whose program is in flow style, one step a line.
std::string kernel(const std::string& steps, const std::string& block = "32", const std::string& more = {}) {
  return "  grid: 1\n  block: " + block + "\n" + more + "  program:\n" + steps;
}

}  // namespace

TEST_CASE("a tile is multiplied and stored in every layout and type", "[workload][SM-02]") {
  const bool transposed = GENERATE(false, true);
  const std::string type = GENERATE(std::string("f32"), std::string("f16"), std::string("bf16"));
  CAPTURE(transposed, type);
  const std::string b = transposed ? "b: 4096, b_pitch: 144, b_transposed: true" : "b: 4096";
  // A: 16 x 64 with rows of 160 bytes. B: 64 x 64, by rows of 128 bytes or by columns of 144.
  ProgramMachine machine(
      kernel(
          "  - accumulators: {acc: {n: 64}}\n"
          "  - loop: {var: part, to: 4, do: [{copy_async: {from: a + 16 * (lane + 32 * part), to: 160 * ((lane + 32 * "
          "part) // 8) + 16 * (lane % 8), bytes: 16}}]}\n"
          "  - loop: {var: part, to: 8, do: [{loop: {var: half, to: 2, do: [{copy_async: {from: b + 16 * part + 128 "
          "* (lane + 32 * half), to: 4096 + " +
              std::string(transposed ? "144 * (lane + 32 * half) + 16 * part"
                                     : "128 * (lane + 32 * half) + 16 * part") +
              ", bytes: 16}}]}}]}\n"
              "  - zero: acc\n"
              "  - matmul: {into: acc, k: 32, a: 0, a_pitch: 160, " +
              b +
              "}\n"
              "  - matmul: {into: acc, k: 32, a: 64, a_pitch: 160, " +
              (transposed ? "b: 4096 + 64, b_pitch: 144, b_transposed: true" : "b: 4096 + 32 * 128") +
              "}\n"
              "  - store_tile: {from: acc, at: out + 64, pitch: 512, type: " +
              type + "}\n",
          "32", "  shared: 16 KiB\n"),
      "[{name: a, bytes: 2 KiB, init: {random: 1, type: f16, min: -4, max: 4, integer: true}}, {name: b, bytes: 8 KiB, "
      "init: {random: 2, type: f16, min: -4, max: 4, integer: true}}, {name: out, bytes: 16 KiB}]");
  machine.run->run();
  const auto half = [&](const char* name, std::size_t index) {
    return arch::float_of_f16(machine.at<std::uint16_t>(name, index));
  };
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 64; ++column) {
      float sum = 0;
      for (std::size_t k = 0; k < 64; ++k) {
        sum += half("a", 64 * row + k) * (transposed ? half("b", 64 * column + k) : half("b", 64 * k + column));
      }
      const std::size_t at = (64 + 512 * row) / (type == "f32" ? 4 : 2) + column;
      const float is = type == "f32"   ? machine.at<float>("out", at)
                       : type == "f16" ? half("out", at)
                                       : arch::float_of_bf16(machine.at<std::uint16_t>("out", at));
      const float must = type == "f32"   ? sum
                         : type == "f16" ? arch::float_of_f16(arch::f16_of(sum))
                                         : arch::float_of_bf16(arch::bf16_of(sum));
      REQUIRE(is == must);
    }
  }
  CHECK(machine.run->of_code[arch::OpCode::store] == 16);
}

TEST_CASE("two tiles of the shipped matrix multiply", "[workload][SM-02]") {
  const std::string path = std::string(HEDDLE_SOURCE_DIR) + "/scenarios/gemm_1024.yaml";
  std::string text = read_text_file(path);
  const std::size_t grid = text.find("grid: [16, 8]");
  REQUIRE(grid != std::string::npos);
  text.replace(grid, 13, "grid: [2, 1]");
  ProgramMachine machine(parse_scenario(text, path));
  CHECK(machine.kernel().registers_per_thread == 32);
  machine.run->run();
  for (std::size_t row = 0; row < 128; row += 3) {
    for (std::size_t column = 0; column < 128; column += 5) {
      float sum = 0;
      for (std::size_t k = 0; k < 1024; ++k) {
        sum += arch::float_of_f16(machine.at<std::uint16_t>("a", 1024 * row + k)) *
               arch::float_of_f16(machine.at<std::uint16_t>("b", 1024 * k + column));
      }
      REQUIRE(machine.at<float>("c", 1024 * row + column) == sum);
    }
  }
  CHECK(machine.at<float>("c", 128) == 0);
  CHECK(machine.at<float>("c", 128 * 1024) == 0);
}

}  // namespace program_tiles_test
