// Each reason why SMs are idle (CWD-47) on a machine that is idle for it, and how long. The machine `small` has two
// GPCs of three and two TPCs, so 10 SMs; expected times follow from the scenarios alone, with a margin for ways and
// decisions.
#include <map>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace heddle::test::cli_idle_reasons_test {
namespace {

constexpr double kSms = 10;

struct IdleRun {
  std::map<std::string, double> sm_cycles;  // by reason
  double all = 0;
  double clock = 0;  // GHz

  double us(const char* reason) const {
    const auto found = sm_cycles.find(reason);
    return found == sm_cycles.end() ? 0 : found->second / clock / 1e3;  // of one SM
  }
};

IdleRun run_idle(const std::string& file, const std::vector<std::string>& more = {}) {
  const TempDir folder;
  std::vector<std::string> arguments = {"run", file, "--out", "out"};
  if (file.find('\n') != std::string::npos) {
    folder.write("s.yaml", "heddle: 1\ngpu: small\n" + file);
    arguments[1] = "s.yaml";
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Finished finished = heddle_in(folder, arguments);
  CAPTURE(finished.out, finished.err);
  REQUIRE((finished.status == 0 || finished.status == 5));
  const Results results(folder.file("out"));
  IdleRun run;
  run.clock = results.page().at("gpus").at(0).at("clock_ghz").get<double>();
  run.all = results.stat("gpu0.sm_cycles");
  double idle = 0;
  for (const auto& [path, statistic] : results.document().at("stats").items()) {
    if (path.rfind("gpu0.idle.", 0) == 0) run.sm_cycles[path.substr(10)] = statistic.at("value").get<double>();
    if (path.rfind("gpu0.idle.", 0) == 0) idle += statistic.at("value").get<double>();
  }
  double busy = 0;
  for (const auto& [path, statistic] : results.document().at("stats").items()) {
    const bool of_sm =
        path.rfind("gpu0.gpc", 0) == 0 && path.size() > 12 && path.substr(path.size() - 12) == ".busy_cycles";
    if (of_sm && path.find(".sm") != std::string::npos) busy += statistic.at("value").get<double>();
  }
  CHECK(idle + busy == run.all);
  return run;
}

}  // namespace

TEST_CASE("idle: a TPC that is switched off is off for the whole run", "[cli][CWD-47]") {
  const IdleRun run = run_idle(R"(
tpcs:
  - {gpc: 0, tpc: 1, enabled: false}
kernels:
  - {name: k, grid: 8, block: 1024, cycles: 20000}
submit:
  - {kernel: k, stream: a}
)");
  CHECK(run.sm_cycles.at("off") == Approx(2 * run.all / kSms).epsilon(0.01));
}

TEST_CASE("idle: launch packets are on their way, wait for the port, and are decided on", "[cli][CWD-47]") {
  const IdleRun run = run_idle(R"(
kernels:
  - {name: k, grid: 10, block: 1024, cycles: 1000}
submit:
  - {kernel: k, stream: a}
)");
  CHECK(run.us("way") > 0);
  CHECK(run.us("port") > 0);
  CHECK(run.us("deciding") > 0);
  CHECK(run.us("launch") > 0);
  CHECK(run.us("unsubmitted") > 0);  // the link of the host
}

TEST_CASE("idle: while packets that wait for a slow port fill the buffers no session decides, and that is the port",
          "[cli][CWD-47]") {
  const std::string file = R"(
kernels:
  - {name: k, grid: 5, block: 1024, cycles: 20000}
submit:
  - {kernel: k, stream: a}
  - {kernel: k, stream: b}
)";
  // A bit per cycle: each packet takes some hundred cycles, and the second kernel waits for that of the first.
  const IdleRun slow = run_idle(file, {"--set", "gpu.cwd.port_bits=1", "--set", "gpu.cwd.mask_buffers=1"});
  const IdleRun quick = run_idle(file, {"--set", "gpu.cwd.mask_buffers=1"});
  CHECK(slow.us("port") > 5 * slow.us("deciding"));
  CHECK(slow.us("deciding") < quick.us("deciding") + 0.1);
}

TEST_CASE("idle: an end that has not been heard of", "[cli][CWD-47]") {
  const IdleRun run = run_idle(R"(
kernels:
  - {name: k, grid: 200, block: 1024, cycles: 500}
submit:
  - {kernel: k, stream: a}
)");
  CHECK(run.us("completion") > 0);
}

TEST_CASE("idle: no GPC has room for a whole cluster", "[cli][CWD-47]") {
  // All SMs of GPC 1 are full, and three of the six of GPC 0: a cluster of four CTAs, of which an SM holds one, finds
  // room nowhere until then.
  const IdleRun run = run_idle(R"(
kernels:
  - {name: held, grid: 1, block: 1024, cycles: 1}
  - {name: four, grid: 4, block: 1024, cluster: 4, shared: 200 KiB, cycles: 1000}
load:
  - {gpcs: 1, kernel: held, ctas: 2, until: 20 us}
  - {sms: [0, 1, 4], kernel: held, ctas: 2, until: 20 us}
submit:
  - {kernel: four, stream: a}
)");
  CHECK(run.us("cluster") == Approx(kSms * 20).epsilon(0.1));
}

