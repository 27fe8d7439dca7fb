// Requests of one SM that wait for their turn, in a selectable order (TMA-03). Plain C++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "common/error.h"
#include "tmau/tmau_params.h"

namespace heddle::tmau {

// Who of several is next: each in turn (TMA-43). Plain C++.
class Arbiter {
 public:
  explicit Arbiter(std::uint32_t count) : count_(count) {}

  // The first, from the one whose turn it is, for whom wants(index) holds; none: it holds for nobody.
  template <class Wants>
  std::optional<std::uint32_t> pick(Wants&& wants) const {
    std::uint32_t index = next_;
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (wants(index)) return index;
      index = after(index);
    }
    return std::nullopt;
  }
  // It has had its turn, whoever's it was.
  void served(std::uint32_t index) { next_ = after(index); }
  // It keeps the turn.
  void keep(std::uint32_t index) { next_ = index; }
  void reset() { next_ = 0; }

 private:
  std::uint32_t after(std::uint32_t index) const { return index + 1 == count_ ? 0 : index + 1; }

  std::uint32_t count_;
  std::uint32_t next_ = 0;
};

class RequestQueue {
 public:
  explicit RequestQueue(QueueOrder order) : order_(order) {}

  bool empty() const { return items_.empty(); }
  std::size_t size() const { return items_.size(); }
  void push(std::uint32_t request, bool tensor) { items_.push_back({request, tensor}); }

  // Place of the one that is next. bytes_of(request): of its box; class_of(request): what holds requests together, none
  // if it is not known; each asked for if the order goes by it. Equal ones go in the order of their arrival.
  template <class BytesOf, class ClassOf>
  std::size_t next(BytesOf&& bytes_of, ClassOf&& class_of) const {
    HEDDLE_CHECK(!items_.empty(), "nothing is queued");
    if (order_ == QueueOrder::blocks_first) {
      for (std::size_t i = 0; i < items_.size(); ++i) {
        if (!items_[i].tensor) return i;
      }
    }
    const bool together = order_ == QueueOrder::same_type_first || order_ == QueueOrder::same_space_first;
    if (together && last_) {
      for (std::size_t i = 0; i < items_.size(); ++i) {
        if (class_of(items_[i].request) == last_) return i;
      }
    }
    if (order_ != QueueOrder::smallest_first) return 0;
    std::size_t best = 0;
    std::uint64_t least = bytes_of(items_[0].request);
    for (std::size_t i = 1; i < items_.size(); ++i) {
      const std::uint64_t bytes = bytes_of(items_[i].request);
      if (bytes >= least) continue;
      best = i;
      least = bytes;
    }
    return best;
  }
  std::uint32_t at(std::size_t place) const { return items_[place].request; }
  // `its`: the class of the one that is taken.
  std::uint32_t take(std::size_t place, std::optional<std::uint32_t> its = std::nullopt) {
    last_ = its;
    const std::uint32_t request = items_[place].request;
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(place));
    return request;
  }
  void clear() {
    items_.clear();
    last_.reset();
  }

 private:
  struct Item {
    std::uint32_t request = 0;
    bool tensor = false;
  };

  QueueOrder order_;
  std::deque<Item> items_;
  std::optional<std::uint32_t> last_;  // class of the one that was taken last
};

}  // namespace heddle::tmau
