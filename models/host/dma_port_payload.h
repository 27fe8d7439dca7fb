// What the DMA initiator sends: plain payloads of its own, which others may keep for as long as they like.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <tlm>

#include "common/cycle.h"
#include "host/dma_requester.h"
#include "protocol/memory_request.h"

namespace heddle::host {

class DmaPayload final : public tlm::tlm_generic_payload {
 public:
  enum class State : std::uint8_t {
    free,
    inside,  // of the device
    away,    // the target has it and owes its response
    stale,   // the same, of before a reset: it may still take effect
    lost,    // the same, and nobody expects the response any more
  };

  explicit DmaPayload(tlm::tlm_mm_interface* pool) : tlm::tlm_generic_payload(pool) { set_extension(&requester); }
  ~DmaPayload() override {
    forget_extension();
    clear_extension(&requester);
  }
  DmaPayload(const DmaPayload&) = delete;
  DmaPayload& operator=(const DmaPayload&) = delete;

  // Complete and correct in every field (HST-02).
  void aim(tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes) {
    called = false;
    place = address;
    place_bytes = bytes;
    changes = command != tlm::TLM_READ_COMMAND;
    set_command(command);
    set_address(address);
    set_data_ptr(data.data());
    set_data_length(bytes);
    set_streaming_width(bytes);
    set_byte_enable_ptr(nullptr);
    set_byte_enable_length(0);
    set_dmi_allowed(false);
    set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  }
  // The question whether the target knows our extension.
  void use_extension() {
    set_extension(&extension);
    extended_ = true;
  }
  void forget_extension() {
    if (extended_) clear_extension(&extension);
    extended_ = false;
  }

  State state = State::free;
  std::uint32_t job = 0;
  std::uint32_t first = 0;        // index of its first byte in the data of the request
  std::uint64_t place = 0;        // its address when it left: who passes it on may change the payload's
  std::uint32_t place_bytes = 0;  // and its length
  bool changes = false;           // the target's memory
  bool called = false;            // it goes with b_transport
  Cycle sent = 0;                 // to the target
  sc_core::sc_time deadline;      // its answer counts as lost then
  std::array<std::uint8_t, arch::kLineBytes> data{};
  protocol::MemoryExtension extension;
  DmaRequester requester;

 private:
  bool extended_ = false;
};

class DmaPayloadPool final : public tlm::tlm_mm_interface {
 public:
  // With one reference.
  DmaPayload& acquire() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<DmaPayload>(this));
      free_.push_back(all_.back().get());
    }
    DmaPayload& payload = *free_.back();
    free_.pop_back();
    payload.acquire();
    payload.state = DmaPayload::State::inside;
    return payload;
  }
  const std::vector<std::unique_ptr<DmaPayload>>& all() const { return all_; }
  std::size_t in_use() const { return all_.size() - free_.size(); }

 private:
  void free(tlm::tlm_generic_payload* payload) override {
    auto& own = static_cast<DmaPayload&>(*payload);  // NOLINT(*-static-cast-downcast): its memory manager
    own.forget_extension();
    own.reset();  // extensions that others have attached for this transaction
    own.state = DmaPayload::State::free;
    free_.push_back(&own);
  }

  std::vector<std::unique_ptr<DmaPayload>> all_;
  std::vector<DmaPayload*> free_;
};

}  // namespace heddle::host
