// The figures of docs/results/partitioning.md about urgency: how soon an urgent task starts beside CTAs that run, what
// time slices cost and bound, and who starves. Simulated, so they are the same on every computer. Prints Markdown;
// fails where its claims do not hold. --quick: on a small machine.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "arch/topology.h"
#include "bench/figure_page.h"
#include "cli/machines.h"
#include "replay/simulation.h"

namespace {

using namespace heddle;
using figures::claim;
using figures::good;
using figures::print;

struct Setting {
  std::string preset;
  std::uint32_t sms = 0;
  double clock = 1;  // GHz

  std::uint64_t cycles(double us) const { return static_cast<std::uint64_t>(us * clock * 1e3); }
};

Setting setting_of(const std::string& preset) {
  const gpu::GpuParams params = cli::resolve_machine(preset, {}).gpus.front().params;
  return {preset, params.machine.shape.sms(), params.machine.clock};
}

// By kernel, in us.
struct Outcome {
  std::map<std::string, std::vector<double>> wait;  // from submission to the first CTA, of each launch
  std::map<std::string, double> end;                // of the last CTA
  double saved = 0;                                 // CTAs that made room
  double waited = 0;                                // CTAs that were saved while they waited
};

Outcome run(const std::string& text) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("heddle_preemption_{}.yaml", getpid());
  std::ofstream(file) << text;
  cli::RunOptions options;
  options.files = {file.string()};
  const cli::Inputs inputs = cli::load_inputs(options.files, std::nullopt);
  const cli::Machines machines = cli::resolve_machines(inputs, options);
  std::filesystem::remove(file);
  const workload::Workload& workload = inputs.workloads.front();
  replay::Job job;
  job.instance = "gpu0";
  job.params = machines.gpus.front().params;
  job.workload = &workload;
  const replay::SimulationResult result = replay::simulate({job}, {});
  HEDDLE_CHECK(result.progress, "a run did not end");
  const replay::JobResult& done = result.jobs.front();
  Outcome outcome;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const std::string& name = workload.ops[i].kernel.name;
    outcome.wait[name].push_back((done.results[i].start - done.results[i].submitted) / 1e3);
    outcome.end[name] = std::max(outcome.end[name], done.results[i].end / 1e3);
  }
  outcome.saved = done.observation->stats.to_json()["gpu0.cwd.ctas_preempted"]["value"].get<double>();
  const auto stats = done.observation->stats.to_json();
  for (const auto& [path, stat] : stats.items()) {
    const std::string saves = ".nested.saves";
    const bool ends = path.size() > saves.size() && path.compare(path.size() - saves.size(), saves.size(), saves) == 0;
    if (ends) outcome.waited += stat.at("value").get<double>();
  }
  outcome.waited -= outcome.saved;
  return outcome;
}

// A machine full of CTAs of that length, and tasks that are more urgent.
std::string beside_hog(const Setting& setting, const char* way, double length, std::uint32_t registers,
                       std::uint32_t urgent) {
  return fmt::format(
      "heddle: 1\ngpu: {}\nconfig: {{gpu: {{cwd: {{preemption: {}}}}}}}\nkernels:\n"
      "  - {{name: hog, grid: {}, block: 1024, registers: {}, cycles: {}}}\n"
      "  - {{name: urgent, grid: {}, block: 1024, cycles: 2000}}\n"
      "submit: [{{kernel: hog, stream: a}}, {{kernel: urgent, stream: b, at: {} us, priority: 5}}]\n",
      setting.preset, way, 8 * setting.sms, registers, setting.cycles(length), urgent, 10 + 0.3 * length);
}

void latencies(const Setting& setting) {
  print(
      "### How soon an urgent task starts\n\n"
      "| CTAs that run, us | their registers, KiB of an SM | urgent CTAs | drain | at CTA boundary | at instruction "
      "boundary |\n| ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const double length : {10.0, 100.0, 1000.0}) {
    for (const std::uint32_t registers : {8, 32}) {
      for (const std::uint32_t urgent : {1U, 2 * setting.sms}) {
        std::map<std::string, double> waits;
        for (const char* way : {"drain", "cta", "instruction"}) {
          waits[way] = run(beside_hog(setting, way, length, registers, urgent)).wait.at("urgent").front();
        }
        print(fmt::format("| {:.0f} | {} | {} | {:.1f} | {:.1f} | {:.1f} |\n", length, registers * 2048 * 4 / 1024,
                          urgent, waits["drain"], waits["cta"], waits["instruction"]));
        claim(waits["drain"] >= waits["cta"], "draining waits longest");
        if (length >= 100) claim(waits["instruction"] < 0.5 * waits["cta"], "saving is faster than a long CTA");
      }
    }
  }
  print("\n");
}

