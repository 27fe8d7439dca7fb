// Numbers over time as a value change dump.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "cli/run_outcome.h"
#include "common/error.h"

namespace heddle::cli {
namespace {

constexpr double kPicosPerNs = 1000;

// All signals of a dump, and their changes.
class Waves {
 public:
  explicit Waves(const TimelineFilter& filter) : filter_(filter) {}

  // Scopes, the first of them the GPU, and a name; `what` is said in the dump. Nothing comes of one that the filter
  // leaves out.
  std::uint32_t add(const std::vector<std::string>& scopes, const std::string& name, const std::string& what) {
    std::string line = scopes.front();  // and the path below it
    for (std::size_t i = 1; i < scopes.size(); ++i) line += (i == 1 ? " " : ".") + scopes[i];
    Signal signal;
    for (const std::string& scope : scopes) signal.scopes.push_back(identifier(scope));
    signal.name = identifier(name);
    signal.what = what;
    groups_.insert(scopes.size() < 2 ? scopes[0] : scopes[0] + " " + scopes[1].substr(0, scopes[1].find('.')));
    signal.wanted = fits(filter_.lines, line + (scopes.size() < 2 ? " " : ".") + name);
    signals_.push_back(std::move(signal));
    return static_cast<std::uint32_t>(signals_.size() - 1);
  }
  void change(std::uint32_t signal, double ns, std::int32_t by) {
    if (!signals_[signal].wanted) return;
    changes_.push_back({static_cast<Picoseconds>(std::llround(std::max(0.0, ns) * kPicosPerNs)), signal, by});
  }

  // None passes the filter: what there is. Empty: some do.
  std::string nothing() const {
    if (std::any_of(signals_.begin(), signals_.end(), [](const Signal& signal) { return signal.wanted; })) return {};
    return fmt::format("waves.vcd has no signal: --trace-units {} fits none; groups of signals are {}",
                       fmt::join(filter_.lines, ","), fmt::join(groups_, ", "));
  }

  // `end`: of the run. The dump lasts until then, or until the end of the filter.
  void write(std::ostream& out, Picoseconds end) {
    std::sort(changes_.begin(), changes_.end(),
              [](const Change& a, const Change& b) { return std::tie(a.when, a.signal) < std::tie(b.when, b.signal); });
    declare(out);
    auto at = changes_.begin();
    for (; at != changes_.end() && at->when <= filter_.from; ++at) signals_[at->signal].value += at->by;
    out << fmt::format("#{}\n$dumpvars\n", filter_.from);
    for (std::size_t s = 0; s < signals_.size(); ++s) {
      if (signals_[s].wanted) out << value_of(s);
    }
    out << "$end\n";
    Picoseconds told = filter_.from;
    while (at != changes_.end() && at->when <= filter_.to) {
      const Picoseconds now = at->when;
      std::map<std::uint32_t, std::int64_t> before;
      for (; at != changes_.end() && at->when == now; ++at) {
        before.emplace(at->signal, signals_[at->signal].value);
        signals_[at->signal].value += at->by;
      }
      std::string values;
      for (const auto& [signal, value] : before) {
        if (signals_[signal].value != value) values += value_of(signal);
      }
      if (values.empty()) continue;
      out << fmt::format("#{}\n{}", now, values);
      told = now;
    }
    // Viewers take the last time for the end.
    if (const Picoseconds last = std::min(end, filter_.to); last > told) out << fmt::format("#{}\n", last);
  }

 private:
  struct Signal {
    std::vector<std::string> scopes;
    std::string name;
    std::string what;
    bool wanted = true;
    std::int64_t value = 0;
  };
  struct Change {
    Picoseconds when;
    std::uint32_t signal;
    std::int32_t by;
  };

  static constexpr unsigned kBits = 32;

  // Viewers want words without blanks.
  static std::string identifier(std::string text) {
    for (char& c : text) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') c = '_';
    }
    return text.empty() ? "_" : text;
  }
  // Printable letters that stand for the number of a signal.
  static std::string code_of(std::size_t signal) {
    constexpr char kFirst = '!';
    constexpr std::size_t kLetters = 94;
    std::string code;
    do {
      code += static_cast<char>(kFirst + static_cast<char>(signal % kLetters));
      signal /= kLetters;
    } while (signal > 0);
    return code;
  }
  std::string value_of(std::size_t signal) const {
    return fmt::format("b{:b} {}\n", std::max<std::int64_t>(0, signals_[signal].value), code_of(signal));
  }

