// Runs that submit by packets of user-mode queues: scenarios, recordings, options, files of results.
#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/csv.h"
#include "cli/program.h"

namespace cli_packets_command_test {

using namespace heddle::test;

namespace {

constexpr const char* kSmall = R"(heddle: 1
gpu: small
kernels:
  - {name: one, grid: 16, block: 128, cycles: 2000}
  - {name: two, grid: 4, block: 64, cycles: 500}
submit:
  - {id: first, kernel: one, stream: a, repeat: 5}
  - {copy: 16 KiB, stream: b, for: 3 us}
  - {kernel: two, stream: b, after: first, repeat: 4}
)";

const std::vector<std::string> kPartNames{"enqueue",  "fetch",  "wait",      "decode",
                                          "dispatch", "launch", "execution", "clean_up"};

}  // namespace

TEST_CASE("a scenario is submitted by packets on request, and says where the time goes", "[cli][PKT-08]") {
  const TempDir dir;
  dir.write("s.yaml", kSmall);
  const Results streams = run_well(dir, {"s.yaml"}, "streams");
  CHECK_FALSE(streams.has("gpu0.packets.launches"));
  CHECK_FALSE(std::filesystem::exists(streams.file("packets.csv")));
  const Results packets = run_well(dir, {"s.yaml", "--submit", "aql"}, "packets");
  CHECK(packets.stat("gpu0.packets.launches") == 9);
  CHECK(packets.stat("gpu0.packets.packets") == 9);
  CHECK(packets.stat("gpu0.packets.stopped") == 0);
  CHECK(packets.stat("gpu0.cwd.ctas_launched") == streams.stat("gpu0.cwd.ctas_launched"));
  CHECK(packets.stat("gpu0.packet.packets.barrier_and") == 1);
  // 5 kernels of 2000 cycles and 4 of 500, and a little.
  CHECK(packets.stat("gpu0.packets.execution") > 12'000 / 1.755 - 100);
  double all = 0;
  double own = 0;
  for (const std::string& part : kPartNames) {
    CAPTURE(part);
    const double sum = packets.stat("gpu0.packets." + part);
    CHECK(packets.stat("gpu0.packets.own." + part) <= sum);
    all += sum;
    own += packets.stat("gpu0.packets.own." + part);
  }
  CHECK(all > own);

  const auto& rows = packets.document().at("gpus").at(0).at("packets");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("kernel") == "one");
  CHECK(rows[0].at("launches") == 5);
  CHECK(rows[0].at("ns").at("execution").get<double>() > 5 * 2000 / 1.755 - 100);
  CHECK(packets.page().at("gpus").at(0).at("packets").at("rows").size() == 2);
  CHECK(contains(read_file(packets.file("packets.csv")), "\ngpu0,two,"));
  CHECK(contains(read_file(packets.file("config.yaml")), "host:"));
}

TEST_CASE("packets.csv has the times of every launch, in order", "[cli][PKT-08]") {
  const TempDir dir;
  dir.write("s.yaml", kSmall);
  const Results results = run_well(dir, {"s.yaml", "--submit", "aql", "--format", "condensed", "--queues", "device"});
  const std::string text = read_file(results.file("packets.csv"));
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  CHECK(line.rfind("gpu,kernel,operation,queue,packet,type,kernel_in_packet,kernels_in_packet,status,begin_ns,", 0) ==
        0);
  std::set<int> operations;
  std::size_t condensed = 0;
  while (std::getline(lines, line)) {
    CAPTURE(line);
    std::vector<std::string> fields;
    std::istringstream parts(line);
    for (std::string field; std::getline(parts, field, ',');) fields.push_back(field);
    REQUIRE(fields.size() == 18);
    operations.insert(std::stoi(fields[2]));
    condensed += fields[5] == "condensed" ? 1U : 0U;
    for (std::size_t i = 10; i < fields.size(); ++i) CHECK(std::stod(fields[i]) >= std::stod(fields[i - 1]));
  }
  CHECK(operations == std::set<int>{0, 1, 2, 3, 4, 6, 7, 8, 9});
  CHECK(condensed > 0);
}

TEST_CASE("condensed packets save time on a task graph", "[cli][PKT-08]") {
  const TempDir dir;
  const std::string file = scenario("aql_task_graph.yaml");
  const Results condensed = run_well(dir, {file}, "condensed");
  const Results plain = run_well(dir, {file, "--format", "plain"}, "plain");
  CHECK(condensed.stat("gpu0.packets.packets") <= 60);
  CHECK(plain.stat("gpu0.packets.packets") == 600);
  CHECK(condensed.stat("sim.time") < plain.stat("sim.time"));
  CHECK(condensed.stat("gpu0.packets.own.decode") < plain.stat("gpu0.packets.own.decode"));
  // The kernels themselves are the same.
  CHECK(condensed.stat("gpu0.packets.execution") == Approx(plain.stat("gpu0.packets.execution")).epsilon(0.01));
}

TEST_CASE("shipped scenarios of packets show what they say", "[cli][HST-05]") {
  const TempDir dir;
  for (const char* const name : {"aql_two_queues.yaml", "aql_copy_overlap.yaml", "aql_two_gpus.yaml"}) {
    CAPTURE(name);
    run_well(dir, {scenario(name)}, name);
  }
}

