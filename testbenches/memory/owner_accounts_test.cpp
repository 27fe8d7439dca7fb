// Whose requests and bytes pass the crossbar, the L2 and memory: what each subcontext is told against what it did, and
// the sums against the totals that the blocks count for themselves.
#include "memory/owner_accounts.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "memory/crossbar_bench.h"
#include "memory/hbm.h"
#include "memory/l2_bench.h"
#include "memory/l2_slice.h"
#include "memory/memory_bench.h"

namespace heddle::test::memory_owner_accounts_test {
namespace {

using protocol::MemoryRequest;

constexpr std::uint32_t kSlices = 4;
constexpr std::uint32_t kHeader = 16;

// Two GPCs of two SMs, four slices, HBM.
struct Machine {
  explicit Machine(std::uint64_t l2_bytes, TimingMode mode = TimingMode::at)
      : domain("domain", 1.0, mode, 1000, observation),
        topology(arch::Shape::from_sms_per_gpc({2, 2})),
        map(1 << 20, kSlices, 2),
        owners(observation),
        crossbar("crossbar", domain, "xbar", crossbar_params(), topology, map, &owners),
        hbm("hbm", domain, "hbm", memory::HbmParams(), map.bytes(), kSlices) {
    L2Params params = tiny_l2();
    params.bytes = l2_bytes;
    params.slices = kSlices;
    params.partitions = 2;
    for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) {
      sms.push_back(std::make_unique<TestInitiator>(fmt::format("sm{}", sm).c_str(), domain));
      sms.back()->out.bind(crossbar.sm_in(sm));
      units.push_back(std::make_unique<TestInitiator>(fmt::format("unit{}", sm).c_str(), domain));
      units.back()->out.bind(crossbar.bulk_in(sm));
      receivers.push_back(std::make_unique<TestReceiver>(fmt::format("receiver{}", sm).c_str(), domain));
      crossbar.multicast_out(sm).bind(receivers.back()->in);
    }
    for (std::uint32_t slice = 0; slice < kSlices; ++slice) {
      slices.push_back(std::make_unique<L2Slice>(fmt::format("slice{}", slice).c_str(), domain,
                                                 fmt::format("l2.slice{}", slice), params, map, slice,
                                                 memory::L2IngressPorts::crossbar, memory::SliceSurroundings{&owners}));
      crossbar.slice_out(slice).bind(slices.back()->request_in);
      slices.back()->memory_out.bind(hbm.in(slice));
    }
  }
  static memory::CrossbarParams crossbar_params() {
    memory::CrossbarParams params;
    params.header_bytes = kHeader;
    return params;
  }

  MemoryRequest& request(tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes,
                         std::uint8_t subcontext) {
    MemoryRequest& request = pool.acquire();
    request.aim(command, address, bytes);
    request.extension.subcontext = subcontext;
    return request;
  }
  MemoryRequest& action(protocol::MemoryAction what, std::uint64_t address, std::uint8_t subcontext) {
    MemoryRequest& made = request(tlm::TLM_IGNORE_COMMAND, address, 4, subcontext);
    made.extension.action = what;
    return made;
  }
  MemoryRequest& atomic_add(std::uint64_t address, std::uint8_t subcontext) {
    MemoryRequest& made = action(protocol::MemoryAction::atomic, address, subcontext);
    made.extension.type = arch::ValueType::u32;
    made.extension.lanes = 1;
    made.extension.lane[0] = {1, 0, 0, static_cast<std::uint8_t>(address % arch::kLineBytes), 0};
    return made;
  }
  void send(std::uint32_t sm, MemoryRequest& made) { sms[sm]->send(made, domain.now()); }
  // One, and runs until it is over.
  void one(std::uint32_t sm, MemoryRequest& made) {
    send(sm, made);
    run_until_idle();
  }
  // All that is dirty goes to memory.
  void flush() {
    std::vector<bool> done(kSlices, false);
    for (std::uint64_t line = 0; line < std::uint64_t{8} * kSlices; ++line) {
      const std::uint32_t slice = map.slice_of(line * arch::kLineBytes);
      if (done[slice]) continue;
      done[slice] = true;
      one(0, action(protocol::MemoryAction::write_back, line * arch::kLineBytes, 0));
    }
  }
  std::uint64_t stat(const std::string& path) const {
    return static_cast<std::uint64_t>(observation.stats.value("gpu0." + path));
  }
  // 0 for one that nobody has seen.
  std::uint64_t of(std::uint32_t subcontext, const std::string& name) const {
    const std::string path = fmt::format("memory.subcontext{}.{}", subcontext, name);
    for (const Stats::Description& known : observation.stats.descriptions()) {
      if (known.path == "gpu0." + path) return stat(path);
    }
    return 0;
  }
  std::uint64_t sum(const std::string& name) const {
    std::uint64_t total = 0;
    for (std::uint32_t subcontext = 0; subcontext < 256; ++subcontext) total += of(subcontext, name);
    return total;
  }
  // Of all slices.
  std::uint64_t slices_count(const std::string& name) const {
    std::uint64_t total = 0;
    for (std::uint32_t slice = 0; slice < kSlices; ++slice) total += stat(fmt::format("l2.slice{}.{}", slice, name));
    return total;
  }

