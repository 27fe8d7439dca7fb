// What software has set of a device is there after a restore (HST-08): how it is shared, windows, code, reference
// packets, event ids.
#include "gpu/machine_state.h"

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "embed/device_trace.h"
#include "gpu/state_file.h"
#include "support/brought_programs.h"
#include "support/temp_dir.h"

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

TEST_CASE("whose copy engines a subcontext uses is restored", "[embed][HST-08][PRT-11]") {
  const std::vector<std::string> sets{
      "gpu.instances=[{gpcs: [0], slices: [0, 1, 2, 3], copy_engines: [0], memory: 256 MiB}, {gpcs: [1], slices: [4, "
      "5, "
      "6, 7], copy_engines: [1], memory: 256 MiB}]"};
  std::string file;
  {
    const SimFixture fixture;
    Lab lab(sets);
    share(lab[0], HEDDLE_SHARE_COMMAND_INSTANCE, 4, 2);
    run_us(5);
    REQUIRE(reg(lab[0], HEDDLE_REG_SHARE_REFUSED) == 0);
    file = saved(lab[0]);
  }
  const SimFixture fixture;
  Lab lab(sets);
  Machine& m = lab[0];
  restore(m, file);
  CHECK(saved(m) == file);
  share(m, HEDDLE_SHARE_COMMAND_INSTANCE, 4, 0);
  run_us(5);
  CHECK(saved(m) != file);  // it was there to be taken away
}

TEST_CASE("kernels that launch others go on in another simulation", "[embed][HST-08][HST-07][TSK-06]") {
  std::string file;
  std::string host;
  heddle_queue queue{};
  std::uint64_t y = 0;
  std::uint64_t arguments = 0;
  BroughtProgram brought(std::string(kParentKernel) + kAddKernel);
  const auto launch = [&](Lab& lab) {
    const std::uint64_t signal = lab.new_signal(0, true, 1);
    const heddle_program_kernel parent = brought.kernel("parent");
    heddle_dispatch dispatch{};
    REQUIRE(heddle_program_dispatch(&parent, arguments, signal, &dispatch) == HEDDLE_OK);
    submit(queue, {kernel(dispatch)});
    CHECK(wait_below(lab[0], signal) == 0);
  };
  {
    const SimFixture fixture;
    Lab lab({});
    Machine& m = lab[0];
    brought.load(lab);
    queue = lab.open_queue(0, 0, 16, true);
    const std::uint64_t x = lab.take_device(4 * kItems);
    y = lab.take_device(4 * kItems);
    for (std::uint32_t i = 0; i < kItems; ++i) m.write<std::uint32_t>(x + 4 * i, i);
    arguments = lab.take_device(sizeof(AddArguments));
    m.write(arguments, AddArguments{x, y, kItems, 5});
    launch(lab);
    launch(lab);
    CHECK(m.stat("task.children") == 2);
    settle(lab);
    file = saved(m);
    host = host_memory(lab);
  }
  const SimFixture fixture;
  Lab lab({});
  Machine& m = lab[0];
  (void)lab.take_host(kTaken);
  (void)lab.take_device(kTaken);
  REQUIRE(lab.memory.write(0, host.data(), host.size()));
  restore(m, file);
  CHECK(saved(m) == file);
  queue.device = &m.device;
  launch(lab);
  CHECK(m.stat("task.children") == 1);
  for (std::uint32_t i = 0; i < kItems; ++i) REQUIRE(m.read<std::uint32_t>(y + 4 * i) == 15 * i);
  CHECK(heddle_queue_destroy(&queue, 1000) == HEDDLE_OK);
  settle(lab);
}

