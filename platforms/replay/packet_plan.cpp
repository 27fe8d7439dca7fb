#include "replay/packet_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::replay {
namespace {

using workload::OpKind;
using workload::Workload;

// Streams of different kinds cannot share a queue: priority and subcontext are the queue's (PKT-12).
using Kind = std::pair<std::int32_t, std::uint8_t>;

std::uint8_t subcontext_of(const Workload& workload, std::size_t stream) {
  std::optional<std::uint8_t> found;
  for (const workload::Op& op : workload.ops) {
    if (op.kind != OpKind::kernel || op.stream != stream) continue;
    if (found && *found != op.kernel.subcontext) {
      throw InputError(fmt::format("kernels of stream {} are of subcontexts {} and {}: a queue has one subcontext",
                                   workload.streams[stream].name, *found, op.kernel.subcontext),
                       "give kernels of different subcontexts streams of their own");
    }
    found = op.kernel.subcontext;
  }
  return found.value_or(0);
}

// How many queues each kind gets: one, and the others where most streams share one.
std::map<Kind, std::size_t> deal(const std::map<Kind, std::vector<std::size_t>>& kinds, std::uint32_t queues) {
  if (kinds.size() > queues) {
    throw InputError(
        fmt::format("streams of {} different priorities and subcontexts need as many queues, and there are "
                    "{}",
                    kinds.size(), queues),
        "raise gpu.packet.queues, or use fewer priorities and subcontexts");
  }
  std::map<Kind, std::size_t> share;
  for (const auto& [kind, streams] : kinds) share[kind] = 1;
  for (std::size_t left = queues - kinds.size(); left > 0; --left) {
    const Kind* most = nullptr;
    for (const auto& [kind, streams] : kinds) {
      if (streams.size() <= share[kind]) continue;
      if (most == nullptr || streams.size() * share[*most] > kinds.at(*most).size() * share[kind]) most = &kind;
    }
    if (most == nullptr) break;
    ++share[*most];
  }
  return share;
}

// Queues, and the queue of every stream.
std::vector<std::uint32_t> place_streams(const Workload& workload, std::uint32_t queues, PacketPlan& plan) {
  std::vector<bool> used(workload.streams.size(), false);
  for (const workload::Op& op : workload.ops) used[op.stream] = true;
  std::map<Kind, std::vector<std::size_t>> kinds;
  for (std::size_t s = 0; s < workload.streams.size(); ++s) {
    if (used[s]) kinds[{workload.streams[s].priority, subcontext_of(workload, s)}].push_back(s);
  }
  const std::map<Kind, std::size_t> share = deal(kinds, queues);
  std::vector<std::uint32_t> queue_of(workload.streams.size(), 0);
  std::map<Kind, std::vector<std::uint32_t>> queues_of;
  std::map<Kind, std::size_t> next;
  std::size_t streams = 0;
  // In the order of the streams, so that numbers of queues follow it.
  for (std::size_t s = 0; s < workload.streams.size(); ++s) {
    if (!used[s]) continue;
    ++streams;
    const Kind kind{workload.streams[s].priority, subcontext_of(workload, s)};
    std::vector<std::uint32_t>& own = queues_of[kind];
    if (own.size() < share.at(kind)) {
      own.push_back(static_cast<std::uint32_t>(plan.queues.size()));
      plan.queues.push_back({kind.first, kind.second, {}, {}});
    }
    queue_of[s] = own[next[kind]++ % share.at(kind)];
    plan.queues[queue_of[s]].streams.push_back(s);
  }
  if (streams > plan.queues.size()) {
    plan.warnings.push_back(fmt::format(
        "{} streams share {} queues: operations of streams that share one wait for each other (gpu.packet.queues)",
        streams, plan.queues.size()));
  }
  return queue_of;
}

// What waits for an earlier operation of the same queue comes behind it, whatever the host's times say.
void keep_order(const Workload& workload, const std::vector<std::uint32_t>& queue_of,
                std::vector<std::int64_t>& times) {
  std::vector<std::int64_t> stream_time(workload.streams.size(), std::numeric_limits<std::int64_t>::min());
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    times[i] = std::max(times[i], stream_time[op.stream]);
    for (const workload::Edge& edge : op.after) {
      const bool same = queue_of[workload.ops[edge.from].stream] == queue_of[op.stream];
      if (same && edge.from < i) times[i] = std::max(times[i], times[edge.from]);
    }
    stream_time[op.stream] = times[i];
  }
}

void connect(const Workload& workload, PacketPlan& plan) {
  std::vector<bool> waited_for(workload.ops.size(), false);
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    for (const workload::Edge& edge : workload.ops[i].after) {
      if (plan.ops[edge.from].queue != plan.ops[i].queue) {
        plan.ops[i].waits.push_back(edge.from);
        waited_for[edge.from] = true;
      } else if (plan.ops[edge.from].place >= plan.ops[i].place) {
        throw InputError(
            fmt::format("operation {} ({}) waits for operation {} ({}), which is behind it in the same queue", i,
                        workload.ops[i].kernel.name, edge.from, workload.ops[edge.from].kernel.name),
            "submit it later, or raise gpu.packet.queues if their streams share a queue");
      }
    }
  }
  for (const PlannedQueue& queue : plan.queues) waited_for[queue.ops.back()] = true;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    if (waited_for[i]) plan.ops[i].signal = plan.signals++;
  }
}

