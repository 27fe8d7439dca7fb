// A request that a tensor memory access unit works on, from its arrival to its completion, and the table of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/cycle.h"
#include "common/index_pool.h"
#include "common/timebase.h"
#include "protocol/memory_request.h"
#include "protocol/sm_tmau.h"
#include "tmau/line_generator.h"
#include "tmau/tmau_params.h"

namespace heddle::tmau {

// Why a request does not come to a good end, although it breaks no rule.
struct BulkFailure {
  enum class Cause : std::uint8_t {
    memory,
    poison,     // the descriptor, or the source in shared memory, is corrupt
    unmapped,   // the subcontext has no page there (PRT-08)
    read_only,  // it has one, and may not write to it
  };
  Cause cause = Cause::memory;
  bool write = false;  // memory: it was a write
  std::uint64_t address = 0;
  Cycle when = 0;

  // What an answer of memory with an error says.
  static BulkFailure of(tlm::tlm_generic_payload& payload, Cycle when) {
    const protocol::MemoryExtension* extension = protocol::extension_of(payload);
    Cause cause = Cause::memory;
    if (extension != nullptr && extension->unmapped) {
      cause = payload.get_response_status() == tlm::TLM_COMMAND_ERROR_RESPONSE ? Cause::read_only : Cause::unmapped;
    }
    return {cause, !payload.is_read(), payload.get_address(), when};
  }
  static BulkFailure poison(std::uint64_t address, Cycle when) { return {Cause::poison, false, address, when}; }
};

// The cycles in which a request came to its stages: for those who look on. None: it did not come there.
struct BulkLife {
  Cycle arrival = 0;
  std::optional<Cycle> chosen;        // it left its queue
  std::optional<Cycle> described;     // its descriptor was there
  std::optional<Cycle> set_up_began;  // set-up took it up
  std::optional<Cycle> set_up;        // and ended
  std::optional<Cycle> first_line;    // line request
  std::optional<Cycle> last_line;
};

// What a request waits for besides the generation of its line requests.
struct BulkAwaited {
  std::uint32_t reads = 0;  // pieces that shared memory has not given, or brought to their receiver
  Cycle last_read = 0;
  std::uint32_t answers = 0;  // line requests that memory has not answered
  std::uint32_t posts = 0;    // writes that the L2 has not taken over
  Cycle last_accepted = 0;
  std::uint32_t acknowledgements = 0;  // deliveries that other units have not confirmed

  bool none() const { return reads == 0 && answers == 0 && posts == 0 && acknowledgements == 0; }
};

struct BulkTraffic {
  std::uint64_t pieces = 0;
  std::uint64_t bytes = 0;
  std::uint64_t fetched = 0;  // bytes of sectors that memory was asked for
  std::uint64_t used = 0;     // of these, bytes of the box or block
};

struct BulkWork {
  // completion: all of its line requests have been generated; a drain waits for all before it.
  enum class Stage : std::uint8_t { input, queue, descriptor, setup, generation, completion };

  protocol::BulkRequestPacket packet;
  protocol::BulkTarget target;  // of its line requests, but for the piece
  LineGenerator lines;
  std::uint32_t number = 0;  // in the table
  std::uint32_t sm = 0;      // of the unit
  Stage stage = Stage::input;
  std::uint8_t phase = 0;
  bool read_told = false;                          // the SM knows that its source may be overwritten
  bool accepted_told = false;                      // and that the L2 has taken it over
  arch::TensorRule rule = arch::TensorRule::none;  // that it breaks
  arch::RuleSet reported;                          // those that do not stop it
  arch::Promotion promotion = arch::Promotion::none;
  std::optional<std::uint64_t> promoted_pair;  // 256 bytes of which the other line has been asked for
  Cycle earliest = kNever;                     // of its generation
  Cycle last = 0;                              // the latest of what it comes to, so far
  Cycle generated_at = 0;
  BulkAwaited awaited;
  BulkTraffic traffic;
  BulkLife life;
  std::optional<BulkFailure> failure;

