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

// A value out of reach tells of nothing: the ring has no place for such a packet.
bool QueueCore::ring(std::uint64_t index, Cycle when) {
  if (stopped_) return false;
  looks_ = true;
  bell_ = when;
  const bool in_reach = index >= next_ && index - read_ < size_;
  if (in_reach && !told(index)) {
    // Those that were looked at untold, and are being read.
    for (std::uint64_t i = next_; i <= index && in_window(i); ++i) {
      if (!told(i) && at(i).slot == Slot::reading) at(i).doorbell = when;
    }
    told_any_ = true;
    last_ = index;
    told_.push_back({index, when});
  }
  look_again(next_);
  for (Fetched& fetched : window_) fetched.again = fetched.again || fetched.slot == Slot::reading;
  return true;
}

// The first packet from there on that was not published is read again. Those behind it follow once it is there.
void QueueCore::look_again(std::uint64_t from) {
  for (std::uint64_t index = from; in_window(index); ++index) {
    Slot& slot = at(index).slot;
    if (slot == Slot::reading || slot == Slot::unread) return;
    if (slot != Slot::unpublished) continue;
    slot = Slot::unread;
    return;
  }
}

std::optional<std::uint64_t> QueueCore::next_read() {
  if (stopped_) return std::nullopt;
  for (std::size_t place = 0; place < window_.size(); ++place) {
    if (window_[place].slot != Slot::unread) continue;
    window_[place].slot = Slot::reading;
    return next_ + place;
  }
  const std::uint64_t next = next_ + window_.size();
  if (window_.size() >= ahead_ || next - read_ >= size_) return std::nullopt;
  if (!told(next) && !(looks_ && waiting() == window_.size())) return std::nullopt;
  Fetched fetched;
  fetched.slot = Slot::reading;
  fetched.doorbell = bell_;
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
  const bool again = fetched.again;
  fetched.again = false;
  if (slot != Slot::unpublished) {
    fetched.slot = slot;
    fetched.bytes = bytes;
    fetched.fetched = when;
    look_again(index + 1);
  } else if (again) {
    fetched.slot = Slot::unread;
  } else if (told(index)) {
    fetched.slot = Slot::unpublished;
  } else {
    looks_ = false;  // here ends what is there
    window_.pop_back();
  }
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