// A task of clusters of eight CTAs beside CTAs of no cluster, and of clusters of four.
std::string clusters_beside_hog(const Setting& setting, const char* way, double length, std::uint32_t hog_cluster,
                                std::uint32_t urgent) {
  return fmt::format(
      "heddle: 1\ngpu: {}\nconfig: {{gpu: {{cwd: {{preemption: {}}}}}}}\nkernels:\n"
      "  - {{name: hog, grid: {}, block: 1024, registers: 32, cycles: {}{}}}\n"
      "  - {{name: urgent, grid: {}, cluster: 8, block: 1024, cycles: 2000}}\n"
      "submit: [{{kernel: hog, stream: a}}, {{kernel: urgent, stream: b, at: {} us, priority: 5}}]\n",
      setting.preset, way, 8 * setting.sms, setting.cycles(length),
      hog_cluster > 1 ? fmt::format(", cluster: {}", hog_cluster) : "", 8 * urgent, 10 + 0.3 * length);
}

void cluster_latencies(const Setting& setting) {
  print(
      "### How soon an urgent task of clusters starts\n\n"
      "| CTAs that run, us | in clusters of | urgent clusters of 8 | drain | at CTA boundary | at instruction boundary "
      "| "
      "CTAs saved |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const double length : {100.0, 1000.0}) {
    for (const std::uint32_t hog_cluster : {1U, 4U}) {
      for (const std::uint32_t urgent : {1U, setting.sms / 8}) {
        std::map<std::string, double> waits;
        double saved = 0;
        for (const char* way : {"drain", "cta", "instruction"}) {
          const Outcome o = run(clusters_beside_hog(setting, way, length, hog_cluster, urgent));
          waits[way] = o.wait.at("urgent").front();
          saved = o.saved;
        }
        print(fmt::format("| {:.0f} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.0f} |\n", length,
                          hog_cluster == 1 ? "none" : fmt::format("{}", hog_cluster), urgent, waits["drain"],
                          waits["cta"], waits["instruction"], saved));
        claim(waits["drain"] >= waits["cta"], "draining waits longest");
        claim(waits["instruction"] < 0.5 * waits["cta"], "saving is faster than a long CTA, also for clusters");
        // Room is made on the SMs of the claim alone: two CTAs on each, and what belongs to their clusters.
        if (urgent == 1) claim(saved <= 2 * 8 * hog_cluster, "no more is saved than what the clusters take");
      }
    }
  }
  print("\n");
}

// Less urgent CTAs that end one by one, so that a GPC never has as many free slots at once as a cluster needs.
void cluster_inversion(const Setting& setting) {
  const double most = 15;
  const std::string text = fmt::format(
      "heddle: 1\ngpu: {}\nkernels:\n  - {{name: many, grid: {}, block: 1024, cycles: {{min: {}, max: {}}}}}\n"
      "  - {{name: urgent, grid: 8, cluster: 8, block: 1024, cycles: 2000}}\nsubmit:\n  - {{kernel: many, stream: a}}\n"
      "  - {{kernel: urgent, stream: b, at: 30 us, priority: 1}}\n  - {{kernel: urgent, stream: c, at: 60 us, "
      "priority: 1}}\n",
      setting.preset, 40 * setting.sms, setting.cycles(5), setting.cycles(most));
  const Outcome o = run(text);
  const double waits = *std::max_element(o.wait.at("urgent").begin(), o.wait.at("urgent").end());
  print(fmt::format(
      "Beside less urgent CTAs of 5 to {:.0f} us, which end one by one, a cluster of 8 starts after {:.1f} us at most, "
      "with what else is as in the preset.\n\n",
      most, waits));
  claim(waits < most + 2,
        "a cluster waits for the CTAs that run in its way, and not for less urgent ones that come later");
}

