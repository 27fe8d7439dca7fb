#include "scenario/scenario_submit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "common/error.h"
#include "common/quantity.h"
#include "common/yaml_util.h"
#include "program/expression.h"
#include "program/step_table.h"
#include "scenario/scenario.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

constexpr std::size_t kMaxOps = 1'000'000;  // keeps their list within memory
constexpr const char* kOperation = "operation";
constexpr double kMostGigabytes = 20'000;  // per second: more than any memory of today moves
constexpr Limits<int> kPriorities{Unit::none, -1000, 1000};

template <class T>
T read_choice(const MapReader& map, const char* key, const Choices<T>& choices, T otherwise) {
  if (!map.has(key)) return otherwise;
  std::vector<T> values;
  for (const auto& choice : choices) values.push_back(choice.second);
  return choose(map, key, values, [&choices](T value) {
    for (const auto& [name, one] : choices) {
      if (one == value) return name;
    }
    return std::string();
  });
}

// The addresses of regions.
class ArgNames : public ExpressionNames {
 public:
  ArgNames(const std::vector<MemoryRegion>& regions, std::set<std::string>& used) : regions_(regions), used_(used) {}

  std::optional<NamedValue> find(const std::string& name) override {
    for (const MemoryRegion& region : regions_) {
      if (region.name != name) continue;
      used_.insert(name);
      return static_cast<double>(region.known_as());
    }
    return std::nullopt;
  }
  std::vector<std::string> known() const override {
    std::vector<std::string> names;
    for (const MemoryRegion& region : regions_) names.push_back(region.name);
    return names;
  }

 private:
  const std::vector<MemoryRegion>& regions_;
  std::set<std::string>& used_;
};

// An address of a copy, as the engines of that GPU see it.
class CopyNames : public ExpressionNames {
 public:
  CopyNames(const std::vector<MemoryRegion>& regions, std::size_t gpu) : regions_(regions), gpu_(gpu) {}
  std::optional<NamedValue> find(const std::string& name) override {
    for (const MemoryRegion& region : regions_) {
      if (region.name != name || region.subcontext) continue;
      const auto owner = static_cast<std::uint32_t>(region.gpu);
      return static_cast<double>(region.gpu == gpu_ ? region.address : arch::peer_address(owner, region.address));
    }
    return std::nullopt;
  }
  std::vector<std::string> known() const override {
    std::vector<std::string> names;
    for (const MemoryRegion& region : regions_) names.push_back(region.name);
    return names;
  }

 private:
  const std::vector<MemoryRegion>& regions_;
  std::size_t gpu_;
};

constexpr CopyDirection kDirections[] = {CopyDirection::device_to_device, CopyDirection::host_to_device,
                                         CopyDirection::device_to_host};

}  // namespace

void SubmitReader::read_streams(const YAML::Node& list) {
  for (const auto& node : list) {
    const MapReader map(node, stream_spec(), entry_name("stream", node, "name"), file_);
    Stream stream;
    stream.name = map.name("name");
    if (map.has("priority")) stream.priority = map.number<int>("priority", kPriorities);
    const std::size_t gpu = gpu_of(map);
    if (streams_.count(stream.name) != 0) map.fail("name", fmt::format("there are two streams {}", stream.name));
    add_stream(gpu, stream);
  }
}

void SubmitReader::read_operations(const YAML::Node& list) {
  for (const auto& node : list) read_operation(node);
  connect();
}

void SubmitReader::warn_of_unused() {
  for (const auto& [name, place] : streams_) {
    if (!place.used) {
      workloads_[place.gpu].warnings.push_back(fmt::format("{}: stream {} is never used", file_, name));
    }
  }
}

// `gpu: 1` of an entry.
std::size_t SubmitReader::gpu_of(const MapReader& map) const {
  return map.has("gpu") ? map.number<std::size_t>("gpu", {Unit::none, 0, workloads_.size() - 1}) : 0;
}

SubmitReader::StreamPlace& SubmitReader::add_stream(std::size_t gpu, const Stream& stream) {
  std::vector<Stream>& streams = workloads_[gpu].streams;
  streams.push_back(stream);
  return streams_.emplace(stream.name, StreamPlace{gpu, streams.size() - 1}).first->second;
}

