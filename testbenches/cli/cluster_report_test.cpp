// What a run says of its clusters: stats.json, the page, the summary.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "cli/csv.h"
#include "cli/run_outcome.h"

namespace cli_cluster_report_test {

using namespace heddle;
using namespace heddle::test;
using nlohmann::json;

namespace {

// Two GPCs of 3 and 2 SMs, and three kernels: two launches of one, of 2 warps, and another one.
struct Case {
  workload::Workload workload;
  replay::JobResult job;

  Case() {
    for (const char* name : {"whale", "krill", "whale"}) {
      workload::Op op;
      op.kernel.name = name;
      op.kernel.block = {name[0] == 'w' ? 33U : 128U, 1, 1};
      workload.ops.push_back(op);
    }
    job.observation = std::make_unique<GpuObservation>("gpu0");
    job.cycle_ns = 0.5;
    for (std::uint32_t sm = 0; sm < 5; ++sm)
      job.sm_paths.push_back("gpc" + std::to_string(sm % 2) + ".cpc0.tpc0.sm" + std::to_string(sm / 2));
    map().configure({{0, 2, 4}, {1, 3}});
  }

  ClusterMap& map() { return job.observation->clusters; }
  json stats() const { return cli::cluster_stats_of(workload, job); }
  json page() const { return cli::clusters_of(workload, job); }
  std::string line() const { return cli::cluster_line(job); }

  // A CGA of two CTAs; `ends`: of both, 0 for a CTA that does not end.
  void run(std::uint32_t task, std::uint64_t cga, std::uint32_t id, std::uint64_t begin, std::uint64_t skew,
           std::uint64_t end) {
    const ClusterMap::Cluster cluster{task, cga, 0, id, 2, {}, 0, 0};
    map().begin(cluster, 0, 0, begin);
    map().begin(cluster, 1, 4, begin + skew);
    if (end == 0) return;
    map().end(0, id, 1, end - 1);
    map().end(0, id, 0, end);
  }
};

const json& of(const json& rows, const char* key, const json& value) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const json& row) { return row.at(key) == value; });
  REQUIRE(found != rows.end());
  return *found;
}

}  // namespace

TEST_CASE("without CGAs nothing is said of them", "[cli]") {
  const Case none;
  CHECK(none.stats().is_null());
  CHECK(none.page().is_null());
  CHECK(none.line().empty());
}

TEST_CASE("totals are per launch in stats.json and per kernel on the page", "[cli]") {
  Case c;
  c.run(0, 0, 0, 100, 10, 1100);
  c.run(0, 1, 0, 1200, 30, 2600);
  const ClusterMap::Cluster meets{2, 0, 0, 3, 2, {}, 0, 0};
  c.map().begin(meets, 0, 0, 3000);
  c.map().begin(meets, 1, 0, 3000);
  c.map().barrier(0, 3, true, 100);
  c.map().barrier(0, 3, false, 60);
  c.map().barrier(0, 3, true, 0);
  c.map().end(0, 3, 0, 3500);
  c.map().end(0, 3, 1, 3500);
  c.run(1, 0, 9, 5000, 7, 0);

  const json stats = c.stats();
  REQUIRE(stats.at("totals").size() == 3);
  CHECK(stats.at("totals").at(0) == json({{"operation", 0},
                                          {"kernel", "whale"},
                                          {"guessed", false},
                                          {"size", 2},
                                          {"cgas", 2},
                                          {"unfinished", 0},
                                          {"mean_sms", 2.0},
                                          {"mean_skew", 20.0},
                                          {"max_skew", 30},
                                          {"mean_cycles", 1200.0},
                                          {"barrier_phases", 0},
                                          {"barrier_warp_cycles", 0},
                                          {"mean_barrier_wait", nullptr}}));
  const json& met = stats.at("totals").at(1);
  CHECK((met.at("operation") == 2 && met.at("mean_sms") == 1.0 && met.at("mean_skew") == 0.0));
  CHECK((met.at("barrier_phases") == 2 && met.at("barrier_warp_cycles") == 160));
  CHECK(met.at("mean_barrier_wait") == 20.0);  // 2 phases of 4 warps
  const json& cut = stats.at("totals").at(2);
  CHECK((cut.at("kernel") == "krill" && cut.at("cgas") == 0 && cut.at("unfinished") == 1));
  CHECK((cut.at("mean_sms").is_null() && cut.at("mean_skew").is_null() && cut.at("mean_cycles").is_null()));

  const json page = c.page();
  CHECK(page.at("cycle_us") == 0.0005);
  REQUIRE(page.at("totals").size() == 2);
  const json& whale = page.at("totals").at(0);
  CHECK((whale.at("kernel") == "whale" && whale.at("warps") == 2 && whale.at("cgas") == 3));
  CHECK(whale.at("mean_sms").get<double>() == Approx(5.0 / 3));
  CHECK(whale.at("mean_skew").get<double>() == Approx(40.0 / 3));
  CHECK((whale.at("max_skew") == 30 && whale.at("phases") == 2 && whale.at("mean_wait") == 20.0));
  CHECK(whale.at("mean_cycles").get<double>() == Approx(2900.0 / 3));
  CHECK((page.at("totals").at(1).at("kernel") == "krill" && page.at("totals").at(1).at("unfinished") == 1));
  CHECK(c.line() == "4 CGAs, 1 not to its end; their CTAs began within 13.3 cycles of each other on average");
}

