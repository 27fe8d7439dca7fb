// The packet processor's requests to memory: sent in the order in which they are asked for, answered in any. A busy
// channel only makes them wait here.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/unified_address.h"
#include "common/domain.h"
#include "common/memory_socket.h"
#include "common/ring.h"
#include "protocol/memory_request.h"

namespace heddle::packet {

// What an answer is for.
struct MemoryTag {
  enum class Use : std::uint8_t {
    ring,           // `index`: of the packet
    slot_cleared,   // `index`
    read_index,     // `index`: the new value
    table_read,     // `part`: entry; of packet `slot`, `generation`
    table_write,    // `part`: entry; of the packet
    kernel_object,  // `part`: the first kernel of the packet that needs it
    dependency,     // `part`: which signal of the packet
    fence,          // of clean-up `slot`, as all below
    signal,
    mailbox_read,
    mailbox_write,
  };
  Use use = Use::ring;
  std::uint32_t queue = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint32_t part = 0;
  std::uint64_t index = 0;
};

struct MemoryAnswer {
  MemoryTag tag;
  bool ok = false;  // no error, and the data are not corrupt
  std::uint32_t bytes = 0;
  std::array<std::uint8_t, arch::kLineBytes> data{};
};

class MemoryClient {
 public:
  // Enters events into the domain for `handler`: `answer_event` with an argument for take(), `send_event` for send().
  MemoryClient(Domain& domain, MemoryOut& out, EventHandler& handler, std::uint32_t answer_event,
               std::uint32_t send_event);

  // Ranges lie within a line.
  void read(std::uint64_t address, std::uint32_t bytes, std::uint8_t subcontext, const MemoryTag& tag);
  void write(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, std::uint8_t subcontext,
             const MemoryTag& tag);
  void write_value(std::uint64_t address, std::uint64_t value, std::uint32_t bytes, std::uint8_t subcontext,
                   const MemoryTag& tag);
  // 64-bit atomic subtraction of one.
  void decrement(std::uint64_t address, std::uint8_t subcontext, const MemoryTag& tag);
  // All slices write back what is dirty (MEM-06).
  void write_back(const MemoryTag& tag);

  void send();
  MemoryAnswer take(std::uint64_t argument);

  // Requests that have not been answered.
  std::size_t open() const { return open_count_; }
  std::size_t payloads() const { return pool_.in_use(); }  // those of before a reset included
  void reset();

 private:
  struct Open {
    protocol::MemoryRequest* request = nullptr;
    MemoryTag tag;
    bool answered = false;
    bool sent = false;
  };

  protocol::MemoryRequest& acquire(std::uint8_t subcontext);
  void submit(protocol::MemoryRequest& request, const MemoryTag& tag);
  bool on_answer(tlm::tlm_generic_payload& payload, std::uint32_t index, Cycle arrival);
  void on_room(std::uint32_t index, Cycle when);

  Domain& domain_;
  MemoryOut& out_;
  EventHandler& handler_;
  const std::uint32_t answer_event_;
  const std::uint32_t send_event_;
  protocol::RequestPool pool_;
  std::vector<Open> open_;
  std::vector<std::uint32_t> free_;
  Ring<std::uint32_t> waiting_;
  std::size_t open_count_ = 0;
  std::vector<protocol::MemoryRequest*> stale_;  // still with the memory when the block was reset
};

}  // namespace heddle::packet
