// The host of a replay: what it submits and when, against a device that only takes notes.
#include "replay/stream_submitter.h"

#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "common/packet_socket.h"
#include "replay/replay_bench.h"
#include "support/random.h"
#include "support/sim_fixture.h"

namespace replay_stream_submitter_test {

using namespace heddle;
using namespace heddle::test;
using protocol::SubmitKind;
using protocol::SubmitPacket;
using replay::OpResult;
using replay::Pace;
using replay::StreamSubmitter;
using replay::SubmissionTimings;
using workload::Workload;

namespace {

// Notes every packet and the nanosecond of its arrival; answers operations `answer_after` later. Gives a credit back
// `credit_after` a packet's arrival.
class NotingDevice : public sc_core::sc_module, private EventHandler {
 public:
  struct Arrival {
    std::int64_t when;  // simulation axis, ns
    SubmitPacket packet;
  };

  explicit NotingDevice(const sc_core::sc_module_name& name)
      : sc_core::sc_module(name),
        domain("domain", 1.0, TimingMode::at, 0, observation_),
        submit_in("submit_in", domain, 0, CreditReturn::by_owner),
        done_out("done_out", domain, 0, kUnlimitedCredits) {
    submit_in.on_packet<NotingDevice, &NotingDevice::on_submit>(*this);
  }

  Cycle answer_after = 10;
  Cycle credit_after = 0;
  protocol::DoneStatus status = protocol::DoneStatus::ok;
  bool answer_twice = false;
  std::vector<Arrival> arrivals;

 private:
  GpuObservation observation_{"device"};

 public:
  Domain domain;
  PacketIn<SubmitPacket> submit_in;
  PacketOut<protocol::DonePacket> done_out;

 private:
  void on_submit(const SubmitPacket& packet, std::uint32_t) {
    arrivals.push_back({static_cast<std::int64_t>(domain.now()), packet});
    if (credit_after == 0) {
      submit_in.return_credit();
    } else {
      domain.schedule_in(credit_after, *this, 1);
    }
    if (packet.kind != SubmitKind::kernel && packet.kind != SubmitKind::hold) return;
    domain.schedule_in(answer_after, *this, 0, arrivals.size() - 1);
    if (answer_twice) domain.schedule_in(answer_after + 1, *this, 0, arrivals.size() - 1);
  }
  void on_event(std::uint32_t kind, std::uint64_t which) override {
    if (kind == 1) {
      submit_in.return_credit();
      return;
    }
    const Arrival& a = arrivals[which];
    const Timebase& clock = domain;
    done_out.send({a.packet.operation, status, clock.time_of(static_cast<Cycle>(a.when)),
                   clock.time_of(static_cast<Cycle>(a.when) + 1), clock.time_of(domain.now())});
  }
};

struct SubmitterBench {
  SubmitterBench(const Workload& workload, Pace pace, const SubmissionTimings& timings = {},
                 const std::vector<replay::TimedShare>& shares = {})
      : device("device"), submitter("host", {workload, pace, timings, {}, shares}, gpu_observation, host_observation) {
    submitter.submit_out.bind(device.submit_in);
    device.done_out.bind(submitter.done_in);
  }
  void run() {
    submitter.start();
    run_until_idle();
  }
  // Operations in the order of their arrival; waits are negative: -1 - operation.
  std::vector<std::int64_t> order() const {
    std::vector<std::int64_t> result;
    for (const auto& a : device.arrivals) {
      const auto operation = static_cast<std::int64_t>(a.packet.operation);
      result.push_back(a.packet.kind == SubmitKind::wait ? -1 - operation : operation);
    }
    return result;
  }
  // Arrivals on the workload's axis.
  std::vector<std::int64_t> times() const {
    std::vector<std::int64_t> result;
    for (const auto& a : device.arrivals) result.push_back(a.when - static_cast<std::int64_t>(submitter.lead()));
    return result;
  }

