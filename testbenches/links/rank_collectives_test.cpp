// Collectives of recordings over links: which kernels belong together, and what they take.
#include "replay/rank_collectives.h"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/error.h"
#include "replay/replay_bench.h"
#include "scenario/collectives.h"
#include "support/random.h"

namespace links_rank_collectives_test {

using namespace heddle;
using namespace heddle::test;
using replay::RankCollectives;
using workload::Collective;
using workload::Communication;
using workload::Op;
using workload::Workload;

namespace {

Op communication_op(std::optional<Collective> kind, std::uint64_t bytes, const std::string& group = "0") {
  Op op = kernel_op(1, 4, 1000);
  op.kernel.name = "ncclDevKernel_Generic";
  op.communication = Communication{kind, group, bytes, 0, {}, {}};
  return op;
}

// Work of so many cycles in stream 0, and an all-reduce in stream 1 that waits for it.
Workload rank_of(std::uint64_t cycles, std::uint64_t bytes) {
  Workload w = empty_workload(2);
  w.ops.push_back(kernel_op(0, 1, cycles));
  w.ops.push_back(communication_op(Collective::all_reduce, bytes));
  w.ops.back().after.push_back({0, workload::EdgeSource::recorded});
  return w;
}

RankCollectives match(const std::vector<Workload>& ranks) {
  std::vector<const Workload*> all;
  for (const Workload& rank : ranks) all.push_back(&rank);
  return replay::match_collectives(all);
}

const std::vector<replay::RankRoom>& rooms() {
  static const gpu::GpuParams kSmall = preset_params("small");
  static const std::vector<replay::RankRoom> kRooms(64, {kSmall.machine.shape.sms(), kSmall.sm.limits});
  return kRooms;
}

struct Setup {
  double bandwidth = 25;
  link::Topology topology = link::Topology::through_switch;
};

replay::SimulationResult run(std::vector<Workload>& ranks, const Setup& setup) {
  std::vector<Workload*> all;
  for (Workload& rank : ranks) all.push_back(&rank);
  replay::run_over_links(match(ranks), all, rooms());
  std::vector<replay::Job> jobs;
  for (std::size_t g = 0; g < ranks.size(); ++g) {
    gpu::GpuParams params = preset_params("small");
    params.machine.timing = TimingMode::fast;
    params.links.ports = 2;
    params.links.bandwidth = setup.bandwidth;
    jobs.push_back(job_of(ranks[g], params, fmt::format("gpu{}", g)));
  }
  replay::SimulationOptions options;
  options.links.topology = setup.topology;
  return replay::simulate(jobs, options);
}

}  // namespace

TEST_CASE("kernels of a process group belong together by their order, if they do the same", "[links][LNK-12]") {
  std::vector<Workload> ranks(2, empty_workload(2));
  const auto add = [&ranks](std::size_t rank, const Op& op) { ranks[rank].ops.push_back(op); };
  for (std::size_t rank = 0; rank < 2; ++rank) {
    if (rank == 1) add(rank, kernel_op(0, 1, 10));  // numbers of operations differ
    add(rank, communication_op(Collective::all_reduce, 4096));
    add(rank, communication_op(Collective::all_gather, 512, "other"));
    add(rank, communication_op(Collective::all_reduce, 0));  // no size
    add(rank, communication_op(std::nullopt, 4096));         // sends and receives
    add(rank, communication_op(Collective::broadcast, 8192));
    add(rank, communication_op(Collective::all_reduce, 16 << rank));  // not the same
    add(rank, communication_op(Collective::all_reduce, 4096));        // whatever follows may belong to another
    if (rank == 0) add(rank, communication_op(Collective::all_reduce, 4096, "alone"));
  }
  const RankCollectives found = match(ranks);
  REQUIRE(found.matched.size() == 3);
  CHECK(found.matched[0].ops == std::vector<std::size_t>{0, 1});
  CHECK(found.matched[0].kind == Collective::all_reduce);
  CHECK(found.matched[0].bytes == 4096);
  CHECK(found.matched[1].kind == Collective::all_gather);
  CHECK(found.matched[1].ops == std::vector<std::size_t>{1, 2});
  CHECK(found.matched[2].kind == Collective::broadcast);
  CHECK(found.matched[2].ops == std::vector<std::size_t>{4, 5});
  CHECK(found.kept.at("size not recorded") == 2);
  CHECK(found.kept.at("no all-reduce, all-gather, reduce-scatter or broadcast, or not recorded which") == 2);
  CHECK(found.kept.at("the ranks differ in what they do") == 4);
  CHECK(found.kept.at("not on all GPUs of the run") == 1);
  CHECK(found.kept_kernels() == 9);
}

TEST_CASE("kernels with numbers belong together by these, wherever their recordings begin", "[links][LNK-12]") {
  std::vector<Workload> ranks(2, empty_workload(2));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::uint64_t number = 5; number < 9; ++number) {
      ranks[rank].ops.push_back(communication_op(Collective::all_reduce, 4096));
      ranks[rank].ops.back().communication->sequence = number + 2 * rank;
    }
  }
  RankCollectives found = match(ranks);
  REQUIRE(found.matched.size() == 2);  // 7 and 8
  CHECK(found.matched[0].ops == std::vector<std::size_t>{2, 0});
  CHECK(found.matched[1].ops == std::vector<std::size_t>{3, 1});
  CHECK(found.kept.at("not on all GPUs of the run") == 4);
  // What differs under one number says nothing of the next.
  ranks[0].ops[2].communication->bytes = 64;
  found = match(ranks);
  REQUIRE(found.matched.size() == 1);
  CHECK(found.matched[0].ops == std::vector<std::size_t>{3, 1});
  CHECK(found.kept.at("the ranks differ in what they do") == 2);
  CHECK(found.matched[0].by_number);
  // What one GPU has twice tells nothing of it, and takes nothing from the others: rank 0 has 5, 6, 7, 8, rank 1 has 7,
  // 8, 9, 7.
  ranks[0].ops[2].communication->bytes = 4096;
  ranks[1].ops[3].communication->sequence = 7;
  found = match(ranks);
  REQUIRE(found.matched.size() == 1);
  CHECK(found.matched[0].ops == std::vector<std::size_t>{3, 1});
  CHECK(found.by_number() == 1);
  CHECK(found.kept.at("of a number that a GPU has twice in one group") == 3);
  CHECK(found.kept.at("not on all GPUs of the run") == 3);
  // Numbers that do not come in their order are numbers too, and what has none is by itself.
  for (Workload& rank : ranks) {
    const std::uint64_t numbers[] = {3, 1, 2};
    for (std::size_t i = 0; i < 3; ++i) rank.ops[i].communication->sequence = numbers[i];
    rank.ops[3].communication->sequence.reset();
  }
  ranks[1].ops[2].communication->sequence = 4;
  found = match(ranks);
  REQUIRE(found.matched.size() == 2);
  CHECK(found.matched[0].ops == std::vector<std::size_t>{0, 0});
  CHECK(found.matched[1].ops == std::vector<std::size_t>{1, 1});
  CHECK(found.kept.at("without a number, in a group that has numbers") == 2);
  // A rank that has none in the group: by order.
  for (Op& op : ranks[1].ops) op.communication->sequence.reset();
  found = match(ranks);
  CHECK(found.matched.size() == 4);
  CHECK(found.by_number() == 0);
}

