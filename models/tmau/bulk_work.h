// A request that a tensor memory access unit works on, from its arrival to its completion, and the table of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "common/cycle.h"
#include "common/index_pool.h"
#include "protocol/memory_request.h"
#include "protocol/sm_tmau.h"
#include "tmau/line_generator.h"

namespace heddle::tmau {

constexpr Cycle kNotYet = ~Cycle{0};

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
  arch::TensorRule rule = arch::TensorRule::none;  // that it breaks
  Cycle arrival = 0;
  Cycle earliest = kNotYet;  // of its generation
  Cycle last = 0;            // the latest of what it comes to, so far
  std::uint32_t reads = 0;   // pieces that shared memory has not given, or brought to their receiver
  Cycle last_read = 0;
  Cycle generated_at = 0;
  std::uint32_t answers = 0;           // line requests that memory has not answered
  std::uint32_t acknowledgements = 0;  // deliveries that other units have not confirmed
  std::uint64_t pieces = 0;
  std::uint64_t bytes = 0;
  std::optional<BulkFailure> failure;

  const arch::BulkRequest& request() const { return packet.request; }
  arch::BulkKind kind() const { return packet.request.kind; }
  // Its bytes come from shared memory.
  bool reads_shared() const {
    return kind() == arch::BulkKind::store || kind() == arch::BulkKind::reduce || kind() == arch::BulkKind::send;
  }
  bool generated() const { return stage == Stage::completion; }
  bool over() const { return generated() && reads == 0 && answers == 0 && acknowledgements == 0; }
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

}  // namespace heddle::tmau
