// A task on its way through the lists and the distributor.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "protocol/host_task.h"
#include "protocol/task_cwd.h"
#include "task/nested_chain.h"

namespace heddle::task {

constexpr std::uint32_t kNoOperation = ~std::uint32_t{0};

struct Task {
  enum class Origin : std::uint8_t {
    stream,    // of the host
    packet,    // of the packet processor
    child,     // launched by device code
    restored,  // a CTA that was saved
  };
  Origin origin = Origin::stream;
  protocol::TaskPacket packet;
  std::uint64_t source = 0;   // whose turn it takes (task/priority_lists.h)
  bool head = false;          // it goes to the head of its list
  bool launches = false;      // it needs a TMD
  bool holds_record = false;  // has one, or is being given one, and has not been sent
  bool waiting = false;       // in the list of its priority
  bool sent = false;
  bool run_over = false;  // nothing of it runs, or will: it waits for its descendants
  protocol::DoneStatus status = protocol::DoneStatus::ok;
  std::uint32_t stream = 0;  // of the host
  std::uint64_t queue = 0;   // of a queue task
  std::uint32_t lent = 0;    // code to be given back
  bool held_open = false;
  std::uint64_t entries = 0;

  // Of a child.
  ChildRecord child;
  std::uint32_t parent = kNoOperation;
  std::uint32_t behind = kNoOperation;  // ended right before it in its TMDQ
  std::uint32_t behind_stream = 0;
  std::string behind_name;  // for the timeline: its label is forgotten with its end
  bool issue_known = false;

  // Cycles, as far as it has come.
  Cycle issued = 0;   // launch operation
  Cycle arrived = 0;  // start packet, or the end of what was ahead of it
  Cycle read = 0;     // TMD and kernel object
  Cycle listed = 0;
  Cycle sent_at = 0;
  Cycle start = 0;                               // first launch packet
  Cycle end = 0;                                 // of its run
  std::vector<std::pair<Cycle, Cycle>> evicted;  // from, until; until 0: still

  std::uint32_t operation() const { return packet.operation; }
  std::uint64_t record() const { return packet.record; }
};

}  // namespace heddle::task