TEST_CASE("groups of other members, or that some ranks are not in, do not run over the links of all",
          "[links][LNK-12]") {
  std::vector<Workload> ranks(4, empty_workload(2));
  const auto of_ranks = [](std::uint64_t count, const std::string& members, const std::string& group) {
    Op op = communication_op(Collective::all_reduce, 4096, group);
    op.communication->ranks = count;
    op.communication->members = members;
    return op;
  };
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ranks[rank].ops.push_back(of_ranks(8, "[0, 1, 2, 3, 4, 5, 6, 7]", "all"));
    ranks[rank].ops.push_back(of_ranks(8, rank < 2 ? "[0, 1]" : "[2, 3]", "others"));
    ranks[rank].ops.push_back(of_ranks(2, "[0, 1]", "two"));
  }
  const RankCollectives found = match(ranks);
  REQUIRE(found.matched.size() == 1);
  CHECK(found.matched[0].ops == std::vector<std::size_t>{0, 0, 0, 0});
  CHECK(found.recorded_ranks == 8);
  CHECK(found.kept.at("their groups of one name have other members") == 4);
  CHECK(found.kept.at("of a group that some of the ranks are not in") == 4);
  // Of copies of one rank, the largest group is that of all, however many there are.
  Workload one = empty_workload(2);
  one.ops = {of_ranks(4, "", "all"), of_ranks(2, "", "some")};
  const RankCollectives copied = replay::match_collectives({&one, &one, &one, &one, &one, &one, &one, &one}, true);
  REQUIRE(copied.matched.size() == 1);
  CHECK(copied.matched[0].ops.front() == 0);
  one.ops[0].grid_assumed = true;
  CHECK(copied.assumed == 0);
  CHECK(replay::match_collectives({&one, &one}, true).assumed == 1);
}