TEST_CASE("the first CGAs are told one by one", "[cli]") {
  Case c;
  c.run(0, 7, 3, 100, 10, 1100);
  c.run(1, 0, 4, 100, 25, 0);
  const json first = c.stats().at("first");
  REQUIRE(first.size() == 2);
  CHECK(first.at(0) == json({{"operation", 0},
                             {"cga", 7},
                             {"gpc", 0},
                             {"id", 3},
                             {"size", 2},
                             {"skew", 10},
                             {"barrier_phases", 0},
                             {"barrier_warp_cycles", 0},
                             {"ctas",
                              {{{"rank", 0}, {"sm", 0}, {"begin", 100}, {"end", 1100}},
                               {{"rank", 1}, {"sm", 4}, {"begin", 110}, {"end", 1099}}}}}));
  CHECK(first.at(1).at("ctas").at(1).at("end").is_null());
  const json page = c.page().at("first");
  REQUIRE(page.size() == 2);
  CHECK((page.at(0).at("row") == 0 && page.at(1).at("row") == 1 && page.at(1).at("skew") == 25));
  CHECK(page.at(0).at("ctas") == json({{0, 0, 100, 1100}, {1, 4, 110, 1099}}));
  CHECK(page.at(1).at("ctas") == json({{0, 0, 100, nullptr}, {1, 4, 125, nullptr}}));

  for (std::uint64_t cga = 0; cga < 500; ++cga) c.run(2, cga, 5, 2000 + 100 * cga, 1, 2050 + 100 * cga);
  CHECK(c.stats().at("first").size() == cli::kClustersInStats);
  CHECK(c.page().at("first").size() == ClusterMap::kKept);
  CHECK(of(c.stats().at("totals"), "operation", 2).at("cgas") == 500);
}

TEST_CASE("traffic is told of the GPCs that have some", "[cli]") {
  Case c;
  c.run(0, 0, 0, 100, 0, 1100);
  CHECK(c.stats().at("dsmem").empty());
  for (const json& gpc : c.page().at("gpcs")) CHECK_FALSE(gpc.contains("bytes"));
  CHECK_FALSE(contains(c.line(), "between SMs"));
  c.map().traffic(1, 0, 1, 1000);
  c.map().traffic(1, 1, 0, 536);
  const json bytes = {{0, 1000}, {536, 0}};
  CHECK(c.stats().at("dsmem") == json::array({{{"gpc", 1}, {"sms", {1, 3}}, {"bytes", bytes}}}));
  const json gpcs = c.page().at("gpcs");
  REQUIRE(gpcs.size() == 2);
  CHECK_FALSE(gpcs.at(0).contains("bytes"));
  CHECK(gpcs.at(1) ==
        json({{"sms", {1, 3}}, {"paths", {"gpc1.cpc0.tpc0.sm0", "gpc1.cpc0.tpc0.sm1"}}, {"bytes", bytes}}));
  CHECK(contains(c.line(), "; 1.5 KiB between SMs"));
}

