// What a device's CGAs did, against lists of everything.
#include "arch/cluster_map.h"

#include <algorithm>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"

namespace arch_cluster_map_test {

using namespace heddle;
using namespace heddle::test;

namespace {

ClusterMap::Cluster cluster(std::uint32_t task, std::uint64_t cga, std::uint32_t size, std::uint32_t local_id = 0,
                            std::uint32_t gpc = 0) {
  return {task, cga, gpc, local_id, size, {}, 0, 0};
}

ClusterMap two_gpcs() {
  ClusterMap map;
  map.configure({{0, 2, 4}, {1, 3}});
  return map;
}

}  // namespace

TEST_CASE("a CGA's totals are there when its last CTA has ended", "[cluster_map]") {
  ClusterMap map = two_gpcs();
  map.begin(cluster(7, 5, 3), 0, 4, 100);
  map.begin(cluster(7, 5, 3), 2, 4, 120);
  map.begin(cluster(7, 5, 3), 1, 0, 110);
  map.barrier(0, 0, true, 30);
  map.barrier(0, 0, false, 12);
  map.end(0, 0, 1, 500);
  map.end(0, 0, 0, 700);
  REQUIRE(map.totals().size() == 1);
  CHECK(map.totals()[0].begun == 1);
  CHECK(map.totals()[0].count == 0);
  CHECK(map.totals()[0].waited == 0);
  map.end(0, 0, 2, 650);
  const ClusterMap::Total& total = map.totals()[0];
  CHECK((total.task == 7 && total.size == 3 && total.begun == 1 && total.count == 1));
  CHECK(total.sms == 2);
  CHECK((total.skew == 20 && total.max_skew == 20));
  CHECK(total.lived == 600);
  CHECK((total.barriers == 1 && total.waited == 42));
  REQUIRE(map.kept().size() == 1);
  const ClusterMap::Cluster& kept = map.kept()[0];
  CHECK((kept.task == 7 && kept.cga == 5 && kept.gpc == 0 && kept.local_id == 0 && kept.size == 3));
  CHECK((kept.barriers == 1 && kept.waited == 42));
  REQUIRE(kept.ctas.size() == 3);
  CHECK((kept.ctas[1].rank == 2 && kept.ctas[1].sm == 4 && kept.ctas[1].begin == 120 && kept.ctas[1].end == 650));
}

TEST_CASE("a CGA that never ends is kept, and counts among those that have begun", "[cluster_map]") {
  ClusterMap map = two_gpcs();
  map.begin(cluster(0, 0, 2), 0, 0, 10);
  map.begin(cluster(0, 0, 2), 1, 2, 10);
  map.end(0, 0, 1, 50);
  map.begin(cluster(0, 1, 2, 1), 0, 0, 60);  // of which only one CTA ever starts
  REQUIRE(map.kept().size() == 2);
  CHECK(map.kept()[0].ctas[0].end == 0);
  CHECK(map.kept()[0].ctas[1].end == 50);
  CHECK(map.kept()[1].ctas.size() == 1);
  CHECK((map.totals()[0].begun == 2 && map.totals()[0].count == 0));
}

TEST_CASE("the next CGA takes the id of one that was cut short, and nothing of it", "[cluster_map]") {
  ClusterMap map = two_gpcs();
  map.begin(cluster(0, 3, 4), 0, 0, 10);
  map.barrier(0, 0, true, 1000);
  map.end(0, 0, 0, 90);
  map.begin(cluster(1, 3, 1), 0, 2, 100);  // the same number in another kernel
  map.end(0, 0, 0, 130);
  map.begin(cluster(1, 4, 1), 0, 2, 200);  // and an id that is free again
  map.end(0, 0, 0, 230);
  REQUIRE(map.totals().size() == 2);
  CHECK((map.totals()[0].begun == 1 && map.totals()[0].count == 0));
  const ClusterMap::Total& second = map.totals()[1];
  CHECK((second.begun == 2 && second.count == 2 && second.sms == 2 && second.skew == 0 && second.lived == 60));
  CHECK((second.barriers == 0 && second.waited == 0));
}

TEST_CASE("equal ids of different GPCs are different CGAs", "[cluster_map]") {
  ClusterMap map = two_gpcs();
  map.begin(cluster(0, 0, 1, 9, 0), 0, 4, 10);
  map.begin(cluster(0, 1, 1, 9, 1), 0, 3, 20);
  map.end(1, 9, 0, 30);
  CHECK(map.totals()[0].count == 1);
  CHECK(map.kept()[0].ctas[0].end == 0);
  CHECK(map.kept()[1].ctas[0].end == 30);
}

TEST_CASE("what cannot be is refused", "[cluster_map]") {
  ClusterMap map = two_gpcs();
  CHECK_THROWS_AS(map.begin(cluster(0, 0, 1, 0, 2), 0, 0, 0), CheckFailed);
  CHECK_THROWS_AS(map.begin(cluster(0, 0, 1, 256), 0, 0, 0), CheckFailed);
  CHECK_THROWS_AS(map.begin(cluster(0, 0, 1), 0, 5, 0), CheckFailed);
  CHECK_THROWS_AS(map.end(0, 0, 0, 1), CheckFailed);
  CHECK_THROWS_AS(map.barrier(0, 0, true, 1), CheckFailed);
  map.begin(cluster(0, 0, 2), 0, 0, 0);
  CHECK_THROWS_AS(map.end(0, 0, 1, 1), CheckFailed);
}

TEST_CASE("clear() forgets everything but the machine", "[cluster_map]") {
  ClusterMap map = two_gpcs();
  map.begin(cluster(0, 0, 2), 0, 0, 10);
  map.traffic(1, 0, 1, 64);
  map.clear();
  CHECK((map.kept().empty() && map.totals().empty() && map.bytes(1, 0, 1) == 0));
  REQUIRE(map.gpcs() == 2);
  CHECK((map.sms(1) == std::vector<std::uint32_t>{1, 3}));
  CHECK_THROWS_AS(map.end(0, 0, 0, 20), CheckFailed);
  map.begin(cluster(0, 0, 1), 0, 0, 30);
  map.end(0, 0, 0, 40);
  CHECK((map.totals().size() == 1 && map.totals()[0].begun == 1 && map.totals()[0].lived == 10));
}

namespace {

// One CGA, with everything that was ever noted of it.
struct Story {
  ClusterMap::Cluster cluster;
  std::map<std::uint32_t, ClusterMap::Cta> ctas;  // by rank
  std::uint64_t barriers = 0;
  std::uint64_t waited = 0;
  bool cut = false;  // no CTA of it starts any more

