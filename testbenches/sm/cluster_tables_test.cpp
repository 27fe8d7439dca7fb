// bl_table, cga_cta2sm_dir and the CAM against plain maps.
#include "sm/cluster_tables.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"

namespace sm_cluster_tables_test {

using heddle::CheckFailed;
using heddle::arch::dsmem_address;
using heddle::protocol::CgaId;
using heddle::protocol::CtaEntryPacket;
using heddle::protocol::SmInGpc;
using heddle::sm::ClusterTables;
using heddle::test::Random;
using Found = ClusterTables::Found;

namespace {

constexpr std::uint32_t kLargest = 232'448;

CtaEntryPacket entry(std::uint32_t cga_id, std::uint64_t sequence, std::uint32_t rank, std::uint32_t ctas,
                     std::uint32_t sm) {
  CtaEntryPacket packet;
  packet.cga_id = CgaId(cga_id);
  packet.sequence = sequence;
  packet.rank = rank;
  packet.ctas = ctas;
  packet.sm = heddle::protocol::SmInGpc(sm);
  return packet;
}

// CGAs come, get their CTAs entered, and go; warps and windows with them.
class Oracle {
 public:
  static constexpr std::uint32_t kWarps = 64;
  static constexpr std::uint32_t kWindows = 32;

  explicit Oracle(std::uint64_t seed) : random_(seed), tables_(kWarps, kWindows, 256, kLargest) {}

  bool run(int steps) {
    for (int step = 0; step < steps && right_; ++step) {
      const std::uint32_t id = random_.chance(50) ? random_.below(256) : random_.below(4);
      switch (random_.below(6)) {
        case 0:
        case 1:
          enter(id);
          break;
        case 2:
          forget(id);
          break;
        case 3:
          set_warp(id);
          break;
        default:
          change_window(id);
      }
      look();
    }
    return right_;
  }

 private:
  struct Cga {
    std::uint64_t sequence = 0;
    std::uint32_t ctas = 0;                                                    // 0: none has been entered
    std::map<std::uint32_t, std::pair<std::uint32_t, heddle::Cycle>> entered;  // by rank: SM, cycle
  };

