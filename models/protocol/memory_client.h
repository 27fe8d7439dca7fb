// A block's requests to memory, one event per answer: sent in the order in which they are asked for, answered in any. A
// busy channel only makes them wait here. Every request carries a tag of the block's own, which its answer brings back.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/domain.h"
#include "common/error.h"
#include "common/index_pool.h"
#include "common/memory_socket.h"
#include "protocol/memory_request.h"

namespace heddle::protocol {

// Where addresses are translated, physical ones are not, whatever the subcontext (MEM-04).
enum class AddressSpace : std::uint8_t { of_subcontext, physical };

template <class Tag>
class MemoryClient {
 public:
  struct Answer {
    Tag tag{};
    bool ok = false;        // no error, and the data are not corrupt
    bool unmapped = false;  // the error is one of translation
    std::uint32_t bytes = 0;
    std::uint64_t old = 0;                              // of an atomic: the value before
    std::array<std::uint8_t, arch::kLineBytes> data{};  // of a read
  };

  // Enters events into the domain for `handler`: `answer_event` with an argument for take(), `send_event` for send().
  MemoryClient(Domain& domain, MemoryOut& out, EventHandler& handler, std::uint32_t answer_event,
               std::uint32_t send_event, AddressSpace space = AddressSpace::of_subcontext)
      : domain_(domain),
        out_(out),
        handler_(handler),
        answer_event_(answer_event),
        send_event_(send_event),
        space_(space) {
    out.connect<MemoryClient, &MemoryClient::on_answer, &MemoryClient::on_room>(*this);
  }

