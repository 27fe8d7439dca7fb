// User-mode queues on the whole machine: registers, rings in memory, packets, kernels on real data, signals. Checkers
// of the base protocol sit on every boundary.
#include "protocol/host_packet.h"
#include "support/packet_programs.h"

namespace system_packet_machine_test {

using namespace heddle;
using namespace heddle::test;

using Machine = PacketLab::Machine;

TEST_CASE("a kernel with arguments runs from queues in host and in device memory", "[system][PKT-01][PKT-03][PKT-04]") {
  const bool in_host = GENERATE(true, false);
  const std::string timing = GENERATE("at", "fast", "lt");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing}));
  lab.begin();
  Machine& m = lab[0];
  constexpr std::uint32_t kItems = 1000;  // the last workgroup is partial
  const std::uint64_t in = lab.take_device(4096);
  const std::uint64_t out = lab.take_device(8192);
  for (std::uint32_t i = 0; i < 1024; ++i) m.write<std::uint32_t>(in + 4 * i, 7 * i);
  const std::uint64_t object = lab.program_object(0, scale_program(), "scale");
  heddle_queue queue = lab.open_queue(0, 3, 4, in_host);
  const std::uint64_t signal = lab.new_signal(0, in_host, 5);
  std::vector<heddle_packet> packets;
  for (std::uint32_t k = 0; k < 5; ++k) {  // more than the ring has
    heddle_dispatch d = PacketLab::dispatch(object, kItems, 64, signal);
    d.kernarg = arguments_at(lab, 0, {out, in, k + 1});
    packets.push_back(kernel(d));
  }
  submit(queue, packets);
  CHECK(wait_below(m, signal) == 0);
  for (std::uint32_t i = 0; i < 1024; ++i) {
    const std::uint32_t expected = i < kItems ? 5 * i + 7 * i : 0;
    if (m.read<std::uint32_t>(out + 4 * i) != expected) FAIL("item " << i << " is wrong");
  }
  std::uint64_t taken = 0;
  CHECK(heddle_queue_taken(&queue, &taken) == HEDDLE_OK);
  CHECK(taken == 5);
  CHECK((m.dma_checker.counts().nonblocking + m.dma_checker.counts().blocking > 0) == in_host);
  settle(lab);
}

TEST_CASE("plain, reference and condensed packets do the same work in the same order",
          "[system][PKT-05][PKT-06][PKT-07][PKT-11]") {
  const std::string table = GENERATE("scratch", "memory");
  SimFixture fixture;
  PacketLab lab(small({"gpu.packet.table=" + table}));
  lab.begin();
  Machine& m = lab[0];
  std::vector<std::uint64_t> objects;
  for (std::uint32_t k = 0; k < 6; ++k) objects.push_back(lab.program_object(0, step_program(k + 1), "step"));
  constexpr std::uint32_t kRounds = 12;
  std::vector<std::uint64_t> words;
  for (const bool condensed : {false, true}) {
    const std::uint64_t word = lab.take_device(128);
    words.push_back(word);
    m.write<std::uint32_t>(word, 1);
    std::vector<heddle_kernel> kernels;
    const std::uint64_t signal = lab.new_signal(0, true, kRounds);
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      for (std::uint32_t k = 0; k < 6; ++k) {
        heddle_kernel entry{};
        entry.dispatch = PacketLab::dispatch(objects[k], 32, 32, k == 5 ? signal : 0);
        entry.dispatch.kernarg = word;
        kernels.push_back(entry);
      }
    }
    heddle_queue queue = lab.open_queue(0, condensed ? 1 : 0, 16, true);
    std::vector<heddle_packet> packets;
    if (condensed) {
      heddle_plan_options options{};
      options.costs = {480, 500, 350, 30, 150};
      options.serialise = true;
      heddle_table state{};
      heddle_table_clear(&state);
      std::vector<std::uint64_t> space(heddle_plan_workspace(static_cast<std::uint32_t>(kernels.size()), &options) / 8 +
                                       1);
      std::vector<heddle_planned> planned(kernels.size());
      heddle_plan_result result{};
      REQUIRE(heddle_plan(kernels.data(), static_cast<std::uint32_t>(kernels.size()), &options, &state, space.data(),
                          space.size() * 8, planned.data(), static_cast<std::uint32_t>(planned.size()),
                          &result) == HEDDLE_OK);
      REQUIRE(result.condensed > 0);
      CHECK(result.packets < kernels.size() / 2);
      for (std::uint32_t i = 0; i < result.packets; ++i) packets.push_back(planned[i].packet);
    } else {
      for (const heddle_kernel& entry : kernels) packets.push_back(kernel(entry.dispatch));
    }
    submit(queue, packets);
    CHECK(wait_below(m, signal) == 0);
  }
  std::uint32_t expected = 1;
  for (std::uint32_t i = 0; i < kRounds * 6; ++i) expected = expected * 3 + i % 6 + 1;
  CHECK(m.read<std::uint32_t>(words[0]) == expected);
  CHECK(m.read<std::uint32_t>(words[1]) == expected);
  settle(lab);
}