// What packets of user-mode queues have no field for.
void check_operations(const Workload& workload) {
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    const auto refuse = [&](const std::string& what, const char* remedy) {
      throw InputError(fmt::format("operation {} ({}) cannot be submitted by packets: {}", i, op.kernel.name, what),
                       remedy);
    };
    if (op.queue) refuse("a packet starts a grid, and no queue task", "submit it without `by: aql` and --submit aql");
    if (op.head) {
      refuse("no packet goes to the head of a list",
             "leave out `insert: head`, or give it a stream of a higher priority");
    }
    if (op.priority && *op.priority != workload.streams[op.stream].priority) {
      refuse(fmt::format("its priority is {}, and that of its stream, which has one queue, {}", *op.priority,
                         workload.streams[op.stream].priority),
             "give it a stream of that priority");
    }
    const auto translated = [&op](const workload::Subcontext& one) {
      return one.id == op.kernel.subcontext && one.translated;
    };
    if (std::any_of(workload.subcontexts.begin(), workload.subcontexts.end(), translated)) {
      refuse(fmt::format("what packets need in memory does not lie in the address space of subcontext {}",
                         op.kernel.subcontext),
             "submit it in streams, without `by: aql`, or leave out `translated`");
    }
  }
}

constexpr std::array<const char*, kParts> kKeys{"enqueue",  "fetch",  "wait",      "decode",
                                                "dispatch", "launch", "execution", "clean_up"};
constexpr std::array<const char*, kParts> kTexts{
    "the host writes the packet and rings the doorbell",
    "the packet processor fetches the packet",
    "the packet waits for its turn",
    "the packet is decoded, what it names is read, and the acquire fence is done",
    "the kernel is handed to task management",
    "the kernel waits for its first CTA to be launched",
    "its CTAs run",
    "release fence, completion signal, and the end of the packet"};

// Where a part begins and ends, with nothing out of order.
std::array<double, kParts + 1> bounds_of(const PacketLaunch& launch) {
  std::array<double, kParts + 1> bounds = launch.times;
  // Of what comes before its dispatch, a later kernel of a condensed packet has only a fence of its own.
  constexpr auto kReady = static_cast<std::size_t>(Part::decode);
  if (launch.kernel > 0) {
    for (std::size_t i = 0; i < kReady; ++i) bounds[i] = bounds[kReady];
  }
  for (std::size_t i = 1; i < bounds.size(); ++i) bounds[i] = std::max(bounds[i], bounds[i - 1]);
  return bounds;
}

}  // namespace

PacketPlan plan_packets(const Workload& workload, Pace pace, const SubmissionTimings& timings, std::uint32_t queues) {
  check_operations(workload);
  PacketPlan plan;
  plan.ops.resize(workload.ops.size());
  const std::vector<std::uint32_t> queue_of = place_streams(workload, queues, plan);
  SubmissionTimings with_copies = timings;
  with_copies.copy_path_ns = timings.start_path_ns;
  std::vector<std::int64_t> times = host_times(workload, pace, with_copies);
  keep_order(workload, queue_of, times);
  std::vector<std::size_t> order(workload.ops.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return times[a] < times[b]; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t op = order[i];
    PlannedOp& planned = plan.ops[op];
    planned.queue = queue_of[workload.ops[op].stream];
    planned.when = times[op];
    planned.order = i;
    planned.place = plan.queues[planned.queue].ops.size();
    plan.queues[planned.queue].ops.push_back(op);
  }
  connect(workload, plan);
  return plan;
}

const char* part_key(Part part) { return kKeys[static_cast<std::size_t>(part)]; }
const char* part_text(Part part) { return kTexts[static_cast<std::size_t>(part)]; }

double PacketLaunch::part_ns(Part part) const {
  const auto bounds = bounds_of(*this);
  const auto p = static_cast<std::size_t>(part);
  return bounds[p + 1] - bounds[p];
}

std::vector<Parts> own_parts(const std::vector<PacketLaunch>& launches) {
  std::vector<std::size_t> order(launches.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&launches](std::size_t a, std::size_t b) {
    const auto key = [](const PacketLaunch& l) { return std::tie(l.queue, l.index, l.kernel); };
    return key(launches[a]) < key(launches[b]);
  });
  std::vector<Parts> own(launches.size(), Parts{});
  std::map<std::uint32_t, double> covered;  // by queue: until when
  for (const std::size_t i : order) {
    const auto bounds = bounds_of(launches[i]);
    const auto [until, first] = covered.emplace(launches[i].queue, bounds.front());
    for (std::size_t p = 0; p < kParts; ++p) {
      own[i][p] = std::max(0.0, bounds[p + 1] - std::max(bounds[p], until->second));
    }
    until->second = std::max(until->second, bounds.back());
  }
  return own;
}

}  // namespace heddle::replay
