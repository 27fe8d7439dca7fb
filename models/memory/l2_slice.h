// One slice of the L2 cache (MEM-01): the point of coherence.
//
// A request takes effect, for everybody, in the cycle in which the slice serves it: tag_latency after its arrival if it
// hits and the data port is free, else when the last sector that it needs comes from memory. Requests to one line take
// effect in the order of their arrival (MEM-06). The response leaves data_latency after that.
//
// Requests come from the crossbar and, if the slice has a second way in, from the memory hub of the front end. They
// meet in the order of their arrival. Each way has its own back-pressure: one that takes no responses does not hold
// back the other.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "common/block.h"
#include "common/memory_socket.h"
#include "common/ring.h"
#include "memory/direct_memory.h"
#include "memory/l2_core.h"
#include "memory/l2_params.h"

namespace heddle::memory {

enum class L2Ways : std::uint8_t { crossbar, crossbar_and_hub };

class L2Slice : public Block {
 public:
  L2Slice(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const L2Params& params,
          const arch::AddressMap& map, std::uint32_t slice, L2Ways ways = L2Ways::crossbar);
  ~L2Slice() override;

  MemoryIn request_in;
  // Of a slice with two ways in.
  MemoryIn& hub_in();
  // Plain reads and writes of whole sectors. Any memory that speaks the base protocol can be bound.
  MemoryOut memory_out;

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void prefetch(std::uint32_t kind, std::uint64_t argument, Ahead ahead) const override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

  // For tests and the injection of errors: an uncorrectable error of the array in those bytes of memory, as far as they
  // are this slice's. Their sectors' data are corrupt from now on, also once they have left the cache, until a write
  // covers all of a sector. Reads, atomics and reductions of such a sector end well with `poisoned` set in their
  // extension. A reset cures all.
  void poison(std::uint64_t address, std::uint64_t bytes);

  // No request is inside. Write-backs may be on their way to memory.
  bool idle() const { return arrivals_.empty() && departures_[kCrossbar].empty() && departures_[kHub].empty(); }

  // Direct memory (HST-02), of a memory that is reset together with the slice. An access to a granted page ends the
  // grant before it takes effect, or goes to memory.
  void watch(DirectMemory& direct) { direct_ = &direct; }
  // A request or a transfer works on one of these bytes, or they are corrupt: nobody else can have them now.
  bool busy_with(std::uint64_t first, std::uint64_t last) const;
  // The slice forgets all its lines of the range, whose ends are those of lines; what memory does not have is written
  // there first, without time. False, if it is busy with them or memory does not take it: then nothing is forgotten.
  bool let_go(std::uint64_t first, std::uint64_t last);
  // Some of these bytes are corrupt.
  bool poisoned(std::uint64_t address, std::uint64_t bytes) const;
  // Payloads that the memory has, those of before a reset included.
  std::size_t payloads() const { return pool_.in_use(); }

 private:
  enum Event : std::uint32_t { kServe, kAnswer, kRespond, kTidy };
  // The ways in, by number.
  static constexpr std::uint32_t kCrossbar = 0;
  static constexpr std::uint32_t kHub = 1;
  static constexpr Cycle kNever = EventQueue::kNever;

  // A payload and, in the lowest bit of its address, the way that it came.
  class Guest {
   public:
    Guest() = default;
    Guest(tlm::tlm_generic_payload& payload, std::uint32_t way)
        : bits_(reinterpret_cast<std::uintptr_t>(&payload) | way) {}
    explicit Guest(void* handle) : bits_(reinterpret_cast<std::uintptr_t>(handle)) {}

    tlm::tlm_generic_payload& payload() const {
      return *reinterpret_cast<tlm::tlm_generic_payload*>(bits_ & ~std::uintptr_t{1});
    }
    std::uint32_t way() const { return static_cast<std::uint32_t>(bits_ & 1); }
    void* handle() const { return reinterpret_cast<void*>(bits_); }

   private:
    std::uintptr_t bits_ = 0;
  };
  struct Arrival {
    Guest guest;
    Cycle ready = 0;  // when its tags are known
  };
  struct Departure {
    Guest guest;
    Cycle when = 0;
  };
  // A payload at the memory.
  struct Transfer {
    protocol::MemoryRequest* payload = nullptr;
    L2Core::Command command;
    bool answered = false;
  };

  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t way, Cycle arrival);
  void on_response_room(std::uint32_t way, Cycle when);
  void on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t index, sc_core::sc_time& delay);
  unsigned on_debug(tlm::tlm_generic_payload& payload, std::uint32_t index);
  bool on_answer(tlm::tlm_generic_payload& payload, std::uint32_t index, Cycle arrival);
  void on_memory_room(std::uint32_t index, Cycle when);

  void expect_service();
  void schedule_service(Cycle when);
  void serve_next();
  MemoryIn& way_in(std::uint32_t way) { return way == kCrossbar ? request_in : *hub_in_; }
  std::size_t waiting(std::uint32_t way) const {
    return way == kHub ? hub_arrivals_ : arrivals_.size() - hub_arrivals_;
  }
  bool cannot_respond(std::uint32_t way) const;
  bool put_other_first();
  const char* stall_reason() const;
  void block(const char* reason, bool on_memory);
  void unblock();
  Cycle take_port(Cycle cycles);
  Cycle cycles_of(const L2Access& access) const;

  void respond(const Guest& guest, tlm::tlm_response_status status, Cycle served);
  void deliver(const Departure& departure);
  void send_responses(std::uint32_t way);

  void send_commands();
  void send_command(const L2Core::Command& command);
  static void aim_at_run(protocol::MemoryRequest& request, bool write, std::uint64_t line, std::uint32_t first,
                         std::uint32_t sectors);
  static int status_of(const tlm::tlm_generic_payload& payload);
  void take_answer(std::uint32_t number);
  void answer_served();
  void drop_stale(tlm::tlm_generic_payload& payload);

  void end_grant(const L2Access& access);
  bool write_newer(std::uint64_t line);
  unsigned debug_read(tlm::tlm_generic_payload& payload, std::uint32_t bytes);
  unsigned debug_write(tlm::tlm_generic_payload& payload, std::uint32_t bytes);
  std::string memory_name() const;

  class BlockingMemory;

  const arch::AddressMap map_;
  const std::uint32_t number_;
  const L2Params params_;
  Counter& requests_;
  Counter& atomics_;
  Counter& stalls_;
  protocol::RequestPool pool_;
  L2Core core_;

  std::array<Cycle, arch::kSectorsPerLine + 1> sector_cycles_{};  // at the data port, by number of sectors
  Ring<Arrival> arrivals_;
  std::size_t hub_arrivals_ = 0;               // of arrivals_
  std::array<Ring<Departure>, 2> departures_;  // by way: responses that are not taken yet
  Cycle serve_at_ = kNever;                    // when the first arrival's event comes
  const char* blocked_ = nullptr;              // why the first arrival cannot be served; null: it can
  bool blocked_on_memory_ = false;
  Cycle blocked_since_ = 0;
  Cycle port_free_ = 0;
  Cycle memory_free_ = 0;
  Cycle last_departure_ = 0;

  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_transfers_;
  std::vector<protocol::MemoryRequest*> stale_;  // still with an attached memory when the slice was reset
  DirectMemory* direct_ = nullptr;
  std::unique_ptr<MemoryIn> hub_in_;

  const sc_core::sc_time tag_delay_;
  const sc_core::sc_time data_delay_;
  const sc_core::sc_time memory_delay_;
};

}  // namespace heddle::memory