SubmitReader::StreamPlace& SubmitReader::use_stream(const std::string& name) {
  const auto found = streams_.find(name);
  StreamPlace& place = found != streams_.end() ? found->second : add_stream(0, Stream{name, 0});
  place.used = true;
  return place;
}

// What kind of operation a map is decides which keys it may have.
const MapSpec& SubmitReader::kind_of(const YAML::Node& node, const std::string& thing) const {
  const MapSpec* found = nullptr;
  const std::pair<const char*, const MapSpec*> kinds[] = {{"kernel", &kernel_op_spec()},
                                                          {"copy", &copy_op_spec()},
                                                          {"fill", &fill_op_spec()},
                                                          {"graph", &graph_op_spec()},
                                                          {"group", &group_op_spec()}};
  for (const auto& [key, spec] : kinds) {
    if (!node.IsMap() || !node[key].IsDefined()) continue;
    if (found != nullptr) {
      throw InputError(
          position(node, file_),
          fmt::format("{}: it is both a {} and a {}", thing, found->name.substr(0, found->name.find('_')), key),
          "write two operations, one under the other");
    }
    found = spec;
  }
  if (found == nullptr) {
    throw InputError(
        position(node, file_), fmt::format("{}: what to do is missing", thing),
        "an operation has one of the keys kernel, copy, fill, graph, group, or is a collective: {kernel: gemm, "
        "stream: a}");
  }
  return *found;
}

void SubmitReader::read_transfer(const MapReader& map, const char* key, Op& op) {
  op.bytes = map.number<std::uint64_t>(key, {Unit::bytes, 1, kMaxScenarioBytes});
  op.kernel.name = map.has("id") ? map.name("id") : key;
  if (op.kind == OpKind::copy && (map.has("from") || map.has("to"))) return;
  if (!map.has("for")) {
    throw InputError(map.where(), fmt::format("{}: the key \"for\" is missing", map.thing()),
                     op.kind == OpKind::copy ? "as in: for: 3 us; or say `from` and `to`, and the bytes are moved"
                                             : "as in: for: 1 us");
  }
  op.duration = map.number<Nanoseconds>("for", {Unit::ns, 0, kMaxScenarioTime}, BareNumber::refused);
  if (op.kind == OpKind::copy) op.direction = read_direction(map);
  const double rate = static_cast<double>(op.bytes) / std::max(1e-3, static_cast<double>(op.duration));
  if (rate > kMostGigabytes && op.duration > 0) {
    workloads_.front().warnings.push_back(
        fmt::format("{}: {} bytes in {} ns are {:.3g} TB/s, more than any memory moves", map.where(key).text(),
                    op.bytes, op.duration, rate / 1000));
  }
}

void SubmitReader::read_moved(const MapReader& map, std::size_t gpu, Op& op) const {
  for (const char* key : {"for", "direction"}) {
    if (map.has(key)) map.fail(key, "it has no meaning where the bytes are moved");
  }
  CopyNames names(regions_, gpu);
  const auto address = [&](const char* key) {
    if (!map.has(key)) {
      throw InputError(map.where(), fmt::format("{}: the key \"{}\" is missing", map.thing(), key),
                       "`from` and `to` stand together");
    }
    ExpressionSlots slots;
    return whole_bits(Expression(map.text(key), map.where(key), names, slots).value());
  };
  op.moved = MovedBytes{address("from"), address("to")};
}

void SubmitReader::read_kernel_op(const MapReader& map, Op& op) {
  op.kernel = kernels_.find(map);
  if (map.has("priority")) op.priority = map.number<int>("priority", kPriorities);
  op.head = reads_head(map);
  if (map.has("programmatic")) op.programmatic = map.flag("programmatic");
  if (map.has("queue")) return read_queue_use(map, op);
  if (map.has("until")) map.fail("until", "only an operation with a queue has it");
}

