// Kernels that are programs: the bytes that they leave in memory, and what a scenario says of them.
#include <cstring>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_memory_test {

using namespace heddle::test;

namespace {

// out[i] = 3 * in[i] + i for 4,096 words; `in` comes from a file.
const char* kTriple = R"(heddle: 1
gpu: small
memory:
  - {name: in, init: {file: in.bin}}
  - {name: out, bytes: 16 KiB, write: out.bin}
  - {name: same, bytes: 1 KiB, init: {random: 5, type: u32, max: 1000}, write: same.bin}
kernels:
  - name: triple
    grid: 16
    block: 256
    program:
      - let: {i: 256 * cta + thread}
      - load: {to: value, type: u32, at: in + 4 * i}
      - store: {value: 3 * value + i, type: u32, at: out + 4 * i}
submit:
  - {kernel: triple, stream: main}
)";

std::string words(std::uint32_t count, std::uint32_t (*word)(std::uint32_t)) {
  std::string bytes(std::size_t{4} * count, '\0');
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t value = word(i);
    std::memcpy(&bytes[std::size_t{4} * i], &value, 4);
  }
  return bytes;
}

std::uint32_t input_word(std::uint32_t i) { return 77 * i + 5; }
std::uint32_t output_word(std::uint32_t i) { return 3 * input_word(i) + i; }

// Exit status 2, the message has these parts, and nothing was simulated.
void refused(const TempDir& dir, const std::string& text, const std::vector<std::string>& parts,
             std::vector<std::string> arguments = {}) {
  dir.write("wrong.yaml", text);
  arguments.insert(arguments.begin(), {"run", "wrong.yaml", "--out", "refused"});
  const Finished finished = heddle_in(dir, arguments);
  INFO(finished.err);
  CHECK(finished.status == 2);
  CHECK(finished.out.empty());
  CHECK(finished.err.rfind("heddle: wrong.yaml:", 0) == 0);
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(contains(finished.err, part));
  }
  CHECK_FALSE(std::filesystem::exists(dir.file("refused/stats.json")));
}

std::string with(std::string text, const std::string& old, const std::string& fresh) {
  const std::size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old.size(), fresh);
}

}  // namespace

TEST_CASE("a program reads a file and leaves the right bytes in a file, in both timing modes", "[cli][SM-04]") {
  const TempDir dir;
  dir.write("s.yaml", kTriple);
  dir.write("in.bin", words(4096, input_word));
  run_well(dir, {"s.yaml"}, "a");
  CHECK((read_file(dir.file("a/out.bin")) == words(4096, output_word)));
  run_well(dir, {"s.yaml"}, "b");
  run_well(dir, {"s.yaml", "--timing", "lt"}, "lt");
  run_well(dir, {"s.yaml", "--gpu", "h100-sxm", "--seed", "9"}, "large");
  for (const char* file : {"out.bin", "same.bin"}) {
    CAPTURE(file);
    for (const char* other : {"b/", "lt/", "large/"}) {
      CHECK((read_file(dir.file("a/") + file) == read_file(dir.file(other) + file)));
    }
  }
  CHECK(read_file(dir.file("a/stats.json")) == read_file(dir.file("b/stats.json")));
  // The scenario's folder, not the working directory, is where its files are.
  std::filesystem::create_directories(dir.file("sub"));
  dir.write("sub/s.yaml", kTriple);
  dir.write("sub/in.bin", words(4096, output_word));
  run_well(dir, {"sub/s.yaml"}, "a");
  CHECK((read_file(dir.file("a/out.bin")) == words(4096, [](std::uint32_t i) { return 3 * output_word(i) + i; })));
}

TEST_CASE("a shipped program is right to the byte in both timing modes", "[cli]") {
  const TempDir dir;
  const std::string counts = words(256, [](std::uint32_t) { return 1024U; });
  dir.write("counts.u32", counts);
  std::string text = read_file(scenario("histogram.yaml"));
  text = with(text, "bytes: 1 KiB}", "bytes: 1 KiB, write: counts.u32}");
  dir.write("s.yaml", text + "  - {memory: counts, file: counts.u32}\n");
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    const Results results = run_well(dir, {"s.yaml", "--timing", mode}, mode);
    CHECK((read_file(results.file("counts.u32")) == counts));
    CHECK(results.document().at("expectations").size() == 3);
  }
}

