// Hosts whose streams are TMDQs in device memory, on real machines: against the same work in streams, the race of
// pushes with completions, what tasks of the host launch, faults, records that run out, and resets (TSK-06, TSK-09,
// TSK-15).
#include "replay/tmdq_submitter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "gpu/gpu.h"
#include "replay/device_memory.h"
#include "replay/packet_job.h"
#include "replay/replay_bench.h"
#include "scenario/scenario.h"
#include "support/sim_fixture.h"

namespace replay_tmdq_submitter_test {

using namespace heddle;
using namespace heddle::test;
using replay::OpResult;
using replay::Pace;
using replay::SimulationOptions;
using replay::SimulationResult;
using workload::SubmitBy;
using workload::Workload;

namespace {

// Which CTAs of the host's tasks ran, and when each task's first one did.
struct Seen final : CtaListener {
  void cta_started(const Cta& cta) override {
    started[cta.task].insert(cta.index);
    if (++count[cta.task] == 1) order.push_back(cta.task);
  }
  void cta_ended(const Cta&) override {}
  void task_launched(const Launched& task) override { depths.insert(task.depth); }
  std::map<std::uint32_t, std::set<std::uint64_t>> started;
  std::map<std::uint32_t, std::uint64_t> count;
  std::vector<std::uint32_t> order;
  std::set<std::uint32_t> depths;
};

struct Run {
  SubmitBy by = SubmitBy::tmdqs;
  Pace pace = Pace::asap;
  gpu::GpuParams params = preset_params("small");
  SimulationOptions options;
  std::vector<std::string> regions;
};

SimulationResult run(const Workload& workload, const Run& how, Seen* seen = nullptr) {
  replay::Job job = job_of(workload, how.params);
  job.pace = how.pace;
  job.ctas = seen;
  job.regions = how.regions;
  job.tmdqs = how.by == SubmitBy::tmdqs;
  if (how.by == SubmitBy::packets) job.packets.emplace();
  return replay::simulate({job}, how.options);
}

double stat(const SimulationResult& result, const std::string& name) {
  return result.jobs[0].observation->stats.to_json()["gpu0." + name]["value"].get<double>();
}

// Every CTA of every kernel started, and none twice.
void check_ctas(const Workload& w, const Seen& seen) {
  for (std::size_t i = 0; i < w.ops.size(); ++i) {
    if (w.ops[i].kind != workload::OpKind::kernel) continue;
    CAPTURE(i);
    const auto task = static_cast<std::uint32_t>(i);
    const std::uint64_t ctas = w.ops[i].kernel.grid.count();
    REQUIRE(seen.count.count(task) == 1);
    CHECK(seen.started.at(task).size() == ctas);
    CHECK(seen.count.at(task) == ctas);
  }
}

// Two kernels in a stream; the host turns to the second that much later.
Workload racing(workload::Nanoseconds later) {
  Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 1, 1000, 32), kernel_op(0, 1, 1000, 32)};
  w.ops.back().enqueue = later;
  return w;
}

scenario::Scenario parse(const std::string& text) { return scenario::parse_scenario(text, "test.yaml"); }

std::string error_of(const Workload& w) {
  try {
    run(w, {});
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

constexpr const char* kParents = R"(
heddle: 1
gpu: small
memory:
  - {name: sum, bytes: 8}
kernels:
  - name: parent
    grid: 2
    block: 32
    program:
      - let: {number: thread.x}
      - load: {to: weight, type: u64, at: kernarg}
      - if: {cond: lane < 3, then: [{launch: {kernel: child, args: [weight]}}]}
      - wait_children
      - if: {cond: lane == 0, then: [{atomic: {op: add, type: u64, at: sum, value: 1000000}}]}
  - name: child
    grid: 2
    block: 32
    program:
      - load: {to: weight, type: u64, at: kernarg}
      - if: {cond: lane == 0, then: [{atomic: {op: add, type: u64, at: sum, value: weight}}]}
)";

std::uint64_t sum_of(const SimulationResult& result) {
  std::uint64_t sum = 0;
  const std::vector<std::uint8_t>& bytes = result.jobs[0].regions.at(0);
  for (unsigned i = 0; i < 8; ++i) sum |= std::uint64_t{bytes.at(i)} << 8 * i;
  return sum;
}

}  // namespace