TEST_CASE("options of packets without packets, and arguments that nothing carries, are refused", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kSmall);
  const auto refused = [&](std::vector<std::string> arguments, const std::string& why) {
    arguments.insert(arguments.begin(), "run");
    const Finished finished = heddle_in(dir, arguments);
    INFO(finished.err);
    CHECK(finished.status == 2);
    CHECK(contains(finished.err, why));
  };
  for (const std::string option : {"--format", "--queues", "--copies", "--batch"}) {
    const std::string value = option == "--format"   ? "plain"
                              : option == "--queues" ? "host"
                              : option == "--copies" ? "engines"
                                                     : "3";
    refused({"s.yaml", option, value}, option + " is about packets");
    refused({"s.yaml", option, value}, "add --submit aql");
  }
  refused({"s.yaml", "--submit", "mail"}, "expected aql or tmdq or streams");
  refused({"s.yaml", "--submit", "aql", "--batch", "0"}, "--batch 0: expected a whole number from 1 to");
  refused({"s.yaml", "--submit", "aql", "--set", "host.ring=100"}, "host.ring = 100 is not a power of two");
  refused({scenario("aql_two_queues.yaml"), "--submit", "streams"}, "only packets and TMDs carry arguments");
}

TEST_CASE("parameters of the host are shown with the others", "[cli]") {
  const TempDir dir;
  const Finished shown = heddle_in(dir, {"show", "params", "host."});
  CHECK(shown.status == 0);
  for (const char* const name : {"enqueue", "doorbell", "poll", "ring", "memory", "memory_latency"}) {
    CHECK(contains(shown.out, std::string("host.") + name + " = "));
  }
}

TEST_CASE("a recording is replayed through queues", "[cli][INP-11]") {
  const TempDir dir;
  dir.write("t.json", hand_made_trace());
  const Results results = run_well(dir, {"t.json", "--submit", "aql", "--copies", "engines"});
  CHECK(results.stat("gpu0.packets.launches") == 30);
  CHECK(results.stat("gpu0.packet.packets.vendor") == 1);
  CHECK(results.page().at("gpus").at(0).at("spans").size() == 3);
  const Results condensed = run_well(
      dir, {"t.json", "--submit", "aql", "--format", "condensed", "--pace", "asap", "--fit", "signature"}, "condensed");
  CHECK(condensed.stat("gpu0.packets.packets") < 30);
  // Two equal runs.
  run_well(dir, {"t.json", "--submit", "aql", "--format", "condensed", "--pace", "asap", "--fit", "signature"},
           "again");
  CHECK(read_file(dir.file("again/stats.json")) == read_file(dir.file("condensed/stats.json")));
}

TEST_CASE("CTAs, faults and expectations are about operations, however they are submitted", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", R"(heddle: 1
gpu: small
memory: [{name: x, bytes: 4 KiB}]
kernels:
  - {name: idle, grid: 4, block: 64, cycles: 100, cluster: 2}
  - {name: bad, grid: 1, block: 32, program: [{store: {value: 1, type: u32, at: x + 1}}]}
submit:
  - {kernel: idle, stream: a, repeat: 3}
  - {kernel: bad, stream: a}
expect:
  - {fault: misaligned, kernel: bad}
)");
  const Results results = run_well(dir, {"s.yaml", "--submit", "aql", "--dump", "ctas"});
  CHECK(results.document().at("faults").at(0).at("operation") == 3);
  CHECK(results.document().at("faults").at(0).at("kernel") == "bad");
  const std::string ctas = read_file(results.file("ctas.csv"));
  CHECK(contains(ctas, "\n0,0,"));
  CHECK(contains(ctas, ",bad,gpu0,"));
  CHECK(results.document().at("gpus").at(0).at("clusters").at("totals").at(0).at("kernel") == "idle");
}

TEST_CASE("a queue that stops ends the run with a message", "[cli][PKT-09]") {
  const TempDir dir;
  dir.write("s.yaml", R"(heddle: 1
gpu: small
memory: [{name: x, bytes: 4 KiB}]
kernels:
  - {name: bad, grid: 1, block: 32, program: [{store: {value: 1, type: u32, at: x + 1}}]}
  - {name: good, grid: 1, block: 32, cycles: 100}
submit:
  - {id: broken, kernel: bad, stream: a}
  - {id: never, kernel: good, stream: a, repeat: 3}
  - {kernel: good, stream: b, after: never}
expect:
  - {fault: misaligned, kernel: bad}
)");
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--submit", "aql", "--out", "out"});
  INFO(finished.out);
  CHECK(finished.status == 1);
  CHECK(contains(finished.out, "queue 0 stopped at packet 0: "));
  CHECK(contains(finished.out, "0x1016"));
  CHECK(contains(finished.out, "3 of its operations did not run"));
  CHECK(contains(finished.out, "3 operations did not run"));
  const Results results(dir.file("out"));
  CHECK(results.stat("gpu0.packets.stopped") == 1);
}

}  // namespace cli_packets_command_test