TEST_CASE("idle: something else holds the SMs", "[cli][CWD-47]") {
  const IdleRun run = run_idle(R"(
kernels:
  - {name: held, grid: 1, block: 1024, cycles: 1}
  - {name: k, grid: 10, block: 1024, cycles: 1000}
load:
  - {kernel: held, ctas: 2, until: 20 us}
submit:
  - {kernel: k, stream: a}
)");
  CHECK(run.us("resources") == Approx(kSms * 20).epsilon(0.1));
}

TEST_CASE("idle: a subcontext may not use the other half", "[cli][CWD-47]") {
  const IdleRun run = run_idle(R"(
config:
  gpu: {cwd: {partition: static}}
subcontexts:
  - {id: 1, tpcs: [[0, 0], [0, 1], [1, 0]]}
  - {id: 2, tpcs: [[0, 2], [1, 1]]}
kernels:
  - {name: first, grid: 120, block: 1024, cycles: 5000, subcontext: 1}
submit:
  - {kernel: first, stream: a}
)");
  // 120 CTAs on 6 SMs, two on each: 10 rounds; the last is a tail, in which all is placed.
  CHECK(run.us("quota") == Approx(4 * 9 * 5000 / run.clock / 1e3).epsilon(0.05));
}

TEST_CASE("idle: another subcontext has its time slice", "[cli][CWD-47]") {
  const IdleRun run = run_idle(R"(
config:
  gpu: {cwd: {time_slice: 20000 cycles}}
kernels:
  - {name: one, grid: 4, block: 1024, cycles: 60000, subcontext: 1}
  - {name: two, grid: 4, block: 1024, cycles: 60000, subcontext: 2}
submit:
  - {kernel: one, stream: a}
  - {kernel: two, stream: b}
)");
  CHECK(run.us("time_slice") > 5 * 20000 / run.clock / 1e3);
}

TEST_CASE("idle: a task waits for a slot of the task table", "[cli][CWD-47]") {
  const IdleRun run = run_idle(R"(
config:
  gpu: {cwd: {table_slots: 1}}
kernels:
  - {name: k, grid: 1, block: 32, cycles: 20000}
submit:
  - {kernel: k, stream: a}
  - {kernel: k, stream: b}
)");
  // While the first runs the second has none.
  CHECK(run.us("table") == Approx((kSms - 1) * 20000 / run.clock / 1e3).epsilon(0.05));
}

TEST_CASE("idle: the tail of a kernel that another waits for, and of the last", "[cli][CWD-47]") {
  const IdleRun run = run_idle(R"(
kernels:
  - {name: k, grid: 1, block: 32, cycles: 20000}
submit:
  - {kernel: k, stream: a, repeat: 3}
)");
  CHECK(run.us("tail") == Approx((kSms - 1) * 2 * 20000 / run.clock / 1e3).epsilon(0.02));
  CHECK(run.us("alone") == Approx((kSms - 1) * 20000 / run.clock / 1e3).epsilon(0.02));
}

TEST_CASE("idle: a copy, and nobody submits for a while", "[cli][CWD-47]") {
  const IdleRun run = run_idle(R"(
kernels:
  - {name: k, grid: 1, block: 32, cycles: 100}
submit:
  - {copy: 64 KiB, stream: a, for: 30 us, direction: host_to_device}
  - {kernel: k, stream: b, at: 50 us}
)");
  CHECK(run.us("copy") == Approx(kSms * 30).epsilon(0.02));
  CHECK(run.us("unsubmitted") == Approx(kSms * 20).epsilon(0.05));
}

TEST_CASE("idle: a run that is stopped before its next submission waits for the host, and is not over",
          "[cli][CWD-47]") {
  const std::string file = R"(
kernels:
  - {name: k, grid: 1, block: 32, cycles: 100}
submit:
  - {kernel: k, stream: a}
  - {kernel: k, stream: a, at: 400 us}
)";
  const IdleRun stopped = run_idle(file, {"--limit", "time=300us"});
  CHECK(stopped.us("over") == 0);
  CHECK(stopped.us("unsubmitted") > kSms * 200);
  const IdleRun whole = run_idle(file);
  CHECK(whole.us("unsubmitted") == Approx(kSms * 400).epsilon(0.05));
}

TEST_CASE("idle: SMs of a stopped run are busy up to its end", "[cli][CWD-47]") {
  const IdleRun run = run_idle(R"(
kernels:
  - {name: k, grid: 10, block: 1024, cycles: 1000000}
submit:
  - {kernel: k, stream: a}
)",
                               {"--limit", "time=100us"});
  CHECK(run.all > 0);  // idle and busy cycles are all cycles: run_idle
}

TEST_CASE("idle: the packet processor, what does not run here, order, and the end of a GPU that is done first",
          "[cli][CWD-47]") {
  CHECK(run_idle(scenario("aql_two_queues.yaml")).us("packets") > 0);
  CHECK(run_idle(scenario("peer_copy.yaml")).us("dependency") > 0);
  CHECK(run_idle(scenario("host_tmdqs.yaml")).us("order") > 0);
  CHECK(run_idle(scenario("two_gpus.yaml")).us("over") > 0);
}

}  // namespace heddle::test::cli_idle_reasons_test
