// Translation of what the hub's clients send for a subcontext (MEM-04, HST-05): it asks the memory management unit for
// pages, one for each client at a time, and keeps a few.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "arch/kernel_record.h"
#include "arch/page_table.h"
#include "common/packet_socket.h"
#include "common/stats.h"
#include "protocol/memory_request.h"
#include "protocol/tlb_mmu.h"

namespace heddle::host {

class HubTranslator {
 public:
  struct Counters {
    Counter& asks;
    Counter& faults;
  };
  enum class Lookup : std::uint8_t { known, wait, denied };
  struct Looked {
    Lookup lookup = Lookup::wait;
    std::uint64_t physical = 0;
    bool there = false;  // denied: there is a page, but not to be written
  };

  // `distance`: cycles to the memory management unit. `on_answer` is called when an answer has come.
  HubTranslator(Domain& domain, std::uint32_t clients, std::uint32_t distance, const Counters& counters,
                std::function<void()> on_answer);

  PacketOut<protocol::TranslatePacket> translate_out;
  PacketIn<protocol::TranslatedPacket> translated_in;
  PacketIn<protocol::InvalidateTlbPacket> invalidate_in;

  // Of the client's first request. Asked again after `wait`, when on_answer() has been called.
  Looked look(std::uint32_t client, tlm::tlm_generic_payload& payload);
  bool waits(std::uint32_t client) const { return clients_[client].asked; }
  void reset();

 private:
  static constexpr std::size_t kKept = 16;  // pages
  struct Page {
    std::uint8_t subcontext = 0;
    arch::Translation page;
  };
  struct Client {
    bool asked = false;
    std::uint8_t subcontext = 0;
    std::uint64_t page = 0;
    std::optional<arch::Translation> answer;  // for its first request
  };

  void on_translated(const protocol::TranslatedPacket& packet, std::uint32_t index);
  void on_invalidate(const protocol::InvalidateTlbPacket& packet, std::uint32_t index);
  Looked check(const arch::Translation& page, std::uint64_t address, bool write);
  const arch::Translation* find(Client& client, std::uint8_t subcontext, std::uint64_t address);

  Counters counters_;
  std::function<void()> on_answer_;
  std::vector<Client> clients_;
  std::bitset<arch::kSubcontexts> bypass_;  // known to have no page tables
  std::vector<Page> pages_;
  std::size_t next_ = 0;  // to be replaced
};

}  // namespace heddle::host
