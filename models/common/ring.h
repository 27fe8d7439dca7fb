// A queue in one array: grows when it is full, never shrinks.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace heddle {

template <class T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& front() { return items_[begin_]; }
  const T& front() const { return items_[begin_]; }
  // The place counts from the front.
  T& at(std::size_t place) { return items_[(begin_ + place) & (items_.size() - 1)]; }
  const T& at(std::size_t place) const { return items_[(begin_ + place) & (items_.size() - 1)]; }
  void push(const T& item) {
    if (size_ == items_.size()) grow();
    ++size_;
    at(size_ - 1) = item;
  }
  // In front of all items for which later(that item, item) holds; those must be at the end.
  template <class Later>
  void insert(const T& item, Later later) {
    push(item);
    std::size_t place = size_ - 1;
    for (; place > 0 && later(at(place - 1), item); --place) at(place) = at(place - 1);
    at(place) = item;
  }
  T pop() {
    T item = std::move(items_[begin_]);
    begin_ = (begin_ + 1) & (items_.size() - 1);
    --size_;
    return item;
  }
  void clear() { begin_ = size_ = 0; }

 private:
  void grow() {
    std::vector<T> larger(items_.empty() ? 8 : 2 * items_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move(at(i));
    items_ = std::move(larger);
    begin_ = 0;
  }

  std::vector<T> items_;  // a power of two
  std::size_t begin_ = 0;
  std::size_t size_ = 0;
};

}  // namespace heddle
