// Kernels that software brings (HST-07): the C library loads a file of `heddle compile` into device memory, and packets
// launch what lies there.
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "arch/page_table.h"
#include "scenario/scenario.h"
#include "support/brought_programs.h"

// Of docs/kernels.md.
extern "C" int scale(heddle_device* device, heddle_queue* queue, const void* file, size_t bytes, uint64_t memory,
                     uint64_t data, uint64_t factor, uint64_t signal);

namespace system_brought_kernel_test {

using namespace heddle;
using namespace heddle::test;

using Machine = PacketLab::Machine;

namespace {

constexpr std::uint32_t kItems = 250;

// Words i * step at a place of their own.
std::uint64_t words(PacketLab& lab, std::uint32_t step) {
  const std::uint64_t at = lab.take_device(4 * kItems);
  for (std::uint32_t i = 0; i < kItems; ++i) lab[0].write<std::uint32_t>(at + 4 * i, i * step);
  return at;
}

std::uint64_t arguments(PacketLab& lab, const AddArguments& values) {
  const std::uint64_t at = lab.take_device(sizeof values);
  lab[0].write(at, values);
  return at;
}

heddle_dispatch dispatch_of(const heddle_program_kernel& kernel, std::uint64_t kernarg, std::uint64_t signal) {
  heddle_dispatch dispatch{};
  REQUIRE(heddle_program_dispatch(&kernel, kernarg, signal, &dispatch) == HEDDLE_OK);
  return dispatch;
}

// How long the kernel ran, in ticks, from a signal with time stamps.
std::uint64_t run(PacketLab& lab, heddle_queue& queue, const heddle_program_kernel& kernel, std::uint64_t kernarg) {
  const std::uint64_t signal = lab.take_host(64) | HEDDLE_SIGNAL_TIMESTAMPS;
  REQUIRE(heddle_signal_init(&lab[0].bus, signal, 1, 0, 0) == HEDDLE_OK);
  submit(queue, {test::kernel(dispatch_of(kernel, kernarg, signal))});
  REQUIRE(wait_below(lab[0], signal) == 0);
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  REQUIRE(heddle_signal_times(&lab[0].bus, signal, &start, &end) == HEDDLE_OK);
  return end - start;
}

void check_sums(PacketLab& lab, std::uint64_t at, std::uint32_t factor) {
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 0; i < kItems; ++i) wrong += lab[0].read<std::uint32_t>(at + 4 * i) != factor * i ? 1 : 0;
  INFO("word 1: " << lab[0].read<std::uint32_t>(at + 4) << ", expected " << factor);
  CHECK(wrong == 0);
}

// The queue's error of a packet that was refused.
heddle_error refused(PacketLab& lab, heddle_queue& queue, const heddle_dispatch& dispatch) {
  submit(queue, {test::kernel(dispatch)});
  for (int i = 0; i < 1000; ++i) {
    heddle_queue_state state = HEDDLE_QUEUE_STATE_ACTIVE;
    REQUIRE(heddle_queue_get_state(&queue, &state) == HEDDLE_OK);
    if (state == HEDDLE_QUEUE_STATE_ERROR) break;
    lab[0].bus.relax(nullptr);
  }
  heddle_error error{};
  REQUIRE(heddle_queue_error(&queue, &error) == HEDDLE_OK);
  REQUIRE(heddle_queue_destroy(&queue, 100'000) == HEDDLE_OK);
  return error;
}

}  // namespace

TEST_CASE("a kernel that software brings does and takes what the scenario's does", "[system][HST-07]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  constexpr int kRuns = 3;
  std::vector<std::uint64_t> ticks;
  for (const bool from_scenario : {true, false}) {
    SimFixture fixture;
    const auto decoder = std::make_shared<CountingDecoder>();
    PacketLab lab(small({"gpu.timing=" + timing}), gpu::DeviceMemory::own, decoder);
    lab.begin();
    Machine& m = lab[0];
    BroughtProgram brought(kAddKernel);
    brought.load(lab);
    heddle_program_kernel add = brought.kernel("add");
    CHECK(add.argument_bytes == sizeof(AddArguments));
    CHECK(add.registers >= 12);
    CHECK(add.workgroup[0] == 64);
    CHECK(add.grid[0] == 4);
    if (from_scenario) {  // the same by number
      const auto scenario = scenario::parse_scenario(
          std::string("heddle: 1\nkernels:\n") + kAddKernel + "submit: [{kernel: add, stream: s}]\n", "scenario.yaml");
      const arch::KernelRecord& record = scenario.workloads.front().ops.front().kernel;
      heddle_kernel_object object{};
      object.program = m.gpu.add_code(record.program, record);
      object.registers_per_thread = record.registers_per_thread;
      object.name = "add";
      add.object = lab.new_object(0, object);
    }
    heddle_queue queue = lab.open_queue(0, 0, 16, true);
    const std::uint64_t x = words(lab, 1);
    const std::uint64_t y = words(lab, 3);
    std::uint32_t sum = 3;
    for (std::uint32_t factor = 2; factor < 2 + kRuns; ++factor) {
      ticks.push_back(run(lab, queue, add, arguments(lab, {x, y, kItems, factor})));
      check_sums(lab, y, sum += factor);
    }
    // The code is read with its object each time, and decoded once.
    CHECK(decoder->decoded == (from_scenario ? 0 : 1));
    CHECK(m.stat("packet.objects") == kRuns);
    CHECK(m.stat("packet.codes") == (from_scenario ? 0 : kRuns));
    CHECK(m.stat("packet.code_bytes") == (from_scenario ? 0 : kRuns * add.code_bytes));
    settle(lab);
  }
  // The first run finds memory as the reading of code has left it; then the data are in the L2.
  // Time stamps are cut off to whole nanoseconds.
  const auto first = static_cast<std::int64_t>(ticks[kRuns - 1]);
  const auto second = static_cast<std::int64_t>(ticks[2 * kRuns - 1]);
  CHECK(std::abs(first - second) <= 1);
}

TEST_CASE("reading code costs its bytes, and what a table entry has is not read again", "[system][HST-07][PKT-05]") {
  const std::string table = GENERATE("scratch", "memory");
  SimFixture fixture;
  PacketLab lab(small({"gpu.packet.table=" + table}), gpu::DeviceMemory::own, std::make_shared<program::CodeImage>());
  lab.begin();
  Machine& m = lab[0];
  BroughtProgram brought(kAddKernel);
  brought.load(lab);
  const heddle_program_kernel add = brought.kernel("add");
  heddle_queue queue = lab.open_queue(0, 0, 16, true);
  const std::uint64_t x = words(lab, 1);
  const std::uint64_t y = words(lab, 0);
  const std::uint64_t signal = lab.new_signal(0, true, 5);
  const heddle_dispatch dispatch = dispatch_of(add, arguments(lab, {x, y, kItems, 7}), signal);
  heddle_packet reference{};
  REQUIRE(heddle_packet_reference(&reference, &dispatch, 2) == HEDDLE_OK);
  const double bytes = m.stat("packet.work.bytes");
  submit(queue, {reference});
  wait_below(m, signal, 5);
  CHECK(m.stat("packet.work.bytes") - bytes >= 64 + 128 + add.code_bytes);
  CHECK(m.stat("packet.codes") == 1);
  // Whatever lies at the code's place now: the entry has the program (PKT-11).
  m.write<std::uint64_t>(brought.code_of(lab, "add"), 0);
  for (int i = 0; i < 2; ++i) {
    heddle_condensed condensed;
    heddle_condensed_init(&condensed);
    REQUIRE(heddle_condensed_append(&condensed, 2, 0, nullptr) == HEDDLE_OK);
    REQUIRE(heddle_condensed_append(&condensed, 2, 0, nullptr) == HEDDLE_OK);
    submit(queue, {condensed.packet});
    wait_below(m, signal, 4 - i);
  }
  check_sums(lab, y, 5 * 7);
  CHECK(m.stat("packet.codes") == 1);
  settle(lab);
}

TEST_CASE("code that has changed is seen by the next packet that reads its object", "[system][HST-07]") {
  SimFixture fixture;
  const auto decoder = std::make_shared<CountingDecoder>();
  PacketLab lab(small(), gpu::DeviceMemory::own, decoder);
  lab.begin();
  BroughtProgram brought(kAddKernel);
  brought.load(lab);
  std::string other = kAddKernel;
  other.replace(other.find("factor * x + y"), 14, "factor * x - y");
  BroughtProgram changed(other);
  heddle_queue queue = lab.open_queue(0, 0, 16, true);
  const std::uint64_t x = words(lab, 1);
  const std::uint64_t y = words(lab, 1);
  const std::uint64_t kernarg = arguments(lab, {x, y, kItems, 4});
  run(lab, queue, brought.kernel("add"), kernarg);
  check_sums(lab, y, 5);
  REQUIRE(heddle_program_load(&changed.program, &lab[0].bus, brought.at, brought.at) == HEDDLE_OK);
  run(lab, queue, brought.kernel("add"), kernarg);
  check_sums(lab, y, 4 - 5);
  // And back: what was decoded before is not decoded again.
  REQUIRE(heddle_program_load(&brought.program, &lab[0].bus, brought.at, brought.at) == HEDDLE_OK);
  run(lab, queue, brought.kernel("add"), kernarg);
  check_sums(lab, y, 4 - 5 + 4);
  CHECK(decoder->decoded == 2);
  settle(lab);
}

TEST_CASE("who loads and unloads code for ever is never refused, and loses nothing that is used",
          "[system][HST-07][PKT-05]") {
  // Each program takes a quarter of what a subcontext may have.
  class Heavy final : public CountingDecoder {
   public:
    arch::DecodedCode decode(const std::vector<std::uint8_t>& code) const override {
      arch::DecodedCode made = CountingDecoder::decode(code);
      made.text = arch::BroughtCode::kMostBytes / 4;
      return made;
    }
  };
  const std::string table = GENERATE("scratch", "memory");
  constexpr unsigned kPrograms = 12;
  SimFixture fixture;
  const auto decoder = std::make_shared<Heavy>();
  PacketLab lab(small({"gpu.packet.table=" + table}), gpu::DeviceMemory::own, decoder);
  lab.begin();
  Machine& m = lab[0];
  heddle_queue queue = lab.open_queue(0, 0, 16, true);
  const std::uint64_t x = words(lab, 1);
  const std::uint64_t y = words(lab, 0);
  const std::uint64_t kernarg = arguments(lab, {x, y, kItems, 1});
  std::uint32_t sum = 0;
  const std::uint64_t signal = lab.new_signal(0, true, 100);
  BroughtProgram kept(kAddKernel);
  kept.load(lab);
  heddle_packet reference{};
  const heddle_dispatch dispatch = dispatch_of(kept.kernel("add"), kernarg, signal);
  REQUIRE(heddle_packet_reference(&reference, &dispatch, 2) == HEDDLE_OK);
  submit(queue, {reference});
  wait_below(m, signal, 100);
  ++sum;
  BroughtProgram first(kAddKernel);
  first.load(lab);
  for (unsigned i = 2; i < 2 + kPrograms; ++i) {
    INFO("program " << i);
    std::string other = kAddKernel;
    other.replace(other.find("factor * x"), 10, std::to_string(i) + " * x");
    BroughtProgram brought(other);
    REQUIRE(heddle_program_bytes(&brought.program) <= heddle_program_bytes(&first.program));
    REQUIRE(heddle_program_load(&brought.program, &m.bus, first.at, first.at) == HEDDLE_OK);
    run(lab, queue, brought.kernel("add"), kernarg);
    check_sums(lab, y, sum += i);
  }
  CHECK(decoder->decoded == 1 + kPrograms);
  // The entry still has its program, which was not decoded again.
  heddle_condensed condensed;
  heddle_condensed_init(&condensed);
  REQUIRE(heddle_condensed_append(&condensed, 2, 0, nullptr) == HEDDLE_OK);
  submit(queue, {condensed.packet});
  wait_below(m, signal, 99);
  check_sums(lab, y, ++sum);
  CHECK(decoder->decoded == 1 + kPrograms);
  // A reset forgets all of it.
  m.gpu.reset();
  lab.begin();
  heddle_queue again = lab.open_queue(0, 0, 16, true);
  run(lab, again, kept.kernel("add"), kernarg);
  CHECK(decoder->decoded == 2 + kPrograms);
  settle(lab);
}

TEST_CASE("a kernel that software brings launches another of its file", "[system][HST-07][TSK-06]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing}), gpu::DeviceMemory::own, std::make_shared<program::CodeImage>());
  lab.begin();
  Machine& m = lab[0];
  BroughtProgram brought(std::string(kParentKernel) + kAddKernel);
  heddle_queue queue = lab.open_queue(0, 0, 16, true);
  // Loaded twice: each copy launches its own.
  for (int copy = 0; copy < 2; ++copy) {
    brought.load(lab);
    const std::uint64_t x = words(lab, 1);
    const std::uint64_t y = words(lab, 2);
    run(lab, queue, brought.kernel("parent"), arguments(lab, {x, y, kItems, 9}));
    check_sums(lab, y, 11);
  }
  CHECK(m.stat("task.children") == 2);
  CHECK(m.gpu.log().faults().empty());
  // What a launch from the device finds damaged is a fault of it.
  const std::uint64_t code = brought.code_of(lab, "add");
  m.write<std::uint32_t>(code, 0);
  const std::uint64_t y = words(lab, 1);
  run(lab, queue, brought.kernel("parent"), arguments(lab, {y, y, kItems, 9}));
  REQUIRE(m.gpu.log().faults().size() == 1);
  CHECK(m.gpu.log().faults().front().where == arch::reason_text(arch::Reason::code_bytes));
  check_sums(lab, y, 1);
  settle(lab);
}

TEST_CASE("bad code stops its queue with the reason, and nothing else", "[system][HST-07][PKT-09]") {
  SimFixture fixture;
  PacketLab lab(small(), gpu::DeviceMemory::own, std::make_shared<program::CodeImage>());
  lab.begin();
  Machine& m = lab[0];
  BroughtProgram brought(kAddKernel);
  brought.load(lab);
  const heddle_program_kernel add = brought.kernel("add");
  const std::uint64_t x = words(lab, 1);
  const std::uint64_t y = words(lab, 0);
  const std::uint64_t kernarg = arguments(lab, {x, y, kItems, 1});
  const std::uint64_t code = brought.code_of(lab, "add");
  heddle_kernel_object object{};
  object.code = code;
  object.code_bytes = add.code_bytes;
  object.registers_per_thread = add.registers;
  struct Case {
    std::uint32_t reason;
    std::function<void()> damage;
    std::function<void(heddle_kernel_object&)> change;
  };
  const std::uint64_t memory = m.device.memory;
  std::vector<std::uint8_t> whole(add.code_bytes);
  REQUIRE(m.move(tlm::TLM_READ_COMMAND, code, whole.data(), whole.size()));
  const auto nothing = [](heddle_kernel_object&) {};
  const std::vector<Case> cases{
      {HEDDLE_REASON_CODE_BYTES, [&] { m.write<std::uint32_t>(code, 1); }, nothing},
      {HEDDLE_REASON_CODE_BYTES, [&] { m.write<std::uint8_t>(code + 16, 0xFF); }, nothing},
      {HEDDLE_REASON_CODE_BYTES, [&] { m.write<std::uint8_t>(code + add.code_bytes - 1, '?'); }, nothing},
      {HEDDLE_REASON_CODE_BYTES, [] {}, [](heddle_kernel_object& o) { o.code_bytes -= 1; }},
      {HEDDLE_REASON_CODE_OBJECT, [] {}, [](heddle_kernel_object& o) { o.registers_per_thread = 3; }},
      {HEDDLE_REASON_CODE_OBJECT, [] {}, [](heddle_kernel_object& o) { o.cooperative = true; }},
      {HEDDLE_REASON_CODE_UNREADABLE, [] {}, [=](heddle_kernel_object& o) { o.code = memory - 128; }},
      {HEDDLE_REASON_CODE_UNREADABLE, [] {}, [=](heddle_kernel_object& o) { o.code = memory + 4096; }},
      {HEDDLE_REASON_OBJECT_CODE, [] {}, [](heddle_kernel_object& o) { o.code += 64; }},
      {HEDDLE_REASON_OBJECT_CODE, [] {}, [](heddle_kernel_object& o) { o.code = HEDDLE_HOST_WINDOW; }},
      {HEDDLE_REASON_OBJECT_CODE, [] {}, [](heddle_kernel_object& o) { o.code_bytes = HEDDLE_MOST_CODE_BYTES + 1; }},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    INFO("case " << i);
    REQUIRE(m.move(tlm::TLM_WRITE_COMMAND, code, whole.data(), whole.size()));
    cases[i].damage();
    heddle_kernel_object bad = object;
    cases[i].change(bad);
    heddle_program_kernel kernel = add;
    kernel.object = lab.new_object(0, bad);
    heddle_queue queue = lab.open_queue(0, 1, 8, true);
    const heddle_error error = refused(lab, queue, dispatch_of(kernel, kernarg, 0));
    CHECK(error.status == 0x1010);
    CHECK(error.reason == cases[i].reason);
  }
  // The largest code that there can be: zeros.
  heddle_kernel_object large = object;
  large.code = lab.take_device(HEDDLE_MOST_CODE_BYTES);
  large.code_bytes = HEDDLE_MOST_CODE_BYTES;
  heddle_program_kernel kernel = add;
  kernel.object = lab.new_object(0, large);
  heddle_queue queue = lab.open_queue(0, 1, 8, true);
  CHECK(refused(lab, queue, dispatch_of(kernel, kernarg, 0)).reason == HEDDLE_REASON_CODE_BYTES);

  REQUIRE(m.move(tlm::TLM_WRITE_COMMAND, code, whole.data(), whole.size()));
  heddle_queue good = lab.open_queue(0, 0, 8, true);
  run(lab, good, add, kernarg);
  check_sums(lab, y, 1);
  settle(lab);
}

TEST_CASE("a number alone launches nothing that software has brought", "[system][HST-07][PKT-09][PRT-08]") {
  SimFixture fixture;
  PacketLab lab(small(), gpu::DeviceMemory::own, std::make_shared<program::CodeImage>());
  lab.begin();
  BroughtProgram brought(kAddKernel);
  brought.load(lab);
  const heddle_program_kernel add = brought.kernel("add");
  const std::uint64_t x = words(lab, 1);
  const std::uint64_t y = words(lab, 0);
  const std::uint64_t kernarg = arguments(lab, {x, y, kItems, 1});
  heddle_queue queue = lab.open_queue(0, 0, 16, true);
  run(lab, queue, add, kernarg);
  check_sums(lab, y, 1);
  // Somebody else's object without code, which names whatever number that program may have.
  for (std::uint32_t number = 1; number < 6; ++number) {
    CAPTURE(number);
    heddle_kernel_object object{};
    object.program = number;
    object.registers_per_thread = add.registers;
    object.name = "add";
    heddle_program_kernel kernel = add;
    kernel.object = lab.new_object(0, object);
    heddle_queue other = lab.open_queue(0, 1, 8, true);
    const heddle_error error = refused(lab, other, dispatch_of(kernel, kernarg, 0));
    CHECK(error.status == 0x1010);
    CHECK(error.reason == HEDDLE_REASON_OBJECT_PROGRAM);
  }
  check_sums(lab, y, 1);
  run(lab, queue, add, kernarg);
  check_sums(lab, y, 2);
  settle(lab);
}

TEST_CASE("a machine without a decoder, or without what a program needs, refuses code", "[system][HST-07]") {
  const bool decoder = GENERATE(false, true);
  SimFixture fixture;
  const std::vector<gpu::GpuParams> params{preset_params("a100", {"gpu.shape=[2, 2]", "gpu.memory=1 GiB"})};
  PacketLab lab(params, gpu::DeviceMemory::own, decoder ? std::make_shared<program::CodeImage>() : nullptr);
  lab.begin();
  BroughtProgram brought(R"(
  - name: copies
    grid: 1
    block: 32
    shared: 1024
    program:
      - load: {to: at, type: u64, at: kernarg}
      - mbarrier_init: {at: 0, count: 1}
      - bulk_load: {from: at, to: 128, bytes: 512, barrier: 0}
)");
  brought.load(lab);
  heddle_queue queue = lab.open_queue(0, 0, 8, true);
  const std::uint64_t kernarg = arguments(lab, {lab.take_device(1024), 0, 0, 0});
  CHECK(refused(lab, queue, dispatch_of(brought.kernel("copies"), kernarg, 0)).reason == HEDDLE_REASON_CODE_MACHINE);
  settle(lab);
}

// A process with pages of its own: its kernels, and data.
struct Process {
  static constexpr std::uint64_t kPage = arch::kSmallPage;
  static constexpr std::uint64_t kData = 0x1'4000'0000;  // virtual

  Process(PacketLab& lab, std::uint8_t subcontext, std::uint64_t kernels_at)
      : kernels(lab.take_device(kPage, kPage)), data(lab.take_device(kPage, kPage)), virtual_kernels(kernels_at) {
    Machine& m = lab[0];
    constexpr std::uint64_t kTables = std::uint64_t{2} << 20;
    arch::PageTables tables(lab.take_device(kTables, kPage), kTables,
                            [&m](std::uint64_t address, std::uint64_t value) { m.write(address, value); });
    tables.map(virtual_kernels, kernels, kPage, false);
    tables.map(kData, data, kPage, true);
    // Arguments of its launches lie in their records.
    const arch::RecordSupply own = m.gpu.params().nested_memory().of(subcontext).tasks;
    const std::uint64_t begin = own.pool.base / kPage * kPage;
    const std::uint64_t end = (own.pool.base + own.bytes() + kPage - 1) / kPage * kPage;
    tables.map(begin, begin, end - begin, false);
    REQUIRE(m.bus.write(&m, HEDDLE_REG_SHARE_SUBCONTEXT, 4, subcontext));
    REQUIRE(m.bus.write(&m, HEDDLE_REG_SHARE_VALUE, 8, tables.root()));
    REQUIRE(m.bus.write(&m, HEDDLE_REG_SHARE_COMMAND, 4, HEDDLE_SHARE_COMMAND_PAGE_TABLE));
    for (std::uint32_t i = 0; i < kItems; ++i) {
      m.write<std::uint32_t>(data + 4 * i, i);
      m.write<std::uint32_t>(data + 1024 + 4 * i, 2 * i);
    }
    m.write(data + 2048, AddArguments{kData, kData + 1024, kItems, 5});
  }
  std::uint64_t arguments() const { return kData + 2048; }
  // Where that address of its kernels lies in memory.
  std::uint64_t physical(std::uint64_t address) const { return kernels + (address - virtual_kernels); }

  std::uint64_t kernels;  // physical
  std::uint64_t data;
  std::uint64_t virtual_kernels;
};

TEST_CASE("a launch from the device reaches the kernel objects and the code of its own process alone",
          "[system][HST-07][MEM-04][PRT-08]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  SimFixture fixture;
  const auto decoder = std::make_shared<CountingDecoder>();
  PacketLab lab(small({"gpu.mmu.enabled=true", "gpu.task.nested.parts=4", "gpu.timing=" + timing}),
                gpu::DeviceMemory::own, decoder);
  lab.begin();
  Machine& m = lab[0];
  const Process own(lab, 1, 0x1'0000'0000);
  const Process victim(lab, 2, 0x1'0000'0000 + Process::kPage);
  BroughtProgram brought(std::string(kParentKernel) + kAddKernel);
  REQUIRE(heddle_program_load(&brought.program, &m.bus, own.kernels, own.virtual_kernels) == HEDDLE_OK);
  const std::uint64_t child = brought.kernel("add").object;
  heddle_queue queue = lab.open_queue(0, 0, 16, true, 0, 1);
  run(lab, queue, brought.kernel("parent"), own.arguments());
  check_sums(lab, own.data + 1024, 7);
  CHECK(m.gpu.log().faults().empty());
  // A kernel of another process, whose code nobody else has.
  std::string secret = kAddKernel;
  secret.replace(secret.find("factor * x"), 10, "77 * x");
  BroughtProgram theirs(secret);
  REQUIRE(heddle_program_load(&theirs.program, &m.bus, victim.kernels, victim.virtual_kernels) == HEDDLE_OK);
  const std::uint64_t object = theirs.kernel("add").object;
  // The first link of the parent's code.
  const std::uint64_t parent = own.physical(brought.kernel("parent").object);
  const std::uint64_t link = own.physical(m.read<std::uint64_t>(parent + arch::kKernelObjectCode)) + 16;
  REQUIRE(m.read<std::uint64_t>(link) == child);
  const unsigned decoded = decoder->decoded;
  unsigned faults = 0;
  const auto attack = [&](std::uint64_t address) {
    m.write(link, address);
    run(lab, queue, brought.kernel("parent"), own.arguments());
    REQUIRE(m.gpu.log().faults().size() == ++faults);
    const arch::FaultRecord& fault = m.gpu.log().faults().back();
    CHECK(fault.kind == arch::FaultKind::child);
    CHECK(fault.where == "there is no kernel object");
    CHECK(fault.subcontext == 1);
  };
  attack(victim.physical(object));  // where it lies in memory
  attack(object);                   // where its own process has it
  attack(HEDDLE_HOST_WINDOW + 0x1000);
  // An object of its own that names the code of the other, where that lies in memory.
  m.write(link, child);
  const std::uint64_t place = own.physical(child) + arch::kKernelObjectCode;
  const auto code = m.read<std::uint64_t>(place);
  const auto secret_code = m.read<std::uint64_t>(victim.physical(object) + arch::kKernelObjectCode);
  m.write(place, victim.physical(secret_code));
  run(lab, queue, brought.kernel("parent"), own.arguments());
  REQUIRE(m.gpu.log().faults().size() == ++faults);
  CHECK(m.gpu.log().faults().back().where == arch::reason_text(arch::Reason::code_unreadable));
  // Three parents were other programs to the machine, as links are a part of code; the secret was never seen.
  CHECK(decoder->decoded == decoded + 3);
  m.write(place, code);
  // One without code that names a program that was brought, by its number.
  std::vector<std::uint8_t> whole(arch::kKernelObjectBytes);
  REQUIRE(m.move(tlm::TLM_READ_COMMAND, own.physical(child), whole.data(), whole.size()));
  for (std::uint32_t number = 1; number < 5; ++number) {
    heddle_kernel_object by_number{};
    by_number.program = number;
    by_number.registers_per_thread = brought.kernel("add").registers;
    by_number.name = "add";
    std::array<std::uint8_t, HEDDLE_KERNEL_OBJECT_BYTES> bytes{};
    REQUIRE(heddle_kernel_object_encode(bytes.data(), &by_number) == HEDDLE_OK);
    REQUIRE(m.move(tlm::TLM_WRITE_COMMAND, own.physical(child), bytes.data(), bytes.size()));
    run(lab, queue, brought.kernel("parent"), own.arguments());
    REQUIRE(m.gpu.log().faults().size() == ++faults);
    CHECK(m.gpu.log().faults().back().where == "the kernel object names a program that is not there");
  }
  REQUIRE(m.move(tlm::TLM_WRITE_COMMAND, own.physical(child), whole.data(), whole.size()));
  run(lab, queue, brought.kernel("parent"), own.arguments());
  check_sums(lab, own.data + 1024, 12);
  settle(lab);
}

TEST_CASE("a process has its kernels at addresses of its own", "[system][HST-07][MEM-04]") {
  SimFixture fixture;
  PacketLab lab(small({"gpu.mmu.enabled=true"}), gpu::DeviceMemory::own, std::make_shared<program::CodeImage>());
  lab.begin();
  Machine& m = lab[0];
  constexpr std::uint64_t kPage = arch::kSmallPage;
  constexpr std::uint64_t kKernels = 0x1'0000'0000;  // virtual
  constexpr std::uint64_t kData = 0x1'4000'0000;
  BroughtProgram brought(kAddKernel);
  REQUIRE(heddle_program_bytes(&brought.program) <= kPage);
  const std::uint64_t kernels = lab.take_device(kPage, kPage);
  const std::uint64_t data = lab.take_device(kPage, kPage);
  const std::uint64_t pages = lab.take_device(std::uint64_t{2} << 20, kPage);
  arch::PageTables tables(pages, std::uint64_t{2} << 20,
                          [&m](std::uint64_t address, std::uint64_t value) { m.write(address, value); });
  tables.map(kKernels, kernels, kPage, false);
  tables.map(kData, data, kPage, true);
  REQUIRE(m.bus.write(&m, HEDDLE_REG_SHARE_SUBCONTEXT, 4, 1));
  REQUIRE(m.bus.write(&m, HEDDLE_REG_SHARE_VALUE, 8, tables.root()));
  REQUIRE(m.bus.write(&m, HEDDLE_REG_SHARE_COMMAND, 4, HEDDLE_SHARE_COMMAND_PAGE_TABLE));
  REQUIRE(heddle_program_load(&brought.program, &m.bus, kernels, kKernels) == HEDDLE_OK);
  CHECK(brought.kernel("add").object == kKernels);
  for (std::uint32_t i = 0; i < kItems; ++i) {
    m.write<std::uint32_t>(data + 4 * i, i);
    m.write<std::uint32_t>(data + 1024 + 4 * i, 2 * i);
  }
  m.write(data + 2048, AddArguments{kData, kData + 1024, kItems, 5});
  heddle_queue queue = lab.open_queue(0, 0, 16, true, 0, 1);
  run(lab, queue, brought.kernel("add"), kData + 2048);
  check_sums(lab, data + 1024, 7);
  // Code on no page of the process.
  m.write<std::uint64_t>(kernels + arch::kKernelObjectCode, kKernels + 4 * kPage);
  const heddle_dispatch dispatch = dispatch_of(brought.kernel("add"), kData + 2048, 0);
  CHECK(refused(lab, queue, dispatch).reason == HEDDLE_REASON_CODE_UNREADABLE);
  settle(lab);
}

TEST_CASE("the program of docs/kernels.md launches the kernel of that page", "[system][HST-07]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  std::ifstream page(std::string(HEDDLE_SOURCE_DIR) + "/docs/kernels.md");
  std::string text((std::istreambuf_iterator<char>(page)), {});
  const std::size_t begin = text.find("```yaml\n") + 8;
  const auto made = scenario::compile_kernel_text(text.substr(begin, text.find("```", begin) - begin), "kernels.yaml");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing}), gpu::DeviceMemory::own, std::make_shared<program::CodeImage>());
  lab.begin();
  constexpr std::uint32_t kWords = 256;
  const std::uint64_t data = lab.take_device(4 * kWords);
  for (std::uint32_t i = 0; i < kWords; ++i) lab[0].write<std::uint32_t>(data + 4 * i, i);
  heddle_queue queue = lab.open_queue(0, 0, 16, true);
  for (std::uint32_t factor = 2; factor < 4; ++factor) {
    REQUIRE(scale(&lab[0].device, &queue, made.bytes.data(), made.bytes.size(), lab.take_device(4096), data, factor,
                  lab.take_host(64)) == 0);
  }
  for (std::uint32_t i = 0; i < kWords; ++i) {
    if (lab[0].read<std::uint32_t>(data + 4 * i) != 6 * i) FAIL("word " << i);
  }
  settle(lab);
}

}  // namespace system_brought_kernel_test
