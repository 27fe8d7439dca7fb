#include "host/register_file.h"

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace heddle::test::host_register_file_test {
namespace {

using host::Register;
using host::RegisterAccess;
using host::RegisterFile;
using host::RegisterId;
using host::RegisterResult;

struct Effects final : host::RegisterEffects {
  void queue_command(const protocol::QueueCommandPacket& packet) override { commands.push_back(packet); }
  void start_copy(const protocol::CopyRequestPacket& packet) override { copies.push_back(packet); }
  void share(const protocol::SubcontextPacket& packet) override { shares.push_back(packet); }
  void ask(const protocol::OccupancyQueryPacket& query) override { queries.push_back(query); }
  void change_windows(const protocol::HostWindowPacket& packet) override { windows.push_back(packet); }
  void soft_reset() override { ++resets; }
  std::uint64_t live(RegisterId id) const override { return id == RegisterId::timestamp ? time : over ? 0 : 1; }
  bool over = true;
  std::uint64_t time = 0x11'2233'4455;
  std::vector<protocol::QueueCommandPacket> commands;
  std::vector<protocol::CopyRequestPacket> copies;
  std::vector<protocol::SubcontextPacket> shares;
  std::vector<protocol::OccupancyQueryPacket> queries;
  std::vector<protocol::HostWindowPacket> windows;
  unsigned resets = 0;
};

constexpr std::uint32_t kQueues = 5;
constexpr std::size_t kFifo = 3;

host::DeviceIdentity identity() {
  host::DeviceIdentity i;
  i.sms = 2;
  i.gpcs = 1;
  i.queues = kQueues;
  i.copy_engines = 2;
  i.memory = 0x1234'5678'9000;
  i.clock_mhz = 1755;
  i.clock_period = 570;
  i.doorbell_page = 8192;
  i.host_windows = 3;
  i.limits.max_threads_per_cta = 1024;
  i.limits.max_shared_per_cta = 232'448;
  return i;
}

// Written from docs/registers.md: bytes of every register, by offset, without the tricks of the implementation.
class PlainModel {
 public:
  PlainModel() {
    for (const Register& reg : host::register_table()) {
      for (std::uint32_t i = 0; i < reg.count; ++i) {
        for (std::uint32_t w = 0; w < reg.words; ++w) store(host::offset_of(reg.id, i, w), reg.bytes, reg.reset);
      }
    }
    const host::DeviceIdentity i = identity();
    store(0x008, 4, i.sms);
    store(0x00C, 4, i.gpcs);
    store(0x010, 4, i.queues);
    store(0x014, 4, i.copy_engines);
    store(0x018, 8, i.memory);
    store(0x020, 4, i.clock_mhz);
    store(0x034, 4, i.clock_period);
    store(0x038, 8, Effects().time);
    store(0x08C, 4, i.doorbell_page);
    store(0x024, 4, i.limits.max_threads_per_cta);
    store(0x028, 4, i.limits.max_shared_per_cta);
  }
  std::uint64_t load(std::uint64_t offset, unsigned bytes) const {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) value |= std::uint64_t{bytes_.at(offset + i)} << 8 * i;
    return value;
  }
  void store(std::uint64_t offset, unsigned bytes, std::uint64_t value) {
    for (unsigned i = 0; i < bytes; ++i) bytes_[offset + i] = static_cast<std::uint8_t>(value >> 8 * i);
  }

 private:
  std::map<std::uint64_t, std::uint8_t> bytes_;
};

// Registers whose reads or writes do more than keep bytes.
bool is_plain(const Register& reg) {
  return reg.access == RegisterAccess::rw || (reg.access == RegisterAccess::ro && reg.id != RegisterId::int_pending &&
                                              reg.id != RegisterId::event && reg.id != RegisterId::event_count);
}

}  // namespace

