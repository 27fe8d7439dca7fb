// The figures of docs/results/partitioning.md about what two processes do to each other in caches and memory, and how
// long a change of shares takes. Simulated, so they are the same on every computer. Prints Markdown; fails where its
// claims do not hold. --quick: on a small machine.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "arch/topology.h"
#include "bench/figure_page.h"
#include "cli/machines.h"
#include "common/fair_progress.h"
#include "replay/simulation.h"

namespace {

using namespace heddle;
using figures::claim;
using figures::good;
using figures::print;

struct Setting {
  std::string preset;
  std::uint32_t window = 60;  // us in which B submits
  std::uint32_t half = 4;     // GPCs of A; the rest are B's
  std::uint32_t gpcs = 8;
  std::vector<std::uint32_t> tpcs;  // by GPC
  std::uint32_t slices = 80;
  double clock = 1;  // GHz
  // CTAs of A for each us of the window: more than it completes.
  std::uint32_t streams = 280;
  std::uint32_t computes = 160;
  std::uint32_t readers = 32;  // CTAs of a kernel of B that reads: it asks for a tenth or more of the bandwidth

  std::uint32_t tpcs_of(bool first) const {
    std::uint32_t sum = 0;
    for (std::uint32_t g = first ? 0 : half; g < (first ? half : gpcs); ++g) sum += tpcs[g];
    return sum;
  }
};

Setting setting_of(const std::string& preset, std::uint32_t window) {
  const gpu::GpuParams params = cli::resolve_machine(preset, {}).gpus.front().params;
  const arch::Topology topology(params.machine.shape);
  Setting setting{preset, window, topology.gpcs() / 2, topology.gpcs(), {}, params.l2.slices, params.machine.clock};
  if (preset == "small") {
    setting.streams = setting.computes = 10;
    setting.readers = 2;
  }
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    setting.tpcs.push_back(static_cast<std::uint32_t>(topology.gpc(g).tpcs.size()));
  }
  return setting;
}

enum class Way { none, fixed, dynamic, bandwidth, instances };
constexpr std::array<std::pair<Way, const char*>, 5> kWays{{{Way::none, "none"},
                                                            {Way::fixed, "static"},
                                                            {Way::dynamic, "dynamic"},
                                                            {Way::bandwidth, "static, bandwidth 50 + 50 %"},
                                                            {Way::instances, "instances"}}};

std::string list(std::uint32_t first, std::uint32_t end) {
  std::string text;
  for (std::uint32_t i = first; i < end; ++i) text += fmt::format("{}{}", i == first ? "" : ", ", i);
  return "[" + text + "]";
}

std::string mask(const Setting& setting, bool first) {
  std::string text;
  for (std::uint32_t g = first ? 0 : setting.half; g < (first ? setting.half : setting.gpcs); ++g) {
    for (std::uint32_t t = 0; t < setting.tpcs[g]; ++t)
      text += fmt::format("{}[{}, {}]", text.empty() ? "" : ", ", g, t);
  }
  return "[" + text + "]";
}

// The machine and who has what of it.
std::string shared(const Setting& setting, Way way) {
  const char* mode = way == Way::none ? "none" : way == Way::dynamic ? "dynamic" : "static";
  std::string more;
  if (way == Way::instances) {
    const std::uint32_t slices = setting.slices / 2;
    more = fmt::format(
        ", copy: {{engines: 2}}, instances: [{{gpcs: {}, slices: {}, copy_engines: [0], memory: 256 MiB}}, "
        "{{gpcs: {}, slices: {}, copy_engines: [1], memory: 256 MiB}}]",
        list(0, setting.half), list(0, slices), list(setting.half, setting.gpcs), list(slices, setting.slices));
  }
  std::string text = fmt::format("heddle: 1\ngpu: {}\nconfig: {{gpu: {{cwd: {{partition: {}}}{}}}}}\nsubcontexts:\n",
                                 setting.preset, mode, more);
  for (const bool first : {true, false}) {
    std::string own;
    if (way == Way::dynamic) own = fmt::format(", credits: {}", setting.tpcs_of(first));
    if (way == Way::fixed || way == Way::bandwidth) own = ", tpcs: " + mask(setting, first);
    if (way == Way::bandwidth) own += ", bandwidth: 50 %";
    if (way == Way::instances) own = fmt::format(", instance: {}", first ? 0 : 1);
    text += fmt::format("  - {{id: {}{}}}\n", first ? 1 : 2, own);
  }
  for (const bool first : {true, false}) {
    text += fmt::format("{}  - {{name: {}, bytes: 128 MiB{}}}\n", first ? "memory:\n" : "", first ? "a" : "b",
                        way == Way::instances ? fmt::format(", instance: {}", first ? 0 : 1) : "");
  }
  return text;
}

