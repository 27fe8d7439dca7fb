#include "task/stream_table.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace heddle::task {

using protocol::SubmitKind;

StreamTable::Stream& StreamTable::stream(std::uint32_t number) {
  const auto [at, inserted] = streams_.try_emplace(number);
  if (inserted) order_.push_back(number);
  return at->second;
}

void StreamTable::submit(const protocol::SubmitPacket& packet, Cycle now) {
  Stream& s = stream(packet.stream);
  s.entries.push_back({packet, now, false});
  if (!ends_by_itself(packet.kind)) ++open_;
  if (s.entries.size() == 1) {
    advance(packet.stream);
  } else {
    advance_next(packet.stream);
  }
}

void StreamTable::let_go(std::uint32_t number, std::uint32_t operation) {
  Stream& s = stream(number);
  // Only what has been handed out runs: the head, and the one behind it.
  for (std::size_t i = 0; i < std::min<std::size_t>(2, s.entries.size()); ++i) {
    Entry& entry = s.entries[i];
    if (entry.packet.operation == operation && !ends_by_itself(entry.packet.kind)) entry.lets_go = true;
  }
  advance_next(number);
}

// One at a time is ahead of the head.
void StreamTable::advance_next(std::uint32_t number) {
  Stream& s = stream(number);
  if (!s.head_out || s.next_out || s.entries.size() < 2 || !s.entries[0].lets_go) return;
  const protocol::SubmitPacket& packet = s.entries[1].packet;
  if (packet.kind != SubmitKind::kernel || !packet.programmatic) return;
  s.next_out = true;
  ready_.push_back({number, std::nullopt, s.entries[0].packet.operation});
}

void StreamTable::complete(std::uint32_t number, Cycle end) {
  Stream& s = stream(number);
  HEDDLE_CHECK(s.head_out, "a stream's operation ended that had not begun");
  const std::uint32_t operation = s.entries.front().packet.operation;
  s.entries.pop_front();
  s.head_out = std::exchange(s.next_out, false);
  s.last_end = s.released = end;
  --open_;
  note_end(operation, end);
  advance(number);
  advance_next(number);
  release(operation);
}

void StreamTable::note_end(std::uint32_t operation, Cycle end) {
  HEDDLE_CHECK(ends_.emplace(operation, end).second, "an operation ended twice, or its id was used twice");
}

void StreamTable::ended_elsewhere(std::uint32_t operation, Cycle when) {
  note_end(operation, when);
  release(operation);
}

void StreamTable::release(std::uint32_t operation) {
  const auto waiting = waiters_.find(operation);
  if (waiting == waiters_.end()) return;
  const std::vector<std::uint32_t> released = std::move(waiting->second);
  waiters_.erase(waiting);
  for (const std::uint32_t other : released) advance(other);
}

void StreamTable::advance(std::uint32_t number) {
  Stream& s = stream(number);
  while (!s.head_out && !s.entries.empty()) {
    const protocol::SubmitPacket& packet = s.entries.front().packet;
    if (packet.kind == SubmitKind::wait) {
      if (!completed(packet.wait_for)) {
        waiters_[packet.wait_for].push_back(number);
        return;
      }
      s.released = std::max(s.released.value_or(0), ends_.at(packet.wait_for));
      s.entries.pop_front();
      continue;
    }
    if (packet.kind == SubmitKind::close) {
      closed_.push_back(packet.wait_for);
      s.entries.pop_front();
      continue;
    }
    s.head_out = true;
    ready_.push_back({number, s.released, std::nullopt});
  }
}

std::vector<StreamTable::Ready> StreamTable::take_ready() {
  std::vector<Ready> result;
  result.swap(ready_);
  return result;
}

std::vector<std::uint32_t> StreamTable::take_closed() {
  std::vector<std::uint32_t> result;
  result.swap(closed_);
  return result;
}

const StreamTable::Entry& StreamTable::head(std::uint32_t number) const { return streams_.at(number).entries.front(); }

const StreamTable::Entry& StreamTable::entry(std::uint32_t number, std::uint32_t operation) const {
  const Stream& s = streams_.at(number);
  return s.entries[s.next_out && s.entries[1].packet.operation == operation ? 1 : 0];
}

std::optional<StreamTable::Cycle> StreamTable::last_end(std::uint32_t number) const {
  const auto found = streams_.find(number);
  return found == streams_.end() ? std::nullopt : found->second.last_end;
}

void StreamTable::reset() {
  streams_.clear();
  order_.clear();
  waiters_.clear();
  ends_.clear();
  ready_.clear();
  closed_.clear();
  open_ = 0;
}

void QueueState::begin(std::uint64_t entries, bool held_open) {
  HEDDLE_CHECK(!begun_, "a queue task began twice");
  begun_ = true;
  held_ = held_open && !released_;
  prefix_ = entries;
  idle_ = entries == 0;
  // Entries that were appended before.
  early_.erase(early_.begin(), early_.lower_bound(entries));
  while (early_.erase(prefix_) != 0) ++prefix_;
}

void QueueState::appended(std::uint64_t ticket) {
  if (begun_ && ticket < prefix_) return;
  early_.insert(ticket);
  if (!begun_) return;
  while (early_.erase(prefix_) != 0) ++prefix_;
}

std::uint64_t QueueState::take_grown() {
  if (!begun_ || close_ == Close::closed) return 0;
  const std::uint64_t more = prefix_ - grown_;
  grown_ = prefix_;
  if (more > 0) idle_ = false;
  return more;
}

void QueueState::idle(std::uint64_t completed) {
  completed_ = completed;
  if (completed == grown_) idle_ = true;
}

void QueueState::release() {
  released_ = true;
  held_ = false;
}

bool QueueState::may_close() const {
  return begun_ && idle_ && !busy_ && !held_ && close_ == Close::open && prefix_ == grown_ && early_.empty();
}

std::uint64_t QueueState::start_close() {
  HEDDLE_CHECK(may_close(), "a queue was to be closed that is in use");
  close_ = Close::trying;
  tried_ = grown_;
  looks_again_ = false;
  return grown_;
}

void QueueState::less_busy() {
  busy_ = false;
  looks_again_ = true;
}

void QueueState::tried(bool closed, bool busy) {
  HEDDLE_CHECK(close_ == Close::trying, "the answer to closing a queue that nobody closes");
  close_ = closed ? Close::closed : Close::open;
  busy_ = busy && !looks_again_;
  // Until the entry that is on its way has completed; it may have come, and gone, in the meantime.
  if (!closed && !busy && grown_ == tried_) idle_ = false;
}

}  // namespace heddle::task
