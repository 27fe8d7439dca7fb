// Queues of the host library against a device that the test plays.
#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

#include "driver/fake_device.h"
#include "support/random.h"

namespace heddle::test::driver_queue_test {
namespace {

constexpr std::uint64_t kReadIndex = HEDDLE_HOST_WINDOW + 0x100;
constexpr std::uint64_t kWriteIndex = HEDDLE_HOST_WINDOW + 0x180;
constexpr std::uint64_t kRing = HEDDLE_HOST_WINDOW + 0x1000;

struct Bench {
  explicit Bench(std::uint32_t size = 8, std::uint64_t first = 0, std::uint64_t read_index = kReadIndex) {
    const heddle_bus bus = fake.bus();
    REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
    setup = {kRing, size, read_index, kWriteIndex, first, -2, 7};
    REQUIRE(heddle_queue_create(&queue, &device, 3, &setup, 10) == HEDDLE_OK);
    fake.log.clear();
  }
  static heddle_packet packet(std::uint64_t mark) {
    heddle_packet made;
    heddle_packet_hold(&made, 0, mark, 0);
    return made;
  }
  static std::uint64_t mark(const std::vector<std::uint8_t>& bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + 24, 8);
    return value;
  }
  std::vector<std::uint64_t> taken() const {
    std::vector<std::uint64_t> marks;
    for (const auto& bytes : fake.taken) marks.push_back(mark(bytes));
    return marks;
  }

