#include "task/stream_events.h"

#include <algorithm>

#include <fmt/format.h>

namespace heddle::task {

void StreamEvents::over(const MarkOver& effect) {
  awaiting_.erase(effect.record);
  ++observation_.progress;
  scheduler_.enter(ended_chain(memory_.part_at(effect.record), effect.record));
}

void StreamEvents::awaited(const EventAwaited& effect) {
  awaiting_[effect.record] = effect;
  stats_.event_waits.add();
  ++observation_.progress;
}

std::string StreamEvents::name(std::uint64_t record) const {
  if (awaiting_.count(record) != 0) return fmt::format("a stream's wait for an event, at 0x{:x}", record);
  const bool is_awaited = std::any_of(awaiting_.begin(), awaiting_.end(),
                                      [record](const auto& wait) { return wait.second.awaited == record; });
  return is_awaited ? fmt::format("the record of an event, at 0x{:x}", record) : std::string();
}

void StreamEvents::collect_waits(WaitGraph& graph, const std::function<std::string(std::uint32_t)>& label,
                                 const std::function<std::string(std::uint64_t)>& name) const {
  for (const auto& [record, wait] : awaiting_) {
    graph.add(name(record), "for", name(wait.awaited));
    const Task* grid = tasks_.of_record(wait.grid);
    if (grid != nullptr) graph.add("children of " + label(grid->operation()), "for the end of", name(record));
  }
}

}  // namespace heddle::task