  SimFixture fixture;
  GpuObservation observation{"gpu0"};
  Domain domain;
  arch::Topology topology;
  arch::AddressMap map;
  protocol::RequestPool pool;
  memory::OwnerAccounts owners;
  memory::Crossbar crossbar;
  memory::Hbm hbm;
  std::vector<std::unique_ptr<L2Slice>> slices;
  std::vector<std::unique_ptr<TestInitiator>> sms;
  std::vector<std::unique_ptr<TestInitiator>> units;
  std::vector<std::unique_ptr<TestReceiver>> receivers;
};

constexpr std::uint64_t kRoomy = std::uint64_t{kSlices} * 64 * 128;  // lines of a slice: 64

// The blocks' own counters, at the end of a run in which everything has arrived.
void check_sums(const Machine& machine) {
  CHECK(machine.sum("l2_requests") == machine.slices_count("requests"));
  CHECK(machine.sum("l2_hits") == machine.slices_count("hits"));
  CHECK(machine.sum("xbar_request_bytes") ==
        machine.stat("xbar.gpc0.request_bytes") + machine.stat("xbar.gpc1.request_bytes"));
  CHECK(machine.sum("xbar_response_bytes") ==
        machine.stat("xbar.gpc0.response_bytes") + machine.stat("xbar.gpc1.response_bytes"));
  CHECK(machine.sum("hbm_read_bytes") == machine.stat("hbm.read_bytes"));
  CHECK(machine.sum("hbm_written_bytes") == machine.stat("hbm.written_bytes"));
}

}  // namespace

TEST_CASE("sectors of a line have an owner each", "[memory][PRT-09]") {
  memory::SectorOwners owners;
  owners.set(0b0110, 63);
  owners.set(0b1000, 5);
  CHECK(std::vector<int>{owners[0], owners[1], owners[2], owners[3]} == std::vector<int>{0, 63, 63, 5});
  CHECK(owners.alike(0b0110));
  CHECK(!owners.alike(0b1110));
  CHECK(!owners.alike(0b0011));
  CHECK(owners.alike(0b1000));
  owners.set(0b0100, 255);
  CHECK(std::vector<int>{owners[0], owners[1], owners[2], owners[3]} == std::vector<int>{0, 63, 255, 5});
}