void slices(const Setting& setting) {
  print(
      "### Time slices\n\n"
      "| slice, us | both have ended after, us | beside each other | CTAs saved | B waits at most, us |\n"
      "| ---: | ---: | ---: | ---: | ---: |\n");
  const auto text = [&](double slice) {
    std::string all = fmt::format(
        "heddle: 1\ngpu: {}\nconfig: {{gpu: {{cwd: {{time_slice: {}}}}}}}\nsubcontexts: [{{id: 1}}, {{id: 2}}]\n"
        "kernels:\n"
        "  - {{name: A, grid: {}, block: 1024, registers: 32, cycles: {}, subcontext: 1}}\n"
        "  - {{name: B, grid: 4, block: 256, cycles: 2000, subcontext: 2}}\nsubmit:\n  - {{kernel: A, stream: a}}\n",
        setting.preset, setting.cycles(slice), 6 * setting.sms, setting.cycles(2500));
    for (std::uint32_t i = 0; i < 6; ++i) {
      all += fmt::format("  - {{kernel: B, stream: b{}, at: {} us}}\n", i, 40 + 1117 * i);
    }
    return all;
  };
  const auto worst = [](const Outcome& o) { return *std::max_element(o.wait.at("B").begin(), o.wait.at("B").end()); };
  const Outcome beside = run(text(0));
  const double end = beside.end.at("A");
  print(fmt::format("| none | {:.0f} | 100 % | 0 | {:.0f} |\n", end, worst(beside)));
  for (const double slice : {100.0, 200.0, 500.0, 1000.0, 2000.0}) {
    const Outcome o = run(text(slice));
    print(fmt::format("| {:.0f} | {:.0f} | {:.0f} % | {:.0f} | {:.0f} |\n", slice, o.end.at("A"),
                      100 * o.end.at("A") / end, o.saved, worst(o)));
    claim(worst(o) < slice + 200, "a slice bounds how long the other waits");
  }
  print("\n");
}

void starvation(const Setting& setting) {
  print(
      "### Who starves\n\n"
      "| ageing | the less urgent task starts after, us | and has ended after, us |\n| --- | ---: | ---: |\n");
  std::map<std::uint64_t, double> waits;
  for (const double step : {0.0, 100.0, 20.0}) {
    std::string text = fmt::format(
        "heddle: 1\ngpu: {}\nconfig: {{gpu: {{cwd: {{ageing: {}}}}}}}\nkernels:\n"
        "  - {{name: urgent, grid: {}, block: 1024, cycles: {}}}\n"
        "  - {{name: patient, grid: {}, block: 1024, cycles: 2000}}\nsubmit:\n",
        setting.preset, setting.cycles(step), 40 * setting.sms, setting.cycles(20), setting.sms);
    for (std::uint32_t i = 0; i < 3; ++i) text += fmt::format("  - {{kernel: urgent, stream: u{}, priority: 4}}\n", i);
    text += "  - {kernel: patient, stream: p, at: 5 us}\n";
    const Outcome o = run(text);
    waits[static_cast<std::uint64_t>(step)] = o.wait.at("patient").front();
    print(fmt::format("| {} | {:.0f} | {:.0f} |\n",
                      step == 0 ? "off" : fmt::format("one step of priority every {:.0f} us", step),
                      o.wait.at("patient").front(), o.end.at("patient")));
  }
  claim(waits[100] < 0.8 * waits[0] && waits[20] < waits[100], "a task that waits becomes more urgent");
}

// Parents of 512 threads and 48 KiB, four to an SM, that wait for one child each of the same size.
void parents(const Setting& setting) {
  print(
      "### Parents that wait\n\n| parents, of as many as fit | saving | time, us | saves |\n| ---: | --- | ---: | ---: "
      "|\n");
  for (const std::uint32_t percent : {25U, 50U, 100U}) {
    std::map<std::string, double> saves;
    for (const std::string policy : {"off", "wait", "wanted"}) {
      if (policy == "off" && percent == 100) {
        print("| 100 % | off | does not end | |\n");
        continue;
      }
      const Outcome o = run(fmt::format(
          "heddle: 1\ngpu: {}\nconfig: {{gpu: {{sm: {{nested: {{save: {}}}}}, cwd: {{preemption: instruction, "
          "active_pool: 0}}}}}}\nkernels:\n"
          "  - {{name: child, grid: 1, block: 512, shared: 48 KiB, program: [{{compute: {{unit: int32, count: "
          "2000}}}}]}}\n"
          "  - name: parent\n    grid: {}\n    block: 512\n    shared: 48 KiB\n    program:\n"
          "      - if: {{cond: thread == 0, then: [{{launch: {{kernel: child}}}}]}}\n      - wait_children\n"
          "submit: [{{kernel: parent, stream: a}}]\n",
          setting.preset, policy, 4 * setting.sms * percent / 100));
      saves[policy] = o.waited;
      print(fmt::format("| {} % | {} | {:.0f} | {:.0f} |\n", percent, policy, o.end.at("parent"), o.waited));
    }
    claim(saves["wanted"] <= saves["wait"], "no more are saved when they are wanted than when they wait");
    if (percent < 100) claim(saves["wanted"] == 0, "nobody is saved whose slot nobody wants");
    if (percent == 100) claim(saves["wanted"] > 0, "a machine full of parents goes on");
  }
  print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const Setting setting = setting_of(quick ? "small" : "h100-sxm");
  latencies(setting);
  cluster_latencies(setting);
  cluster_inversion(setting);
  slices(setting);
  starvation(setting);
  parents(setting);
  return good ? 0 : 1;
}
