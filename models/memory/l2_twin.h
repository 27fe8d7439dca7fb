// What a slice of the L2 has to do with its twin, the slice at the same place in the other of two partitions, where the
// partitions keep copies (MEM-01).
//
// An SM asks the slice of its own partition. A line whose home that is, is served there. Of a line whose home is the
// twin, a read is served from a copy, which is fetched from the twin when it is missed and takes its place in the
// slice like any line; whatever changes the line goes past, to its home, and takes the copy away on its way. The home
// is the point of coherence: it knows which of its lines it has given away, and before it answers a change by
// somebody else it has the copy taken away and waits until the twin says so.
//
// Nothing here waits in a circle. Requests of the twin can be served before one of the others that cannot, copies have
// miss-status registers of their own, never take all that can wait, and never the last way of a set; so a fetch by the
// twin waits for memory alone. A copy that cannot be taken away, since it is on its way here, is taken
// away when it has come, and until then nobody else is served by it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "common/domain.h"
#include "common/memory_socket.h"
#include "memory/l2_core.h"
#include "memory/l2_ingress.h"
#include "memory/l2_memory_port.h"
#include "memory/l2_twin_way.h"
#include "memory/memory_params.h"

namespace heddle::memory {

class L2Twin {
 public:
  // As for the way, and the slice's core. All references must outlive it.
  L2Twin(const char* name, Domain& domain, const std::string& path, const L2Params& params, const TwinLink& link,
         const arch::AddressMap& map, std::uint32_t slice, L2Core& core, L2Ingress& ingress,
         L2MemoryPort::Listener& owner);

  MemoryIn in;  // requests of the twin
  L2TwinWay way;

  // The line's home is the twin; here is a copy at most.
  bool foreign(std::uint64_t line) const { return map_.slice_of(line * arch::kLineBytes) != slice_; }
  // The access to the core, or past it. `stalled`: for the reason reason() or, if that is null, the core's.
  L2Core::Outcome serve(const L2Access& access, const PendingRequest& request);
  const char* reason() const { return reason_; }
  // The slice counts it as a request of its owner: it is none that both count.
  bool counts(const L2Access& access) const { return !access.copies() && (access.looks() || !foreign(access.line)); }
  // An access has taken effect whose answer could leave at `when`. Returns when it does; kNever: once the copy has
  // gone.
  Cycle departure(const L2Access& access, const PendingRequest& request, Cycle when);
  // The twin has refused what the access lacks. True: the request has gone to it as it is. False: it is none of a copy.
  bool asks_home(const L2Access& access, const PendingRequest& request);
  // Something has come: copies that go then are dropped.
  void settle();

  // The same as calls, which are done at once. False: the access is one that the slice itself serves.
  bool blocking(const L2Access& access, tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay);
  bool asks_home_blocking(const L2Access& access, tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  // No copy is to go when it has come: reads of lines that are here are reads like any others.
  bool settled() const { return late_.empty(); }
  void count_hit() { hits_.add(); }  // of a copy
  // The twin has been given a line of this home's.
  void give(std::uint64_t line) { given_.set(line, true); }
  // The access has taken effect.
  void took_effect(const L2Access& access, std::uint32_t port, sc_core::sc_time& delay);
  // A debugger's write at the home, or corrupt data there: the copy goes without time. And what the twin is told then.
  void take_away_now(std::uint64_t line);
  unsigned on_debug(tlm::tlm_generic_payload& payload);

  bool idle() const { return way.idle(); }
  void reset();

 private:
  L2Core::Outcome stalls(const char* reason);
  L2Core::Outcome pass(const L2Access& access, const PendingRequest& request);
  bool goes_on(const L2Access& access, std::uint32_t port) const;
  bool misses(const L2Access& access) const;
  const char* why_no_miss(std::uint64_t line) const;
  bool drop(std::uint64_t line);
  void note(const L2Access& access);

  const arch::AddressMap& map_;
  const std::uint32_t slice_;
  const L2Params params_;
  L2Core& core_;
  const char* reason_ = nullptr;
  CopyDirectory given_;
  std::set<std::uint64_t> late_;  // lines of copies that go when they have come
  Counter& hits_;
  Counter& taken_away_;
  Counter& passed_;
};

}  // namespace heddle::memory