TEST_CASE("an expectation of memory that fails names the first element that differs, and how many do", "[cli]") {
  const TempDir dir;
  dir.write("in.bin", words(4096, input_word));
  dir.write("out.bin", words(4096, output_word));
  dir.write("s.yaml", std::string(kTriple) + R"(expect:
  - {memory: out, file: out.bin}
  - {memory: out, pattern: 3 * (77 * i + 5) + i, type: u32}
)");
  const Results good = run_well(dir, {"s.yaml"}, "good");
  CHECK(good.document().at("expectations").size() == 2);
  std::string wrong = words(4096, output_word);
  wrong[6001] = static_cast<char>(wrong[6001] ^ 4);
  dir.write("out.bin", wrong);
  dir.write("s.yaml", std::string(kTriple) + R"(expect:
  - {memory: out, file: out.bin}
  - {memory: out, file: out.bin, type: u32}
  - {memory: out, file: out.bin, type: u32, within: 1024}
  - {memory: out, pattern: 3 * (77 * i + 5), type: u32}
)");
  const Finished bad = heddle_in(dir, {"run", "s.yaml", "--out", "bad"});
  INFO(bad.out);
  CHECK(bad.status == 1);
  CHECK(contains(bad.out, "FAILED:  memory out like"));
  CHECK(contains(bad.out, "byte 6001 is "));
  CHECK(contains(bad.out, "; 1 of 16384 differ"));
  CHECK(contains(bad.out, "element 1500 is 348015, expected 34"));
  CHECK(contains(bad.out, "met:     memory out like out.bin +- 1024"));
  CHECK(contains(bad.out, "element 1 is 247, expected 246; 4095 of 4096 differ"));
  // The bytes that are there are written all the same.
  CHECK((read_file(dir.file("bad/out.bin")) == words(4096, output_word)));
}

TEST_CASE("what cannot be done with a region is refused before anything runs, with place and remedy", "[cli]") {
  const TempDir dir;
  const std::string text = kTriple;
  refused(dir, text, {"wrong.yaml:4", "in.bin", "no file"});
  dir.write("in.bin", words(4000, input_word));
  refused(dir, with(text, "{name: in, ", "{name: in, bytes: 16 KiB, "), {"wrong.yaml:4", "in.bin", "16000", "16384"});
  dir.write("in.bin", words(4096, input_word));
  refused(dir, with(text, "bytes: 16 KiB", "bytes: 16 GiB"),
          {"wrong.yaml:5", "region out", "gpu0 has 1073741824 bytes", "heddle show params gpu.memory"});
  refused(dir, text, {"region in", "gpu0 has 1048576 bytes"}, {"--set", "gpu.memory=1048576"});
  refused(dir, with(text, "write: out.bin", "write: no/such/folder/out.bin"),
          {"wrong.yaml:5", "region out", "refused/no/such/folder/out.bin cannot be written",
           "names are of the results folder"});
  std::filesystem::create_directories(dir.file("refused/taken"));
  refused(dir, with(text, "write: out.bin", "write: taken"), {"wrong.yaml:5", "refused/taken cannot be written"});
  refused(dir, with(text, "write: out.bin", "write: stats.json"), {"wrong.yaml:5", "stats.json", "another name"});
  refused(dir, with(text, "write: same.bin", "write: ./out.bin"), {"wrong.yaml:6", "region same", "region out"});
  // What an earlier run has left stays until the next one ends.
  CHECK(std::filesystem::is_empty(dir.file("refused/taken")));
  CHECK_FALSE(std::filesystem::exists(dir.file("refused/out.bin")));
}

