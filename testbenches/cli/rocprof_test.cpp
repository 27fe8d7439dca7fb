// A kernel trace of rocprofv3 as a user meets it: replayed, imported, asked for its occupancy, refused.
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "import/rocprof_text.h"

namespace cli_rocprof_test {

using namespace heddle::test;

namespace {

// Two queues whose kernels overlap, on a machine of 256 SMs. 100 us in all.
std::string two_queues() {
  RocprofText text;
  for (std::uint64_t i = 0; i < 5; ++i) {
    text.kernel(1'000'000 + i * 20'000, 1'012'000 + i * 20'000, 1, "256,1,1,16384,1,1", "short");
    text.kernel(1'005'000 + i * 20'000, 1'020'000 + i * 20'000, 2, "64,1,1,6400,1,1", "other");
  }
  return text.text();
}

}  // namespace

TEST_CASE("a trace of rocprofv3 is replayed on the machine of --gpu", "[cli][INP-04][INP-06]") {
  const TempDir dir;
  dir.write("trace.csv.gz", gzipped(two_queues()));
  const Results results = run_well(dir, {"trace.csv.gz", "--gpu", "mi350x"});
  CHECK(results.document().at("gpus").at(0).at("preset") == "mi350x");
  CHECK(results.document().at("gpus").at(0).at("sms") == 256);
  CHECK(results.stat("replay.kernels") == 10);
  CHECK(results.stat("gpu0.cwd.ctas_launched") == 5 * (64 + 100));
  CHECK(results.stat("replay.span.recorded") == 100);
  CHECK(results.stat("replay.span.modelled") == Approx(100).epsilon(0.01));
  CHECK(results.stat("replay.overlap.recorded") == 35);
  CHECK(results.stat("replay.overlap.modelled") == Approx(35).epsilon(0.02));
  CHECK(results.stat("replay.overlap.pairs.recorded") == 5);
  CHECK(results.stat("replay.overlap.pairs.both") == 5);
  CHECK(results.stat("replay.overlap.pairs.modelled") >= 5);  // some may touch for a moment besides
  CHECK(results.stat("replay.overlap.pairs.time") == 35);
}

TEST_CASE("a trace of rocprofv3 without --gpu is refused with what to do", "[cli][INP-07][INP-10]") {
  const TempDir dir;
  dir.write("trace.csv", two_queues());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run", "trace.csv"}, {"import", "rocprof", "trace.csv", "-o", "s.yaml"}}) {
    const Finished finished = heddle_in(dir, command);
    CHECK(finished.status == 2);
    for (const char* part : {"trace.csv", "does not tell what device 4 is", "--gpu mi350x"}) {
      CHECK(contains(finished.err, part));
    }
  }
  dir.write("cut.csv", two_queues().substr(0, two_queues().size() - 4));
  const Finished cut = heddle_in(dir, {"run", "cut.csv", "--gpu", "mi350x"});
  CHECK(cut.status == 2);
  CHECK(contains(cut.err, "cut.csv:11: the file ends in the middle of this line"));
  const Finished other = heddle_in(dir, {"import", "nsys", "trace.csv"});
  CHECK(other.status == 2);
  CHECK(contains(other.err, "trace.csv: is not an export of Nsight Systems"));
  // Nothing was half-imported.
  CHECK_FALSE(std::filesystem::exists(dir.file("s.yaml")));
  CHECK_FALSE(std::filesystem::exists(dir.file("heddle-out")));
}

TEST_CASE("a trace of rocprofv3 becomes a scenario that runs as long", "[cli][INP-04]") {
  const TempDir dir;
  dir.write("trace.csv", two_queues());
  const Finished import = heddle_in(dir, {"import", "rocprof", "trace.csv", "--gpu", "mi350x", "-o", "s.yaml"});
  INFO(import.err);
  REQUIRE(import.status == 0);
  const Results scenario = run_well(dir, {"s.yaml"}, "scenario");
  CHECK(scenario.stat("gpu0.task.kernels") == 10);
  CHECK(scenario.stat("gpu0.cwd.ctas_launched") == 5 * (64 + 100));
  CHECK(scenario.stat("sim.time") == Approx(100).epsilon(0.02));
  // A recording that tells its machine takes no other.
  dir.write("t.json", hand_made_trace());
  const Finished refused = heddle_in(dir, {"import", "kineto", "t.json", "--gpu", "small"});
  CHECK(refused.status == 2);
  CHECK(contains(refused.err, "the recording tells the machine"));
}

TEST_CASE("the occupancy of a trace's kernels is that of the machine of --gpu", "[cli][INP-04]") {
  const TempDir dir;
  dir.write("trace.csv", two_queues());
  const Finished finished = heddle_in(dir, {"occupancy", "trace.csv", "--gpu", "mi350x", "--cluster", "1", "--json"});
  INFO(finished.err);
  REQUIRE(finished.status == 0);
  const nlohmann::json kernels = nlohmann::json::parse(finished.out);
  REQUIRE(kernels.size() == 2);
  // 4 wavefronts of 32 registers and 2 KiB: wavefronts limit to 8. One wavefront: CTA slots and wavefronts to 32.
  CHECK(kernels[0].at("clusters")[0].at("ctas_per_sm") == 8);
  CHECK(kernels[1].at("clusters")[0].at("ctas_per_sm") == 32);
}

}  // namespace cli_rocprof_test
