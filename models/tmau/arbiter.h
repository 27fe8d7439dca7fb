// Who of several is next: each in turn (TMA-43). Plain C++.
#pragma once

#include <cstdint>

namespace heddle::tmau {

class Arbiter {
 public:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  explicit Arbiter(std::uint32_t count) : count_(count) {}

  // The first, from the one whose turn it is, for whom wants(index) holds.
  template <class Wants>
  std::uint32_t pick(Wants&& wants) const {
    std::uint32_t index = next_;
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (wants(index)) return index;
      index = after(index);
    }
    return kNobody;
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

}  // namespace heddle::tmau
