// Tasks that launch tasks, on the whole machine: the protocol's walks, the scheduler, saved parents, the task table.
#include <catch2/catch.hpp>

#include "support/nested_tree.h"
#include "support/random.h"

namespace system_nested_test {

using namespace heddle;
using namespace heddle::test;

namespace {

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

// A short way of the device runtime: what is tested is order.
const std::vector<std::string> kQuick = {"gpu.sm.nested.launch_instructions=12", "gpu.sm.nested.save_delay=200"};

}  // namespace

TEST_CASE("every task of a random tree runs once, in the order of its stream, and its parent waits for it",
          "[system][TSK-06][TSK-08][TSK-09][TSK-10][TSK-13][TSK-14]") {
  Random random(seed());
  const std::string timing = GENERATE("at", "fast", "lt");
  for (std::uint32_t round = 0; round < 6; ++round) {
    const bool save = round % 2 == 0;
    std::vector<std::string> sets =
        with(kQuick, {"gpu.timing=" + timing, save ? "gpu.sm.nested.save=true" : "gpu.sm.nested.save=false",
                      // Few of everything, but for what waits without being saved.
                      "gpu.cwd.table_slots=" + std::to_string(save ? random.between(1, 6) : 128),
                      "gpu.task.nested.in_flight=" + std::to_string(random.between(1, 8)),
                      "gpu.sm.fetch.cache_bytes=" + std::to_string(random.chance(50) ? 0 : 512),
                      "gpu.task.nested.tmdqs=" + std::to_string(random.between(1, 6))});
    const std::uint32_t most = save ? 150 : 60;
    const NestedTree tree = NestedTree::random(random, most, random.between(2, 6), random.between(1, 8), round > 2);
    INFO("round " << round << ", " << tree.nodes.size() << " tasks");
    SimFixture fixture;
    GpuLab lab(preset_params("small", sets));
    NestedRun run(lab, tree);
    const std::uint32_t root = lab.submit(run.root());
    run_until_idle();
    CHECK(run.verdict() == std::vector<std::string>{});
    REQUIRE(lab.host.results.count(root) == 1);
    CHECK(lab.host.results.at(root).status == protocol::DoneStatus::ok);
    CHECK(lab.gpu.log().faults().empty());
    CHECK(lab.stat("task.children") == static_cast<double>(tree.nodes.size() - 1));
    lab.gpu.check_quiescent();
  }
}

TEST_CASE("several trees at a time share streams of the host, slots and pools of records",
          "[system][TSK-03][TSK-06][TSK-07][TSK-13]") {
  Random random(seed());
  SimFixture fixture;
  GpuLab lab(preset_params("small", with(kQuick, {"gpu.cwd.table_slots=4", "gpu.task.nested.pending_launches=64",
                                                  "gpu.task.nested.contexts=48"})));
  std::vector<NestedTree> trees;
  for (std::uint32_t i = 0; i < 4; ++i) trees.push_back(NestedTree::random(random, 30, 4, 5, true));
  std::vector<std::unique_ptr<NestedRun>> runs;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint64_t base = 0x100'0000 * (i + 1);
    runs.push_back(
        std::make_unique<NestedRun>(lab, trees[i], TreePlace{base, base + 0x100, base + 0x200, base + 0x1'0000}));
    lab.submit(runs.back()->root(i % 2));
  }
  run_until_idle();
  for (const auto& run : runs) CHECK(run->verdict() == std::vector<std::string>{});
  CHECK(lab.host.results.size() == 4);
  lab.gpu.check_quiescent();
}

TEST_CASE("a machine full of waiting parents goes on if they are saved, and says why not if they are not",
          "[system][TSK-12]") {
  const bool save = GENERATE(true, false);
  // Parents at every level, two children each, on a machine with room for 64 warps.
  const NestedTree tree = NestedTree::full(save ? 12 : 9, 2);
  SimFixture fixture;
  GpuLab lab(
      preset_params("small", with(kQuick, {save ? "gpu.sm.nested.save=true" : "gpu.sm.nested.save=false",
                                           "gpu.shape=[2]", "gpu.sm.limits.ctas=8", "gpu.cwd.table_slots=16",
                                           "gpu.task.nested.pending_launches=8192", "gpu.task.nested.contexts=4096"})));
  NestedRun run(lab, tree);
  const std::uint32_t root = lab.submit(run.root());
  run_until_idle();
  if (save) {
    CHECK(run.verdict() == std::vector<std::string>{});
    CHECK(lab.host.results.count(root) == 1);
    CHECK(lab.stat("task.children") == static_cast<double>(tree.nodes.size() - 1));
    CHECK(lab.stat("task.wakes") > 1000);
    lab.gpu.check_quiescent();
    return;
  }
  CHECK(lab.host.results.empty());
  WaitGraph graph;
  lab.gpu.domain().collect_waits(graph);
  std::string chain;
  for (const std::string& line : graph.chain()) chain += line + "\n";
  INFO(chain);
  CHECK(chain.find("children") != std::string::npos);
  CHECK(chain.find("free slots") != std::string::npos);
}

TEST_CASE("a task that goes wrong ends alone: its parent and its siblings go on", "[system][TSK-06]") {
  SimFixture fixture;
  GpuLab lab(preset_params("small", with(kQuick, {"gpu.task.nested.max_depth=3"})));
  const NestedTree tree = NestedTree::full(4, 1);  // the fourth level is one too deep
  NestedRun run(lab, tree);
  const std::uint32_t root = lab.submit(run.root());
  run_until_idle();
  REQUIRE(lab.gpu.log().faults().size() == 1);
  CHECK(lab.gpu.log().faults().front().kind == arch::FaultKind::nesting);
  CHECK(run.note(3).starts == 1);
  CHECK(run.note(3).end == 0);  // it was stopped at its launch
  CHECK(run.note(4).starts == 0);
  CHECK(run.note(2).end != 0);
  CHECK(run.note(0).end != 0);
  REQUIRE(lab.host.results.count(root) == 1);
  CHECK(lab.host.results.at(root).status == protocol::DoneStatus::ok);
  lab.gpu.check_quiescent();
}

TEST_CASE("a reset in the middle of a tree leaves nothing behind, and the next tree runs", "[system][TSK-13]") {
  Random random(seed());
  for (std::uint32_t round = 0; round < 4; ++round) {
    const NestedTree tree = NestedTree::random(random, 120, 5, 4, true);
    SimFixture fixture;
    GpuLab lab(preset_params("small", with(kQuick, {"gpu.cwd.table_slots=3"})));
    NestedRun run(lab, tree);
    const protocol::SubmitPacket root = run.root();
    lab.submit(root);
    sc_core::sc_start(sc_core::sc_time(random.between(2'000, 60'000), sc_core::SC_NS));
    lab.gpu.reset();
    lab.host.forget();
    lab.gpu.check_quiescent();
    std::vector<std::uint8_t> zeros(sizeof(TreeNote) * tree.nodes.size());
    REQUIRE(lab.gpu.memory().write(TreePlace{}.notes, zeros.data(), zeros.size()));
    lab.write<std::uint64_t>(TreePlace{}.counter, 0);
    NestedRun again(lab, tree);
    const std::uint32_t second = lab.submit(again.root());
    run_until_idle();
    CHECK(again.verdict() == std::vector<std::string>{});
    CHECK(lab.host.results.count(second) == 1);
    lab.gpu.check_quiescent();
  }
}

}  // namespace system_nested_test