  std::uint32_t running() const {
    return static_cast<std::uint32_t>(
        std::count_if(ctas.begin(), ctas.end(), [](const auto& entry) { return entry.second.end == 0; }));
  }
  bool complete() const { return ctas.size() == cluster.size && running() == 0; }
  bool over() const { return (cut || ctas.size() == cluster.size) && running() == 0; }
};

// Lets CGAs begin, meet and end at random on ids that it hands out again, and tells the map.
class Play {
 public:
  Play(std::uint64_t seed, ClusterMap& map) : random_(seed), map_(map) {
    std::uint32_t id = 0;
    gpcs_.resize(random_.between(1, 4));
    for (auto& gpc : gpcs_) {
      gpc.resize(random_.between(1, 18));
      for (std::uint32_t& sm : gpc) sm = id++;
      random_.shuffle(gpc);
      bytes_.emplace_back(gpc.size() * gpc.size());
    }
    ids_ = random_.chance(50) ? random_.between(1, 4) : 256;
    map_.configure(gpcs_);
    holder_.assign(gpcs_.size(), std::vector<std::size_t>(256, kFree));
  }

  void step() {
    now_ += random_.below(20);
    if (stories_.empty() || random_.chance(12)) open_one();
    if (stories_.empty()) return;
    const std::size_t at = random_.chance(80)
                               ? stories_.size() - 1 - random_.below(std::min<std::size_t>(stories_.size(), 8))
                               : random_.below(stories_.size());
    Story& story = stories_[at];
    if (!story.over()) {
      act(story);
      if (story.over()) holder_[story.cluster.gpc][story.cluster.local_id] = kFree;
    }
    const std::uint32_t gpc = random_.below(gpcs_.size());
    const std::uint32_t sms = static_cast<std::uint32_t>(gpcs_[gpc].size());
    const std::uint32_t from = random_.below(sms);
    const std::uint32_t to = random_.below(sms);
    const std::uint64_t bytes = random_.below(200);
    map_.traffic(gpc, from, to, bytes);
    bytes_[gpc][from * sms + to] += bytes;
  }

  void check() const {
    for (std::uint32_t gpc = 0; gpc < gpcs_.size(); ++gpc) {
      const std::uint32_t sms = static_cast<std::uint32_t>(gpcs_[gpc].size());
      for (std::uint32_t i = 0; i < sms * sms; ++i) REQUIRE(map_.bytes(gpc, i / sms, i % sms) == bytes_[gpc][i]);
    }
    check_kept();
    check_totals();
  }

  std::size_t cgas() const { return stories_.size(); }

 private:
  static constexpr std::size_t kFree = ~std::size_t{0};

  void open_one() {
    const std::uint32_t gpc = random_.below(gpcs_.size());
    const std::uint32_t local_id = random_.below(ids_);
    if (holder_[gpc][local_id] != kFree) return;
    holder_[gpc][local_id] = stories_.size();
    Story story;
    story.cluster = cluster(random_.below(6), stories_.size(), random_.between(1, 16), local_id, gpc);
    stories_.push_back(story);
    start(stories_.back());
  }

