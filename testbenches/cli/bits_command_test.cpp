// heddle show bits, heddle run --bits (CWD-44); uGPUs that do not match (CWD-46); a program that asks the distributor
// (CWD-24).
#include <filesystem>
#include <string>
#include <vector>

#include "cli/program.h"

namespace cli_bits_command_test {

using namespace heddle::test;

namespace {

const nlohmann::json& find(const nlohmann::json& list, const std::string& block, const std::string& name) {
  for (const nlohmann::json& row : list) {
    if (row.at("block") == block && row.at("name") == name) return row;
  }
  FAIL("no structure " << block << " " << name);
  return list;
}

}  // namespace

TEST_CASE("the structures of a machine are shown in bits, as text and as JSON", "[cli][CWD-44]") {
  const TempDir dir;
  const Finished json =
      heddle_in(dir, {"show", "bits", "--json", "--set", "gpu.gpc.delta_bits=9", "--set", "gpu.sm.limits.cga_slots=4"});
  INFO(json.err);
  REQUIRE(json.status == 0);
  const nlohmann::json list = nlohmann::json::parse(json.out);
  const nlohmann::json& registers = find(list, "gpc2sm", "free-slot registers");
  CHECK(registers.at("entries") == 132);
  CHECK(registers.at("entry_bits") == 6);
  CHECK(registers.at("bits") == 792);
  CHECK(registers.count("reads") == 0);  // nothing has run
  CHECK(find(list, "raster", "delta counters").at("entry_bits") == 9);
  CHECK(find(list, "sm", "cga_cta2sm_dir").at("entries") == 132 * 4);
  const Finished text = heddle_in(dir, {"show", "bits", "--gpu", "small"});
  REQUIRE(text.status == 0);
  CHECK(contains(text.out, "cga_cta2sm_dir"));
  CHECK(contains(text.out, "bits in tables, registers and queues"));
  CHECK_FALSE(contains(text.out, "writes or sent"));
  CHECK(heddle_in(dir, {"show", "tree", "--json"}).status == 2);
}

TEST_CASE("a run tells how often structures were accessed, and how many bits packets moved", "[cli][CWD-44]") {
  const TempDir dir;
  dir.write("s.yaml",
            "heddle: 1\ngpu: small\nkernels:\n"
            "  - {name: a, grid: 24, block: 1024, registers: 64, cycles: 10, cluster: {gpc: 2, mode: load_balancing}}\n"
            "submit: [{kernel: a, stream: s}]\n");
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--bits", "--out", "r"});
  INFO(finished.err);
  REQUIRE(finished.status == 0);
  CHECK(contains(finished.out, "writes or sent"));
  const nlohmann::json list = read_json(dir.file("r/bits.json")).at("gpu0");
  const nlohmann::json stats = read_json(dir.file("r/stats.json")).at("stats");
  const auto stat = [&stats](const char* path) { return stats.at(path).at("value").get<double>(); };
  const nlohmann::json& trackers = find(list, "cwd", "resource trackers (TRT)");
  CHECK(trackers.at("writes") == 48);  // 24 CTAs, each launched and completed
  CHECK(trackers.at("reads") == stat("gpu0.cwd.sessions") * trackers.at("entries").get<double>());
  CHECK(find(list, "mpc > sm", "CTA start").at("sent") == 24);
  CHECK(find(list, "mpc > gpm", "cta_complete").at("sent") == 24);
  CHECK(find(list, "gpm > cwd", "cga_complete").at("sent") == 12);
  CHECK(find(list, "gpm", "free CGA ids").at("writes") == 24);  // 12 CGAs, each with an id that comes back
  CHECK(find(list, "gpu2gpc > cwd", "session ends").at("sent") == stat("gpu0.cwd.gpu2gpc.sessions"));
  CHECK(find(list, "gpm > cwd", "barrier report").at("sent") == 0);
  CHECK(find(list, "gpc2sm > gpu2gpc", "answer").at("sent") == find(list, "gpu2gpc", "answers").at("writes"));
  // Without the option there is no such file.
  REQUIRE(heddle_in(dir, {"run", "s.yaml", "--out", "q", "--quiet"}).status == 0);
  CHECK_FALSE(std::filesystem::exists(dir.file("q/bits.json")));
}

TEST_CASE("uGPUs that do not match the L2 partitions are refused where they are written", "[cli][CWD-46]") {
  const TempDir dir;
  const std::string rest = "kernels:\n  - {name: a, grid: 4, block: 32, cycles: 1}\nsubmit: [{kernel: a, stream: s}]\n";
  dir.write("s.yaml", "heddle: 1\ngpu: h100-sxm\nconfig:\n  gpu:\n    ugpus: [2, 2, 4]\n" + rest);
  const Finished wrong = heddle_in(dir, {"run", "s.yaml"});
  CHECK(wrong.status == 2);
  CHECK(contains(wrong.err, "s.yaml:5: gpu.ugpus has 3 uGPUs, but gpu.l2.partitions is 2"));
  CHECK(contains(wrong.err, "name as many uGPUs as there are partitions"));
  const Finished set = heddle_in(dir, {"show", "tree", "--set", "gpu.l2.partitions=1", "--set", "gpu.ugpus=[4, 4]"});
  CHECK(set.status == 2);
  CHECK(contains(set.err, "--set: gpu.ugpus has 2 uGPUs, but gpu.l2.partitions is 1"));
  const Finished fits = heddle_in(dir, {"show", "tree", "--set", "gpu.ugpus=[1, 7]"});
  CHECK(fits.status == 0);
  CHECK(contains(fits.out, "gpc1 (18 SMs, virtual GPC 1, uGPU 1 with its L2 partition)"));
}

TEST_CASE("a kernel asks how many of its clusters fit, and waits for the way to the distributor", "[cli][CWD-24]") {
  const TempDir dir;
  // Two GPCs, of 6 and 4 SMs, and one CTA on an SM. By hand: 5 clusters of 2, 2 of 4, 1 of 6, none of 7, 1 GPU_CGA of
  // 10; 17 CTAs are no GPC_CGA.
  dir.write("s.yaml", R"(heddle: 1
gpu: small
memory:
  - {name: found, bytes: 256}
kernels:
  - name: a
    grid: 1
    block: 32
    registers: 64
    shared: 200 KiB
    program:
      - query_occupancy: {gpc: 2, to: two}
      - store: {value: two, at: found}
      - query_occupancy: {gpc: 4, mode: multicast, to: four}
      - store: {value: four, at: found + 4}
      - loop:
          var: size
          from: 6
          to: 8
          do:
            - query_occupancy: {gpc: size, to: some}
            - store: {value: some, at: found + 4 * size - 16}
      - query_occupancy: {gpu: 10, gpc: 2, to: wide}
      - store: {value: wide, at: found + 16}
      - query_occupancy: {gpc: 17, to: none}
      - store: {value: none, at: found + 20}
submit:
  - {kernel: a, stream: s}
expect:
  - {memory: found, pattern: "i == 0 ? 5 : i == 1 ? 2 : i == 2 ? 1 : i == 4 ? 1 : 0", type: u32}
)");
  std::vector<double> stalls;
  for (const char* distance : {"10", "110"}) {
    const Finished finished =
        heddle_in(dir, {"run", "s.yaml", "--out", distance, "--set", std::string("gpu.gpc.gpm_to_cwd=") + distance,
                        "--set", std::string("gpu.cwd.gpc_distance=") + distance});
    INFO(finished.err << finished.out);
    REQUIRE(finished.status == 0);
    const nlohmann::json stats = read_json(dir.file(std::string(distance) + "/stats.json")).at("stats");
    CHECK(stats.at("gpu0.cwd.occupancy_queries").at("value") == 6);
    stalls.push_back(stats.at("gpu0.gpc0.cpc0.tpc0.sm0.stall.occupancy").at("value").get<double>());
  }
  CHECK(stalls[1] - stalls[0] == 6 * 2 * 100);  // there and back, 100 cycles further
}

TEST_CASE("lanes of a warp ask for one shape of clusters", "[cli][CWD-24]") {
  const TempDir dir;
  const std::string head = "heddle: 1\ngpu: small\nkernels:\n  - {name: a, grid: 1, block: 32, program: [";
  const std::string tail = "]}\nsubmit: [{kernel: a, stream: s}]\n";
  dir.write("lanes.yaml", head + "{query_occupancy: {gpc: 1 + lane, to: n}}" + tail);
  const Finished lanes = heddle_in(dir, {"run", "lanes.yaml", "--out", "r"});
  CHECK(lanes.status == 1);
  CHECK(contains(lanes.out, "query_occupancy"));
  dir.write("none.yaml", head + "{query_occupancy: {to: n}}" + tail);
  const Finished none = heddle_in(dir, {"run", "none.yaml"});
  CHECK(none.status == 2);
  CHECK(contains(none.err, "none of the levels gpu, ugpu, gpc, cpc is given"));
}

}  // namespace cli_bits_command_test
