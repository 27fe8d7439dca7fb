// The model of one GPC inside the CWD ("mimic"): answers whether and how well it could take a CGA, and reserves free
// slots for it (CWD-12, CWD-15 to 19). It works on the shadow state: a snapshot of the SMs' free slots for one grid.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/sm_limits.h"
#include "arch/topology.h"
#include "common/error.h"
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
  // Levels of the trees of its prefix population counts, up and down, one after another (CWD-05); 0: none was needed.
  std::uint32_t prefix_levels = 0;
};

// The registers of one GPC in a session: its free slots, and the launch slots that GPC_CGAs have reserved there.
class GpcRegisters {
 public:
  void begin(const GpcSlots& free) {
    free_ = free;
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
// makes everything reserved since the last accept (or begin) permanent, revert gives it back: the reset of the
// launch-slot registers before pass II (CWD-19), and of a session that fails. begin also drops an answer that was
// neither reserved nor cancelled.
class GpcModel {
 public:
  // `sm_priority`: SM ids of the machine, most preferred first. The GPC's CPCs are asked in ascending order. The
  // topology and the policies must outlive the model; models of several GPCs can share policies. Throws InputError if
  // `multicast` could put two CTAs of a CGA on an SM.
  GpcModel(const arch::Topology& topology, std::uint32_t gpc, const std::vector<std::uint32_t>& sm_priority,
           SmPolicy& load_balancing, SmPolicy& multicast, DomainPolicy& cpc_policy);

  // `free`: by bit. `cgas`: most GPC_CGAs that the session may reserve here, for whatever is limited besides free slots
  // (CWD-19, CWD-20). `waiting`: behind the task of the session.
  void begin(const GpcSlots& free, const GpcCgaShape& shape, bool multicast, std::uint32_t cgas,
             const protocol::WaitingWork& waiting = protocol::kNothingWaits);

  // Once `cgas` are reserved: refused without a step.
  GpcReply query();
  // The masks of the CGA of the last valid query, in launch order; with CPC_CGAs, those of one after the other. Valid
  // until the next query.
  const std::vector<std::uint64_t>& masks() const { return masks_; }
  void reserve();
  void cancel();
  void accept();
  void revert();

  // Free slots less launch slots: what the next query sees.
  GpcSlots left() const { return registers_.left(); }
  // GPC_CGAs reserved since begin, permanent or not.
  std::uint32_t reserved() const { return registers_.reserved(); }

 private:
  // A CPC, or the GPC as a whole, and its answer while one CGA is being placed.
  struct Part {
    std::uint64_t members = 0;
    SmChoice choice;
    std::uint64_t used = 0;  // SMs that receive a CTA
    std::uint32_t prefix_levels = 0;
  };
  DomainAnswer ask(Part& part, std::uint32_t ctas);
  void take(const Part& part);
  GpcReply query_gpc();
  GpcReply query_cpcs();

  const arch::Topology::Gpc& gpc_;
  const std::uint32_t gpc_id_;
  SmPolicy& load_balancing_;
  SmPolicy& multicast_policy_;
  DomainPolicy& cpc_policy_;
  std::vector<std::uint32_t> priority_;  // bits
  Part whole_;
  std::vector<Part> cpcs_;
  std::vector<std::uint32_t> cpc_order_;

  GpcRegisters registers_;
  GpcCgaShape shape_;
  bool multicast_ = false;
  std::uint32_t limit_ = 0;
  protocol::WaitingWork waiting_;

  // The CGA of the last query.
  bool open_ = false;   // valid, and neither reserved nor cancelled
  GpcSlots offered_{};  // what its next part may take
  GpcSlots taken_{};
  std::vector<std::uint64_t> masks_;
  std::vector<DomainAnswer> answers_;
  std::vector<std::uint32_t> chosen_;
};

// What the CWD knows of the SMs: resources in use and free slots per task, updated by launches and completions
// (CWD-02).

// The resource tracker (TRT) of one TPC: what is in use on its SMs.
class ResourceTracker {
 public:
  ResourceTracker(const arch::ResourceVector& capacity, std::uint32_t sms)
      : capacity_(capacity), used_(sms), base_(sms) {}

  // `sm`: in the TPC.
  void launch(std::uint32_t sm, const arch::ResourceVector& need) {
    used_[sm].add(need);
    HEDDLE_CHECK(used_[sm].within(capacity_), "a CTA was launched on an SM without room for it");
  }
  void complete(std::uint32_t sm, const arch::ResourceVector& need) { used_[sm].subtract(need); }
  std::uint32_t free_slots(std::uint32_t sm, const arch::ResourceVector& need) const {
    return enabled_ ? arch::free_slots(capacity_, used_[sm], need) : 0;
  }
  const arch::ResourceVector& used(std::uint32_t sm) const { return used_[sm]; }

  // The entry of the TPC enable table: a disabled TPC has no free slots.
  bool enabled() const { return enabled_; }
  void enable(bool enabled) { enabled_ = enabled; }

  // What something else than CTAs holds, from the start and after every reset. It must fit.
  void preload(std::uint32_t sm, const arch::ResourceVector& amount) {
    base_[sm].add(amount);
    used_[sm].add(amount);
    HEDDLE_CHECK(used_[sm].within(capacity_), "an SM is to hold more than it can");
  }
  void unload(std::uint32_t sm, const arch::ResourceVector& amount) { used_[sm].subtract(amount); }

  void reset() {
    used_ = base_;
    enabled_ = true;
  }

 private:
  arch::ResourceVector capacity_;
  std::vector<arch::ResourceVector> used_;  // by SM of the TPC
  std::vector<arch::ResourceVector> base_;
  bool enabled_ = true;
};

class LiveModel {
 public:
  // `slots`: size of the task table. SMs and TPCs are named by their ids in the machine.
  LiveModel(const arch::ResourceVector& capacity, const arch::Topology& topology, std::uint32_t slots);

  void open(std::uint32_t slot, const arch::ResourceVector& need);
  // All CTAs of the task must have completed.
  void close(std::uint32_t slot);
  void launch(std::uint32_t slot, std::uint32_t sm);
  // A CTA of the task on the SM has given back that much shared memory before its end (CGA-09).
  void release(std::uint32_t slot, std::uint32_t sm, std::uint32_t shared_bytes);
  // `released`: of the CTA's shared memory, what it has given back before.
  void complete(std::uint32_t slot, std::uint32_t sm, std::uint32_t released = 0);

  // Free slots of every SM for the task, brought up to date. A session copies them: the snapshot (CWD-02).
  const std::vector<std::uint16_t>& free_slots(std::uint32_t slot);
  // Their sum: 0 only if no SM has a free slot for the task; cheap.
  std::uint64_t total_free(std::uint32_t slot);

  // TPC enable table. TPCs are numbered GPC by GPC.
  void enable(std::uint32_t tpc, bool enabled);
  bool enabled(std::uint32_t tpc) const { return trackers_[tpc].enabled(); }
  bool all_enabled() const { return disabled_tpcs_ == 0; }
  // TPCs of the GPC that are enabled.
  std::uint32_t enabled_tpcs(std::uint32_t gpc) const { return enabled_tpcs_[gpc]; }
  std::uint32_t tpcs() const { return static_cast<std::uint32_t>(trackers_.size()); }
  std::uint32_t tpc_of(std::uint32_t sm) const { return place_[sm].tpc; }
  std::uint32_t first_tpc(std::uint32_t gpc) const { return first_tpc_[gpc]; }
  std::uint32_t gpc_of(std::uint32_t tpc) const { return gpc_of_[tpc]; }

  // What something else than CTAs holds on an SM, from the start and after every reset, until it is unloaded.
  void preload(std::uint32_t sm, const arch::ResourceVector& amount);
  void unload(std::uint32_t sm, const arch::ResourceVector& amount);

  std::uint32_t running(std::uint32_t slot) const { return tasks_[slot].running; }
  std::uint32_t on_sm(std::uint32_t slot, std::uint32_t sm) const { return tasks_[slot].on_sm[sm]; }
  const arch::ResourceVector& used(std::uint32_t sm) const { return trackers_[place_[sm].tpc].used(place_[sm].sm); }
  // No task, and no CTA anywhere: nothing in use but what was preloaded and is still there.
  bool empty() const;
  void reset();

 private:
  struct Place {
    std::uint32_t tpc = 0;
    std::uint32_t sm = 0;  // in the TPC
  };
  struct Task {
    bool open = false;
    arch::ResourceVector need;
    std::uint32_t running = 0;            // CTAs on all SMs
    std::vector<std::uint16_t> on_sm;     // CTAs of the task by SM
    std::vector<std::uint32_t> released;  // shared memory by SM that those have given back
    std::vector<std::uint16_t> slots;     // free slots by SM, except where stale
    std::uint64_t total = 0;              // sum of slots
    std::vector<std::uint8_t> stale;      // by SM: another task changed the SM
    std::vector<std::uint32_t> stale_list;
  };
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  void touch(Task& task, std::uint32_t sm);
  // All tasks but that one have to count the SM's free slots anew.
  void touch_others(std::uint32_t slot, std::uint32_t sm);
  void refresh(Task& task);

  std::vector<Place> place_;                 // by SM id
  std::vector<ResourceTracker> trackers_;    // by TPC
  std::vector<std::uint32_t> gpc_of_;        // by TPC
  std::vector<std::uint32_t> first_tpc_;     // by GPC
  std::vector<std::uint32_t> enabled_tpcs_;  // by GPC
  std::uint32_t disabled_tpcs_ = 0;
  std::vector<arch::ResourceVector> expected_;  // by SM: what is preloaded now
  std::vector<Task> tasks_;
  std::vector<std::uint32_t> open_;  // slots in use
  std::vector<arch::ResourceVector> preloaded_;
};

}  // namespace heddle::cwd