TEST_CASE("recordings have one axis of time: their clock's, or that of the first collective", "[links][LNK-14]") {
  const auto recorded = [](Op op, workload::Nanoseconds start, workload::Nanoseconds duration) {
    op.recorded = workload::Recorded{start, duration};
    op.enqueue = start - 100;
    return op;
  };
  std::vector<Workload> ranks(3, empty_workload(2));
  // GPUs 0 and 1 are of one file, in which the second begins 500 ns later; GPU 2 is of another.
  ranks[0].origin = 10'000;
  ranks[1].origin = 10'500;
  ranks[2].origin = 77;
  ranks[2].recording = 1;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    ranks[rank].ops.push_back(recorded(kernel_op(0, 1, 10), 0, 50));
    ranks[rank].ops.back().not_before = 0;
    ranks[rank].ops.push_back(recorded(communication_op(Collective::all_reduce, 64), 1000 * (rank + 1), 100));
  }
  // They end at 1100, 2100 + 500 and 3100.
  const std::vector<std::string> sentences = replay::align_ranks(ranks);
  CHECK(ranks[0].ops[1].recorded->start == 1500);
  CHECK(ranks[1].ops[1].recorded->start == 3000);
  CHECK(ranks[2].ops[1].recorded->start == 3000);
  CHECK(ranks[1].ops[0].recorded->start == 1000);
  CHECK(ranks[1].ops[0].enqueue == 900);
  CHECK(ranks[1].ops[0].not_before == 1000);
  REQUIRE(sentences.size() == 2);  // nothing of GPU 2, which stays
  CHECK_THAT(sentences[1], Catch::Contains("gpu1: its recorded times are moved by 1.0 us"));
  // Nothing in common: it is said.
  std::vector<Workload> strangers(2, empty_workload(1));
  strangers[1].recording = 1;
  for (Workload& stranger : strangers) stranger.ops.push_back(recorded(kernel_op(0, 1, 10), 0, 50));
  CHECK_THAT(replay::align_ranks(strangers).at(0), Catch::Contains("No all-reduce, all-gather or reduce-scatter"));
  CHECK(strangers[1].ops[0].recorded->start == 0);
}

TEST_CASE("the axis of time of several recordings is that of most of their collectives", "[links][LNK-14]") {
  struct Seen {
    Collective kind;
    workload::Nanoseconds end[2];  // by rank
  };
  const auto ranks_of = [](const std::vector<Seen>& all) {
    std::vector<Workload> ranks(2, empty_workload(1));
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ranks[rank].recording = rank;
      for (const Seen& one : all) {
        ranks[rank].ops.push_back(communication_op(one.kind, 64));
        ranks[rank].ops.back().recorded = workload::Recorded{one.end[rank] - 50, 50};
      }
    }
    return ranks;
  };
  const auto start = [](const std::vector<Workload>& ranks, std::size_t rank) {
    return ranks[rank].ops[0].recorded->start;
  };
  const Collective reduce = Collective::all_reduce;
  // The root of a broadcast ends when it has sent; and one of the others ends at another time.
  std::vector<Workload> ranks = ranks_of({{Collective::broadcast, {100, 100'000}},
                                          {reduce, {150'000, 150'900}},
                                          {reduce, {200'000, 201'000}},
                                          {Collective::all_gather, {300'000, 301'000}},
                                          {reduce, {400'000, 750'000}},
                                          {Collective::reduce_scatter, {800'000, 801'020}}});
  const std::vector<std::string> said = replay::align_ranks(ranks);
  CHECK(start(ranks, 0) == 1050);
  CHECK(start(ranks, 1) == 99'950);
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0], Catch::Contains("gpu0: its recorded times are moved by 1.0 us") &&
                          Catch::Contains("the median of 5 collectives"));
  // Of broadcasts nothing follows.
  ranks = ranks_of({{Collective::broadcast, {100, 5000}}});
  CHECK_THAT(replay::align_ranks(ranks).at(0), Catch::Contains("No all-reduce"));
  CHECK(start(ranks, 0) == 50);
  // They do not belong together: half of them end far away from where the median would put them.
  ranks =
      ranks_of({{reduce, {100, 100}}, {reduce, {1000, 9000}}, {reduce, {20'000, 90'000}}, {reduce, {95'000, 99'000}}});
  CHECK_THAT(replay::align_ranks(ranks).at(0), Catch::Contains("are not moved to one another") &&
                                                   Catch::Contains("they last 0.1 us") &&
                                                   Catch::Contains("0 of all matched by number and 4 by order"));
  CHECK(start(ranks, 0) == 50);
  CHECK(start(ranks, 1) == 50);
}

