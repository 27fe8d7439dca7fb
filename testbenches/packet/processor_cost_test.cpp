// What packets cost, phase by phase, against times worked out by hand (PKT-08).
#include "packet/packet_bench.h"
#include "packet/packet_work.h"

namespace packet_processor_cost_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::packet::CondensedOrder;
using heddle::packet::PacketParams;
using heddle::packet::PacketTimes;
using namespace heddle::test;

namespace {

// A step is a nanosecond, and a cycle. A plain packet is 8 steps of bytes and 14 of rules, and when its object is there
// 16 of bytes and 7 of rules; a dispatch is 15, a clean-up 3, or 5 with a signal.
PacketParams simple() {
  PacketParams params;
  params.step = 1;
  params.table_bits = 256;
  params.table_latency = 4;
  return params;
}
constexpr Cycle kFirst = 8 + 14;
constexpr Cycle kObject = 16 + 7;
constexpr Cycle kDispatch = 15;

std::vector<Cycle> list(const PacketTimes& times) {
  return {times.doorbell,   times.fetched, times.ready, times.decoded,
          times.dispatched, times.started, times.ended, times.cleaned};
}

}  // namespace

TEST_CASE("a packet's phases take what the parameters say", "[packet][PKT-08][PKT-04]") {
  PacketBench bench(simple());
  bench.tasks.start_latency = 15;
  bench.tasks.duration = [](const FakeTasks::Kernel&) { return Cycle{500}; };
  arch::DispatchFields fields = fields_of(bench.object("k"), bench.signal(0, 1));
  fields.synch_scopes = 2 << 1 | 2 << 3;  // acquire and release of system scope
  Producer queue(bench, 0);
  queue.write(arch::encode(arch::KernelDispatch{fields, 0, 0}));
  bench.run(1000);
  queue.ring(0);
  REQUIRE(bench.settle());
  const PacketTimes& times = bench.log.of(0, 0)->times;
  const Cycle bell = times.doorbell;
  CHECK(bell == 1000);
  // A read of 50; the object's 50, which cover the decoder's first 22; its other 23; the slices forget, 50; dispatch
  // 15; start 15; run 500; write-back 50, clean-up 5, atomic 50.
  const std::vector<Cycle> expected{bell,       bell + 50,  bell + 50,  bell + 173,
                                    bell + 188, bell + 203, bell + 703, bell + 808};
  CHECK(list(times) == expected);
  CHECK(bench.memory.write_backs == 1);
  CHECK(bench.memory.invalidates == 1);
}

TEST_CASE("fences of system scope take what memory takes for them, others nothing", "[packet][PKT-14][PKT-08]") {
  const std::array<Cycle, 3> acquire{0, 0, 50};
  const std::array<Cycle, 3> release{0, 0, 50};
  for (std::uint8_t a = 0; a < 3; ++a) {
    for (std::uint8_t r = 0; r < 3; ++r) {
      CAPTURE(int{a}, int{r});
      PacketBench bench(simple());
      arch::DispatchFields fields = fields_of(bench.object("k"));
      fields.synch_scopes = static_cast<std::uint8_t>(a << 1 | r << 3);
      Producer queue(bench, 0);
      queue.submit(arch::encode(arch::KernelDispatch{fields, 0, 0}));
      REQUIRE(bench.settle());
      const PacketTimes& times = bench.log.of(0, 0)->times;
      CHECK(times.decoded - times.ready == 50 + kObject + acquire[a]);
      CHECK(times.cleaned - times.ended == release[r] + 3);
      CHECK(bench.memory.write_backs == (r == 2 ? 1 : 0));
      CHECK(bench.memory.invalidates == (a == 2 ? 1 : 0));
    }
  }
}

TEST_CASE("loosely timed, only memory and kernels take time", "[packet][PKT-08]") {
  PacketBench bench(simple(), TimingMode::lt);
  bench.tasks.duration = [](const FakeTasks::Kernel&) { return Cycle{500}; };
  arch::DispatchFields fields = fields_of(bench.object("k"));
  fields.synch_scopes = 1 << 1 | 1 << 3;
  Producer queue(bench, 0);
  queue.submit(arch::encode(arch::KernelDispatch{fields, 0, 0}));
  REQUIRE(bench.settle());
  const PacketTimes& times = bench.log.of(0, 0)->times;
  CHECK(times.dispatched - times.ready == 50);  // the kernel object
  CHECK(times.cleaned == times.ended);
}

