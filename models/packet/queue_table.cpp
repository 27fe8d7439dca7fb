#include "packet/queue_table.h"

#include "common/error.h"

namespace heddle::packet {

void QueueCore::open(std::uint64_t first, std::uint32_t size, std::uint32_t ahead) {
  *this = QueueCore();
  size_ = size;
  ahead_ = ahead;
  stopped_ = false;
  next_ = read_ = oldest_ = first;
}

bool QueueCore::ring(std::uint64_t index, Cycle when) {
  if (stopped_ || index < next_ || (told_any_ && index <= last_)) return false;
  told_any_ = true;
  last_ = index;
  // Packets that the ring has no place for yet: their doorbells need not be told apart.
  if (!told_.empty() && told_.back().index - read_ >= size_) {
    told_.back().index = index;
  } else {
    told_.push_back({index, when});
  }
  return true;
}

std::optional<std::uint64_t> QueueCore::next_read() {
  if (stopped_ || !told_any_) return std::nullopt;
  for (std::size_t place = 0; place < window_.size(); ++place) {
    if (window_[place].slot != Slot::unread) continue;
    window_[place].slot = Slot::reading;
    return next_ + place;
  }
  const std::uint64_t next = next_ + window_.size();
  if (window_.size() >= ahead_ || next > last_ || next - read_ >= size_) return std::nullopt;
  Fetched fetched;
  fetched.slot = Slot::reading;
  for (const Told& told : told_) {
    if (told.index < next) continue;
    fetched.doorbell = told.when;
    break;
  }
  window_.push_back(fetched);
  return next;
}

void QueueCore::arrived(std::uint64_t index, Slot slot, const arch::PacketBytes& bytes, Cycle when) {
  if (stopped_) return;
  HEDDLE_CHECK(in_window(index) && at(index).slot == Slot::reading, "a packet came that was not asked for");
  Fetched& fetched = at(index);
  fetched.slot = slot;
  if (slot == Slot::unpublished) return;
  fetched.bytes = bytes;
  fetched.fetched = when;
  // The producer is back: those behind may be there as well.
  for (std::uint64_t i = index + 1; in_window(i) && at(i).slot == Slot::unpublished; ++i) at(i).slot = Slot::unread;
}

bool QueueCore::wants_retry() const {
  for (const Fetched& fetched : window_) {
    if (fetched.slot == Slot::unpublished) return true;
    if (fetched.slot == Slot::reading || fetched.slot == Slot::unread) return false;
  }
  return false;
}

std::optional<std::uint64_t> QueueCore::retry() {
  for (std::size_t place = 0; place < window_.size(); ++place) {
    if (window_[place].slot != Slot::unpublished) continue;
    window_[place].slot = Slot::unread;
    return next_ + place;
  }
  return std::nullopt;
}

const QueueCore::Fetched* QueueCore::front() const {
  return head_taken_ || stopped_ || window_.empty() ? nullptr : &window_.front();
}

QueueCore::Fetched QueueCore::take_head() {
  HEDDLE_CHECK(front() != nullptr && front()->slot == Slot::published, "a packet began that is not there");
  Fetched fetched = window_.front();
  window_.pop_front();
  while (!told_.empty() && told_.front().index <= next_) told_.pop_front();
  ++next_;
  ++begun_;
  head_taken_ = true;
  cleared_.push_back(false);
  complete_.push_back(false);
  return fetched;
}

void QueueCore::release_head() {
  HEDDLE_CHECK(head_taken_, "a head was released that is not there");
  head_taken_ = false;
}

bool QueueCore::cleared(std::uint64_t index) {
  HEDDLE_CHECK(index - read_ < cleared_.size() && !cleared_[static_cast<std::size_t>(index - read_)],
               "a slot was cleared twice");
  cleared_[static_cast<std::size_t>(index - read_)] = true;
  const bool moves = cleared_.front();
  for (; !cleared_.empty() && cleared_.front(); cleared_.pop_front()) ++read_;
  return moves;
}

void QueueCore::complete(std::uint64_t index) {
  HEDDLE_CHECK(index - oldest_ < complete_.size() && !complete_[static_cast<std::size_t>(index - oldest_)],
               "a packet was complete twice");
  complete_[static_cast<std::size_t>(index - oldest_)] = true;
  for (; !complete_.empty() && complete_.front(); complete_.pop_front()) ++oldest_;
  --begun_;
}

std::uint64_t QueueCore::waiting() const {
  std::uint64_t count = 0;
  for (const Fetched& fetched : window_) count += fetched.slot == Slot::published || fetched.slot == Slot::failed;
  return count;
}

void QueueCore::stop() {
  stopped_ = true;
  window_.clear();
  told_.clear();
}

void QueueCore::drop_head() {
  HEDDLE_CHECK(head_taken_, "a head was dropped that is not there");
  complete(next_ - 1);
  head_taken_ = false;
}

}  // namespace heddle::packet
