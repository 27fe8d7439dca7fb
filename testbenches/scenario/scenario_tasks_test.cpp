// Scenarios with queues, subcontexts, changes of sharing, launched kernels, regions of address spaces, and the
// expectations that belong to them.
#include <cstring>
#include <set>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/kernel_object.h"
#include "common/error.h"
#include "scenario/memory_region.h"
#include "scenario/scenario.h"
#include "scenario/scenario_memory.h"

namespace scenario_tasks_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::program;
using namespace heddle::scenario;
using Catch::Contains;

namespace {

const std::string kKernels =
    "kernels:\n- {name: work, grid: 4, block: 32, program: [barrier]}\n- {name: timed, grid: 4, block: 32, cycles: "
    "9}\n";

// `rest` begins in line 4.
Scenario parsed(const std::string& rest) { return parse_scenario("heddle: 1\n\n\n" + rest, "s.yaml"); }

std::string error(const std::string& rest) {
  try {
    parsed(rest);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

std::string with(const std::string& top, const std::string& submit = "[{kernel: work, stream: a}]") {
  return top + "\n" + kKernels + "submit: " + submit + "\n";
}

std::uint64_t word(const std::vector<std::uint8_t>& bytes, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

const MemoryRegion& region(const Scenario& scenario, const std::string& name, std::size_t gpu = 0) {
  for (const MemoryRegion& one : scenario.workloads[gpu].memory) {
    if (one.name == name) return one;
  }
  throw std::runtime_error("no region " + name);
}

}  // namespace

TEST_CASE("a queue lies in memory with the entries that it has at first", "[workload][TSK-05]") {
  const Scenario s =
      parsed(with("queues: [{name: jobs, capacity: 5, initial: {count: 3, value: [10 + i, 2 * i]}}]",
                  "[{id: q, kernel: work, stream: a, queue: jobs, until: [one, two]},\n"
                  " {id: one, kernel: timed, stream: b}, {id: two, kernel: timed, stream: b, repeat: 2}]"));
  const MemoryRegion& queue = region(s, "jobs");
  CHECK(queue.address % arch::kRecordBytes == 0);
  const std::vector<std::uint8_t> bytes = initial_bytes(queue);
  REQUIRE(bytes.size() == arch::kRecordBytes + 5 * arch::kQueueEntryBytes);
  CHECK(word(bytes, arch::queue::kTickets) == 3);
  CHECK(word(bytes, arch::queue::kCapacity) == 5);
  CHECK(word(bytes, arch::queue::kEntries) == queue.address + arch::kRecordBytes);
  for (std::uint64_t i = 0; i < 5; ++i) {
    const std::size_t at = arch::kRecordBytes + i * arch::kQueueEntryBytes;
    CHECK(word(bytes, at) == (i < 3 ? arch::turn_ready(i, 5) : 0));
    CHECK(word(bytes, at + arch::kQueueEntryData) == (i < 3 ? 10 + i : 0));
    CHECK(word(bytes, at + arch::kQueueEntryData + 8) == (i < 3 ? 2 * i : 0));
  }
  // In portions as well.
  CHECK(initial_bytes(queue, 128, 64) == std::vector<std::uint8_t>(bytes.begin() + 128, bytes.begin() + 192));
  const Op& op = s.workloads[0].ops[0];
  REQUIRE(op.queue);
  CHECK(op.queue->address == queue.address);
  CHECK(op.queue->entries == 3);
  CHECK(op.queue->until == std::vector<std::size_t>{1, 3});
}

TEST_CASE("what is wrong with queues is said", "[workload][TSK-05]") {
  const std::string queues = "queues: [{name: jobs, capacity: 5}]";
  const auto submitted = [&](const std::string& submit) { return error(with(queues, submit)); };
  CHECK(submitted("[{kernel: work, stream: a, queue: jobs}]") == "accepted");
  CHECK_THAT(error(with("queues: [{name: jobs, capacity: 2, initial: {count: 3, value: i}}]")),
             Contains("s.yaml:4:") && Contains("3 entries, and the queue holds 2"));
  CHECK_THAT(error(with("queues: [{name: jobs, capacity: 2, initial: {count: 1, value: [1,2,3,4,5,6,7,8]}}]")),
             Contains("8 values, of 1 to 7"));
  CHECK_THAT(error(with("queues: [{name: jobs, capacity: 2, initial: {count: 1, value: j}}]")), Contains("j"));
  CHECK_THAT(error(with("queues: [{name: jobs, capacity: 0}]")), Contains("capacity"));
  CHECK_THAT(error(with("queues: [{name: q, capacity: 1}, {name: q, capacity: 1}]")),
             Contains("there are two regions or tensors q"));
  CHECK_THAT(submitted("[{kernel: work, stream: a, queue: job}]"),
             Contains("s.yaml:8:") && Contains("there is no queue job") && Contains("did you mean jobs?"));
  CHECK_THAT(submitted("[{kernel: timed, stream: a, queue: jobs}]"),
             Contains("kernel timed has no program") && Contains("kernarg"));
  CHECK_THAT(submitted("[{kernel: work, stream: a, queue: jobs, repeat: 2}]"), Contains("is submitted once"));
  CHECK_THAT(submitted("[{group: [{kernel: work, stream: a, queue: jobs}], repeat: 2}]"),
             Contains("is submitted once"));
  CHECK_THAT(submitted("[{id: x, kernel: work, stream: a, queue: jobs}, {kernel: work, stream: a, queue: jobs}]"),
             Contains("operation x takes the entries of jobs already"));
  CHECK_THAT(submitted("[{kernel: work, stream: a, until: x}]"), Contains("only an operation with a queue has it"));
  CHECK_THAT(submitted("[{id: x, kernel: work, stream: a, queue: jobs, until: x}]"),
             Contains("it would wait for its own end"));
  CHECK_THAT(submitted("[{kernel: work, stream: a, queue: jobs, until: y}]"),
             Contains("until: there is no operation y"));
}

TEST_CASE("a queue knows the subcontexts that use it, and shares no page with that of others", "[workload][PRT-08]") {
  const Scenario s = parsed(
      "subcontexts: [{id: 1, translated: true}, {id: 2, translated: true}]\n"
      "queues: [{name: a, capacity: 2}, {name: b, capacity: 2}, {name: c, capacity: 2}, {name: d, capacity: 2}]\n"
      "kernels:\n"
      "- {name: takes, grid: 1, block: 32, subcontext: 1, program: [barrier]}\n"
      "- {name: child, grid: 1, block: 32, program: [{append: {queue: b, value: 1}}]}\n"
      "- {name: launches, grid: 1, block: 32, subcontext: 2, program: [{launch: {kernel: child}}]}\n"
      "- {name: gives, grid: 1, block: 32, subcontext: 2, program: [{append: {queue: c, value: 1}}]}\n"
      "submit:\n"
      "- {kernel: takes, stream: x, queue: a}\n"
      "- {kernel: takes, stream: y, queue: c}\n"
      "- {kernel: launches, stream: z}\n"
      "- {kernel: gives, stream: z}\n");
  using Users = std::set<std::uint8_t>;
  CHECK(region(s, "a").users == Users{1});
  CHECK(region(s, "b").users == Users{2});
  CHECK(region(s, "c").users == Users{1, 2});
  CHECK(region(s, "d").users.empty());
  std::set<std::uint64_t> pages;
  for (const char* name : {"a", "b", "c", "d"}) pages.insert(region(s, name).address / (64 << 10));
  CHECK(pages.size() == 4);
  CHECK(region(s, "a").address % (64 << 10) == 0);
}

TEST_CASE("an operation has a priority and a place of its own", "[workload][TSK-01]") {
  const Scenario s =
      parsed(with("streams: [{name: a, priority: 2}]",
                  "[{kernel: timed, stream: a}, {kernel: timed, stream: a, priority: -3, insert: head},\n"
                  " {kernel: timed, stream: a, insert: tail, programmatic: true}]"));
  const std::vector<Op>& ops = s.workloads[0].ops;
  CHECK_FALSE(ops[0].priority);
  CHECK_FALSE(ops[0].head);
  CHECK(ops[1].priority == -3);
  CHECK(ops[1].head);
  CHECK_FALSE(ops[2].head);
  CHECK_FALSE(ops[1].programmatic);
  CHECK(ops[2].programmatic);
  CHECK_THAT(error(with("", "[{kernel: timed, stream: a, insert: middle}]")), Contains("middle is not possible here"));
  CHECK_THAT(error(with("", "[{kernel: timed, stream: a, priority: 1001}]")), Contains("priority"));
}

TEST_CASE("subcontexts and changes of sharing are read", "[workload][PRT-01][PRT-05]") {
  const Scenario s =
      parsed(with("gpus: [small, small]\n"
                  "subcontexts:\n"
                  "- {id: 1, credits: 3, tpcs: [[0, 1], [1, 0]]}\n"
                  "- {id: 63, translated: true}\n"
                  "- {id: 1, credits: 0, gpu: 1}\n"
                  "share:\n"
                  "- {at: 10 us, subcontext: 1, credits: 8}\n"
                  "- {mode: static}\n"
                  "- {at: 1 us, subcontext: 2, gpc: 1, tpc: 0, enabled: false}\n"
                  "- {at: 2 us, subcontext: 2, gpc: 1, tpc: 2, block: 5, gpu: 1}"));
  const Workload& w = s.workloads[0];
  REQUIRE(w.subcontexts.size() == 2);
  CHECK(w.subcontexts[0].credits == 3U);
  REQUIRE(w.subcontexts[0].tpcs);
  CHECK(*w.subcontexts[0].tpcs == std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 1}, {1, 0}});
  CHECK(w.subcontexts[1].translated);
  CHECK_FALSE(w.subcontexts[1].credits);
  REQUIRE(w.shares.size() == 3);
  CHECK(w.shares[0].what == ShareChange::What::credits);
  CHECK(w.shares[0].when == 10'000);
  CHECK(w.shares[0].value == 8);
  CHECK(w.shares[1].what == ShareChange::What::mode);
  CHECK(w.shares[1].mode == ShareChange::Mode::static_);
  CHECK(w.shares[2].what == ShareChange::What::enable);
  CHECK(w.shares[2].value == 0);
  REQUIRE(s.workloads[1].shares.size() == 1);
  CHECK(s.workloads[1].shares[0].what == ShareChange::What::block);
  CHECK(s.workloads[1].shares[0].value == 5);
  CHECK(s.workloads[1].shares[0].tpc == 2);

  CHECK_THAT(error(with("subcontexts: [{id: 64}]")), Contains("s.yaml:4:") && Contains("id"));
  CHECK_THAT(error(with("subcontexts: [{id: 1}, {id: 1}]")), Contains("there are two entries for subcontext 1"));
  CHECK_THAT(error(with("subcontexts: [{id: 1, tpcs: [[1]]}]")), Contains("a GPC and a TPC are expected: [0, 1]"));
  CHECK_THAT(error(with("subcontexts: [{id: 1, tpcs: [[1, 2], [1, 2]]}]")), Contains("it stands twice in the list"));
  CHECK_THAT(error(with("subcontexts: [{id: 1, tpcs: []}]")), Contains("it could run nowhere"));
  for (const char* wrong : {"{at: 1 us}", "{mode: none, subcontext: 1}", "{subcontext: 1}", "{credits: 3}",
                            "{subcontext: 1, credits: 3, gpc: 1, tpc: 0}", "{subcontext: 1, gpc: 1, enabled: true}",
                            "{subcontext: 1, gpc: 1, tpc: 1}", "{mode: none, subcontext: 1, credits: 1}"}) {
    CAPTURE(wrong);
    CHECK_THAT(error(with(fmt::format("share: [{}]", wrong))),
               Contains("s.yaml:4:9") && Contains("it does not say clearly what changes") && Contains("give one of"));
  }
  CHECK_THAT(error(with("share: [{mode: dynamik}]")), Contains("did you mean dynamic?"));
}

TEST_CASE("regions of address spaces may have the same address, and own structures lie in none of them",
          "[workload][PRT-01][MEM-04]") {
  const Scenario s = parsed(
      "subcontexts: [{id: 1, translated: true}, {id: 2, translated: true}]\n"
      "queues: [{name: jobs, capacity: 10}]\n"
      "memory:\n"
      "- {name: a, bytes: 100, at: 0x200000, subcontext: 1}\n"
      "- {name: b, bytes: 100, at: 0x200000, subcontext: 2, access: read}\n"
      "- {name: c, bytes: 100, at: 0x200000}\n"
      "- {name: d, bytes: 100, subcontext: 1}\n"
      "- {name: e, bytes: 100, subcontext: 1, access: write}\n"
      "- {name: f, bytes: 100}\n"
      "kernels:\n"
      "- {name: work, grid: 1, block: 32, program: [{launch: {kernel: work}}]}\n"
      "submit: [{kernel: work, stream: s}]\n");
  CHECK(region(s, "a").subcontext == std::uint8_t{1});
  CHECK(region(s, "b").subcontext == std::uint8_t{2});
  CHECK(region(s, "b").read_only);
  CHECK_FALSE(region(s, "c").subcontext);
  CHECK(region(s, "d").address == kFirstRegion);
  CHECK(region(s, "e").address == kFirstRegion + kTranslatedPage);
  CHECK(region(s, "f").address == kFirstRegion);
  for (const char* own : {"jobs", kKernelObjects}) {
    for (const char* other : {"a", "b", "c", "d", "e", "f"}) {
      CAPTURE(own, other);
      CHECK(region(s, own).address / kTranslatedPage != region(s, other).address / kTranslatedPage);
    }
  }
  const auto memory = [](const std::string& entry) {
    return error(with("subcontexts: [{id: 1, translated: true}, {id: 3}]\nmemory: [" + entry + "]"));
  };
  CHECK_THAT(memory("{name: a, bytes: 8, subcontext: 2}"),
             Contains("s.yaml:5:") && Contains("subcontext 2 has no address space of its own on gpu0") &&
                 Contains("subcontexts: [{id: 2, translated: true}]"));
  CHECK_THAT(memory("{name: a, bytes: 8, subcontext: 3}"), Contains("subcontext 3 has no address space"));
  CHECK_THAT(memory("{name: a, bytes: 8, access: read}"), Contains("only a region of a translated subcontext has it"));
  CHECK_THAT(memory("{name: a, bytes: 8, subcontext: 1, access: none}"), Contains("none is not possible here"));
  CHECK_THAT(memory("{name: a, bytes: 8, at: 64, subcontext: 1}, {name: b, bytes: 8, at: 68, subcontext: 1}"),
             Contains("memory b: it overlaps memory a"));
}

TEST_CASE("kernels that programs launch come along, on every GPU at one address", "[workload][TSK-01][TSK-06]") {
  const Scenario s = parsed(
      "gpus: [small, small]\n"
      "memory: [{name: big, bytes: 1 MiB, gpu: 1}]\n"
      "kernels:\n"
      "- {name: root, grid: 1, block: 32, program: [{launch: {kernel: middle}}]}\n"
      "- {name: middle, grid: 2, block: 32, program: [{launch: {kernel: leaf}}]}\n"
      "- {name: leaf, grid: 3, block: 64, cycles: 7}\n"
      "- {name: other, grid: 3, block: 64, cycles: 7}\n"
      "streams: [{name: a}, {name: b, gpu: 1}]\n"
      "submit: [{kernel: root, stream: a}, {kernel: other, stream: b}]\n");
  const std::vector<LaunchedKernel>& launched = s.workloads[0].launched;
  REQUIRE(launched.size() == 2);
  CHECK(launched[0].kernel.name == "leaf");
  CHECK(launched[1].kernel.name == "middle");
  const MemoryRegion& objects = region(s, kKernelObjects);
  CHECK(objects.bytes == 4 * arch::kKernelObjectBytes);
  CHECK(launched[0].address == objects.address + 2 * arch::kKernelObjectBytes);
  CHECK(launched[1].address == objects.address + arch::kKernelObjectBytes);
  CHECK(region(s, kKernelObjects, 1).address == objects.address);
  CHECK(objects.address >= region(s, "big", 1).address + (1U << 20));
  CHECK(s.workloads[1].launched.empty());
  CHECK(s.workloads[0].warnings.empty());  // leaf and middle are in use
  CHECK(s.workloads[0].ops[0].kernel.program->launches());

  // A launched kernel's memory is of the GPU of the launching one.
  CHECK_THAT(error("gpus: [small, small]\n"
                   "memory: [{name: far, bytes: 64, gpu: 1}]\n"
                   "kernels:\n"
                   "- {name: root, grid: 1, block: 32, program: [{launch: {kernel: leaf}}]}\n"
                   "- {name: leaf, grid: 1, block: 32, program: [{store: {value: 1, type: u32, at: far}}]}\n"
                   "submit: [{kernel: root, stream: a}]\n"),
             Contains("s.yaml:9:") && Contains("the program of leaf, which it launches, uses memory far of gpu1"));
}

TEST_CASE("a run without progress and faults of an address space can be expected", "[workload][TSK-12][PRT-08]") {
  const Scenario s =
      parsed(with("expect:\n"
                  "- {no_progress: waits for its children}\n"
                  "- {fault: unmapped, kernel: work, subcontext: 3, address: 0x4000}\n"
                  "- {fault: read_only, kernel: work}"));
  REQUIRE(s.expectations.size() == 3);
  const Expectation& wait = s.expectations[0];
  CHECK(wait.kind == ExpectationKind::no_progress);
  CHECK(wait.holds(std::vector<std::string>{"CTA 3 waits for its children", "of SM 1"}));
  CHECK(wait.holds(std::vector<std::string>{"x", "y waits for its children"}));
  CHECK_FALSE(wait.holds(std::vector<std::string>{"CTA 3 waits for", "its children"}));
  CHECK_FALSE(wait.holds(std::vector<std::string>{}));
  CHECK(wait.text() == "because of: waits for its children");
  CHECK(s.expectations[1].fault == arch::FaultKind::unmapped);
  CHECK(s.expectations[1].subcontext == 3U);
  CHECK(s.expectations[1].address == std::uint64_t{0x4000});
  CHECK(s.expectations[1].text() == "in kernel work, subcontext 3, address 0x4000");
  CHECK_FALSE(s.expectations[2].subcontext);
  CHECK_THAT(error(with("expect: [{no_progress: ''}]")), Contains("s.yaml:4:") && Contains("empty"));
  CHECK_THAT(error(with("expect: [{fault: unmaped, kernel: work}]")), Contains("did you mean unmapped?"));
}

}  // namespace scenario_tasks_test
