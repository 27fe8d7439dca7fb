// What software has set of a device is there after a restore (HST-08): how it is shared, windows, code, reference
// packets, event ids.
#include "gpu/machine_state.h"

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "support/brought_programs.h"

namespace embed_machine_state_test {

using namespace heddle;
using namespace heddle::test;

using Machine = PacketLab::Machine;

namespace {

constexpr std::uint32_t kItems = 250;
constexpr std::uint64_t kTaken = std::uint64_t{1} << 20;  // of each memory, by the first host

struct Lab : PacketLab {
  explicit Lab(const std::vector<std::string>& sets)
      : PacketLab(small(sets), gpu::DeviceMemory::own, std::make_shared<program::CodeImage>()) {
    begin();
  }
};

void share(Machine& m, std::uint32_t command, std::uint32_t subcontext, std::uint64_t value, std::uint32_t tpc = 0) {
  REQUIRE(m.bus.write(&m, HEDDLE_REG_SHARE_SUBCONTEXT, 4, subcontext));
  REQUIRE(m.bus.write(&m, HEDDLE_REG_SHARE_TPC, 4, tpc));
  REQUIRE(m.bus.write(&m, HEDDLE_REG_SHARE_VALUE, 8, value));
  REQUIRE(m.bus.write(&m, HEDDLE_REG_SHARE_COMMAND, 4, command));
}

std::uint64_t reg(Machine& m, std::uint32_t offset, unsigned bytes = 4) {
  std::uint64_t value = 0;
  REQUIRE(m.bus.read(&m, offset, bytes, &value));
  return value;
}

std::string saved(Machine& m) {
  std::ostringstream out;
  m.gpu.state().save(out);
  return out.str();
}

void restore(Machine& m, const std::string& file) {
  std::istringstream in(file);
  m.gpu.state().restore(in);
}

void run_us(double us) { sc_core::sc_start(sc_core::sc_time(us, sc_core::SC_US)); }

std::string host_memory(PacketLab& lab) {
  std::string bytes(kTaken, '\0');
  REQUIRE(lab.memory.read(0, bytes.data(), bytes.size()));
  return bytes;
}

}  // namespace

TEST_CASE("code, reference packets and queues go on in another simulation", "[embed][HST-08][HST-07][PKT-05]") {
  const std::string table = GENERATE("scratch", "memory");
  const std::string timing = GENERATE("at", "fast", "lt");
  const std::vector<std::string> sets{"gpu.packet.table=" + table, "gpu.timing=" + timing};
  std::string file;
  std::string host;
  heddle_queue queue{};
  heddle_queue idle_queue{};
  std::uint64_t y = 0;
  std::uint64_t signal = 0;
  heddle_condensed condensed;
  heddle_condensed_init(&condensed);
  REQUIRE(heddle_condensed_append(&condensed, 2, 0, nullptr) == HEDDLE_OK);
  {
    const SimFixture fixture;
    Lab lab(sets);
    Machine& m = lab[0];
    BroughtProgram brought(kAddKernel);
    brought.load(lab);
    idle_queue = lab.open_queue(0, 3, 8, true);
    queue = lab.open_queue(0, 0, 16, true);
    const std::uint64_t x = lab.take_device(4 * kItems);
    y = lab.take_device(4 * kItems);
    for (std::uint32_t i = 0; i < kItems; ++i) {
      m.write<std::uint32_t>(x + 4 * i, i);
      m.write<std::uint32_t>(y + 4 * i, 0);
    }
    const std::uint64_t arguments = lab.take_device(sizeof(AddArguments));
    m.write(arguments, AddArguments{x, y, kItems, 7});
    signal = lab.new_signal(0, true, 9);
    const heddle_program_kernel add = brought.kernel("add");
    heddle_dispatch dispatch{};
    REQUIRE(heddle_program_dispatch(&add, arguments, signal, &dispatch) == HEDDLE_OK);
    heddle_packet reference{};
    REQUIRE(heddle_packet_reference(&reference, &dispatch, 2) == HEDDLE_OK);
    submit(queue, {reference});
    wait_below(m, signal, 9);
    settle(lab);
    file = saved(m);
    host = host_memory(lab);
  }
  const SimFixture fixture;
  Lab lab(sets);
  Machine& m = lab[0];
  (void)lab.take_host(kTaken);
  (void)lab.take_device(kTaken);
  REQUIRE(lab.memory.write(0, host.data(), host.size()));
  restore(m, file);
  CHECK(saved(m) == file);
  queue.device = idle_queue.device = &m.device;
  submit(queue, {condensed.packet});
  submit(queue, {condensed.packet});
  wait_below(m, signal, 7);
  CHECK(m.stat("packet.codes") == 0);  // the entry has the program
  for (std::uint32_t i = 0; i < kItems; ++i) REQUIRE(m.read<std::uint32_t>(y + 4 * i) == 21 * i);
  // A queue that was idle all along, and one that is opened now.
  heddle_queue fresh = lab.open_queue(0, 1, 16, false);
  const std::uint64_t done = lab.new_signal(0, true, 2);
  const std::uint64_t object = lab.timed_object(0, 100);
  submit(idle_queue, {kernel(PacketLab::dispatch(object, 64, 32, done))});
  submit(fresh, {kernel(PacketLab::dispatch(object, 64, 32, done))});
  wait_below(m, done, 1);
  for (heddle_queue* q : {&queue, &idle_queue, &fresh}) CHECK(heddle_queue_destroy(q, 1000) == HEDDLE_OK);
  settle(lab);
}

TEST_CASE("how a machine is shared is restored, and judged as before", "[embed][HST-08][PRT-07]") {
  const std::string mode = GENERATE("dynamic", "static");
  const std::vector<std::string> sets{"gpu.mmu.enabled=true"};
  const std::uint64_t number = mode == "static" ? 1 : 2;
  std::string file;
  {
    const SimFixture fixture;
    Lab lab(sets);
    Machine& m = lab[0];
    share(m, HEDDLE_SHARE_COMMAND_ENABLE, 3, 0, 1);  // the first change of a mask: all others are allowed
    share(m, HEDDLE_SHARE_COMMAND_MODE, 0, number);
    share(m, HEDDLE_SHARE_COMMAND_ENABLE, 4, 1, 1);
    share(m, HEDDLE_SHARE_COMMAND_CREDITS, 3, 2);
    share(m, HEDDLE_SHARE_COMMAND_BLOCK, 3, 2, 0);
    share(m, HEDDLE_SHARE_COMMAND_SMS, 5, 35);
    share(m, HEDDLE_SHARE_COMMAND_WARPS, 5, 55);
    share(m, HEDDLE_SHARE_COMMAND_BANDWIDTH, 6, 300);
    share(m, HEDDLE_SHARE_COMMAND_LIMIT, 6, 700);
    share(m, HEDDLE_SHARE_COMMAND_LOCAL_ADDRESS, 7, 0x10000);
    share(m, HEDDLE_SHARE_COMMAND_LOCAL_BYTES, 7, 64);
    share(m, HEDDLE_SHARE_COMMAND_PAGE_TABLE, 8, 0x200000);
    const heddle_window window{HEDDLE_HOST_WINDOW + 0x4000, 0x2000, 9, true, false};
    REQUIRE(heddle_windows_isolate(&m.device, true) == HEDDLE_OK);
    REQUIRE(heddle_window_open(&m.device, &window) == HEDDLE_OK);
    run_us(5);
    REQUIRE(reg(m, HEDDLE_REG_SHARE_REFUSED) == 0);
    file = saved(m);
  }
  const SimFixture fixture;
  Lab lab(sets);
  Machine& m = lab[0];
  restore(m, file);
  CHECK(saved(m) == file);
  CHECK(reg(m, HEDDLE_REG_SHARE_REFUSED) == 0);
  CHECK(reg(m, HEDDLE_REG_SHARE_MODE) == number);
  CHECK(reg(m, HEDDLE_REG_WINDOW_COUNT) == 1);
  CHECK(reg(m, HEDDLE_REG_WINDOW_ISOLATED) == 1);
  CHECK(m.gpu.log().refused_shares().empty());
  // Each is refused for what was set before.
  share(m, HEDDLE_SHARE_COMMAND_BANDWIDTH, 2, 800);
  share(m, HEDDLE_SHARE_COMMAND_BANDWIDTH, 6, 701);
  share(m, HEDDLE_SHARE_COMMAND_BLOCK, 3, 2, 1);
  std::size_t expected = 3;
  if (mode == "static") {
    share(m, HEDDLE_SHARE_COMMAND_ENABLE, 4, 1, 0);  // subcontext 3 has it
    ++expected;
  }
  run_us(5);
  CHECK(m.gpu.log().refused_shares().size() == expected);
  CHECK(reg(m, HEDDLE_REG_SHARE_REFUSED) == expected);
}

TEST_CASE("event ids that nobody has taken, and a stopped queue, are still there", "[embed][HST-08]") {
  std::string file;
  std::string host;
  heddle_queue queue{};
  {
    const SimFixture fixture;
    Lab lab({});
    Machine& m = lab[0];
    REQUIRE(heddle_device_mask(&m.device, HEDDLE_INT_SIGNAL_MASK) == HEDDLE_OK);
    queue = lab.open_queue(0, 2, 8, true);
    const std::uint64_t signal = lab.take_host(64) | HEDDLE_SIGNAL_INTERRUPT;
    REQUIRE(heddle_signal_init(&m.bus, signal, 1, 0, 77) == HEDDLE_OK);
    submit(queue, {kernel(PacketLab::dispatch(lab.timed_object(0, 10), 32, 32, signal))});
    wait_below(m, signal, 1);
    heddle_dispatch wrong = PacketLab::dispatch(lab.timed_object(0, 10), 32, 32);
    wrong.kernel_object = 5;
    submit(queue, {kernel(wrong)});
    settle(lab);
    file = saved(m);
    host = host_memory(lab);
    // What is not saved while it is under way.
    heddle_queue other = lab.open_queue(0, 4, 8, true);
    const std::uint64_t later = lab.new_signal(0, true, 1);
    submit(other, {kernel(PacketLab::dispatch(lab.timed_object(0, 100'000), 32, 32, later))});
    run_us(5);
    CHECK_THAT(failure_of([&m] { (void)saved(m); }),
               Catch::Contains("kernels and other operations under way: 1") && Catch::Contains("packets under way: 1"));
    wait_below(m, later, 1);
    settle(lab);
    CHECK(failure_of([&m] { (void)saved(m); }).empty());
  }
  const SimFixture fixture;
  Lab lab({});
  Machine& m = lab[0];
  REQUIRE(lab.memory.write(0, host.data(), host.size()));
  restore(m, file);
  CHECK(saved(m) == file);
  run_us(1);
  CHECK(m.irq.read());
  std::uint32_t event = 0;
  CHECK(heddle_device_event(&m.device, &event) == HEDDLE_OK);
  CHECK(event == 77);
  queue.device = &m.device;
  heddle_queue_state state = HEDDLE_QUEUE_STATE_ACTIVE;
  REQUIRE(heddle_queue_get_state(&queue, &state) == HEDDLE_OK);
  CHECK(state == HEDDLE_QUEUE_STATE_ERROR);
  heddle_error error{};
  REQUIRE(heddle_queue_error(&queue, &error) == HEDDLE_OK);
  CHECK(error.index == 1);
  CHECK(heddle_queue_destroy(&queue, 1000) == HEDDLE_OK);
}

TEST_CASE("corrupt data are not saved as good ones", "[embed][HST-08]") {
  const SimFixture fixture;
  Lab lab({});
  Machine& m = lab[0];
  m.write<std::uint64_t>(0x100000, 1);
  REQUIRE(m.gpu.memory().poison(0x100000, 32));
  CHECK_THAT(failure_of([&m] { (void)saved(m); }), Catch::Contains("are corrupt"));
  m.write<std::uint64_t>(0x100000, 1);
  m.write<std::uint64_t>(0x100008, 1);
  m.write<std::uint64_t>(0x100010, 1);
  m.write<std::uint64_t>(0x100018, 1);
}

}  // namespace embed_machine_state_test
