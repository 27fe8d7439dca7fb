// One slice of the L2 cache (MEM-01): the point of coherence.
//
// A request takes effect, for everybody, in the cycle in which the slice serves it: tag_latency after its arrival if it
// hits and the data port is free, else when the last sector that it needs comes from memory. Requests to one line take
// effect in the order of their arrival (MEM-06). The response leaves data_latency after that.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "common/block.h"
#include "common/memory_socket.h"
#include "common/ring.h"
#include "memory/l2_core.h"
#include "memory/l2_params.h"

namespace heddle::memory {

class L2Slice : public Block {
 public:
  L2Slice(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const L2Params& params,
          const arch::AddressMap& map, std::uint32_t slice);

  MemoryIn request_in;
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
  bool idle() const { return arrivals_.empty() && departures_.empty(); }

 private:
  enum Event : std::uint32_t { kServe, kAnswer, kRespond, kTidy };

  struct Arrival {
    tlm::tlm_generic_payload* payload = nullptr;
    Cycle ready = 0;  // when its tags are known
  };
  struct Departure {
    tlm::tlm_generic_payload* payload = nullptr;
    Cycle when = 0;
  };
  // A payload at the memory.
  struct Transfer {
    protocol::MemoryRequest* payload = nullptr;
    L2Core::Command command;
    bool answered = false;
  };

  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t index, Cycle arrival);
  void on_response_room(std::uint32_t index, Cycle when);
  void on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t index, sc_core::sc_time& delay);
  unsigned on_debug(tlm::tlm_generic_payload& payload, std::uint32_t index);
  bool on_answer(tlm::tlm_generic_payload& payload, std::uint32_t index, Cycle arrival);
  void on_memory_room(std::uint32_t index, Cycle when);

  void expect_service();
  void schedule_service(Cycle when);
  void serve_next();
  const char* stall_reason() const;
  void block(const char* reason, bool on_memory);
  void unblock();
  Cycle take_port(Cycle cycles);
  Cycle cycles_of(const L2Access& access) const;

  void respond(tlm::tlm_generic_payload& payload, tlm::tlm_response_status status, Cycle served);
  void deliver(const Departure& departure);
  void send_responses();

  void send_commands();
  void send_command(const L2Core::Command& command);
  static void aim_at_run(protocol::MemoryRequest& request, bool write, std::uint64_t line, std::uint32_t first,
                         std::uint32_t sectors);
  static int status_of(const tlm::tlm_generic_payload& payload);
  void take_answer(std::uint32_t number);
  void answer_served();
  void drop_stale(tlm::tlm_generic_payload& payload);

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
  Ring<Departure> departures_;     // responses that the crossbar does not take yet
  bool serving_ = false;           // somebody looks after the first arrival: an event, or what has to unblock it
  bool serve_event_ = false;       // an event for it is on its way
  const char* blocked_ = nullptr;  // why the first arrival cannot be served; null: it can
  bool blocked_on_memory_ = false;
  Cycle blocked_since_ = 0;
  Cycle port_free_ = 0;
  Cycle memory_free_ = 0;
  Cycle last_departure_ = 0;

  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_transfers_;
  std::vector<protocol::MemoryRequest*> stale_;  // still with the memory when the slice was reset

  const sc_core::sc_time tag_delay_;
  const sc_core::sc_time data_delay_;
  const sc_core::sc_time memory_delay_;
};

}  // namespace heddle::memory
