// write_back of all L2 slices by the memory hub: a request to each, answered when all have answered. Requests that come
// while one is under way share the next.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/domain.h"
#include "common/memory_socket.h"
#include "protocol/memory_request.h"

namespace heddle::host {

class HubFlush final : private EventHandler {
 public:
  class Listener {
   public:
    // A request to write back is done; its response leaves at `when`.
    virtual void on_flushed(std::uint32_t slot, tlm::tlm_response_status status, Cycle when) = 0;

   protected:
    ~Listener() = default;
  };
  using Slices = std::vector<std::unique_ptr<MemoryOut>>;

  // `name`: for messages; `latency`: cycles to a slice, and back. All references must outlive it.
  HubFlush(const char* name, Domain& domain, const Slices& slices, Cycle latency, Listener& listener)
      : name_(name), domain_(domain), slices_(slices), latency_(latency), listener_(listener) {}

  // For a request that the hub keeps in that slot.
  void add(std::uint32_t slot);
  // Sends what slices had no room for.
  void send();
  // True if it is an answer to one of these requests.
  bool on_answer(tlm::tlm_generic_payload& payload, std::uint32_t slice, Cycle arrival);

  std::size_t payloads() const { return pool_.in_use(); }
  // The slices are reset as well, and do not look at the requests any more.
  void reset();

 private:
  // A slice's part of the walk that is under way.
  struct Part {
    protocol::MemoryRequest* request = nullptr;  // null: answered
    bool sent = true;
  };

  void begin();
  void call();
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return name_; }

  const char* name_;
  Domain& domain_;
  const Slices& slices_;
  const Cycle latency_;
  Listener& listener_;
  protocol::RequestPool pool_;
  std::vector<std::uint32_t> current_;  // slots
  std::vector<std::uint32_t> next_;
  std::vector<Part> parts_;  // by slice
  std::uint32_t open_ = 0;   // slices that have not answered
  tlm::tlm_response_status status_ = tlm::TLM_OK_RESPONSE;
};

}  // namespace heddle::host
