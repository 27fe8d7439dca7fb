#include "cli/run_parts.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "cli/checkpoint.h"
#include "common/error.h"
#include "common/quantity.h"
#include "sweep/run_results.h"

namespace heddle::cli {

using replay::OpSet;
using replay::SimulationResult;

namespace {

std::vector<const workload::Workload*> pointers_to(const std::vector<workload::Workload>& workloads) {
  std::vector<const workload::Workload*> pointers;
  for (const workload::Workload& workload : workloads) pointers.push_back(&workload);
  return pointers;
}

// When an operation could start at the earliest, as the input tells: its recorded start, or the host's call.
std::int64_t time_of(const workload::Op& op) { return op.recorded ? op.recorded->start : op.enqueue.value_or(0); }

// --from and --to: an operation, by the name of its kernel, or a time.
class PlaceFinder {
 public:
  PlaceFinder(const Inputs& inputs, replay::Pace pace)
      : inputs_(inputs), order_(replay::submission_order(pointers_to(inputs.workloads), pace)) {}

  // In the order of submission: the first operation of the region, and the first behind it.
  std::size_t begin(const std::string& text) const { return find("from", text, true); }
  std::size_t end(const std::string& text) const {
    const bool time = is_time(text);
    return find("to", text, false) + (time ? 0 : 1);
  }

  // Throws InputError if something that stands ahead of the named operation needs it.
  void check_begin(const std::string& text, std::size_t place, const replay::Ahead& ahead) const {
    if (is_time(text)) return;
    replay::OpPlace who = order_[place];
    if (!ahead.ops[who.first][who.second]) return;
    const std::string named = name_of(who);
    std::string through;
    for (auto next = ahead.needs.find(who); next != ahead.needs.end(); next = ahead.needs.find(who)) {
      who = next->second;
      if (ahead.needs.count(who) > 0) through = name_of(who);
    }
    const std::string root = name_of(who);
    throw InputError(fmt::format("--from {}: {}, which is submitted before {}, needs it to end{}", text, root, named,
                                 through.empty() ? "" : ", by way of " + through),
                     fmt::format("begin the region with {}", root));
  }

 private:
  // Begins with a digit, and no operation is called so.
  bool is_time(const std::string& text) const {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0) return false;
    const std::string name = text.substr(0, text.find('#'));
    return std::none_of(order_.begin(), order_.end(), [&](const replay::OpPlace& place) {
      const std::string& its = inputs_.workloads[place.first].ops[place.second].kernel.name;
      return its == text || its == name || sweep::matches_pattern(name, its);
    });
  }
  // "add#2"
  std::string name_of(const replay::OpPlace& which) const {
    std::size_t number = 0;
    const std::string& name = inputs_.workloads[which.first].ops[which.second].kernel.name;
    for (const replay::OpPlace& place : order_) {
      if (inputs_.workloads[place.first].ops[place.second].kernel.name == name) ++number;
      if (place == which) break;
    }
    return fmt::format("{}#{}", name, number);
  }
  const workload::Op& op(std::size_t place) const {
    return inputs_.workloads[order_[place].first].ops[order_[place].second];
  }

  std::size_t find(const char* option, const std::string& text, bool first) const {
    if (text.empty()) {
      throw InputError(fmt::format("--{} names nothing", option), "give a kernel, a copy or a fill, or a time");
    }
    return is_time(text) ? find_time(option, text) : find_kernel(option, text, first);
  }

  std::size_t find_time(const char* option, const std::string& text) const {
    constexpr double kMostNs = 1e15;
    double ns = 0;
    try {
      ns = parse_quantity(text, Limits<double>{Unit::ns, 0.0, kMostNs}, BareNumber::refused);
    } catch (const InputError& error) {
      throw InputError(fmt::format("--{} {}: {}", option, text, error.message()), error.remedy());
    }
    std::size_t place = 0;
    while (place < order_.size() && static_cast<double>(time_of(op(place))) < ns) ++place;
    return place;
  }

