// What a host can do with queues on the whole machine: inactivate them, share them, and look at their clocks (PKT-14).
#include <memory>
#include <string>
#include <vector>

#include "arch/demand.h"
#include "support/packet_programs.h"
#include "support/random.h"

namespace system_queue_control_test {

using namespace heddle;
using namespace heddle::test;
using Machine = PacketLab::Machine;

namespace {

// Every CTA counts one up in the word at kernarg, and then never ends.
std::shared_ptr<const arch::WarpProgram> endless() {
  auto p = std::make_shared<ListProgram>(4);
  const auto at = [](const Warp& w, std::uint32_t) { return w.place.kernarg; };
  ListProgram::Access one;
  one.lanes = [](const Warp&) { return arch::LaneMask{1}; };
  p->atomic(one, arch::AtomicKind::add, arch::ValueType::u32, 1, ListProgram::constant(1), at);
  p->loop(std::uint64_t{1} << 60);
  p->load({}, 0, at);
  p->end_loop();
  p->exit();
  return p;
}

heddle_packet endless_kernel(std::uint64_t object, std::uint32_t ctas, std::uint64_t word, std::uint64_t signal) {
  heddle_dispatch d = PacketLab::dispatch(object, 32 * ctas, 32, signal, false);
  d.kernarg = word;
  return kernel(d);
}

heddle_queue_state state_of(const heddle_queue& queue) {
  heddle_queue_state state{};
  REQUIRE(heddle_queue_get_state(&queue, &state) == HEDDLE_OK);
  return state;
}

void run_us(double us) { sc_core::sc_start(sc_core::sc_time(us, sc_core::SC_US)); }

// The queue works: a kernel steps the word.
void expect_works(PacketLab& lab, heddle_queue& queue) {
  Machine& m = lab[0];
  const std::uint64_t word = lab.take_device(128);
  const std::uint64_t signal = lab.new_signal(0, true, 1);
  m.write<std::uint32_t>(word, 5);
  heddle_dispatch d = PacketLab::dispatch(lab.program_object(0, step_program(2)), 32, 32, signal);
  d.kernarg = word;
  submit(queue, {kernel(d)});
  CHECK(wait_below(m, signal) == 0);
  CHECK(m.read<std::uint32_t>(word) == 17);
}

}  // namespace

TEST_CASE("a kernel that never ends is killed with its queue, and others do not notice", "[system][PKT-14]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing}));
  lab.begin();
  Machine& m = lab[0];
  heddle_queue doomed = lab.open_queue(0, 0, 16, true);
  heddle_queue other = lab.open_queue(0, 1, 16, false);
  const std::uint64_t object = lab.program_object(0, endless(), "endless");
  const std::uint64_t word = lab.take_device(128);
  const std::uint64_t signal = lab.new_signal(0, true, 9);
  m.write<std::uint32_t>(word, 0);
  // More CTAs than fit, more kernels than run at once, one behind a barrier bit.
  std::vector<heddle_packet> packets(6, endless_kernel(object, 400, word, signal));
  heddle_dispatch last = PacketLab::dispatch(object, 32, 32, signal, true);
  last.kernarg = word;
  packets.push_back(kernel(last));
  submit(doomed, packets);
  run_us(30);
  CHECK(m.read<std::uint32_t>(word) > 0);
  CHECK(heddle_queue_destroy(&doomed, 100) == HEDDLE_TIMEOUT);
  CHECK(state_of(doomed) == HEDDLE_QUEUE_STATE_DRAINING);
  REQUIRE(heddle_queue_inactivate(&doomed, 10'000) == HEDDLE_OK);
  CHECK(state_of(doomed) == HEDDLE_QUEUE_STATE_INACTIVE);
  CHECK(m.read<std::int64_t>(signal) == 9);
  expect_works(lab, other);
  const std::uint32_t begun = m.read<std::uint32_t>(word);
  run_us(20);
  CHECK(m.read<std::uint32_t>(word) == begun);
  CHECK(m.gpu.log().faults().empty());
  CHECK(m.stat("task.aborted") == 6);
  REQUIRE(heddle_queue_destroy(&doomed, 1000) == HEDDLE_OK);
  heddle_queue again = lab.open_queue(0, 0, 16, true);
  expect_works(lab, again);
  settle(lab);
}

TEST_CASE("clusters, local memory and device-side launches are killed as well", "[system][PKT-14]") {
  const std::string timing = GENERATE("at", "lt");
  const std::string save = GENERATE("true", "false");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing, "gpu.sm.nested.save=" + save, "gpu.sm.nested.save_delay=200"}));
  lab.begin();
  Machine& m = lab[0];
  heddle_queue queue = lab.open_queue(0, 0, 16, true);
  const std::uint64_t word = lab.take_device(128);
  const std::uint64_t signal = lab.new_signal(0, true, 9);
  m.write<std::uint32_t>(word, 0);
  arch::KernelShape shape;
  shape.block = {32, 1, 1};
  const std::uint32_t program = m.gpu.add_code(endless(), shape);
  // Clusters of four, with local memory.
  heddle_kernel_object clustered{};
  clustered.program = program;
  clustered.extents[HEDDLE_CLUSTER_GPC][0] = 4;
  clustered.extents[HEDDLE_CLUSTER_GPC][1] = clustered.extents[HEDDLE_CLUSTER_GPC][2] = 1;
  heddle_dispatch d = PacketLab::dispatch(lab.new_object(0, clustered), 32 * 8, 32, signal, false);
  d.kernarg = word;
  d.private_segment = 64;
  // A parent that waits for children, which never end.
  heddle_kernel_object child{};
  child.program = program;
  child.threads_limit = 32;
  const std::uint64_t child_object = lab.new_object(0, child);
  auto parent = std::make_shared<ListProgram>(4);
  parent->launch_child([child_object, word](const Warp&, std::uint32_t) {
    arch::ChildLaunch launch;
    launch.kernel = child_object;
    launch.args[0] = word;
    return launch;
  });
  parent->wait_children();
  parent->exit();
  heddle_dispatch p = PacketLab::dispatch(lab.program_object(0, parent, "parent"), 32 * 20, 32, signal, false);
  submit(queue, {kernel(d), kernel(p)});
  run_us(60);
  CHECK(m.stat("task.children") > 0);
  REQUIRE(heddle_queue_inactivate(&queue, 20'000) == HEDDLE_OK);
  CHECK(m.read<std::int64_t>(signal) == 9);
  CHECK(m.stat("task.aborted") == 2);
  REQUIRE(heddle_queue_destroy(&queue, 1000) == HEDDLE_OK);
  heddle_queue again = lab.open_queue(0, 0, 16, true);
  expect_works(lab, again);
  settle(lab);
}

TEST_CASE("kernels that run for a duration are killed at once, and their SMs are free", "[system][PKT-14]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  const std::string records = GENERATE("false", "true");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing, "gpu.task.host_records=" + records}));
  lab.begin();
  Machine& m = lab[0];
  heddle_queue doomed = lab.open_queue(0, 0, 16, true);
  heddle_queue other = lab.open_queue(0, 1, 16, true);
  constexpr std::uint64_t kSecond = 1'000'000'000;  // cycles
  heddle_kernel_object clustered{};
  clustered.shortest = clustered.longest = kSecond;
  clustered.extents[HEDDLE_CLUSTER_GPC][0] = 4;
  clustered.extents[HEDDLE_CLUSTER_GPC][1] = clustered.extents[HEDDLE_CLUSTER_GPC][2] = 1;
  const std::uint64_t signal = lab.new_signal(0, true, 9);
  arch::Demand lasting;
  lasting.floor_ns = 1e9;
  arch::KernelShape shape;
  shape.block = {32, 1, 1};
  heddle_kernel_object demanding{};
  demanding.program = m.gpu.add_code(std::make_shared<const arch::Demand>(lasting), shape);
  // All SMs are full, and more CTAs wait; clusters, and one behind a barrier bit.
  const std::uint64_t full = lab.timed_object(0, kSecond);
  submit(doomed, {kernel(PacketLab::dispatch(lab.new_object(0, demanding), 32 * 8, 32, signal, false)),
                  kernel(PacketLab::dispatch(lab.new_object(0, clustered), 32 * 8, 32, signal, false)),
                  kernel(PacketLab::dispatch(full, 1024 * 400, 1024, signal, false)),
                  kernel(PacketLab::dispatch(full, 32, 32, signal, true))});
  run_us(30);
  const double launched = m.stat("cwd.ctas_launched");
  CHECK(launched > 8);
  const sc_core::sc_time asked = sc_core::sc_time_stamp();
  REQUIRE(heddle_queue_inactivate(&doomed, 1000) == HEDDLE_OK);
  CHECK(sc_core::sc_time_stamp() - asked < sc_core::sc_time(10, sc_core::SC_US));
  CHECK(state_of(doomed) == HEDDLE_QUEUE_STATE_INACTIVE);
  CHECK(m.read<std::int64_t>(signal) == 9);
  CHECK(m.stat("task.aborted") == 3);
  // Whoever needs all SMs has them now, and every CTA has been counted once.
  const std::uint64_t done = lab.new_signal(0, true, 1);
  const sc_core::sc_time begun = sc_core::sc_time_stamp();
  submit(other, {kernel(PacketLab::dispatch(lab.timed_object(0, 100), 1024 * 400, 1024, done))});
  CHECK(wait_below(m, done) == 0);
  CHECK(sc_core::sc_time_stamp() - begun < sc_core::sc_time(60, sc_core::SC_US));
  CHECK(m.stat("cwd.ctas_launched") == m.stat("cwd.ctas_completed"));
  CHECK(m.gpu.log().faults().empty());
  // Nothing waits for the ends that never came.
  const sc_core::sc_time before = sc_core::sc_time_stamp();
  sc_core::sc_start();
  CHECK(sc_core::sc_time_stamp() - before < sc_core::sc_time(50, sc_core::SC_US));
  REQUIRE(heddle_queue_destroy(&doomed, 1000) == HEDDLE_OK);
  heddle_queue again = lab.open_queue(0, 0, 16, true);
  expect_works(lab, again);
  settle(lab);
}

TEST_CASE("a killed kernel whose CTAs were saved ends, though more urgent ones never do", "[system][PKT-14][TSK-16]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  const bool timed = GENERATE(false, true);
  const bool exact = GENERATE(false, true);  // the urgent kernel is on the machine as a whole, or has CTAs left
  const std::string slots = GENERATE("1", "128");
  CAPTURE(timing, timed, exact, slots);
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing, "gpu.cwd.preemption=instruction", "gpu.cwd.preempt_again=500",
                       "gpu.cwd.table_slots=" + slots}));
  lab.begin();
  Machine& m = lab[0];
  heddle_queue doomed = lab.open_queue(0, 0, 16, true, 1);
  heddle_queue urgent = lab.open_queue(0, 1, 16, true, 7);
  constexpr std::uint64_t kSecond = 1'000'000'000;  // cycles
  const std::uint64_t endless_object =
      timed ? lab.timed_object(0, kSecond) : lab.program_object(0, endless(), "endless");
  const std::uint64_t words = lab.take_device(256);
  m.write<std::uint32_t>(words, 0);
  m.write<std::uint32_t>(words + 128, 0);
  const std::uint64_t signal = lab.new_signal(0, true, 9);
  submit(doomed, {endless_kernel(endless_object, 2000, words, signal)});
  run_us(40);
  const auto full = static_cast<std::uint32_t>(m.stat("cwd.ctas_launched"));  // as many as fit
  REQUIRE(full < 2000);
  submit(urgent, {endless_kernel(endless_object, exact ? full : 2000, words + 128, signal)});
  run_us(100);
  REQUIRE(m.stat("cwd.preemptions") > 0);
  REQUIRE(m.stat("cwd.ctas_launched") >= 2 * full);
  const double returned = m.stat("cwd.returned");
  REQUIRE(returned > 0);
  REQUIRE(heddle_queue_inactivate(&doomed, 5000) == HEDDLE_OK);
  CHECK(m.stat("task.aborted") == 1);
  run_us(30);
  CHECK(state_of(urgent) == HEDDLE_QUEUE_STATE_ACTIVE);
  REQUIRE(heddle_queue_inactivate(&urgent, 5000) == HEDDLE_OK);
  CHECK(m.stat("task.aborted") == 2);
  CHECK(m.read<std::int64_t>(signal) == 9);
  CHECK(m.gpu.log().faults().empty());
  heddle_queue again = lab.open_queue(0, 2, 16, true);
  expect_works(lab, again);
  settle(lab);
}