TEST_CASE("a request's bytes are its subcontext's, in the crossbar, the L2 and memory", "[memory][PRT-09]") {
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  Machine machine(kRoomy, mode);
  start();
  const auto one = [&](std::uint32_t sm, MemoryRequest& made) {
    if (mode == TimingMode::at) return machine.one(sm, made);
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    machine.sms[sm]->out.blocking(made, delay);
    made.release();
  };
  one(0, machine.request(tlm::TLM_READ_COMMAND, 0, 128, 1));   // misses
  one(1, machine.request(tlm::TLM_READ_COMMAND, 32, 64, 2));   // hits
  one(2, machine.request(tlm::TLM_WRITE_COMMAND, 64, 40, 3));  // two sectors of a line that is here: hits
  one(3, machine.atomic_add(128, 2));                          // misses, for one sector
  CHECK(machine.of(1, "l2_requests") == 1);
  CHECK(machine.of(2, "l2_requests") == 2);
  CHECK(machine.of(3, "l2_requests") == 1);
  CHECK(machine.of(1, "l2_hits") == 0);
  CHECK(machine.of(2, "l2_hits") == 1);
  CHECK(machine.of(3, "l2_hits") == 1);
  CHECK(machine.of(1, "l2_bytes") == 128);
  CHECK(machine.of(2, "l2_bytes") == 64 + 32);
  CHECK(machine.of(3, "l2_bytes") == 64);
  CHECK(machine.of(1, "xbar_request_bytes") == kHeader);
  CHECK(machine.of(2, "xbar_request_bytes") == kHeader + (kHeader + 8));  // the atomic's operand
  CHECK(machine.of(3, "xbar_request_bytes") == kHeader + 64);
  CHECK(machine.of(1, "xbar_response_bytes") == 128);
  CHECK(machine.of(2, "xbar_response_bytes") == 64 + kHeader);  // its old value is smaller than a header
  CHECK(machine.of(3, "xbar_response_bytes") == kHeader);
  CHECK(machine.of(1, "hbm_read_bytes") == 128);
  CHECK(machine.of(2, "hbm_read_bytes") == 32);
  CHECK(machine.of(3, "hbm_read_bytes") == 0);
  CHECK(machine.sum("hbm_written_bytes") == 0);
}

TEST_CASE("a sector that goes back to memory is its last writer's, whoever drives it out", "[memory][PRT-09]") {
  Machine machine(kRoomy);
  start();
  const auto write = [&](std::uint64_t address, std::uint32_t bytes, std::uint8_t subcontext) {
    machine.one(subcontext % 4, machine.request(tlm::TLM_WRITE_COMMAND, address, bytes, subcontext));
  };
  write(0, 128, 1);  // all four sectors
  write(32, 32, 2);  // the second
  write(64, 4, 3);   // a part of the third, and so the third
  machine.one(0, machine.atomic_add(96, 2));
  write(256, 8, 3);  // a part of a sector that is nowhere: completed by a read on its way out
  machine.one(0, machine.request(tlm::TLM_READ_COMMAND, 0, 128, 4));  // changes nothing
  machine.flush();
  CHECK(machine.of(1, "hbm_written_bytes") == 32);
  CHECK(machine.of(2, "hbm_written_bytes") == 64);
  CHECK(machine.of(3, "hbm_written_bytes") == 32 + 32);
  CHECK(machine.of(3, "hbm_read_bytes") == 32);
  CHECK(machine.of(0, "hbm_written_bytes") == 0);  // who has asked for the flush
  CHECK(machine.of(4, "hbm_written_bytes") == 0);
  check_sums(machine);
}

TEST_CASE("a miss on the same line waits, and what it asks for in addition is its own", "[memory][PRT-09]") {
  Machine machine(kRoomy);
  start();
  machine.send(0, machine.request(tlm::TLM_READ_COMMAND, 0, 32, 1));
  machine.one(1, machine.request(tlm::TLM_READ_COMMAND, 0, 96, 2));
  CHECK(machine.slices_count("merges") == 1);
  CHECK(machine.of(1, "hbm_read_bytes") + machine.of(2, "hbm_read_bytes") == 96);
  // Whoever came first: the other one has paid for what was missing then.
  const bool first = machine.of(1, "hbm_read_bytes") == 32 && machine.of(2, "hbm_read_bytes") == 64;
  const bool second = machine.of(1, "hbm_read_bytes") == 0 && machine.of(2, "hbm_read_bytes") == 96;
  CHECK((first || second));
  CHECK(machine.sum("l2_hits") == 0);
}

