// The model of one GPC inside the CWD ("mimic"): answers whether and how well it could take a CGA, and reserves free
// slots for it (CWD-12, CWD-15 to 19). It works on the shadow state: a snapshot of the SMs' free slots for one grid.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/topology.h"
#include "cwd/domain_policy.h"
#include "cwd/sm_policy.h"

namespace heddle::cwd {

// The GPC_CGAs that a session asks for.
struct GpcCgaShape {
  std::uint32_t ctas = 1;      // of a GPC_CGA
  std::uint32_t cpc_ctas = 0;  // of a CPC_CGA; 0: the GPC_CGA does not consist of CPC_CGAs
};

struct GpcReply {
  DomainAnswer answer;
  std::uint32_t steps = 0;  // decisions that finding the answer took, one after another
};

// The registers of one GPC in a session: its free slots, and the launch slots that GPC_CGAs have reserved there.
class GpcRegisters {
 public:
  void begin(const GpcSlots& free) {
    free_ = free;
    restart();
  }
  // Forgets all launches, permanent ones too.
  void restart() {
    launched_.fill(0);
    tentative_.fill(0);
    reserved_ = tentative_cgas_ = 0;
  }
  // A GPC_CGA takes these slots.
  void reserve(const GpcSlots& taken);
  // What was reserved since the last accept or begin is permanent, or is given back.
  void accept() {
    tentative_.fill(0);
    tentative_cgas_ = 0;
  }
  void revert();

  // Free slots less launch slots.
  GpcSlots left() const;
  // GPC_CGAs reserved, permanent or not.
  std::uint32_t reserved() const { return reserved_; }

 private:
  GpcSlots free_{};
  GpcSlots launched_{};   // permanent launch slots are those that are not tentative
  GpcSlots tentative_{};  // since the last accept
  std::uint32_t reserved_ = 0;
  std::uint32_t tentative_cgas_ = 0;
};

// Of one session, in order: begin; then query, and after a valid answer reserve or cancel, any number of times; accept
// makes everything reserved since the last accept (or begin) permanent, revert gives it back. restart forgets all
// launches of the session, permanent ones too: the launch-slot registers before pass II (CWD-19). begin and restart
// also drop an answer that was neither reserved nor cancelled.
class GpcModel {
 public:
  // `sm_priority`: SM ids of the machine, most preferred first. The GPC's CPCs are asked in ascending order. The
  // topology and the policies must outlive the model. Throws InputError if `multicast` could put two CTAs of a CGA on
  // an SM.
  GpcModel(const arch::Topology& topology, std::uint32_t gpc, const std::vector<std::uint32_t>& sm_priority,
           const SmPolicy& load_balancing, const SmPolicy& multicast, const DomainPolicy& cpc_policy);

  // `free`: by bit. `cgas`: most GPC_CGAs that the session may reserve here, for whatever is limited besides free slots
  // (CWD-19, CWD-20).
  void begin(const GpcSlots& free, const GpcCgaShape& shape, bool multicast, std::uint32_t cgas);

  // Once `cgas` are reserved: refused without a step.
  GpcReply query();
  // The masks of the CGA of the last valid query, in launch order; with CPC_CGAs, those of one after the other. Valid
  // until the next query.
  const std::vector<std::uint64_t>& masks() const { return masks_; }
  void reserve();
  void cancel();
  void accept();
  void revert();
  void restart();

  // Free slots less launch slots: what the next query sees.
  GpcSlots left() const { return registers_.left(); }
  // GPC_CGAs reserved since begin or restart, permanent or not.
  std::uint32_t reserved() const { return registers_.reserved(); }

 private:
  // A CPC, or the GPC as a whole, and its answer while one CGA is being placed.
  struct Part {
    std::uint64_t members = 0;
    SmChoice choice;
    std::uint64_t used = 0;  // SMs that receive a CTA
  };
  DomainAnswer ask(Part& part, std::uint32_t ctas);
  void take(const Part& part);
  GpcReply query_gpc();
  GpcReply query_cpcs();

  const arch::Topology::Gpc& gpc_;
  const SmPolicy& load_balancing_;
  const SmPolicy& multicast_policy_;
  const DomainPolicy& cpc_policy_;
  std::vector<std::uint32_t> priority_;  // bits
  Part whole_;
  std::vector<Part> cpcs_;
  std::vector<std::uint32_t> cpc_order_;

  GpcRegisters registers_;
  GpcCgaShape shape_;
  bool multicast_ = false;
  std::uint32_t limit_ = 0;

  // The CGA of the last query.
  bool open_ = false;   // valid, and neither reserved nor cancelled
  GpcSlots offered_{};  // what its next part may take
  GpcSlots taken_{};
  std::vector<std::uint64_t> masks_;
  std::vector<DomainAnswer> answers_;
  std::vector<std::uint32_t> chosen_;
};

}  // namespace heddle::cwd