TEST_CASE("queues can be inactivated at any time, whatever their kernels are doing", "[system][PKT-14]") {
  Random random(seed());
  for (std::uint32_t round = 0; round < (long_tests() ? 400U : 24U); ++round) {
    CAPTURE(round);
    const std::vector<std::string> timings{"at", "fast", "lt"};
    SimFixture fixture;
    PacketLab lab(small({"gpu.timing=" + timings[round % 3],
                         "gpu.cwd.table_slots=" + std::to_string(random.chance(50) ? random.between(1, 4) : 128),
                         "gpu.task.list_entries=" + std::to_string(random.between(1, 8)),
                         std::string("gpu.task.host_records=") + (random.chance(50) ? "true" : "false")}));
    lab.begin();
    Machine& m = lab[0];
    const std::uint64_t endless_object = lab.program_object(0, endless(), "endless");
    const std::uint64_t timed = lab.timed_object(0, random.between(100, 5000));
    const std::uint64_t long_timed = lab.timed_object(0, 1'000'000'000, "long");
    heddle_kernel_object clusters{};
    clusters.shortest = clusters.longest = 1'000'000'000;
    clusters.extents[HEDDLE_CLUSTER_GPC][0] = 2;
    clusters.extents[HEDDLE_CLUSTER_GPC][1] = clusters.extents[HEDDLE_CLUSTER_GPC][2] = 1;
    clusters.name = "clusters";
    const std::uint64_t long_clusters = lab.new_object(0, clusters);
    const std::uint64_t word = lab.take_device(128);
    std::vector<heddle_queue> queues;
    std::vector<std::uint64_t> signals;
    std::vector<std::uint32_t> sent;
    for (std::uint32_t q = 0; q < 3; ++q) {
      queues.push_back(lab.open_queue(0, q, 32, random.chance(50), static_cast<std::int32_t>(random.below(3))));
      signals.push_back(lab.new_signal(0, random.chance(50), 1000));
      std::vector<heddle_packet> packets;
      for (std::uint32_t i = random.between(1, 10); i > 0; --i) {
        heddle_dispatch d = PacketLab::dispatch(timed, 32 * random.between(1, 300), 32, signals[q], random.chance(20));
        // Queue 2 is to go on: nothing of it may wait for ever.
        const bool forever = q < 2 && random.chance(40);
        const bool clustered = random.chance(40);
        const std::uint64_t lasting = clustered ? long_clusters : random.chance(50) ? endless_object : long_timed;
        const std::uint32_t ctas = random.between(1, 150) * 2;
        packets.push_back(forever ? endless_kernel(lasting, ctas, word, signals[q]) : kernel(d));
      }
      submit(queues[q], packets);
      sent.push_back(static_cast<std::uint32_t>(packets.size()));
      run_us(random.between(1, 4));
    }
    run_us(random.between(1, 40));
    REQUIRE(heddle_queue_inactivate(&queues[0], 50'000) == HEDDLE_OK);
    REQUIRE(heddle_queue_inactivate(&queues[1], 50'000) == HEDDLE_OK);
    CHECK(wait_below(m, signals[2], 1001 - static_cast<std::int64_t>(sent[2])) == 1000 - sent[2]);
    for (std::uint32_t q = 0; q < 2; ++q) {
      const auto value = m.read<std::int64_t>(signals[q]);
      CHECK((value <= 1000 && value >= 1000 - sent[q]));
      REQUIRE(heddle_queue_destroy(&queues[q], 1000) == HEDDLE_OK);
    }
    settle(lab);
  }
}

TEST_CASE("producers share a queue by its write index, and their packets are found without polls", "[system][PKT-14]") {
  const std::string timing = GENERATE("at", "lt");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing}));
  lab.begin();
  Machine& m = lab[0];
  heddle_queue first = lab.open_queue(0, 3, 8, true);
  heddle_queue second{};
  REQUIRE(heddle_queue_attach(&second, &m.device, 3, &first.setup) == HEDDLE_OK);
  const std::uint64_t signal = lab.new_signal(0, true, 40);
  const std::uint64_t object = lab.timed_object(0, 200);
  const heddle_packet packet = kernel(PacketLab::dispatch(object, 32, 32, signal, false));
  for (std::uint32_t round = 0; round < 20; ++round) {
    std::uint64_t late = 0;
    std::uint64_t early = 0;
    heddle_status status = HEDDLE_FULL;
    for (int i = 0; i < 1000 && status == HEDDLE_FULL; ++i) {
      status = heddle_queue_reserve(&first, 1, &late);
      if (status == HEDDLE_FULL) m.bus.relax(nullptr);
    }
    REQUIRE(status == HEDDLE_OK);
    status = HEDDLE_FULL;
    for (int i = 0; i < 1000 && status == HEDDLE_FULL; ++i) {
      status = heddle_queue_reserve(&second, 1, &early);
      if (status == HEDDLE_FULL) m.bus.relax(nullptr);
    }
    REQUIRE(status == HEDDLE_OK);
    CHECK(early == late + 1);
    REQUIRE(heddle_queue_publish(&second, early, &packet) == HEDDLE_OK);
    REQUIRE(heddle_queue_ring(&second, early) == HEDDLE_OK);
    run_us(3);
    REQUIRE(heddle_queue_publish(&first, late, &packet) == HEDDLE_OK);
    REQUIRE(heddle_queue_ring(&first, round % 2 == 0 ? late : ~std::uint64_t{0} >> 1) == HEDDLE_OK);
  }
  CHECK(wait_below(m, signal) == 0);
  const double reads = m.stat("packet.fetches");
  run_us(200);
  CHECK(m.stat("packet.fetches") == reads);
  settle(lab);
}

TEST_CASE("the machine's registers say how its condensed packets are written", "[system][HST-01][PKT-13]") {
  const auto setup_of = [](const std::vector<std::string>& sets) {
    SimFixture fixture;
    PacketLab lab(small(sets));
    lab.begin();
    heddle_packet_setup setup{};
    REQUIRE(heddle_device_packets(&lab[0].device, &setup) == HEDDLE_OK);
    return setup;
  };
  const heddle_packet_setup usual = setup_of({});
  CHECK((usual.table_entries == 8 && usual.format.reference_bits == 3 && usual.format.vector_bits == 13));
  CHECK_FALSE((usual.format.stored || usual.shared_table || usual.overlap));
  const heddle_packet_setup other =
      setup_of({"gpu.packet.entries=32", "gpu.packet.reference_bits=8", "gpu.packet.vector_bits=24",
                "gpu.packet.diff=stored", "gpu.packet.table_owner=agent", "gpu.packet.condensed=overlap"});
  CHECK((other.table_entries == 32 && other.format.reference_bits == 8 && other.format.vector_bits == 24));
  CHECK((other.format.stored && other.shared_table && other.overlap));
}

TEST_CASE("a process rings its own queues in its own page", "[system][PKT-14]") {
  SimFixture fixture;
  PacketLab lab(small({"gpu.host.doorbell_page=16384"}));
  lab.begin();
  Machine& m = lab[0];
  CHECK(m.device.doorbell_page == 16'384);
  heddle_queue mine = lab.open_queue(0, 0, 8, true, 0, 5);
  heddle_queue theirs = lab.open_queue(0, 1, 8, true, 0, 6);
  // All of BAR0 that a process of subcontext 5 has: its page.
  struct Process {
    Machine& machine;
    bool refused = false;
  } process{m};
  heddle_device device = m.device;
  device.bus.context = &process;
  device.bus.read = [](void*, std::uint32_t, unsigned, std::uint64_t*) { return false; };
  device.bus.write = [](void* p, std::uint32_t offset, unsigned bytes, std::uint64_t value) {
    auto* its = static_cast<Process*>(p);
    const std::uint32_t page = HEDDLE_REG_DOORBELL(0) + 5 * 16'384;
    const bool mapped = offset >= page && offset < page + 16'384;
    const bool done = mapped && its->machine.bus.write(&its->machine, offset, bytes, value);
    its->refused = its->refused || !done;
    return done;
  };
  const auto forward_load = [](void* p, std::uint64_t address, void* to, std::size_t bytes) {
    Machine& machine = static_cast<Process*>(p)->machine;
    return machine.bus.load(&machine, address, to, bytes);
  };
  device.bus.load = forward_load;
  device.bus.store = [](void* p, std::uint64_t address, const void* from, std::size_t bytes) {
    Machine& machine = static_cast<Process*>(p)->machine;
    return machine.bus.store(&machine, address, from, bytes);
  };
  device.bus.fetch_add = [](void* p, std::uint64_t address, std::uint64_t value, std::uint64_t* old) {
    Machine& machine = static_cast<Process*>(p)->machine;
    return machine.bus.fetch_add(&machine, address, value, old);
  };
  device.bus.compare_exchange = [](void* p, std::uint64_t address, std::uint64_t expected, std::uint64_t value,
                                   std::uint64_t* old) {
    Machine& machine = static_cast<Process*>(p)->machine;
    return machine.bus.compare_exchange(&machine, address, expected, value, old);
  };
  const std::uint64_t signal = lab.new_signal(0, true, 2);
  const std::uint64_t object = lab.timed_object(0, 100);
  const heddle_packet packet = kernel(PacketLab::dispatch(object, 32, 32, signal));
  heddle_queue attached{};
  REQUIRE(heddle_queue_attach(&attached, &device, 0, &mine.setup) == HEDDLE_OK);
  REQUIRE(heddle_queue_submit(&attached, &packet, 1, 100, nullptr) == HEDDLE_OK);
  CHECK(wait_below(m, signal, 2) == 1);
  CHECK_FALSE(process.refused);
  // The other's queue: not in this page, whatever it is called.
  heddle_queue_setup forged = theirs.setup;
  forged.subcontext = 5;
  heddle_queue thief{};
  REQUIRE(heddle_queue_attach(&thief, &device, 1, &forged) == HEDDLE_OK);
  CHECK(heddle_queue_ring(&thief, 0) == HEDDLE_BUS);
  CHECK(process.refused);
  submit(theirs, {packet});
  CHECK(wait_below(m, signal) == 0);
  settle(lab);
}

TEST_CASE("time stamps are of the clock that the device tells", "[system][PKT-14]") {
  const std::string timing = GENERATE("at", "lt");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing}));
  lab.begin();
  Machine& m = lab[0];
  heddle_queue queue = lab.open_queue(0, 0, 8, true);
  for (const bool in_host : {false, true}) {
    const std::uint64_t signal = lab.take(in_host, 64) | HEDDLE_SIGNAL_TIMESTAMPS;
    REQUIRE(heddle_signal_init(&m.bus, signal, 1, 0, 0) == HEDDLE_OK);
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    REQUIRE(heddle_device_timestamp(&m.device, &before) == HEDDLE_OK);
    submit(queue, {kernel(PacketLab::dispatch(lab.timed_object(0, 20'000), 32, 32, signal))});
    CHECK(wait_below(m, signal) == 0);
    REQUIRE(heddle_device_timestamp(&m.device, &after) == HEDDLE_OK);
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    REQUIRE(heddle_signal_times(&m.bus, signal, &start, &end) == HEDDLE_OK);
    CHECK(before <= start);
    CHECK(end <= after);
    const double cycles = static_cast<double>(end - start) * 1000 / m.device.clock_period;
    CHECK(cycles >= 20'000);
    CHECK(cycles < 20'400);
  }
  settle(lab);
}

// In device memory whoever writes, a kernel or the host through the aperture, is seen: nothing is polled.
TEST_CASE("what writes a dependency signal in device memory wakes who waits for it", "[system][PKT-14]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing, "gpu.packet.poll=1000000000"}));
  lab.begin();
  Machine& m = lab[0];
  heddle_queue waits = lab.open_queue(0, 0, 8, true);
  heddle_queue works = lab.open_queue(0, 1, 8, true);
  auto writer = std::make_shared<ListProgram>(4);
  const auto at = [](const Warp& w, std::uint32_t) { return w.place.kernarg; };
  const auto first = [](const Warp&) { return arch::LaneMask{1}; };
  const ListProgram::Access wide{arch::Space::global, 8, arch::Order::weak, arch::Scope::gpu, first};
  writer->store(wide, ListProgram::constant(0), at);
  writer->exit();
  const std::uint64_t object = lab.program_object(0, writer, "writer");
  for (std::uint32_t how = 0; how < 5; ++how) {
    CAPTURE(how);
    const std::uint64_t dependency = lab.new_signal(0, false, 1);
    const std::uint64_t done = lab.new_signal(0, true, 1);
    heddle_packet barrier{};
    REQUIRE(heddle_packet_barrier(&barrier, HEDDLE_PACKET_BARRIER_AND, 0, &dependency, 1, done) == HEDDLE_OK);
    submit(waits, {barrier});
    run_us(20);
    CHECK(m.read<std::int64_t>(done) == 1);
    const double polls = m.stat("packet.signal_polls");
    run_us(100);
    CHECK(m.stat("packet.signal_polls") == polls);
    if (how == 0) {  // a kernel
      heddle_dispatch d = PacketLab::dispatch(object, 32, 32);
      d.kernarg = dependency;
      submit(works, {kernel(d)});
    } else if (how == 1) {  // the completion of another packet
      submit(works, {kernel(PacketLab::dispatch(lab.timed_object(0, 10), 32, 32, dependency))});
    } else if (how == 2) {  // the host
      REQUIRE(heddle_signal_store(&m.bus, dependency, 0) == HEDDLE_OK);
    } else if (how == 3) {  // a copy engine
      heddle_packet fill{};
      heddle_packet_fill(&fill, 0, dependency, 8, 0, 0);
      submit(works, {fill});
    } else {  // a debugger
      const std::uint64_t zero = 0;
      REQUIRE(m.gpu.memory().write(dependency, &zero, sizeof zero));
    }
    CHECK(wait_below(m, done) == 0);
  }
  // Through a pointer: the machine does not see that write, so giving the pointer away makes it look again, which
  // takes the pointer back.
  const std::uint64_t dependency = lab.new_signal(0, false, 1);
  const std::uint64_t done = lab.new_signal(0, true, 1);
  heddle_packet barrier{};
  REQUIRE(heddle_packet_barrier(&barrier, HEDDLE_PACKET_BARRIER_AND, 0, &dependency, 1, done) == HEDDLE_OK);
  submit(waits, {barrier});
  run_us(20);
  std::uint8_t* pointer = nullptr;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  REQUIRE(m.gpu.memory().direct(dependency, pointer, from, to));
  pointer[dependency - from] = 0;
  CHECK(wait_below(m, done) == 0);
  settle(lab);
}

TEST_CASE("a platform is told what stops a queue, and the host can read why", "[system][PKT-14]") {
  SimFixture fixture;
  PacketLab lab(small());
  lab.begin();
  Machine& m = lab[0];
  heddle_queue queue = lab.open_queue(0, 2, 8, true);
  heddle_dispatch d = PacketLab::dispatch(lab.timed_object(0, 10), 32, 32, lab.new_signal(0, true, 1));
  d.kernarg = 8;
  static std::vector<std::string> told;
  told.clear();
  sc_core::sc_report_handler::set_handler([](const sc_core::sc_report& report, const sc_core::sc_actions&) {
    told.push_back(std::string(report.get_msg_type()) + ": " + report.get_msg());
  });
  submit(queue, {kernel(d)});
  CHECK(wait_below(m, d.completion_signal) == -0x1001);
  run_us(1);
  sc_core::sc_report_handler::set_handler(nullptr);
  heddle_error error{};
  REQUIRE(heddle_queue_error(&queue, &error) == HEDDLE_OK);
  CHECK(error.reason == HEDDLE_REASON_KERNARG_ALIGNMENT);
  CHECK(std::string(heddle_reason_text(error.reason)) == "kernarg is not aligned to 16 bytes");
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("/heddle/queue: ") == 0);
  CHECK(told[0].find("queue 2, packet 0: invalid argument (0x1001): kernarg is not aligned to 16 bytes") !=
        std::string::npos);
  settle(lab);
}

}  // namespace system_queue_control_test