TEST_CASE("copy engines bring data in and results out beside kernels", "[system][HST-05]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  SimFixture fixture;
  PacketLab lab(small({"gpu.timing=" + timing}));
  lab.begin();
  Machine& m = lab[0];
  constexpr std::uint32_t kItems = 2048;
  const std::uint64_t from = lab.take_host(4 * kItems) + 4;  // aligned otherwise than its target
  const std::uint64_t back = lab.take_host(4 * kItems + 64) + 20;
  for (std::uint32_t i = 0; i < kItems; ++i) m.write<std::uint32_t>(from + 4 * i, i ^ 0x55AA);
  const std::uint64_t in = lab.take_device(4 * kItems);
  const std::uint64_t out = lab.take_device(4 * kItems);
  const std::uint64_t other = lab.take_device(1 << 16);
  heddle_queue queue = lab.open_queue(0, 0, 16, true);
  heddle_queue beside = lab.open_queue(0, 1, 16, true);
  const std::uint64_t signal = lab.new_signal(0, true, 1);
  const std::uint64_t filled = lab.new_signal(0, false, 1);
  const std::uint8_t in_order = HEDDLE_SCOPES(1, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM);
  std::vector<heddle_packet> packets(3);
  heddle_packet_copy(&packets[0], in_order, from, in, 4 * kItems, 0);
  heddle_dispatch d = PacketLab::dispatch(lab.program_object(0, scale_program()), kItems, 128);
  d.kernarg = arguments_at(lab, 0, {out, in, 9});
  packets[1] = kernel(d);
  heddle_packet_copy(&packets[2], in_order, out, back, 4 * kItems, signal);
  std::vector<heddle_packet> fill(1);
  heddle_packet_fill(&fill[0], 0, other, 1 << 16, 0xC0FFEE11, filled);
  submit(beside, fill);
  submit(queue, packets);
  CHECK(wait_below(m, signal) == 0);
  CHECK(wait_below(m, filled) == 0);
  for (std::uint32_t i = 0; i < kItems; ++i) {
    if (m.read<std::uint32_t>(back + 4 * i) != 9 * i + (i ^ 0x55AA)) FAIL("item " << i << " is wrong");
  }
  for (std::uint32_t i = 0; i < (1U << 16) / 4; ++i) {
    if (m.read<std::uint32_t>(other + 4 * i) != 0xC0FFEE11) FAIL("word " << i << " of the fill is wrong");
  }
  settle(lab);
}