TEST_CASE("what each subcontext moved, one request after the other, is what it asked for", "[memory][PRT-09][random]") {
  for (const std::uint64_t round : seeds(4)) {
    CAPTURE(round);
    Random random(round);
    Machine machine(kRoomy);
    start();
    // 128 lines, which all fit. Whole sectors only, so that who pays for what is known without knowing the L2.
    constexpr std::uint32_t kSectors = 128 * 4;
    std::vector<bool> here(kSectors, false);
    std::vector<int> writer(kSectors, -1);
    std::map<std::uint32_t, std::array<std::uint64_t, 6>> expected;
    for (std::uint32_t i = 0; i < 600; ++i) {
      const auto who = static_cast<std::uint8_t>(random.below(5) * 13);
      const std::uint32_t line = random.below(128);
      const std::uint32_t first = random.below(4);
      const std::uint32_t count = random.between(1, 4 - first);
      const bool write = random.chance(40);
      auto& [requests, bytes, hits, asked, answered, read] = expected[who];
      bool hit = true;
      for (std::uint32_t sector = line * 4 + first; sector < line * 4 + first + count; ++sector) {
        if (write) writer[sector] = who;
        if (!write && !here[sector]) {
          hit = false;
          read += 32;
        }
        here[sector] = true;
      }
      ++requests;
      bytes += std::uint64_t{count} * 32;
      hits += hit ? 1 : 0;
      asked += kHeader + (write ? count * 32 : 0);
      answered += write ? kHeader : count * 32;
      machine.one(random.below(4), machine.request(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND,
                                                   line * 128 + first * 32, count * 32, who));
    }
    for (const auto& [who, sums] : expected) {
      CAPTURE(who);
      CHECK(machine.of(who, "l2_requests") == sums[0]);
      CHECK(machine.of(who, "l2_bytes") == sums[1]);
      CHECK(machine.of(who, "l2_hits") == sums[2]);
      CHECK(machine.of(who, "xbar_request_bytes") == sums[3]);
      CHECK(machine.of(who, "xbar_response_bytes") == sums[4]);
      CHECK(machine.of(who, "hbm_read_bytes") == sums[5]);
    }
    machine.flush();
    for (std::uint32_t who = 0; who < 64; ++who) {
      const auto sectors = std::count(writer.begin(), writer.end(), static_cast<int>(who));
      CHECK(machine.of(who, "hbm_written_bytes") == 32 * static_cast<std::uint64_t>(sectors));
    }
    check_sums(machine);
  }
}

TEST_CASE("no byte of a storm is without an owner, and none has two", "[memory][PRT-09][random]") {
  for (const std::uint64_t round : seeds(3)) {
    CAPTURE(round);
    Random random(round);
    Machine machine(std::uint64_t{kSlices} * 8 * 128);  // 8 lines a slice: most leave soon
    start();
    for (std::uint32_t i = 0; i < 6000; ++i) {
      const auto who = static_cast<std::uint8_t>(random.chance(5) ? random.below(64) : random.below(4));
      const std::uint64_t line = random.below(96) * 128;
      const std::uint32_t first = random.below(128);
      const std::uint32_t bytes = random.between(1, 128 - first);
      MemoryRequest* made = nullptr;
      switch (random.below(8)) {
        case 0:
          made = &machine.atomic_add(line + first / 4 * 4, who);
          break;
        case 1:
          made = &machine.action(protocol::MemoryAction::prefetch, line + first / 4 * 4, who);
          break;
        case 2:
          made = &machine.request(tlm::TLM_READ_COMMAND, line + first, bytes, who);
          made->extension.promoted = 0xF;
          break;
        case 3:
        case 4:
          made = &machine.request(tlm::TLM_READ_COMMAND, line + first, bytes, who);
          break;
        case 5:
          made = &machine.action(protocol::MemoryAction::write_back, line, who);
          break;
        default:
          made = &machine.request(tlm::TLM_WRITE_COMMAND, line + first, bytes, who);
          break;
      }
      machine.send(random.below(4), *made);
    }
    run_until_idle();
    machine.flush();
    check_sums(machine);
    CHECK(machine.sum("hbm_written_bytes") > 10'000);
    CHECK(machine.sum("l2_hits") > 100);
  }
}

}  // namespace heddle::test::memory_owner_accounts_test