TEST_CASE("a slow kernel object holds its packet, not the decoder", "[packet][PKT-08][PKT-10]") {
  PacketBench bench(simple());
  const std::uint64_t object = bench.object("k");
  bench.memory.delay = [] { return Cycle{5000}; };
  Producer a(bench, 0);
  Producer b(bench, 1);
  a.write(kernel_packet(object));
  b.write(kernel_packet(object));
  a.ring(0);
  b.ring(0);
  REQUIRE(bench.settle());
  const PacketTimes& first = bench.log.of(0, 0)->times;
  const PacketTimes& second = bench.log.of(1, 0)->times;
  CHECK(first.decoded - first.ready == 5000 + kObject);
  CHECK(second.ready - first.ready == kFirst);
  CHECK(second.decoded - first.decoded == kObject);  // its object came while the decoder had the first one
}

TEST_CASE("a condensed packet pays once for what plain packets pay each", "[packet][PKT-07][PKT-08]") {
  constexpr std::uint32_t kKernels = 6;
  const auto run = [&](bool condensed) {
    PacketBench bench(simple());
    bench.tasks.duration = [](const FakeTasks::Kernel&) { return Cycle{100}; };
    arch::DispatchFields fields = fields_of(bench.object("k"), bench.signal(0, 100), true);
    Producer queue(bench, 0);
    queue.submit(reference_packet(0, fields));
    REQUIRE(bench.settle());
    const Cycle begin = bench.domain.now();
    if (condensed) {
      queue.submit(condensed_packet(std::vector<arch::Diff>(kKernels, diff_of(0))));
    } else {
      for (std::uint32_t i = 0; i < kKernels; ++i) queue.submit(kernel_packet(fields.kernel_object, 0, true));
    }
    REQUIRE(bench.settle());
    const auto& last = bench.log.done.back();
    return std::make_pair(last.times.cleaned - begin, bench.log.done);
  };
  const auto plain = run(false);
  const auto condensed = run(true);
  // Fetch 50; 8 steps of bytes and 6 half-words, while 6 of the table's port (1,135 bits) and 4 pass; no rules. Each
  // kernel dispatch 15 and 100, clean-up 5 and the signal's 50.
  CHECK(condensed.first == 50 + 8 + kKernels + kKernels * (kDispatch + 100) + 5 + 50);
  // Fetch 50, then each 50 + 23 + 15 + 100 + 3, one after the other.
  CHECK(plain.first == 50 + kKernels * (50 + kObject + kDispatch + 100 + 3));
  Cycle before = 0;
  for (std::uint32_t i = 0; i < kKernels; ++i) {
    const auto& record = condensed.second[1 + i];
    CAPTURE(i);
    CHECK(record.kernel == i);
    CHECK(record.kernels == kKernels);
    CHECK(record.times.ended - record.times.started == 100);
    CHECK(record.times.dispatched - record.times.decoded == kDispatch);
    if (i > 0) {
      CHECK(record.times.decoded == before);
      CHECK(record.times.doorbell == before);
    } else {
      CHECK(record.times.decoded - record.times.ready == 8 + kKernels);
    }
    CHECK(record.times.cleaned - record.times.ended == (i + 1 == kKernels ? 55 : 0));
    before = record.times.ended;
  }
}

TEST_CASE("a reference packet costs what storing its entry takes", "[packet][PKT-05][PKT-08][PKT-11]") {
  const auto decode = [](bool reference, const PacketParams& params) {
    PacketBench bench(params);
    Producer queue(bench, 0);
    const arch::DispatchFields fields = fields_of(bench.object("k"));
    queue.submit(reference ? reference_packet(3, fields) : arch::encode(arch::KernelDispatch{fields, 0, 0}));
    REQUIRE(bench.settle());
    const PacketTimes& times = bench.log.of(0, 0)->times;
    return times.decoded - times.ready;
  };
  PacketParams params = simple();
  CHECK(decode(false, params) == 50 + kObject);
  CHECK(decode(true, params) == 50 + kObject + 5 + 4);  // 1,135 bits by 256, and the latency
  params.table_bits = 64;
  params.table_latency = 10;
  CHECK(decode(true, params) == 50 + kObject + 18 + 10);
  params.table = heddle::packet::TablePlace::memory;
  CHECK(decode(true, params) == 50 + kObject + 50);  // two lines at a time
}

