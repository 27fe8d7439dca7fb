// Scenarios that submit by packets: how, arguments of kernels, directions of copies, groups of operations.
#include <string>

#include <catch2/catch.hpp>

#include "scenario/scenario.h"
#include "scenario/scenario_submit.h"

namespace scenario_packets_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::scenario;
using Catch::Contains;

namespace {

std::string with(const std::string& submit, const std::string& rest = {}) {
  return "heddle: 1\nkernels: [{name: gemm, grid: 4, block: 32, cycles: 10}]\n" + rest + "submit:" + submit + "\n";
}

std::string error(const std::string& text) {
  try {
    parse_scenario(text, "s.yaml");
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

const std::string kOne = "operations: [{kernel: gemm, stream: a}]";

}  // namespace

TEST_CASE("a map behind submit says how packets are submitted", "[workload][scenario]") {
  CHECK_FALSE(parse_scenario(with(" [{kernel: gemm, stream: a}]"), "s").packets.has_value());
  const Scenario usual = parse_scenario(with(" {by: aql, " + kOne + "}"), "s");
  REQUIRE(usual.packets.has_value());
  CHECK(usual.packets->format == PacketFormat::plain);
  CHECK(usual.packets->queues == QueuePlace::host);
  CHECK(usual.packets->copies == CopyBy::recorded);
  CHECK(usual.packets->signals == SignalFor::each);
  CHECK(usual.packets->batch == 64);
  CHECK(usual.workloads[0].ops.size() == 1);
  const Scenario all = parse_scenario(
      with(" {by: aql, format: condensed, queues: device, copies: engines, signals: needed, batch: 7, " + kOne + "}"),
      "s");
  CHECK(all.packets->format == PacketFormat::condensed);
  CHECK(all.packets->queues == QueuePlace::device);
  CHECK(all.packets->copies == CopyBy::engines);
  CHECK(all.packets->signals == SignalFor::needed);
  CHECK(all.packets->batch == 7);
  CHECK(parse_scenario(with(" {by: aql, format: reference, " + kOne + "}"), "s").packets->format ==
        PacketFormat::reference);
}

TEST_CASE("what is wrong with a submission by packets is said", "[workload][scenario]") {
  CHECK_THAT(error(with(" {by: mail, " + kOne + "}")), Contains("submit, by: mail is not a way to submit"));
  CHECK_THAT(error(with(" {" + kOne + "}")), Contains("the key \"by\" is missing"));
  CHECK_THAT(error(with(" {by: aql}")), Contains("the key \"operations\" is missing"));
  CHECK_THAT(error(with(" {by: aql, operations: []}")), Contains("the list is empty"));
  CHECK_THAT(error(with(" {by: aql, format: condense, " + kOne + "}")), Contains("did you mean condensed?"));
  CHECK_THAT(error(with(" {by: aql, queue: device, " + kOne + "}")), Contains("unknown key \"queue\""));
  CHECK_THAT(error(with(" {by: aql, batch: 0, " + kOne + "}")), Contains("batch"));
}

TEST_CASE("a map behind submit can say that streams are TMDQs", "[workload][scenario][TSK-06]") {
  const Scenario s = parse_scenario(with(" {by: tmdq, " + kOne + "}"), "s");
  CHECK(s.tmdqs);
  CHECK_FALSE(s.packets.has_value());
  CHECK(s.workloads[0].ops.size() == 1);
  CHECK_FALSE(parse_scenario(with(" {by: aql, " + kOne + "}"), "s").tmdqs);
  CHECK_FALSE(parse_scenario(with(" [{kernel: gemm, stream: a}]"), "s").tmdqs);
  for (const char* key : {"format: plain", "queues: host", "copies: recorded", "signals: each", "batch: 3"}) {
    CHECK_THAT(error(with(std::string(" {by: tmdq, ") + key + ", " + kOne + "}")), Contains("it is about packets"));
  }
  CHECK_THAT(error(with(" {by: tmdq}")), Contains("the key \"operations\" is missing"));
  CHECK_THAT(error(with(" {by: tmdqs, " + kOne + "}")), Contains("did you mean tmdq?") || Contains("not a way"));
}

TEST_CASE("arguments are words over the addresses of memory", "[workload][scenario]") {
  const std::string memory = "memory: [{name: x, bytes: 64, at: 1048576}, {name: y, bytes: 64, at: 2097152}]\n";
  const Scenario s = parse_scenario(
      with(" {by: aql, operations: [{kernel: gemm, stream: a, args: [x, y + 16, 5 * 3]}, {kernel: gemm, stream: a, "
           "args: y, repeat: 2}, {kernel: gemm, stream: a}]}",
           memory),
      "s");
  const std::vector<Op>& ops = s.workloads[0].ops;
  REQUIRE(ops.size() == 4);
  CHECK(ops[0].args == std::vector<std::uint64_t>{1 << 20, (2 << 20) + 16, 15});
  CHECK(ops[2].args == std::vector<std::uint64_t>{2 << 20});
  CHECK(ops[3].args.empty());
  CHECK_THAT(error(with(" [{kernel: gemm, stream: a, args: [q]}]", memory)), Contains("q"));
  CHECK_THAT(error(with(" [{kernel: gemm, stream: a, args: []}]", memory)), Contains("0 arguments"));
  CHECK_THAT(error(with(" [{kernel: gemm, stream: a, args: [[x]]}]", memory)), Contains("an expression is expected"));
  const std::string two = "gpus: [small, small]\nmemory: [{name: x, bytes: 64, gpu: 1}]\n";
  CHECK_THAT(error(with(" [{kernel: gemm, stream: a, args: [x]}]", two)),
             Contains("it runs on gpu0, and memory x is of gpu1"));
}

TEST_CASE("copies have a direction", "[workload][scenario][INP-11]") {
  const Scenario s = parse_scenario(
      with(" [{copy: 1, stream: a, for: 1 us}, {copy: 1, stream: a, for: 1 us, direction: device_to_host}, {copy: 1, "
           "stream: a, for: 1 us, direction: device_to_device}]"),
      "s");
  CHECK(s.workloads[0].ops[0].direction == CopyDirection::host_to_device);
  CHECK(s.workloads[0].ops[1].direction == CopyDirection::device_to_host);
  CHECK(s.workloads[0].ops[2].direction == CopyDirection::device_to_device);
  CHECK_THAT(error(with(" [{copy: 1, stream: a, for: 1 us, direction: up}]")), Contains("direction"));
  CHECK(direction_of("Memcpy HtoD (Pageable -> Device)") == CopyDirection::host_to_device);
  CHECK(direction_of("Memcpy DtoH (Device -> Pinned)") == CopyDirection::device_to_host);
  CHECK(direction_of("Memcpy DtoD (Device -> Device)") == CopyDirection::device_to_device);
  CHECK(direction_of("CopyHostToDevice") == CopyDirection::host_to_device);
  CHECK(direction_of("CopyDeviceToHost") == CopyDirection::device_to_host);
  CHECK(direction_of("anything") == CopyDirection::device_to_device);
}

TEST_CASE("a group is submitted as a whole, again and again", "[workload][scenario]") {
  const Scenario s = parse_scenario(
      with(
          " [{id: begin, kernel: gemm, stream: b}, {repeat: 3, group: [{kernel: gemm, stream: a}, {copy: 4, stream: b, "
          "for: 1 us, repeat: 2}]}, {kernel: gemm, stream: a, after: begin}]"),
      "s");
  const std::vector<Op>& ops = s.workloads[0].ops;
  REQUIRE(ops.size() == 11);
  for (std::size_t i = 1; i < 10; ++i) CHECK((ops[i].kind == OpKind::kernel) == (i % 3 == 1));
  CHECK(ops[10].after.size() == 1);
  CHECK_THAT(error(with(" [{group: []}]")), Contains("the list is empty"));
  CHECK_THAT(error(with(" [{group: [{kernel: gemm, stream: a, id: q}]}]")), Contains("not possible within a group"));
  CHECK_THAT(error(with(" [{group: [{group: [{kernel: gemm, stream: a}]}]}]")), Contains("a group within a group"));
  CHECK_THAT(error(with(" [{repeat: 1000000, group: [{kernel: gemm, stream: a}, {kernel: gemm, stream: a}]}]")),
             Contains("more than 1000000 operations"));
}

}  // namespace scenario_packets_test