  void act(Story& story) {
    const ClusterMap::Cluster& its = story.cluster;
    if (!story.cut && story.ctas.size() < its.size) {
      if (random_.chance(3)) {
        story.cut = true;
      } else {
        start(story);
      }
      return;
    }
    if (random_.chance(30)) {
      const bool first = random_.chance(50);
      const std::uint64_t waited = random_.below(1000);
      story.barriers += first ? 1U : 0U;
      story.waited += waited;
      map_.barrier(its.gpc, its.local_id, first, waited);
      return;
    }
    std::vector<std::uint32_t> ranks;
    for (const auto& [rank, cta] : story.ctas) {
      if (cta.end == 0) ranks.push_back(rank);
    }
    if (ranks.empty()) return;
    const std::uint32_t rank = ranks[random_.below(ranks.size())];
    story.ctas[rank].end = ++now_;
    map_.end(its.gpc, its.local_id, rank, now_);
  }

  void start(Story& story) {
    const ClusterMap::Cluster& its = story.cluster;
    std::uint32_t rank = random_.below(its.size);
    while (story.ctas.count(rank) != 0) rank = (rank + 1) % its.size;
    const std::uint32_t sm = gpcs_[its.gpc][random_.below(gpcs_[its.gpc].size())];
    story.ctas[rank] = {rank, sm, now_, 0};
    map_.begin(its, rank, sm, now_);
  }

  void check_kept() const {
    REQUIRE(map_.kept().size() == std::min(stories_.size(), ClusterMap::kKept));
    for (std::size_t i = 0; i < map_.kept().size(); ++i) {
      const ClusterMap::Cluster& kept = map_.kept()[i];
      const Story& story = stories_[i];
      REQUIRE(kept.cga == story.cluster.cga);
      REQUIRE((kept.gpc == story.cluster.gpc && kept.local_id == story.cluster.local_id));
      REQUIRE((kept.size == story.cluster.size && kept.task == story.cluster.task));
      REQUIRE((kept.barriers == story.barriers && kept.waited == story.waited));
      REQUIRE(kept.ctas.size() == story.ctas.size());
      for (const ClusterMap::Cta& cta : kept.ctas) {
        const ClusterMap::Cta& expected = story.ctas.at(cta.rank);
        REQUIRE((cta.sm == expected.sm && cta.begin == expected.begin && cta.end == expected.end));
      }
    }
  }

  void check_totals() const {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> order;
    std::map<std::pair<std::uint32_t, std::uint32_t>, ClusterMap::Total> expected;
    for (const Story& story : stories_) {
      const std::pair<std::uint32_t, std::uint32_t> key{story.cluster.task, story.cluster.size};
      if (expected.count(key) == 0) order.push_back(key);
      ClusterMap::Total& total = expected[key];
      ++total.begun;
      if (!story.complete()) continue;
      std::set<std::uint32_t> sms;
      std::uint64_t first = ~std::uint64_t{0}, last = 0, end = 0;
      for (const auto& [rank, cta] : story.ctas) {
        sms.insert(cta.sm);
        first = std::min(first, cta.begin);
        last = std::max(last, cta.begin);
        end = std::max(end, cta.end);
      }
      ++total.count;
      total.sms += sms.size();
      total.skew += last - first;
      total.max_skew = std::max(total.max_skew, last - first);
      total.lived += end - first;
      total.barriers += story.barriers;
      total.waited += story.waited;
    }
    REQUIRE(map_.totals().size() == order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      const ClusterMap::Total& actual = map_.totals()[i];
      const ClusterMap::Total& total = expected[order[i]];
      REQUIRE((actual.task == order[i].first && actual.size == order[i].second));
      REQUIRE((actual.begun == total.begun && actual.count == total.count && actual.sms == total.sms));
      REQUIRE((actual.skew == total.skew && actual.max_skew == total.max_skew && actual.lived == total.lived));
      REQUIRE((actual.barriers == total.barriers && actual.waited == total.waited));
    }
  }

  Random random_;
  ClusterMap& map_;
  std::vector<std::vector<std::uint32_t>> gpcs_;
  std::vector<std::vector<std::uint64_t>> bytes_;
  std::vector<std::vector<std::size_t>> holder_;  // [gpc][local id]
  std::vector<Story> stories_;                    // in the order of their begin
  std::uint32_t ids_ = 256;
  std::uint64_t now_ = 1;
};

}  // namespace

TEST_CASE("random CGAs give the figures of a list of all that happened", "[cluster_map]") {
  std::size_t most = 0;
  for (const std::uint64_t seed : seeds(200)) {
    CAPTURE(seed);
    ClusterMap map;
    Play play(seed, map);
    const std::uint32_t steps = seed % 10 == 0 ? 12'000 : 600;
    for (std::uint32_t i = 0; i < steps; ++i) play.step();
    play.check();
    most = std::max(most, play.cgas());
  }
  CHECK(most > ClusterMap::kKept);
}

}  // namespace arch_cluster_map_test
