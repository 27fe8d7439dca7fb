// The memory of scenarios: where regions lie, what they hold, what is expected of them.
#include "scenario/memory_region.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/tensor_data.h"
#include "common/error.h"
#include "support/random.h"

namespace scenario_memory_region_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::scenario;
using Catch::Contains;

namespace {

const std::string kSubmit = "submit: [{copy: 1, for: 0, stream: a}]\n";

Scenario scenario_of(const std::string& memory, const std::string& rest = {}, const std::string& file = "m.yaml") {
  return parse_scenario("heddle: 1\n" + rest + kSubmit + "memory:\n" + memory, file);
}

std::string error(const std::string& memory, const std::string& rest = {}, const std::string& file = "m.yaml") {
  try {
    scenario_of(memory, rest, file);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

template <class T>
std::vector<T> values(const MemoryRegion& region) {
  const std::vector<std::uint8_t> bytes = initial_bytes(region);
  std::vector<T> result(bytes.size() / sizeof(T));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

MemoryRegion region_of(const std::string& entry) { return scenario_of("- " + entry + "\n").workloads[0].memory.at(0); }

// A folder with a file of some bytes, and the scenario beside it.
class Folder {
 public:
  explicit Folder(std::size_t bytes)
      : path_(std::filesystem::temp_directory_path() / fmt::format("heddle_region_{}", bytes)) {
    std::filesystem::create_directories(path_);
    std::ofstream out(path_ / "data.bin", std::ios::binary);
    for (std::size_t i = 0; i < bytes; ++i) out.put(static_cast<char>(i * 7));
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string scenario() const { return (path_ / "s.yaml").string(); }
  std::filesystem::path data() const { return path_ / "data.bin"; }

 private:
  std::filesystem::path path_;
};

Expectation expectation_of(const std::string& entry, const std::string& file = "m.yaml") {
  return scenario_of("- {name: r, bytes: 64}\n", "expect: [" + entry + "]\n", file).expectations.at(0);
}

std::vector<std::uint8_t> floats(const std::vector<float>& values) {
  std::vector<std::uint8_t> bytes(64);
  std::memcpy(bytes.data(), values.data(), 4 * values.size());
  return bytes;
}

}  // namespace

TEST_CASE("regions find places that do not overlap", "[workload]") {
  const Scenario s = scenario_of(
      "- {name: a, bytes: 100}\n- {name: b, bytes: 1 MiB, at: 0x102000}\n- {name: c, bytes: 8 KiB}\n"
      "- {name: d, bytes: 1, align: 1 MiB}\n- {name: e, bytes: 5, at: 3}\n- {name: f, bytes: 16, gpu: 1}\n"
      "- {name: g, bytes: 16, align: 16}\n",
      "gpus: [small, small]\n");
  REQUIRE(s.workloads[0].memory.size() == 6);
  const auto& m = s.workloads[0].memory;
  CHECK(m[0].address == 0x100000);
  CHECK(m[0].bytes == 100);
  CHECK(m[1].address == 0x102000);
  CHECK(m[2].address == 0x202000);  // 8 KiB do not fit between a and b
  CHECK(m[3].address == 0x300000);
  CHECK(m[4].address == 3);
  CHECK(m[5].address == 0x300010);
  CHECK(m[0].where.line == 5);
  REQUIRE(s.workloads[1].memory.size() == 1);
  CHECK(s.workloads[1].memory[0].address == 0x100000);
  CHECK(s.workloads[1].memory[0].gpu == 1);
}

TEST_CASE("random places never overlap", "[workload]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    std::uint64_t fixed = 0x100000 + dice.between64(0, 0x4000);
    for (int i = 0; i < 12; ++i) {
      const std::uint64_t bytes = dice.between64(1, 9000);
      std::string place;
      if (dice.one_in(3)) {
        place = fmt::format(", at: {}", fixed);
        fixed += bytes + dice.between64(0, 20000);
      } else if (dice.one_in(2)) {
        place = fmt::format(", align: {}", std::uint64_t{1} << dice.between64(0, 14));
      }
      text += fmt::format("- {{name: r{}, bytes: {}{}}}\n", i, bytes, place);
    }
    const auto regions = scenario_of(text).workloads[0].memory;
    for (std::size_t i = 0; i < regions.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        const auto& a = regions[i];
        const auto& b = regions[k];
        REQUIRE((a.address + a.bytes <= b.address || b.address + b.bytes <= a.address));
      }
    }
  }
}

TEST_CASE("regions hold what they say", "[workload]") {
  CHECK(values<std::uint8_t>(region_of("{name: z, bytes: 3}")) == std::vector<std::uint8_t>{0, 0, 0});
  CHECK(values<std::uint8_t>(region_of("{name: z, bytes: 3, init: zeros}")) == std::vector<std::uint8_t>{0, 0, 0});
  CHECK(values<float>(region_of("{name: p, bytes: 16, init: {pattern: 1.5 * i - 1}}")) ==
        std::vector<float>{-1, 0.5F, 2, 3.5F});
  CHECK(values<std::uint16_t>(region_of("{name: p, bytes: 8, init: {pattern: i * i, type: u16}}")) ==
        std::vector<std::uint16_t>{0, 1, 4, 9});
  CHECK(values<std::uint16_t>(region_of("{name: p, bytes: 4, init: {pattern: i / 2, type: bf16}}")) ==
        std::vector<std::uint16_t>{0, 0x3F00});
  CHECK(values<std::int64_t>(region_of("{name: p, bytes: 16, init: {pattern: -5, type: s64}}")) ==
        std::vector<std::int64_t>{-5, -5});
}

TEST_CASE("random contents are the same everywhere, and evenly spread", "[workload]") {
  const MemoryRegion region = region_of("{name: r, bytes: 64 KiB, init: {random: 17, type: f32, min: -2, max: 6}}");
  const std::vector<float> all = values<float>(region);
  double sum = 0;
  std::array<int, 8> bins{};
  for (const float value : all) {
    REQUIRE((value >= -2 && value <= 6));
    sum += static_cast<double>(value);
    ++bins[static_cast<std::size_t>(std::min(7.0F, value + 2))];
  }
  CHECK(std::fabs(sum / static_cast<double>(all.size()) - 2) < 0.1);
  for (const int bin : bins) CHECK(std::abs(bin - 2048) < 250);
  // The first values of seed 17: other hosts, compilers and versions must give the same.
  const std::vector<std::uint8_t> bytes = initial_bytes(region);
  std::uint64_t sum_of_bytes = 0;
  for (const std::uint8_t byte : bytes) sum_of_bytes = sum_of_bytes * 31 + byte;
  CHECK(sum_of_bytes == 0x6F64'5A45'BB06'22FE);
  // In portions.
  for (const std::uint64_t offset : {std::uint64_t{8}, std::uint64_t{4096}, std::uint64_t{65528}}) {
    const std::vector<std::uint8_t> part = initial_bytes(region, offset, 8);
    CHECK(std::equal(part.begin(), part.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset)));
  }
  CHECK(initial_bytes(region_of("{name: r, bytes: 64 KiB, init: {random: 18, type: f32, min: -2, max: 6}}")) != bytes);

  const auto dice =
      values<std::uint8_t>(region_of("{name: r, bytes: 6000, init: {random: 1, type: u8, min: 1, max: 6}}"));
  std::array<int, 7> faces{};
  for (const std::uint8_t face : dice) ++faces.at(face);
  CHECK(faces[0] == 0);
  for (std::size_t face = 1; face <= 6; ++face) CHECK(std::abs(faces[face] - 1000) < 150);
  const auto whole = values<std::uint16_t>(
      region_of("{name: r, bytes: 200, init: {random: 1, type: f16, min: -3, max: 3, integer: true}}"));
  std::set<float> seen;
  for (const std::uint16_t bits : whole) seen.insert(arch::float_of_f16(bits));
  CHECK(seen == std::set<float>{-3, -2, -1, 0, 1, 2, 3});
}

TEST_CASE("regions from files", "[workload]") {
  const Folder folder(300);
  const auto read = [&](const std::string& entry) {
    return scenario_of("- " + entry + "\n", {}, folder.scenario()).workloads[0].memory.at(0);
  };
  const MemoryRegion region = read("{name: f, init: {file: data.bin}}");
  CHECK(region.bytes == 300);
  const std::vector<std::uint8_t> bytes = initial_bytes(region);
  for (std::size_t i = 0; i < bytes.size(); ++i) REQUIRE(bytes[i] == static_cast<std::uint8_t>(i * 7));
  CHECK(initial_bytes(region, 296, 4) == std::vector<std::uint8_t>(bytes.begin() + 296, bytes.end()));
  CHECK(read("{name: f, bytes: 300, init: {file: data.bin}, write: out.bin}").write == "out.bin");
  CHECK(read("{name: f, init: {file: " + folder.data().string() + "}}").bytes == 300);
  CHECK_THAT(error("- {name: f, bytes: 301, init: {file: data.bin}}\n", {}, folder.scenario()),
             Contains("s.yaml:4:") && Contains("data.bin has 300 bytes, the region 301"));
  CHECK_THAT(error("- {name: f, bytes: 30, init: {file: data.bin}}\n", {}, folder.scenario()),
             Contains("has 300 bytes, the region 30"));
  CHECK_THAT(error("- {name: f, init: {file: date.bin}}\n", {}, folder.scenario()),
             Contains("memory f, init: there is no file") && Contains("date.bin"));
  CHECK_THAT(error("- {name: f, init: {file: .}}\n", {}, folder.scenario()), Contains("is a folder"));
  std::filesystem::resize_file(folder.data(), 299);
  CHECK_THROWS_WITH(initial_bytes(region), Contains("cannot be read, or has become shorter"));
}

TEST_CASE("mistakes in memory", "[workload]") {
  CHECK_THAT(error("- {name: a}\n"), Contains("m.yaml:4:3: memory a: the key \"bytes\" is missing"));
  CHECK_THAT(error("- {name: a, bytes: 0}\n"), Contains("memory a, bytes: 0 is out of range"));
  CHECK_THAT(error("- {name: a.b, bytes: 1}\n"), Contains("\"a.b\" cannot be used in expressions"));
  CHECK_THAT(error("- {name: lane, bytes: 1}\n"), Contains("\"lane\" cannot be used in expressions"));
  CHECK_THAT(error("- {name: a, bytes: 1}\n- {name: a, bytes: 1}\n"),
             Contains("m.yaml:5:10: memory a, name: there are two"));
  CHECK_THAT(error("- {name: a, bytes: 2, at: 7}\n- {name: b, bytes: 1, at: 8}\n"),
             Contains("m.yaml:5:3: memory b: it overlaps memory a"));
  CHECK_THAT(error("- {name: a, bytes: 2, at: 7, align: 2}\n"), Contains("not a multiple of `align`"));
  CHECK_THAT(error("- {name: a, bytes: 2, write: x}\n- {name: b, bytes: 2, write: x}\n"),
             Contains("memory b, write: memory a is written to the same file"));
  CHECK_THAT(error("- {name: a, bytes: 2, align: 3}\n"), Contains("a power of two"));
  CHECK_THAT(error("- {name: a, bytes: 2, gpu: 1}\n"), Contains("memory a, gpu: 1 is out of range"));
  CHECK_THAT(
      error("- {name: a, bytes: 512 GiB, at: 0}\n- {name: b, bytes: 1024000 GiB}\n- {name: c, bytes: 900000 GiB}\n"),
      Contains("there is no room for it"));
  CHECK_THAT(error("- {name: a, bytes: 2, init: ones}\n"), Contains("zeros, or one of"));
  CHECK_THAT(error("- {name: a, bytes: 2, init: {}}\n"), Contains("one of pattern, random, file is expected"));
  CHECK_THAT(error("- {name: a, bytes: 4, init: {random: 1, pattern: i}}\n"), Contains("one of pattern, random, file"));
  CHECK_THAT(error("- {name: a, bytes: 6, init: {pattern: i}}\n"),
             Contains("not a whole number of elements of 4 bytes"));
  CHECK_THAT(error("- {name: a, bytes: 8, init: {pattern: k}}\n"),
             Contains("m.yaml:4:39: expression \"k\": there is no k"));
  CHECK_THAT(error("- {name: a, bytes: 8, init: {pattern: i, type: f33}}\n"), Contains("did you mean f32"));
  CHECK_THAT(error("- {name: a, bytes: 8, init: {pattern: i, max: 3}}\n"), Contains("only random contents have it"));
  CHECK_THAT(error("- {name: a, bytes: 8, init: {random: 1, min: 3}}\n"), Contains("min is larger than max"));
  CHECK_THAT(error("- {name: a, bytes: 8, init: {random: 1, max: 2.5, type: u8}}\n"),
             Contains("from one whole number"));
  CHECK_THAT(error("- {name: a, bytes: 8, init: {file: x, type: u8}}\n"), Contains("a file has bytes"));
}

TEST_CASE("memory that is expected", "[workload]") {
  Expectation e = expectation_of("{memory: r, pattern: i * i, type: f32}");
  CHECK(e.kind == ExpectationKind::memory);
  CHECK(e.memory == "r");
  CHECK(e.text() == "= i * i");
  std::vector<float> good(16);
  for (std::size_t i = 0; i < 16; ++i) good[i] = static_cast<float>(i * i);
  CHECK(difference(e, floats(good)).empty());
  good[3] = 9.5F;
  good[5] = 25.25F;
  CHECK(difference(e, floats(good)) == "element 3 is 9.5, expected 9; 2 of 16 differ");
  CHECK(difference(expectation_of("{memory: r, pattern: i * i, type: f32, within: 0.25}"), floats(good)) ==
        "element 3 is 9.5, expected 9; 1 of 16 differ");
  CHECK(difference(expectation_of("{memory: r, pattern: i * i, type: f32, within: 0.5}"), floats(good)).empty());
  CHECK(expectation_of("{memory: r, pattern: i * i, type: f32, within: 2 %}").text() == "= i * i +- 2 %");
  CHECK(difference(expectation_of("{memory: r, pattern: i * i, type: f32, within: 2 %}"), floats(good)) ==
        "element 3 is 9.5, expected 9; 1 of 16 differ");
  good[3] = std::nanf("");
  CHECK_FALSE(difference(expectation_of("{memory: r, pattern: i * i, type: f32, within: 100}"), floats(good)).empty());

  const Folder folder(64);
  const Expectation bytes = expectation_of("{memory: r, file: data.bin}", folder.scenario());
  std::vector<std::uint8_t> content(64);
  for (std::size_t i = 0; i < 64; ++i) content[i] = static_cast<std::uint8_t>(7 * i);
  CHECK(difference(bytes, content).empty());
  ++content[63];
  CHECK(difference(bytes, content) == "byte 63 is 186, expected 185; 1 of 64 differ");
  CHECK(difference(expectation_of("{memory: r, file: data.bin, type: u16, within: 256}", folder.scenario()), content)
            .empty());
}

TEST_CASE("mistakes in what is expected of memory and of faults", "[workload]") {
  const auto wrong = [](const std::string& entry) {
    return error("- {name: r, bytes: 65}\n",
                 "kernels: [{name: k, grid: 1, block: 1, program: [barrier]}]\nexpect: [" + entry + "]\n");
  };
  CHECK_THAT(wrong("{memory: q, pattern: 1, type: u8}"), Contains("there is no memory q"));
  CHECK_THAT(wrong("{memory: r}"), Contains("expectation r: one of file, pattern is expected"));
  CHECK_THAT(wrong("{memory: r, pattern: i}"), Contains("the type is missing"));
  CHECK_THAT(wrong("{memory: r, pattern: i, type: f32}"), Contains("does not hold a whole number of f32"));
  CHECK_THAT(wrong("{memory: r, pattern: k, type: u8}"), Contains("there is no k"));
  CHECK_THAT(wrong("{memory: r, file: nowhere.bin}"), Contains("there is no file nowhere.bin"));
  CHECK_THAT(wrong("{memory: r, file: nowhere.bin, equals: 3}"), Contains("unknown key \"equals\""));
  CHECK_THAT(wrong("{fault: adress, kernel: k}"),
             Contains("there is no fault adress") && Contains("did you mean address?"));
  CHECK_THAT(wrong("{fault: address, kernel: q}"), Contains("there is no kernel q"));
  CHECK_THAT(wrong("{fault: address}"), Contains("the key \"kernel\" is missing"));
  const Scenario s = scenario_of(
      "- {name: r, bytes: 64}\n",
      "kernels: [{name: k, grid: 1, block: 1, program: [barrier]}]\nexpect: [{fault: misaligned, kernel: k}]\n");
  CHECK(s.expectations[0].kind == ExpectationKind::fault);
  CHECK(s.expectations[0].fault == arch::FaultKind::misaligned);
  CHECK(s.expectations[0].kernel == "k");
  CHECK(s.expectations[0].text() == "in kernel k");
}

TEST_CASE("a program runs where its memory is", "[workload][SM-02]") {
  const auto with = [](const std::string& stream) -> std::string {
    try {
      parse_scenario(
          "heddle: 1\ngpus: [small, small]\nmemory: [{name: r, bytes: 64}]\nstreams: [{name: x}, {name: y, gpu: 1}]\n"
          "kernels: [{name: k, grid: 1, block: 1, program: [{store: {value: 1, type: u32, at: r}}]}]\n"
          "submit: [{kernel: k, stream: " +
              stream + "}]\n",
          "m.yaml");
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  };
  CHECK(with("x") == "accepted");
  CHECK_THAT(with("y"), Contains("it runs on gpu1, and its program uses memory r of gpu0"));
}

}  // namespace scenario_memory_region_test