  const arch::BulkRequest& request() const { return packet.request; }
  arch::BulkKind kind() const { return packet.request.kind; }
  // Its bytes come from shared memory.
  bool reads_shared() const {
    return kind() == arch::BulkKind::store || kind() == arch::BulkKind::reduce || kind() == arch::BulkKind::send;
  }
  bool generated() const { return stage == Stage::completion; }
  bool over() const { return generated() && awaited.none(); }
  // The L2 has all of it, or will have.
  bool accepted() const { return generated() && awaited.reads == 0 && awaited.posts == 0 && !failure; }
  // The first error counts.
  void fail(const BulkFailure& error) {
    if (!failure || failure->when > error.when) failure = error;
  }
  void note(Cycle when) { last = last > when ? last : when; }
};

// All requests of a unit, by their numbers. They stay where they are.
class WorkTable {
 public:
  BulkWork& take() {
    const std::uint32_t number = works_.take();
    if (!works_[number]) works_[number] = std::make_unique<BulkWork>();
    works_[number]->number = number;
    return *works_[number];
  }
  void give_back(const BulkWork& work) {
    const std::uint32_t number = work.number;
    *works_[number] = BulkWork();
    works_.give_back(number);
  }
  BulkWork& operator[](std::uint32_t number) { return *works_[number]; }
  const BulkWork& operator[](std::uint32_t number) const { return *works_[number]; }
  // The request of that number if there is one, and it is of that SM of the unit.
  BulkWork* find(std::uint32_t number, std::uint32_t sm) {
    return number < works_.size() && works_[number]->sm == sm ? works_[number].get() : nullptr;
  }
  bool has(std::uint32_t number) const { return number < works_.size(); }
  bool empty() const { return works_.in_use() == 0; }
  template <class Visit>
  void for_each(Visit&& visit) const {
    works_.for_each([&visit](const std::unique_ptr<BulkWork>& work) { visit(*work); });
  }
  void reset() { works_.clear(); }

 private:
  IndexPool<std::unique_ptr<BulkWork>> works_;
};

// What all stages of one tensor memory access unit share: its place, its parameters, its table of requests, its
// statistics, and whom they tell what others have to know.

// Where a unit is: it serves SMs `first` to `first + ids.size() - 1` of its GPC.
struct TmauPlace {
  std::uint32_t gpc = 0;           // of the machine
  std::uint32_t number = 0;        // of the unit in its GPC
  std::uint32_t units = 1;         // of the GPC
  std::uint32_t per_unit = 1;      // SMs of each unit of the GPC: bit b belongs to unit b / per_unit
  std::uint32_t first = 0;         // bit of the GPC's masks
  std::vector<std::uint32_t> ids;  // of the SMs in the machine
  std::uint64_t memory = 0;        // bytes of device memory

  std::uint32_t sms() const { return static_cast<std::uint32_t>(ids.size()); }
};

// What one stage tells others that it does not know. `sm`: of the unit.
class StageEvents {
 public:
  // SmPorts: memory has answered; the port takes line requests again from that cycle on.
  virtual void answered(protocol::MemoryRequest& request, std::uint32_t sm, Cycle arrival) = 0;
  virtual void port_free(Cycle when) = 0;
  // SetupUnit: it is known from when on the next descriptor can be looked up.
  virtual void look_up_free() = 0;
  // BulkGenerator: all lines of a request have been generated; places behind the queue have become free.
  virtual void all_generated(BulkWork& work) = 0;
  virtual void place_behind_queue() = 0;
  // SharedDelivery: so many packets of a request have been delivered, or will be at `when` (TMA-31).
  virtual void acknowledged(std::uint32_t number, std::uint32_t count, std::uint8_t phase, Cycle when) = 0;

 protected:
  ~StageEvents() = default;
};

struct TmauContext {
  Timebase& timebase;
  const TmauParams& params;
  const TmauPlace& place;
  WorkTable& works;
  TmauStats& stats;
  StageEvents& events;
  const char* module;  // name of the unit's module, for messages
  std::string path;    // of the unit in its machine

  Cycle now() const { return timebase.now(); }
  // An SM's line that the request waits and is generated in (TMA-44).
  std::uint32_t lanes() const { return place.sms() * params.lanes(); }
  std::uint32_t lane_of(const BulkWork& work) const {
    const bool other =
        params.queues == Queues::by_kind ? work.request().tensor : work.request().kind == arch::BulkKind::prefetch;
    return work.sm * params.lanes() + (params.queues != Queues::one && other ? 1 : 0);
  }
  std::uint32_t sm_of(std::uint32_t lane) const { return lane / params.lanes(); }
  bool blocking() const { return heddle::has_calls(timebase.mode()); }

  // Names for messages.
  std::string name_of(const BulkWork& work) const {
    return std::string(arch::bulk_name(work.kind())) + " of SM " + std::to_string(place.ids[work.sm]) + ", CTA " +
           std::to_string(work.packet.cta) + ", warp " + std::to_string(work.packet.warp);
  }
  std::string drain_of(std::uint32_t sm) const { return "drain of SM " + std::to_string(place.ids[sm]); }
};

}  // namespace heddle::tmau