void SubmitReader::read_queue_use(const MapReader& map, Op& op) {
  const std::string name = map.name("queue");
  std::vector<std::string> names;
  const MemoryRegion* queue = nullptr;
  for (const MemoryRegion& region : regions_) {
    if (region.contents.kind != RegionContents::Kind::queue) continue;
    names.push_back(region.name);
    if (region.name == name) queue = &region;
  }
  if (queue == nullptr) {
    throw InputError(
        map.where("queue"), fmt::format("{}: there is no queue {}", map.thing(), name),
        names.empty() ? "describe it in the list `queues`: {name: work, capacity: 1024}" : suggestion(name, names));
  }
  if (op.kernel.program == nullptr) {
    throw InputError(
        map.where("kernel"),
        fmt::format("{}: kernel {} has no program, and could not read its entries", map.thing(), op.kernel.name),
        "give it a program instead of `cycles`; an entry lies at `kernarg`");
  }
  if (op.kernel.cluster.any()) map.fail("queue", "its kernel has clusters; the CTAs of entries start one by one");
  if (in_group_ || map.has("repeat")) map.fail("queue", "an operation with a queue is submitted once");
  if (!queues_.emplace(name, map.thing()).second) {
    map.fail("queue", fmt::format("{} takes the entries of {} already", queues_.at(name), name));
  }
  op.queue = QueueUse{queue->address, queue->contents.entries.size(), {}};
}

// An address means something else on another GPU.
void SubmitReader::check_gpu(const MapReader& map, const Op& op, std::size_t gpu) const {
  if (op.kind != OpKind::kernel) return;
  kernels_.check_regions(map, op.kernel.name, gpu);
  kernels_.check_spaces(map, op.kernel.name, workloads_[gpu]);
  for (const MemoryRegion& region : regions_) {
    if (op.queue && region.contents.kind == RegionContents::Kind::queue && region.address == op.queue->address &&
        region.gpu != gpu) {
      map.fail("queue", fmt::format("it runs on gpu{}, and the queue is of gpu{}", gpu, region.gpu));
    }
  }
}

void SubmitReader::read_operation(const YAML::Node& node) {
  const std::string thing = entry_name(kOperation, node, "id");
  const MapSpec& spec = kind_of(node, thing);
  const MapReader map(node, spec, thing, file_);
  if (&spec == &group_op_spec()) return read_group(map);
  if (in_group_) {
    for (const char* key : {"id", "after"}) {
      if (map.has(key)) map.fail(key, "not possible within a group");
    }
  }
  if (&spec == &graph_op_spec()) return read_graph_op(map);
  Op op;
  std::set<std::string> argument_regions;
  if (&spec == &kernel_op_spec()) {
    read_kernel_op(map, op);
    if (map.has("args")) op.args = read_args(map, file_, regions_, argument_regions);
  } else {
    op.kind = &spec == &copy_op_spec() ? OpKind::copy : OpKind::fill;
    read_transfer(map, op.kind == OpKind::copy ? "copy" : "fill", op);
  }
  const Limits<Nanoseconds> time{Unit::ns, 0, kMaxScenarioTime};
  op.enqueue = map.has("at") ? map.number("at", time, BareNumber::refused) : 0;
  const std::size_t repeat = map.has("repeat") ? map.number<std::size_t>("repeat", {Unit::count, 1, kMaxOps}) : 1;
  const StreamPlace& place = use_stream(map.name("stream"));
  op.stream = place.index;
  check_gpu(map, op, place.gpu);
  if (op.kind == OpKind::copy && (map.has("from") || map.has("to"))) read_moved(map, place.gpu, op);
  for (const MemoryRegion& region : regions_) {
    if (argument_regions.count(region.name) == 0 || region.gpu == place.gpu || region.shared) continue;
    map.fail("args", fmt::format("it runs on gpu{}, and memory {} is of gpu{}", place.gpu, region.name, region.gpu));
  }

  Workload& workload = workloads_[place.gpu];
  Submission submission{thing, map.where(), place.gpu, workload.ops.size(), {}, {}};
  count_ops(map, repeat);
  workload.ops.insert(workload.ops.end(), repeat, op);
  name_op(map, place.gpu);
  if (map.has("after")) submission.after = read_waits(map, "after");
  if (op.queue && map.has("until")) submission.until = read_waits(map, "until");
  submissions_.push_back(std::move(submission));
}

