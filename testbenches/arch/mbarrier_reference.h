// What an mbarrier is, told the long way: phases counted without end, totals instead of remainders.
#pragma once

#include <cstdint>

#include <catch2/catch.hpp>

#include "arch/mbarrier.h"

namespace heddle::test {

class MbarrierReference {
 public:
  enum class State : std::uint8_t { nothing, collects };
  using Result = arch::MbarrierResult;
  using Test = arch::MbarrierTest;
  static constexpr std::uint64_t kMost = (1U << 20) - 1;

  Result init(std::uint64_t count) {
    if (count == 0 || count > kMost) return Result::wrong;
    *this = {};
    state = State::collects;
    per_phase = count;
    return Result::ok;
  }
  Result invalidate() {
    if (state == State::nothing) return Result::wrong;
    *this = {};
    return Result::ok;
  }
  Result expect(std::uint64_t bytes) {
    if (state == State::nothing || !near(promised + bytes, delivered, bytes)) return Result::wrong;
    promised += bytes;
    return look();
  }
  Result complete(std::uint64_t bytes) {
    if (state == State::nothing || !near(delivered + bytes, promised, bytes)) return Result::wrong;
    delivered += bytes;
    return look();
  }
  // A promise, then arrivals one by one; all of it or nothing. `its_phase`: in which the arrivals were.
  Result arrive(std::uint64_t count, std::uint64_t bytes, std::uint64_t* its_phase = nullptr) {
    if (count == 0 || count > kMost) return Result::wrong;
    MbarrierReference trial = *this;
    Result result = trial.expect(bytes);
    if (result == Result::wrong || trial.arrived + count > per_phase) return Result::wrong;
    if (its_phase != nullptr) *its_phase = trial.phase;
    trial.arrived += count;
    if (trial.look() == Result::completes) result = Result::completes;
    *this = trial;
    return result;
  }
  // Of a phase by its number: it, or a later one, is over.
  bool over(std::uint64_t number) const { return number < phase; }
  // By parity: of the current phase, or of the one before, which is over.
  Test test(std::uint64_t parity) const {
    if (state == State::nothing || parity > 1) return Test::wrong;
    return parity == phase % 2 ? Test::waits : Test::passed;
  }

  State state = State::nothing;
  std::uint64_t per_phase = 0;
  std::uint64_t phase = 0;
  std::uint64_t arrived = 0;    // in this phase
  std::uint64_t promised = 0;   // bytes, since init
  std::uint64_t delivered = 0;  // bytes, since init

 private:
  // `larger` is not further above the other total than an mbarrier can count. It grew by `step`.
  static bool near(std::uint64_t larger, std::uint64_t other, std::uint64_t step) {
    return larger >= step && (larger <= other || larger - other <= kMost);
  }
  Result look() {
    if (arrived != per_phase || promised != delivered) return Result::ok;
    ++phase;
    arrived = 0;
    return Result::completes;
  }
};

// The object says the same.
inline bool agree(std::uint64_t object, const MbarrierReference& reference) {
  const arch::Mbarrier barrier = arch::decode(object);
  if (reference.state == MbarrierReference::State::nothing) return !barrier.valid;
  return barrier.valid && barrier.parity == reference.phase % 2 && barrier.expected == reference.per_phase &&
         barrier.pending == reference.per_phase - reference.arrived &&
         std::int64_t{barrier.tx} == static_cast<std::int64_t>(reference.promised - reference.delivered);
}

}  // namespace heddle::test