  SimFixture fixture;
  GpuObservation gpu_observation{"gpu0"};
  Observation host_observation{"gpu0.host"};
  NotingDevice device;
  StreamSubmitter submitter;
};

workload::Op at(workload::Op op, workload::Nanoseconds enqueue) {
  op.enqueue = enqueue;
  return op;
}

// Three kernels in two streams and a copy, called at -4000, -3000, 500 and 900 ns.
Workload recorded_workload() {
  Workload w = empty_workload(2);
  w.ops = {at(kernel_op(0, 1, 10), -4000), at(kernel_op(1, 2, 20), -3000), at(copy_op(0, 750), 500),
           at(kernel_op(1, 4, 40), 900)};
  return w;
}

}  // namespace

TEST_CASE("at the recorded pace operations arrive at their calls plus the launch latency", "[replay][INP-03]") {
  SubmitterBench bench(recorded_workload(), Pace::recorded, {5000, 25});
  bench.run();
  // The device itself spends 25 ns of the latency on a kernel, and nothing on a copy.
  CHECK(bench.times() == std::vector<std::int64_t>{975, 1975, 5500, 5875});
  CHECK(bench.order() == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(bench.submitter.lead() == 0);
  CHECK(bench.submitter.finished());
  CHECK(bench.submitter.done() == 4);
}

TEST_CASE("calls before the recording's first start move the simulation's axis", "[replay][INP-03]") {
  SubmitterBench bench(recorded_workload(), Pace::recorded, {1000, 25});
  bench.run();
  CHECK(bench.times() == std::vector<std::int64_t>{-3025, -2025, 1500, 1875});
  CHECK(bench.submitter.lead() == 3026);  // the link to the device takes a nanosecond
  CHECK(bench.device.arrivals[0].when == 1);
  for (std::size_t op = 0; op < 4; ++op) {
    const OpResult& result = bench.submitter.results()[op];
    CHECK(result.done);
    CHECK_FALSE(result.rejected);
    CHECK(result.submitted == Approx(static_cast<double>(bench.times()[op])).margin(1e-6));
    CHECK(result.start == Approx(result.submitted + 1));
    CHECK(result.end == Approx(result.submitted + 10));
  }
}

TEST_CASE("an operation without a call, or pinned, arrives for its recorded start", "[replay][INP-03]") {
  Workload w = empty_workload(2);
  w.ops = {kernel_op(0, 1, 10), at(kernel_op(1, 1, 10), 100), at(kernel_op(1, 1, 10), 200)};
  w.ops[0].enqueue.reset();
  w.ops[0].not_before = 0;
  w.ops[2].not_before = 7000;  // called at 200, started at 7000 for reasons unknown
  SubmitterBench bench(w, Pace::recorded, {2000, 25});
  bench.run();
  CHECK(bench.times() == std::vector<std::int64_t>{-25, 2075, 6975});
}

TEST_CASE("within a stream the order of the workload wins over the times", "[replay]") {
  Workload w = empty_workload(2);
  w.ops = {at(kernel_op(0, 1, 10), 500), at(kernel_op(1, 1, 10), 300), at(kernel_op(0, 1, 10), 100),
           at(kernel_op(0, 1, 10), 600)};
  SubmitterBench bench(w, Pace::recorded);
  bench.run();
  CHECK(bench.order() == std::vector<std::int64_t>{1, 0, 2, 3});
  CHECK(bench.times() == std::vector<std::int64_t>{300, 500, 500, 600});
}

TEST_CASE("a latency shorter than the device's own way does not go backwards", "[replay]") {
  Workload w = empty_workload(1);
  w.ops = {at(kernel_op(0, 1, 10), 100)};
  SubmitterBench bench(w, Pace::recorded, {10, 25});
  bench.run();
  CHECK(bench.times() == std::vector<std::int64_t>{100});
}

TEST_CASE("as soon as possible means at once, in the order of the workload", "[replay]") {
  Workload w = recorded_workload();
  w.ops[3].not_before = 8000;
  w.ops[1].after.push_back({2, workload::EdgeSource::recorded});
  SubmitterBench bench(w, Pace::asap, {5000, 25});
  bench.run();
  CHECK(bench.order() == std::vector<std::int64_t>{0, -2, 1, 2, 3});
  CHECK(bench.times() == std::vector<std::int64_t>(5, 0));
}

TEST_CASE("edges become waits in front of their operation", "[replay][INP-02]") {
  Workload w = recorded_workload();
  w.ops[3].after = {{0, workload::EdgeSource::recorded}, {2, workload::EdgeSource::inferred}};
  SubmitterBench bench(w, Pace::recorded, {5000, 25});
  bench.run();
  REQUIRE(bench.order() == std::vector<std::int64_t>{0, 1, 2, -4, -4, 3});
  for (const std::size_t i : {3U, 4U}) {
    CHECK(bench.device.arrivals[i].packet.stream == 1);
    CHECK(bench.device.arrivals[i].when == bench.device.arrivals[5].when);
  }
  CHECK(bench.device.arrivals[3].packet.wait_for == 0);
  CHECK(bench.device.arrivals[4].packet.wait_for == 2);
}

TEST_CASE("packets say what the workload says", "[replay][INP-02][INP-11]") {
  Workload w = recorded_workload();
  w.streams[1].priority = 3;
  w.ops[1].kernel.registers_per_thread = 64;
  w.ops[1].kernel.shared_bytes = 2048;
  SubmitterBench bench(w, Pace::recorded);
  bench.run();
  const SubmitPacket& kernel = bench.device.arrivals[1].packet;
  CHECK(kernel.kind == SubmitKind::kernel);
  CHECK(kernel.stream == 1);
  CHECK(kernel.priority == 3);
  CHECK(kernel.kernel.grid == arch::Dim3{2, 1, 1});
  CHECK(kernel.kernel.block == arch::Dim3{128, 1, 1});
  CHECK(kernel.kernel.registers_per_thread == 64);
  CHECK(kernel.kernel.shared_bytes == 2048);
  CHECK(kernel.kernel.duration.min == 20);
  const SubmitPacket& copy = bench.device.arrivals[2].packet;
  CHECK(copy.kind == SubmitKind::hold);
  CHECK(copy.hold_ns == 750);
}

TEST_CASE("TPC switches arrive at their times at any pace, before operations of the same time", "[replay]") {
  const Pace pace = GENERATE(Pace::recorded, Pace::asap);
  Workload w = recorded_workload();
  w.tpc_switches = {{1, 2, true, 5500, {}}, {3, 0, false, 0, {}}, {0, 1, false, 5500, {}}, {0, 1, true, 90'000, {}}};
  SubmitterBench bench(w, pace, {5000, 25});
  bench.run();
  std::vector<std::string> seen;
  for (std::size_t i = 0; i < bench.device.arrivals.size(); ++i) {
    const SubmitPacket& packet = bench.device.arrivals[i].packet;
    seen.push_back(packet.kind == SubmitKind::control ? fmt::format("{}: {}.{}={}", bench.times()[i], packet.tpc.gpc,
                                                                    packet.tpc.tpc, packet.tpc.enabled ? "on" : "off")
                                                      : fmt::format("{}: {}", bench.times()[i], packet.operation));
  }
  if (pace == Pace::asap) {
    CHECK(seen == std::vector<std::string>{"0: 3.0=off", "0: 0", "0: 1", "0: 2", "0: 3", "5500: 1.2=on",
                                           "5500: 0.1=off", "90000: 0.1=on"});
  } else {
    CHECK(seen == std::vector<std::string>{"0: 3.0=off", "975: 0", "1975: 1", "5500: 1.2=on", "5500: 0.1=off",
                                           "5500: 2", "5875: 3", "90000: 0.1=on"});
  }
  CHECK(bench.submitter.operations() == 4);
  CHECK(bench.submitter.finished());
}

TEST_CASE("a host that has only switches left holds no operation back", "[replay]") {
  Workload w = recorded_workload();
  w.tpc_switches = {{0, 0, false, 1000, {}}, {0, 0, true, 50'000, {}}};
  SubmitterBench bench(w, Pace::recorded, {1000, 25});
  bench.submitter.start();
  run_until({4'000, sc_core::SC_NS});  // 974 on the workload's axis: the first switch is next
  WaitGraph graph;
  bench.submitter.domain.collect_waits(graph);
  REQUIRE(graph.size() == 1);
  CHECK(graph.chain().at(0).find("operation 2") != std::string::npos);
  run_until({20'000, sc_core::SC_NS});
  WaitGraph later;
  bench.submitter.domain.collect_waits(later);
  CHECK(later.size() == 0);
}

TEST_CASE("more operations than credits arrive all the same, in order", "[replay]") {
  for (const std::uint64_t seed : seeds(20)) {
    CAPTURE(seed);
    Random random(seed);
    Workload w = empty_workload(random.between(1, 6));
    workload::Nanoseconds call = 0;
    for (int i = 0; i < 3000; ++i) {
      w.ops.push_back(at(kernel_op(random.below(w.streams.size()), 1, 1), call += random.below(3)));
      if (i > 0 && random.chance(20)) w.ops.back().after.push_back({random.below(i), workload::EdgeSource::recorded});
    }
    SubmitterBench bench(w, random.chance(50) ? Pace::recorded : Pace::asap);
    bench.device.credit_after = random.between(1, 5000);
    bench.run();
    REQUIRE(bench.submitter.finished());
    std::int64_t last = -1;
    std::size_t waits = 0;
    for (const std::int64_t operation : bench.order()) {
      if (operation < 0) {
        ++waits;
        CHECK(-1 - operation == last + 1);
        continue;
      }
      REQUIRE(operation == last + 1);
      last = operation;
    }
    CHECK(last == 2999);
    std::size_t edges = 0;
    for (const workload::Op& op : w.ops) edges += op.after.size();
    CHECK(waits == edges);
  }
}

TEST_CASE("a rejected operation is a result, and one reported twice a bug", "[replay]") {
  SubmitterBench bench(recorded_workload(), Pace::asap);
  SECTION("rejected") {
    bench.device.status = protocol::DoneStatus::rejected;
    bench.run();
    for (const OpResult& result : bench.submitter.results()) CHECK((result.done && result.rejected));
  }
  SECTION("twice") {
    bench.device.answer_twice = true;
    CHECK(failure_of([&] { bench.run(); }).find("reported twice") != std::string::npos);
  }
}

TEST_CASE("a host begins anew after a reset, and only then", "[replay]") {
  SubmitterBench bench(recorded_workload(), Pace::recorded, {1000, 25});
  bench.submitter.start();
  CHECK(failure_of([&] { bench.submitter.start(); }).find("started twice") != std::string::npos);
  run_until({2500, sc_core::SC_NS});
  const auto interrupted = bench.submitter.done();
  CHECK(interrupted == 2);
  CHECK_FALSE(bench.submitter.finished());
  bench.submitter.domain.reset();
  bench.device.domain.reset();
  bench.device.arrivals.clear();
  CHECK(bench.submitter.done() == 0);
  CHECK_FALSE(bench.submitter.results()[0].done);
  bench.submitter.start();
  run_until_idle();
  CHECK(bench.order() == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(bench.times() == std::vector<std::int64_t>{-3025, -2025, 1500, 1875});
  CHECK(bench.submitter.results()[3].end == Approx(1885));
}

TEST_CASE("an empty workload is finished at once", "[replay]") {
  SubmitterBench bench(empty_workload(1), Pace::recorded);
  bench.run();
  CHECK(bench.submitter.finished());
  CHECK(bench.device.arrivals.empty());
}

TEST_CASE("a host that holds operations back says so", "[replay]") {
  SubmitterBench bench(recorded_workload(), Pace::recorded, {1000, 25});
  bench.submitter.start();
  run_until({2500, sc_core::SC_NS});
  WaitGraph graph;
  bench.submitter.domain.collect_waits(graph);
  REQUIRE(graph.size() == 1);
  const std::string chain = graph.chain().at(0);
  CHECK(chain.find("copy (operation 2, stream s0)") != std::string::npos);
  CHECK(chain.find("the host") != std::string::npos);
}

TEST_CASE("operations have priority, place and queue; a queue is closed once its appenders have ended",
          "[replay][TSK-01][TSK-05]") {
  Workload w = empty_workload(2);
  w.streams[1].priority = 4;
  w.ops = {kernel_op(0, 1, 10), kernel_op(1, 1, 10), kernel_op(1, 1, 10)};
  w.ops[0].queue = workload::QueueUse{0x4000, 7, {1, 2}};
  w.ops[1].priority = -2;
  w.ops[2].head = true;
  SubmitterBench bench(w, Pace::asap);
  bench.run();
  REQUIRE(bench.device.arrivals.size() == 6);
  const auto& queue = bench.device.arrivals[0].packet;
  CHECK(queue.queue == 0x4000);
  CHECK(queue.entries == 7);
  CHECK(queue.held_open);
  for (std::size_t i = 1; i < 4; ++i) {
    const auto& packet = bench.device.arrivals[i].packet;
    CHECK(packet.kind == (i < 3 ? SubmitKind::wait : SubmitKind::close));
    CHECK(packet.stream == 2);  // nobody else's
    CHECK(packet.wait_for == (i < 3 ? i : 0));
  }
  CHECK(bench.device.arrivals[4].packet.priority == -2);
  CHECK_FALSE(bench.device.arrivals[4].packet.head);
  CHECK(bench.device.arrivals[5].packet.priority == 4);
  CHECK(bench.device.arrivals[5].packet.head);
  CHECK(bench.submitter.done() == 3);

  w.ops[0].queue->until.clear();
  SubmitterBench open(w, Pace::asap);
  open.run();
  CHECK_FALSE(open.device.arrivals[0].packet.held_open);
  CHECK(open.device.arrivals.size() == 3);
}

TEST_CASE("how the machine is shared comes before all operations, changes at their times", "[replay][PRT-07]") {
  Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 1, 10), kernel_op(0, 1, 10)};
  w.ops[1].enqueue = 500;
  std::vector<replay::TimedShare> shares(3);
  shares[0].packet.what = protocol::SubcontextPacket::What::page_table;
  shares[1].packet.value = 3;
  shares[2].when = 300;
  for (const Pace pace : {Pace::recorded, Pace::asap}) {
    SubmitterBench bench(w, pace, {}, shares);
    bench.run();
    REQUIRE(bench.device.arrivals.size() == 5);
    const auto kind = [&](std::size_t i) { return bench.device.arrivals[i].packet.kind; };
    CHECK(kind(0) == SubmitKind::share);
    CHECK(bench.device.arrivals[0].packet.share.what == protocol::SubcontextPacket::What::page_table);
    CHECK(kind(1) == SubmitKind::share);
    CHECK(bench.device.arrivals[1].packet.share.value == 3);
    const std::size_t change = pace == Pace::recorded ? 3 : 4;
    CHECK(kind(change) == SubmitKind::share);
    CHECK(bench.times()[change] == 300);
  }
}

TEST_CASE("at the host's pace calls keep their times, and nothing is held until a recorded start", "[replay][INP-03]") {
  Workload w = empty_workload(2);
  for (std::size_t i = 0; i < 4; ++i) w.ops.push_back(kernel_op(i % 2, 1, 100));
  w.ops[0].enqueue.reset();
  w.ops[0].not_before = 900;
  w.ops[1].enqueue = 400;
  w.ops[1].not_before = 7'000;
  w.ops[2].enqueue = 500;
  w.ops[3].enqueue = 300;
  const replay::SubmissionTimings timings{100, 40};
  CHECK(replay::host_times(w, Pace::host, timings) == std::vector<std::int64_t>{0, 460, 560, 460});
  CHECK(replay::host_times(w, Pace::recorded, timings) == std::vector<std::int64_t>{860, 6'960, 860, 6'960});
  CHECK(replay::host_times(w, Pace::asap, timings) == std::vector<std::int64_t>{0, 0, 0, 0});
}

}  // namespace replay_stream_submitter_test
