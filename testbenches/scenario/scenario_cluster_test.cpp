// Scenario keys of the distributor: clusters, what SMs hold, TPCs that are switched.
#include <string>

#include <catch2/catch.hpp>

#include "scenario/scenario.h"

namespace scenario_cluster_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::scenario;
using arch::CgaLevel;
using arch::CgaMode;
using arch::Dim3;
using Catch::Contains;

namespace {

std::string text(const std::string& kernel_keys, const std::string& rest = {}) {
  return "heddle: 1\ngpus: [small, small]\nkernels:\n  - {name: gemm, grid: [8, 4], block: 32, cycles: 10" +
         kernel_keys + "}\n  - {name: filler, grid: 1, block: 64, shared: 8 KiB, cycles: 1}\nsubmit:\n" +
         "  - {kernel: gemm, stream: a}\n  - {kernel: filler, stream: a}\n" + rest;
}

arch::KernelRecord kernel(const std::string& keys) {
  return parse_scenario(text(keys), "s.yaml").workloads.at(0).ops.at(0).kernel;
}

arch::ClusterShape cluster(const std::string& value) { return kernel(", cluster: " + value).cluster; }

std::string error(const std::string& scenario) {
  try {
    parse_scenario(scenario, "s.yaml");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

std::string cluster_error(const std::string& value) { return error(text(", cluster: " + value)); }

}  // namespace

TEST_CASE("a kernel without the keys has no cluster, local memory or subcontext", "[workload][scenario][CWD-10]") {
  const arch::KernelRecord plain = kernel("");
  CHECK_FALSE(plain.cluster.any());
  CHECK(plain.local_bytes == 0);
  CHECK(plain.subcontext == 0);
  const arch::KernelRecord full = kernel(", local: 1.5 KiB, subcontext: 63");
  CHECK(full.local_bytes == 1536);
  CHECK(full.subcontext == 63);
}

TEST_CASE("the short form of a cluster is a GPC_CGA in load-balancing mode", "[workload][scenario][CWD-10][CWD-16]") {
  CHECK(cluster("2").of(CgaLevel::gpc) == Dim3{2, 1, 1});
  CHECK(cluster("[4]").of(CgaLevel::gpc) == Dim3{4, 1, 1});
  CHECK(cluster("[2, 4]").of(CgaLevel::gpc) == Dim3{2, 4, 1});
  const arch::ClusterShape shape = cluster("[8, 2, 1]");
  CHECK(shape.of(CgaLevel::gpc) == Dim3{8, 2, 1});
  CHECK(shape.mode == CgaMode::load_balancing);
  CHECK_FALSE(shape.has(CgaLevel::cpc));
  CHECK_FALSE(shape.has(CgaLevel::ugpu));
  CHECK_FALSE(shape.has(CgaLevel::gpu));
  CHECK(shape.sizes() == 1);
  CHECK_FALSE(shape.linear_memory);
}

TEST_CASE("kernels with multicast loads are in multicast mode, and cannot be in the other",
          "[workload][scenario][CWD-16]") {
  const auto of = [](const std::string& cluster, const std::string& load) {
    return "heddle: 1\ngpu: small\nmemory:\n  - {name: data, bytes: 4 KiB}\nkernels:\n  - name: k\n    grid: 4\n" +
           std::string("    block: 32\n    shared: 8 KiB\n    cluster: ") + cluster + "\n    program:\n" +
           "      - mbarrier_init: {at: 4096, count: 1}\n      - bulk_load: {from: data, to: 0, bytes: 128, " +
           "barrier: 4096" + load + "}\nsubmit:\n  - {kernel: k, stream: a}\n";
  };
  const auto mode = [&](const std::string& cluster, const std::string& load) {
    return parse_scenario(of(cluster, load), "s.yaml").workloads.at(0).ops.at(0).kernel.cluster.mode;
  };
  CHECK(mode("2", "") == CgaMode::load_balancing);
  CHECK(mode("2", ", multicast: 3") == CgaMode::multicast);
  CHECK(mode("2", ", multicast: 3 << rank") == CgaMode::multicast);
  CHECK(mode("{gpc: 2}", ", multicast: 3") == CgaMode::multicast);
  CHECK(mode("{gpc: 2, mode: multicast}", ", multicast: 3") == CgaMode::multicast);
  CHECK(mode("{gpc: 2, mode: multicast}", "") == CgaMode::multicast);
  CHECK(mode("{gpc: 2, mode: load_balancing}", "") == CgaMode::load_balancing);
  const std::string refused = error(of("{gpc: 2, mode: load_balancing}", ", multicast: 3"));
  CHECK_THAT(refused, Catch::StartsWith("s.yaml:10:") && Contains("kernel k: its program has multicast loads") &&
                          Contains("mode: multicast"));
}

TEST_CASE("a kernel names the order in which its CTAs start", "[workload][scenario][CWD-40]") {
  using Kind = arch::RasterOrder::Kind;
  CHECK(kernel("").raster.kind == Kind::rows);
  CHECK(kernel(", raster: rows").raster.kind == Kind::rows);
  CHECK(kernel(", raster: hilbert").raster.kind == Kind::hilbert);
  CHECK((kernel(", raster: {tiles: [4, 255]}").raster == arch::RasterOrder{Kind::tiles, 4, 255}));
  CHECK((kernel(", raster: {tiles: 8}").raster == arch::RasterOrder{Kind::tiles, 8, 1}));
  CHECK_THAT(error(text(", raster: hilbrt")),
             Catch::StartsWith("s.yaml:4:") && Contains("there is no order hilbrt") && Contains("hilbert?"));
  CHECK_THAT(error(text(", raster: {tiles: [4, 256]}")), Contains("kernel gemm, raster, tiles: 256"));
  CHECK_THAT(error(text(", raster: {tiles: [0, 4]}")), Contains("kernel gemm, raster, tiles: 0"));
  CHECK_THAT(error(text(", raster: {tiles: [2, 2, 2]}")), Contains("one or two numbers are expected, found 3"));
  CHECK_THAT(error(text(", raster: {tile: [2, 2]}")), Contains("raster: unknown key \"tile\""));
}

TEST_CASE("a map describes every level of a cluster", "[workload][scenario][CWD-10][CWD-21][CWD-22]") {
  const arch::ClusterShape shape =
      cluster("{gpu: [8, 4], ugpu: [8, 2, 1], gpc: [4, 2], cpc: 2, mode: load_balancing, linear_memory: true}");
  CHECK(shape.of(CgaLevel::gpu) == Dim3{8, 4, 1});
  CHECK(shape.of(CgaLevel::ugpu) == Dim3{8, 2, 1});
  CHECK(shape.of(CgaLevel::gpc) == Dim3{4, 2, 1});
  CHECK(shape.of(CgaLevel::cpc) == Dim3{2, 1, 1});
  CHECK(shape.mode == CgaMode::load_balancing);
  CHECK(shape.linear_memory);
  CHECK(cluster("{gpc: 2, mode: multicast, linear_memory: false}").mode == CgaMode::multicast);

  const arch::ClusterShape shrinking = cluster("{gpc: [8, 2, 1], fallback: [[4, 2, 1], [4, 1], 2, [1]]}");
  REQUIRE(shrinking.sizes() == 5);
  CHECK(shrinking.size(1) == Dim3{4, 2, 1});
  CHECK(shrinking.size(2) == Dim3{4, 1, 1});
  CHECK(shrinking.size(3) == Dim3{2, 1, 1});
  CHECK(shrinking.size(4) == Dim3{1, 1, 1});
}

TEST_CASE("a cluster that cannot be is refused with file, line and reason", "[workload][scenario][CWD-10]") {
  CHECK_THAT(cluster_error("3"), Catch::StartsWith("s.yaml:4:") &&
                                     Contains("kernel gemm, cluster: the GPC_CGA's x of 3 does not divide the grid's "
                                              "x of 8"));
  CHECK_THAT(cluster_error("[2, 3]"), Contains("the GPC_CGA's y of 3 does not divide the grid's y of 4"));
  CHECK_THAT(cluster_error("{gpu: 4, gpc: [4, 2]}"), Contains("kernel gemm, cluster: the GPC_CGA's y of 2 does not "));
  CHECK_THAT(cluster_error("{cpc: 2}"), Contains("a CPC_CGA without a GPC_CGA"));
  CHECK_THAT(cluster_error("{gpu: 4, ugpu: 2}"), Contains("GPU_CGA of uGPU_CGAs of CTAs"));
  CHECK_THAT(cluster_error("0"), Contains("kernel gemm, cluster: 0"));
  CHECK_THAT(cluster_error("[2, 0]"), Contains("kernel gemm, cluster: 0"));
  CHECK_THAT(cluster_error("-2"), Contains("kernel gemm, cluster: -2"));
  CHECK_THAT(cluster_error("[]"), Contains("one to three numbers are expected, found 0"));
  CHECK_THAT(cluster_error("[1, 1, 1, 1]"), Contains("one to three numbers are expected, found 4"));
  CHECK_THAT(cluster_error("[[2]]"), Contains("kernel gemm, cluster: a single value is expected"));
  CHECK_THAT(cluster_error("two"), Contains("kernel gemm, cluster: ") && Contains("two"));
  CHECK_THAT(cluster_error("{}"), Contains("none of the levels gpu, ugpu, gpc, cpc is given"));
  CHECK_THAT(cluster_error("{mode: multicast}"), Contains("none of the levels"));
  CHECK_THAT(cluster_error("{gpc: 0}"), Contains("kernel gemm, cluster, gpc: 0"));
  CHECK_THAT(cluster_error("{sm: 2}"), Contains("kernel gemm, cluster: unknown key \"sm\""));
  CHECK_THAT(cluster_error("{gpc: 2, mode: multicost}"),
             Contains("there is no mode multicost") && Contains("multicast"));
  CHECK_THAT(cluster_error("{gpc: 2, linear_memory: perhaps}"),
             Contains("cluster, linear_memory: true or false is expected"));
  CHECK_THAT(cluster_error("{gpc: 4, fallback: [3]}"), Contains("fallback 1 of the GPC_CGA's x of 3"));
  CHECK_THAT(cluster_error("{gpc: 4, fallback: [4]}"), Contains("is not smaller"));
  CHECK_THAT(cluster_error("{gpc: 8, fallback: [4, 2, 1, 1, 1]}"), Contains("5 sizes, of at most 4"));
  CHECK_THAT(cluster_error("{gpc: 4, fallback: 2}"), Contains("a list is expected"));
  CHECK_THAT(cluster_error("{gpc: 4, fallback: [[]]}"), Contains("fallback: one to three numbers"));
  CHECK_THAT(error(text(", subcontext: 64")), Contains("kernel gemm, subcontext: 64"));
  CHECK_THAT(error(text(", local: -1")), Contains("kernel gemm, local: -1"));
  CHECK_THAT(error(text(", local: 5 us")), Contains("kernel gemm, local: "));
}

TEST_CASE("the machine's largest cluster is not the scenario's affair", "[workload][scenario][CWD-10]") {
  const std::string wide =
      "heddle: 1\nkernels: [{name: k, grid: 2147483647, block: 1, cycles: 1, cluster: 2147483647}]"
      "\nsubmit: [{kernel: k, stream: a}]\n";
  CHECK(parse_scenario(wide, "s.yaml").workloads[0].ops[0].kernel.cluster.of(CgaLevel::gpc).x == 2'147'483'647);
}

TEST_CASE("a scenario loads SMs before it begins", "[workload][scenario][CWD-03]") {
  const Scenario s = parse_scenario(text("", R"(load:
  - {sms: [5, 0, 2], kernel: filler, ctas: 3}
  - {gpcs: 1, kernel: filler, ctas: 1, until: 10 us}
  - {kernel: gemm, ctas: 2, gpu: 1}
)"),
                                    "s.yaml");
  const std::vector<SmLoad>& loads = s.workloads[0].loads;
  REQUIRE(loads.size() == 2);
  CHECK(loads[0].sms == std::vector<std::uint32_t>{5, 0, 2});
  CHECK(loads[0].gpcs.empty());
  CHECK_FALSE(loads[0].all);
  CHECK(loads[0].ctas == 3);
  CHECK(loads[0].until == 0);
  CHECK(loads[0].kernel.shared_bytes == 8 * 1024);
  CHECK(loads[0].kernel.block == Dim3{64, 1, 1});
  CHECK(loads[0].where.line == 10);
  CHECK(loads[0].where.file == "s.yaml");
  CHECK(loads[1].gpcs == std::vector<std::uint32_t>{1});
  CHECK(loads[1].until == 10'000);
  CHECK_FALSE(loads[1].all);
  REQUIRE(s.workloads[1].loads.size() == 1);
  CHECK(s.workloads[1].loads[0].all);
  CHECK(s.workloads[1].loads[0].kernel.grid == Dim3{8, 4, 1});
}

TEST_CASE("a kernel that only a load uses is used", "[workload][scenario]") {
  const std::string head =
      "heddle: 1\nkernels:\n  - {name: k, grid: 1, block: 1, cycles: 1}\n"
      "  - {name: held, grid: 1, block: 1, cycles: 1}\nsubmit: [{kernel: k, stream: a}]\n";
  CHECK(parse_scenario(head + "load: [{kernel: held, ctas: 1}]\n", "s.yaml").workloads[0].warnings.empty());
  CHECK(parse_scenario(head, "s.yaml").workloads[0].warnings.size() == 1);
}

TEST_CASE("a load that cannot be is refused with file, line and reason", "[workload][scenario][CWD-03]") {
  const auto load = [](const std::string& entry) { return error(text("", "load:\n  - " + entry + "\n")); };
  CHECK(load("{kernel: filler, ctas: 1}") == "accepted");
  CHECK_THAT(load("{kernel: fillet, ctas: 1}"), Catch::StartsWith("s.yaml:10:") &&
                                                    Contains("load of fillet: there is no kernel fillet") &&
                                                    Contains("filler"));
  CHECK_THAT(load("{kernel: filler}"), Contains("load of filler: the key \"ctas\" is missing"));
  CHECK_THAT(load("{ctas: 1}"), Contains("load of: the key \"kernel\" is missing") || Contains("the key \"kernel\""));
  CHECK_THAT(load("{kernel: filler, ctas: 0}"), Contains("load of filler, ctas: 0"));
  CHECK_THAT(load("{kernel: filler, ctas: 1, sms: [1], gpcs: [0]}"), Contains("use one of the two"));
  CHECK_THAT(load("{kernel: filler, ctas: 1, sms: []}"), Contains("the list is empty"));
  CHECK_THAT(load("{kernel: filler, ctas: 1, sms: [1, 2, 1]}"), Contains("1 stands twice"));
  CHECK_THAT(load("{kernel: filler, ctas: 1, sms: [-1]}"), Contains("load of filler, sms: -1"));
  CHECK_THAT(load("{kernel: filler, ctas: 1, gpcs: all}"), Contains("load of filler, gpcs: "));
  CHECK_THAT(load("{kernel: filler, ctas: 1, until: 10}"), Contains("load of filler, until: "));
  CHECK_THAT(load("{kernel: filler, ctas: 1, until: 0}"), Contains("load of filler, until: 0"));
  CHECK_THAT(load("{kernel: filler, ctas: 1, gpu: 2}"), Contains("load of filler, gpu: 2"));
  CHECK_THAT(load("7"), Contains("a map is expected"));
}

TEST_CASE("a scenario switches TPCs", "[workload][scenario]") {
  const Scenario s = parse_scenario(text("", R"(tpcs:
  - {gpc: 0, tpc: 1, enabled: false}
  - {gpc: 0, tpc: 1, enabled: true, at: 5 us}
  - {gpc: 1, tpc: 0, enabled: no, gpu: 1}
)"),
                                    "s.yaml");
  const std::vector<TpcSwitch>& switches = s.workloads[0].tpc_switches;
  REQUIRE(switches.size() == 2);
  CHECK(switches[0].gpc == 0);
  CHECK(switches[0].tpc == 1);
  CHECK_FALSE(switches[0].enabled);
  CHECK(switches[0].when == 0);
  CHECK(switches[0].where.line == 10);
  CHECK(switches[1].enabled);
  CHECK(switches[1].when == 5'000);
  REQUIRE(s.workloads[1].tpc_switches.size() == 1);
  CHECK(s.workloads[1].tpc_switches[0].gpc == 1);

  const auto change = [](const std::string& entry) { return error(text("", "tpcs:\n  - " + entry + "\n")); };
  CHECK(change("{gpc: 0, tpc: 1, enabled: true}") == "accepted");
  CHECK_THAT(change("{gpc: 0, tpc: 1}"), Contains("TPC 1: the key \"enabled\" is missing"));
  CHECK_THAT(change("{tpc: 1, enabled: true}"), Contains("the key \"gpc\" is missing"));
  CHECK_THAT(change("{gpc: 0, enabled: true}"), Contains("the key \"tpc\" is missing"));
  CHECK_THAT(change("{gpc: 0, tpc: 1, enabled: 1}"), Contains("TPC 1, enabled: true or false is expected"));
  CHECK_THAT(change("{gpc: -1, tpc: 1, enabled: true}"), Contains("TPC 1, gpc: -1"));
  CHECK_THAT(change("{gpc: 0, tpc: 1, enabled: true, at: soon}"), Contains("TPC 1, at: "));
  CHECK_THAT(change("{gpc: 0, tpc: 1, enabled: true, gpu: 9}"), Contains("TPC 1, gpu: 9"));
  CHECK_THAT(change("{gpc: 0, tpc: 1, enabled: true}\n  - {gpc: 0, tpc: 1, enabled: false}"),
             Catch::StartsWith("s.yaml:11:") && Contains("switched twice at the same time"));
}

}  // namespace scenario_cluster_test