  void enter(std::uint32_t id) {
    Cga& cga = cgas_[id];
    if (cga.ctas == 0) {
      cga.ctas = random_.between(1, 32);
      cga.sequence = ++sequence_;
    }
    const std::uint32_t rank = random_.below(cga.ctas);
    if (cga.entered.count(rank) != 0) return;
    const std::uint32_t sm = random_.below(18);
    const heddle::Cycle from = random_.below(100);
    tables_.enter(entry(id, cga.sequence, rank, cga.ctas, sm), from);
    cga.entered[rank] = {sm, from};
  }
  void forget(std::uint32_t id) {
    for (auto& window : cam_) {
      if (window.second.first == id) return;
    }
    tables_.forget(CgaId(id));
    cgas_.erase(id);
    for (auto i = warps_.begin(); i != warps_.end();) i = i->second == id ? warps_.erase(i) : std::next(i);
  }
  void set_warp(std::uint32_t id) {
    const std::uint32_t warp = random_.below(kWarps);
    if (random_.chance(20)) {
      tables_.set_warp(warp, std::nullopt);
      warps_.erase(warp);
      return;
    }
    tables_.set_warp(warp, CgaId(id));
    warps_[warp] = id;
    cgas_[id];  // its slot is taken, whether or not something has been entered
  }
  void change_window(std::uint32_t id) {
    const std::uint32_t window = random_.below(kWindows);
    if (cam_.count(window) != 0 || random_.chance(10)) {
      tables_.invalidate(window);
      cam_.erase(window);
      return;
    }
    const std::uint32_t rank = random_.below(32);
    for (const auto& known : cam_) {
      if (known.second == std::make_pair(id, rank)) return;
    }
    tables_.open_window(CgaId(id), rank, window);
    cam_[window] = {id, rank};
  }
  void look() {
    right_ = right_ && tables_.cgas() == cgas_.size() && tables_.windows() == cam_.size();
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t id = random_.below(256);
      right_ = right_ && tables_.knows(CgaId(id)) == (cgas_.count(id) != 0);
      std::optional<std::uint32_t> window;
      const std::uint32_t rank = random_.below(32);
      for (const auto& known : cam_) {
        if (known.second == std::make_pair(id, rank)) window = known.first;
      }
      right_ = right_ && tables_.match(CgaId(id), rank) == window;
      std::optional<std::uint32_t> sm;
      const auto cga = cgas_.find(id);
      if (cga != cgas_.end() && cga->second.entered.count(rank) != 0) sm = cga->second.entered.at(rank).first;
      right_ = right_ && tables_.sm_of(CgaId(id), rank) == sm;
    }
    for (const auto& known : cam_) {
      right_ = right_ && tables_.match(CgaId(known.second.first), known.second.second) == known.first;
    }
    for (int i = 0; i < 8; ++i) find();
  }
  void find() {
    const std::uint32_t warp = random_.below(kWarps);
    const std::uint64_t rank = random_.chance(90) ? random_.below(34) : random_.next() >> 24;
    const std::uint32_t bytes = 1U << random_.below(5);
    const std::uint32_t offset = random_.chance(50) ? kLargest - 40 + random_.below(80) : random_.below(1U << 24);
    const heddle::Cycle now = random_.below(100);
    const ClusterTables::Target target = tables_.find(warp, rank << 24 | offset, bytes, now);

    Found found = Found::ok;
    std::optional<std::uint32_t> id;
    std::uint32_t sm = 0;
    const auto warps_cga = warps_.find(warp);
    if (warps_cga == warps_.end()) {
      if (rank > 0) found = Found::no_rank;
    } else {
      id = warps_cga->second;
      const Cga& cga = cgas_.at(*id);
      const auto known = cga.entered.find(static_cast<std::uint32_t>(rank));
      if (rank >= (cga.ctas == 0 ? 32 : cga.ctas)) {
        found = Found::no_rank;
      } else if (known == cga.entered.end() || known->second.second > now) {
        found = Found::absent;
      } else {
        sm = known->second.first;
      }
    }
    if (found == Found::ok && offset + bytes > kLargest) found = Found::no_offset;
    right_ = right_ && target.found == found && target.cga_id == id && target.offset == offset;
    if (found != Found::ok) return;
    right_ = right_ && target.rank == rank && target.sm == sm;
    if (id) right_ = right_ && target.sequence == cgas_.at(*id).sequence;
  }

  Random random_;
  ClusterTables tables_;
  std::map<std::uint32_t, Cga> cgas_;
  std::map<std::uint32_t, std::uint32_t> warps_;
  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> cam_;
  std::uint64_t sequence_ = 0;
  bool right_ = true;
};

}  // namespace

TEST_CASE("an SM knows as many CGAs as it has sm_cga_slots", "[sm][CWD-01][CGA-05]") {
  ClusterTables tables(8, 4, 2, 1024);
  tables.enter(entry(7, 1, 0, 2, 3), 5);
  tables.set_warp(0, CgaId(9));
  CHECK(tables.cgas() == 2);
  CHECK_THROWS_AS(tables.enter(entry(11, 2, 0, 2, 3), 5), CheckFailed);
  CHECK_THROWS_AS(tables.set_warp(1, CgaId(11)), CheckFailed);
  tables.forget(CgaId(9));
  tables.enter(entry(11, 2, 0, 2, 3), 5);
  CHECK(tables.cgas() == 2);
}

TEST_CASE("a slot is free with the last CTA of its CGA here, if no other can come", "[sm][CGA-11]") {
  ClusterTables tables(8, 4, 2, 1024);
  tables.enter(entry(7, 1, 0, 2, 3), 5);
  tables.last_left(CgaId(7), SmInGpc(4), 100);
  CHECK(tables.knows(CgaId(7)));  // the other CTA has not been launched
  tables.enter(entry(7, 1, 1, 2, 4), 120);
  tables.last_left(CgaId(7), SmInGpc(4), 119);
  CHECK(tables.knows(CgaId(7)));  // it is not known here yet
  tables.last_left(CgaId(7), SmInGpc(4), 120);
  CHECK_FALSE(tables.knows(CgaId(7)));
  CHECK(tables.cgas() == 0);
  CHECK_FALSE(tables.hosted(CgaId(7), 0));
  CHECK(tables.hosted(CgaId(7), 1));
  tables.forget(CgaId(7));  // the flush comes later
  CHECK(tables.cgas() == 0);
  CHECK_FALSE(tables.hosted(CgaId(7), 1));
}

