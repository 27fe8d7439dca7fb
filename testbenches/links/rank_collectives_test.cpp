// Collectives of recordings over links: which kernels belong together, and what they take.
#include "replay/rank_collectives.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/error.h"
#include "replay/replay_bench.h"
#include "scenario/collectives.h"

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
  op.communication = Communication{kind, group, bytes, 0};
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

struct Setup {
  double bandwidth = 25;
  link::Topology topology = link::Topology::through_switch;
};

replay::SimulationResult run(std::vector<Workload>& ranks, const Setup& setup) {
  std::vector<Workload*> all;
  for (Workload& rank : ranks) all.push_back(&rank);
  replay::run_over_links(match(ranks), all);
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