constexpr std::uint32_t kStreamBytes = 2 * 8192;  // of a CTA of A

// A fills the machine for longer than the window; B asks every microsecond, in streams of its own.
std::string load(const Setting& setting, bool memory, bool a, bool b) {
  std::string text = "kernels:\n";
  if (a && memory) {
    text += fmt::format(
        "  - name: A\n    grid: {}\n    block: 512\n    subcontext: 1\n    program:\n"
        "      - loop: {{var: i, to: 2, do: [{{load: {{to: [w, x, y, z], type: u32, order: relaxed, scope: gpu, "
        "at: a + ({} * cta + 16 * thread + 8192 * i) % 134217728}}}}]}}\n",
        setting.window * setting.streams, kStreamBytes);
  } else if (a) {
    text += fmt::format("  - {{name: A, grid: {}, block: 512, cycles: {{min: 6000, max: 10000}}, subcontext: 1}}\n",
                        setting.window * setting.computes);
  }
  const std::uint32_t ctas = setting.gpcs * 2;
  // Each kernel of B reads lines of its own.
  for (std::uint32_t i = 0; b && memory && i < setting.window; ++i) {
    text += fmt::format(
        "  - name: B{}\n    grid: {}\n    block: 32\n    subcontext: 2\n    program:\n"
        "      - set: {{p: {} + cta * 7919 + thread * 31, type: u32}}\n"
        "      - loop:\n          var: i\n          to: 6\n          do:\n"
        "            - load: {{to: v, type: u32, order: relaxed, scope: gpu, at: b + p % 1048576 * 128}}\n"
        "            - set: {{p: p * 1664525 + 1013904223 + v}}\n",
        i, setting.readers, i * 65'537);
  }
  if (b && !memory) {
    text +=
        fmt::format("  - {{name: B, grid: {}, block: 256, cycles: {{min: 1000, max: 2000}}, subcontext: 2}}\n", ctas);
  }
  text += "submit:\n";
  if (a) text += "  - {kernel: A, stream: a}\n";
  for (std::uint32_t i = 0; b && i < setting.window; ++i) {
    text += fmt::format("  - {{kernel: {}, stream: b{}, at: {} us}}\n", memory ? fmt::format("B{}", i) : "B", i, i + 5);
  }
  return text;
}

// When CTAs ended, by kernel, in us.
class Ends : public CtaListener {
 public:
  explicit Ends(const workload::Workload& workload) : workload_(workload) {}
  void cta_started(const Cta& cta) override { last_start[name_of(cta)][cta.sm] = cta.cycle; }
  void cta_ended(const Cta& cta) override {
    ends[name_of(cta)].push_back(cta.cycle);
    sms[name_of(cta)][cta.sm] = cta.cycle;
  }
  std::map<std::string, std::vector<std::uint64_t>> ends;
  std::map<std::string, std::map<std::uint32_t, std::uint64_t>> sms;  // by SM: the end of its last CTA
  std::map<std::string, std::map<std::uint32_t, std::uint64_t>> last_start;

 private:
  const std::string& name_of(const Cta& cta) const { return workload_.ops[cta.task].kernel.name; }
  const workload::Workload& workload_;
};

struct Outcome {
  double rate = 0;              // CTAs of A per us within the window
  std::vector<double> latency;  // us, of the kernels of B, in order
  std::array<double, 2> l2{};   // MB
  std::array<double, 2> hbm{};
  std::map<std::string, std::vector<std::uint64_t>> ends;
  std::map<std::string, std::map<std::uint32_t, std::uint64_t>> sms;

  double at(double part) const {
    if (latency.empty()) return 0;
    return latency[std::min(latency.size() - 1, static_cast<std::size_t>(part * static_cast<double>(latency.size())))];
  }
  double mean() const {
    double sum = 0;
    for (const double one : latency) sum += one;
    return latency.empty() ? 0 : sum / static_cast<double>(latency.size());
  }
};

Outcome run(const Setting& setting, const std::string& text) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("heddle_sharing_{}.yaml", getpid());
  std::ofstream(file) << text;
  cli::RunOptions options;
  options.files = {file.string()};
  const cli::Inputs inputs = cli::load_inputs(options.files, std::nullopt);
  const cli::Machines machines = cli::resolve_machines(inputs, options);
  std::filesystem::remove(file);
  const workload::Workload& workload = inputs.workloads.front();
  Ends watch(workload);
  replay::Job job;
  job.instance = "gpu0";
  job.params = machines.gpus.front().params;
  job.workload = &workload;
  job.ctas = &watch;
  const replay::SimulationResult result = replay::simulate({job}, {});
  HEDDLE_CHECK(result.progress, "a run did not end");
  const replay::JobResult& done = result.jobs.front();
  Outcome outcome;
  const double us = setting.clock * 1e3;  // cycles
  const double begin = (5 + setting.window / 5.0) * us;
  const double end = (5.0 + setting.window) * us;
  for (const std::uint64_t cycle : watch.ends["A"]) {
    const auto when = static_cast<double>(cycle);
    if (when > begin && when <= end) outcome.rate += us / (end - begin);
  }
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    if (workload.ops[i].kernel.name.front() != 'B') continue;
    outcome.latency.push_back((done.results[i].end - done.results[i].submitted) / 1e3);
  }
  std::sort(outcome.latency.begin(), outcome.latency.end());
  const nlohmann::json stats = done.observation->stats.to_json();
  for (std::size_t p = 0; p < 2; ++p) {
    // Who has moved nothing has no row.
    const auto megabytes = [&stats, p](const char* name) {
      const auto found = stats.find(fmt::format("gpu0.memory.subcontext{}.{}", p + 1, name));
      return found == stats.end() ? 0.0 : found->at("value").get<double>() / 1e6;
    };
    outcome.l2[p] = megabytes("l2_bytes");
    outcome.hbm[p] = megabytes("hbm_read_bytes") + megabytes("hbm_written_bytes");
  }
  outcome.ends = std::move(watch.ends);
  outcome.sms = std::move(watch.sms);
  return outcome;
}