TEST_CASE("streams that are TMDQs do what streams and packets do", "[replay][TSK-06][TSK-10]") {
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  for (const std::uint64_t seed : seeds(12)) {
    CAPTURE(seed);
    Random random(seed);
    Workload w = random_workload(random, random.between(5, 80));
    const std::uint32_t subcontexts = random.between(1, 3);
    for (workload::Op& op : w.ops) op.kernel.subcontext = static_cast<std::uint8_t>(op.stream % subcontexts);
    Run how;
    if (subcontexts > 1 && random.chance(50)) how.params.cwd.partition = protocol::PartitionMode::dynamic;
    how.params.machine.timing = mode;
    how.pace = random.chance(50) ? Pace::asap : Pace::recorded;
    how.params.cwd.table_slots = random.between(1, 16);
    if (random.chance(50)) how.options.host.tmds = random.between(1, 8);
    how.params.host.aperture_queue = random.between(1, 8);
    Seen tmdqs;
    const SimulationResult result = run(w, how, &tmdqs);
    check_order(w, result);
    check_ctas(w, tmdqs);
    how.by = SubmitBy::streams;
    Seen streams;
    const SimulationResult other = run(w, how, &streams);
    check_order(w, other);
    how.by = SubmitBy::packets;
    Seen packets;
    check_order(w, run(w, how, &packets));
    CHECK(tmdqs.started == streams.started);
    CHECK(tmdqs.started == packets.started);
    CHECK(stat(result, "task.kernels") == static_cast<double>(w.kernels()));
    CHECK(stat(result, "task.submitted") == static_cast<double>(w.kernels()));
    for (std::size_t i = 0; i < w.ops.size(); ++i) {
      CAPTURE(i);
      CHECK(result.jobs[0].results[i].faulted == other.jobs[0].results[i].faulted);
      CHECK(result.jobs[0].results[i].rejected == other.jobs[0].results[i].rejected);
    }
  }
}

TEST_CASE("the host pushes while the task ahead completes", "[replay][TSK-06][TSK-09]") {
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  constexpr workload::Nanoseconds kStep = 100;
  for (const double latency : {100.0, 400.0}) {
    CAPTURE(latency);
    Run how;
    how.params.machine.timing = mode;
    how.params.hub.link_latency = latency;
    how.pace = Pace::recorded;
    double waits = 0;
    double times = 0;
    for (workload::Nanoseconds later = 0; later < 8000; later += kStep) {
      const Workload w = racing(later);
      Seen seen;
      const SimulationResult result = run(w, how, &seen);
      check_order(w, result);
      check_ctas(w, seen);
      waits += stat(result, "task.next_waits");
      ++times;
    }
    // From the exchange to the link the bus is crossed twice, at least: that often the first kernel's completion falls
    // between the two, and has to wait. The other times the queue is empty, or the link is there.
    CHECK(waits >= std::floor(2 * latency / kStep) - 1);
    CHECK(waits < times / 2);
  }
}

TEST_CASE("a task of the host waits for all that it launches, at depth 1 and below", "[replay][TSK-06][TSK-10]") {
  const bool shared = GENERATE(false, true);
  const bool save = GENERATE(false, true);
  CAPTURE(shared, save);
  std::string text = std::string(kParents) + "submit:\n  by: tmdq\n  operations:\n";
  std::uint64_t expected = 0;
  for (std::uint64_t i = 1; i <= 12; ++i) {
    text += fmt::format("    - {{kernel: parent, stream: s{}, args: [{}]}}\n", i % 3, i);
    expected += 2 * 1'000'000 + 2 * 3 * 2 * i;
  }
  const scenario::Scenario s = parse(text);
  CHECK(s.tmdqs);
  Run how;
  how.regions = {"sum"};
  how.options.host.tmds = 3;  // used again, with other arguments
  if (shared) how.params.task.nested.shared_by = task::ContextSharing::grid;
  how.params.sm.nested.save = save ? sm::SavePolicy::wait : sm::SavePolicy::off;
  how.params.sm.nested.save_delay = 100;
  Seen seen;
  const SimulationResult result = run(s.workloads[0], how, &seen);
  check_order(s.workloads[0], result);
  CHECK(sum_of(result) == expected);
  CHECK(seen.depths == std::set<std::uint32_t>{1});
  CHECK(stat(result, "task.children") == 12 * 2 * 3);
}

