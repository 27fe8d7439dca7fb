// Places for things that come and go, known by a small number while they are there: request ids, records under way.
#pragma once

#include <cstdint>
#include <vector>

#include "common/error.h"

namespace heddle {

// A vector with a list of free places: indices stay valid until they are given back.
template <class T>
class IndexPool {
 public:
  std::uint32_t take() {
    if (free_.empty()) {
      items_.emplace_back();
      used_.push_back(true);
      return static_cast<std::uint32_t>(items_.size() - 1);
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    used_[index] = true;
    return index;
  }
  void give_back(std::uint32_t index) {
    HEDDLE_CHECK(used_[index], "a place was given back twice");
    used_[index] = false;
    free_.push_back(index);
  }
  // Taken and not given back.
  bool holds(std::uint32_t index) const { return index < items_.size() && used_[index] != 0; }
  T& operator[](std::uint32_t index) { return items_[index]; }
  const T& operator[](std::uint32_t index) const { return items_[index]; }
  // Places, free ones included.
  std::size_t size() const { return items_.size(); }
  std::size_t in_use() const { return items_.size() - free_.size(); }

  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      if (used_[i]) visit(items_[i]);
    }
  }
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      if (used_[i]) visit(items_[i]);
    }
  }
  void clear() {
    items_.clear();
    used_.clear();
    free_.clear();
  }

 private:
  std::vector<T> items_;
  std::vector<char> used_;
  std::vector<std::uint32_t> free_;
};

}  // namespace heddle
