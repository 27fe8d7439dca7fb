// A request that a tensor memory access unit works on, from its arrival to its completion.
#pragma once

#include <cstdint>

#include "common/clock.h"
#include "protocol/memory_request.h"
#include "protocol/sm_tmau.h"
#include "tmau/line_generator.h"

namespace heddle::tmau {

constexpr Cycle kNotYet = ~Cycle{0};

struct BulkWork {
  enum class Stage : std::uint8_t { input, queue, descriptor, setup, generation, completion };

  protocol::BulkRequestPacket packet;
  protocol::BulkTarget target;  // of its line requests, but for the piece
  LineGenerator lines;
  std::uint32_t sm = 0;  // of the unit
  Stage stage = Stage::input;
  std::uint8_t phase = 0;
  bool generated = false;
  bool flagged = false;
  bool read_told = false;
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
  bool failed = false;
  bool poisoned = false;  // failed: because of corrupt data
  bool unmapped = false;  // failed: in translation (PRT-08), here and below
  bool read_only = false;
  bool failed_write = false;
  std::uint64_t failed_address = 0;
  Cycle failed_at = 0;

  const arch::BulkRequest& request() const { return packet.request; }
  arch::BulkKind kind() const { return packet.request.kind; }
  // Its bytes come from shared memory.
  bool reads_shared() const {
    return kind() == arch::BulkKind::store || kind() == arch::BulkKind::reduce || kind() == arch::BulkKind::send;
  }
  bool over() const { return generated && reads == 0 && answers == 0 && acknowledgements == 0; }
  // The first error counts.
  void fail(std::uint64_t address, Cycle when, bool poison) {
    if (failed && failed_at <= when) return;
    failed = true;
    poisoned = poison;
    failed_address = address;
    failed_at = when;
    unmapped = read_only = failed_write = false;
  }
  // The same for an answer of memory with an error.
  void fail(tlm::tlm_generic_payload& payload, Cycle when) {
    if (failed && failed_at <= when) return;
    fail(payload.get_address(), when, false);
    const protocol::MemoryExtension* extension = protocol::extension_of(payload);
    unmapped = extension != nullptr && extension->unmapped;
    read_only = unmapped && payload.get_response_status() == tlm::TLM_COMMAND_ERROR_RESPONSE;
    failed_write = !payload.is_read();
  }
  void note(Cycle when) { last = last > when ? last : when; }
};

}  // namespace heddle::tmau