TEST_CASE("a file that is refused leaves nothing behind that keeps the next one out", "[embed][HST-08][HST-07]") {
  std::string good;
  std::string other;
  for (std::string* file : {&good, &other}) {
    const SimFixture fixture;
    Lab lab({});
    std::string text = kAddKernel;
    if (file == &other) text.replace(text.find("factor * x"), 10, "3 * x");
    BroughtProgram brought(text);
    brought.load(lab);
    heddle_queue queue = lab.open_queue(0, 0, 16, true);
    const std::uint64_t y = lab.take_device(4 * kItems);
    const std::uint64_t arguments = lab.take_device(sizeof(AddArguments));
    lab[0].write(arguments, AddArguments{y, y, kItems, 5});
    const std::uint64_t signal = lab.new_signal(0, true, 1);
    const heddle_program_kernel add = brought.kernel("add");
    heddle_dispatch dispatch{};
    REQUIRE(heddle_program_dispatch(&add, arguments, signal, &dispatch) == HEDDLE_OK);
    submit(queue, {kernel(dispatch)});
    wait_below(lab[0], signal);
    settle(lab);
    *file = saved(lab[0]);
  }
  const SimFixture fixture;
  Lab lab({});
  Machine& m = lab[0];
  std::string damaged = other;
  damaged[damaged.size() - 12] = static_cast<char>(damaged[damaged.size() - 12] ^ 1);
  // Both have given the same number to code of their own.
  for (const std::string& next : {damaged, good, damaged, other, good}) {
    const std::string said = failure_of([&] { restore(m, next); });
    CHECK(said.empty() == (next != damaged));
    if (next != damaged) CHECK(saved(m) == next);
  }
}