namespace {

// 12 CGAs of 4 CTAs of 2 warps, which meet twice; each CTA writes a word to the next one's shared memory.
constexpr const char* kRing = R"(heddle: 1
gpu: small
kernels:
  - name: ring
    grid: [8, 6]
    block: 64
    shared: 256 B
    cluster: [2, 2, 1]
    program:
      - cluster_arrive
      - cluster_wait
      - store: {space: cluster, rank: (rank + 1) % 4, type: u32, at: 4 * thread, value: thread}
      - cluster_arrive
      - cluster_wait
submit:
  - {kernel: ring, stream: a}
)";

using Pair = std::pair<std::uint64_t, std::uint64_t>;

}  // namespace

TEST_CASE("stats.json, page and summary tell of clusters what ctas.csv says", "[cli][CGA-06][CGA-13][CGA-15]") {
  const TempDir dir;
  dir.write("s.yaml", kRing);
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--dump", "ctas", "--out", "out"});
  INFO(finished.err);
  REQUIRE(finished.status == 0);
  CHECK(contains(finished.out, "12 CGAs; their CTAs began within "));
  CHECK(contains(finished.out, "between SMs"));
  const Results results(dir.file("out"));

  std::map<std::uint64_t, std::map<std::uint64_t, Row>> cgas;  // by number and rank
  for (const Row& row : rows_of(read_file(results.file("ctas.csv"))))
    cgas[number(row, "cga")][number(row, "rank")] = row;
  REQUIRE(cgas.size() == 12);
  const json& clusters = results.document().at("gpus").at(0).at("clusters");
  REQUIRE(clusters.at("first").size() == 12);
  double skew = 0;
  double lived = 0;
  std::map<std::uint64_t, std::set<Pair>> pairs;  // by GPC
  for (const json& cga : clusters.at("first")) {
    CAPTURE(cga);
    const std::map<std::uint64_t, Row>& ranks = cgas.at(cga.at("cga"));
    CHECK((cga.at("size") == 4 && cga.at("operation") == 0 && cga.at("barrier_phases") == 2));
    REQUIRE(cga.at("ctas").size() == 4);
    std::uint64_t first = ~std::uint64_t{0}, last = 0, end = 0;
    for (const json& cta : cga.at("ctas")) {
      const Row& row = ranks.at(cta.at("rank"));
      CHECK(cga.at("gpc") == number(row, "gpc"));
      CHECK(cta.at("sm") == number(row, "sm"));
      CHECK(cta.at("end") == number(row, "end"));
      CHECK(cta.at("begin") > number(row, "launch"));
      CHECK(cta.at("begin") <= number(row, "first_instruction"));
      first = std::min(first, cta.at("begin").get<std::uint64_t>());
      last = std::max(last, cta.at("begin").get<std::uint64_t>());
      end = std::max(end, cta.at("end").get<std::uint64_t>());
      const std::uint64_t next = number(ranks.at((cta.at("rank").get<std::uint64_t>() + 1) % 4), "sm");
      pairs[cga.at("gpc")].insert({number(row, "sm"), next});
    }
    CHECK(cga.at("skew") == last - first);
    skew += static_cast<double>(last - first);
    lived += static_cast<double>(end - first);
  }

  REQUIRE(clusters.at("totals").size() == 1);
  const json& total = clusters.at("totals").at(0);
  CHECK((total.at("kernel") == "ring" && total.at("cgas") == 12 && total.at("unfinished") == 0));
  CHECK(total.at("mean_sms") == 4.0);
  CHECK(total.at("mean_skew").get<double>() == Approx(skew / 12));
  CHECK(total.at("mean_cycles").get<double>() == Approx(lived / 12));
  CHECK(total.at("barrier_phases") == 24);
  CHECK(total.at("mean_barrier_wait").get<double>() ==
        Approx(total.at("barrier_warp_cycles").get<double>() / (24 * 4 * 2)));
  CHECK(total.at("mean_barrier_wait") > 0);

  // Requests go to the next rank, replies come back, and nothing else is on the network.
  REQUIRE(clusters.at("dsmem").size() == pairs.size());
  for (const json& gpc : clusters.at("dsmem")) {
    std::set<Pair> seen;
    for (std::size_t from = 0; from < gpc.at("sms").size(); ++from) {
      for (std::size_t to = 0; to < gpc.at("sms").size(); ++to) {
        if (gpc.at("bytes").at(from).at(to) == 0) continue;
        seen.emplace(gpc.at("sms").at(from).get<std::uint64_t>(), gpc.at("sms").at(to).get<std::uint64_t>());
      }
    }
    std::set<Pair> expected;
    for (const auto& [from, to] : pairs.at(gpc.at("gpc"))) {
      expected.insert({from, to});
      expected.insert({to, from});
    }
    CHECK((seen == expected));
  }

  const json& page = results.page().at("gpus").at(0).at("clusters");
  CHECK(page.at("first").size() == 12);
  CHECK(page.at("totals").at(0).at("mean_wait") == total.at("mean_barrier_wait"));
  CHECK(page.at("totals").at(0).at("mean_skew") == total.at("mean_skew"));
}