TEST_CASE("the tables find what was entered, and nothing else", "[sm][CGA-05][CGA-06][CGA-07]") {
  for (const std::uint64_t seed : heddle::test::seeds(2000)) {
    if (!Oracle(seed).run(120)) FAIL("seed " << seed);
  }
}

TEST_CASE("what the source sees to be wrong with a DSMEM address", "[sm][CGA-07]") {
  ClusterTables tables(8, 4, 16, 1024);
  tables.set_warp(3, CgaId(200));
  CHECK(tables.find(3, dsmem_address(0, 0), 4, 50).found == Found::absent);
  tables.enter(entry(200, 9, 1, 3, 17), 40);
  tables.enter(entry(200, 9, 0, 3, 2), 60);
  const auto found = [&tables](std::uint64_t address, std::uint32_t bytes) {
    return tables.find(3, address, bytes, 50).found;
  };
  CHECK(found(dsmem_address(1, 0), 4) == Found::ok);
  CHECK(found(dsmem_address(0, 0), 4) == Found::absent);  // on its way
  CHECK(found(dsmem_address(2, 0), 4) == Found::absent);
  CHECK(found(dsmem_address(3, 0), 4) == Found::no_rank);
  CHECK(found(std::uint64_t{1} << 32 | dsmem_address(1, 0), 4) == Found::no_rank);
  CHECK(found(dsmem_address(1, 1020), 4) == Found::ok);
  CHECK(found(dsmem_address(1, 1021), 4) == Found::no_offset);
  CHECK(found(dsmem_address(1, 0xFF'FFFF), 4) == Found::no_offset);
  const ClusterTables::Target target = tables.find(3, dsmem_address(1, 12), 4, 50);
  CHECK(target.sm == 17);
  CHECK(target.sequence == 9);
  CHECK(*target.cga_id == 200);
  CHECK(target.rank == 1);
  CHECK(target.offset == 12);
}

TEST_CASE("a warp of no CGA finds itself alone", "[sm][CGA-06]") {
  ClusterTables tables(8, 4, 16, 1024);
  tables.set_warp(5, std::nullopt);
  CHECK(tables.find(5, dsmem_address(0, 1000), 8, 0).found == Found::ok);
  CHECK_FALSE(tables.find(5, dsmem_address(0, 1000), 8, 0).cga_id.has_value());
  CHECK(tables.find(5, dsmem_address(1, 0), 8, 0).found == Found::no_rank);
}

TEST_CASE("no access of an old CGA passes for one of a new CGA with its id", "[sm][CGA-12]") {
  ClusterTables tables(8, 4, 16, 1024);
  tables.check(CgaId(7), 1);  // nobody is there: the CAM will say so
  tables.set_warp(0, CgaId(7));
  tables.enter(entry(7, 1, 0, 2, 0), 0);
  tables.open_window(CgaId(7), 0, 3);
  tables.check(CgaId(7), 1);
  // Before the flush, the id cannot be used again.
  CHECK_THROWS_AS(tables.enter(entry(7, 2, 0, 2, 0), 0), CheckFailed);
  CHECK_THROWS_AS(tables.enter(entry(7, 1, 0, 2, 1), 0), CheckFailed);
  CHECK_THROWS_AS(tables.forget(CgaId(7)), CheckFailed);
  tables.invalidate(3);
  tables.forget(CgaId(7));
  CHECK_FALSE(tables.knows(CgaId(7)));
  CHECK(tables.cgas() == 0);
  CHECK_FALSE(tables.find(0, dsmem_address(0, 0), 4, 0).cga_id.has_value());
  tables.enter(entry(7, 2, 1, 4, 5), 0);
  tables.check(CgaId(7), 2);
  CHECK_THROWS_AS(tables.check(CgaId(7), 1), CheckFailed);
  tables.set_warp(0, CgaId(7));
  CHECK(tables.find(0, dsmem_address(0, 0), 4, 0).found == Found::absent);  // nothing of the old one is left
  tables.reset();
  CHECK(tables.cgas() == 0);
  CHECK(tables.windows() == 0);
  CHECK_FALSE(tables.knows(CgaId(7)));
  CHECK_FALSE(tables.find(0, dsmem_address(0, 0), 4, 0).cga_id.has_value());
}

}  // namespace sm_cluster_tables_test