TEST_CASE("the page shows what programs did to memory", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kTriple);
  dir.write("in.bin", words(4096, input_word));
  const Results results = run_well(dir, {"s.yaml"});
  const nlohmann::json& gpu = results.page().at("gpus").at(0);
  CHECK_FALSE(gpu.contains("faults"));
  const nlohmann::json& memory = gpu.at("memory");
  const nlohmann::json& kernel = gpu.at("kernels").at(0);
  CHECK(memory.at("us").get<double>() == Approx(kernel.at("us").get<double>()).margin(0.001));
  std::map<std::string, nlohmann::json> levels;
  for (const nlohmann::json& level : memory.at("levels")) levels[level.at("name")] = level;
  REQUIRE(levels.size() == 5);
  CHECK(levels["Shared memory"].at("bytes") == 0);
  CHECK(levels["L1"].at("bytes") == 16384);
  CHECK(levels["L1"].at("hit_percent") == 0);
  CHECK(levels["L2"].at("bytes") == 2 * 16384);
  CHECK(levels["Crossbar to SMs"].at("bytes").get<double>() >= 16384);  // and headers
  CHECK(levels["Device memory"].at("bytes").get<double>() >= 16384);
  for (const auto& [name, level] : levels) {
    CAPTURE(name);
    const double moved = level.at("bytes").get<double>();
    const double rate = moved / (1e3 * memory.at("us").get<double>());
    CHECK(level.at("gb_per_s").get<double>() == Approx(rate));
    CHECK(level.at("share_percent").get<double>() ==
          Approx(100 * rate / level.at("peak_gb_per_s").get<double>()).margin(1e-9));
    CHECK(level.at("share_percent").get<double>() <= 100);
  }
  std::map<std::string, double> instructions;
  for (const nlohmann::json& row : memory.at("instructions")) instructions[row.at("label")] = row.at("count");
  CHECK(instructions["memory"] == 2 * 128);  // a load and a store of 128 warps
  double share = 0;
  for (const nlohmann::json& row : memory.at("warp_time")) share += row.at("share_percent").get<double>();
  CHECK(share == Approx(100).margin(0.5));
  // Without programs there is nothing to show.
  const Results plain = run_well(dir, {scenario("two_gpus.yaml")}, "plain");
  for (const nlohmann::json& other : plain.page().at("gpus")) CHECK_FALSE(other.contains("memory"));
}

TEST_CASE("the page counts what tensor memory access units move, and copies outside of kernels take their own time",
          "[cli]") {
  const TempDir dir;
  const Results tensor = run_well(dir, {scenario("tma_gemm_2x2.yaml")}, "tensor");
  std::map<std::string, nlohmann::json> levels;
  for (const nlohmann::json& level : tensor.page().at("gpus").at(0).at("memory").at("levels")) {
    levels[level.at("name")] = level;
  }
  // Each of the four clusters reads 256 rows of 512 elements of two bytes of A, and of B, for two SMs each; C has 512 x
  // 512 elements of four bytes.
  const double operands = 4 * 2 * (256.0 * 512 * 2);
  CHECK(levels["L2"].at("bytes").get<double>() == Approx(operands + 512 * 512 * 4).epsilon(0.01));
  CHECK(levels["Crossbar to SMs"].at("bytes").get<double>() >= 2 * operands);
  dir.write("copy.yaml",
            "heddle: 1\ngpu: small\nmemory: [{name: x, bytes: 4 MiB}, {name: y, bytes: 4 MiB}]\nkernels:\n  - name: "
            "k\n    grid: 1\n    block: 32\n"
            "    program: [{store: {value: 1, type: u32, at: x + 4 * thread}}]\n"
            "submit:\n  - {copy: 4 MiB, from: y, to: x, stream: a}\n  - {kernel: k, stream: a}\n");
  const Results copied = run_well(dir, {"copy.yaml"}, "copy");
  for (const nlohmann::json& level : copied.page().at("gpus").at(0).at("memory").at("levels")) {
    CAPTURE(level.dump());
    CHECK(level.at("share_percent").get<double>() <= 100);
  }
}

}  // namespace cli_memory_test
