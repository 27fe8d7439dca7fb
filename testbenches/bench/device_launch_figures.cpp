// The figures of docs/results/device-launch.md, all from one run: what a launch by device code costs, part by part, and
// what saving parents costs. They are simulated, so they are the same on every computer. Prints Markdown; fails if a
// tail launch is not the faster one, as it is on the card.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/kernel_object.h"
#include "support/gpu_lab.h"
#include "support/nested_tree.h"

int sc_main(int, char**) { return 0; }

namespace {

using namespace heddle;
using namespace heddle::test;

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// When the first CTA of every task executed its first instruction, and when its last one ended, in cycles.
class Starts : public CtaListener {
 public:
  void cta_started(const Cta& cta) override { begin.emplace_back(cta.first_instruction); }
  void cta_ended(const Cta& cta) override { end.emplace_back(cta.cycle); }
  std::vector<std::uint64_t> begin;
  std::vector<std::uint64_t> end;
};

constexpr std::uint64_t kKernel = 0x10'0000;
constexpr std::uint64_t kLeft = 0x10'0100;  // launches that are left

// A kernel of one thread that launches itself again until nothing is left.
std::shared_ptr<const arch::WarpProgram> relaunches(arch::LaunchMode mode) {
  auto p = std::make_shared<ListProgram>(4);
  ListProgram::Access one;
  one.lanes = ListProgram::only(0);
  one.order = arch::Order::relaxed;
  p->load(one, 0, ListProgram::linear(kLeft, 0));
  p->store(one, [](const Warp& w, std::uint32_t) { return std::uint64_t{w.reg(0, 0)} - 1; },
           ListProgram::linear(kLeft, 0), {{0, 1}});
  p->launch_child(
      [mode](const Warp&, std::uint32_t) {
        arch::ChildLaunch child;
        child.kernel = kKernel;
        child.mode = mode;
        return child;
      },
      {{0, 1}}, [](const Warp& w) { return w.reg(0, 0) > 1 ? 1U : 0U; });
  p->exit();
  return p;
}

// Means of task management's histograms and what is around them, in us.
struct Chain {
  double per_launch = 0;  // from one first instruction to the next
  double after_end = 0;   // from a task's last instruction to the next one's first
  double steps = 0;       // accesses to memory of a launch operation
  double launch = 0;      // launch operation issued -> start packet at task management (0: the scheduler starts it)
  double read = 0;        // -> TMD and kernel object have been read
  double list = 0;        // -> in the list of its priority
  double dispatch = 0;    // -> first launch packet
};

Chain chain(const std::vector<std::string>& sets, arch::LaunchMode mode, std::uint32_t launches) {
  SimFixture fixture;
  GpuLab lab(preset_params("rtx5090", sets));
  Starts starts;
  lab.observation.ctas = &starts;
  const protocol::SubmitPacket packet = lab.packet(relaunches(mode), {1, 1, 1}, {32, 1, 1});
  arch::KernelObject object;
  object.program = packet.kernel.code;
  object.name = "again";
  const arch::KernelObjectBytes bytes = arch::encode(object);
  HEDDLE_CHECK(lab.gpu.memory().write(kKernel, bytes.data(), bytes.size()), "no room");
  lab.write<std::uint32_t>(kLeft, launches);
  lab.submit(packet);
  run_until_idle();
  HEDDLE_CHECK(lab.host.results.size() == 1 && starts.begin.size() == launches, "a chain did not end");
  const double cycle = lab.gpu.domain().clock().ns_for_cycles(1) / 1e3;
  Chain result;
  result.per_launch =
      static_cast<double>(starts.begin.back() - starts.begin.front()) * cycle / static_cast<double>(launches - 1);
  double sum = 0;
  for (std::uint32_t i = 1; i < launches; ++i) {
    sum += static_cast<double>(starts.begin[i]) - static_cast<double>(starts.end[i - 1]);
  }
  result.after_end = sum * cycle / static_cast<double>(launches - 1);
  // Tails are started by the scheduler: some parts of theirs have no sample.
  const auto stats = lab.observation.stats.to_json();
  const auto mean = [&stats](const char* part) {
    const auto found = stats.find(std::string("gpu0.task.child_") + part + ".mean");
    return found == stats.end() ? 0 : found->at("value").get<double>() / 1e3;
  };
  for (const auto& [path, stat] : stats.items()) {
    const std::string name = ".nested.steps";
    const bool its = path.size() > name.size() && path.compare(path.size() - name.size(), name.size(), name) == 0;
    if (its) result.steps += stat.at("value").get<double>() / static_cast<double>(launches - 1);
  }
  result.launch = mean("launch");
  result.read = mean("read");
  result.list = mean("list");
  result.dispatch = mean("dispatch");
  return result;
}

// A full binary tree of parents that wait, on `small`, whose machine holds all of them or a part.
struct Tree {
  double us = 0;
  double saves = 0;
  double kib = 0;
};

Tree tree(std::uint32_t depth, const std::string& save, std::uint32_t ctas) {
  SimFixture fixture;
  GpuLab lab(preset_params(
      "small", {"gpu.sm.nested.save=" + save, "gpu.cwd.preemption=instruction",
                "gpu.sm.limits.ctas=" + std::to_string(ctas), "gpu.cwd.table_slots=1024", "gpu.cwd.active_pool=0",
                "gpu.cwd.pending_pool=0", "gpu.task.nested.contexts=4096", "gpu.task.nested.pending_launches=8192"}));
  const NestedTree nodes = NestedTree::full(depth, 2);
  NestedRun run(lab, nodes);
  const std::uint32_t root = lab.submit(run.root());
  run_until_idle();
  HEDDLE_CHECK(lab.host.results.count(root) == 1 && run.verdict().empty(), "a tree did not end");
  Tree result;
  result.us = lab.cycles(root) / 1e3;
  const auto stats = lab.observation.stats.to_json();
  for (const auto& [path, stat] : stats.items()) {
    const auto ends = [&path = path](const std::string& name) {
      return path.size() > name.size() && path.compare(path.size() - name.size(), name.size(), name) == 0;
    };
    if (ends(".nested.saves")) result.saves += stat.at("value").get<double>();
    if (ends(".nested.save_bytes")) result.kib += stat.at("value").get<double>() / 1024;
  }
  return result;
}

bool chains(std::uint32_t launches) {
  print("## What a launch costs\n\n| | published | model | |\n| --- | ---: | ---: | ---: |\n");
  std::vector<std::pair<const char*, Chain>> all;
  for (const auto& [mode, name, published] : {std::tuple{arch::LaunchMode::tail, "tail launch", 7.3},
                                              std::tuple{arch::LaunchMode::fire_and_forget, "fire and forget", 8.7},
                                              std::tuple{arch::LaunchMode::stream, "into a stream", 0.0}}) {
    const Chain c = chain({}, mode, launches);
    all.emplace_back(name, c);
    const double off = published > 0 ? (c.per_launch / published - 1) * 100 : 0;
    print(fmt::format("| {} | {} | {:.2f} us | {} |\n", name, published > 0 ? fmt::format("{} us", published) : "",
                      c.per_launch, published > 0 ? fmt::format("{:+.0f} %", off) : ""));
  }
  print(
      "\n## Which part is which\n\nus, means.\n\n| | accesses of the launch operation | launch operation | reads of "
      "the "
      "scheduler | to its list | to the "
      "first launch packet | after the end of the launcher |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const auto& [name, c] : all) {
    // The scheduler starts a tail by itself: its issue is not known there.
    const bool known = c.launch > 0;
    const auto us = [known](double value) { return known ? fmt::format("{:.2f}", value) : std::string(); };
    print(fmt::format("| {} | {:.0f} | {} | {} | {} | {} | {:.2f} |\n", name, c.steps, us(c.launch), us(c.read),
                      us(c.list), us(c.dispatch), c.after_end));
  }
  print("\nWithout one of them, us per launch:\n\n| | tail | fire and forget |\n| --- | ---: | ---: |\n");
  for (const auto& [what, sets] : std::vector<std::pair<const char*, std::vector<std::string>>>{
           {"everything", {}},
           {"without the instructions of the device runtime", {"gpu.sm.nested.launch_instructions=0"}},
           {"without the scheduler's own work", {"gpu.task.nested.schedule_cycles=0"}},
           {"without the way between SM and task management",
            {"gpu.task.nested.sm_distance=0", "gpu.sm.nested.distance=0"}},
           {"all three away: memory accesses and the distributor",
            {"gpu.sm.nested.launch_instructions=0", "gpu.task.nested.schedule_cycles=0",
             "gpu.task.nested.sm_distance=0", "gpu.sm.nested.distance=0"}}}) {
    print(fmt::format("| {} | {:.2f} | {:.2f} |\n", what, chain(sets, arch::LaunchMode::tail, launches).per_launch,
                      chain(sets, arch::LaunchMode::fire_and_forget, launches).per_launch));
  }
  return all[0].second.per_launch < all[1].second.per_launch;
}

void trees(std::uint32_t depth) {
  print(
      fmt::format("\n## What saving costs\n\nA binary tree of depth {}, every task of one warp waits for its two "
                  "children, on `small`.\n\n| CTA slots of an SM | saving | time | saves | KiB written |\n"
                  "| ---: | --- | ---: | ---: | ---: |\n",
                  depth));
  const std::uint32_t sms = preset_params("small").machine.shape.sms();
  for (const std::uint32_t ctas : {32U, 8U, 2U}) {
    for (const std::string save : {"off", "wait", "wanted"}) {
      // All that wait at a time have to fit if they are not saved.
      if (save == "off" && (1U << depth) > ctas * sms) {
        print(fmt::format("| {} | off | does not end | | |\n", ctas));
        continue;
      }
      const Tree t = tree(depth, save, ctas);
      print(fmt::format("| {} | {} | {:.0f} us | {:.0f} | {:.0f} |\n", ctas, save, t.us, t.saves, t.kib));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const bool good = chains(24);  // as deep as launches may be nested
  trees(quick ? 6 : 8);
  return good ? 0 : 1;
}