void SubmitReader::count_ops(const MapReader& map, std::size_t more) {
  total_ops_ += more;
  if (total_ops_ > kMaxOps) {
    throw InputError(map.where(), fmt::format("{}: with it there are more than {} operations", map.thing(), kMaxOps),
                     "use fewer operations or a smaller repeat");
  }
}

// The last operation so far has the id that the entry may have.
void SubmitReader::name_op(const MapReader& map, std::size_t gpu) {
  if (!map.has("id")) return;
  const std::string id = map.name("id");
  if (!ids_.emplace(id, std::make_pair(gpu, workloads_[gpu].ops.size() - 1)).second) {
    map.fail("id", fmt::format("there are two operations {}", id));
  }
}

// Each launch is as many operations as the graph has kernels. What the launch waits for its first one does.
void SubmitReader::read_graph_op(const MapReader& map) {
  if (in_group_) map.fail("graph", "not possible within a group");
  const Graph& graph = graphs_.find(map);
  Op op;
  const Limits<Nanoseconds> time{Unit::ns, 0, kMaxScenarioTime};
  op.enqueue = map.has("at") ? map.number("at", time, BareNumber::refused) : 0;
  if (map.has("priority")) op.priority = map.number<int>("priority", kPriorities);
  const std::size_t repeat = map.has("repeat") ? map.number<std::size_t>("repeat", {Unit::count, 1, kMaxOps}) : 1;
  const StreamPlace& place = use_stream(map.name("stream"));
  op.stream = place.index;
  std::vector<Op>& ops = workloads_[place.gpu].ops;
  Submission submission{map.thing(), map.where(), place.gpu, ops.size(), {}, {}};
  count_ops(map, repeat * graph.size());
  for (std::size_t i = 0; i < repeat; ++i) {
    const std::size_t first = ops.size();
    for (const GraphNode& node : graph) {
      op.kernel = node.kernel;
      check_gpu(map, op, place.gpu);
      op.graph = GraphUse{};
      for (const std::size_t before : node.after) op.graph->after.push_back(first + before);
      ops.push_back(op);
    }
    ops.back().graph->last = true;
  }
  name_op(map, place.gpu);
  if (map.has("after")) submission.after = read_waits(map, "after");
  submissions_.push_back(std::move(submission));
}

// Read once, copied for every further time.
void SubmitReader::read_group(const MapReader& map) {
  if (in_group_) map.fail("group", "a group within a group");
  if (map.node("group").size() == 0) map.fail("group", "the list is empty");
  const std::size_t repeat = map.has("repeat") ? map.number<std::size_t>("repeat", {Unit::count, 1, kMaxOps}) : 1;
  std::vector<std::size_t> begins;
  for (const Workload& workload : workloads_) begins.push_back(workload.ops.size());
  const std::size_t before = total_ops_;
  in_group_ = true;
  for (const auto& node : map.node("group")) read_operation(node);
  in_group_ = false;
  const std::size_t count = total_ops_ - before;
  total_ops_ += (repeat - 1) * count;
  if (total_ops_ > kMaxOps) {
    map.fail("repeat", fmt::format("with it there are more than {} operations", kMaxOps));
  }
  for (std::size_t gpu = 0; gpu < begins.size(); ++gpu) {
    std::vector<Op>& ops = workloads_[gpu].ops;
    const std::vector<Op> once(ops.begin() + static_cast<std::ptrdiff_t>(begins[gpu]), ops.end());
    for (std::size_t i = 1; i < repeat; ++i) ops.insert(ops.end(), once.begin(), once.end());
  }
}

std::vector<SubmitReader::Wait> SubmitReader::read_waits(const MapReader& map, const char* key) const {
  std::vector<Wait> waits;
  for (const YAML::Node& item : map.items(key)) {
    if (!item.IsScalar() || item.Scalar().empty()) {
      map.fail(key, item, fmt::format("the id of an operation is expected, found {}", kind_text(item)));
    }
    const std::string& id = item.Scalar();
    for (const Wait& other : waits) {
      if (other.id == id) map.fail(key, item, fmt::format("{} stands twice in the list", id));
    }
    waits.push_back({id, position(item, file_)});
  }
  return waits;
}