TEST_CASE("an entry from memory comes in and is checked as a whole", "[packet][PKT-08][PKT-11]") {
  PacketParams params = simple();
  params.table = heddle::packet::TablePlace::memory;
  PacketBench bench(params);
  Producer queue(bench, 0);
  for (std::uint16_t entry = 0; entry < 2; ++entry) {
    queue.submit(reference_packet(entry, fields_of(bench.object("k"))));
  }
  REQUIRE(bench.settle());
  const auto count = [&](const std::string& name) { return bench.observation.stats.value("gpu0.packet." + name); };
  const double bytes = count("work.bytes");
  const double checks = count("work.checks");
  queue.submit(condensed_packet({diff_of(0), diff_of(1), diff_of(0, {{11, 0x40}})}));
  REQUIRE(bench.settle());
  // Its entries are there after 50, when 8 + 7 steps are over; each is 256 bytes and all 21 rules, once for a packet.
  const PacketTimes& times = bench.log.of(0, 2)->times;
  CHECK(times.decoded - times.ready == 50 + 2 * (32 + 21) + 1);
  CHECK(count("work.bytes") - bytes == 64 + 2 * 256 + 3 * 116 + 17);
  CHECK(count("work.checks") - checks == 2 * 21 + 1);
}

TEST_CASE("what whoever plans packets reckons with is what they take", "[packet][PKT-08][PKT-13]") {
  PacketParams params = simple();
  heddle::packet::DecodeCosts costs = heddle::packet::decode_costs(params, 1, 50);
  CHECK(costs.plain == 8 + 14 + 16 + 7);
  CHECK(costs.reference == costs.plain + 5 + 4);
  CHECK(costs.condensed == 8 + 4);
  CHECK(costs.diff == 5 + 1 + 5);  // header and arguments, their rule, and 1,135 bits by 256
  params.table = heddle::packet::TablePlace::memory;
  costs = heddle::packet::decode_costs(params, 1, 50);
  CHECK(costs.plain == 8 + 14 + 16 + 7);
  CHECK(costs.reference == costs.plain + 50);
  CHECK(costs.condensed == 8 + 50);
  CHECK(costs.diff == 5 + 1 + 32 + 21);
}

// Every rule is a count of things over a rate.
TEST_CASE("the decoder is as slow as its rates", "[packet][PKT-08]") {
  const auto decode = [](const PacketParams& params, const std::vector<arch::Diff>& diffs) {
    PacketBench bench(params);
    Producer queue(bench, 0);
    for (std::uint16_t entry = 0; entry < 2; ++entry) {
      queue.submit(reference_packet(entry, fields_of(bench.object("k"))));
    }
    REQUIRE(bench.settle());
    queue.submit(condensed_packet(diffs));
    REQUIRE(bench.settle());
    const PacketTimes& times = bench.log.of(0, 2)->times;
    return times.decoded - times.ready;
  };
  const std::vector<arch::Diff> same{diff_of(0), diff_of(1), diff_of(0)};
  const std::vector<arch::Diff> arguments{diff_of(0, {{11, 0x40}}), diff_of(0, {{11, 0x80}})};
  const std::vector<arch::Diff> object{diff_of(0, {{10, PacketBench::kObjects}})};
  PacketParams params = simple();
  // Two entries: 5 cycles of the port each, and 4; 8 + 3 steps take as long, or less.
  CHECK(decode(params, same) == 5 + 5 + 4);
  params.table_bits = 4096;
  CHECK(decode(params, same) == 8 + 3);
  CHECK(decode(params, arguments) == 8 + 10 + 2);  // a rule for each kernel's arguments
  // A rule for the address, and the object again: it is asked for when the entry is there, after 1 + 4.
  CHECK(decode(params, object) == 5 + 50 + 16 + 1 + 7);
  params.step_half_words = 4;
  CHECK(decode(params, arguments) == 8 + 3 + 2);
  params.step_checks = 2;
  CHECK(decode(params, arguments) == 8 + 3 + 1);
  params.step_bytes = 32;
  CHECK(decode(params, arguments) == 2 + 3 + 1 + 0);
  params.step = 5;
  CHECK(decode(params, arguments) == 5 * 6);
}