  // NAME, or NAME#n: the n-th of that name, from 1 on.
  std::size_t find_kernel(const char* option, const std::string& text, bool first) const {
    std::string name = text;
    std::size_t wanted = 0;
    const std::size_t mark = text.rfind('#');
    if (mark != std::string::npos && mark + 1 < text.size() && text.size() - mark < 10 &&
        std::all_of(text.begin() + static_cast<std::ptrdiff_t>(mark) + 1, text.end(),
                    [](unsigned char c) { return std::isdigit(c) != 0; })) {
      name = text.substr(0, mark);
      wanted = std::stoul(text.substr(mark + 1));
      if (wanted == 0) throw InputError(fmt::format("--{} {}: the first one is {}#1", option, text, name));
    }
    std::vector<std::size_t> places;
    std::set<std::string> known;
    for (std::size_t p = 0; p < order_.size(); ++p) {
      const std::string& its = op(p).kernel.name;
      if (its == name || sweep::matches_pattern(name, its)) places.push_back(p);
      known.insert(its);
    }
    const std::vector<std::string> names(known.begin(), known.end());
    if (places.empty()) {
      throw InputError(fmt::format("--{} {}: no operation is called {}", option, text, name), suggestion(name, names));
    }
    if (wanted > places.size()) {
      throw InputError(fmt::format("--{} {}: there are {} of {}", option, text, places.size(), name),
                       fmt::format("the last one is {}#{}", name, places.size()));
    }
    if (wanted > 0) return places[wanted - 1];
    return first ? places.front() : places.back();
  }

  const Inputs& inputs_;
  const std::vector<replay::OpPlace> order_;
};

std::vector<OpSet> all_but(std::vector<OpSet> sets) {
  for (OpSet& gpu : sets) gpu.flip();
  return sets;
}

std::size_t count_in(const std::vector<OpSet>& sets) {
  std::size_t count = 0;
  for (const OpSet& gpu : sets) count += static_cast<std::size_t>(std::count(gpu.begin(), gpu.end(), true));
  return count;
}

void add_to(replay::Faults& all, const replay::Faults& more) {
  all.records.insert(all.records.end(), more.records.begin(), more.records.end());
  all.kernels.insert(all.kernels.end(), more.kernels.begin(), more.kernels.end());
}

bool collective(const Inputs& inputs, const RunOptions& options) {
  return options.ranks || std::any_of(inputs.workloads.begin(), inputs.workloads.end(),
                                      [](const workload::Workload& w) { return w.collectives; });
}

}  // namespace

RunParts::RunParts(const RunOptions& options, Inputs& inputs, const Machines& machines, bool streams)
    : recorded_(inputs.recorded()),
      region_(options.from || options.to),
      resumes_(options.resume.has_value()),
      every_(options.checkpoint.value_or(0)),
      pace_(inputs.recorded() ? options.pace : replay::Pace::recorded) {
  if (!any()) return;
  const char* what = region_ ? "a region" : "a run with checkpoints";
  if (!streams && (!recorded_ || !region_)) {
    throw InputError(fmt::format("{} divides the operations of streams, and this run submits in another way", what),
                     "leave out `by` of `submit`, or add --submit streams");
  }
  if (collective(inputs, options)) {
    throw InputError(fmt::format("{} cannot divide collectives of several GPUs, which wait for each other", what),
                     "leave out --from, --to, --checkpoint and --resume");
  }
  if (!region_) digest_ = digest_of_inputs(inputs, options, machines);
  for (const workload::Workload& workload : inputs.workloads) {
    before_.emplace_back(workload.ops.size());
    behind_.emplace_back(workload.ops.size());
  }
  if (region_) read_region(options, inputs);
  if (resumes_) resume(options, inputs);
  for (std::size_t g = 0; g < before_.size(); ++g) {
    left_out_.push_back(before_[g]);
    for (std::size_t i = 0; i < behind_[g].size(); ++i) left_out_[g][i] = before_[g][i] || behind_[g][i];
  }
  if (count_in(all_but(left_out_)) == 0) {
    throw InputError(
        region_ ? "no operation lies between --from and --to" : "nothing is left to do: the run had ended",
        region_ ? "name operations in the order in which they are submitted" : "run it from its beginning");
  }
  if (every_ > 0) stretches_ = replay::stretches_of(pointers_to(inputs.workloads), pace_, every_, left_out_);
  if (region_ || resumes_) take_out(inputs);
  if (!recorded_) drop_expectations(*inputs.scenario);
}