std::pair<std::size_t, std::size_t> SubmitReader::resolve(const Submission& submission, const Wait& wait,
                                                          const char* key) const {
  const auto found = ids_.find(wait.id);
  if (found == ids_.end()) {
    std::vector<std::string> names;
    for (const auto& entry : ids_) names.push_back(entry.first);
    throw InputError(wait.where, fmt::format("{}, {}: there is no operation {}", submission.thing, key, wait.id),
                     names.empty() ? "give the operation an id: {id: …, kernel: …}" : suggestion(wait.id, names));
  }
  return found->second;
}

void SubmitReader::connect() {
  for (const Submission& submission : submissions_) {
    Op& op = workloads_[submission.gpu].ops[submission.first_op];
    for (const Wait& wait : submission.after) {
      const auto [gpu, index] = resolve(submission, wait, "after");
      Edge edge{index, EdgeSource::recorded};
      if (gpu != submission.gpu) edge.gpu = gpu;
      op.after.push_back(edge);
    }
    for (const Wait& wait : submission.until) {
      const auto [gpu, index] = resolve(submission, wait, "until");
      if (gpu != submission.gpu) {
        throw InputError(
            wait.where,
            fmt::format("{}, until: it runs on gpu{}, {} on gpu{}", submission.thing, submission.gpu, wait.id, gpu),
            "entries of a queue come from its own GPU");
      }
      if (index == submission.first_op) {
        throw InputError(wait.where, fmt::format("{}, until: it would wait for its own end", submission.thing),
                         "name operations that append to the queue; entries that it appends itself need no `until`");
      }
      op.queue->until.push_back(index);
    }
  }
  refuse_circles();
}

std::string SubmitReader::called(std::size_t gpu, std::size_t op) const {
  const Submission* found = nullptr;
  for (const Submission& submission : submissions_) {
    if (submission.gpu == gpu && submission.first_op <= op) found = &submission;
  }
  const std::string id = found->thing == kOperation ? "an operation" : found->thing;
  return fmt::format("{} (line {})", id, found->where.line);
}

// Of a graph all operations count as if they followed each other: only its first waits for others, and others wait for
// its last.
void SubmitReader::refuse_circles() const {
  std::vector<std::size_t> firsts;  // of each GPU, among the operations of all
  std::size_t all = 0;
  for (const Workload& workload : workloads_) {
    firsts.push_back(all);
    all += workload.ops.size();
  }
  std::vector<std::vector<std::size_t>> after(all);
  bool ahead = false;  // nobody waits for what stands behind it: no circle
  for (std::size_t gpu = 0; gpu < workloads_.size(); ++gpu) {
    std::vector<std::optional<std::size_t>> last(workloads_[gpu].streams.size());
    for (std::size_t i = 0; i < workloads_[gpu].ops.size(); ++i) {
      const Op& op = workloads_[gpu].ops[i];
      if (last[op.stream]) after[firsts[gpu] + i].push_back(*last[op.stream]);
      last[op.stream] = firsts[gpu] + i;
      for (const Edge& edge : op.after) {
        after[firsts[gpu] + i].push_back(firsts[edge.gpu.value_or(gpu)] + edge.from);
        ahead = ahead || edge.gpu || edge.from >= i;
      }
    }
  }
  if (!ahead || order_of(after).size() == all) return;
  const std::vector<std::size_t> circle = circle_of(after);
  const auto place_of = [&](std::size_t number) {
    const auto gpu =
        static_cast<std::size_t>(std::upper_bound(firsts.begin(), firsts.end(), number) - firsts.begin()) - 1;
    return std::make_pair(gpu, number - firsts[gpu]);
  };
  // The entry of `after` that makes one wait for the next one of the circle; nothing: both are of a stream.
  const auto said = [&](std::size_t i) -> std::optional<SourcePos> {
    const auto [gpu, index] = place_of(circle[i]);
    for (const Submission& submission : submissions_) {
      if (submission.gpu != gpu || submission.first_op != index) continue;
      for (const Wait& wait : submission.after) {
        if (resolve(submission, wait, "after") == place_of(circle[(i + 1) % circle.size()])) return wait.where;
      }
    }
    return std::nullopt;
  };
  std::vector<std::string> steps;
  std::optional<SourcePos> where;
  for (std::size_t i = 0; i < circle.size(); ++i) {
    const auto [gpu, index] = place_of(circle[i]);
    const std::optional<SourcePos> entry = said(i);
    if (!where) where = entry;
    // Of a stream only who stands last and who stands first.
    while (!entry && i + 1 < circle.size() && !said(i + 1)) ++i;
    const auto [other_gpu, other] = place_of(circle[(i + 1) % circle.size()]);
    steps.push_back(fmt::format("{} {} {}", called(gpu, index), entry ? "waits for" : "stands in its stream behind",
                                called(other_gpu, other)));
  }
  constexpr std::size_t kTold = 4;  // steps at each end
  if (steps.size() > 2 * kTold + 1) {
    const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(kTold);
    const auto end = steps.end() - static_cast<std::ptrdiff_t>(kTold);
    *begin = fmt::format("{} more such steps", end - begin);
    steps.erase(begin + 1, end);
  }
  const std::string way = fmt::format("{}", fmt::join(steps, ", "));
  throw InputError(*where, "operations wait in a circle, and none of them could ever start: " + way,
                   "leave one of these `after` out, or let it name an operation that stands before it");
}