void compare_ways(const Setting& setting, bool memory) {
  print(fmt::format("## {} load, beside each other\n\n", memory ? "Memory-bound" : "Compute-bound"));
  const Outcome a = run(setting, shared(setting, Way::none) + load(setting, memory, true, false));
  const Outcome b = run(setting, shared(setting, Way::none) + load(setting, memory, false, true));
  print(fmt::format(
      "Alone on the whole `{}`, A completes {:.1f} CTAs per us; a kernel of B takes {:.2f} us at p50 and {:.2f} at "
      "p99.\n\n",
      setting.preset, a.rate, b.at(0.5), b.at(0.99)));
  print(
      "| partitioning | A, CTAs per us | of alone | B p50, us | B p99, us | Jain's index | L2, MB: A | B | HBM, MB: A "
      "| B "
      "|\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  std::map<Way, Outcome> outcomes;
  for (const auto& [way, name] : kWays) {
    const Outcome& o = outcomes[way] = run(setting, shared(setting, way) + load(setting, memory, true, true));
    const std::vector<double> shares{o.rate / a.rate, std::min(1.0, b.mean() / o.mean())};
    print(fmt::format("| {} | {:.1f} | {:.0f} % | {:.2f} | {:.2f} | {:.3f} | {:.1f} | {:.2f} | {:.1f} | {:.2f} |\n",
                      name, o.rate, 100 * shares[0], o.at(0.5), o.at(0.99), jain_index(shares), o.l2[0], o.l2[1],
                      o.hbm[0], o.hbm[1]));
  }
  print("\n");
  // What the page says of them.
  const Outcome alone = run(setting, shared(setting, Way::instances) + load(setting, memory, false, true));
  print(fmt::format("Alone on its instance, a kernel of B takes {:.2f} us at p50 and {:.2f} at p99.\n\n", alone.at(0.5),
                    alone.at(0.99)));
  claim(outcomes[Way::instances].mean() < 1.02 * alone.mean(), "on its instance B takes as long as alone there");
  if (!memory) {
    claim(outcomes[Way::fixed].at(0.99) < 0.1 * outcomes[Way::none].at(0.99),
          "with TPCs of its own B does not wait for A");
    return;
  }
  claim(outcomes[Way::bandwidth].at(0.5) < 0.8 * outcomes[Way::fixed].at(0.5),
        "a share of bandwidth helps B beyond that");
  claim(outcomes[Way::bandwidth].rate > 0.7 * outcomes[Way::fixed].rate, "and A has what B leaves");
}

// Cycles from a change until A has what it says.
void changes(const Setting& setting) {
  print("## How long a change takes\n\nOf the shares of A, which has much to do, 20 us after its begin:\n\n");
  print("| what changes | longest CTA, us | in force after, us |\n| --- | ---: | ---: |\n");
  const double us = setting.clock * 1e3;
  const std::uint32_t sms = 2 * (setting.tpcs_of(true) + setting.tpcs_of(false));
  const std::string kernel = fmt::format(
      "kernels: [{{name: A, grid: {}, block: 256, cycles: {{min: 4000, max: 6000}}, subcontext: 1}}]\nsubmit: "
      "[{{kernel: A, "
      "stream: a}}]\n",
      sms * 60);
  const double longest = 6000 / us;
  const auto sms_after = [&](const Outcome& o, std::size_t kept) {
    std::vector<std::uint64_t> last;
    for (const auto& [sm, cycle] : o.sms.at("A")) last.push_back(cycle);
    std::sort(last.rbegin(), last.rend());
    return static_cast<double>(last[kept]) / us - 20;  // the last SM that had to be given up
  };
  struct Change {
    const char* name;
    std::string before, change;
    std::size_t kept;  // SMs
  };
  const std::uint32_t tpcs = sms / 2;
  const Change list[] = {
      {"credits, from all TPCs to 2", fmt::format(", credits: {}", tpcs), "credits: 2", 4},
      {"share of SMs, from all to 20 %", "", "sms: 20 %", (sms * 20 + 99) / 100},
  };
  for (const Change& one : list) {
    const std::string text = fmt::format(
        "heddle: 1\ngpu: {}\nconfig: {{gpu: {{cwd: {{partition: dynamic}}}}}}\nsubcontexts: [{{id: 1{}}}]\n"
        "share: [{{at: 20 us, subcontext: 1, {}}}]\n{}",
        setting.preset, one.before, one.change, kernel);
    const double took = sms_after(run(setting, text), one.kept);
    print(fmt::format("| {} | {:.2f} | {:.2f} |\n", one.name, longest, took));
    claim(took < longest + 0.5, "a cut is in force within the longest CTA");
  }
  // A limit of bandwidth: from when on no microsecond has more than the limit allows.
  Setting longer = setting;
  longer.window *= 3;
  const std::string limited = shared(longer, Way::none) +
                              "share: [{at: 20 us, subcontext: 1, bandwidth_limit: 25 %}]\n" +
                              load(longer, true, true, false);
  const Outcome o = run(longer, limited);
  std::vector<double> per_us(longer.window, 0);
  for (const std::uint64_t cycle : o.ends.at("A")) {
    const auto bin = static_cast<std::size_t>(static_cast<double>(cycle) / us);
    if (bin < per_us.size()) per_us[bin] += 1;
  }
  const auto mean = [&per_us](std::size_t begin, std::size_t end) {
    return std::accumulate(per_us.begin() + static_cast<std::ptrdiff_t>(begin),
                           per_us.begin() + static_cast<std::ptrdiff_t>(end), 0.0) /
           static_cast<double>(end - begin);
  };
  const double before = mean(10, 20);
  const double after = mean(longer.window / 2, longer.window);
  std::size_t in_force = 20;
  while (in_force + 5 < per_us.size() && mean(in_force, in_force + 5) > 1.25 * after) ++in_force;
  print(fmt::format("| limit of bandwidth, from none to 25 % | | {} |\n\n", in_force - 20));
  print(fmt::format("A completes {:.1f} CTAs per us before the limit, and {:.1f} in the second half of the run.\n",
                    before, after));
  claim(after < 0.35 * before, "a limit of bandwidth holds");
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const Setting setting = quick ? setting_of("small", 40) : setting_of("h100-sxm", 40);
  compare_ways(setting, false);
  compare_ways(setting, true);
  changes(setting);
  return good ? 0 : 1;
}