TEST_CASE("queues that share the port of the tables wait for each other", "[packet][PKT-10][PKT-11]") {
  PacketParams params = simple();
  params.table_bits = 8;  // 142 cycles
  params.step = 0;
  PacketBench bench(params);
  Producer a(bench, 0);
  Producer b(bench, 1);
  for (Producer* queue : {&a, &b}) queue->submit(reference_packet(0, fields_of(bench.object("k"))));
  REQUIRE(bench.settle());
  a.write(condensed_packet({diff_of(0)}));
  b.write(condensed_packet({diff_of(0)}));
  a.ring(1);
  b.ring(1);
  REQUIRE(bench.settle());
  const PacketTimes& first = bench.log.of(0, 1)->times;
  const PacketTimes& second = bench.log.of(1, 1)->times;
  CHECK(first.ready == second.ready);
  CHECK(first.decoded - first.ready == 142 + 4);
  CHECK(second.decoded - second.ready == 2 * 142 + 4);
}

TEST_CASE("a program on a general circuit does one thing after the other", "[packet][PKT-13]") {
  PacketParams params = simple();
  params.circuit = heddle::packet::Circuit::general;
  params.program_instructions = 2;
  params.program_issue = 3;
  PacketBench bench(params);
  bench.tasks.duration = [](const FakeTasks::Kernel&) { return Cycle{5}; };
  Producer a(bench, 0);
  Producer b(bench, 1);
  const std::uint64_t object = bench.object("k");
  a.submit(kernel_packet(object));
  REQUIRE(bench.settle());
  const PacketTimes& alone = bench.log.of(0, 0)->times;
  CHECK(alone.decoded - alone.ready == 6 * (kFirst + kObject));  // the object has come meanwhile
  CHECK(alone.dispatched - alone.decoded == 6 * kDispatch);
  CHECK(alone.cleaned - alone.ended == 6 * 3);
  a.write(kernel_packet(object));
  b.write(kernel_packet(object));
  a.ring(1);
  b.ring(0);
  REQUIRE(bench.settle());
  // Both are taken apart before either object is there; then two objects, two dispatches and two clean-ups, none beside
  // another.
  const PacketTimes& first = bench.log.of(0, 1)->times;
  const PacketTimes& second = bench.log.of(1, 0)->times;
  CHECK(second.ready - first.ready == 6 * kFirst);
  CHECK(second.cleaned - first.ready >= 6 * 2 * (kFirst + kObject + kDispatch) + 6 * 3);
}

TEST_CASE("work is counted", "[packet][PKT-08]") {
  PacketBench bench(simple());
  Producer queue(bench, 0);
  const auto count = [&](const std::string& name) { return bench.observation.stats.value("gpu0.packet." + name); };
  queue.submit(reference_packet(2, fields_of(bench.object("k"))));
  REQUIRE(bench.settle());
  CHECK(count("work.bytes") == 64 + 128 + 116 + 17);
  CHECK(count("work.half_words") == 0);
  CHECK(count("work.checks") == 14 + 7);
  CHECK(count("work.steps") == 8 + 14 + 16 + 7 + 15 + 3);  // 116 bytes are 15 steps of 8, 17 are 3
  CHECK(count("objects") == 1);
  CHECK(count("table.writes") == 1);
  CHECK(count("table.reads") == 0);
  queue.submit(condensed_packet({diff_of(2), diff_of(2, {{11, 0x40}, {12, bench.signal(0, 5)}}), diff_of(2)}));
  REQUIRE(bench.settle());
  CHECK(count("work.bytes") == 64 + 128 + 116 + 17 + 64 + 3 * 116 + 17 + 16 + 17);
  CHECK(count("work.half_words") == 1 + 9 + 1);
  CHECK(count("work.checks") == 14 + 7 + 2);
  CHECK(count("work.steps") == 63 + 8 + 11 + 2 + 3 * 15 + 5 + 3);
  CHECK(count("objects") == 1);  // that of the reference packet
  CHECK(count("table.reads") == 1);
  CHECK(count("table.scopes") == 0);
}

}  // namespace packet_processor_cost_test