TEST_CASE("two GPUs with queues of their own share the host's memory", "[system][HST-01][HST-04][PKT-04]") {
  SimFixture fixture;
  PacketLab lab({preset_params("small"), preset_params("small", {"gpu.shape=[4, 2]", "gpu.clock=1.3 GHz"})});
  lab.begin();
  constexpr std::uint32_t kItems = 512;
  const std::uint64_t shared_in = lab.take_host(4 * kItems);
  const std::uint64_t shared_out = lab.take_host(2 * 4 * kItems);
  for (std::uint32_t i = 0; i < kItems; ++i) lab[0].write<std::uint32_t>(shared_in + 4 * i, 1000 + i);
  const std::uint64_t signal = lab.new_signal(0, true, 2 + 2 * 20);  // both count in one word
  std::vector<heddle_queue> queues;
  for (std::size_t g = 0; g < 2; ++g) {
    queues.push_back(lab.open_queue(g, 2, 8, true));
    const std::uint64_t in = lab.take_device(4 * kItems);
    const std::uint64_t out = lab.take_device(4 * kItems);
    const std::uint8_t in_order = HEDDLE_SCOPES(1, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM);
    std::vector<heddle_packet> packets(3);
    heddle_packet_copy(&packets[0], in_order, shared_in, in, 4 * kItems, 0);
    heddle_dispatch d = PacketLab::dispatch(lab.program_object(g, scale_program()), kItems, 64);
    d.kernarg = arguments_at(lab, g, {out, in, g + 1});
    packets[1] = kernel(d);
    heddle_packet_copy(&packets[2], in_order, out, shared_out + g * 4 * kItems, 4 * kItems, signal);
    REQUIRE(heddle_queue_submit(&queues[g], packets.data(), 3, 100'000, nullptr) == HEDDLE_OK);
  }
  const std::uint64_t objects[2] = {lab.timed_object(0, 30), lab.timed_object(1, 30)};
  for (std::uint32_t i = 0; i < 20; ++i) {
    for (std::size_t g = 0; g < 2; ++g) {
      const heddle_packet packet = kernel(PacketLab::dispatch(objects[g], 64, 32, signal, false));
      REQUIRE(heddle_queue_submit(&queues[g], &packet, 1, 100'000, nullptr) == HEDDLE_OK);
    }
  }
  CHECK(wait_below(lab[0], signal) == 0);
  for (std::uint32_t g = 0; g < 2; ++g) {
    for (std::uint32_t i = 0; i < kItems; ++i) {
      const std::uint64_t at = shared_out + std::uint64_t{g} * 4 * kItems + 4 * i;
      if (lab[0].read<std::uint32_t>(at) != (g + 1) * i + 1000 + i) FAIL("GPU " << g << ", item " << i);
    }
  }
  settle(lab);
}

TEST_CASE("a bad packet stops its queue, raises the interrupt, and leaves the others alone",
          "[system][PKT-09][HST-01]") {
  SimFixture fixture;
  PacketLab lab(small());
  lab.begin();
  Machine& m = lab[0];
  REQUIRE(heddle_device_mask(&m.device, HEDDLE_INT_QUEUE_ERROR_MASK) == HEDDLE_OK);
  heddle_queue bad = lab.open_queue(0, 0, 8, true);
  heddle_queue good = lab.open_queue(0, 1, 8, true);
  const std::uint64_t word = lab.take_device(128);
  m.write<std::uint32_t>(word, 1);
  const std::uint64_t object = lab.program_object(0, step_program(5));
  const std::uint64_t before = lab.new_signal(0, true, 1);
  const std::uint64_t wrong = lab.new_signal(0, true, 1);
  const std::uint64_t after = lab.new_signal(0, true, 1);
  heddle_dispatch first = PacketLab::dispatch(object, 32, 32, before);
  heddle_dispatch second = PacketLab::dispatch(object, 32, 32, wrong);
  heddle_dispatch third = PacketLab::dispatch(object, 32, 32, after);
  first.kernarg = second.kernarg = third.kernarg = word;
  second.workgroup[0] = 0;
  CHECK_FALSE(m.irq.read());
  submit(bad, {kernel(first)});
  const heddle_packet rest[2] = {kernel(second), kernel(third)};
  std::uint64_t index = 0;
  REQUIRE(heddle_queue_reserve(&bad, 2, &index) == HEDDLE_OK);
  REQUIRE(heddle_queue_publish(&bad, index, &rest[0]) == HEDDLE_OK);
  REQUIRE(heddle_queue_publish(&bad, index + 1, &rest[1]) == HEDDLE_OK);
  REQUIRE(heddle_queue_ring(&bad, index + 1) == HEDDLE_OK);
  CHECK(wait_below(m, wrong) == -0x1001);
  CHECK(wait_below(m, before) == 0);
  const std::uint64_t signal = lab.new_signal(0, true, 3);
  heddle_dispatch other = PacketLab::dispatch(lab.timed_object(0, 100), 320, 32, signal);
  submit(good, {kernel(other), kernel(other), kernel(other)});
  CHECK(wait_below(m, signal) == 0);
  CHECK(m.irq.read());
  heddle_error error{};
  REQUIRE(heddle_queue_error(&bad, &error) == HEDDLE_OK);
  CHECK(error.status == 0x1001);
  CHECK(error.index == 1);
  heddle_queue_state state{};
  REQUIRE(heddle_queue_get_state(&bad, &state) == HEDDLE_OK);
  CHECK(static_cast<int>(state) == static_cast<int>(protocol::QueueState::error));
  CHECK(m.read<std::uint32_t>(word) == 1 * 3 + 5);  // only the first
  CHECK(m.read<std::int64_t>(after) == 1);
  REQUIRE(heddle_device_acknowledge(&m.device, HEDDLE_INT_QUEUE_ERROR_MASK) == HEDDLE_OK);
  sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_US));
  CHECK_FALSE(m.irq.read());
  // Closed and opened again, it works.
  REQUIRE(heddle_queue_destroy(&bad, 10'000) == HEDDLE_OK);
  heddle_queue again = lab.open_queue(0, 0, 8, false);
  submit(again, {kernel(third)});
  CHECK(wait_below(m, after) == 0);
  CHECK(m.read<std::uint32_t>(word) == (1 * 3 + 5) * 3 + 5);
  settle(lab);
}

TEST_CASE("a kernel that faults stops its queue with an exception", "[system][PKT-09]") {
  SimFixture fixture;
  PacketLab lab(small());
  lab.begin();
  Machine& m = lab[0];
  heddle_queue queue = lab.open_queue(0, 0, 8, true);
  const std::uint64_t signal = lab.new_signal(0, true, 1);
  heddle_dispatch d = PacketLab::dispatch(lab.program_object(0, step_program(1), "broken"), 32, 32, signal);
  d.kernarg = std::uint64_t{1} << 40;  // outside memory
  submit(queue, {kernel(d)});
  CHECK(wait_below(m, signal) == -0x1016);
  heddle_error error{};
  REQUIRE(heddle_queue_error(&queue, &error) == HEDDLE_OK);
  CHECK(error.status == 0x1016);
  CHECK(error.index == 0);
  std::uint32_t pending = 0;
  REQUIRE(heddle_device_interrupts(&m.device, &pending) == HEDDLE_OK);
  CHECK((pending & HEDDLE_INT_FAULT_MASK) != 0);
  CHECK((pending & HEDDLE_INT_QUEUE_ERROR_MASK) != 0);
  REQUIRE(m.gpu.log().faults().size() == 1);
  settle(lab);
}

}  // namespace system_packet_machine_test
