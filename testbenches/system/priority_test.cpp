// Priorities on the whole machine (TSK-03, TSK-04): a full machine, a full task table, and a task that is more urgent.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/kernel_object.h"
#include "support/gpu_lab.h"
#include "support/random.h"

namespace system_priority_test {

using namespace heddle;
using namespace heddle::test;

namespace {

// Kernels without a program: CTAs of `cycles`, as large as a part of an SM.
protocol::SubmitPacket timed(std::uint32_t operation, std::uint32_t stream, std::int32_t priority, std::uint32_t ctas,
                             std::uint64_t shortest, std::uint64_t longest, std::uint32_t threads) {
  protocol::SubmitPacket packet = kernel_packet(operation, stream, {ctas, 1, 1}, {threads, 1, 1});
  packet.priority = priority;
  packet.kernel.duration = {shortest, longest};
  return packet;
}

// Starts and ends of CTAs, by operation.
class CtaTimes : public CtaListener {
 public:
  void cta_started(const Cta& cta) override { starts[cta.task].push_back(cta); }
  void cta_ended(const Cta& cta) override { ends[cta.task].push_back(cta); }
  std::map<std::uint32_t, std::vector<Cta>> starts;
  std::map<std::uint32_t, std::vector<Cta>> ends;
};

constexpr std::uint64_t kObject = 0x10'0000;  // of children
constexpr std::uint64_t kQueue = 0x10'1000;

// Tasks of one CTA that launch children and wait for them, each task in a stream of its own.
class Launchers {
 public:
  Launchers(GpuLab& lab, std::uint32_t children, std::uint64_t cycles) : lab_(lab) {
    arch::KernelObject object;
    object.duration = {cycles, cycles};
    object.name = "child";
    const arch::KernelObjectBytes bytes = arch::encode(object);
    REQUIRE(lab.gpu.memory().write(kObject, bytes.data(), bytes.size()));
    auto program = std::make_shared<ListProgram>(2);
    program->launch_child(
        [](const Warp&, std::uint32_t) {
          arch::ChildLaunch launch;
          launch.kernel = kObject;
          launch.mode = arch::LaunchMode::fire_and_forget;
          return launch;
        },
        {}, [children](const Warp&) { return (arch::LaneMask{1} << children) - 1; });
    program->wait_children();
    program->exit();
    program_ = program;
  }
  // Returns its operation. `queue`: as a queue task with one entry.
  std::uint32_t submit(Cycle when, bool head, bool queue = false) {
    protocol::SubmitPacket packet = lab_.packet(program_, {1, 1, 1}, {32, 1, 1}, 0);
    packet.stream = 100 + packet.operation;
    packet.head = head;
    if (queue) {
      constexpr std::uint64_t kEntry = kQueue + arch::kRecordBytes;
      lab_.write<std::uint64_t>(kQueue + arch::queue::kTickets, 1);
      lab_.write<std::uint64_t>(kQueue + arch::queue::kCapacity, 1);
      lab_.write(kQueue + arch::queue::kEntries, kEntry);
      lab_.write(kEntry, arch::turn_ready(0, 1));
      packet.queue = kQueue;
      packet.entries = 1;
    }
    lab_.host.submit(when, packet);
    return packet.operation;
  }
  std::vector<std::uint32_t> submit_some(std::uint32_t count, Cycle when) {
    std::vector<std::uint32_t> operations;
    for (std::uint32_t i = 0; i < count; ++i) operations.push_back(submit(when + 10 * Cycle{i}, false));
    return operations;
  }

