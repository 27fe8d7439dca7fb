#include "replay/simulation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <sstream>
#include <tuple>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "arch/gpu_observation.h"
#include "arch/kernel_account.h"
#include "arch/race_checker.h"
#include "cwd/tpc_quota.h"
#include "gpu/gpu.h"
#include "gpu/gpu_params.h"
#include "gpu/link_fabric.h"
#include "gpu/machine_state.h"
#include "host/host_interface.h"
#include "protocol/packet_task.h"
#include "replay/device_memory.h"
#include "replay/initial_state.h"
#include "replay/packet_job.h"
#include "replay/prediction.h"
#include "replay/stream_submitter.h"
#include "replay/tmdq_submitter.h"

namespace heddle::replay {
namespace {

// A SystemC context of its own, so that a program can run several simulations one after another.
class Context {
 public:
  Context() : previous_(sc_core::sc_curr_simcontext), previous_default_(sc_core::sc_default_global_context) {
    sc_core::sc_curr_simcontext = sc_core::sc_default_global_context = new sc_core::sc_simcontext;
  }
  ~Context() {
    delete sc_core::sc_curr_simcontext;
    sc_core::sc_curr_simcontext = previous_;
    sc_core::sc_default_global_context = previous_default_;
    sc_core::sc_report_handler::set_actions(kRace, sc_core::SC_WARNING, actions_);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

 private:
  static constexpr const char* kRace = "/heddle/gpu/race";  // the result has them

  sc_core::sc_simcontext* previous_;
  sc_core::sc_simcontext* previous_default_;
  sc_core::sc_actions actions_ =
      sc_core::sc_report_handler::set_actions(kRace, sc_core::SC_WARNING, sc_core::SC_DO_NOTHING);
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double cpu_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The kernel of a task that a program launched: its label is the name and a number. Empty for others.
std::string kernel_of(const GpuObservation& observation, const arch::FaultRecord& fault) {
  if ((fault.task & protocol::kDispatchBit) != 0 || (fault.task & protocol::kChildBit) == 0) return {};
  const std::string label = observation.labels.of(fault.task);
  return label.substr(0, label.rfind(" #"));
}

void check_launches(const Job& job) {
  if (job.workload->launched.empty() || job.params.nested_memory().any()) return;
  throw InputError(
      fmt::format("programs of {} launch kernels, and the records of that do not fit into the memory of {}",
                  job.workload->name, job.instance),
      "raise gpu.memory, or lower gpu.task.nested.pending_launches, contexts or memory");
}

constexpr const char* kAskForLess =
    "choose another machine with --gpu, or ask for less: heddle show params gpu.sm.limits tells what there is";

// What to do about a kernel of a job that its machine cannot hold.
std::string remedy_of(const Job& job, const arch::KernelShape& kernel) {
  if (job.workload->format == "scenario") {
    if (!kernel.cluster.any()) return kAskForLess;
    return "choose other clusters, or another machine with --gpu; heddle occupancy tells what fits, and heddle show "
           "params "
           "gpu.cwd and gpu.sm.limits what limits it";
  }
  arch::KernelShape clamped = kernel;
  fit_into(clamped, job.params.sm.limits);
  clamped.cluster = {};
  return why_never_fits(job.params, clamped).empty()
             ? "choose another machine with --gpu, or add --misfits clamp: the kernel then gets what there is"
             : "choose another machine with --gpu";
}

SourcePos place_of(const KernelPlaces& places, const std::string& kernel) {
  const auto found = places.find(kernel);
  return found == places.end() ? SourcePos{} : found->second;
}

void check_kernels(const Job& job, const KernelPlaces& places) {
  for (const workload::LaunchedKernel& launched : job.workload->launched) {
    const std::string why = why_never_fits(job.params, launched.kernel);
    if (why.empty()) continue;
    throw InputError(place_of(places, launched.kernel.name),
                     fmt::format("kernel '{}' of {}, which programs launch, can never run on {}: {}",
                                 launched.kernel.name, job.workload->name, job.instance, why),
                     kAskForLess);
  }
  for (const workload::Op& op : job.workload->ops) {
    if (op.kind != workload::OpKind::kernel) continue;
    const std::string why = why_never_fits(job.params, op.kernel);
    if (why.empty()) continue;
    throw InputError(
        place_of(places, op.kernel.name),
        fmt::format("kernel '{}' of {} can never run on {}: {}", op.kernel.name, job.workload->name, job.instance, why),
        remedy_of(job, op.kernel));
  }
}

// What only streams, or only linked GPUs, can do.
void check_across(const Job& job, bool linked) {
  const bool streams = !job.packets && !job.tmdqs;
  if (job.workload->collectives && !linked) {
    throw InputError(
        fmt::format("collectives of {} run over links between its GPUs, and there are none", job.workload->name),
        "connect the GPUs: links: switch in the scenario, or --set links.topology=switch (or direct)");
  }
  for (const workload::Op& op : job.workload->ops) {
    const bool across =
        std::any_of(op.after.begin(), op.after.end(), [](const workload::Edge& edge) { return edge.gpu.has_value(); });
    if ((across || op.moved) && !streams) {
      throw InputError(fmt::format("an operation of {} {}, and is not submitted to a stream", job.workload->name,
                                   across ? "waits for one of another GPU" : "copies between named memories"),
                       "submit without `by` and without --submit");
    }
    const bool away = op.moved && (arch::in_peer_window(op.moved->from) || arch::in_peer_window(op.moved->to));
    if (away && !linked) {
      throw InputError(fmt::format("a copy of {} leads to another GPU, and no links do", job.workload->name),
                       "connect them, as in links: switch");
    }
  }
}

struct Machine {
  std::unique_ptr<GpuObservation> observation;
  std::unique_ptr<Observation> host_observation;
  std::unique_ptr<gpu::Gpu> gpu;
  std::unique_ptr<TaskTranslator> translator;  // of a job by packets
  std::unique_ptr<Submitter> submitter;
  PacketSubmitter* packets = nullptr;  // the same, of a job by packets
  TmdqSubmitter* tmdqs = nullptr;      // or of one into TMDQs
  StreamSubmitter* streams = nullptr;  // or of one into streams
  std::uint32_t number = 0;            // among the run's
  const workload::Workload* workload = nullptr;
  std::vector<std::string> regions;
  MemoryMap map;
};

std::vector<TimedShare> shares_of(const Job& job, const Machine& m) {
  return resolve_shares(*job.workload, job.instance, m.gpu->params(), m.gpu->topology(), m.map);
}

void add_stream_submitter(const std::vector<Job>& jobs, const SimulationOptions& options, Machine& m) {
  const Job& job = jobs[m.number];
  SubmissionTimings timings;
  timings.submit_queue = job.params.task.submit_queue;
  timings.launch_latency_ns = job.launch_latency_ns;
  timings.start_path_ns =
      m.gpu->domain().clock().ns_for_cycles(static_cast<double>(m.gpu->domain().cost(job.params.start_path())));
  const StreamSubmission what{
      *job.workload,
      job.pace,
      timings,
      load_programs(*job.workload, *m.gpu),
      shares_of(job, m),
      m.number,
      options.links.event_latency,
      &job.part,
      [&jobs, &m](const workload::Edge& edge) { return jobs[edge.gpu.value_or(m.number)].part.leaves_out(edge.from); }};
  auto submitter =
      std::make_unique<StreamSubmitter>((job.instance + "_host").c_str(), what, *m.observation, *m.host_observation);
  submitter->submit_out.bind(m.gpu->submit_in());
  m.gpu->done_out().bind(submitter->done_in);
  m.streams = submitter.get();
  m.submitter = std::move(submitter);
}

// From the host's first write of a kernel's TMD to the kernel's start on an idle GPU, in nanoseconds: the bus there and
// back twice, and once there for the doorbell; and task management's reads of what the TMD names.
double tmdq_path_ns(const gpu::Gpu& gpu, const SubmissionParams& host) {
  const gpu::GpuParams& params = gpu.params();
  const auto cycles = [&](Cycle count) { return gpu.domain().clock().ns_for_cycles(static_cast<double>(count)); };
  const double bus = host.enqueue + host.doorbell + 5 * params.hub.link_latency;
  constexpr Cycle kReads = 3;     // TMD, kernel object, owner of the context
  constexpr Cycle kAccesses = 2;  // of the host, one after another
  const Cycle memory =
      (kReads + kAccesses) * (2 * Cycle{params.hub.latency} + params.l2.tag_latency + params.l2.data_latency);
  return bus + cycles(gpu.domain().cost(memory + params.task.nested.schedule_cycles + params.start_path()));
}

void add_tmdq_submitter(const Job& job, const SubmissionParams& host, Machine& m) {
  SubmissionTimings timings;
  timings.launch_latency_ns = job.launch_latency_ns;
  timings.start_path_ns = tmdq_path_ns(*m.gpu, host);
  const gpu::GpuParams& params = m.gpu->params();
  const std::uint64_t limit = params.front_end_memory();
  Area device("memory of " + job.instance, std::min(m.map.end, limit), limit, true);
  TmdqSubmitterSetup setup;
  setup.workload = job.workload;
  setup.plan = plan_tmdqs(*job.workload, load_programs(*job.workload, *m.gpu),
                          host_times(*job.workload, job.pace, timings), host.tmds, device);
  setup.params = host;
  setup.link = params.hub;
  setup.submit_queue = params.task.submit_queue;
  setup.shares = shares_of(job, m);
  auto submitter = std::make_unique<TmdqSubmitter>((job.instance + "_host").c_str(), std::move(setup),
                                                   device_access(*m.gpu), *m.observation, *m.host_observation);
  submitter->bus.memory_out.bind(m.gpu->bar1());
  submitter->submit_out.bind(m.gpu->submit_in());
  m.gpu->done_out().bind(submitter->done_in);
  m.tmdqs = submitter.get();
  m.submitter = std::move(submitter);
}

Machine build(const std::vector<Job>& jobs, const SimulationOptions& options, std::uint32_t number,
              PacketJobs& packet_jobs) {
  const Job& job = jobs[number];
  Machine m;
  m.number = number;
  m.workload = job.workload;
  m.regions = job.regions;
  m.observation = std::make_unique<GpuObservation>(job.instance);
  m.observation->timeline = options.timeline;
  m.observation->ctas = job.ctas;
  if (job.counts_kernels) m.observation->kernels = std::make_shared<KernelAccount>(m.observation->labels);
  if (job.packets && job.ctas != nullptr) {
    m.translator = std::make_unique<TaskTranslator>(*job.ctas);
    m.observation->ctas = m.translator.get();
  }
  m.host_observation = std::make_unique<Observation>(job.instance + ".host");
  m.gpu = std::make_unique<gpu::Gpu>(job.instance.c_str(), job.params, options.seed, *m.observation);
  m.map = map_memory(*job.workload, job.instance, job.params);
  if (job.packets) {
    auto submitter = packet_jobs.add(job, *m.gpu, m.map.end, shares_of(job, m), *m.observation, *m.host_observation);
    m.packets = submitter.get();
    if (m.translator) m.translator->use(submitter->operations());
    m.submitter = std::move(submitter);
  } else if (job.tmdqs) {
    add_tmdq_submitter(job, options.host, m);
  } else {
    add_stream_submitter(jobs, options, m);
  }
  check_switches(*job.workload, job.instance, m.gpu->topology());
  if (!job.part.state.empty()) {
    std::istringstream state(job.part.state);
    m.gpu->state().restore(state);
  }
  m.gpu->preload(resolve_loads(*job.workload, job.instance, *m.gpu, m.submitter->lead()));
  if (job.part.state.empty()) load_regions(*job.workload, job.instance, *m.gpu, m.map);
  return m;
}

// Operations of different GPUs that wait for each other are a matter of their hosts.
void connect_hosts(const std::vector<Machine>& machines) {
  bool any = false;
  for (const Machine& m : machines) {
    for (const workload::Op& op : m.workload->ops) {
      for (const workload::Edge& edge : op.after) {
        if (!edge.gpu) continue;
        any = true;
        machines.at(*edge.gpu).streams->tell(static_cast<std::uint32_t>(edge.from));
      }
    }
  }
  for (const Machine& m : machines) {
    for (const Machine& other : machines) {
      if (any && &m != &other) m.streams->ends_out.bind(other.streams->ends_in);
    }
  }
}

// Recordings of GPUs that are connected have one axis of time, whatever submits their operations.
void align_hosts(const std::vector<Machine>& machines) {
  double lead = 0;
  for (const Machine& m : machines) {
    if (m.workload->format == "scenario") return;
    lead = std::max(lead, m.submitter->lead());
  }
  for (const Machine& m : machines) {
    if (m.streams != nullptr) m.streams->lead_at_least(lead);
    if (m.packets != nullptr) m.packets->lead_at_least(lead);
    if (m.tmdqs != nullptr) m.tmdqs->lead_at_least(lead);
  }
}

// Forward progress: counts of everything that was taken in, started or finished.
std::uint64_t progress_of(const std::vector<Machine>& machines) {
  std::uint64_t sum = 0;
  for (const Machine& m : machines) sum += m.observation->progress;
  return sum;
}

bool finished(const std::vector<Machine>& machines) {
  return std::all_of(machines.begin(), machines.end(), [](const Machine& m) { return m.submitter->finished(); });
}

double share_done(const std::vector<Machine>& machines) {
  double done = 0;
  double all = 0;
  for (const Machine& m : machines) {
    done += static_cast<double>(m.submitter->done());
    all += static_cast<double>(m.submitter->operations());
  }
  return all > 0 ? done / all : 1.0;
}

// What a cycle took: of a clock that never changed, its period.
double mean_cycle_ns(const Domain& domain) {
  const Clock& clock = domain.clock();
  const Cycle end = domain.now();
  if (end == 0 || clock.time_of(end) - clock.time_of(0) == clock.period() * static_cast<double>(end)) {
    return clock.ns_for_cycles(1);
  }
  return (clock.time_of(end) - clock.time_of(0)).to_seconds() * 1e9 / static_cast<double>(end);
}

// All clock domains of a run.
std::vector<Domain*> domains_of(const std::vector<Machine>& machines) {
  std::vector<Domain*> all;
  for (const Machine& m : machines) {
    for (Domain* domain : DomainWatch::domains_of(*m.gpu)) all.push_back(domain);
    all.push_back(&m.submitter->submitter_domain());
  }
  return all;
}

std::uint64_t events_of(const std::vector<Machine>& machines) {
  std::uint64_t sum = 0;
  for (const Machine& m : machines) {
    sum += m.gpu->domain().events_executed() + m.submitter->submitter_domain().events_executed();
  }
  return sum;
}

// Stretches of simulated time with about as many events each, so that whoever looks in between does so often, and not
// too often. The model does not notice them.
class Slices {
 public:
  sc_core::sc_time next() const { return sc_core::sc_time(static_cast<double>(ns_), sc_core::SC_NS); }
  void passed(std::uint64_t events) {
    if (events < kEvents / 2) ns_ = std::min<std::uint64_t>(2 * ns_, 100'000);
    if (events > 2 * kEvents) ns_ = std::max<std::uint64_t>(ns_ / 2, 100);
  }

 private:
  static constexpr std::uint64_t kEvents = 20'000;
  std::uint64_t ns_ = 1000;
};

double millions(std::uint64_t count) { return static_cast<double>(count) / 1e6; }

void end_without_progress(SimulationResult& result, std::string how) {
  result.progress = false;
  result.stopped = std::move(how);
}

// A whole number of steps of the time resolution, and at least one.
std::optional<sc_core::sc_time> time_limit(const SimulationOptions& options) {
  if (options.time_limit_ns <= 0) return std::nullopt;
  const double most = sc_core::sc_max_time().to_seconds() * 0.99 * 1e9;
  return std::max(sc_core::sc_time(std::min(options.time_limit_ns, most), sc_core::SC_NS),
                  sc_core::sc_get_time_resolution());
}

// What the device still writes into memory once all operations are done. SystemC warns if nothing happens.
void settle_writes() {
  const sc_core::sc_time rest(10, sc_core::SC_US);
  const bool writes = sc_core::sc_pending_activity() && sc_core::sc_time_to_pending_activity() <= rest;
  if (writes) sc_core::sc_start(rest, sc_core::SC_EXIT_ON_STARVATION);
}

// All stretches that run have ended.
bool rest(const std::vector<Machine>& machines) {
  bool any = false;
  for (const Machine& m : machines) {
    if (m.streams == nullptr) return false;
    any = any || m.streams->rests();
    if (!m.streams->rests() && !m.submitter->finished()) return false;
  }
  return any;
}

std::uint32_t last_stretch(const std::vector<Job>& jobs) {
  std::uint32_t last = 0;
  for (const Job& job : jobs) {
    for (const std::uint32_t stretch : job.part.stretches) last = std::max(last, stretch);
  }
  return last;
}

void tell_rest(const std::vector<Machine>& machines, const SimulationOptions& options, std::uint32_t stretch) {
  if (!options.resting) return;
  RestingPoint point;
  point.stretch = stretch;
  for (const Machine& m : machines) {
    std::ostringstream state;
    try {
      m.gpu->state().save(state);
    } catch (const InputError& error) {
      point.why_not = error.message();
    }
    point.states.push_back(std::move(state).str());
    point.faults.push_back({m.gpu->log().faults(), {}});
    for (const arch::FaultRecord& fault : point.faults.back().records) {
      point.faults.back().kernels.push_back(kernel_of(*m.observation, fault));
    }
    point.times.push_back(
        static_cast<std::int64_t>(std::llround(sc_core::sc_time_stamp().to_seconds() * 1e9 - m.submitter->lead())));
  }
  options.resting(point);
}

// Why the run stops here, unfinished; nothing: it goes on.
std::optional<std::string> stopped_by(const SimulationOptions& options, const std::optional<sc_core::sc_time>& limit,
                                      double seconds, std::uint64_t events) {
  if (limit && sc_core::sc_time_stamp() >= *limit) {
    return fmt::format("after {} us of simulated time (run.time_limit)", options.time_limit_ns / 1e3);
  }
  if (options.event_limit > 0 && events >= options.event_limit) {
    return fmt::format("after {} events (run.event_limit = {})", events, options.event_limit);
  }
  if (options.wall_limit_s > 0 && seconds >= options.wall_limit_s) {
    return fmt::format("after {} s of this computer's time (run.wall_limit)", options.wall_limit_s);
  }
  return options.interrupted ? options.interrupted() : std::nullopt;
}

void run(const std::vector<Machine>& machines, const SimulationOptions& options, SimulationResult& result) {
  Slices slices;
  DomainWatch watched(domains_of(machines));
  ProgressWatch watch(options.limits, watched);
  const std::optional<sc_core::sc_time> limit = time_limit(options);
  const auto begin = std::chrono::steady_clock::now();
  auto shown = begin;
  std::uint64_t events = 0;
  std::uint32_t stretch = 0;
  while (!finished(machines)) {
    if (!sc_core::sc_pending_activity()) {
      return end_without_progress(result, "no event is left, and operations are open");
    }
    sc_core::sc_time step = std::max(slices.next(), sc_core::sc_time_to_pending_activity());
    sc_core::sc_starvation_policy end = sc_core::SC_EXIT_ON_STARVATION;
    if (limit) {
      const sc_core::sc_time left = *limit - std::min(*limit, sc_core::sc_time_stamp());
      if (left < step) std::tie(step, end) = std::pair(left, sc_core::SC_RUN_TO_TIME);
    }
    if (step > sc_core::SC_ZERO_TIME) sc_core::sc_start(step, end);
    const ProgressWatch::Sight sight{events_of(machines), progress_of(machines)};
    slices.passed(sight.events - events);
    events = sight.events;
    switch (watch.look(sight)) {
      case ProgressWatch::Verdict::goes_on:
        break;
      case ProgressWatch::Verdict::circles:
        return end_without_progress(
            result,
            fmt::format(
                "in {:.1f} million events nothing has been taken in, started or finished, and all that still runs "
                "does the same again and again",
                millions(watch.idle(sight))));
      case ProgressWatch::Verdict::only_instructions:
        return end_without_progress(
            result,
            fmt::format("in {:.1f} million events nothing but instructions was seen: no CTA has started or ended, and "
                        "nothing was written (if the program computes for that long, raise "
                        "run.no_progress_instructions)",
                        millions(watch.idle(sight))));
    }
    if (finished(machines)) return;
    if (rest(machines)) {
      settle_writes();
      tell_rest(machines, options, stretch++);
      for (const Machine& m : machines) {
        if (m.streams->rests()) m.streams->go_on();
      }
    }
    const double seconds = seconds_since(options.wall_begin.value_or(begin));
    if (std::optional<std::string> why = stopped_by(options, limit, seconds, events)) {
      result.partial = true;
      result.stopped = std::move(*why);
      return;
    }
    if (options.progress && seconds_since(shown) > 0.1) {
      shown = std::chrono::steady_clock::now();
      options.progress(sc_core::sc_time_stamp(), share_done(machines));
    }
  }
}

}  // namespace

// What it sees is the last of a time in which it did not look.
DomainWatch::DomainWatch(const std::vector<Domain*>& domains) {
  for (Domain* domain : domains) items_.push_back({domain});
}

std::vector<Domain*> DomainWatch::domains_of(gpu::Gpu& gpu) {
  std::vector<Domain*> all{&gpu.domain()};
  if (&gpu.memory_domain() != &gpu.domain()) all.push_back(&gpu.memory_domain());
  return all;
}

void DomainWatch::look(bool closely) {
  for (Item& item : items_) {
    item.domain->look(closely);
    item.since = item.domain->now();
  }
}

Course DomainWatch::course() const {
  Course most = Course::round;
  for (const Item& item : items_) most = std::max(most, item.domain->course());
  return most;
}

void DomainWatch::note_expected() {
  for (Item& item : items_) item.far = item.domain->far_entered();
}

bool DomainWatch::expects() const {
  return std::any_of(items_.begin(), items_.end(), [](const Item& item) { return item.domain->far_open(item.far); });
}

bool DomainWatch::settled() const {
  return std::all_of(items_.begin(), items_.end(), [](const Item& item) {
    return item.domain->idle() || item.domain->now() - item.since > EventQueue::kBuckets;
  });
}

ProgressWatch::Verdict ProgressWatch::look(const Sight& sight) {
  if (sight.progress != seen_ || limits_.events == 0) {
    seen_ = sight.progress;
    acted_ = sight.events;
    foresees_ = false;
    pause_ = half();
    pause(sight);
    return Verdict::goes_on;
  }
  if (!looking_) {
    if (sight.events - since_ < pause_) return Verdict::goes_on;
    if (!foresees_) subject_.note_expected();
    foresees_ = true;
    begin(sight);
    return Verdict::goes_on;
  }
  if (subject_.expects()) {
    acted_ = sight.events;
    pause(sight);
    return Verdict::goes_on;
  }
  if (sight.events - since_ < half() || !subject_.settled()) return Verdict::goes_on;
  const Course course = subject_.course();
  if (course == Course::round) return Verdict::circles;
  if (course == Course::acts) {
    acted_ = sight.events;
    foresees_ = false;
  }
  if (limits_.instructions > 0 && idle(sight) >= limits_.instructions) return Verdict::only_instructions;
  pause_ = std::min(2 * pause_, 4 * half());
  pause(sight);
  return Verdict::goes_on;
}

void ProgressWatch::begin(const Sight& sight) {
  looking_ = true;
  since_ = sight.events;
  subject_.look(true);
}

void ProgressWatch::pause(const Sight& sight) {
  if (looking_) subject_.look(false);
  looking_ = false;
  since_ = sight.events;
}

std::unique_ptr<GpuObservation> observe_built(const std::string& instance, const gpu::GpuParams& params) {
  const Context context;
  auto observation = std::make_unique<GpuObservation>(instance);
  const gpu::Gpu gpu(instance.c_str(), params, 1, *observation);
  return observation;
}

void check_jobs(const std::vector<Job>& jobs, bool linked, const KernelPlaces& places) {
  for (const Job& job : jobs) {
    check_kernels(job, places);
    check_launches(job);
    check_across(job, linked);
  }
}

SimulationResult simulate(const std::vector<Job>& asked, const SimulationOptions& options) {
  const bool linked = options.links.topology != link::Topology::none;
  std::vector<Job> jobs = asked;
  for (Job& job : jobs) job.params.links.enabled = linked;
  check_jobs(jobs, linked);
  const auto begin = std::chrono::steady_clock::now();
  const Context context;
  // What stops a queue, and faults, are told with the results; a device whose state is restored is reset first.
  for (const char* type : {host::kQueueReport, gpu::kFaultReport, gpu::kResetReport}) {
    sc_core::sc_report_handler::set_actions(type, sc_core::SC_DO_NOTHING);
  }
  SimulationResult result;
  std::vector<Machine> machines;
  PacketJobs packet_jobs(jobs, options);
  while (machines.size() < jobs.size()) {
    machines.push_back(build(jobs, options, static_cast<std::uint32_t>(machines.size()), packet_jobs));
  }
  connect_hosts(machines);
  if (linked) align_hosts(machines);
  std::unique_ptr<gpu::LinkFabric> fabric;
  if (linked) {
    std::vector<gpu::Gpu*> gpus;
    for (const Machine& m : machines) gpus.push_back(m.gpu.get());
    result.links = std::make_unique<Observation>("links");
    fabric = std::make_unique<gpu::LinkFabric>(options.links, gpus, *result.links);
  }
  if (options.built) {
    std::vector<const Stats*> built;
    for (const Machine& m : machines) built.push_back(&m.observation->stats);
    if (result.links) built.push_back(&result.links->stats);
    options.built(built);
  }
  for (const Machine& m : machines) m.submitter->start();
  result.elaboration_seconds = seconds_since(begin);

  const auto running = std::chrono::steady_clock::now();
  const double cpu = cpu_seconds();
  try {
    run(machines, options, result);
    if (result.progress && !result.partial) {
      settle_writes();
      tell_rest(machines, options, last_stretch(jobs));
    }
  } catch (const sc_core::sc_report&) {
    for (const Machine& m : machines) {
      if (m.observation->failure) std::rethrow_exception(m.observation->failure);
      if (m.host_observation->failure) std::rethrow_exception(m.host_observation->failure);
    }
    throw;
  }
  result.wall_seconds = seconds_since(running);
  result.cpu_seconds = cpu_seconds() - cpu;

  WaitGraph graph;
  sc_core::sc_time last;
  for (Machine& m : machines) {
    const Domain& domain = m.gpu->domain();
    Domain& submitter_domain = m.submitter->submitter_domain();
    if (result.partial) {
      // Whatever is open is open.
    } else if (result.progress) {
      m.gpu->check_quiescent();
      if (m.packets != nullptr) m.packets->check_memory();
      if (m.tmdqs != nullptr) m.tmdqs->check_memory();
    } else {
      m.gpu->domain().collect_waits(graph);
      submitter_domain.collect_waits(graph);
    }
    last = std::max({last, domain.last_event_time(), submitter_domain.last_event_time()});
    result.events += domain.events_executed() + submitter_domain.events_executed();
    result.wakeups += domain.wakeups() + submitter_domain.wakeups();
    JobResult job;
    job.results = m.submitter->results();
    m.gpu->settle(std::any_of(job.results.begin(), job.results.end(), [](const OpResult& r) { return !r.done; }));
    job.cycle_ns = mean_cycle_ns(domain);
    job.lead_ns = m.submitter->lead();
    job.sms_per_gpc = m.gpu->topology().sms_per_gpc();
    for (std::uint32_t sm = 0; sm < m.gpu->topology().sms(); ++sm)
      job.sm_paths.push_back(m.gpu->topology().sm_path(sm));
    job.faults = m.gpu->log().faults();
    for (const arch::FaultRecord& fault : job.faults) job.fault_kernels.push_back(kernel_of(*m.observation, fault));
    if (const arch::RaceChecker* races = m.gpu->races(); races != nullptr) {
      job.checks_races = true;
      job.races = races->races();
    }
    job.regions = read_regions(*m.workload, *m.gpu, m.map, m.regions);
    if (m.packets != nullptr) take_packets(*m.packets, job);
    if (m.tmdqs != nullptr) job.host_copies = m.tmdqs->copies();
    HEDDLE_CHECK(m.gpu->log().refused_shares().empty(), "the machine has refused a change of sharing that was checked");
    job.observation = std::move(m.observation);
    result.jobs.push_back(std::move(job));
  }
  if (fabric && fabric->domain() != nullptr) {
    if (result.progress && !result.partial) fabric->domain()->check_idle();
    if (!result.progress) fabric->domain()->collect_waits(graph);
    result.events += fabric->domain()->events_executed();
    last = std::max(last, fabric->domain()->last_event_time());
  }
  fabric.reset();
  // The last one goes first: SystemC looks for the ports and exports of what goes from the newest on, which of many
  // GPUs took longer than their simulation.
  for (auto m = machines.rbegin(); m != machines.rend(); ++m) {
    m->submitter.reset();
    m->gpu.reset();
  }
  result.waits = graph.chain();
  result.sim_time_ns = last.to_seconds() * 1e9;
  return result;
}

}  // namespace heddle::replay
