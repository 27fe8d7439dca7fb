// TLBs of GPCs and the memory management unit between initiators that send what they are told and plain memory, with a
// protocol checker at every memory socket.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "common/packet_socket.h"
#include "memory/gpc_mmu.h"
#include "memory/memory_bench.h"
#include "memory/mmu.h"
#include "support/protocol_checker.h"

namespace heddle::test {

// What a subcontext should see: the mappings in the order in which they were made.
struct Mappings {
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t physical = 0;
    std::uint64_t bytes = 0;
    bool writable = false;
  };
  std::vector<Range> ranges;

  const Range* find(std::uint64_t address) const {
    for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
      if (address >= range->first && address - range->first < range->bytes) return &*range;
    }
    return nullptr;
  }
};

// An address space: tables in memory, and what they should say.
struct Space {
  Space(std::uint64_t base, std::uint64_t room, std::vector<std::uint8_t>& memory)
      : tables(base, room, [&memory](std::uint64_t address, std::uint64_t value) {
          for (std::uint32_t i = 0; i < 8; ++i) memory.at(address + i) = static_cast<std::uint8_t>(value >> 8 * i);
        }) {}
  void map(std::uint64_t first, std::uint64_t physical, std::uint64_t bytes, bool writable) {
    tables.map(first, physical, bytes, writable);
    mappings.ranges.push_back({first, physical, bytes, writable});
  }
  arch::PageTables tables;
  Mappings mappings;
};

// The host's end.
struct ShareSource : sc_core::sc_module {
  ShareSource(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name), out("out", domain, 0, kUnlimitedCredits) {}
  PacketOut<protocol::SubcontextPacket> out;
};

struct MmuBench {
  static constexpr std::uint64_t kBytes = std::uint64_t{8} << 20;
  static constexpr std::uint64_t kTables = std::uint64_t{6} << 20;  // the rest of memory is for tables
  static constexpr std::uint64_t kTableRoom = std::uint64_t{128} << 10;

  // `others`: clients of the unit that are bound elsewhere.
  MmuBench(const memory::MmuParams& parameters, TimingMode mode, std::uint32_t gpcs, std::uint32_t ports,
           std::uint32_t others = 0)
      : params(parameters),
        observation("gpu0"),
        domain("domain", 1.0, mode, 0, observation),
        bytes(kBytes),
        mmu("mmu", domain, "mmu", params, gpcs + others),
        table_memory("table_memory", domain, bytes),
        share("share", domain),
        table_checker("table_checker") {
    mmu.memory_out.bind(table_checker.in);
    table_checker.out.bind(table_memory.in);
    share.out.bind(mmu.share_in);
    for (std::uint32_t gpc = 0; gpc < gpcs; ++gpc) add_gpc(gpc, ports);
  }

  void add_gpc(std::uint32_t number, std::uint32_t ports) {
    const std::string name = "gpc" + std::to_string(number);
    tlbs.push_back(
        std::make_unique<memory::GpcMmu>((name + "_mmu").c_str(), domain, name + ".mmu", params, ports, mmu));
    memory::GpcMmu& tlb = *tlbs.back();
    tlb.translate_out.bind(mmu.translate_in[number]);
    mmu.translated_out.bind(tlb.translated_in);
    mmu.invalidate_out.bind(tlb.invalidate_in);
    for (std::uint32_t i = 0; i < ports; ++i) {
      const std::string port = name + "_" + std::to_string(i);
      initiators.push_back(std::make_unique<TestInitiator>((port + "_sm").c_str(), domain));
      memories.push_back(std::make_unique<TestTarget>((port + "_memory").c_str(), domain, bytes));
      above.push_back(std::make_unique<ProtocolChecker>((port + "_above").c_str()));
      below.push_back(std::make_unique<ProtocolChecker>((port + "_below").c_str()));
      initiators.back()->out.bind(above.back()->in);
      above.back()->out.bind(tlb.port_in(i));
      tlb.port_out(i).bind(below.back()->in);
      below.back()->out.bind(memories.back()->in);
    }
  }

  Space& add_space() {
    const std::uint64_t base = kTables + spaces.size() * kTableRoom;
    spaces.push_back(std::make_unique<Space>(base, kTableRoom, bytes));
    return *spaces.back();
  }
  void set_root(std::uint8_t subcontext, std::uint64_t root) {
    protocol::SubcontextPacket packet;
    packet.what = protocol::SubcontextPacket::What::page_table;
    packet.subcontext = subcontext;
    packet.value = root;
    share.out.send(packet);
  }
  protocol::MemoryRequest& request(tlm::tlm_command command, std::uint64_t address, std::uint8_t subcontext,
                                   std::uint32_t length = 32) {
    protocol::MemoryRequest& made = pool.acquire();
    made.aim(command, address, length);
    made.extension.subcontext = subcontext;
    return made;
  }
  std::vector<std::string> violations() const {
    std::vector<std::string> all = table_checker.violations;
    for (const auto* checkers : {&above, &below}) {
      for (const auto& checker : *checkers) {
        all.insert(all.end(), checker->violations.begin(), checker->violations.end());
      }
    }
    return all;
  }
  bool finished() const {
    for (const auto* checkers : {&above, &below}) {
      for (const auto& checker : *checkers) {
        if (!checker->finished()) return false;
      }
    }
    for (const auto& tlb : tlbs) {
      if (!tlb->idle()) return false;
    }
    return mmu.idle() && table_checker.finished();
  }
  void reset() {
    domain.reset();
    table_checker.forget();
    for (const auto& checker : above) checker->forget();
    for (const auto& checker : below) checker->forget();
  }
  std::uint64_t stat(const std::string& name) {
    const auto all = observation.stats.to_json();
    return all.contains("gpu0." + name) ? all.at("gpu0." + name).at("value").get<std::uint64_t>() : 0;
  }

  memory::MmuParams params;
  GpuObservation observation;
  Domain domain;
  protocol::RequestPool pool;
  std::vector<std::uint8_t> bytes;
  memory::Mmu mmu;
  TestTarget table_memory;
  ShareSource share;
  ProtocolChecker table_checker;
  std::vector<std::unique_ptr<memory::GpcMmu>> tlbs;
  std::vector<std::unique_ptr<TestInitiator>> initiators;  // of all GPCs
  std::vector<std::unique_ptr<TestTarget>> memories;
  std::vector<std::unique_ptr<ProtocolChecker>> above;
  std::vector<std::unique_ptr<ProtocolChecker>> below;
  std::vector<std::unique_ptr<Space>> spaces;
};

}  // namespace heddle::test
