// A queue that costs nothing until something is in it: a std::deque takes 600 bytes as soon as it is made, and a
// machine has a hundred thousand queues, most of which are never used.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace heddle {

// First in, first out, in one piece of memory, which grows to what was needed. Addresses are valid until the next
// push_back().
template <class T>
class Fifo {
 public:
  using iterator = typename std::vector<T>::iterator;
  using const_iterator = typename std::vector<T>::const_iterator;

  bool empty() const { return first_ == items_.size(); }
  std::size_t size() const { return items_.size() - first_; }
  std::size_t capacity() const { return items_.capacity(); }
  T& front() { return items_[first_]; }
  const T& front() const { return items_[first_]; }
  T& operator[](std::size_t place) { return items_[first_ + place]; }
  const T& operator[](std::size_t place) const { return items_[first_ + place]; }
  iterator begin() { return items_.begin() + static_cast<std::ptrdiff_t>(first_); }
  iterator end() { return items_.end(); }
  const_iterator begin() const { return items_.begin() + static_cast<std::ptrdiff_t>(first_); }
  const_iterator end() const { return items_.end(); }

  // Amortised over as many pushes, what has gone makes room.
  void push_back(T item) {
    if (first_ > 0 && items_.size() == items_.capacity() && 2 * first_ >= items_.size()) {
      items_.erase(items_.begin(), begin());
      first_ = 0;
    }
    items_.push_back(std::move(item));
  }
  void pop_front() {
    if (++first_ < items_.size()) return;
    items_.clear();
    first_ = 0;
  }
  void clear() {
    items_.clear();
    first_ = 0;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0;
};

}  // namespace heddle
