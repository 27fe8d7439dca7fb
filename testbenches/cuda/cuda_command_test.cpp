// heddle cuda: programs of nvcc's as they are, their results and their exit statuses. Without nvcc there are none.
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "cli/program.h"

namespace heddle::test::cuda_command_test {
namespace {

std::string program(const std::string& name) { return std::string(HEDDLE_CUDA_PROGRAMS) + "/" + name; }

bool can_build() {
#ifdef HEDDLE_HAS_NVCC
  return true;
#else
  WARN("SKIPPED: no nvcc, or no library of heddle cuda");
  return false;
#endif
}

// Rows by column.
std::vector<std::map<std::string, std::string>> rows_of(const std::string& path) {
  std::ifstream file(path);
  const auto fields = [](const std::string& line) {
    std::vector<std::string> parts;
    std::stringstream stream(line);
    for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
    return parts;
  };
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = fields(line);
  std::vector<std::map<std::string, std::string>> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> values = fields(line);
    std::map<std::string, std::string> row;
    for (std::size_t i = 0; i < values.size(); ++i) row[names.at(i)] = values[i];
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

TEST_CASE("a program's kernels and copies are in its results") {
  if (!can_build()) return;
  TempDir folder;
  const Finished run = heddle_in(folder, {"cuda", "--out", "here", program("vector_sum")});
  INFO(run.err);
  REQUIRE(run.status == 0);
  CHECK(run.out == "vector_sum: ok\n");
  const auto rows = rows_of(folder.file("here/kernels.csv"));
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].at("name") == "HtoD");
  CHECK(rows[0].at("bytes") == "40004");
  CHECK(rows[2].at("kind") == "kernel");
  CHECK(rows[2].at("grid") == "40x1x1");
  CHECK(rows[2].at("block") == "256x1x1");
  CHECK(rows[3].at("name") == "DtoH");
  double before = 0;
  for (const auto& row : rows) {
    CHECK(row.at("ended") == "well");
    CHECK(std::stod(row.at("start_ns")) >= before);  // one stream, one after another
    before = std::stod(row.at("end_ns"));
  }
  const nlohmann::json stats = read_json(folder.file("here/stats.json"));
  CHECK(stats.at("gpu0.cwd.ctas_launched").at("value") == 40);
  CHECK(stats.at("gpu0.copy.copies").at("value") == 3);
  CHECK(read_json(folder.file("here/host.json")).at("state") == "ended");
}

TEST_CASE("bytes are the same in all timings") {
  if (!can_build()) return;
  TempDir folder;
  for (const char* timing : {"at", "lt"}) {
    const Finished run = heddle_in(folder, {"cuda", "--timing", timing, program("byte_histogram")});
    INFO(timing << run.err);
    CHECK(run.status == 0);
  }
  const Finished other =
      heddle_in(folder, {"cuda", "--gpu", "a100", "--set", "gpu.copy.engines=1", program("plain_code")});
  INFO(other.err);
  CHECK(other.status == 0);
}

TEST_CASE("two runs are the same to the byte") {
  if (!can_build()) return;
  TempDir folder;
  for (const char* out : {"first", "second"}) {
    REQUIRE(heddle_in(folder, {"cuda", "--out", out, program("pipelined_streams")}).status == 0);
  }
  CHECK(read_file(folder.file("first/kernels.csv")) == read_file(folder.file("second/kernels.csv")));
  CHECK(read_file(folder.file("first/stats.json")) == read_file(folder.file("second/stats.json")));
}

TEST_CASE("what cannot be run is told, with what to do") {
  TempDir folder;
  const Finished none = heddle_in(folder, {"cuda"});
  CHECK(none.status == 2);
  CHECK(contains(none.err, "no program"));
  const Finished missing = heddle_in(folder, {"cuda", "./nothing"});
  CHECK(missing.status == 2);
  CHECK(contains(missing.err, "nothing"));
  const Finished other = heddle_in(folder, {"cuda", "/bin/true"});
  CHECK(other.status == 2);
  CHECK(contains(other.err, "-cudart shared"));
  if (!can_build()) return;
  const Finished wrong = heddle_in(folder, {"cuda", "--set", "gpu.nonsense=1", program("vector_sum")});
  CHECK(wrong.status == 2);
  CHECK(contains(wrong.err, "gpu.nonsense"));
  const Finished machine = heddle_in(folder, {"cuda", program("machine_code")});
  CHECK(machine.status == 1);
  CHECK(contains(machine.err, "only machine code for 90"));
  CHECK(contains(machine.err, "code=compute_90a"));
}

}  // namespace heddle::test::cuda_command_test
