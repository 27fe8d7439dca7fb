// Writes that calls have sent over links, until they come to the memory that they are for (LNK-05). Plain C++.
//
// A call is made when its request sets out. What it reads it is given at once, but what it writes must not be seen
// there before it comes: whoever polls would learn of it too early by the whole way. So a write waits here for its
// time. What else reaches the line finds it done if it comes no sooner: as whatever follows it on its way.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "common/cycle.h"
#include "common/index_pool.h"
#include "protocol/memory_request.h"

namespace heddle::link {

class LateWrites {
 public:
  // A copy of a write, or of a reduction whose old values nobody wants. Gives its number, for take().
  std::uint32_t add(const tlm::tlm_generic_payload& payload, std::uint64_t address, Cycle arrival);
  bool any() const { return writes_.in_use() != 0; }
  // Whether a write to the line is on its way.
  bool covers(std::uint64_t address) const { return lines_.count(address / arch::kLineBytes) != 0; }
  // Those to the lines of the range that come by then, each behind those sent before it to its line: visit(request).
  template <class Visit>
  void settle(std::uint64_t address, std::uint64_t bytes, Cycle until, Visit&& visit) {
    const std::uint64_t last = (address + bytes - 1) / arch::kLineBytes;
    for (std::uint64_t line = address / arch::kLineBytes; line <= last; ++line) {
      for (auto found = lines_.find(line); found != lines_.end(); found = lines_.find(line)) {
        if (writes_[found->second.front()].arrival > until) break;
        perform(found->second.front(), visit);
      }
    }
  }
  // The one with that number comes; nothing if it has been settled. Those before it in its line come first. `serial`:
  // what tells it from others that have had the number.
  template <class Visit>
  void come(std::uint32_t number, std::uint32_t serial, Visit&& visit) {
    while (writes_.holds(number) && writes_[number].serial == serial) {
      perform(lines_.at(writes_[number].line).front(), visit);
    }
  }
  std::uint32_t serial_of(std::uint32_t number) const { return writes_[number].serial; }
  std::size_t payloads() const { return pool_.in_use(); }
  void reset();

 private:
  struct Write {
    protocol::MemoryRequest* request = nullptr;
    std::uint64_t line = 0;
    Cycle arrival = 0;
    std::uint32_t serial = 0;
  };

  template <class Visit>
  void perform(std::uint32_t number, Visit& visit) {
    const Write write = writes_[number];
    Ring<std::uint32_t>& queue = lines_.at(write.line);
    queue.pop();
    if (queue.empty()) lines_.erase(write.line);
    writes_.give_back(number);
    visit(*write.request);
    write.request->release();
  }

  protocol::RequestPool pool_;
  IndexPool<Write> writes_;
  std::unordered_map<std::uint64_t, Ring<std::uint32_t>> lines_;  // looked up only
  std::uint32_t serial_ = 0;
};

// What a request is, without how it travels: a copy for another initiator, with the address of its target.
void copy_request(const tlm::tlm_generic_payload& from, std::uint64_t address, protocol::MemoryRequest& to);
// What its answer brings, to who asked.
void copy_answer(protocol::MemoryRequest& from, tlm::tlm_generic_payload& to);

}  // namespace heddle::link
