// What packets cost, phase by phase, against times worked out by hand (PKT-08).
#include "packet/packet_bench.h"

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

PacketParams simple() {
  PacketParams params;
  params.decode_plain = 200;
  params.decode_reference = 210;
  params.decode_condensed = 150;
  params.decode_diff = 20;
  params.dispatch = 70;
  params.clean_up = 80;
  return params;
}

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
  // A read of 50; the decoder's 200 cover the read of the object; the slices forget, 50; dispatch 70; start 15; run
  // 500; write-back 50, clean-up 80, atomic 50.
  const std::vector<Cycle> expected{bell,       bell + 50,  bell + 50,  bell + 300,
                                    bell + 370, bell + 385, bell + 885, bell + 1065};
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
      CHECK(times.decoded - times.ready == 200 + acquire[a]);
      CHECK(times.cleaned - times.ended == release[r] + 80);
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
  CHECK(first.decoded - first.ready == 5000);
  CHECK(second.ready - first.ready == 200);
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
  // Fetch 50, decode 150 + 6 x 20, each kernel dispatch 70 and 100, clean-up 80 and the signal's 50.
  CHECK(condensed.first == 50 + 150 + kKernels * 20 + kKernels * 170 + 80 + 50);
  // Fetch 50, then each 200 + 70 + 100 + 80, one after the other.
  CHECK(plain.first == 50 + kKernels * 450);
  Cycle before = 0;
  for (std::uint32_t i = 0; i < kKernels; ++i) {
    const auto& record = condensed.second[1 + i];
    CAPTURE(i);
    CHECK(record.kernel == i);
    CHECK(record.kernels == kKernels);
    CHECK(record.times.ended - record.times.started == 100);
    CHECK(record.times.dispatched - record.times.decoded == 70);
    if (i > 0) {
      CHECK(record.times.decoded == before);
      CHECK(record.times.doorbell == before);
    } else {
      CHECK(record.times.decoded - record.times.ready == 150 + kKernels * 20);
    }
    CHECK(record.times.cleaned - record.times.ended == (i + 1 == kKernels ? 130 : 0));
    before = record.times.ended;
  }
}

}  // namespace packet_processor_cost_test