TEST_CASE("where recorded GPUs are connected, one time is the same time on all, whatever submits", "[links][LNK-14]") {
  // The hosts of the two have called 200 us and 1 us before the first start.
  std::vector<Workload> ranks(2, empty_workload(1));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Op op = kernel_op(0, 1, 1000);
    op.enqueue = rank == 0 ? -200'000 : -1000;
    ranks[rank].ops.push_back(op);
    ranks[rank].format = "kineto";
  }
  for (const std::string by : {"streams", "packets", "tmdqs"}) {
    CAPTURE(by);
    std::vector<replay::Job> jobs;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      jobs.push_back(job_of(ranks[rank], preset_params("small"), fmt::format("gpu{}", rank)));
      jobs.back().params.links.ports = 2;
      jobs.back().pace = replay::Pace::host;
      if (by == "packets") jobs.back().packets = workload::PacketOptions{};
      jobs.back().tmdqs = by == "tmdqs";
    }
    replay::SimulationOptions options;
    options.links.topology = link::Topology::direct;
    const replay::SimulationResult result = replay::simulate(jobs, options);
    REQUIRE(result.progress);
    CHECK(result.jobs[0].lead_ns == result.jobs[1].lead_ns);
    CHECK(result.jobs[0].lead_ns > 190'000);
    // Each has started when its host had called, on the one axis.
    const double apart = result.jobs[1].results[0].start - result.jobs[0].results[0].start;
    CHECK(apart == Approx(199'000).margin(2000));
  }
}

TEST_CASE("a mismatch is one whichever GPU comes first", "[links][LNK-12]") {
  for (const bool swapped : {false, true}) {
    CAPTURE(swapped);
    std::vector<Workload> ranks(2, empty_workload(2));
    ranks[swapped ? 1 : 0].ops.push_back(communication_op(std::nullopt, 64));
    ranks[swapped ? 0 : 1].ops.push_back(communication_op(Collective::all_reduce, 64));
    for (Workload& rank : ranks) rank.ops.push_back(communication_op(Collective::all_reduce, 64));
    const RankCollectives found = match(ranks);
    CHECK(found.matched.empty());
    CHECK(found.kept.at("the ranks differ in what they do") == 4);
  }
}

TEST_CASE("collectives that the ranks have in different orders do not wait for each other", "[links][LNK-12]") {
  std::vector<Workload> ranks(2, empty_workload(2));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (const char* group : {rank == 0 ? "a" : "b", rank == 0 ? "b" : "a", "c"}) {
      ranks[rank].ops.push_back(communication_op(Collective::all_reduce, 4096, group));
    }
  }
  const RankCollectives found = match(ranks);
  REQUIRE(found.matched.size() == 2);
  CHECK(found.matched[0].ops == std::vector<std::size_t>{0, 1});
  CHECK(found.matched[1].ops == std::vector<std::size_t>{2, 2});
  CHECK(found.kept.at("the ranks have it in different orders") == 2);
  const replay::SimulationResult result = run(ranks, {});  // comes to its end
  for (const replay::JobResult& job : result.jobs) {
    for (const replay::OpResult& op : job.results) CHECK(op.done);
  }
}

TEST_CASE("of collectives in different orders the most are kept that have one", "[links][LNK-12]") {
  const auto in_order = [](const std::vector<std::vector<std::string>>& groups) {
    std::vector<Workload> ranks(groups.size(), empty_workload(2));
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      for (const std::string& group : groups[rank]) {
        ranks[rank].ops.push_back(communication_op(Collective::all_reduce, 4096, group));
      }
    }
    return match(ranks).matched.size();
  };
  // One that is first here and last there is out, and not all the others.
  CHECK(in_order({{"x", "a", "b", "c", "d"}, {"a", "b", "c", "d", "x"}}) == 4);
  CHECK(in_order({{"a", "b", "c"}, {"b", "c", "a"}, {"c", "a", "b"}}) == 1);
  // By all subsets, of random orders on three GPUs.
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<std::string>> groups(3, {"a", "b", "c", "d", "e", "f"});
    for (std::vector<std::string>& order : groups) random.shuffle(order);
    std::size_t most = 0;
    for (unsigned subset = 0; subset < 64; ++subset) {
      std::vector<std::string> seen;
      for (const std::vector<std::string>& order : groups) {
        std::string text;
        for (const std::string& name : order) {
          if ((subset >> (name[0] - 'a') & 1U) != 0) text += name;
        }
        seen.push_back(text);
      }
      if (seen[0] == seen[1] && seen[1] == seen[2]) most = std::max(most, seen[0].size());
    }
    CAPTURE(round);
    CHECK(in_order(groups) == most);
  }
}

