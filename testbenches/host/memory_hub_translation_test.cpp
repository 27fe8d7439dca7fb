// The memory hub with the memory management unit as a client and a partner: what clients of a subcontext reach, in
// their order, and that it changes nothing for others (MEM-04, HST-05, PRT-08).
#include <map>
#include <optional>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "arch/page_table.h"
#include "common/packet_socket.h"
#include "host/host_memory.h"
#include "host/hub_bench.h"
#include "memory/mmu.h"
#include "support/random.h"

namespace heddle::test::host_memory_hub_translation_test {
namespace {

using arch::kSmallPage;

struct Source : sc_core::sc_module {
  Source(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name), out("out", domain, 0, kUnlimitedCredits) {}
  PacketOut<protocol::SubcontextPacket> out;
};

// Slices, a hub, and the unit behind its last client socket.
struct Bench {
  static constexpr std::uint64_t kBytes = 2 * 1024 * 1024;
  static constexpr std::uint64_t kTables = kBytes / 2;
  static constexpr std::uint32_t kSlices = 4;

  Bench(TimingMode mode, std::uint32_t count, std::uint32_t distance)
      : observation("gpu0"),
        domain("domain", 1.0, mode, 0, observation),
        map(kBytes, kSlices, 1),
        bytes(kBytes),
        hub("hub", domain, "hub", host::HubParams(), map, count + 1, host::HubTranslation{true, distance}),
        mmu("mmu", domain, "mmu", params_of(distance), 1),
        source("source", domain) {
    for (std::uint32_t i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<TestInitiator>(("client" + std::to_string(i)).c_str(), domain));
      clients.back()->out.bind(hub.client_in(i));
    }
    mmu.memory_out.bind(hub.client_in(count));
    hub.translator().translate_out.bind(mmu.translate_in[0]);
    mmu.translated_out.bind(hub.translator().translated_in);
    mmu.invalidate_out.bind(hub.translator().invalidate_in);
    source.out.bind(mmu.share_in);
    const memory::L2Params l2 = small_slices(kSlices);
    for (std::uint32_t i = 0; i < kSlices; ++i) {
      const std::string number = std::to_string(i);
      slices.push_back(std::make_unique<memory::L2Slice>(("slice" + number).c_str(), domain, "l2.slice" + number, l2,
                                                         map, i, memory::L2IngressPorts::crossbar_and_hub));
      sms.push_back(std::make_unique<TestInitiator>(("sm" + number).c_str(), domain));
      memories.push_back(std::make_unique<TestTarget>(("memory" + number).c_str(), domain, bytes));
      sms.back()->out.bind(slices.back()->request_in);
      hub.slice_out(i).bind(slices.back()->hub_in());
      slices.back()->memory_out.bind(memories.back()->in);
    }
    host_end.emplace("host", 4096, sc_core::SC_ZERO_TIME, 1);
    hub.dma().bind(host_end->port(0));
  }
  static memory::MmuParams params_of(std::uint32_t distance) {
    memory::MmuParams params;
    params.distance = distance;
    params.l2_tlb.entries = 8;
    params.l2_tlb.ways = 2;
    params.walkers = 2;
    return params;
  }
  arch::PageTables& add_tables() {
    tables.push_back(std::make_unique<arch::PageTables>(
        kTables + tables.size() * 64 * 1024, 64 * 1024, [this](std::uint64_t address, std::uint64_t value) {
          for (std::uint32_t i = 0; i < 8; ++i) bytes.at(address + i) = static_cast<std::uint8_t>(value >> 8 * i);
        }));
    return *tables.back();
  }
  void set_root(std::uint8_t subcontext, std::uint64_t root) {
    protocol::SubcontextPacket packet;
    packet.what = protocol::SubcontextPacket::What::page_table;
    packet.subcontext = subcontext;
    packet.value = root;
    source.out.send(packet);
  }
  protocol::MemoryRequest& make(tlm::tlm_command command, std::uint64_t address, std::uint8_t subcontext) {
    protocol::MemoryRequest& request = pool.acquire();
    request.aim(command, address, 8);
    request.extension.subcontext = subcontext;
    return request;
  }

