// The tables of docs/results/links.md on a recorded data-parallel training: its span from what its operations wait for,
// and a step of it on 1, 2, 4 and 8 modelled GPUs with its collectives over links. Prints Markdown; nothing where the
// recording is not at hand.
//
//   heddle_rank_figures [--quick | --expansion]
//
// --quick: one and two GPUs. --expansion: instead of the tables, what it takes to write out collectives for many ranks,
// in CPU time; needs no recording.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/figure_page.h"
#include "cli/machines.h"
#include "cli/run_options.h"
#include "common/error.h"
#include "replay/rank_collectives.h"

namespace {

using namespace heddle;
using figures::print;
using replay::Pace;
using workload::Collective;
using workload::Op;
using workload::Workload;

const std::string kPath = std::string(HEDDLE_TRACES_DIR) + "/mi300x_resnet_ddp_training_trim.json.gz";

double milliseconds(double ns) { return ns / 1e6; }

struct Span {
  double begin = 1e300;
  double end = -1e300;
  void add(const replay::OpResult& r) {
    begin = std::min(begin, r.start);
    end = std::max(end, r.end);
  }
  double ns() const { return end - begin; }
};

// With durations fitted to the recorded machine, on that machine.
struct Model {
  cli::RunOptions options;
  cli::Inputs inputs;
  cli::Machines machines;
  std::vector<cli::Fitted> fitted;

  explicit Model(std::vector<Workload> workloads, const std::string& topology) {
    if (workloads.size() > 1) options.ranks = static_cast<std::uint32_t>(workloads.size());
    options.files = {kPath};
    options.sets = {"links.topology=" + topology};
    options.timing = "fast";
    inputs.name = "training";
    inputs.workloads = std::move(workloads);
    machines = cli::resolve_machines(inputs, options);
    fitted = cli::fit_workloads(inputs, machines, options);
  }
  replay::SimulationResult run(Pace pace) const {
    replay::SimulationOptions how;
    how.links = machines.links;
    replay::SimulationResult result = replay::simulate(cli::make_jobs(fitted, machines, pace, false), how);
    HEDDLE_CHECK(result.progress, "a replay did not end: " + result.stopped);
    for (const replay::JobResult& job : result.jobs) HEDDLE_CHECK(job.faults.empty(), "a replay met a fault");
    return result;
  }
};

double recorded_span(const Workload& workload) {
  Span span;
  for (const Op& op : workload.ops) {
    const auto start = static_cast<double>(op.recorded->start);
    span.add({true, false, false, start, start, start + static_cast<double>(op.recorded->duration)});
  }
  return span.ns();
}

void print_spans(const Workload& workload) {
  const Model model({workload}, "none");
  const double recorded = recorded_span(workload);
  print("| starts of the recording follow from | span, ms | recorded, ms | difference |\n| --- | --- | --- | --- |\n");
  const std::pair<const char*, Pace> rows[] = {
      {"host calls, waits, and recorded starts where nothing explains one", Pace::recorded},
      {"host calls and waits", Pace::host},
      {"waits alone", Pace::asap}};
  for (const auto& [name, pace] : rows) {
    Span span;
    const replay::SimulationResult result = model.run(pace);
    for (const replay::OpResult& r : result.jobs[0].results) span.add(r);
    const double error = span.ns() / recorded - 1;
    figures::claim(std::abs(error) < 0.02, fmt::format("{}: within 2 %", name));
    print(fmt::format("| {} | {:.2f} | {:.2f} | {:+.2f} % |\n", name, milliseconds(span.ns()), milliseconds(recorded),
                      100 * error));
  }
  print("\n");
}

// What began after the last but one of the largest all-reduces had ended: gradients to parameters, a forward and a
// backward pass, two all-reduces.
Workload last_step(const Workload& workload) {
  std::uint64_t most = 0;
  for (const Op& op : workload.ops) most = std::max(most, op.communication ? op.communication->bytes : 0);
  std::vector<std::size_t> large;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    if (workload.ops[i].communication && workload.ops[i].communication->bytes == most) large.push_back(i);
  }
  HEDDLE_CHECK(large.size() > 1, "the recording has two steps");
  const workload::Recorded& before = *workload.ops[large[large.size() - 2]].recorded;
  const workload::Nanoseconds origin = before.start + before.duration;
  Workload step = workload;
  step.ops.clear();
  step.operators.clear();
  step.warnings.clear();
  std::vector<std::optional<std::size_t>> number(workload.ops.size());
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    if (workload.ops[i].recorded->start < origin) continue;
    number[i] = step.ops.size();
    Op op = workload.ops[i];
    op.recorded->start -= origin;
    if (op.enqueue) *op.enqueue -= origin;
    if (op.not_before) *op.not_before -= origin;
    op.op_of.reset();
    op.after.clear();
    for (const workload::Edge& edge : workload.ops[i].after) {
      if (number[edge.from]) op.after.push_back({*number[edge.from], edge.source, {}});
    }
    step.ops.push_back(std::move(op));
  }
  return step;
}