TEST_CASE("a rank that has fewer collectives than others leaves the last ones unmatched", "[links][LNK-12]") {
  std::vector<Workload> ranks(3, empty_workload(2));
  for (std::size_t rank = 0; rank < 3; ++rank) {
    for (std::size_t k = 0; k <= rank; ++k) ranks[rank].ops.push_back(communication_op(Collective::all_reduce, 64));
  }
  const RankCollectives found = match(ranks);
  CHECK(found.matched.size() == 1);
  CHECK(found.kept.at("the ranks differ in what they do") == 3);
}

TEST_CASE("a collective of ranks waits for the last of them, and takes what its links take", "[links][LNK-13]") {
  constexpr std::uint64_t kBytes = 100'000;  // not a multiple of 16 bytes for each of 3 ranks
  const double carried = scenario::bytes_carried(Collective::all_reduce, 3, false);
  for (const link::Topology topology : {link::Topology::direct, link::Topology::through_switch}) {
    double slow = 0;
    for (const double bandwidth : {1.0, 4.0}) {
      CAPTURE(static_cast<int>(topology), bandwidth);
      std::vector<Workload> ranks{rank_of(1000, kBytes), rank_of(90'000, kBytes), rank_of(5000, kBytes)};
      const replay::SimulationResult result = run(ranks, {bandwidth, topology});
      REQUIRE(result.progress);
      const double last = result.jobs[1].results[0].end;
      // In a ring the next GPU is reached by one port of its own where there is no switch.
      const double ports = topology == link::Topology::direct ? 1 : 2;
      const double least = static_cast<double>(kBytes) * carried / (ports * bandwidth);
      for (const replay::JobResult& job : result.jobs) {
        REQUIRE(job.faults.empty());
        CHECK(job.results[1].end >= last + least);
      }
      CHECK(result.jobs[0].results[1].start < last);  // it is there before, and waits
      const double longest = result.jobs[1].results[1].end - last;
      if (bandwidth == 1.0) slow = longest;
      if (bandwidth == 4.0) CHECK(longest < slow / 2);
    }
  }
}

TEST_CASE("the collectives of a single rank end at once", "[links][LNK-13]") {
  std::vector<Workload> ranks{rank_of(1000, 1 << 20)};
  const replay::SimulationResult result = run(ranks, {25, link::Topology::none});
  REQUIRE(result.progress);
  CHECK(result.jobs[0].results[1].end - result.jobs[0].results[1].start < 1000);
}

namespace {

// Of so many ranks, with so many all-reduces in each of so many streams.
std::vector<Workload> many(std::size_t ranks, std::size_t streams, std::size_t each) {
  std::vector<Workload> all(ranks, empty_workload(streams));
  for (Workload& rank : all) {
    for (std::size_t i = 0; i < streams * each; ++i) {
      rank.ops.push_back(communication_op(Collective::all_reduce, 4096, std::to_string(i % streams)));
      rank.ops.back().stream = i % streams;
    }
  }
  return all;
}

void put(std::vector<Workload>& ranks) {
  std::vector<Workload*> all;
  for (Workload& rank : ranks) all.push_back(&rank);
  replay::run_over_links(match(ranks), all, rooms());
}

}  // namespace

TEST_CASE("collectives of a stream share memory and program, and those of several streams do not", "[links][LNK-13]") {
  std::vector<Workload> one = many(8, 1, 70);
  const replay::SimulationResult result = run(one, {});
  REQUIRE(result.progress);
  for (const replay::JobResult& job : result.jobs) {
    REQUIRE(job.faults.empty());
    for (std::size_t i = 0; i < job.results.size(); ++i) {
      REQUIRE(job.results[i].done);
      if (i > 0) CHECK(job.results[i].start >= job.results[i - 1].end);
    }
  }
  CHECK(one[0].memory.size() == 3);
  CHECK(one[0].ops[0].kernel.program == one[0].ops[69].kernel.program);
  std::vector<Workload> two = many(3, 2, 5);
  const replay::SimulationResult both = run(two, {});
  REQUIRE(both.progress);
  CHECK(two[0].memory.size() == 6);
  CHECK(two[0].ops[0].kernel.program != two[0].ops[1].kernel.program);
}

TEST_CASE("within a graph, collectives share memory if they wait for each other", "[links][LNK-13]") {
  for (const bool ordered : {false, true}) {
    CAPTURE(ordered);
    std::vector<Workload> ranks(2, empty_workload(1));
    for (Workload& rank : ranks) {
      for (std::size_t i = 0; i < 3; ++i) {  // an all-reduce, another kernel, an all-reduce
        rank.ops.push_back(i == 1 ? kernel_op(0, 1, 100) : communication_op(Collective::all_reduce, 4096));
        rank.ops.back().stream = 0;
        rank.ops.back().graph.emplace();
        rank.ops.back().graph->last = i == 2;
      }
      if (ordered) rank.ops[1].graph->after = {0};
      rank.ops[2].graph->after = {1};
      rank.ops.push_back(communication_op(Collective::all_reduce, 4096));  // behind the graph
      rank.ops.back().stream = 0;
    }
    put(ranks);
    CHECK(ranks[0].memory.size() == (ordered ? 3 : 6));
  }
}

TEST_CASE("more collectives at once than there is memory for are refused with what to do", "[links][LNK-13]") {
  std::vector<Workload> ranks = many(64, 6, 1);
  CHECK_THROWS_WITH(put(ranks), Catch::Contains("collectives of 6 streams at once, or more, on 64 GPUs") &&
                                    Catch::Contains("take at most 55 GPUs"));
  // With as many streams no two GPUs can be connected; which is known long before all of them are seen.
  std::vector<Workload> hostile = many(2, 400, 1);
  CHECK_THROWS_WITH(put(hostile), Catch::Contains("collectives of 167 streams at once, or more") &&
                                      Catch::Contains("unconnected") && !Catch::Contains("take at most"));
  std::vector<Workload> fewer = many(64, 5, 3);
  put(fewer);
  CHECK(fewer[63].memory.size() == 15);
}

TEST_CASE("collectives of several streams have no more CTAs than have a place at once", "[links][LNK-13]") {
  // Each GPU begins with another one, and the CTAs of one fill it.
  std::vector<Workload> ranks(2, empty_workload(3));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::size_t k = 0; k < 2; ++k) {
      if (rank == k) {
        ranks[rank].ops.push_back(kernel_op(0, 1, 20'000));
        ranks[rank].ops.back().stream = k + 1;
      } else {
        ranks[rank].ops.push_back(kernel_op(0, 1, 10));
      }
    }
    for (std::size_t k = 0; k < 2; ++k) {
      Op op = communication_op(Collective::all_reduce, 65'536, std::to_string(k));
      op.kernel.grid = {1024, 1, 1};
      op.kernel.block = {1024, 1, 1};
      op.stream = k + 1;
      ranks[rank].ops.push_back(op);
    }
  }
  const replay::SimulationResult result = run(ranks, {});
  REQUIRE(result.progress);
  const arch::SmLimits& limits = rooms().front().limits;
  const std::uint64_t most = std::uint64_t{rooms().front().sms} * (limits.threads / 1024);
  CHECK(2 * ranks[0].ops[2].kernel.grid.count() <= most);
  CHECK(ranks[0].ops[2].kernel.grid.count() > most / 8);
  for (const replay::JobResult& job : result.jobs) {
    for (const replay::OpResult& op : job.results) CHECK(op.done);
  }
  // One stream keeps its own.
  std::vector<Workload> alone = many(2, 1, 2);
  for (Workload& rank : alone) {
    for (Op& op : rank.ops) op.kernel.grid = {1024, 1, 1};
  }
  put(alone);
  CHECK(alone[0].ops[0].kernel.grid.count() == 1024);
}

TEST_CASE("ranks are copies, and a run without links between them is refused", "[links][LNK-13]") {
  Workload one = rank_of(1000, 4096);
  one.warnings.emplace_back("something");
  std::vector<Workload> ranks = replay::copies_of_rank(one, 3);
  REQUIRE(ranks.size() == 3);
  CHECK(ranks[2].ops.size() == 2);
  CHECK(ranks[0].warnings.size() == 1);
  CHECK(ranks[2].warnings.empty());
  CHECK_THROWS_WITH(run(ranks, {25, link::Topology::none}), Catch::Contains("run over links"));
}

}  // namespace links_rank_collectives_test
