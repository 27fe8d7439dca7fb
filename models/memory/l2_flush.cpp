#include "memory/l2_flush.h"

namespace heddle::memory {

bool L2Flush::begin(void* request) {
  if (current_.empty() && buffer_.empty() && array_.next_dirty(0) == kNone) return false;
  if (!current_.empty()) {
    next_.push_back(request);
    return true;
  }
  current_.push_back(request);
  cursor_ = 0;
  status_ = kL2Ok;
  advance();
  return true;
}

void L2Flush::note_failure(std::uint64_t order, int status) {
  if (!current_.empty() && (cursor_ != kNone || order <= last_order_)) status_ = status;
}

void L2Flush::advance() {
  while (!current_.empty()) {
    while (cursor_ != kNone) {
      const std::uint32_t index = array_.next_dirty(cursor_);
      if (index == kNone) {
        cursor_ = kNone;
        last_order_ = buffer_.last_order();
        break;
      }
      if (buffer_.full()) return;
      buffer_.start(buffer_.take(array_, index));
      cursor_ = index + 1;
    }
    if (buffer_.holds_up_to(last_order_)) return;
    L2Access access;
    access.kind = L2Access::Kind::write_back;
    for (void* request : current_) served_.push_back({request, status_, access});
    current_.clear();
    current_.swap(next_);
    cursor_ = 0;
    status_ = kL2Ok;
  }
  cursor_ = kNone;
}

void L2Flush::reset() {
  current_.clear();
  next_.clear();
  cursor_ = kNone;
  last_order_ = 0;
  status_ = kL2Ok;
}

}  // namespace heddle::memory
