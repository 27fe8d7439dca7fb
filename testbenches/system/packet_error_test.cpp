// Every error of a packet (PKT-09) on the whole machine: code, index and kernel in the registers, interrupt, signal;
// nothing of the packet is launched, another queue goes on, and the queue works again once it is closed and opened.
#include "support/packet_programs.h"

namespace system_packet_error_test {

using namespace heddle;
using namespace heddle::test;

namespace {

using Machine = PacketLab::Machine;

constexpr std::uint32_t kFormat = 0x1009;
constexpr std::uint32_t kArgument = 0x1001;
constexpr std::uint32_t kAllocation = 0x1003;
constexpr std::uint32_t kIncompatible = 0x100D;
constexpr std::uint32_t kResources = 0x1008;
constexpr std::uint32_t kCode = 0x1010;
constexpr std::uint32_t kSignal = 0x1006;
constexpr std::uint32_t kException = 0x1016;
constexpr unsigned kEntry = 2;  // of the table, that is full
constexpr std::uint32_t kChain = 6;

heddle_error wait_for_error(Machine& m, heddle_queue& queue) {
  heddle_error error{};
  for (int i = 0; i < 2000 && error.count == 0; ++i) {
    m.bus.relax(nullptr);
    REQUIRE(heddle_queue_error(&queue, &error) == HEDDLE_OK);
  }
  return error;
}

struct Bad {
  const char* name;
  std::uint32_t status;
  // From a dispatch that is right.
  std::function<heddle_packet(PacketLab&, heddle_dispatch)> packet;
  std::uint32_t kernel = 0;
  bool tells = true;  // its signal can be known
};

Bad field(const char* name, std::uint32_t status, const std::function<void(heddle_dispatch&)>& spoil,
          bool tells = true) {
  const auto packet = [spoil](PacketLab&, heddle_dispatch d) {
    spoil(d);
    return kernel(d);
  };
  return {name, status, packet, 0, tells};
}

Bad byte(const char* name, std::uint32_t status, std::size_t at, std::uint8_t value, bool tells = true) {
  const auto packet = [at, value](PacketLab&, const heddle_dispatch& d) {
    heddle_packet spoilt = kernel(d);
    spoilt.bytes[at] = value;
    return spoilt;
  };
  return {name, status, packet, 0, tells};
}

Bad object(const char* name, std::uint32_t status,
           const std::function<void(heddle_kernel_object&, heddle_dispatch&)>& spoil) {
  const auto packet = [spoil](PacketLab& lab, heddle_dispatch d) {
    heddle_kernel_object object{};
    object.shortest = object.longest = 10;
    spoil(object, d);
    d.kernel_object = lab.new_object(0, object);
    return kernel(d);
  };
  return {name, status, packet};
}

struct Part {
  unsigned entry = kEntry;
  std::uint16_t vector = 0;
};

// Kernels as differences that have the dispatch's values, but for what is spoilt: `bytes` of the packet.
Bad condensed(const char* name, std::uint32_t status, std::uint32_t bad, bool tells, const std::vector<Part>& parts,
              const std::function<void(heddle_dispatch&)>& spoil, const std::vector<std::pair<int, int>>& bytes = {}) {
  const auto packet = [=](PacketLab&, heddle_dispatch d) {
    spoil(d);
    heddle_condensed condensed{};
    heddle_condensed_init(&condensed);
    for (const Part& part : parts) {
      REQUIRE(heddle_condensed_append(&condensed, part.entry, part.vector, &d) == HEDDLE_OK);
    }
    for (const auto& [at, value] : bytes) condensed.packet.bytes[at] = static_cast<std::uint8_t>(value);
    return condensed.packet;
  };
  return {name, status, packet, bad, tells};
}

void add_fields(std::vector<Bad>& all) {
  const auto wide = [](heddle_dispatch& d) {
    d.setup = 2;
    d.workgroup[0] = 64, d.grid[0] = 64;
    d.workgroup[1] = 32, d.grid[1] = 32;
  };
  all.push_back(byte("an undefined type", kFormat, 0, 8, false));
  all.push_back(byte("the last undefined type", kFormat, 0, 255, false));
  all.push_back(byte("reserved bits of the header", kFormat, 1, 0x20));
  all.push_back(byte("a scope that does not exist", kFormat, 1, 0x18));
  all.push_back(byte("reserved0", kFormat, 11, 1));
  all.push_back(byte("reserved2", kFormat, 55, 0x80));
  all.push_back(field("dimensions 0", kArgument, [](auto& d) { d.setup = 0; }));
  all.push_back(field("dimensions above 3", kFormat, [](auto& d) { d.setup = 4; }));
  all.push_back(field("reserved bits of setup", kFormat, [](auto& d) { d.setup = 0x101; }));
  all.push_back(field("a workgroup of 0", kArgument, [](auto& d) { d.workgroup[0] = 0; }));
  all.push_back(field("a workgroup of 0 in y", kArgument, [](auto& d) { d.setup = 2, d.workgroup[1] = 0; }));
  all.push_back(
      field("a workgroup above the limit", kArgument, [](auto& d) { d.workgroup[0] = 1025, d.grid[0] = 1025; }));
  all.push_back(field("a workgroup above the limit by its product", kArgument, wide));
  all.push_back(field("more shared memory than an SM has", kResources, [](auto& d) { d.group_segment = 1U << 20; }));
  all.push_back(field("a misaligned kernarg", kArgument, [](auto& d) { d.kernarg += 8; }));
  all.push_back(field("a kernarg in the host's memory", kArgument, [](auto& d) { d.kernarg = HEDDLE_HOST_WINDOW; }));
  all.push_back(field("a grid smaller than its workgroup", kArgument, [](auto& d) { d.grid[0] = 31; }));
  all.push_back(field("an unused dimension of the grid", kArgument, [](auto& d) { d.grid[1] = 2; }));
  all.push_back(field("an unused dimension of the workgroup", kArgument, [](auto& d) { d.workgroup[2] = 2; }));
  all.push_back(field("no kernel object", kCode, [](auto& d) { d.kernel_object = 0; }));
  all.push_back(field("a misaligned kernel object", kCode, [](auto& d) { d.kernel_object += 64; }));
  all.push_back(
      field("a kernel object that memory does not have", kCode, [](auto& d) { d.kernel_object = 1ULL << 50; }));
  all.push_back(field("no kernel object at that address", kCode, [](auto& d) { d.kernel_object = 0x800000; }));
  all.push_back(field("a kernel object in the host's memory", kCode,
                      [](auto& d) { d.kernel_object = HEDDLE_HOST_WINDOW + 4096; }));
  all.push_back(field(
      "a misaligned signal", kSignal, [](auto& d) { d.completion_signal += 8; }, false));
}

void add_objects(std::vector<Bad>& all) {
  using Object = heddle_kernel_object;
  constexpr std::size_t kGpc = HEDDLE_CLUSTER_GPC;
  const auto cluster = [](Object& o, std::uint16_t ctas) {
    o.extents[kGpc][0] = ctas;
    o.extents[kGpc][1] = o.extents[kGpc][2] = 1;
  };
  all.push_back(object("more registers than a thread can have", kResources,
                       [](Object& o, auto&) { o.registers_per_thread = 256; }));
  all.push_back(object("more registers than an SM has", kResources, [](Object& o, auto& d) {
    o.registers_per_thread = 255;
    d.workgroup[0] = 1024, d.grid[0] = 1024;
  }));
  all.push_back(object("a group segment without the static shared memory", kAllocation, [](Object& o, auto& d) {
    o.static_shared = 2000;
    d.group_segment = 1999;
  }));
  all.push_back(object("a threads limit", kIncompatible, [](Object& o, auto&) { o.threads_limit = 31; }));
  all.push_back(object("a program that does not exist", kCode, [](Object& o, auto&) { o.program = 9999; }));
  all.push_back(object("clusters that do not divide the grid", kIncompatible, [cluster](Object& o, auto& d) {
    cluster(o, 2);
    d.grid[0] = 32 * 3;
  }));
  all.push_back(object("clusters that nothing can hold", kResources, [cluster](Object& o, auto& d) {
    cluster(o, 16);
    d.group_segment = o.static_shared = 200'000;  // an SM each
    d.grid[0] = 32 * 16;
  }));
  all.push_back(object("a partial workgroup with clusters", kIncompatible, [cluster](Object& o, auto& d) {
    cluster(o, 2);
    d.grid[0] = 32 * 3 + 5;
  }));
}

void add_condensed(std::vector<Bad>& all) {
  constexpr std::uint16_t kSignalField = 1U << HEDDLE_FIELD_COMPLETION_SIGNAL;
  constexpr std::uint16_t kGridField = 1U << HEDDLE_FIELD_GRID;
  constexpr std::uint16_t kObjectField = 1U << HEDDLE_FIELD_KERNEL_OBJECT;
  const auto nothing = [](heddle_dispatch&) {};
  all.push_back(condensed("no kernels", kFormat, 0, false, {}, nothing));
  all.push_back(condensed("an empty entry", kArgument, 0, false, {{5, 0}, {kEntry, kSignalField}}, nothing));
  all.push_back(condensed("an empty entry in a later kernel", kArgument, 2, false,
                          {{kEntry, 0}, {kEntry, 0}, {0, 0}, {7, kSignalField}}, nothing));
  // All fields: 1 + 5 + 10 + 12 half-words.
  all.push_back(condensed("differences past 31", kFormat, 1, false, {{kEntry, 0x1FFF}}, nothing,
                          {{1, 2}, {2 + 2 * 28, 0xF8}, {3 + 2 * 28, 0xFF}}));
  all.push_back(condensed("differences past 31 in a later kernel", kFormat, 3, false,
                          {{kEntry, 0}, {kEntry, 0x1C00}, {kEntry, 0x1C00}, {kEntry, 0}}, nothing,
                          {{2 + 2 * 27, 0xFA}, {3 + 2 * 27, 0xFF}}));
  all.push_back(condensed("more than 31 kernels", kFormat, 31, false, std::vector<Part>(31), nothing, {{1, 32}}));
  all.push_back(condensed("a grid in a later kernel", kArgument, 1, true,
                          {{kEntry, 0}, {kEntry, kGridField}, {kEntry, kSignalField}},
                          [](heddle_dispatch& d) { d.grid[0] = 5; }));
  all.push_back(condensed("a kernel object in a later kernel", kCode, 2, true,
                          {{kEntry, 0}, {kEntry, 0}, {kEntry, kObjectField | kSignalField}},
                          [](heddle_dispatch& d) { d.kernel_object = 0x800000; }));
}

void add_others(std::vector<Bad>& all) {
  all.push_back({"a table entry above 7", kArgument, [](PacketLab&, const heddle_dispatch& d) {
                   heddle_packet packet{};
                   REQUIRE(heddle_packet_reference(&packet, &d, 3) == HEDDLE_OK);
                   packet.bytes[10] = 8;
                   return packet;
                 }});
  all.push_back({"a vendor format that does not exist", kFormat, [](PacketLab&, const heddle_dispatch& d) {
                   heddle_packet packet{};
                   heddle_packet_hold(&packet, 1, 5, d.completion_signal);
                   packet.bytes[2] = 4;
                   return packet;
                 }});
  all.push_back({"a copy onto itself", kArgument, [](PacketLab&, const heddle_dispatch& d) {
                   heddle_packet packet{};
                   heddle_packet_copy(&packet, 1, d.kernarg, d.kernarg + 4, 8, d.completion_signal);
                   return packet;
                 }});
  all.push_back({"a reserved field of an agent packet", kFormat, [](PacketLab&, const heddle_dispatch& d) {
                   heddle_agent agent{};
                   agent.completion_signal = d.completion_signal;
                   heddle_packet packet{};
                   heddle_packet_agent(&packet, &agent);
                   packet.bytes[4] = 1;
                   return packet;
                 }});
  all.push_back({"a signal to wait for that memory does not have", kSignal, [](PacketLab&, const heddle_dispatch& d) {
                   const std::uint64_t nowhere = std::uint64_t{1} << 50;
                   heddle_packet packet{};
                   heddle_packet_barrier(&packet, HEDDLE_PACKET_BARRIER_AND, 1, &nowhere, 1, d.completion_signal);
                   return packet;
                 }});
}

std::vector<Bad> all_errors() {
  std::vector<Bad> all;
  add_fields(all);
  add_objects(all);
  add_condensed(all);
  add_others(all);
  return all;
}

struct Objects {
  std::uint64_t good;
  std::uint64_t wrong;  // of the bad packet: would be seen in memory
};

std::uint64_t new_word(PacketLab& lab) {
  const std::uint64_t word = lab.take_device(128);
  lab[0].write<std::uint32_t>(word, 1);
  return word;
}

std::uint32_t steps(std::uint32_t count, std::uint32_t k) {
  std::uint32_t value = 1;
  for (std::uint32_t i = 0; i < count; ++i) value = value * 3 + k;
  return value;
}

// One bad packet between good ones, beside a queue with an ordered chain.
void judge(PacketLab& lab, const Bad& bad, const Objects& objects, bool in_host) {
  Machine& m = lab[0];
  const double launched = m.stat("task.dispatches");
  const std::uint64_t word = new_word(lab);
  const std::uint64_t chain = new_word(lab);
  const std::uint64_t before = lab.new_signal(0, in_host, 1);
  const std::uint64_t wrong = lab.new_signal(0, in_host, 1);
  const std::uint64_t after = lab.new_signal(0, in_host, 1);
  const std::uint64_t done = lab.new_signal(0, in_host, kChain);
  heddle_queue queue = lab.open_queue(0, 0, 8, in_host);
  heddle_queue other = lab.open_queue(0, 1, 8, !in_host);
  const auto dispatch = [word](std::uint64_t object, std::uint64_t signal) {
    heddle_dispatch d = PacketLab::dispatch(object, 32, 32, signal);
    d.kernarg = word;
    return d;
  };
  heddle_dispatch of_chain = dispatch(objects.good, done);
  of_chain.kernarg = chain;
  const heddle_dispatch first = dispatch(objects.good, before);
  heddle_packet reference{};
  REQUIRE(heddle_packet_reference(&reference, &first, kEntry) == HEDDLE_OK);
  CHECK_FALSE(m.irq.read());
  submit(other, std::vector<heddle_packet>(kChain, kernel(of_chain)));
  const heddle_dispatch third = dispatch(objects.good, after);
  submit(queue, {reference, bad.packet(lab, dispatch(objects.wrong, wrong)), kernel(third)});
  const heddle_error error = wait_for_error(m, queue);
  CHECK(error.status == bad.status);
  CHECK(error.index == 1);
  CHECK(error.kernel == bad.kernel);
  std::uint32_t pending = 0;
  REQUIRE(heddle_device_interrupts(&m.device, &pending) == HEDDLE_OK);
  CHECK((pending & HEDDLE_INT_QUEUE_ERROR_MASK) != 0);
  CHECK((pending & HEDDLE_INT_FAULT_MASK) == 0);
  for (int i = 0; i < 20 && !m.irq.read(); ++i) m.bus.relax(nullptr);
  CHECK(m.irq.read());
  CHECK(m.read<std::int64_t>(done) > 0);  // the other is still at it
  CHECK(wait_below(m, done) == 0);
  sc_core::sc_start(sc_core::sc_time(5, sc_core::SC_US));
  CHECK(m.stat("task.dispatches") == launched + 1 + kChain);
  CHECK(m.read<std::uint32_t>(word) == steps(1, 5));
  CHECK(m.read<std::uint32_t>(chain) == steps(kChain, 5));
  CHECK(m.read<std::int64_t>(before) == 0);
  CHECK(m.read<std::int64_t>(wrong) == (bad.tells ? -static_cast<std::int64_t>(bad.status) : 1));
  CHECK(m.read<std::int64_t>(after) == 1);
  std::uint64_t taken = 0;
  REQUIRE(heddle_queue_taken(&queue, &taken) == HEDDLE_OK);
  CHECK(taken == 1);
  REQUIRE(heddle_queue_destroy(&queue, 10'000) == HEDDLE_OK);
  REQUIRE(heddle_device_acknowledge(&m.device, pending) == HEDDLE_OK);
  m.bus.relax(nullptr);
  CHECK_FALSE(m.irq.read());
  heddle_queue again = lab.open_queue(0, 0, 8, !in_host);
  submit(again, {kernel(third)});
  CHECK(wait_below(m, after) == 0);
  CHECK(m.read<std::uint32_t>(word) == steps(2, 5));
  REQUIRE(heddle_queue_destroy(&again, 10'000) == HEDDLE_OK);
  REQUIRE(heddle_queue_destroy(&other, 10'000) == HEDDLE_OK);
}

}  // namespace

TEST_CASE("every error of a packet is told, and nothing of the packet launches", "[system][PKT-09][PKT-06][PKT-11]") {
  const std::string table = GENERATE("scratch", "memory");
  const std::string timing = GENERATE("at", "fast", "lt");
  SimFixture fixture;
  PacketLab lab(small({"gpu.packet.table=" + table, "gpu.timing=" + timing}));
  lab.begin();
  Machine& m = lab[0];
  REQUIRE(heddle_device_mask(&m.device, HEDDLE_INT_QUEUE_ERROR_MASK) == HEDDLE_OK);
  const Objects objects{lab.program_object(0, step_program(5)), lab.program_object(0, step_program(9))};
  bool in_host = false;
  for (const Bad& bad : all_errors()) {
    CAPTURE(table, timing, bad.name);
    judge(lab, bad, objects, in_host = !in_host);
  }
  CHECK(m.gpu.log().faults().empty());
  settle(lab);
}

TEST_CASE("a kernel that faults leaves an ordered chain of another queue alone", "[system][PKT-09][PKT-10]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing}));
  lab.begin();
  Machine& m = lab[0];
  constexpr std::uint32_t kSteps = 30;
  const std::uint64_t object = lab.program_object(0, step_program(5));
  const std::uint64_t word = new_word(lab);
  const std::uint64_t behind = new_word(lab);
  const std::uint64_t done = lab.new_signal(0, true, kSteps);
  const std::uint64_t broken = lab.new_signal(0, true, 1);
  const std::uint64_t never = lab.new_signal(0, true, 1);
  heddle_queue chain = lab.open_queue(0, 0, 64, true);
  heddle_queue queue = lab.open_queue(0, 1, 8, false);
  heddle_dispatch d = PacketLab::dispatch(object, 32, 32, done);
  d.kernarg = word;
  submit(chain, std::vector<heddle_packet>(kSteps, kernel(d)));
  heddle_dispatch fault = PacketLab::dispatch(object, 32, 32, broken);
  fault.kernarg = std::uint64_t{1} << 40;  // outside memory
  heddle_dispatch last = PacketLab::dispatch(object, 32, 32, never);
  last.kernarg = behind;
  submit(queue, {kernel(fault), kernel(last)});
  CHECK(wait_below(m, broken) == -static_cast<std::int64_t>(kException));
  CHECK(m.read<std::int64_t>(done) > 0);
  CHECK(wait_below(m, done) == 0);
  CHECK(m.read<std::uint32_t>(word) == steps(kSteps, 5));
  CHECK(m.read<std::uint32_t>(behind) == 1);
  CHECK(m.read<std::int64_t>(never) == 1);
  const heddle_error error = wait_for_error(m, queue);
  CHECK(error.status == kException);
  CHECK(error.index == 0);
  heddle_error of_chain{};
  REQUIRE(heddle_queue_error(&chain, &of_chain) == HEDDLE_OK);
  CHECK(of_chain.count == 0);
  CHECK(m.gpu.log().faults().size() == 1);
  CHECK(m.stat("task.faulted") == 1);
  CHECK(m.stat("task.kernels") == kSteps);
  settle(lab);
}

TEST_CASE("nothing is counted as open after a reset in mid-flight", "[system][HST-01]") {
  SimFixture fixture;
  PacketLab lab(small({}));
  lab.begin();
  Machine& m = lab[0];
  heddle_queue queue = lab.open_queue(0, 0, 16, true);
  const heddle_packet packet = kernel(PacketLab::dispatch(lab.timed_object(0, 50'000), 320, 32, 0, false));
  submit(queue, {packet, packet, packet});
  sc_core::sc_start(sc_core::sc_time(20, sc_core::SC_US));
  for (const char* gauge : {"packet.open", "packet.in_flight", "task.open"}) CHECK(m.stat(gauge) == 3);
  REQUIRE(heddle_device_reset(&m.device, 0) == HEDDLE_OK);
  sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_US));
  for (const char* gauge : {"packet.open", "packet.in_flight", "task.open"}) CHECK(m.stat(gauge) == 0);
  settle(lab);
}

}  // namespace system_packet_error_test