TEST_CASE("warps that wait for their cluster have a line of their own on the page", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kRing);
  const Results results = run_well(dir, {"s.yaml"});
  double share = 0;
  for (const json& row : results.page().at("gpus").at(0).at("memory").at("warp_time")) {
    share += row.at("share_percent").get<double>();
    CHECK(row.at("label") != "waiting for an mbarrier");
    if (row.at("label") != "waiting at the barrier of the cluster") continue;
    const json& total = results.document().at("gpus").at(0).at("clusters").at("totals").at(0);
    CHECK(row.at("cycles").get<double>() == Approx(total.at("barrier_warp_cycles").get<double>()));
  }
  CHECK(share == Approx(100).margin(0.5));
}

TEST_CASE("an error of a CGA stands among the faults of the page without warp and step", "[cli][CGA-08]") {
  const TempDir dir;
  std::string text = kRing;
  const std::string at = "at: 4 * thread";
  text.replace(text.find(at), at.size(), "at: 65536 + 4 * thread");
  dir.write("s.yaml", text + "expect: [{fault: out_of_range, kernel: ring}]\n");
  const Results results = run_well(dir, {"s.yaml", "--set", "gpu.sm.memory.pc_fifo=0"});
  const json& faults = results.page().at("gpus").at(0).at("faults");
  REQUIRE(faults.size() >= 1);
  const json& fault = faults.at(0);
  CHECK(fault.at("cta").is_number());
  CHECK((fault.at("warp").is_null() && fault.at("lane").is_null()));
  CHECK(contains(fault.at("step").get<std::string>(), "access of CTA "));
  CHECK(contains(fault.at("address").get<std::string>(), "10000"));
  // What was cut short is not counted as an end.
  const json& clusters = results.document().at("gpus").at(0).at("clusters");
  const json& total = clusters.at("totals").at(0);
  CHECK(total.at("cgas").get<std::size_t>() + total.at("unfinished").get<std::size_t>() == clusters.at("first").size());
  const auto ended = [](const json& cta) { return !cta.at("end").is_null(); };
  const auto whole = [&](const json& cga) {
    return cga.at("ctas").size() == 4 && std::all_of(cga.at("ctas").begin(), cga.at("ctas").end(), ended);
  };
  CHECK(total.at("cgas") == std::count_if(clusters.at("first").begin(), clusters.at("first").end(), whole));
}

TEST_CASE("kernels with a duration instead of a program have CGAs, too; without clusters there are none", "[cli]") {
  const TempDir dir;
  const auto scenario_of = [](const std::string& cluster) {
    return "heddle: 1\ngpu: small\nkernels:\n  - {name: whale, cycles: 1000, grid: 16, block: 64" + cluster +
           "}\nsubmit:\n  - {kernel: whale, stream: a}\n";
  };
  dir.write("s.yaml", scenario_of(", cluster: 2"));
  const Results with = run_well(dir, {"s.yaml"}, "with");
  const json& clusters = with.document().at("gpus").at(0).at("clusters");
  CHECK(clusters.at("totals").at(0).at("cgas") == 8);
  CHECK(clusters.at("dsmem").empty());
  dir.write("s.yaml", scenario_of(""));
  const Finished plain = heddle_in(dir, {"run", "s.yaml", "--out", "without"});
  CHECK(plain.status == 0);
  CHECK_FALSE(contains(plain.out, "CGA"));
  const Results without(dir.file("without"));
  CHECK_FALSE(without.document().at("gpus").at(0).contains("clusters"));
  CHECK_FALSE(without.page().at("gpus").at(0).contains("clusters"));
}

}  // namespace cli_cluster_report_test