  GpuObservation observation;
  Domain domain;
  protocol::RequestPool pool;
  arch::AddressMap map;
  std::vector<std::uint8_t> bytes;
  host::MemoryHub hub;
  memory::Mmu mmu;
  Source source;
  std::vector<std::unique_ptr<TestInitiator>> clients;
  std::vector<std::unique_ptr<TestInitiator>> sms;
  std::vector<std::unique_ptr<memory::L2Slice>> slices;
  std::vector<std::unique_ptr<TestTarget>> memories;
  std::vector<std::unique_ptr<arch::PageTables>> tables;
  std::optional<host::HostMemory> host_end;
};

}  // namespace

TEST_CASE("what a client of a subcontext may reach through the hub", "[host][HST-05][PRT-08][MEM-04]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    SimFixture fixture;
    Bench bench(mode, 1, 30);
    arch::PageTables& tables = bench.add_tables();
    tables.map(0x70'0000, 3 * kSmallPage, kSmallPage, true);
    tables.map(0x71'0000, 4 * kSmallPage, kSmallPage, false);
    start();
    bench.set_root(6, tables.root());
    struct Result {
      tlm::tlm_response_status status = tlm::TLM_INCOMPLETE_RESPONSE;
      bool unmapped = false;
      std::uint64_t value = 0;
    };
    const auto run = [&](tlm::tlm_command command, std::uint64_t address, std::uint8_t subcontext, std::uint64_t value,
                         bool physical = false) {
      Result result;
      bench.clients[0]->on_response = [&](protocol::MemoryRequest& answer, Cycle) {
        CHECK(answer.get_address() == address);
        result.status = answer.get_response_status();
        result.unmapped = answer.extension.unmapped;
        std::memcpy(&result.value, answer.data.data(), 8);
      };
      protocol::MemoryRequest& request = bench.make(command, address, subcontext);
      std::memcpy(request.data.data(), &value, 8);
      request.extension.physical = physical;
      bench.clients[0]->send(request, bench.domain.now());
      run_until_idle();
      return result;
    };
    CHECK(run(tlm::TLM_WRITE_COMMAND, 0x70'0100, 6, 42).status == tlm::TLM_OK_RESPONSE);
    CHECK(run(tlm::TLM_READ_COMMAND, 3 * kSmallPage + 0x100, 0, 0).value == 42);
    CHECK(run(tlm::TLM_READ_COMMAND, 3 * kSmallPage + 0x100, 6, 0, true).value == 42);
    CHECK(run(tlm::TLM_READ_COMMAND, 0x71'0000, 6, 0).status == tlm::TLM_OK_RESPONSE);
    for (int round = 0; round < 2; ++round) {
      const Result read_only = run(tlm::TLM_WRITE_COMMAND, 0x71'0000, 6, 1);
      CHECK(read_only.status == tlm::TLM_COMMAND_ERROR_RESPONSE);
      CHECK(read_only.unmapped);
      const Result outside = run(tlm::TLM_READ_COMMAND, 3 * kSmallPage + 0x100, 6, 0);
      CHECK(outside.status == tlm::TLM_ADDRESS_ERROR_RESPONSE);
      CHECK(outside.unmapped);
    }
    CHECK(run(tlm::TLM_READ_COMMAND, arch::kHostWindow + 64, 6, 0).status == tlm::TLM_OK_RESPONSE);
    // Without page tables, addresses are physical, and an error is not one of translation.
    CHECK_FALSE(run(tlm::TLM_READ_COMMAND, Bench::kBytes, 1, 0).unmapped);
    bench.set_root(6, 0);
    run_until_idle();
    CHECK(run(tlm::TLM_READ_COMMAND, 3 * kSmallPage + 0x100, 6, 0).value == 42);
    CHECK(bench.hub.idle());
    CHECK(bench.mmu.idle());
  }
}

TEST_CASE("requests of a client keep their order behind one that waits for its page", "[host][MEM-04][MEM-06]") {
  for (const std::uint64_t seed : seeds(20)) {
    CAPTURE(seed);
    Random random(seed);
    SimFixture fixture;
    const std::uint32_t clients = random.between(1, 3);
    Bench bench(random.chance(30) ? TimingMode::lt : TimingMode::at, clients, random.between(0, 60));
    std::map<std::uint8_t, std::map<std::uint64_t, std::pair<std::uint64_t, bool>>> pages;
    for (std::uint8_t subcontext = 1; subcontext < 4; ++subcontext) {
      arch::PageTables& tables = bench.add_tables();
      for (std::uint64_t page = 0; page < 6; ++page) {
        if (random.chance(25)) continue;
        const bool writable = random.chance(70);
        // Each subcontext has frames of its own, so that every word has one writer.
        const std::uint64_t frame = (subcontext - 1) * 5 + random.below(5);
        tables.map(page * kSmallPage, frame * kSmallPage, kSmallPage, writable);
        pages[subcontext][page] = {frame * kSmallPage, writable};
      }
    }
    start();
    for (std::uint8_t subcontext = 1; subcontext < 4; ++subcontext) {
      bench.set_root(subcontext, bench.tables[subcontext - 1]->root());
    }
    // Client c uses words of its own: what it reads is what it wrote last, or nothing.
    std::map<std::uint64_t, std::uint64_t> memory;
    struct Expected {
      bool allowed = false;
      bool read = false;
      std::uint64_t value = 0;
    };
    std::vector<Expected> expected;
    std::uint64_t answered = 0;
    for (std::uint32_t client = 0; client < clients; ++client) {
      bench.clients[client]->on_response = [&](protocol::MemoryRequest& answer, Cycle) {
        ++answered;
        const Expected& want = expected.at(static_cast<std::size_t>(answer.extension.lane[0].compare));
        REQUIRE(answer.is_response_ok() == want.allowed);
        REQUIRE(answer.extension.unmapped == !want.allowed);
        if (!want.allowed || !want.read) return;
        std::uint64_t value = 0;
        std::memcpy(&value, answer.data.data(), 8);
        REQUIRE(value == want.value);
      };
    }
    for (int i = 0; i < 300; ++i) {
      const std::uint32_t client = random.below(clients);
      const auto subcontext = static_cast<std::uint8_t>(random.between(1, 3));
      const std::uint64_t page = random.below(6);
      const std::uint64_t address = page * kSmallPage + random.below(3) * 128 + client * 8;
      const bool write = random.chance(50);
      protocol::MemoryRequest& request =
          bench.make(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, address, subcontext);
      Expected want;
      want.read = !write;
      const auto found = pages[subcontext].find(page);
      want.allowed = found != pages[subcontext].end() && (found->second.second || !write);
      const std::uint64_t value = 1 + random.next() % 1'000'000;
      if (want.allowed) {
        std::uint64_t& word = memory[found->second.first + address % kSmallPage];
        if (write) word = value;
        want.value = word;
      }
      std::memcpy(request.data.data(), &value, 8);
      request.extension.lane[0].compare = expected.size();
      expected.push_back(want);
      bench.clients[client]->send(request, bench.domain.now());
      if (random.chance(20)) {
        run_until(sc_core::sc_time_stamp() + sc_core::sc_time(random.between(1, 300), sc_core::SC_NS));
      }
    }
    run_until_idle();
    REQUIRE(answered == 300);
    CHECK(bench.hub.idle());
    CHECK(bench.mmu.idle());
    CHECK(bench.pool.in_use() == 0);
    // And after a reset in the middle of it.
    bench.clients[0]->send(bench.make(tlm::TLM_READ_COMMAND, 5 * kSmallPage, 1), bench.domain.now());
    run_until(sc_core::sc_time_stamp() + sc_core::sc_time(10, sc_core::SC_NS));
    bench.domain.reset();
    bench.clients[0]->on_response = [&](protocol::MemoryRequest& answer, Cycle) {
      ++answered;
      CHECK(answer.is_response_ok());  // the roots have gone
    };
    bench.clients[0]->send(bench.make(tlm::TLM_READ_COMMAND, 64, 1), bench.domain.now());
    run_until_idle();
    CHECK(bench.hub.idle());
    CHECK(answered >= 301);
  }
}

}  // namespace heddle::test::host_memory_hub_translation_test