void RunParts::read_region(const RunOptions& options, const Inputs& inputs) {
  const PlaceFinder finder(inputs, pace_);
  const auto pointers = pointers_to(inputs.workloads);
  if (options.from) {
    const std::size_t begin = finder.begin(*options.from);
    const replay::Ahead ahead = replay::ahead_of(pointers, pace_, begin);
    finder.check_begin(*options.from, begin, ahead);
    before_ = ahead.ops;
  }
  if (options.to) {
    behind_ = replay::ahead_of(pointers, pace_, finder.end(*options.to)).ops;
    for (OpSet& gpu : behind_) gpu.flip();
  }
  for (std::size_t g = 0; g < before_.size(); ++g) {
    std::int64_t begin = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < before_[g].size(); ++i) {
      if (before_[g][i]) behind_[g][i] = false;
      if (before_[g][i] || behind_[g][i]) continue;
      begin = std::min(begin, time_of(inputs.workloads[g].ops[i]));
    }
    begins_.push_back(begin == std::numeric_limits<std::int64_t>::max() ? 0 : begin);
  }
  // GPUs begin together. What their hosts had asked for by then is due at once.
  const std::int64_t begin = *std::min_element(begins_.begin(), begins_.end());
  std::fill(begins_.begin(), begins_.end(), begin);
  if (!options.from) begins_.clear();
}

void RunParts::resume(const RunOptions& options, const Inputs& inputs) {
  Checkpoint checkpoint = read_checkpoint(*options.resume, inputs, digest_);
  before_ = checkpoint.done;
  begins_ = checkpoint.times;
  states_ = std::move(checkpoint.states);
  faults_before_ = std::move(checkpoint.faults);
}

void RunParts::take_out(Inputs& inputs) {
  const std::size_t here = count_in(all_but(left_out_));
  const std::size_t all = here + count_in(left_out_);
  notes_.push_back(fmt::format("{} of {} operations: statistics, times and the page are about these{}", here, all,
                               resumes_ ? ", and caches were empty when they began" : ""));
  if (recorded_) {
    for (std::size_t g = 0; g < inputs.workloads.size(); ++g) {
      inputs.workloads[g] = replay::without(inputs.workloads[g], left_out_[g]);
    }
    return;
  }
}

// Where the host waits for a checkpoint nothing overlaps: times and statistics are not those of a run without.
void RunParts::drop_expectations(scenario::Scenario& scenario) {
  const std::size_t before = scenario.expectations.size() + scenario.figures.size();
  const bool part = region_ || resumes_;
  scenario.figures.clear();
  scenario.expectations.erase(std::remove_if(scenario.expectations.begin(), scenario.expectations.end(),
                                             [part](const scenario::Expectation& one) {
                                               return one.kind == scenario::ExpectationKind::statistic ||
                                                      (part && one.kind == scenario::ExpectationKind::no_progress);
                                             }),
                              scenario.expectations.end());
  const std::size_t gone = before - scenario.expectations.size();
  if (gone > 0) {
    notes_.push_back(fmt::format("{} expectations and figures are about the whole run{}, and were left out", gone,
                                 part ? "" : " without checkpoints"));
  }
}

void RunParts::prepare(std::vector<replay::Job>& jobs, replay::SimulationOptions& options,
                       const std::filesystem::path& results) {
  if (!any()) return;
  for (std::size_t g = 0; g < jobs.size(); ++g) {
    replay::WorkloadPart& part = jobs[g].part;
    if (!begins_.empty()) part.begin = begins_[g];
    if (!recorded_ && (region_ || resumes_)) part.left_out = left_out_[g];
    if (!states_.empty()) part.state = states_[g];
    if (every_ == 0) continue;
    for (std::size_t i = 0; i < stretches_[g].size(); ++i) {
      if (!recorded_ || !left_out_[g][i]) part.stretches.push_back(stretches_[g][i]);
    }
  }
  if (every_ > 0) {
    options.resting = [this, results](const replay::RestingPoint& point) { keep(point, results); };
  } else if (region_ && !recorded_) {
    options.resting = [this](const replay::RestingPoint& point) {
      if (point.why_not.empty()) ends_ = point.states;
    };
  }
}