void print_steps(const Workload& step, const std::vector<std::size_t>& counts) {
  const double recorded = recorded_span(step);
  double communication = 0;
  for (const Op& op : step.ops) {
    if (op.communication) communication += static_cast<double>(op.recorded->duration);
  }
  print(fmt::format("Recorded, as one of 8 ranks: a step of {:.2f} ms, with {:.2f} ms in collectives.\n\n",
                    milliseconds(recorded), milliseconds(communication)));
  print(
      "| GPUs | collectives over links | a step at the host's calls, ms | as soon as order allows, ms | of it in "
      "collectives, ms | faster than one GPU |\n| --- | --- | --- | --- | --- | --- |\n");
  double one = 0;
  for (const std::size_t ranks : counts) {
    Model model(replay::copies_of_rank(step, ranks), ranks > 1 ? "direct" : "none");
    model.options.ranks = static_cast<std::uint32_t>(ranks);
    const replay::RankCollectives collectives = cli::put_over_links(model.fitted, model.machines, model.options);
    HEDDLE_CHECK(collectives.kept.empty(), "all collectives of the step have sizes");
    double spans[2] = {};
    double in_collectives = 0;
    for (const Pace pace : {Pace::host, Pace::asap}) {
      Span span;
      const replay::SimulationResult result = model.run(pace);
      for (const replay::JobResult& job : result.jobs) {
        for (const replay::OpResult& r : job.results) span.add(r);
      }
      spans[pace == Pace::asap ? 1 : 0] = span.ns();
      in_collectives = 0;
      for (const replay::RankCollective& its : collectives.matched) {
        const replay::OpResult& r = result.jobs[0].results[its.ops[0]];
        in_collectives += r.end - r.start;
      }
    }
    if (ranks == 1) one = spans[1];
    print(fmt::format("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} x |\n", ranks,
                      ranks > 1 ? collectives.matched.size() : 0, milliseconds(spans[0]), milliseconds(spans[1]),
                      milliseconds(in_collectives), static_cast<double>(ranks) * one / spans[1]));
  }
}

// So many all-reduces and broadcasts of a rank, of four sizes each, and the time that it takes to turn them into
// programs for all ranks.
void print_expansion() {
  print("| ranks | collectives | CPU time, s |\n| --- | --- | --- |\n");
  for (const std::size_t count : {4U, 16U, 64U}) {
    for (const std::size_t ranks : {2U, 8U, 64U}) {
      Workload workload;
      workload.format = "kineto";
      workload.streams.resize(1);
      for (std::size_t i = 0; i < count; ++i) {
        Op op;
        op.kernel.grid.x = 56;
        op.kernel.block.x = 256;
        op.communication.emplace();
        op.communication->kind = i % 2 == 0 ? Collective::all_reduce : Collective::broadcast;
        op.communication->bytes = std::uint64_t{1'000'000} * (1 + i / 2 % 4);
        workload.ops.push_back(std::move(op));
      }
      const replay::RankRoom room{132, {}};
      std::vector<Workload> copies = replay::copies_of_rank(workload, ranks);
      std::vector<const Workload*> recorded;
      std::vector<Workload*> targets;
      for (Workload& copy : copies) {
        recorded.push_back(&copy);
        targets.push_back(&copy);
      }
      const std::clock_t begin = std::clock();
      std::string refused;
      try {
        replay::run_over_links(replay::match_collectives(recorded), targets, std::vector<replay::RankRoom>(ranks, room));
      } catch (const InputError& error) {
        refused = error.what();
      }
      const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      print(fmt::format("| {} | {} | {:.2f}{} |\n", ranks, count, seconds,
                        refused.empty() ? "" : ", refused: " + refused));
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::string(arguments[1]) == "--expansion") {
    print_expansion();
    return 0;
  }
  if (!std::filesystem::exists(kPath)) {
    print("SKIPPED: the recording is not there\n");
    return 0;
  }
  const bool quick = count > 1 && std::string(arguments[1]) == "--quick";
  const Workload workload = cli::load_inputs({kPath}, std::nullopt).workloads.front();
  print_spans(workload);
  print_steps(last_step(workload), quick ? std::vector<std::size_t>{1, 2} : std::vector<std::size_t>{1, 2, 4, 8});
  return figures::good ? 0 : 1;
}
