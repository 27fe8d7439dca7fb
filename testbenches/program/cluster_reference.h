// What a cluster's barrier and its mbarriers do, as simply as it can be said (CGA-13, CGA-14).
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <utility>

namespace heddle::test {

struct MbarrierReference {
  std::uint64_t expected = 0;  // 0: it is none
  std::uint64_t pending = 0;
  std::int64_t tx = 0;
  std::uint64_t phases = 0;  // that have completed

  void init(std::uint64_t count) {
    if (count == 0 || count >= 1U << 20) throw std::runtime_error("an mbarrier's count is out of range");
    *this = {count, count, 0, 0};
  }
  void check() const {
    if (expected == 0) throw std::runtime_error("no mbarrier");
  }
  void arrive(std::uint64_t count, std::uint64_t bytes) {
    check();
    add(static_cast<std::int64_t>(bytes));
    if (count == 0 || count > pending) throw std::runtime_error("an arrival too many");
    pending -= count;
    complete();
  }
  void expect(std::uint64_t bytes) {
    check();
    add(static_cast<std::int64_t>(bytes));
  }
  void come(std::uint64_t bytes) {
    check();
    add(-static_cast<std::int64_t>(bytes));
    complete();
  }
  bool passed(std::uint64_t parity) const {
    check();
    if (parity > 1) throw std::runtime_error("a parity above 1");
    return phases % 2 != parity;
  }

 private:
  void add(std::int64_t bytes) {
    tx += bytes;
    if (tx >= 1 << 20 || -tx >= 1 << 20) throw std::runtime_error("an mbarrier's bytes are out of range");
  }
  void complete() {
    if (pending != 0 || tx != 0) return;
    ++phases;
    pending = expected;
  }
};

// By CTA of the cluster and offset.
class MbarrierReferences {
 public:
  MbarrierReference& at(std::uint64_t rank, std::uint64_t offset) {
    if (offset % 8 != 0) throw std::runtime_error("misaligned");
    return all_[{rank, offset}];
  }

 private:
  std::map<std::pair<std::uint64_t, std::uint64_t>, MbarrierReference> all_;
};

// One warp's view of the cluster's barrier.
struct ClusterArrivals {
  std::uint64_t arrived = 0;
  std::uint64_t waited = 0;

  void arrive() {
    if (arrived != waited) throw std::runtime_error("a warp arrives twice at the cluster's barrier");
    ++arrived;
  }
  void wait() {
    if (arrived != waited + 1) throw std::runtime_error("a warp waits at the cluster's barrier and has not arrived");
    ++waited;
  }
};

}  // namespace heddle::test