  // Ranges lie within a line. `space`: where an address is none of the space that the client has its addresses in.
  void read(std::uint64_t address, std::uint32_t bytes, std::uint8_t subcontext, const Tag& tag,
            std::optional<AddressSpace> space = std::nullopt) {
    MemoryRequest& request = acquire(subcontext, space);
    request.aim(tlm::TLM_READ_COMMAND, address, bytes);
    submit(request, tag);
  }
  // The same, and a WrittenPacket comes with `watch`, which is not 0, when the line may have changed after the read.
  void watch(std::uint64_t address, std::uint32_t bytes, std::uint8_t subcontext, std::uint64_t watch, const Tag& tag) {
    MemoryRequest& request = acquire(subcontext);
    request.aim(tlm::TLM_READ_COMMAND, address, bytes);
    request.extension.watch = watch;
    submit(request, tag);
  }
  void write(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, std::uint8_t subcontext,
             const Tag& tag, std::optional<AddressSpace> space = std::nullopt) {
    MemoryRequest& request = acquire(subcontext, space);
    request.aim(tlm::TLM_WRITE_COMMAND, address, bytes);
    std::copy_n(data, bytes, request.data.begin());
    submit(request, tag);
  }
  void write_value(std::uint64_t address, std::uint64_t value, std::uint32_t bytes, std::uint8_t subcontext,
                   const Tag& tag) {
    std::array<std::uint8_t, 8> data{};
    for (std::uint32_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(value >> 8 * i);
    write(address, data.data(), bytes, subcontext, tag);
  }

  // Atomics of 64 aligned bits.
  void add(std::uint64_t address, std::uint64_t value, std::uint8_t subcontext, const Tag& tag) {
    atomic(arch::AtomicKind::add, address, value, 0, subcontext, tag);
  }
  void decrement(std::uint64_t address, std::uint8_t subcontext, const Tag& tag) {
    add(address, ~std::uint64_t{0}, subcontext, tag);
  }
  void exchange(std::uint64_t address, std::uint64_t value, std::uint8_t subcontext, const Tag& tag) {
    atomic(arch::AtomicKind::exchange, address, value, 0, subcontext, tag);
  }
  // `value`, if `compare` was there.
  void compare_exchange(std::uint64_t address, std::uint64_t compare, std::uint64_t value, std::uint8_t subcontext,
                        const Tag& tag) {
    atomic(arch::AtomicKind::compare_exchange, address, value, compare, subcontext, tag);
  }

  // All slices write back what is dirty (MEM-06).
  void write_back(const Tag& tag) { walk(MemoryAction::write_back, tag); }
  // All slices forget what others may have changed in memory (MEM-06).
  void invalidate(const Tag& tag) { walk(MemoryAction::invalidate, tag); }

  void send() {
    while (!waiting_.empty() && out_.can_send()) {
      const std::uint32_t number = waiting_.pop();
      open_[number].sent = true;
      out_.send(*open_[number].request, domain_.now());
    }
  }

  Answer take(std::uint64_t argument) {
    const auto number = static_cast<std::uint32_t>(argument);
    HEDDLE_CHECK(open_.holds(number), "an answer to a request that is not open");
    Open& open = open_[number];
    MemoryRequest& request = *open.request;
    Answer answer;
    answer.tag = open.tag;
    answer.ok = request.is_response_ok() && !request.extension.poisoned;
    answer.unmapped = request.extension.unmapped;
    answer.bytes = request.get_data_length();
    if (request.is_read()) std::copy_n(request.data.begin(), answer.bytes, answer.data.begin());
    if (request.extension.action == MemoryAction::atomic) answer.old = request.extension.lane[0].old;
    open_.give_back(number);
    request.release();
    return answer;
  }

  // Requests that have not been answered.
  std::size_t open() const { return open_.in_use(); }
  std::size_t payloads() const { return pool_.in_use(); }  // those of before a reset included

  void reset() {
    open_.for_each([this](const Open& open) {
      if (open.answered || !open.sent) {
        open.request->release();
      } else {
        stale_.push_back(open.request);  // the memory may not have been reset
      }
    });
    open_.clear();
    waiting_.clear();
  }

 private:
  struct Open {
    MemoryRequest* request = nullptr;
    Tag tag{};
    bool answered = false;
    bool sent = false;
  };

  MemoryRequest& acquire(std::uint8_t subcontext, std::optional<AddressSpace> space = std::nullopt) {
    MemoryRequest& request = pool_.acquire();
    request.extension.subcontext = subcontext;
    request.extension.physical = space.value_or(space_) == AddressSpace::physical;
    return request;
  }

  void walk(MemoryAction action, const Tag& tag) {
    MemoryRequest& request = acquire(0);
    request.aim(tlm::TLM_IGNORE_COMMAND, 0, arch::kSectorBytes);
    request.extension.sectors = 0;
    request.extension.action = action;
    submit(request, tag);
  }

  void atomic(arch::AtomicKind kind, std::uint64_t address, std::uint64_t operand, std::uint64_t compare,
              std::uint8_t subcontext, const Tag& tag) {
    MemoryRequest& request = acquire(subcontext);
    request.aim(tlm::TLM_IGNORE_COMMAND, address, 8);
    MemoryExtension& extension = request.extension;
    extension.action = MemoryAction::atomic;
    extension.atomic = kind;
    extension.type = arch::ValueType::u64;
    extension.lanes = 1;
    extension.lane[0].operand = operand;
    extension.lane[0].compare = compare;
    extension.lane[0].offset = static_cast<std::uint8_t>(address % arch::kLineBytes);
    extension.lane[0].lane = 0;
    submit(request, tag);
  }

  void submit(MemoryRequest& request, const Tag& tag) {
    const std::uint32_t number = open_.take();
    open_[number] = {&request, tag, false, false};
    request.extension.entry = number;
    waiting_.push(number);
    send();
  }

  void on_room(std::uint32_t, Cycle when) { domain_.schedule(std::max(when, domain_.now()), handler_, send_event_); }

  // There is always room: whoever waits for the answer has a place already.
  bool on_answer(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
    const MemoryExtension* extension = extension_of(payload);
    const bool known =
        extension != nullptr && open_.holds(extension->entry) && open_[extension->entry].request == &payload;
    if (!known) {
      const auto found = std::find(stale_.begin(), stale_.end(), &payload);
      if (found == stale_.end()) return true;
      (*found)->release();
      stale_.erase(found);
      return true;
    }
    Open& open = open_[extension->entry];
    if (open.answered) return true;
    open.answered = true;
    domain_.schedule(std::max(arrival, domain_.now()), handler_, answer_event_, extension->entry);
    return true;
  }

  Domain& domain_;
  MemoryOut& out_;
  EventHandler& handler_;
  const std::uint32_t answer_event_;
  const std::uint32_t send_event_;
  const AddressSpace space_;
  RequestPool pool_;
  IndexPool<Open> open_;  // not answered
  Ring<std::uint32_t> waiting_;
  std::vector<MemoryRequest*> stale_;  // still with the memory when the block was reset
};

}  // namespace heddle::protocol
