// What a slice of the L2 has to do with its twin, the slice at the same place in the other of two partitions, where the
// partitions keep copies (MEM-01).
//
// An SM asks the slice of its own partition. A line whose home that is, is served there. Of a line whose home is the
// twin, a read is served from a copy, which is fetched from the twin when it is missed and takes its place in the
// slice like any line; whatever changes the line goes past, to its home, and takes the copy away on its way. The home
// is the point of coherence: it knows which of its lines it has given away, and before it answers a change by
// somebody else it has the copy taken away and waits until the twin says so.
//
// Nothing here waits in a circle. Requests of the twin can be served before one of the others that cannot, copies take up
// three quarters at most of what misses need (of which there is twice as much), and never the last way of a set; so a fetch by the twin waits for memory
// alone. A copy that cannot be taken away, since it is on its way here, is taken away when it has come.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "arch/address_map.h"
#include "common/domain.h"
#include "common/memory_socket.h"
#include "memory/l2_core.h"
#include "memory/l2_ingress.h"
#include "memory/l2_memory_port.h"
#include "memory/memory_params.h"
#include "protocol/memory_request.h"

namespace heddle::memory {

// The way between two twins, each way.
struct TwinLink {
  std::uint32_t latency = 0;          // cycles
  std::uint32_t bytes_per_cycle = 1;  // of the slice
};

class L2Twin final : private L2MemoryPort::Listener {
 public:
  // `name` and all references must outlive it. `path`: of its statistics. `owner`: hears of what has come for the core,
  // and of room on the way to the twin.
  L2Twin(const char* name, Domain& domain, const std::string& path, const L2Params& params, const TwinLink& link,
         const arch::AddressMap& map, std::uint32_t slice, L2Core& core, L2Ingress& ingress,
         L2MemoryPort::Listener& owner);

  MemoryIn in;
  MemoryOut out;

  // The line's home is the twin; here is a copy at most.
  bool foreign(std::uint64_t line) const { return map_.slice_of(line * arch::kLineBytes) != slice_; }
  // The access to the core, or past it. `stalled`: for the reason reason() or, if that is null, the core's.
  L2Core::Outcome serve(const L2Access& access, const PendingRequest& request);
  const char* reason() const { return reason_; }
  // The slice counts it as a request of its owner: it is none that both count.
  bool counts(const L2Access& access) const { return !access.copies() && (access.looks() || !foreign(access.line)); }
  // An access has taken effect whose answer could leave at `when`. Returns when it does; kNever: that is heard later.
  Cycle departure(const L2Access& access, const PendingRequest& request, Cycle when);
  // Of what was lacking, the twin has sent nothing: the request goes to it as it is. False: it is none of a copy.
  bool ask_twin(const L2Access& access, const PendingRequest& request);

  // What a copy lacks is asked of the twin.
  void fetch(const L2Command& command);
  bool can_send() const { return unsent_.empty() && port_.can_send(); }
  // Something has come, or gone: copies that had to wait for it are taken away.
  void settle();

  // The same as calls, which are done at once. False: the access is one that the slice itself serves.
  bool blocking(const L2Access& access, tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay);
  int fetch_blocking(std::uint64_t line, const SectorRun& run, std::uint8_t* line_image, sc_core::sc_time& delay);
  bool ask_blocking(const L2Access& access, tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  // The access has taken effect.
  void blocking_effect(const L2Access& access, std::uint32_t port, sc_core::sc_time& delay);
  // A debugger's write at the home, or corrupt data there: the copy goes without time.
  void drop_now(std::uint64_t line);
  // Somebody has that said to the twin.
  unsigned on_debug(tlm::tlm_generic_payload& payload);

  bool idle() const { return open_.empty() && unsent_.empty() && drops_.empty(); }
  std::size_t payloads() const { return port_.payloads() + pool_.in_use(); }
  void reset();

 private:
  // What is at the twin and is not a fetch.
  struct Open {
    PendingRequest request;  // that is answered then
    Cycle when = 0;          // not before
    bool drop = false;       // it is the taking away of a copy
  };

  // What there has been no room for on the way to the twin: one of these, or a fetch.
  struct Unsent {
    tlm::tlm_generic_payload* payload = nullptr;
    L2Command fetch;
  };

  void on_memory_answer(const L2Command& command, int status, const std::uint8_t* data) override {
    owner_.on_memory_answer(command, status, data);
  }
  void on_memory_room() override;
  // To what was passed on, or to the taking away of a copy.
  void on_other_answer(tlm::tlm_generic_payload& payload) override;
  L2Core::Outcome stalls(const char* reason);
  L2Core::Outcome pass(const L2Access& access, const PendingRequest& request);
  bool goes_on(const L2Access& access, std::uint32_t port) const;
  bool misses(const L2Access& access) const;
  const char* why_no_miss(std::uint64_t line) const;
  bool drop(std::uint64_t line);
  void note(const L2Access& access);
  bool gave(std::uint64_t line) const;
  void give(std::uint64_t line, bool given);
  std::uint64_t number_of(std::uint64_t line) const { return map_.place_of(line * arch::kLineBytes).number; }
  protocol::MemoryRequest& drop_request(std::uint64_t line);
  void send(tlm::tlm_generic_payload& payload);
  void send_unsent();
  void count(std::uint32_t bytes);
  // There and back.
  void call(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);

  Domain& domain_;
  const arch::AddressMap map_;
  const std::uint32_t slice_;
  const L2Params params_;
  const TwinLink link_;
  L2Core& core_;
  L2Ingress& ingress_;
  L2MemoryPort::Listener& owner_;
  L2MemoryPort port_;
  protocol::RequestPool pool_;
  const char* reason_ = nullptr;
  std::vector<std::uint64_t> given_;  // of lines whose home this is, a bit each: the twin may have a copy
  std::unordered_map<tlm::tlm_generic_payload*, Open> open_;  // looked up only
  std::deque<Unsent> unsent_;                                 // in this order
  std::vector<PendingRequest> drops_;                         // wait for a copy that is on its way
  std::set<std::uint64_t> late_;                              // lines of copies that go when they have come
  Counter& hits_;
  Counter& taken_away_;
  Counter& passed_;
  Counter& bytes_;
};

}  // namespace heddle::memory