  FakeDevice fake;
  heddle_device device{};
  heddle_queue_setup setup{};
  heddle_queue queue{};
};

TEST_CASE("a new queue's slots are invalid, and its registers are set before it opens", "[driver][PKT-01]") {
  Bench bench(16, 5);
  for (std::uint64_t i = 0; i < 16; ++i) CHECK(bench.fake.at(kRing + 64 * i)[0] == HEDDLE_PACKET_INVALID);
  CHECK(*bench.fake.at(kRing + 64 * 16) == 0xAA);
  CHECK(*bench.fake.at(kRing - 1) == 0xAA);
  CHECK(bench.fake.get64(kReadIndex) == 5);
  CHECK(bench.fake.get64(kWriteIndex) == 5);
  auto& registers = bench.fake.registers;
  CHECK(registers[HEDDLE_REG_QUEUE_BASE(3)] == kRing);
  CHECK(registers[HEDDLE_REG_QUEUE_SIZE(3)] == 16);
  CHECK(registers[HEDDLE_REG_QUEUE_READ_INDEX_ADDRESS(3)] == kReadIndex);
  CHECK(registers[HEDDLE_REG_QUEUE_FIRST(3)] == 5);
  CHECK(registers[HEDDLE_REG_QUEUE_PRIORITY(3)] == 0xFFFF'FFFE);
  CHECK(registers[HEDDLE_REG_QUEUE_SUBCONTEXT(3)] == 7);
  CHECK(registers[HEDDLE_REG_QUEUE_COMMAND(3)] == HEDDLE_QUEUE_COMMAND_OPEN);
}

TEST_CASE("the body of a packet is there before its header, and both before the doorbell", "[driver][PKT-01]") {
  Bench bench;
  const heddle_packet packet = Bench::packet(1);
  REQUIRE(heddle_queue_submit(&bench.queue, &packet, 1, 10, nullptr) == HEDDLE_OK);
  const std::vector<std::string> wanted = {"store " + std::to_string(kRing + 2) + " 62", "barrier",
                                           "store " + std::to_string(kRing) + " 2", "barrier", "doorbell 0"};
  CHECK(bench.fake.log == wanted);
}

TEST_CASE("a ring wraps, fills and empties, with packets in order", "[driver][PKT-01]") {
  HEDDLE_RANDOM(dice);
  for (const std::uint64_t read_index : {kReadIndex, std::uint64_t{0}}) {
    Random random(dice.next());
    Bench bench(8, (std::uint64_t{1} << 32) - 3, read_index);
    std::uint64_t given = 0;
    bool was_full = false;
    while (given < 1000) {
      std::uint64_t index = 0;
      const std::uint32_t count = random.between(1, 8);
      const heddle_status status = heddle_queue_reserve(&bench.queue, count, &index);
      const std::uint64_t inside = given - bench.fake.taken.size();
      REQUIRE(status == (inside + count <= 8 ? HEDDLE_OK : HEDDLE_FULL));
      was_full |= status == HEDDLE_FULL;
      for (std::uint32_t i = 0; status == HEDDLE_OK && i < count; ++i) {
        const heddle_packet packet = Bench::packet(given++);
        REQUIRE(heddle_queue_publish(&bench.queue, index + i, &packet) == HEDDLE_OK);
        REQUIRE(heddle_queue_ring(&bench.queue, index + i) == HEDDLE_OK);
      }
      bench.fake.take(3, random.below(8));
    }
    bench.fake.take(3, 8);
    CHECK(was_full);
    const std::vector<std::uint64_t> marks = bench.taken();
    REQUIRE(marks.size() == given);
    for (std::uint64_t i = 0; i < given; ++i) CHECK(marks[i] == i);
    std::uint64_t taken = 0;
    REQUIRE(heddle_queue_taken(&bench.queue, &taken) == HEDDLE_OK);
    CHECK(taken == bench.setup.first + given);
  }
  Bench bench;
  std::uint64_t index = 0;
  CHECK(heddle_queue_reserve(&bench.queue, 9, &index) == HEDDLE_INVALID);
  CHECK(heddle_queue_reserve(&bench.queue, 0, &index) == HEDDLE_INVALID);
}

TEST_CASE("slots published in any order are taken in the order of their indices", "[driver][PKT-01]") {
  HEDDLE_RANDOM(dice);
  Random random(dice.next());
  Bench bench(16);
  std::uint64_t first = 0;
  for (int round = 0; round < 50; ++round) {
    REQUIRE(heddle_queue_reserve(&bench.queue, 10, &first) == HEDDLE_OK);
    REQUIRE(heddle_queue_ring(&bench.queue, first + 9) == HEDDLE_OK);  // ahead of the headers
    std::vector<heddle_packet> packets;
    for (std::uint32_t i = 0; i < 10; ++i) packets.push_back(Bench::packet(first + i));
    for (const std::uint32_t i : random.permutation(10)) {
      REQUIRE(heddle_queue_write_body(&bench.queue, first + i, &packets[i]) == HEDDLE_OK);
      bench.fake.take(3, 16);
    }
    CHECK(bench.fake.taken.size() == first);  // bodies publish nothing
    std::set<std::uint32_t> published;
    for (const std::uint32_t i : random.permutation(10)) {
      REQUIRE(heddle_queue_write_header(&bench.queue, first + i, &packets[i]) == HEDDLE_OK);
      published.insert(i);
      bench.fake.take(3, 16);
      std::uint32_t ready = 0;
      while (published.count(ready) != 0) ++ready;
      CHECK(bench.fake.taken.size() == first + ready);
    }
  }
  const std::vector<std::uint64_t> marks = bench.taken();
  CHECK(std::is_sorted(marks.begin(), marks.end()));
}

TEST_CASE("more packets than the ring has wait for room", "[driver][PKT-01]") {
  Bench bench(4);
  std::vector<heddle_packet> packets;
  for (std::uint64_t i = 0; i < 50; ++i) packets.push_back(Bench::packet(i));
  bench.fake.takes_per_relax = 3;
  std::uint64_t index = 0;
  REQUIRE(heddle_queue_submit(&bench.queue, packets.data(), 50, 5, &index) == HEDDLE_OK);
  CHECK(index == 49);
  bench.fake.take(3, 4);
  const std::vector<std::uint64_t> marks = bench.taken();
  REQUIRE(marks.size() == 50);
  CHECK(std::is_sorted(marks.begin(), marks.end()));

  bench.fake.takes_per_relax = 0;
  CHECK(heddle_queue_submit(&bench.queue, packets.data(), 5, 5, nullptr) == HEDDLE_TIMEOUT);
  CHECK(bench.fake.get64(kWriteIndex) == 54);
  bench.fake.registers[HEDDLE_REG_QUEUE_STATE(3)] = HEDDLE_QUEUE_STATE_ERROR;
  CHECK(heddle_queue_submit(&bench.queue, packets.data(), 1, 0, nullptr) == HEDDLE_QUEUE_ERROR);
}

TEST_CASE("nothing is submitted to a queue that is not active", "[driver][PKT-09]") {
  for (const auto state : {HEDDLE_QUEUE_STATE_ERROR, HEDDLE_QUEUE_STATE_CLOSED, HEDDLE_QUEUE_STATE_DRAINING}) {
    Bench bench;  // with room
    const heddle_packet packet = Bench::packet(1);
    REQUIRE(heddle_queue_submit(&bench.queue, &packet, 1, 10, nullptr) == HEDDLE_OK);
    bench.fake.log.clear();
    bench.fake.registers[HEDDLE_REG_QUEUE_STATE(3)] = state;
    std::uint64_t index = 77;
    CHECK(heddle_queue_submit(&bench.queue, &packet, 1, 10, &index) == HEDDLE_QUEUE_ERROR);
    CHECK(bench.fake.log.empty());
    CHECK((bench.fake.get64(kWriteIndex) == 1 && index == 77 && bench.fake.relaxed == 0));
  }
}

TEST_CASE("set-ups that no queue can have are refused", "[driver][PKT-01]") {
  Bench bench;
  const auto with = [&](std::uint64_t ring, std::uint32_t size, std::uint64_t read_index, std::uint32_t number) {
    const heddle_queue_setup setup = {ring, size, read_index, kWriteIndex, 0, 0, 0};
    heddle_queue queue;
    return heddle_queue_create(&queue, &bench.device, number, &setup, 3);
  };
  CHECK(with(0x40, 6, 0, 4) == HEDDLE_INVALID);
  CHECK(with(0x40, 0, 0, 4) == HEDDLE_INVALID);
  CHECK(with(0x40, 1 << 21, 0, 4) == HEDDLE_INVALID);
  CHECK(with(0x48, 8, 0, 4) == HEDDLE_INVALID);
  CHECK(with(0x40, 8, 4, 4) == HEDDLE_INVALID);
  CHECK(with(0x40, 8, 0, 32) == HEDDLE_INVALID);
  CHECK(with(0x40, 8, 0, 3) == HEDDLE_BUSY);
  CHECK(with(FakeDevice::kDeviceBytes, 8, 0, 4) == HEDDLE_BUS);
  const auto spoilt = [&](auto spoil) {
    heddle_device device = bench.device;
    heddle_queue_setup setup = {0x40, 8, 0, kWriteIndex, 0, 0, 0};
    spoil(setup, device);
    heddle_queue queue;
    return heddle_queue_create(&queue, &device, 4, &setup, 3);
  };
  CHECK(spoilt([](auto& setup, auto&) { setup.write_index = 0; }) == HEDDLE_INVALID);
  CHECK(spoilt([](auto& setup, auto&) { setup.write_index += 4; }) == HEDDLE_INVALID);
  CHECK(spoilt([](auto& setup, auto&) { setup.subcontext = 64; }) == HEDDLE_INVALID);
  CHECK(spoilt([](auto&, auto& device) { device.bus.fetch_add = nullptr; }) == HEDDLE_INVALID);
  CHECK(spoilt([](auto&, auto& device) { device.bus.compare_exchange = nullptr; }) == HEDDLE_INVALID);
  bench.fake.opened = HEDDLE_QUEUE_STATE_ERROR;
  CHECK(with(0x40, 8, 0, 4) == HEDDLE_QUEUE_ERROR);
  bench.fake.opened = HEDDLE_QUEUE_STATE_CLOSED;
  bench.fake.relaxed = 0;
  CHECK(with(0x40, 8, 0, 5) == HEDDLE_TIMEOUT);
  CHECK(bench.fake.relaxed == 2);
}

TEST_CASE("a queue is destroyed when its kernels have ended", "[driver][PKT-01]") {
  Bench bench;
  bench.fake.relaxes_to_close = 5;
  CHECK(heddle_queue_destroy(&bench.queue, 3) == HEDDLE_TIMEOUT);
  CHECK(bench.fake.registers[HEDDLE_REG_QUEUE_COMMAND(3)] == HEDDLE_QUEUE_COMMAND_CLOSE);
  CHECK(heddle_queue_destroy(&bench.queue, 0) == HEDDLE_OK);
  CHECK(bench.fake.relaxes_to_close == 0);
}

TEST_CASE("a queue is inactive when what ran has been killed", "[driver][PKT-14]") {
  Bench bench;
  bench.fake.relaxes_to_close = 5;
  CHECK(heddle_queue_inactivate(&bench.queue, 3) == HEDDLE_TIMEOUT);
  CHECK(bench.fake.registers[HEDDLE_REG_QUEUE_COMMAND(3)] == HEDDLE_QUEUE_COMMAND_INACTIVATE);
  CHECK(heddle_queue_inactivate(&bench.queue, 0) == HEDDLE_OK);
  CHECK(bench.fake.registers[HEDDLE_REG_QUEUE_STATE(3)] == HEDDLE_QUEUE_STATE_INACTIVE);
  CHECK(heddle_queue_destroy(&bench.queue, 3) == HEDDLE_OK);
  CHECK(bench.fake.registers[HEDDLE_REG_QUEUE_STATE(3)] == HEDDLE_QUEUE_STATE_CLOSED);
}

TEST_CASE("the write index is a word that producers share", "[driver][PKT-14]") {
  Bench bench(8, 100);
  std::uint64_t value = 0;
  REQUIRE(heddle_queue_load_write_index(&bench.queue, &value) == HEDDLE_OK);
  CHECK(value == 100);
  REQUIRE(heddle_queue_add_write_index(&bench.queue, 3, &value) == HEDDLE_OK);
  CHECK((value == 100 && bench.fake.get64(kWriteIndex) == 103));
  REQUIRE(heddle_queue_cas_write_index(&bench.queue, 100, 200, &value) == HEDDLE_OK);
  CHECK((value == 103 && bench.fake.get64(kWriteIndex) == 103));
  REQUIRE(heddle_queue_cas_write_index(&bench.queue, 103, 104, &value) == HEDDLE_OK);
  CHECK((value == 103 && bench.fake.get64(kWriteIndex) == 104));
  REQUIRE(heddle_queue_store_write_index(&bench.queue, 105) == HEDDLE_OK);
  CHECK(bench.fake.get64(kWriteIndex) == 105);
  // Another one is faster, twice, and then takes the last slot.
  bench.fake.other_producer = 2;
  REQUIRE(heddle_queue_reserve(&bench.queue, 1, &value) == HEDDLE_OK);
  CHECK((value == 107 && bench.fake.get64(kWriteIndex) == 108));
  CHECK(heddle_queue_reserve(&bench.queue, 1, &value) == HEDDLE_FULL);
  CHECK(bench.fake.get64(kWriteIndex) == 108);
  bench.fake.put64(kReadIndex, 101);
  bench.fake.other_producer = 1;
  CHECK(heddle_queue_reserve(&bench.queue, 1, &value) == HEDDLE_FULL);
  CHECK(bench.fake.get64(kWriteIndex) == 109);
}

TEST_CASE("a producer that is attached uses memory and its doorbell, and nothing else", "[driver][PKT-14]") {
  Bench bench;
  heddle_device device = bench.device;
  device.bus.read = [](void*, std::uint32_t, unsigned, std::uint64_t*) { return false; };
  heddle_queue second{};
  heddle_queue_setup setup = bench.setup;
  setup.read_index = 0;
  CHECK(heddle_queue_attach(&second, &device, 3, &setup) == HEDDLE_INVALID);
  REQUIRE(heddle_queue_attach(&second, &device, 3, &bench.setup) == HEDDLE_OK);
  for (std::uint64_t mark = 0; mark < 20; ++mark) {
    const heddle_packet packet = Bench::packet(mark);
    heddle_queue& queue = mark % 3 == 0 ? second : bench.queue;
    std::uint64_t index = 0;
    REQUIRE(heddle_queue_submit(&queue, &packet, 1, 10, &index) == HEDDLE_OK);
    CHECK(index == mark);
    if (mark % 5 == 4) bench.fake.take(3, 8);
  }
  const std::vector<std::uint64_t> marks = bench.taken();
  REQUIRE(marks.size() == 20);
  CHECK(std::is_sorted(marks.begin(), marks.end()));
}

// Threads that are producers of one queue, on memory that all reach, and one that takes packets as a device does.
TEST_CASE("threads that share a queue lose no packet and write none twice", "[driver][PKT-14]") {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kEach = 5000;
  constexpr std::uint32_t kSize = 16;
  struct Board {
    alignas(64) std::array<std::uint8_t, 0x2000> memory{};
  } board;
  const auto bus_of = [](Board& of) {
    heddle_bus bus{};
    bus.context = &of;
    bus.read = [](void*, std::uint32_t offset, unsigned, std::uint64_t* value) {
      *value = offset == HEDDLE_REG_MAGIC            ? HEDDLE_DEVICE_MAGIC
               : offset == HEDDLE_REG_VERSION        ? HEDDLE_REGISTER_VERSION
               : offset == HEDDLE_REG_QUEUES         ? 1U
               : offset == HEDDLE_REG_QUEUE_STATE(0) ? static_cast<unsigned>(HEDDLE_QUEUE_STATE_CLOSED)
                                                     : 0U;
      return true;
    };
    bus.write = [](void*, std::uint32_t, unsigned, std::uint64_t) { return true; };
    bus.load = [](void* b, std::uint64_t address, void* to, std::size_t bytes) {
      std::uint8_t* from = &static_cast<Board*>(b)->memory[address];
      if (bytes != 8) return false;
      *static_cast<std::uint64_t*>(to) = __atomic_load_n(reinterpret_cast<std::uint64_t*>(from), __ATOMIC_ACQUIRE);
      return true;
    };
    bus.store = [](void* b, std::uint64_t address, const void* from, std::size_t bytes) {
      std::uint8_t* to = &static_cast<Board*>(b)->memory[address];
      if (bytes == 2) {
        std::uint16_t header = 0;
        std::memcpy(&header, from, 2);
        __atomic_store_n(reinterpret_cast<std::uint16_t*>(to), header, __ATOMIC_RELEASE);
      } else {
        std::memcpy(to, from, bytes);
      }
      return true;
    };
    bus.relax = [](void*) { std::this_thread::yield(); };
    bus.fetch_add = [](void* b, std::uint64_t address, std::uint64_t value, std::uint64_t* old) {
      *old = heddle_word_fetch_add(&static_cast<Board*>(b)->memory[address], value);
      return true;
    };
    bus.compare_exchange = [](void* b, std::uint64_t address, std::uint64_t expected, std::uint64_t value,
                              std::uint64_t* old) {
      *old = heddle_word_compare_exchange(&static_cast<Board*>(b)->memory[address], expected, value);
      return true;
    };
    return bus;
  };
  heddle_device device{};
  const heddle_bus bus = bus_of(board);
  REQUIRE(heddle_device_open(&device, &bus) == HEDDLE_OK);
  const heddle_queue_setup setup = {0x1000, kSize, 0x100, 0x180, 0, 0, 0};
  for (std::uint32_t i = 0; i < kSize; ++i) board.memory[0x1000 + 64 * i] = HEDDLE_PACKET_INVALID;
  std::atomic<bool> bad{false};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      heddle_queue queue{};
      if (heddle_queue_attach(&queue, &device, 0, &setup) != HEDDLE_OK) bad = true;
      for (std::uint32_t i = 0; i < kEach; ++i) {
        const heddle_packet packet = Bench::packet(std::uint64_t{t} << 32 | i);
        if (heddle_queue_submit(&queue, &packet, 1, 0, nullptr) != HEDDLE_OK) bad = true;
      }
    });
  }
  std::array<std::uint32_t, kThreads> next{};
  for (std::uint64_t index = 0; index < std::uint64_t{kThreads} * kEach;) {
    std::uint8_t* slot = &board.memory[0x1000 + index % kSize * 64];
    auto* header = reinterpret_cast<std::uint16_t*>(slot);
    if ((__atomic_load_n(header, __ATOMIC_ACQUIRE) & 0xFF) == HEDDLE_PACKET_INVALID) {
      std::this_thread::yield();
      continue;
    }
    std::uint64_t mark = 0;
    std::memcpy(&mark, slot + 24, 8);
    const std::uint64_t thread = mark >> 32;
    REQUIRE(thread < kThreads);
    REQUIRE((mark & 0xFFFF'FFFF) == next[thread]++);  // each producer's in its order
    __atomic_store_n(header, std::uint16_t{HEDDLE_PACKET_INVALID}, __ATOMIC_RELEASE);
    ++index;
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(&board.memory[0x100]), index, __ATOMIC_RELEASE);
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(bad);
  for (const std::uint32_t count : next) CHECK(count == kEach);
}

TEST_CASE("errors of a queue are read out", "[driver][PKT-09]") {
  Bench bench;
  heddle_error error{};
  REQUIRE(heddle_queue_error(&bench.queue, &error) == HEDDLE_OK);
  CHECK(error.count == 0);
  auto& registers = bench.fake.registers;
  registers[HEDDLE_REG_QUEUE_STATE(3)] = HEDDLE_QUEUE_STATE_ERROR;
  registers[HEDDLE_REG_QUEUE_ERROR_STATUS(3)] = HEDDLE_HSA_INVALID_PACKET_FORMAT;
  registers[HEDDLE_REG_QUEUE_ERROR_INDEX(3)] = 0x1'0000'0002;
  registers[HEDDLE_REG_QUEUE_ERROR_KERNEL(3)] = 4;
  registers[HEDDLE_REG_QUEUE_ERROR_REASON(3)] = HEDDLE_REASON_FENCE_SCOPE;
  REQUIRE(heddle_queue_error(&bench.queue, &error) == HEDDLE_OK);
  CHECK((error.count == 1 && error.queue == 3 && error.status == 0x1009));
  CHECK((error.index == 0x1'0000'0002 && error.kernel == 4 && error.reason == HEDDLE_REASON_FENCE_SCOPE));
  CHECK(std::string(heddle_reason_text(error.reason)) == "fence scope 3 does not exist");
}

TEST_CASE("agent packets are taken and given back", "[driver][PKT-02]") {
  Bench bench;
  std::uint64_t index = 0;
  heddle_agent agent{};
  CHECK(heddle_queue_take_agent(&bench.queue, &index, &agent) == HEDDLE_EMPTY);
  const heddle_agent sent = {0, 0x1234, 0x8000, {1, 2, 3, 0xFFFF'FFFF'FFFF'FFFF}, 0x40};
  heddle_packet packet;
  heddle_packet_agent(&packet, &sent);
  for (std::uint32_t word = 0; word < 8; ++word) {
    std::memcpy(&bench.fake.registers[HEDDLE_REG_AGENT_PACKET(3, word)], packet.bytes + 8 * word, 8);
  }
  bench.fake.registers[HEDDLE_REG_AGENT_STATE(3)] = 3 << HEDDLE_AGENT_STATE_TAKEN_SHIFT;
  CHECK(heddle_queue_take_agent(&bench.queue, &index, &agent) == HEDDLE_EMPTY);
  bench.fake.registers[HEDDLE_REG_AGENT_STATE(3)] = 2;
  bench.fake.registers[HEDDLE_REG_AGENT_INDEX(3)] = 17;
  REQUIRE(heddle_queue_take_agent(&bench.queue, &index, &agent) == HEDDLE_OK);
  CHECK((index == 17 && agent.function == 0x1234 && agent.return_address == 0x8000));
  CHECK((agent.arguments[0] == 1 && agent.arguments[3] == ~std::uint64_t{0} && agent.completion_signal == 0x40));
  CHECK(bench.fake.registers[HEDDLE_REG_AGENT_TAKE(3)] == 1);
  bench.fake.registers[HEDDLE_REG_AGENT_DONE(3)] = 99;
  REQUIRE(heddle_queue_agent_done(&bench.queue, 17, HEDDLE_HSA_ERROR) == HEDDLE_OK);
  CHECK(bench.fake.registers[HEDDLE_REG_AGENT_DONE_INDEX(3)] == 17);
  CHECK(bench.fake.registers[HEDDLE_REG_AGENT_DONE(3)] == HEDDLE_HSA_ERROR);
}

TEST_CASE("a callback that fails is told, wherever it happens", "[driver]") {
  for (int access = 0; access < 50; ++access) {
    CAPTURE(access);
    FakeDevice fake;
    fake.accesses_until_failure = access;
    const heddle_bus bus = fake.bus();
    heddle_device device;
    heddle_status status = heddle_device_open(&device, &bus);
    heddle_queue queue;
    const heddle_queue_setup setup = {kRing, 2, kReadIndex, kWriteIndex, 0, 0, 0};
    if (status == HEDDLE_OK) status = heddle_queue_create(&queue, &device, 0, &setup, 3);
    const heddle_packet packet = Bench::packet(0);
    if (status == HEDDLE_OK) status = heddle_queue_submit(&queue, &packet, 1, 3, nullptr);
    if (status == HEDDLE_OK) status = heddle_queue_destroy(&queue, 3);
    CHECK(status == (fake.accesses_until_failure < 0 ? HEDDLE_BUS : HEDDLE_OK));
  }
}

}  // namespace
}  // namespace heddle::test::driver_queue_test