using namespace workload;
using namespace program;

std::optional<PacketOptions> read_submission(const YAML::Node& node, const std::string& file, YAML::Node& operations) {
  const MapReader map(node, submission_spec(), "submit", file);
  if (map.text("by") == "tmdq") {
    for (const char* key : {"format", "queues", "copies", "signals", "batch"}) {
      if (map.has(key)) map.fail(key, "it is about packets, and operations are pushed into TMDQs: leave it out");
    }
    operations.reset(map.node("operations"));
    return std::nullopt;
  }
  if (map.text("by") != "aql") map.fail("by", fmt::format("{} is not a way to submit", map.text("by")));
  const PacketOptions usual;
  PacketOptions options;
  options.format = read_choice(map, "format", packet_formats(), usual.format);
  options.queues = read_choice(map, "queues", queue_places(), usual.queues);
  options.copies = read_choice(map, "copies", copy_ways(), usual.copies);
  options.signals = read_choice(map, "signals", signal_choices(), usual.signals);
  if (map.has("batch")) options.batch = map.number<std::uint32_t>("batch", {Unit::count, 1, kMaxBatch});
  operations.reset(map.node("operations"));
  return options;
}

std::vector<std::uint64_t> read_args(const MapReader& map, const std::string& file,
                                     const std::vector<MemoryRegion>& regions, std::set<std::string>& used) {
  std::vector<std::uint64_t> args;
  ArgNames names(regions, used);
  constexpr std::size_t kMostArgs = 512;  // 4 KiB
  for (const YAML::Node& item : map.items("args")) {
    if (!item.IsScalar()) map.fail("args", item, fmt::format("an expression is expected, found {}", kind_text(item)));
    ExpressionSlots slots;
    const Expression expression(item.Scalar(), position(item, file), names, slots);
    args.push_back(whole_bits(expression.value()));
  }
  if (args.empty() || args.size() > kMostArgs) {
    map.fail("args", fmt::format("{} arguments, of 1 to {}", args.size(), kMostArgs));
  }
  return args;
}

CopyDirection read_direction(const MapReader& map) {
  if (!map.has("direction")) return CopyDirection::host_to_device;
  return choose(map, "direction", std::vector<CopyDirection>(std::begin(kDirections), std::end(kDirections)),
                direction_name);
}

const char* direction_name(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::host_to_device:
      return "host_to_device";
    case CopyDirection::device_to_host:
      return "device_to_host";
    case CopyDirection::device_to_device:
      break;
  }
  return "device_to_device";
}

}  // namespace heddle::scenario
