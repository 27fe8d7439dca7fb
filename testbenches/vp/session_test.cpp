// A card and its session with a stand-in for QEMU: whole machines, registers, interrupts, DMA, time, and all the ways
// in which it can end.
#include "vp/session.h"

#include <exception>
#include <thread>

#include <catch2/catch.hpp>

#include "driver/heddle_driver.h"
#include "support/gpu_lab.h"
#include "support/sim_fixture.h"
#include "vp/fake_qemu.h"

namespace heddle::test::session_test {
namespace {

using namespace heddle::vp;

constexpr std::uint64_t kGuestBytes = 1U << 20;

struct Card {
  SimFixture fixture;
  std::pair<OwnedFile, OwnedFile> proxy = socket_pair();
  std::pair<OwnedFile, OwnedFile> qtest = socket_pair();
  Board board{"board", preset_params("small", {"gpu.timing=lt"}), 1U << 20, 1};
  ProxyChannel proxy_channel{std::move(proxy.first)};
  QtestChannel qtest_channel{std::move(qtest.first)};
  FakeQemu qemu{std::move(proxy.second), std::move(qtest.second)};
  OwnedFile guest{::memfd_create("guest", MFD_CLOEXEC)};
  SessionLimits limits;

  Card() {
    start();
    REQUIRE(::ftruncate(guest.get(), static_cast<off_t>(kGuestBytes)) == 0);
  }
  // What QEMU does, in a thread of its own, and the session in this one; what either throws passes on.
  template <class Script>
  void run(Script script) {
    std::exception_ptr wrong;
    std::thread other([&] {
      try {
        script(qemu);
      } catch (...) {
        wrong = std::current_exception();
      }
      qemu.close();
    });
    std::exception_ptr failed;
    try {
      Session(board, proxy_channel, qtest_channel, limits).run();
    } catch (...) {
      failed = std::current_exception();
    }
    other.join();
    if (wrong && !failed) std::rethrow_exception(wrong);
    if (failed) std::rethrow_exception(failed);
  }
  template <class T>
  void put(std::uint64_t address, const T& value) {
    REQUIRE(::pwrite(guest.get(), &value, sizeof value, static_cast<off_t>(address)) == sizeof value);
  }
  std::uint64_t word(std::uint64_t address) const {
    std::uint64_t value = 0;
    REQUIRE(::pread(guest.get(), &value, 8, static_cast<off_t>(address)) == 8);
    return value;
  }
};

constexpr std::uint64_t kRegisters = FakeQemu::kBar0;

// A queue in the guest's memory with one kernel of `cycles`, which ends with an interrupt.
constexpr std::uint64_t kRing = 0x1000;
constexpr std::uint64_t kSignal = 0x4000;
constexpr std::uint64_t kObject = 0x8000;  // in device memory

void open_queue(FakeQemu& qemu) {
  qemu.write(kRegisters + HEDDLE_REG_INT_MASK, HEDDLE_INT_SIGNAL_MASK, 4);
  qemu.write(kRegisters + HEDDLE_REG_QUEUE_BASE(0), HEDDLE_HOST_WINDOW + kRing, 8);
  qemu.write(kRegisters + HEDDLE_REG_QUEUE_SIZE(0), 4, 4);
  qemu.write(kRegisters + HEDDLE_REG_QUEUE_COMMAND(0), HEDDLE_QUEUE_COMMAND_OPEN, 4);
}

void put_kernel(Card& card, std::uint64_t cycles) {
  heddle_packet packets[4];
  for (heddle_packet& packet : packets) heddle_packet_invalid(&packet);
  heddle_dispatch dispatch{};
  dispatch.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM);
  dispatch.setup = 1;
  dispatch.workgroup[0] = 32;
  dispatch.workgroup[1] = dispatch.workgroup[2] = 1;
  dispatch.grid[1] = dispatch.grid[2] = 1;
  dispatch.grid[0] = 64;
  dispatch.kernel_object = kObject;
  dispatch.completion_signal = (HEDDLE_HOST_WINDOW + kSignal) | HEDDLE_SIGNAL_INTERRUPT;
  heddle_packet_kernel(&packets[0], &dispatch);
  card.put(kRing, packets);
  card.put(kSignal, std::array<std::uint64_t, 4>{1, 0, 7, 0});
  heddle_kernel_object object{};
  object.shortest = object.longest = cycles;
  std::array<std::uint8_t, HEDDLE_KERNEL_OBJECT_BYTES> bytes{};
  REQUIRE(heddle_kernel_object_encode(bytes.data(), &object) == HEDDLE_OK);
  REQUIRE(card.board.gpu().memory().write(kObject, bytes.data(), bytes.size()));
}

TEST_CASE("registers and device memory are reached through the BARs", "[vp][HST-01]") {
  Card card;
  card.run([](FakeQemu& qemu) {
    HEDDLE_CHECK(qemu.config_read(0, 4) == 0x4845F1F1, "another device");
    HEDDLE_CHECK(qemu.read(kRegisters, 4) == 0xFFFFFFFF, "answers before it has an address");
    qemu.set_up();
    HEDDLE_CHECK(qemu.read(kRegisters + HEDDLE_REG_MAGIC, 4) == HEDDLE_DEVICE_MAGIC, "no magic");
    HEDDLE_CHECK(qemu.read(kRegisters + HEDDLE_REG_SMS, 4) == 10, "other SMs");
    qemu.write(kRegisters + HEDDLE_REG_SCRATCH, 0xABCD, 4);
    HEDDLE_CHECK(qemu.read(kRegisters + HEDDLE_REG_SCRATCH, 4) == 0xABCD, "SCRATCH is not kept");
    HEDDLE_CHECK(qemu.read(kRegisters + 0x3000, 4) == 0xFFFFFFFF, "a register that does not exist");
    HEDDLE_CHECK(qemu.read(kRegisters + 0x3000, 8) == ~std::uint64_t{0}, "a register that does not exist");
    HEDDLE_CHECK(qemu.read(kRegisters + HEDDLE_REG_MAGIC, 1) == 0xFF, "a byte of a register");
    qemu.write(FakeQemu::kBar1 + 0x1000, 0x1122334455667788, 8);
    HEDDLE_CHECK(qemu.read(FakeQemu::kBar1 + 0x1000, 8) == 0x1122334455667788, "device memory is not kept");
    HEDDLE_CHECK(qemu.read(FakeQemu::kBar1 + 0x1003, 1) == 0x55, "a byte of device memory");
    qemu.reset();
    HEDDLE_CHECK(qemu.config_read(0x10, 4) == 0, "a reset leaves a BAR");
    qemu.set_up();
    HEDDLE_CHECK(qemu.read(kRegisters + HEDDLE_REG_SCRATCH, 4) == 0, "a reset leaves SCRATCH");
    HEDDLE_CHECK(qemu.read(FakeQemu::kBar1 + 0x1000, 8) == 0x1122334455667788, "a reset takes device memory");
  });
  CHECK(card.board.tally().writes == 2);
  CHECK(card.qemu.interrupts.empty());
}

TEST_CASE("an interrupt is the guest's before the access is answered", "[vp][HST-01]") {
  Card card;
  card.run([](FakeQemu& qemu) {
    qemu.set_up();
    qemu.write(kRegisters + HEDDLE_REG_INT_MASK, HEDDLE_INT_SOFTWARE_MASK, 4);
    qemu.write(kRegisters + HEDDLE_REG_INT_SET, HEDDLE_INT_SOFTWARE_MASK, 4);
    HEDDLE_CHECK(qemu.interrupts.size() == 1, "no interrupt, or more than one");
    HEDDLE_CHECK(qemu.interrupts[0] == "writel 0xfee00000 0x4021\n", qemu.interrupts[0]);
    // The line is up: another cause raises nothing. Down and up again, it does.
    qemu.write(kRegisters + HEDDLE_REG_INT_SET, HEDDLE_INT_SOFTWARE_MASK, 4);
    HEDDLE_CHECK(qemu.interrupts.size() == 1, "an interrupt while the line is up");
    qemu.write(kRegisters + HEDDLE_REG_INT_STATUS, HEDDLE_INT_SOFTWARE_MASK, 4);
    qemu.write(kRegisters + HEDDLE_REG_INT_SET, HEDDLE_INT_SOFTWARE_MASK, 4);
    HEDDLE_CHECK(qemu.interrupts.size() == 2, "no second interrupt");
  });
}

TEST_CASE("an interrupt waits for MSI and bus mastering", "[vp][HST-01]") {
  Card card;
  card.run([](FakeQemu& qemu) {
    qemu.set_up();
    qemu.config_write(0x42, 0, 2);
    qemu.config_write(0x04, 2, 2);
    qemu.write(kRegisters + HEDDLE_REG_INT_MASK, HEDDLE_INT_SOFTWARE_MASK, 4);
    qemu.write(kRegisters + HEDDLE_REG_INT_SET, HEDDLE_INT_SOFTWARE_MASK, 4);
    qemu.config_write(0x42, 1, 2);
    HEDDLE_CHECK(qemu.interrupts.empty(), "a card that is no bus master has written to the bus");
    qemu.config_write(0x04, 6, 2);
    HEDDLE_CHECK(qemu.interrupts.size() == 1, "the interrupt that waited has been lost");
  });
}

TEST_CASE("a kernel that ends within an access takes no time of the guest's", "[vp][HST-03]") {
  Card card;
  put_kernel(card, 2000);
  card.run([&](FakeQemu& qemu) {
    qemu.map(card.guest.get(), kGuestBytes);
    qemu.set_up();
    open_queue(qemu);
    qemu.write(kRegisters + HEDDLE_REG_DOORBELL(0), 0, 8);
    HEDDLE_CHECK(qemu.interrupts.size() == 1, "the doorbell was answered before the kernel had ended");
    HEDDLE_CHECK(qemu.read(kRegisters + HEDDLE_REG_EVENT, 8) == (HEDDLE_EVENT_VALID_MASK | 7), "another event");
  });
  CHECK(card.word(kSignal) == 0);
  CHECK(sc_core::sc_time_stamp() >= sc_core::sc_time(2, sc_core::SC_US));
  CHECK(sc_core::sc_time_stamp() < sc_core::sc_time(20, sc_core::SC_US));
  CHECK(card.board.memory().bytes_moved() > 64);
}

TEST_CASE("a kernel that takes longer goes on between accesses", "[vp][HST-03]") {
  Card card;
  card.limits.within_access = sc_core::sc_time(5, sc_core::SC_US);
  put_kernel(card, 300'000);
  card.run([&](FakeQemu& qemu) {
    qemu.map(card.guest.get(), kGuestBytes);
    qemu.set_up();
    open_queue(qemu);
    qemu.write(kRegisters + HEDDLE_REG_DOORBELL(0), 0, 8);
    HEDDLE_CHECK(qemu.interrupts.empty(), "300 us have passed within an access of 5 us");
    qemu.await_interrupt();
    HEDDLE_CHECK(qemu.read(kRegisters + HEDDLE_REG_EVENT_COUNT, 4) == 1, "no event");
  });
  CHECK(card.word(kSignal) == 0);
}

TEST_CASE("a card that is no bus master stops its queue with an error", "[vp][HST-02]") {
  Card card;
  put_kernel(card, 100);
  card.run([&](FakeQemu& qemu) {
    qemu.map(card.guest.get(), kGuestBytes);
    qemu.set_up();
    open_queue(qemu);
    qemu.config_write(0x04, 2, 2);
    qemu.write(kRegisters + HEDDLE_REG_DOORBELL(0), 0, 8);
    HEDDLE_CHECK(qemu.read(kRegisters + HEDDLE_REG_QUEUE_STATE(0), 4) == HEDDLE_QUEUE_STATE_ERROR, "it goes on");
  });
  CHECK(card.word(kSignal) == 1);
  CHECK(card.board.memory().bytes_moved() == 0);
  CHECK(card.board.memory().refused() > 0);
}

TEST_CASE("a card that has gone answers with ones, and does nothing", "[vp][HST-01]") {
  Card card;
  card.limits.vanish_after = 2;
  card.run([](FakeQemu& qemu) {
    qemu.set_up();
    qemu.write(kRegisters + HEDDLE_REG_INT_MASK, HEDDLE_INT_SOFTWARE_MASK, 4);
    HEDDLE_CHECK(qemu.read(kRegisters + HEDDLE_REG_MAGIC, 4) == HEDDLE_DEVICE_MAGIC, "gone too early");
    qemu.write(kRegisters + HEDDLE_REG_INT_SET, HEDDLE_INT_SOFTWARE_MASK, 4);
    HEDDLE_CHECK(qemu.read(kRegisters + HEDDLE_REG_MAGIC, 4) == 0xFFFFFFFF, "not gone");
    HEDDLE_CHECK(qemu.read(kRegisters + HEDDLE_REG_TIMESTAMP, 8) == ~std::uint64_t{0}, "not gone");
    HEDDLE_CHECK(qemu.config_read(0, 2) == 0xFFFF, "not gone");
  });
  CHECK(card.qemu.interrupts.empty());
  CHECK(card.board.tally().reads + card.board.tally().writes == 2);
}

TEST_CASE("what QEMU should not say ends the session", "[vp][HST-01]") {
  SECTION("an unknown command") {
    Card card;
    CHECK_THROWS_WITH(card.run([](FakeQemu& qemu) { qemu.send(99, {}, {}); }), Catch::Contains("command 99"));
  }
  SECTION("half a message") {
    Card card;
    CHECK_THROWS_WITH(card.run([](FakeQemu& qemu) {
      qemu.send_raw({3, 0, 0, 0, 0, 0}, {});
    }),
                      Catch::Contains("in the middle of a message"));
  }
  SECTION("a header without its payload") {
    Card card;
    CHECK_THROWS_WITH(card.run([](FakeQemu& qemu) {
      qemu.send_raw({3, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0}, {});
    }),
                      Catch::Contains("in the middle of a message"));
  }
  SECTION("an interrupt that is refused") {
    Card card;
    card.qemu.qtest_answer = "FAIL\n";
    CHECK_THROWS_WITH(card.run([](FakeQemu& qemu) {
      qemu.set_up();
      qemu.write(kRegisters + HEDDLE_REG_INT_MASK, HEDDLE_INT_SOFTWARE_MASK, 4);
      qemu.send(4, {0x48, 0, 0xB0, 0xFE, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0}, {});
      qemu.await_interrupt();
    }),
                      Catch::Contains("refuses an interrupt"));
  }
}

TEST_CASE("files that come with messages are closed", "[vp][HST-01]") {
  Card card;
  card.run([&](FakeQemu& qemu) {
    for (int round = 0; round < 2000; ++round) {  // more than a process may have
      qemu.map(card.guest.get(), kGuestBytes);
      qemu.send(6, {}, {card.guest.get(), card.guest.get()});
    }
    HEDDLE_CHECK(qemu.config_read(0, 4) == 0x4845F1F1, "another device");
  });
}

}  // namespace
}  // namespace heddle::test::session_test