  void declare(std::ostream& out) const {
    out << "$version Heddle $end\n$timescale 1 ps $end\n";
    std::vector<std::string> open;
    for (std::size_t s = 0; s < signals_.size(); ++s) {
      const Signal& signal = signals_[s];
      if (!signal.wanted) continue;
      std::size_t same = 0;
      while (same < std::min(open.size(), signal.scopes.size()) && open[same] == signal.scopes[same]) ++same;
      for (; open.size() > same; open.pop_back()) out << "$upscope $end\n";
      for (; open.size() < signal.scopes.size(); open.push_back(signal.scopes[open.size()])) {
        out << fmt::format("$scope module {} $end\n", signal.scopes[open.size()]);
      }
      out << fmt::format("$comment {}: {} $end\n$var wire {} {} {} $end\n", signal.name, signal.what, kBits, code_of(s),
                         signal.name);
    }
    for (; !open.empty(); open.pop_back()) out << "$upscope $end\n";
    out << "$enddefinitions $end\n";
  }

  const TimelineFilter& filter_;
  std::vector<Signal> signals_;
  std::vector<Change> changes_;
  std::set<std::string> groups_;
};

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts(1);
  for (const char c : path) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

void add_ctas(const std::string& instance, const replay::JobResult& job, replay::CtaDump& dump, Waves& waves) {
  const std::uint32_t occupied = waves.add({instance}, "occupied_sms", "SMs with a CTA");
  const std::uint32_t all = waves.add({instance}, "ctas", "CTAs on all SMs");
  std::vector<std::uint32_t> signals;
  for (const std::string& path : job.sm_paths) {
    std::vector<std::string> scopes = parts_of(path);
    scopes.insert(scopes.begin(), instance);
    signals.push_back(waves.add(scopes, "ctas", "CTAs on the SM"));
  }
  struct Step {
    std::uint64_t cycle;
    std::int32_t by;
  };
  std::vector<std::vector<Step>> steps(signals.size());
  dump.for_each([&](const replay::CtaRow& row) {
    steps[row.sm].push_back({row.launch, 1});
    if (row.end != replay::CtaRow::kNever) steps[row.sm].push_back({row.end, -1});
    return true;
  });
  for (std::size_t sm = 0; sm < steps.size(); ++sm) {
    std::vector<Step>& its = steps[sm];
    // Of one cycle, ends come behind: a CTA of no length is still one.
    std::sort(its.begin(), its.end(),
              [](const Step& a, const Step& b) { return a.cycle != b.cycle ? a.cycle < b.cycle : a.by > b.by; });
    std::int64_t ctas = 0;
    for (const Step& step : its) {
      const double ns = static_cast<double>(step.cycle) * job.cycle_ns;
      waves.change(signals[sm], ns, step.by);
      waves.change(all, ns, step.by);
      const std::int64_t before = ctas;
      ctas += step.by;
      if ((before == 0) != (ctas == 0)) waves.change(occupied, ns, step.by);
    }
  }
}

// Of operations that have ended: others have no times yet.
void add_streams(const std::string& instance, const workload::Workload& workload, const replay::JobResult& job,
                 Waves& waves) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> signals;  // waiting, running
  for (std::size_t s = 0; s < workload.streams.size(); ++s) {
    const std::vector<std::string> scopes{instance, "streams", fmt::format("s{}_{}", s, workload.streams[s].name)};
    const std::uint32_t waiting = waves.add(scopes, "waiting", "operations that are submitted and have not begun");
    signals.emplace_back(waiting, waves.add(scopes, "running", "operations that run"));
  }
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const replay::OpResult& op = job.results[i];
    if (!op.done || op.rejected) continue;
    const auto [waiting, running] = signals[workload.ops[i].stream];
    waves.change(waiting, op.submitted + job.lead_ns, 1);
    waves.change(waiting, std::max(op.start, op.submitted) + job.lead_ns, -1);
    waves.change(running, op.start + job.lead_ns, 1);
    waves.change(running, op.end + job.lead_ns, -1);
  }
}

}  // namespace

void write_waves(std::vector<replay::CtaDump>& dumps, RunOutcome& outcome, const TimelineFilter& filter,
                 const std::string& path) {
  Waves waves(filter);
  for (std::size_t i = 0; i < dumps.size(); ++i) {
    const std::string& instance = outcome.machines->gpus[i].instance;
    add_ctas(instance, outcome.result.jobs[i], dumps[i], waves);
    add_streams(instance, *outcome.workloads[i], outcome.result.jobs[i], waves);
  }
  std::ofstream file(path, std::ios::binary);
  waves.write(file, static_cast<Picoseconds>(std::llround(outcome.result.sim_time_ns * kPicosPerNs)));
  file.close();
  if (!file) throw InputError({path, 0, 0}, "cannot be written", "choose another with --out DIR, or free the disk");
  if (const std::string nothing = waves.nothing(); !nothing.empty()) outcome.warnings.push_back(nothing);
}

}  // namespace heddle::cli
