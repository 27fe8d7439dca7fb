// A queue without allocations once it has reached its size.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace heddle::memory {

template <class T>
class L2Ring {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& front() { return items_[head_]; }
  const T& front() const { return items_[head_]; }
  // The place counts from the front.
  const T& at(std::size_t place) const { return items_[(head_ + place) & (items_.size() - 1)]; }
  void push(const T& item) {
    if (size_ == items_.size()) grow();
    items_[(head_ + size_) & (items_.size() - 1)] = item;
    ++size_;
  }
  T pop() {
    T item = std::move(items_[head_]);
    head_ = (head_ + 1) & (items_.size() - 1);
    --size_;
    return item;
  }
  void clear() { head_ = size_ = 0; }

 private:
  void grow() {
    std::vector<T> bigger(items_.empty() ? 8 : items_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i) bigger[i] = std::move(items_[(head_ + i) & (items_.size() - 1)]);
    items_ = std::move(bigger);
    head_ = 0;
  }

  std::vector<T> items_;  // a power of two of them
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace heddle::memory