TEST_CASE("a host that has filled all its queues and waits does not block nested launches", "[replay][TSK-15]") {
  std::string text = std::string(kParents) + "submit:\n  by: tmdq\n  operations:\n";
  for (int i = 0; i < 120; ++i) text += fmt::format("    - {{kernel: parent, stream: s{}, args: [1]}}\n", i % 8);
  const scenario::Scenario s = parse(text);
  Run how;
  how.regions = {"sum"};
  // More of the host's tasks lie in memory than the machine has records for launches, slots and submissions.
  how.options.host.tmds = 100;
  how.params.cwd.table_slots = 2;
  how.params.cwd.evicted_tasks = 2;
  how.params.task.submit_queue = 1;
  how.params.task.nested.pending_launches = 20;
  const SimulationResult result = run(s.workloads[0], how);
  check_order(s.workloads[0], result);
  CHECK(sum_of(result) == 120 * (2 * 1'000'000 + 12));
}

TEST_CASE("few TMDs make the host wait, and a task has one until the host knows of its end", "[replay][TSK-06]") {
  Random random(3);
  Workload w = random_workload(random, 60);
  Run how;
  how.options.host.tmds = 1;
  Seen seen;
  const SimulationResult result = run(w, how, &seen);
  check_order(w, result);
  check_ctas(w, seen);
  // One at a time: no kernel of any stream overlaps another.
  std::vector<std::pair<double, double>> spans;
  for (std::size_t i = 0; i < w.ops.size(); ++i) {
    if (w.ops[i].kind != workload::OpKind::kernel) continue;
    spans.emplace_back(result.jobs[0].results[i].start, result.jobs[0].results[i].end);
  }
  std::sort(spans.begin(), spans.end());
  for (std::size_t i = 1; i < spans.size(); ++i) CHECK(spans[i].first > spans[i - 1].second);
  CHECK(stat(result, "task.next_waits") == 0);
}