TEST_CASE("random accesses to registers do what a plain model does", "[host][HST-01]") {
  for (const std::uint64_t seed : seeds(30)) {
    CAPTURE(seed);
    Random random(seed);
    Effects effects;
    RegisterFile file(identity(), kFifo, effects);
    PlainModel model;
    std::uint32_t status = 0;
    std::uint32_t mask = 0;
    const host::RegisterTable table = host::register_table();
    for (unsigned step = 0; step < 3000; ++step) {
      const Register& reg = table.registers[random.below(table.count)];
      const std::uint32_t index = random.below(reg.count);
      const std::uint32_t half = reg.bytes == 8 ? 4 * random.below(2) : 0;
      const std::uint64_t offset = host::offset_of(reg.id, index, random.below(reg.words));
      const unsigned bytes = reg.bytes == 8 && random.chance(50) ? 8 : 4;
      const std::uint64_t at = offset + (bytes == 4 ? half : 0);
      const bool there = reg.array != host::RegisterArray::queue || index < kQueues;
      std::uint64_t value = random.next() & (bytes == 8 ? ~std::uint64_t{0} : 0xFFFF'FFFF);
      if (!there) {
        REQUIRE(file.read(at, bytes, value) == RegisterResult::address);
        REQUIRE(file.write(at, bytes, value) == RegisterResult::address);
        continue;
      }
      CAPTURE(reg.name, index, at, bytes, step);
      if (random.chance(50)) {
        std::uint64_t got = 0;
        const RegisterResult result = file.read(at, bytes, got);
        if (reg.access == RegisterAccess::wo) {
          REQUIRE(result == RegisterResult::command);
        } else {
          REQUIRE(result == RegisterResult::ok);
          if (reg.id == RegisterId::int_status) REQUIRE(got == status);
          if (reg.id == RegisterId::int_pending) REQUIRE(got == (status & mask));
          if (is_plain(reg)) REQUIRE(got == model.load(at, bytes));
        }
        continue;
      }
      if (reg.access == RegisterAccess::wo && reg.id != RegisterId::int_set) continue;  // below
      const RegisterResult result = file.write(at, bytes, value);
      switch (reg.access) {
        case RegisterAccess::ro:
          REQUIRE(result == RegisterResult::command);
          continue;
        case RegisterAccess::wo:
          status |= static_cast<std::uint32_t>(value) & 0x3FF;
          break;
        case RegisterAccess::w1c:
          status &= ~static_cast<std::uint32_t>(value);
          break;
        case RegisterAccess::rw:
          model.store(at, bytes, value);
          model.store(offset, reg.bytes, model.load(offset, reg.bytes) & host::bits_of(reg));
          if (reg.id == RegisterId::int_mask) mask = static_cast<std::uint32_t>(value) & 0x3FF;
          break;
      }
      REQUIRE(result == RegisterResult::ok);
      REQUIRE(file.level() == ((status & mask) != 0));
    }
    CHECK(effects.commands.empty());
    CHECK(effects.resets == 0);
  }
}

TEST_CASE("every place and length that is not a register's is refused", "[host][HST-01]") {
  Effects effects;
  RegisterFile file(identity(), kFifo, effects);
  for (std::uint64_t offset = 0; offset < host::bar0_bytes(8192) + 16; ++offset) {
    if (offset > host::kDoorbellBase + 0x100 && offset % 8192 > 0x300) continue;
    for (const unsigned bytes : {0U, 1U, 2U, 3U, 4U, 5U, 8U, 12U, 16U}) {
      const host::RegisterPlace place = host::register_at(offset, 8192);
      const bool mine = offset < host::kDoorbellBase || offset < host::kDoorbellBase + 8192;  // all are subcontext 0's
      const bool there =
          place.reg != nullptr && mine && (place.reg->array != host::RegisterArray::queue || place.index < kQueues);
      const bool fits = (bytes == 4 || bytes == 8) && offset % bytes == 0 && there && bytes <= place.reg->bytes;
      if (fits) continue;
      std::uint64_t value = 77;
      const RegisterResult expected = there ? RegisterResult::burst : RegisterResult::address;
      REQUIRE(file.read(offset, bytes, value) == expected);
      REQUIRE(file.write(offset, bytes, value) == expected);
      REQUIRE(value == 77);
    }
  }
  CHECK(effects.commands.empty());
  CHECK(effects.copies.empty());
}

TEST_CASE("event ids come out once, in their order, and too many are counted as lost", "[host][HST-01][PKT-04]") {
  for (const std::uint64_t seed : seeds(20)) {
    CAPTURE(seed);
    Random random(seed);
    Effects effects;
    RegisterFile file(identity(), kFifo, effects);
    std::deque<std::uint32_t> expected;
    bool lost = false;
    const auto signal = [&](std::uint32_t id) {
      protocol::QueueEventPacket packet;
      packet.event = protocol::QueueEvent::signal;
      packet.queue = random.below(kQueues);
      packet.event_id = id;
      file.take(packet);
      if (expected.size() < kFifo) {
        expected.push_back(id);
      } else {
        lost = true;
      }
    };
    for (unsigned step = 0; step < 400; ++step) {
      if (random.chance(50)) {
        signal(static_cast<std::uint32_t>(random.next()));
      } else {
        const std::uint64_t wanted = expected.empty() ? 0 : expected.front() | std::uint64_t{1} << 32;
        // Looking does not take.
        std::uint64_t seen = 0;
        for (unsigned i = 0; i < 8; ++i) seen |= std::uint64_t{file.peek(0x80 + i)} << 8 * i;
        REQUIRE(seen == wanted);
        const bool whole = random.chance(50);
        std::uint64_t got = 0;
        REQUIRE(file.read(0x80, whole ? 8 : 4, got) == RegisterResult::ok);
        if (wanted != 0) expected.pop_front();
        if (!whole) {
          if (random.chance(30)) signal(0);  // an event meanwhile does not get into the high half
          std::uint64_t high = 0;
          REQUIRE(file.read(0x84, 4, high) == RegisterResult::ok);
          got |= high << 32;
        }
        REQUIRE(got == wanted);
      }
      std::uint64_t count = 0;
      REQUIRE(file.read(0x88, 4, count) == RegisterResult::ok);
      REQUIRE(count == expected.size());
      std::uint64_t status = 0;
      REQUIRE(file.read(0x40, 4, status) == RegisterResult::ok);
      REQUIRE(((status & host::kIntOverflow) != 0) == lost);
    }
  }
}

// PKT-14: what an operating system maps into a process is the page of its subcontext, and nothing else.
TEST_CASE("a queue's doorbell is in the page of its subcontext, and in no other", "[host][HST-01][PKT-14]") {
  for (const std::uint32_t page_bytes : {4096U, 65'536U}) {
    Effects effects;
    host::DeviceIdentity device = identity();
    device.doorbell_page = page_bytes;
    RegisterFile file(device, kFifo, effects);
    CHECK(file.bytes() == 0x1'0000 + 64 * page_bytes);
    const auto rings = [&](std::uint32_t queue, std::uint32_t page) {
      const std::uint64_t at = 0x1'0000 + std::uint64_t{page} * page_bytes + 8 * queue;
      REQUIRE(host::doorbell_at(queue, page, page_bytes) == at);
      effects.commands.clear();
      const RegisterResult result = file.write(at, 8, 5);
      REQUIRE((result == RegisterResult::ok) == (effects.commands.size() == 1));
      if (result != RegisterResult::ok) REQUIRE(result == RegisterResult::address);
      return result == RegisterResult::ok && effects.commands[0].queue == queue && effects.commands[0].index == 5;
    };
    const auto open = [&](std::uint32_t queue, std::uint32_t subcontext) {
      REQUIRE(file.write(host::offset_of(RegisterId::queue_subcontext, queue), 4, subcontext) == RegisterResult::ok);
      REQUIRE(file.write(host::offset_of(RegisterId::queue_command, queue), 4, host::kQueueOpen) == RegisterResult::ok);
    };
    for (std::uint32_t page = 0; page < 64; ++page) CHECK(rings(3, page) == (page == 0));
    open(3, 17);
    open(4, 63);
    for (std::uint32_t page = 0; page < 64; ++page) {
      CHECK(rings(2, page) == (page == 0));
      CHECK(rings(3, page) == (page == 17));
      CHECK(rings(4, page) == (page == 63));
      CHECK_FALSE(rings(kQueues, page));  // the machine has no such queue
    }
    CHECK(file.write(0x1'0000 + 17 * page_bytes + 512, 8, 0) == RegisterResult::address);
    CHECK(file.write(file.bytes(), 8, 0) == RegisterResult::address);
    // While it is open it stays where it is.
    protocol::QueueEventPacket active;
    active.queue = 3;
    active.state = protocol::QueueState::active;
    file.take(active);
    open(3, 5);
    CHECK(rings(3, 17));
    CHECK_FALSE(rings(3, 5));
    file.reset();
    CHECK(rings(3, 0));
  }
}

TEST_CASE("agent packets wait in numbers, are taken one by one, and end in any order", "[host][HST-01][PKT-14]") {
  Effects effects;
  RegisterFile file(identity(), kFifo, effects);
  const auto get = [&](RegisterId id, std::uint32_t word = 0) {
    std::uint64_t value = 0;
    REQUIRE(file.read(host::offset_of(id, 1, word), host::register_of(id).bytes, value) == RegisterResult::ok);
    return value;
  };
  const auto set = [&](RegisterId id, std::uint64_t value) {
    return file.write(host::offset_of(id, 1), host::register_of(id).bytes, value);
  };
  const auto state = [&] {
    return std::make_pair(get(RegisterId::agent_state) & 0xFF, get(RegisterId::agent_state) >> 8);
  };
  using State = std::pair<std::uint64_t, std::uint64_t>;
  CHECK(set(RegisterId::agent_take, 1) == RegisterResult::refused);
  for (std::uint64_t index = 10; index < 13; ++index) {
    protocol::QueueEventPacket packet;
    packet.event = protocol::QueueEvent::agent;
    packet.queue = 1;
    packet.index = index;
    packet.packet[8] = static_cast<std::uint8_t>(index);
    file.take(packet);
  }
  CHECK(state() == State{3, 0});
  CHECK(get(RegisterId::agent_index) == 10);
  CHECK(get(RegisterId::agent_packet, 1) == 10);
  REQUIRE(set(RegisterId::agent_take, 0) == RegisterResult::ok);
  CHECK(get(RegisterId::agent_index) == 11);
  CHECK(get(RegisterId::agent_packet, 1) == 11);
  CHECK(state() == State{2, 1});
  REQUIRE(set(RegisterId::agent_take, 0) == RegisterResult::ok);
  CHECK(state() == State{1, 2});
  const auto end = [&](std::uint64_t index) {
    REQUIRE(set(RegisterId::agent_done_index, index) == RegisterResult::ok);
    return set(RegisterId::agent_done, 0x1001);
  };
  CHECK(end(12) == RegisterResult::refused);  // it has not been taken
  REQUIRE(end(11) == RegisterResult::ok);
  CHECK(end(11) == RegisterResult::refused);
  REQUIRE(end(10) == RegisterResult::ok);
  CHECK(state() == State{1, 0});
  REQUIRE(effects.commands.size() == 2);
  CHECK(effects.commands[0].index == 11);
  CHECK(effects.commands[0].status == 0x1001);
  CHECK(effects.commands[1].index == 10);
  protocol::QueueEventPacket inactive;
  inactive.queue = 1;
  inactive.state = protocol::QueueState::inactive;
  file.take(inactive);
  CHECK(state() == State{0, 0});
  CHECK((get(RegisterId::queue_state) == 5));
  CHECK(set(RegisterId::agent_take, 0) == RegisterResult::refused);
}

TEST_CASE("a queue is inactivated by a command, and says when it is", "[host][PKT-14]") {
  Effects effects;
  RegisterFile file(identity(), kFifo, effects);
  REQUIRE(file.write(host::offset_of(RegisterId::queue_command, 2), 4, 3) == RegisterResult::ok);
  REQUIRE(effects.commands.size() == 1);
  CHECK(effects.commands[0].command == protocol::QueueCommand::inactivate);
  CHECK(effects.commands[0].queue == 2);
  CHECK(file.write(host::offset_of(RegisterId::queue_command, 2), 4, 4) == RegisterResult::refused);
  const auto interrupts = [&] {
    std::uint64_t value = 0;
    REQUIRE(file.read(host::offset_of(RegisterId::int_status), 4, value) == RegisterResult::ok);
    return value;
  };
  protocol::QueueEventPacket event;
  event.queue = 2;
  event.state = protocol::QueueState::aborting;
  file.take(event);
  CHECK(interrupts() == 0);
  event.state = protocol::QueueState::inactive;
  file.take(event);
  CHECK(interrupts() == host::kIntQueueClosed);
  // Why a queue has stopped.
  event.state = protocol::QueueState::error;
  event.status = arch::HsaStatus::invalid_argument;
  event.reason = arch::Reason::kernarg_host;
  file.take(event);
  std::uint64_t reason = 0;
  REQUIRE(file.read(host::offset_of(RegisterId::queue_error_reason, 2), 4, reason) == RegisterResult::ok);
  CHECK(reason == 27);
  REQUIRE(file.read(host::offset_of(RegisterId::error_reason), 4, reason) == RegisterResult::ok);
  CHECK(reason == 27);
}

TEST_CASE("doorbells ring whole, and by halves with the high one", "[host][HST-01][PKT-01]") {
  Effects effects;
  RegisterFile file(identity(), kFifo, effects);
  const std::uint64_t bells = host::offset_of(RegisterId::doorbell);
  const auto rung = [&] {
    REQUIRE_FALSE(effects.commands.empty());
    const protocol::QueueCommandPacket packet = effects.commands.back();
    effects.commands.clear();
    CHECK(packet.command == protocol::QueueCommand::doorbell);
    return std::make_pair(packet.queue, packet.index);
  };
  CHECK(file.write(bells + 16, 8, 0x1'0000'0005) == RegisterResult::ok);
  CHECK(rung() == std::make_pair(2U, std::uint64_t{0x1'0000'0005}));
  CHECK(file.write(bells, 4, 7) == RegisterResult::ok);
  CHECK(file.write(bells + 8, 4, 9) == RegisterResult::ok);
  CHECK(effects.commands.empty());
  CHECK(file.write(bells + 4, 4, 1) == RegisterResult::ok);
  CHECK(rung() == std::make_pair(0U, std::uint64_t{0x1'0000'0007}));
  CHECK(file.write(bells + 12, 4, 0) == RegisterResult::ok);
  CHECK(rung() == std::make_pair(1U, std::uint64_t{9}));
  file.reset();
  CHECK(file.write(bells + 4, 4, 0) == RegisterResult::ok);
  CHECK(rung() == std::make_pair(0U, std::uint64_t{0}));
}

TEST_CASE("the halves of a register that changes belong together", "[host][HST-01]") {
  Effects effects;
  RegisterFile file(identity(), kFifo, effects);
  const auto advance = [&](std::uint32_t queue, std::uint64_t index) {
    protocol::QueueEventPacket packet;
    packet.event = protocol::QueueEvent::read;
    packet.queue = queue;
    packet.index = index;
    file.take(packet);
  };
  const auto word = [&](std::uint64_t offset) {
    std::uint64_t value = 0;
    CHECK(file.read(offset, 4, value) == RegisterResult::ok);
    return value;
  };
  const std::uint64_t at = host::offset_of(RegisterId::queue_read_index, 1);
  advance(1, 0xFFFF'FFFF);
  CHECK(word(at) == 0xFFFF'FFFF);
  advance(1, 0x1'0000'0000);
  CHECK(word(at + 4) == 0);  // of the first value
  CHECK(word(at + 4) == 1);  // without a low half before it: as it is now
  // Another read of a low half takes the place.
  CHECK(word(at) == 0);
  CHECK(word(host::offset_of(RegisterId::queue_read_index, 2)) == 0);
  advance(1, 0x2'0000'0000);
  CHECK(word(at + 4) == 2);
}

TEST_CASE("the status shows whether the life before the reset is over", "[host][HST-01]") {
  Effects effects;
  RegisterFile file(identity(), kFifo, effects);
  const std::uint64_t at = host::offset_of(RegisterId::status);
  std::uint64_t value = 9;
  CHECK(file.read(at, 4, value) == RegisterResult::ok);
  CHECK(value == 0);
  effects.over = false;
  CHECK(file.read(at, 4, value) == RegisterResult::ok);
  CHECK(value == host::kStatusResetBusy);
  CHECK(file.peek(at) == 1);
  file.reset();
  CHECK(file.read(at, 4, value) == RegisterResult::ok);
  CHECK(value == host::kStatusResetBusy);
  CHECK(file.write(at, 4, 0) == RegisterResult::command);
}

TEST_CASE("the last error of a copy is kept, and errors are counted", "[host][HST-05]") {
  Effects effects;
  RegisterFile file(identity(), kFifo, effects);
  const auto value = [&](RegisterId id, std::uint32_t bytes = 4) {
    std::uint64_t read = ~std::uint64_t{0};
    CHECK(file.read(host::offset_of(id), bytes, read) == RegisterResult::ok);
    return read;
  };
  CHECK(value(RegisterId::copy_fault_engine) == host::kAbsent);
  file.take(host::CopyFault{arch::HsaStatus::error, 0x1'2345'6789, true, 3, 0, 1});
  CHECK(value(RegisterId::copy_fault_count) == 1);
  CHECK(value(RegisterId::copy_fault_address, 8) == 0x1'2345'6789);
  CHECK(value(RegisterId::copy_fault_access) == 1);
  CHECK(value(RegisterId::copy_fault_subcontext) == 3);
  CHECK(value(RegisterId::copy_fault_sender) == 0);
  CHECK(value(RegisterId::copy_fault_engine) == 1);
  CHECK(value(RegisterId::copy_fault_status) == static_cast<std::uint64_t>(arch::HsaStatus::error));
  file.take(host::CopyFault{arch::HsaStatus::invalid_argument, 16, false, 0, 1, std::nullopt});
  CHECK(value(RegisterId::copy_fault_count) == 2);
  CHECK(value(RegisterId::copy_fault_address, 8) == 16);
  CHECK(value(RegisterId::copy_fault_access) == 0);
  CHECK(value(RegisterId::copy_fault_sender) == 1);
  CHECK(value(RegisterId::copy_fault_engine) == host::kAbsent);
  CHECK_FALSE(file.level());
  file.reset();
  CHECK(value(RegisterId::copy_fault_count) == 0);
}

TEST_CASE("changes of how the machine is shared leave as packets, and can be read back", "[host][HST-01][PRT-07]") {
  Effects effects;
  RegisterFile file(identity(), kFifo, effects);
  using What = protocol::SubcontextPacket::What;
  const auto set = [&](RegisterId id, std::uint64_t value) {
    REQUIRE(file.write(host::offset_of(id), host::register_of(id).bytes, value) == RegisterResult::ok);
  };
  const auto value = [&](RegisterId id) {
    std::uint64_t read = 0;
    REQUIRE(file.read(host::offset_of(id), host::register_of(id).bytes, read) == RegisterResult::ok);
    return read;
  };
  const auto command = [&](std::uint32_t what, std::uint64_t with) {
    set(RegisterId::share_value, with);
    return file.write(host::offset_of(RegisterId::share_command), 4, what);
  };
  CHECK(value(RegisterId::share_mode) == host::kAbsent);
  CHECK(command(host::kShareMode, 2) == RegisterResult::ok);
  REQUIRE(effects.shares.size() == 1);
  CHECK(effects.shares.back().what == What::mode);
  CHECK(effects.shares.back().mode == protocol::PartitionMode::dynamic);
  CHECK(value(RegisterId::share_mode) == 2);

  set(RegisterId::share_subcontext, 63);
  set(RegisterId::share_tpc, 5U << host::kShareGpcBit | 7);
  CHECK(command(host::kShareCredits, 12) == RegisterResult::ok);
  CHECK(effects.shares.back().what == What::credits);
  CHECK(effects.shares.back().subcontext == 63);
  CHECK(effects.shares.back().value == 12);
  CHECK(command(host::kShareEnable, 0) == RegisterResult::ok);
  CHECK(effects.shares.back().what == What::enable);
  CHECK(effects.shares.back().gpc == 5);
  CHECK(effects.shares.back().tpc == 7);
  CHECK(effects.shares.back().value == 0);
  CHECK(command(host::kShareBlock, 40) == RegisterResult::ok);
  CHECK(effects.shares.back().what == What::block);
  CHECK(command(host::kSharePageTable, 0x1'2345'0000) == RegisterResult::ok);
  CHECK(effects.shares.back().what == What::page_table);
  CHECK(effects.shares.back().value == 0x1'2345'0000);
  CHECK(command(host::kShareLocalAddress, 0x1'0000'0000'0080) == RegisterResult::ok);
  CHECK(effects.shares.back().what == What::local_address);
  CHECK(effects.shares.back().value == 0x1'0000'0000'0080);
  CHECK(command(host::kShareLocalBytes, 76) == RegisterResult::ok);
  CHECK(effects.shares.back().what == What::local_bytes);
  CHECK(effects.shares.back().subcontext == 63);
  CHECK(effects.shares.back().value == 76);
  CHECK(command(host::kShareSms, 30) == RegisterResult::ok);
  CHECK(effects.shares.back().what == What::sms);
  CHECK(command(host::kShareWarps, 40) == RegisterResult::ok);
  CHECK(effects.shares.back().what == What::warps);
  CHECK(effects.shares.back().value == 40);
  CHECK(value(RegisterId::share_sms) == 30);
  CHECK(value(RegisterId::share_warps) == 40);
  CHECK(command(host::kShareBandwidth, 333) == RegisterResult::ok);
  CHECK(effects.shares.back().what == What::bandwidth);
  CHECK(effects.shares.back().subcontext == 63);
  CHECK(effects.shares.back().value == 333);
  CHECK(command(host::kShareLimit, 666) == RegisterResult::ok);
  CHECK(effects.shares.back().what == What::bandwidth_limit);
  CHECK(effects.shares.back().value == 666);
  CHECK(command(host::kShareInstance, 2) == RegisterResult::ok);
  CHECK(effects.shares.back().what == What::instance);
  CHECK(effects.shares.back().value == 2);
  CHECK(value(RegisterId::share_instance) == 2);

  CHECK(value(RegisterId::share_credits) == 12);
  CHECK(value(RegisterId::share_enabled) == 0);
  CHECK(value(RegisterId::share_block) == 40);
  CHECK(value(RegisterId::share_page_table) == 0x1'2345'0000);
  CHECK(value(RegisterId::share_local_address) == 0x1'0000'0000'0080);
  CHECK(value(RegisterId::share_local_bytes) == 76);
  CHECK(value(RegisterId::share_bandwidth) == 333);
  CHECK(value(RegisterId::share_limit) == 666);
  CHECK(value(RegisterId::share_local_bytes) == 76);
  set(RegisterId::share_tpc, 6);  // another TPC of the subcontext
  CHECK(value(RegisterId::share_bandwidth) == 333);
  CHECK(value(RegisterId::share_credits) == 12);
  CHECK(value(RegisterId::share_enabled) == host::kAbsent);
  CHECK(value(RegisterId::share_block) == host::kAbsent);
  set(RegisterId::share_subcontext, 62);
  CHECK(value(RegisterId::share_limit) == host::kAbsent);
  CHECK(value(RegisterId::share_credits) == host::kAbsent);
  CHECK(value(RegisterId::share_page_table) == 0);
  CHECK(value(RegisterId::share_local_address) == 0);
  CHECK(value(RegisterId::share_local_bytes) == 0);
  CHECK(value(RegisterId::share_mode) == 2);

  // What nobody could mean is refused at once; the rest by the machine.
  const std::size_t sent = effects.shares.size();
  CHECK(command(host::kShareMode, 3) == RegisterResult::refused);
  CHECK(command(0, 1) == RegisterResult::refused);
  CHECK(command(host::kShareLocalBytes, 0x1'0000'0000) == RegisterResult::refused);
  CHECK(command(13, 1) == RegisterResult::refused);
  CHECK(command(host::kShareCredits, 0x1'0000'0000) == RegisterResult::refused);
  set(RegisterId::share_subcontext, 64);
  CHECK(command(host::kShareCredits, 1) == RegisterResult::refused);
  CHECK(effects.shares.size() == sent);
  file.take(protocol::ShareRefusal::overlap);
  CHECK(value(RegisterId::share_refused) == 1);
  CHECK(value(RegisterId::share_refusal) == 4);
  file.reset();
  CHECK(value(RegisterId::share_mode) == host::kAbsent);
  CHECK(value(RegisterId::share_refused) == 0);
}

namespace {

std::uint64_t read_of(RegisterFile& file, RegisterId id) {
  std::uint64_t value = 0;
  const unsigned bytes = host::register_of(id).bytes;
  REQUIRE(file.read(host::offset_of(id), bytes, value) == RegisterResult::ok);
  return value;
}
RegisterResult write_of(RegisterFile& file, RegisterId id, std::uint64_t value) {
  return file.write(host::offset_of(id), host::register_of(id).bytes, value);
}

}  // namespace

TEST_CASE("an occupancy query leaves as a packet, and its answer is shown", "[host][CWD-24]") {
  Effects effects;
  RegisterFile file(identity(), kFifo, effects);
  CHECK(read_of(file, RegisterId::query_state) == host::kQueryIdle);
  REQUIRE(write_of(file, RegisterId::query_threads, 256) == RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::query_registers, 40) == RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::query_shared, 1000) == RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::query_local, 16) == RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::query_gpc, 4 | std::uint64_t{2} << 32 | std::uint64_t{1} << 48) ==
          RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::query_mode, 1) == RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::query_subcontext, 7) == RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::query_memory, 1) == RegisterResult::ok);
  CHECK(effects.queries.empty());
  REQUIRE(write_of(file, RegisterId::query_command, host::kQueryStart) == RegisterResult::ok);
  REQUIRE(effects.queries.size() == 1);
  const protocol::OccupancyQueryPacket& query = effects.queries[0];
  // 8 warps of 40 registers, which are 5 x 256 per warp; 1000 bytes and 1024 in units of 128.
  CHECK(query.need[arch::Resource::threads] == 256);
  CHECK(query.need[arch::Resource::registers] == 8 * 1280);
  CHECK(query.need[arch::Resource::shared_bytes] == 2048);
  CHECK(query.cluster.of(arch::CgaLevel::gpc) == arch::Dim3{4, 2, 1});
  CHECK_FALSE(query.cluster.has(arch::CgaLevel::gpu));
  CHECK(query.cluster.mode == arch::CgaMode::multicast);
  CHECK(query.cluster.linear_memory);
  CHECK(query.local_memory);
  CHECK(query.largest);
  CHECK(query.subcontext == 7);
  CHECK(read_of(file, RegisterId::query_state) == host::kQueryBusy);
  CHECK(write_of(file, RegisterId::query_command, host::kQueryStart) == RegisterResult::refused);
  CHECK((read_of(file, RegisterId::int_status) & host::kIntQueryDone) == 0);

  protocol::OccupancyAnswerPacket answer;
  answer.active = 0x1'0000'0002;
  answer.largest = 12;
  file.take(answer);
  CHECK(read_of(file, RegisterId::query_state) == host::kQueryDone);
  CHECK(read_of(file, RegisterId::query_active) == 0x1'0000'0002);
  CHECK(read_of(file, RegisterId::query_largest) == 12);
  CHECK(read_of(file, RegisterId::int_status) == host::kIntQueryDone);

  // What was answered before is gone while the next query is under way.
  REQUIRE(write_of(file, RegisterId::query_command, host::kQueryStart) == RegisterResult::ok);
  CHECK(read_of(file, RegisterId::query_active) == 0);
  answer = {};
  answer.well_formed = false;
  file.take(answer);
  CHECK(read_of(file, RegisterId::query_state) == host::kQueryError);
  CHECK(read_of(file, RegisterId::query_status) == static_cast<std::uint64_t>(arch::HsaStatus::invalid_argument));
}

TEST_CASE("an occupancy query that makes no sense never leaves", "[host][CWD-24]") {
  Effects effects;
  RegisterFile file(identity(), kFifo, effects);
  CHECK(write_of(file, RegisterId::query_command, 2) == RegisterResult::refused);
  const auto failed_with = [&](arch::HsaStatus status) {
    CHECK(write_of(file, RegisterId::query_command, host::kQueryStart) == RegisterResult::ok);
    CHECK(read_of(file, RegisterId::query_state) == host::kQueryError);
    CHECK(read_of(file, RegisterId::query_status) == static_cast<std::uint64_t>(status));
    CHECK(read_of(file, RegisterId::int_status) == host::kIntQueryDone);
  };
  failed_with(arch::HsaStatus::invalid_argument);  // no threads
  REQUIRE(write_of(file, RegisterId::query_threads, 1025) == RegisterResult::ok);
  failed_with(arch::HsaStatus::out_of_resources);
  REQUIRE(write_of(file, RegisterId::query_threads, 32) == RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::query_gpc, 4) == RegisterResult::ok);  // y and z are 0
  failed_with(arch::HsaStatus::invalid_argument);
  REQUIRE(write_of(file, RegisterId::query_gpc, 0) == RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::query_mode, 2) == RegisterResult::ok);
  CHECK(write_of(file, RegisterId::query_command, host::kQueryStart) == RegisterResult::refused);
  REQUIRE(write_of(file, RegisterId::query_mode, 0) == RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::query_subcontext, 64) == RegisterResult::ok);
  CHECK(write_of(file, RegisterId::query_command, host::kQueryStart) == RegisterResult::refused);
  CHECK(effects.queries.empty());
}

TEST_CASE("windows of the host's memory leave as packets, and what makes no sense is refused", "[host][HST-06]") {
  using What = protocol::HostWindowPacket::What;
  Effects effects;
  RegisterFile file(identity(), kFifo, effects);
  const auto command = [&](std::uint64_t value) { return write_of(file, RegisterId::window_command, value); };
  CHECK((read_of(file, RegisterId::window_isolated) == 0 && read_of(file, RegisterId::window_count) == 0));
  REQUIRE(write_of(file, RegisterId::window_subcontext, 9) == RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::window_address, 0x8000'0000'0001'0000) == RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::window_bytes, 0x3000) == RegisterResult::ok);
  CHECK(command(host::kWindowOpen) == RegisterResult::refused);  // no rights
  REQUIRE(write_of(file, RegisterId::window_rights, 2) == RegisterResult::ok);
  for (const std::uint64_t nothing : {0, 5}) CHECK(command(nothing) == RegisterResult::refused);
  CHECK(effects.windows.empty());
  CHECK(command(host::kWindowOpen) == RegisterResult::ok);
  REQUIRE(effects.windows.size() == 1);
  const protocol::HostWindowPacket& window = effects.windows[0];
  CHECK((window.what == What::open && window.subcontext == 9 && window.bytes == 0x3000));
  CHECK((window.address == 0x8000'0000'0001'0000 && !window.reads && window.writes));
  REQUIRE(write_of(file, RegisterId::window_rights, 1) == RegisterResult::ok);
  CHECK(command(host::kWindowOpen) == RegisterResult::ok);
  CHECK((effects.windows[1].reads && !effects.windows[1].writes));
  CHECK(command(host::kWindowOpen) == RegisterResult::ok);
  CHECK(command(host::kWindowOpen) == RegisterResult::refused);  // there is room for three
  CHECK(read_of(file, RegisterId::window_count) == 3);
  CHECK(command(host::kWindowIsolate) == RegisterResult::ok);
  CHECK((effects.windows.back().what == What::isolate && read_of(file, RegisterId::window_isolated) == 1));
  CHECK(command(host::kWindowShare) == RegisterResult::ok);
  CHECK((effects.windows.back().what == What::share && read_of(file, RegisterId::window_isolated) == 0));
  REQUIRE(write_of(file, RegisterId::window_subcontext, 8) == RegisterResult::ok);
  CHECK(command(host::kWindowClose) == RegisterResult::ok);
  CHECK(read_of(file, RegisterId::window_count) == 3);
  REQUIRE(write_of(file, RegisterId::window_subcontext, 9) == RegisterResult::ok);
  CHECK(command(host::kWindowClose) == RegisterResult::ok);
  CHECK((effects.windows.back().what == What::close && effects.windows.back().subcontext == 9));
  CHECK(read_of(file, RegisterId::window_count) == 0);
  CHECK(effects.windows.size() == 7);

  file.take(host::WindowFault{0x8000'0000'0000'1234, 5, true});
  file.take(host::WindowFault{0x8000'0000'0000'5678, 6, false});
  CHECK(read_of(file, RegisterId::window_fault_count) == 2);
  CHECK(read_of(file, RegisterId::window_fault_address) == 0x8000'0000'0000'5678);
  CHECK(read_of(file, RegisterId::window_fault_subcontext) == 6);
  CHECK(read_of(file, RegisterId::window_fault_access) == 0);
  file.take(host::WindowFault{0x8000'0000'0000'1234, 5, true});
  CHECK(read_of(file, RegisterId::window_fault_access) == 1);
  CHECK_FALSE(file.level());  // whoever asked has an interrupt of its own
  CHECK(command(host::kWindowOpen) == RegisterResult::ok);
  CHECK(command(host::kWindowIsolate) == RegisterResult::ok);
  file.reset();
  CHECK((read_of(file, RegisterId::window_isolated) == 0 && read_of(file, RegisterId::window_count) == 0));
  CHECK(read_of(file, RegisterId::window_fault_count) == 0);
  // There is room for three again.
  REQUIRE(write_of(file, RegisterId::window_address, 0x8000'0000'0001'0000) == RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::window_bytes, 0x1000) == RegisterResult::ok);
  REQUIRE(write_of(file, RegisterId::window_rights, 3) == RegisterResult::ok);
  for (int i = 0; i < 3; ++i) CHECK(command(host::kWindowOpen) == RegisterResult::ok);
}

TEST_CASE("a copy of a subcontext that does not exist is refused", "[host][HST-05]") {
  Effects effects;
  RegisterFile file(identity(), kFifo, effects);
  for (const std::uint64_t subcontext : {64, 255, 63}) {
    REQUIRE(file.write(host::offset_of(RegisterId::copy_subcontext, 1), 4, subcontext) == RegisterResult::ok);
    CHECK(file.write(host::offset_of(RegisterId::copy_command, 1), 4, host::kCopyStart) ==
          (subcontext < 64 ? RegisterResult::ok : RegisterResult::refused));
  }
  REQUIRE(effects.copies.size() == 1);
  CHECK(effects.copies[0].subcontext == 63);
}

}  // namespace heddle::test::host_register_file_test
