#include "task/stream_front.h"

#include <algorithm>
#include <utility>

#include "arch/gpu_observation.h"
#include "task/channel.h"

namespace heddle::task {

StreamFront::StreamFront(Timebase& timebase, std::string name, const Costs& costs, LaunchScheduler& scheduler,
                         Client& client)
    : timebase_(timebase),
      name_(std::move(name)),
      costs_(costs),
      scheduler_(scheduler),
      client_(client),
      work_(idle_account(timebase), IdleAccount::Work::fronts) {}

void StreamFront::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto operation = static_cast<std::uint32_t>(argument);
  if (kind == kDue) return due(operation);
  const std::uint64_t first = channel::line(costs_.channels, started_.at(operation).stream, channel::kOperation);
  scheduler_.enter(fetch_chain(first, costs_.fetches, operation));
}

void StreamFront::due(std::uint32_t operation) {
  Open& open = started_.at(operation);
  if (open.waits) work_.remove();
  open.waits = false;
  client_.operation_due(operation);
}

// A stream's next operation starts no earlier than the gap after what it waited for; the way to the distributor and the
// session there are part of the gap. What the host submits to a stream that is idle has had its launch latency, which
// holds what the front end does.
void StreamFront::take(const Turn& turn) {
  const Cycle now = timebase_.now();
  const bool follows = turn.released && turn.submitted <= *turn.released;
  const Cycle taken = now + (follows ? costs_.front_end : 0);
  Cycle due = taken;
  if (turn.released) {
    const Cycle path = turn.kernel ? costs_.start_path : 0;
    due = std::max(due, *turn.released + (costs_.gap > path ? costs_.gap - path : 0));
  }
  Open open;
  open.stream = turn.stream;
  open.released = std::max(turn.submitted, turn.released.value_or(0));
  open.due = due;
  open.early = costs_.early && turn.kernel;
  open.waits = true;
  work_.add();
  started_[turn.operation] = open;
  if (follows && fetches()) {
    timebase_.schedule(taken, *this, kFetch, turn.operation);
  } else {
    timebase_.schedule(open.early ? taken : due, *this, kDue, turn.operation);
  }
}

void StreamFront::take_node(std::uint32_t operation, std::uint32_t stream) {
  if (!fetches()) return client_.node_taken(operation);
  scheduler_.enter(fetch_chain(channel::node_line(costs_.channels, stream, operation), 1, operation));
}

void StreamFront::start_node(std::uint32_t operation, std::uint32_t stream, Cycle released) {
  Open open;
  open.stream = stream;
  open.released = released;
  open.due = timebase_.now();
  started_[operation] = open;
  timebase_.schedule(open.due, *this, kDue, operation);
}

// A launch of a graph is known by the number of its last kernel, which is not taken up before its graph is due.
void StreamFront::fetched(std::uint32_t operation) {
  const auto found = started_.find(operation);
  if (found == started_.end()) return client_.node_taken(operation);
  Open& open = found->second;
  open.due = std::max(open.due, timebase_.now());
  timebase_.schedule(open.early ? timebase_.now() : open.due, *this, kDue, operation);
}

}  // namespace heddle::task