TEST_CASE("more streams than a context has TMDQs share none", "[replay][TSK-06][TSK-11]") {
  Workload w = empty_workload(150);
  for (std::size_t i = 0; i < 300; ++i) w.ops.push_back(kernel_op(i % 150, 2, 20'000));
  for (workload::Op& op : w.ops) op.kernel.subcontext = static_cast<std::uint8_t>(op.stream % 2);
  Seen seen;
  Run how;
  const SimulationResult result = run(w, how, &seen);
  check_order(w, result);
  check_ctas(w, seen);
  CHECK(stat(result, "task.false_dependencies") == 0);

  replay::Area area("memory", 0, std::uint64_t{1} << 30, true);
  const replay::TmdqPlan plan =
      replay::plan_tmdqs(w, std::vector<std::uint32_t>(300, 0), std::vector<std::int64_t>(300, 0), 64, area);
  CHECK(plan.contexts.size() == 4);  // 75 streams of each subcontext, 64 in a context
  std::set<std::uint64_t> pointers;
  for (const replay::HostTmdq& tmdq : plan.tmdqs) pointers.insert(tmdq.last_task());
  CHECK(pointers.size() == 150);
}

TEST_CASE("the next task of a stream goes on behind one that has faulted", "[replay][TSK-06]") {
  const std::string text = R"(
heddle: 1
gpu: small
memory:
  - {name: sum, bytes: 8}
kernels:
  - name: bad
    grid: 1
    block: 32
    program: [{store: {value: 1, type: u32, at: "1 << 45"}}]
  - name: good
    grid: 1
    block: 32
    program: [{if: {cond: lane == 0, then: [{atomic: {op: add, type: u64, at: sum, value: 1}}]}}]
submit: [{kernel: good, stream: a}, {kernel: bad, stream: a}, {kernel: good, stream: a}, {kernel: good, stream: b}]
)";
  const scenario::Scenario s = parse(text);
  for (const SubmitBy by : {SubmitBy::tmdqs, SubmitBy::streams}) {
    Run how;
    how.by = by;
    how.regions = {"sum"};
    const SimulationResult result = run(s.workloads[0], how);
    check_order(s.workloads[0], result);
    CHECK(sum_of(result) == 3);
    REQUIRE(result.jobs[0].faults.size() == 1);
    CHECK(result.jobs[0].faults[0].task == 1);
    std::vector<bool> faulted;
    for (const OpResult& r : result.jobs[0].results) faulted.push_back(r.faulted);
    CHECK(faulted == std::vector<bool>{false, true, false, false});
  }
}

TEST_CASE("a pushed task goes to the head of its list, or before less urgent ones, as its TMD says",
          "[replay][TSK-01][TSK-06]") {
  Workload w = empty_workload(5);
  for (std::size_t i = 0; i < 5; ++i) w.ops.push_back(kernel_op(i, 64, i == 0 ? 100'000 : 1000, 1024));
  w.ops[3].head = true;
  w.ops[4].priority = -1;
  w.ops[1].priority = 0;
  Run how;
  how.params.cwd.table_slots = 1;
  Seen seen;
  check_order(w, run(w, how, &seen));
  REQUIRE(seen.order.size() == 5);
  CHECK(seen.order[0] == 0);
  CHECK(seen.order[1] == 3);
  CHECK(seen.order[4] == 4);
}

TEST_CASE("what cannot be pushed into a TMDQ is refused, and why is said", "[replay][TSK-06]") {
  using Catch::Matchers::Contains;
  Workload w = empty_workload(2);
  w.ops.push_back(kernel_op(0, 4, 100));
  w.ops.push_back(kernel_op(0, 4, 100));
  SECTION("queue tasks") {
    w.ops[1].queue = workload::QueueUse{};
    CHECK_THAT(error_of(w), Contains("cannot be pushed into a TMDQ") && Contains("queue task"));
  }
  SECTION("arguments that have no room") {
    w.ops[1].args.resize(7);
    CHECK_THAT(error_of(w), Contains("7 arguments, and a TMD has room for 6"));
  }
  SECTION("subcontexts in one stream") {
    w.ops[1].kernel.subcontext = 3;
    CHECK_THAT(error_of(w), Contains("stream s0 are of subcontexts 0 and 3"));
  }
  SECTION("an operation behind it in its stream that it waits for") {
    w.ops[0].after.push_back({1, workload::EdgeSource::recorded});
    CHECK_THAT(error_of(w), Contains("is behind it in its stream"));
  }
  SECTION("local memory that no program has") {
    w.ops[1].kernel.local_bytes = 64;
    CHECK_THAT(error_of(w), Contains("local memory and no program"));
  }
  SECTION("nothing of it") { CHECK(error_of(w).empty()); }
}

namespace {

// The simulation that replay::simulate() runs, in the hands of a test.
struct Bench {
  Bench(const Workload& w, const gpu::GpuParams& params) : workload(w), gpu("gpu0", params, 1, observation) {
    replay::Area area("memory", 0, params.front_end_memory(), true);
    replay::TmdqSubmitterSetup setup;
    setup.workload = &workload;
    setup.plan = replay::plan_tmdqs(workload, std::vector<std::uint32_t>(w.ops.size(), 0),
                                    replay::host_times(workload, Pace::recorded, {}), 16, area);
    setup.link = params.hub;
    host = std::make_unique<replay::TmdqSubmitter>("gpu0_host", std::move(setup), replay::device_access(gpu),
                                                   observation, host_observation);
    host->bus.memory_out.bind(gpu.bar1());
    host->submit_out.bind(gpu.submit_in());
    gpu.done_out().bind(host->done_in);
  }
  void reset() {
    gpu.reset();
    host->domain.reset();
  }
  std::string shown() {
    REQUIRE(host->finished());
    gpu.check_quiescent();
    host->check_memory();
    return shown_by(observation, host->results());
  }

  SimFixture fixture;
  const Workload& workload;
  GpuObservation observation{"gpu0"};
  Observation host_observation{"gpu0.host"};
  gpu::Gpu gpu;
  std::unique_ptr<replay::TmdqSubmitter> host;
};

}  // namespace

TEST_CASE("a reset in the middle of pushes leaves nothing behind", "[replay][TSK-06]") {
  for (const std::uint64_t seed : seeds(6)) {
    CAPTURE(seed);
    Random random(seed);
    const Workload w = random_workload(random, 60);
    const gpu::GpuParams params = preset_params("small");
    std::string fresh;
    sc_core::sc_time length;
    {
      Bench bench(w, params);
      bench.host->start();
      run_until_idle();
      length = sc_core::sc_time_stamp();
      fresh = bench.shown();
    }
    Bench bench(w, params);
    for (int i = 0; i < 3; ++i) {
      bench.host->start();
      run_until(sc_core::sc_time_stamp() + length * (random.below(900) / 1000.0));
      bench.reset();
      CHECK(bench.host->done() == 0);
      bench.gpu.check_quiescent();
    }
    bench.host->start();
    run_until_idle();
    CHECK(difference(bench.shown(), fresh) == "");
  }
}

}  // namespace replay_tmdq_submitter_test
