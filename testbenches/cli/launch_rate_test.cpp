// What bounds the rate of launches, as `heddle run` says it (CWD-34).
#include <string>
#include <vector>

#include "cli/program.h"

namespace cli_launch_rate_test {

using namespace heddle::test;

namespace {

constexpr const char* kGrid = R"(heddle: 1
name: grid
gpu: text
kernels:
  - {name: short, grid: 4000, block: 64, cycles: 1}
  - {name: pairs, grid: 2000, block: 64, cycles: 1, cluster: 2}
  - {name: long, grid: 100, block: 1024, registers: 64, cycles: 20000}
submit:
  - {kernel: KERNEL, stream: a}
)";

struct Ran {
  std::string out;
  Results results;
};

Ran run_of(const TempDir& dir, const std::string& kernel, const std::vector<std::string>& sets) {
  std::string text = kGrid;
  text.replace(text.find("KERNEL"), 6, kernel);
  dir.write("grid.yaml", text);
  std::vector<std::string> arguments{"run", "grid.yaml", "--out", "out"};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  const Finished finished = heddle_in(dir, arguments);
  INFO(finished.err);
  REQUIRE(finished.status == 0);
  return {finished.out, Results(dir.file("out"))};
}

}  // namespace

TEST_CASE("the summary names the part that bounds the launch rate, whichever it is", "[cli][CWD-34]") {
  struct Bound {
    const char* part;
    std::string gauge;
    std::string kernel;
    std::vector<std::string> sets;
  };
  const std::vector<Bound> bounds{
      {"the decisions of sessions", "decision", "short", {"gpu.cwd.session_pipeline=3000"}},
      {"the mask generators", "masks", "pairs", {"gpu.cwd.mask_cycles=400"}},
      {"the tables of the distributor", "tables", "short", {"gpu.cwd.cta_commits=0.1"}},
      {"the rasteriser of the distributor",
       "ids",
       "short",
       {"gpu.cwd.central_raster=true", "gpu.cwd.raster_cycles=60"}},
      {"the launch port", "port", "short", {"gpu.cwd.port_bits=1"}},
      {"the GPMs, taking in packets", "packets", "short", {"gpu.gpc.packets=0.005"}},
      {"the GPMs, handing over CTAs", "gpms", "short", {"gpu.gpc.mpc_launches=0.02"}},
      {"the entries of CTAs in tables of SMs", "entries", "pairs", {"gpu.gpc.cta_entries=0.01"}},
      {"the raster units", "raster", "short", {"gpu.gpc.raster_cycles=900"}},
      {"the starts of CTAs in SMs", "starts", "short", {"gpu.gpc.cta_starts=0.001"}},
  };
  const TempDir dir;
  for (const Bound& bound : bounds) {
    CAPTURE(bound.part);
    const Ran ran = run_of(dir, bound.kernel, bound.sets);
    const Results& results = ran.results;
    INFO(ran.out);
    CHECK(contains(ran.out, std::string("bound by ") + bound.part));
    CHECK(results.stat("gpu0.launch." + bound.gauge) >= 80);
    const double launching = results.stat("gpu0.cwd.launching_cycles");
    CHECK(launching > 0);
    CHECK(results.stat("gpu0.launch.rate") == Approx(results.stat("gpu0.cwd.ctas_launched") / launching));
  }
}

TEST_CASE("a rate that no part bounds has a line that says so", "[cli][CWD-34]") {
  const TempDir dir;
  // One level of CTAs, and nothing behind it.
  CHECK(contains(run_of(dir, "long", {}).out, "CTAs per cycle; no part bounds it: busiest are"));
  // A queue of one packet, behind a long way.
  const Ran queues = run_of(dir, "short", {"gpu.cwd.gpc_queue=1", "gpu.cwd.gpc_distance=900"});
  CHECK(contains(queues.out, "bound by the places in the queues of GPCs, waited for in"));
  CHECK(queues.results.stat("gpu0.launch.queues") >= 50);
}

}  // namespace cli_launch_rate_test