void RunParts::keep(const replay::RestingPoint& point, const std::filesystem::path& results) {
  if (!point.why_not.empty()) {
    if (notes_.empty() || notes_.back().rfind("no checkpoint", 0) != 0) {
      notes_.push_back(fmt::format("no checkpoint where a device cannot be saved: {}", point.why_not));
    }
    return;
  }
  Checkpoint checkpoint;
  checkpoint.inputs = digest_;
  checkpoint.times = point.times;
  for (std::size_t g = 0; g < point.faults.size(); ++g) {
    checkpoint.faults.emplace_back();
    if (g < faults_before_.size()) add_to(checkpoint.faults[g], faults_before_[g]);
    add_to(checkpoint.faults[g], point.faults[g]);
  }
  if (!recorded_) checkpoint.states = point.states;
  std::size_t all = 0;
  for (std::size_t g = 0; g < stretches_.size(); ++g) {
    checkpoint.done.push_back(left_out_[g]);
    for (std::size_t i = 0; i < stretches_[g].size(); ++i) {
      if (stretches_[g][i] <= point.stretch) checkpoint.done[g][i] = true;
    }
    all += stretches_[g].size();
  }
  write_checkpoint(checkpoint, results);
  kept_ = fmt::format("{} of {} operations", checkpoint.operations(), all);
}

SimulationResult RunParts::run_beside(const std::vector<replay::Job>& jobs, replay::SimulationOptions options,
                                      const std::vector<OpSet>& left_out, const std::vector<std::string>& states,
                                      std::vector<replay::Faults>& faults) {
  std::vector<replay::Job> beside = jobs;
  for (std::size_t g = 0; g < beside.size(); ++g) {
    beside[g].params.machine.timing = TimingMode::lt;
    beside[g].ctas = nullptr;
    beside[g].part = {};
    beside[g].part.left_out = left_out[g];
    if (!states.empty()) {
      beside[g].part.state = states[g];
      beside[g].part.begin = begins_.empty() ? 0 : begins_[g];
    }
  }
  options.timeline = nullptr;
  std::string why_not;
  options.resting = [&](const replay::RestingPoint& point) {
    ends_ = point.states;
    why_not = point.why_not;
  };
  SimulationResult result = replay::simulate(beside, options);
  if (!why_not.empty()) {
    throw InputError(fmt::format("the region cannot be cut out: {}", why_not),
                     "choose another place for --from, or leave it out");
  }
  for (const replay::JobResult& job : result.jobs) faults.push_back({job.faults, job.fault_kernels});
  return result;
}

std::optional<SimulationResult> RunParts::run_before(const std::vector<replay::Job>& jobs,
                                                     const replay::SimulationOptions& options) {
  if (!region_ || recorded_ || count_in(before_) == 0) return std::nullopt;
  SimulationResult result = run_beside(jobs, options, all_but(before_), {}, faults_before_);
  states_ = ends_;
  ends_.clear();
  if (result.progress && !result.partial) return std::nullopt;
  return result;
}

std::optional<SimulationResult> RunParts::run_behind(const std::vector<replay::Job>& jobs,
                                                     const replay::SimulationOptions& options,
                                                     SimulationResult& result) {
  if (!region_ || recorded_ || count_in(behind_) == 0 || !result.progress || result.partial) return std::nullopt;
  if (ends_.empty()) {
    throw InputError("the region cannot be cut out: its device is not quiet when it ends",
                     "choose another place for --to");
  }
  const std::vector<std::string> states = ends_;
  SimulationResult rest = run_beside(jobs, options, all_but(behind_), states, faults_behind_);
  if (!rest.progress || rest.partial) return rest;
  for (std::size_t g = 0; g < result.jobs.size(); ++g) result.jobs[g].regions = rest.jobs[g].regions;
  return std::nullopt;
}

void RunParts::add_faults(SimulationResult& result) const {
  for (std::size_t g = 0; g < result.jobs.size(); ++g) {
    replay::Faults all;
    if (g < faults_before_.size()) add_to(all, faults_before_[g]);
    add_to(all, {result.jobs[g].faults, result.jobs[g].fault_kernels});
    if (g < faults_behind_.size()) add_to(all, faults_behind_[g]);
    result.jobs[g].faults = std::move(all.records);
    result.jobs[g].fault_kernels = std::move(all.kernels);
  }
}

}  // namespace heddle::cli
