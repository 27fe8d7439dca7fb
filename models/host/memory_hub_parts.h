// Walks of all L2 slices for the memory hub, write_back and invalidate: a request to each, answered when all have
// answered. Requests that come while one is under way share the next of their kind.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "arch/page_table.h"
#include "arch/task_record.h"
#include "common/domain.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "common/range_target.h"
#include "common/stats.h"
#include "protocol/memory_request.h"
#include "protocol/tlb_mmu.h"

namespace heddle::host {

class HubFlush final : private EventHandler {
 public:
  class Listener {
   public:
    // A request to write back is done; its response leaves at `when`.
    virtual void on_flushed(std::uint32_t slot, tlm::tlm_response_status status, Cycle when) = 0;

   protected:
    ~Listener() = default;
  };
  using Slices = std::vector<std::unique_ptr<MemoryOut>>;

  // `name`: for messages; `latency`: cycles to a slice, and back; `copies`: slices keep copies of each other's lines.
  // All references must outlive it.
  HubFlush(const char* name, Domain& domain, const Slices& slices, Cycle latency, bool copies, Listener& listener)
      : name_(name), domain_(domain), slices_(slices), latency_(latency), copies_(copies), listener_(listener) {}

  // For a request of that action, write_back or invalidate, that the hub keeps in that slot.
  void add(std::uint32_t slot, protocol::MemoryAction action);
  // Sends what slices had no room for.
  void send();
  // True if it is an answer to one of these requests.
  bool on_answer(tlm::tlm_generic_payload& payload, std::uint32_t slice, Cycle arrival);

  std::size_t payloads() const { return pool_.in_use(); }
  // The slices are reset as well, and do not look at the requests any more.
  void reset();

 private:
  struct Ask {
    std::uint32_t slot = 0;
    protocol::MemoryAction action = protocol::MemoryAction::write_back;
  };
  // A slice's part of the walk that is under way.
  struct Part {
    protocol::MemoryRequest* request = nullptr;  // null: answered
    bool sent = true;
  };

  void begin();
  void ask();
  void call();
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return name_; }

  const char* name_;
  Domain& domain_;
  const Slices& slices_;
  const Cycle latency_;
  const bool copies_;
  Listener& listener_;
  protocol::RequestPool pool_;
  std::vector<Ask> current_;  // of one action
  std::vector<Ask> next_;
  std::uint32_t rounds_ = 0;  // that are left of the walk
  std::vector<Part> parts_;   // by slice
  std::uint32_t open_ = 0;    // slices that have not answered
  tlm::tlm_response_status status_ = tlm::TLM_OK_RESPONSE;
};

// Translation of what the hub's clients send for a subcontext (MEM-04, HST-05): it asks the memory management unit for
// pages, one for each client at a time, and keeps a few.

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
  // Replaces a range's address by the physical one. False: its page is not here, or it is not allowed.
  bool find(std::uint32_t client, RangeMove& range);
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
