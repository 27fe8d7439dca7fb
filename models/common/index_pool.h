// Places for things that come and go, known by a small number while they are there: request ids, records under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/error.h"

namespace heddle {

// A vector with a list of free places: indices stay valid until they are given back. With a deque, so do addresses.
template <class T, class Items = std::vector<T>>
class IndexPool {
 public:
  std::uint32_t take() {
    ++in_use_;
    while (!free_.empty()) {
      const std::uint32_t index = free_.back();
      free_.pop_back();
      const bool taken = places_[index] == Place::taken_listed;  // by take_at()
      places_[index] = Place::taken;
      if (!taken) return index;
    }
    items_.emplace_back();
    places_.push_back(Place::taken);
    return static_cast<std::uint32_t>(items_.size() - 1);
  }
  // A place that is free, or not there yet.
  void take_at(std::uint32_t index) {
    HEDDLE_CHECK(!holds(index), "a place was taken twice");
    while (items_.size() <= index) {
      free_.push_back(static_cast<std::uint32_t>(items_.size()));
      items_.emplace_back();
      places_.push_back(Place::free);
    }
    places_[index] = Place::taken_listed;
    ++in_use_;
  }
  void give_back(std::uint32_t index) {
    HEDDLE_CHECK(holds(index), "a place was given back twice");
    if (places_[index] == Place::taken) free_.push_back(index);
    places_[index] = Place::free;
    --in_use_;
  }
  // Taken and not given back.
  bool holds(std::uint32_t index) const { return index < items_.size() && places_[index] != Place::free; }
  T& operator[](std::uint32_t index) { return items_[index]; }
  const T& operator[](std::uint32_t index) const { return items_[index]; }
  // Places, free ones included.
  std::size_t size() const { return items_.size(); }
  std::size_t in_use() const { return in_use_; }

  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      if (places_[i] != Place::free) visit(items_[i]);
    }
  }
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      if (places_[i] != Place::free) visit(items_[i]);
    }
  }
  // visit(place) instead.
  template <class Visit>
  void for_each_index(Visit&& visit) const {
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      if (places_[i] != Place::free) visit(i);
    }
  }
  void clear() {
    items_.clear();
    places_.clear();
    free_.clear();
    in_use_ = 0;
  }

 private:
  // Every free place is listed in free_. One that take_at() has taken stays there, and is passed over when it comes up.
  enum class Place : std::uint8_t { free, taken, taken_listed };

  Items items_;
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_;
  std::size_t in_use_ = 0;
};

// A queue in one array: grows when it is full, never shrinks.
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