TEST_CASE("programs that somebody still uses are not forgotten", "[embed][HST-08][PKT-05]") {
  const SimFixture fixture;
  Lab lab({});
  Machine& m = lab[0];
  auto program = std::make_shared<ListProgram>(4);
  program->exit();
  const std::uint64_t object = lab.program_object(0, program);
  heddle_queue queue = lab.open_queue(0, 0, 16, true);
  const std::uint64_t signal = lab.new_signal(0, true, 9);
  const heddle_dispatch dispatch = PacketLab::dispatch(object, 32, 32, signal);
  const auto refusal = [&] { return failure_of([&] { m.gpu.state().forget_codes(); }); };
  submit(queue, {kernel(PacketLab::dispatch(lab.timed_object(0, 100'000), 32, 32, signal))});
  run_us(5);
  CHECK_THAT(refusal(), Catch::Contains("kernels and other operations under way"));
  wait_below(m, signal, 9);
  settle(lab);
  heddle_packet reference{};
  REQUIRE(heddle_packet_reference(&reference, &dispatch, 2) == HEDDLE_OK);
  submit(queue, {reference});
  wait_below(m, signal, 8);
  settle(lab);
  CHECK_THAT(refusal(), Catch::Contains("reference state tables"));
  m.gpu.reset();
  CHECK(refusal().empty());
}

TEST_CASE("what a reader would refuse is not saved", "[embed][HST-08]") {
  StateWriter to("a part of it");
  to.below(7, 8, "a number");
  to.text("abc", 3, "the length of a text");
  StateReader from("a part of it", to.bytes());
  CHECK(from.below(8, "a number") == 7);
  CHECK(from.text(3, "the length of a text") == "abc");
  from.end();
  CHECK_THAT(failure_of([&] { to.below(8, 8, "a number"); }),
             Catch::Contains("the state of a part of it cannot be saved: a number is 8, and has to be below 8"));
  CHECK_THAT(failure_of([&] { to.text("abcd", 3, "the length of a text"); }), Catch::Contains("is 4"));
}

TEST_CASE("constants of a device are not in its file", "[embed][HST-08]") {
  const SimFixture fixture;
  Lab lab({});
  std::istringstream in(saved(lab[0]));
  gpu::StateFileReader file(in);
  std::string registers;
  for (const char* part : {"configuration", "programs", "code", "sharing", "packets", "windows", "registers"}) {
    registers = file.section(part);
  }
  for (const char* name : {"SCRATCH", "INT_MASK"}) CHECK(registers.find(name) != std::string::npos);
  for (const char* name : {"MAGIC", "VERSION", "COPY_CHANNELS", "TIMESTAMP", "MEMORY_BYTES"}) {
    INFO(name);
    CHECK(registers.find(name) == std::string::npos);
  }
}

TEST_CASE("indices of a queue that no queue can have reached are refused", "[embed][HST-08]") {
  std::string good;
  {
    const SimFixture fixture;
    Lab lab({});
    (void)lab.open_queue(0, 0, 16, true);
    settle(lab);
    good = saved(lab[0]);
  }
  // The same with another read index of queue 0, which follows its state.
  const auto with_index = [&good](std::uint64_t index) {
    std::istringstream in(good);
    std::ostringstream out;
    gpu::StateFileReader from(in);
    gpu::StateFileWriter to(out);
    for (const char* name :
         {"configuration", "programs", "code", "sharing", "packets", "windows", "registers", "memory"}) {
      std::string part = from.section(name);
      for (std::size_t i = 0; std::string(name) == "packets" && i < 8; ++i)
        part[8 + i] = static_cast<char>(index >> 8 * i);
      to.section(name, part);
    }
    to.finish();
    return out.str();
  };
  const SimFixture fixture;
  Lab lab({});
  Machine& m = lab[0];
  CHECK(with_index(0) == good);
  CHECK(failure_of([&] { restore(m, with_index(std::uint64_t{1} << 63)); }).empty());
  CHECK_THAT(failure_of([&] { restore(m, with_index((std::uint64_t{1} << 63) + 1)); }),
             Catch::Contains("read more packets than there can be"));
  CHECK_THAT(failure_of([&] { restore(m, with_index(~std::uint64_t{0})); }), Catch::Contains("more packets"));
}

TEST_CASE("a queue that was refused for its subcontext is saved and restored", "[embed][HST-08]") {
  std::string file;
  {
    const SimFixture fixture;
    Lab lab({});
    Machine& m = lab[0];
    REQUIRE(m.bus.write(&m, HEDDLE_REG_QUEUE_BASE(3), 8, 0x10000));
    REQUIRE(m.bus.write(&m, HEDDLE_REG_QUEUE_SIZE(3), 4, 16));
    REQUIRE(m.bus.write(&m, HEDDLE_REG_QUEUE_SUBCONTEXT(3), 4, 200));
    REQUIRE(m.bus.write(&m, HEDDLE_REG_QUEUE_COMMAND(3), 4, HEDDLE_QUEUE_COMMAND_OPEN));
    run_us(5);
    REQUIRE(reg(m, HEDDLE_REG_QUEUE_STATE(3)) == HEDDLE_QUEUE_STATE_ERROR);
    settle(lab);
    file = saved(m);
  }
  const SimFixture fixture;
  Lab lab({});
  restore(lab[0], file);
  CHECK(saved(lab[0]) == file);
  CHECK(reg(lab[0], HEDDLE_REG_QUEUE_STATE(3)) == HEDDLE_QUEUE_STATE_ERROR);
}

TEST_CASE("a trace that is gone is told of nothing", "[embed][HST-08]") {
  const SimFixture fixture;
  const TempDir folder;
  GpuObservation observation("gpu0");
  gpu::Gpu gpu("gpu0", small()[0], 1, observation);
  sc_core::sc_trace_file* file = sc_core::sc_create_vcd_trace_file(folder.file("trace").c_str());
  sc_core::sc_signal<bool> irq;
  sc_core::sc_signal<bool> rst;
  gpu.irq().bind(irq);
  gpu.rst().bind(rst);
  {
    embed::DeviceTrace trace("trace", gpu, observation);
    trace.trace(*file, gpu.irq(), "gpu0");
    CHECK(observation.ctas != nullptr);
  }
  CHECK(observation.ctas == nullptr);
  run_us(1);  // SystemC warns of a file in which nothing was traced
  sc_core::sc_close_vcd_trace_file(file);
}

}  // namespace embed_machine_state_test
