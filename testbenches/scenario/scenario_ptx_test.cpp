// Kernels of scenarios that are entries of PTX modules: the arguments that they get, and where their variables lie.
#include <cstring>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "scenario/scenario.h"
#include "workload/workload.h"

namespace scenario_ptx_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::scenario;

namespace {

// The kernels stand from line 4 on.
Scenario scenario(const std::string& kernels, const std::string& submit) {
  return parse_scenario("heddle: 1\nmemory: [{name: out, bytes: 256}, {name: far, gpu: 1, bytes: 256}]\nkernels:\n" +
                            kernels + "gpus: [h100-sxm, h100-sxm]\nstreams: [{name: s}, {name: t, gpu: 1}]\nsubmit: [" + submit + "]\n",
                        std::string(HEDDLE_SOURCE_DIR) + "/testbenches/scenario/t.yaml");
}
std::string kernel(const std::string& name, const std::string& entry, const std::string& arguments) {
  return "  - {name: " + name + ", ptx: module_variables.ptx, entry: " + entry + ", grid: 1, block: 32, args: [" +
         arguments + "]}\n";
}
std::vector<const MemoryRegion*> named(const Scenario& scenario, std::size_t gpu, const std::string& begin) {
  std::vector<const MemoryRegion*> found;
  for (const MemoryRegion& region : scenario.workloads.at(gpu).memory) {
    if (region.name.compare(0, begin.size(), begin) == 0) found.push_back(&region);
  }
  return found;
}

}  // namespace

// CUDA C++ Programming Guide, "Device Memory Accesses": a __device__ variable is one object for all kernels of a
// module.
TEST_CASE("kernels of a module share its variables", "[ptx]") {
  const Scenario made =
      scenario(kernel("w", "writes", "out") + kernel("r", "reads", "out") + kernel("elsewhere", "reads", "far"),
               "{kernel: w, stream: s}, {kernel: r, stream: s}, {kernel: elsewhere, stream: t}");
  for (const std::size_t gpu : {0U, 1U}) {
    const std::vector<const MemoryRegion*> images = named(made, gpu, "variables of");
    REQUIRE(images.size() == 1);
    REQUIRE(images[0]->contents.bytes.size() >= 4);
    CHECK(images[0]->contents.bytes[0] == 5);
  }
}

TEST_CASE("arguments are numbers that their parameters have", "[ptx]") {
  const auto bytes = [](const std::string& small, const std::string& large, const std::string& real,
                        const std::string& wide) {
    const std::string list = small + ", " + large + ", " + real + ", " + wide;
    const Scenario made = scenario(kernel("k", "numbers", list), "{kernel: k, stream: s}");
    return named(made, 0, "arguments of k").at(0)->contents.bytes;
  };
  const auto part = [](const std::vector<std::uint8_t>& all, std::size_t at, auto value) {
    std::memcpy(&value, all.data() + at, sizeof value);
    return value;
  };
  const std::vector<std::uint8_t> all = bytes("-128", "0xffffffffffffffff", "-1.5", "1e300");
  CHECK(part(all, 0, std::uint8_t{0}) == 0x80);
  CHECK(part(all, 8, std::uint64_t{0}) == ~std::uint64_t{0});
  CHECK(part(all, 16, 0.0F) == -1.5F);
  CHECK(part(all, 24, 0.0) == 1e300);
  CHECK(part(bytes("255", "-9223372036854775808", "0.5", "0"), 8, std::uint64_t{0}) == std::uint64_t{1} << 63);
  const auto refused = [&](const std::string& small, const std::string& large, const std::string& real,
                           const std::string& wide) {
    CAPTURE(small, large, real, wide);
    CHECK_THROWS_AS(bytes(small, large, real, wide), InputError);
  };
  refused("256", "0", "0", "0");
  refused("-129", "0", "0", "0");
  refused("010", "0", "0", "0");
  refused("0", "18446744073709551616", "0", "0");
  refused("0", "-9223372036854775809", "0", "0");
  refused("0", "1.5", "0", "0");
  refused("0", "' 5'", "0", "0");
  refused("0", "--5", "0", "0");
  refused("0", "0", "1e39", "0");
  refused("0", "0", "nan", "0");
  refused("0", "0", "inf", "0");
  refused("0", "0", "-inf", "0");
  refused("0", "0", "007", "0");
  refused("0", "0", "0", "1e309");
}

}  // namespace scenario_ptx_test