 private:
  GpuLab& lab_;
  std::shared_ptr<const arch::WarpProgram> program_;
};

// Operations in the order in which they started.
std::vector<std::uint32_t> started(const GpuLab& lab, std::vector<std::uint32_t> operations) {
  std::sort(operations.begin(), operations.end(), [&lab](std::uint32_t a, std::uint32_t b) {
    return lab.host.results.at(a).start < lab.host.results.at(b).start;
  });
  return operations;
}

std::vector<std::uint32_t> head_first(std::uint32_t head, std::vector<std::uint32_t> others) {
  others.insert(others.begin(), head);
  return others;
}

}  // namespace

TEST_CASE("an urgent task starts with the first CTA that makes room, and the evicted one loses none of its own",
          "[system][TSK-03][TSK-02]") {
  Random random(seed());
  for (std::uint32_t round = 0; round < 20; ++round) {
    SimFixture fixture;
    const std::uint32_t slots = random.between(1, 3);
    GpuLab lab(preset_params("small", {"gpu.cwd.table_slots=" + std::to_string(slots), "gpu.cwd.active_pool=0"}));
    CtaTimes times;
    lab.observation.ctas = &times;
    std::vector<std::uint32_t> grids;
    // Grids far larger than the machine fill it, and the table; equals.
    for (std::uint32_t i = 0; i < slots + 1; ++i) {
      grids.push_back(400 + random.below(300));
      lab.host.submit(1, timed(i, i, 0, grids.back(), 2000, 6000, 1024));
    }
    const Cycle arrival = 20'000 + random.below(5000);
    const std::uint32_t urgent = slots + 1;
    lab.host.submit(arrival, timed(urgent, urgent, 5, random.between(1, 10), 500, 900, 1024));
    run_until_idle();
    REQUIRE(lab.host.results.size() == slots + 2);
    lab.gpu.check_quiescent();

    // The first completion after the arrival makes room; it and the way of the task there and back are what it takes.
    const gpu::GpuParams& params = lab.gpu.params();
    const Cycle latency = params.start_path() + 2 * Cycle{params.task.to_cwd} + params.cwd.done_distance +
                          2 * (params.gpc.gpm_to_cwd + params.gpc.gpm_to_mpc + params.gpc.mpc_to_sm) + 60;
    Cycle first_release = ~Cycle{0};
    for (std::uint32_t i = 0; i <= slots; ++i) {
      for (const CtaListener::Cta& cta : times.ends[i]) {
        if (cta.cycle > arrival) first_release = std::min<Cycle>(first_release, cta.cycle);
      }
    }
    const double start = static_cast<double>(lab.host.results.at(urgent).start) * 1e-3;
    INFO("arrival " << arrival << ", first release " << first_release << ", start " << start);
    CHECK(start <= static_cast<double>(std::max(first_release, arrival) + latency));
    CHECK(lab.stat("task.evictions") >= 1);
    // Nobody was interrupted, nobody was lost.
    for (std::uint32_t i = 0; i <= slots; ++i) {
      std::map<std::uint64_t, std::uint64_t> begin;
      for (const CtaListener::Cta& cta : times.starts[i]) begin[cta.index] = cta.cycle;
      CHECK(times.starts[i].size() == begin.size());
      std::vector<std::uint64_t> seen;
      for (const CtaListener::Cta& cta : times.ends[i]) {
        CHECK(cta.cycle - begin.at(cta.index) >= 2000);
        seen.push_back(cta.index);
      }
      CHECK(seen.size() == grids[i]);
      std::sort(seen.begin(), seen.end());
      bool each_once = true;
      for (std::size_t k = 0; k < seen.size(); ++k) each_once = each_once && seen[k] == k;
      CHECK(each_once);
    }
  }
}

TEST_CASE("a task that launches and is inserted at the head starts before all equals that wait",
          "[system][TSK-01][TSK-02][TSK-03]") {
  // Waiting tasks of the host that launch: as many hold records as the table has slots. The others wait for one.
  const std::uint32_t waiting = GENERATE(3U, 9U);
  const std::string in_flight = GENERATE("1", "16");
  const bool queue = GENERATE(false, true);
  CAPTURE(waiting, in_flight, queue);
  SimFixture fixture;
  GpuLab lab(preset_params("small", {"gpu.cwd.table_slots=4", "gpu.sm.nested.launch_instructions=12",
                                     "gpu.task.nested.in_flight=" + in_flight}));
  Launchers launchers(lab, 1, 1000);
  // The table is full until 30,000, 35,000, ...
  for (std::uint32_t i = 0; i < 4; ++i) {
    lab.host.submit(1, timed(1000 + i, i, 0, 1, 30'000 + 5000 * i, 30'000 + 5000 * i, 32));
  }
  const std::vector<std::uint32_t> others = launchers.submit_some(waiting, 1000);
  const std::uint32_t head = launchers.submit(10'000, true, queue);
  run_until_idle();
  REQUIRE(lab.host.results.size() == waiting + 5);
  CHECK(started(lab, head_first(head, others)) == head_first(head, others));
  CHECK(lab.host.results.at(head).status == protocol::DoneStatus::ok);
  // A queue task whose entries only wait for their children has nothing left to launch: others get its slot.
  CHECK(lab.stat("task.evictions") <= (queue ? 1 : 0));
  lab.gpu.check_quiescent();
}

TEST_CASE("with no record left, a task at the head is given one before equals that have not asked for theirs",
          "[system][TSK-01][TSK-02]") {
  const bool queue = GENERATE(false, true);
  CAPTURE(queue);
  SimFixture fixture;
  // As many records as the first one, its children, which run for long, and one more have. The others launch nothing.
  GpuLab lab(preset_params("small",
                           {"gpu.cwd.table_slots=1", "gpu.cwd.evicted_tasks=0", "gpu.sm.nested.launch_instructions=12",
                            "gpu.task.nested.pending_launches=4", "gpu.task.nested.overflow=error"}));
  const std::uint32_t first = Launchers(lab, 2, 20'000).submit(1, false);
  Launchers launchers(lab, 0, 20'000);
  const std::vector<std::uint32_t> others = launchers.submit_some(4, 6000);
  const std::uint32_t head = launchers.submit(10'000, true, queue);
  run_until_idle();
  REQUIRE(lab.host.results.size() == 6);
  // The next one has asked for a record already: it may have one, or not.
  const std::vector<std::uint32_t> behind{first, others[0], head, others[1], others[2], others[3]};
  const std::vector<std::uint32_t> before{first, head, others[0], others[1], others[2], others[3]};
  std::vector<std::uint32_t> all = behind;
  std::sort(all.begin(), all.end());
  const std::vector<std::uint32_t> order = started(lab, all);
  CHECK((order == behind || order == before));
  lab.gpu.check_quiescent();
}

// Lists of one or two entries, a small table, records of all tasks or of some: whoever waits, and wherever, everything
// ends, and every CTA runs once.
TEST_CASE("a machine with tiny lists and a tiny table ends whatever it is given",
          "[system][TSK-01][TSK-02][TSK-03][TSK-12]") {
  double evictions = 0;
  double waits = 0;
  double restores = 0;
  for (const std::uint64_t seed : seeds(12)) {
    CAPTURE(seed);
    Random random(seed);
    SimFixture fixture;
    const auto number = [](std::uint32_t value) { return std::to_string(value); };
    GpuLab lab(preset_params(
        "small",
        {"gpu.cwd.table_slots=" + number(random.between(1, 3)), "gpu.sm.nested.launch_instructions=12",
         "gpu.cwd.evicted_tasks=" + number(random.between(1, 3)), "gpu.sm.nested.save_delay=500",
         "gpu.task.list_entries=" + number(random.between(1, 2)), "gpu.task.list_insert=" + number(random.below(200)),
         "gpu.task.list_take=" + number(random.below(200)),
         std::string("gpu.task.host_records=") + (random.chance(60) ? "true" : "false")}));
    CtaTimes times;
    lab.observation.ctas = &times;
    std::map<std::uint32_t, std::uint32_t> ctas;
    Launchers launchers(lab, 3, 2000);
    for (std::uint32_t i = 0; i < 8; ++i) ctas[launchers.submit(random.below(60'000), random.chance(20))] = 1;
    for (std::uint32_t i = 0; i < 20; ++i) {
      const std::uint32_t operation = 5000 + i;
      ctas[operation] = random.between(1, 60);
      const auto priority = static_cast<std::int32_t>(random.below(4));
      protocol::SubmitPacket packet = timed(operation, i, priority, ctas[operation], 500, 4000, 1024);
      packet.head = random.chance(20);
      lab.host.submit(random.below(60'000), packet);
    }
    run_until_idle();
    REQUIRE(lab.host.results.size() == ctas.size());
    lab.gpu.check_quiescent();
    for (const auto& [operation, count] : ctas) {
      CAPTURE(operation);
      REQUIRE(lab.host.results.at(operation).status == protocol::DoneStatus::ok);
      REQUIRE(times.ends[operation].size() == count);
      std::vector<std::uint64_t> seen;
      for (const CtaListener::Cta& cta : times.ends[operation]) seen.push_back(cta.index);
      std::sort(seen.begin(), seen.end());
      for (std::uint32_t i = 0; i < count; ++i) REQUIRE(seen[i] == i);
    }
    REQUIRE(lab.stat("task.children") == 8 * 3);
    evictions += lab.stat("task.evictions");
    waits += lab.stat("task.list_waits");
    restores += lab.stat("task.restores");
  }
  CHECK(evictions > 50);
  CHECK(waits > 50);
  CHECK(restores > 10);
}

}  // namespace system_priority_test
