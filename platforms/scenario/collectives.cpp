#include "scenario/collectives.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/quantity.h"
#include "common/yaml_util.h"
#include "scenario/scenario.h"
#include "scenario/scenario_schema.h"

namespace heddle::scenario {
namespace {

constexpr std::uint32_t kVector = 16;  // bytes that a thread moves at a time
constexpr std::uint32_t kUnroll = 4;   // of them in flight, where there are enough

constexpr Collective kKinds[] = {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                 Collective::broadcast};

// An operation with all that it names.
struct Operation {
  Collective kind = Collective::all_reduce;
  std::string name;    // of its kernels
  std::string shared;  // of what it has in common with the others of its streams: see Communicator
  std::uint64_t bytes = 0;
  bool in_switch = false;
  std::uint32_t ctas = 16;
  std::uint32_t flag_ctas = 16;  // for which there are flags
  std::uint32_t threads = 512;
  std::string type = "f32";
  std::vector<std::size_t> gpus;
  std::vector<std::string> streams;
  std::vector<std::string> buffers;

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(gpus.size()); }
  // What a rank owns; of a broadcast, what is passed on before the next part.
  std::uint64_t chunk() const { return bytes / ranks(); }
  std::string flags(std::uint32_t rank) const { return fmt::format("{}_flags_{}", shared, rank); }
  std::string scratch(std::uint32_t rank) const { return fmt::format("{}_scratch_{}", shared, rank); }
  // Flags of a CTA: one says that the successor may be written to, the others what has come.
  std::uint32_t flag_count() const { return 2 * ranks() + 1; }
  bool needs_scratch() const {
    return !in_switch && (kind == Collective::all_reduce || kind == Collective::reduce_scatter);
  }
};

// What the collectives of the same streams use one after the other: flags, which each of them leaves as zeros, as it
// found them, and where a ring keeps what has come.
struct Communicator {
  Operation first;
  std::uint32_t ctas = 0;     // the most that one has
  std::uint64_t scratch = 0;  // bytes, on each GPU
};

// A whole number that the counter of a loop may be part of.
struct Counted {
  std::int64_t constant = 0;
  std::int64_t factor = 0;
  std::string counter = {};

  Counted plus(std::int64_t more) const { return {constant + more, factor, counter}; }
  // The expression of so many times it.
  std::string times(std::uint64_t scale) const {
    const auto by = static_cast<std::int64_t>(scale);
    if (factor == 0) return fmt::format("{}", constant * by);
    return fmt::format("{} {} {} * {}", constant * by, factor < 0 ? "-" : "+", std::abs(factor) * by, counter);
  }
};

// The steps of one rank's kernel, as text: as long for many ranks as for four. A CTA takes the same vectors of every
// chunk, so that CTAs of different GPUs go on without regard to the others of theirs. Each flag is written once and
// cleared by whoever waits for it, before it lets anybody go on who could write it for the next collective.
class Steps {
 public:
  Steps(const Operation& op, std::uint32_t rank) : op_(op), rank_(rank) {}

  std::string text() {
    op_.in_switch ? by_switch() : by_ring();
    return text_;
  }

 private:
  std::uint32_t next() const { return (rank_ + 1) % op_.ranks(); }
  std::uint32_t before() const { return (rank_ + op_.ranks() - 1) % op_.ranks(); }
  std::string chunk_of(const std::string& base, const Counted& chunk) const {
    return fmt::format("{} + {}", base, chunk.times(op_.chunk()));
  }
  Counted own_chunk() const { return {rank_}; }
  const std::string& own() const { return op_.buffers[rank_]; }
  const std::string& theirs() const { return op_.buffers[next()]; }

  void add(const std::string& line) {
    text_ += indent_;
    for (const char c : line) {
      text_ += c;
      if (c == '\n') text_ += indent_;
    }
    text_ += '\n';
  }
  // `body` for the numbers from `first` up to before `end`: a loop, if there are several.
  template <class Body>
  void each(std::int64_t first, std::int64_t end, Body body) {
    if (first >= end) return;
    if (first + 1 == end) return body(Counted{first});
    const std::string counter = fmt::format("n{}", loops_++);
    add(fmt::format("- loop:\n    var: {}\n    from: {}\n    to: {}\n    do:", counter, first, end));
    const std::string outside = indent_;
    indent_ += "      ";
    body(Counted{0, 1, counter});
    indent_ = outside;
  }
  // The same with the chunk whose number is this rank's and `shift` less the step, modulo the ranks.
  template <class Body>
  void each_chunk(std::int64_t first, std::int64_t end, std::int64_t shift, Body body) {
    const auto ranks = static_cast<std::int64_t>(op_.ranks());
    while (first < end) {
      const std::int64_t chunk = ((rank_ + shift - first) % ranks + ranks) % ranks;
      const std::int64_t until = std::min(end, first + chunk + 1);  // then it begins again with the last one
      each(first, until, [&](const Counted& step) {
        body(step, Counted{chunk + first - step.constant, -step.factor, step.counter});
      });
      first = until;
    }
  }
  // All that the CTA has stored has come before the flag does.
  void tell(const std::string& flag) {
    add("- barrier");
    add(fmt::format(
        "- if: {{cond: thread == 0, then: [{{store: {{value: 1, type: u32, at: '{}', order: release, scope: gpu}}}}]}}",
        flag));
  }
  std::string flag(const std::string& base, const Counted& number) const {
    return fmt::format("{} + {} + 4 * cta", base, number.times(std::uint64_t{4} * op_.flag_ctas));
  }
  void wait(const Counted& number) {
    const std::string seen = fmt::format("seen{}", waits_++);
    const std::string at = flag(op_.flags(rank_), number);
    add(
        fmt::format("- if: {{cond: thread == 0, then: [{{set: {{{0}: 0, type: u32}}}}, {{while: {{cond: {0} == 0, do: "
                    "[{{load: {{to: {0}, type: u32, at: '{1}', order: acquire, scope: gpu}}}}]}}}}, "
                    "{{store: {{value: 0, type: u32, at: '{1}', order: relaxed, scope: gpu}}}}]}}",
                    seen, at));
    add("- barrier");
  }

  struct Move {
    std::string from;
    std::string added;  // empty: nothing
    std::vector<std::string> to;
    bool combined = false;  // `from` is an address of the group
  };
  // `bytes` from one place to others: rounds in which every thread has kUnroll vectors in flight, and what is left.
  void move(const Move& what, std::uint64_t bytes) {
    const std::uint64_t vectors = bytes / kVector;
    const std::uint64_t round = std::uint64_t{op_.ctas} * op_.threads * kUnroll;
    const std::uint64_t whole = vectors / round * round;
    if (whole > 0) move(what, 0, whole, kUnroll);
    if (vectors > whole) move(what, whole, vectors - whole, 1);
  }
  // `vectors` of them from number `first` on, with `unroll` of each thread in flight.
  void move(const Move& what, std::uint64_t first, std::uint64_t vectors, std::uint32_t unroll) {
    const std::uint64_t stride = std::uint64_t{op_.ctas} * op_.threads;
    const std::uint64_t rounds = (vectors + stride * unroll - 1) / (stride * unroll);
    add(fmt::format("- loop:\n    var: k{0}\n    to: {1}\n    do:", moves_, rounds));
    std::string indent = "      ";
    if (vectors % (stride * unroll) != 0) {
      add(fmt::format("{}- if:\n{}    cond: \"cta * {} + thread + {} * k{} < {}\"\n{}    then:", indent, indent,
                      op_.threads, stride, moves_, vectors, indent));
      indent += "      ";
    }
    const auto at = [&](const std::string& base, std::uint32_t u) {
      return fmt::format("{} + {} * (cta * {} + thread + {} * ({} * k{} + {}) + {})", base, kVector, op_.threads,
                         stride, unroll, moves_, u, first);
    };
    constexpr std::uint32_t kValues = kVector / 4;
    const auto names = [&](const char* what_name, std::uint32_t u) {
      std::vector<std::string> all;
      for (std::uint32_t v = 0; v < kValues; ++v) all.push_back(fmt::format("{}{}_{}", what_name, u, v));
      return all;
    };
    for (std::uint32_t u = 0; u < unroll; ++u) {
      add(fmt::format("{}- load: {{to: [{}], type: {}, at: '{}'{}}}", indent, fmt::join(names("a", u), ", "), op_.type,
                      at(what.from, u), what.combined ? ", combine: add" : ", order: relaxed, scope: gpu"));
      if (what.added.empty()) continue;
      add(fmt::format("{}- load: {{to: [{}], type: {}, at: '{}', order: relaxed, scope: gpu}}", indent,
                      fmt::join(names("b", u), ", "), op_.type, at(what.added, u)));
    }
    for (std::uint32_t u = 0; u < unroll; ++u) {
      const std::vector<std::string> a = names("a", u);
      const std::vector<std::string> b = names("b", u);
      for (std::uint32_t v = 0; !what.added.empty() && v < kValues; ++v) {
        add(fmt::format("{}- set: {{{}: {} + {}}}", indent, a[v], a[v], b[v]));
      }
      for (const std::string& to : what.to) {
        add(fmt::format("{}- store: {{value: [{}], type: {}, at: '{}', order: relaxed, scope: gpu}}", indent,
                        fmt::join(a, ", "), op_.type, at(to, u)));
      }
    }
    ++moves_;
  }

  // Flag 0: the successor takes part, and its memory may be written. Flags from 1 on: what has come from before. Of a
  // broadcast, the last rank sends nothing on.
  void by_ring() {
    const bool from_first = op_.kind == Collective::broadcast;
    if (!from_first || rank_ != 0) tell(flag(op_.flags(before()), {0}));
    if (!from_first || next() != 0) wait({0});
    if (from_first) return pass_on();
    const auto last = static_cast<std::int64_t>(op_.ranks()) - 1;
    const std::int64_t reduced = op_.kind == Collective::all_gather ? 0 : last;  // flags that this took
    if (reduced > 0) {
      reduce_scatter(last);
      if (op_.kind == Collective::reduce_scatter) return;
    } else {
      move({chunk_of(own(), own_chunk()), "", {chunk_of(theirs(), own_chunk())}, false}, op_.chunk());
    }
    tell(flag(op_.flags(next()), {reduced + 1}));
    each_chunk(1, last, 0, [&](const Counted& step, const Counted& chunk) {
      wait(step.plus(reduced));
      move({chunk_of(own(), chunk), "", {chunk_of(theirs(), chunk)}, false}, op_.chunk());
      tell(flag(op_.flags(next()), step.plus(reduced + 1)));
    });
    wait({reduced + last});
  }
  // Of an all-reduce, the sums go to the successor as well.
  void reduce_scatter(std::int64_t last) {
    const auto slot = [&](std::uint32_t rank, const Counted& step) { return chunk_of(op_.scratch(rank), step); };
    const auto send = [&](const Counted& step, const Counted& chunk, bool first) {
      if (!first) wait(step);
      Move what{chunk_of(own(), chunk), "", {slot(next(), step)}, false};
      if (!first) what.added = slot(rank_, step.plus(-1));
      move(what, op_.chunk());
      tell(flag(op_.flags(next()), step.plus(1)));
    };
    each_chunk(0, 1, -1, [&](const Counted& step, const Counted& chunk) { send(step, chunk, true); });
    each_chunk(1, last, -1, [&](const Counted& step, const Counted& chunk) { send(step, chunk, false); });
    wait({last});
    Move end{chunk_of(own(), own_chunk()), slot(rank_, {last - 1}), {chunk_of(own(), own_chunk())}, false};
    if (op_.kind == Collective::all_reduce) end.to.push_back(chunk_of(theirs(), own_chunk()));
    move(end, op_.chunk());
  }
  // From rank 0 on, part by part.
  void pass_on() {
    each(0, op_.ranks(), [&](const Counted& part) {
      if (rank_ > 0) wait(part.plus(1));
      if (next() == 0) return;
      move({chunk_of(own(), part), "", {chunk_of(theirs(), part)}, false}, op_.chunk());
      tell(flag(op_.flags(next()), part.plus(1)));
    });
  }
  // Flags of all ranks are written at once: those up to the number of ranks say that they take part, the others that
  // they have written their part. Of a broadcast, only rank 0 has to know of the others.
  void by_switch() {
    const std::string group = own() + ".group";
    const std::string flags = op_.flags(rank_) + ".group";
    const std::int64_t ranks = op_.ranks();
    const auto wait_for_all = [&](std::int64_t first) {
      each(0, ranks, [&](const Counted& rank) { wait(rank.plus(first)); });
    };
    if (op_.kind == Collective::broadcast) {
      tell(flag(op_.flags(0), own_chunk()));
      if (rank_ != 0) return wait({ranks});
      wait_for_all(0);
      move({own(), "", {group}, false}, op_.bytes);
      tell(flag(flags, {ranks}));
      return wait({ranks});
    }
    tell(flag(flags, own_chunk()));
    wait_for_all(0);
    const std::string mine = chunk_of("", own_chunk());
    const bool reduces = op_.kind != Collective::all_gather;
    const bool gathers = op_.kind != Collective::reduce_scatter;
    move({(reduces ? group : own()) + mine, "", {(gathers ? group : own()) + mine}, reduces}, op_.chunk());
    tell(flag(flags, own_chunk().plus(ranks)));
    wait_for_all(ranks);
  }

  const Operation& op_;
  const std::uint32_t rank_;
  std::uint32_t waits_ = 0;
  std::uint32_t moves_ = 0;
  std::uint32_t loops_ = 0;
  std::string indent_;
  std::string text_;
};

class Expander {
 public:
  // Nodes are only ever added to what has all of those before: yaml-cpp copies the list of all nodes of a document to a
  // smaller one that takes one of them.
  Expander(const YAML::Node& root, const std::string& file, AlikeRegions& alike)
      : root_(root), file_(file), alike_(alike) {
    for (const auto& entry : root) result_[entry.first] = entry.second;
    note_places(root["streams"], streams_);
    note_places(root["memory"], regions_);
  }

  YAML::Node expand() {
    std::vector<Operation> operations;
    for (const auto& node : operations_of(root_)) {
      const std::optional<Collective> kind = kind_of(node);
      if (!kind) continue;
      operations.push_back(read(node, *kind, operations.size()));
      join(operations.back());
    }
    // A flag has one place, and one who writes it, whatever the number of CTAs.
    for (Operation& op : operations) op.flag_ctas = communicators_.at({op.in_switch, op.streams}).ctas;
    YAML::Node memory = list("memory");
    for (const bool first : {true, false}) {
      // What the switch sends to comes first, so that it lies at one address everywhere.
      for (const auto& [streams, its] : communicators_) {
        if (its.first.in_switch == first) add_memory(its, memory);
      }
      for (const auto& node : root_["memory"]) {
        if (first) memory.push_back(node);
      }
    }
    YAML::Node kernels = list("kernels");
    YAML::Node submit = submit_list();
    for (const auto& node : root_["kernels"]) kernels.push_back(node);
    std::size_t next = 0;
    for (const auto& node : operations_of(root_)) {
      if (!kind_of(node)) {
        submit.push_back(node);
        continue;
      }
      add(operations[next++], node, kernels, submit);
    }
    return result_;
  }

  // The list of `submit`, or that of its key `operations`; undefined where there is none.
  static YAML::Node operations_of(const YAML::Node& root) {
    if (!root.IsMap() || !root["submit"].IsDefined()) return YAML::Node(YAML::NodeType::Undefined);
    const YAML::Node submit = root["submit"];
    return submit.IsMap() ? submit["operations"] : submit;
  }
  static std::optional<Collective> kind_of(const YAML::Node& node) {
    for (const Collective kind : kKinds) {
      if (node.IsMap() && node[collective_name(kind)].IsDefined()) return kind;
    }
    return std::nullopt;
  }

 private:
  std::size_t gpus() const { return root_["gpus"].IsDefined() ? root_["gpus"].size() : 1; }
  // The first entry of each name.
  using Places = std::map<std::string, YAML::Node>;
  static void note_places(const YAML::Node& list, Places& places) {
    if (!list.IsDefined()) return;
    for (const auto& node : list) {
      if (node.IsMap() && node["name"].IsDefined() && node["name"].IsScalar()) {
        places.emplace(node["name"].Scalar(), node);
      }
    }
  }
  static std::size_t gpu_of(const YAML::Node& node) {
    return node["gpu"].IsDefined() ? node["gpu"].as<std::size_t>(0) : 0;
  }
  // An empty list of the result's.
  YAML::Node list(const char* key) {
    result_[key] = YAML::Node(YAML::NodeType::Sequence);
    return result_[key];
  }
  YAML::Node submit_list() {
    const YAML::Node given = root_["submit"];
    if (!given.IsMap()) return list("submit");
    (void)MapReader(given, submission_spec(), "submit", file_);  // whose errors have their places here
    result_["submit"] = YAML::Node(YAML::NodeType::Map);
    YAML::Node submit = result_["submit"];
    for (const auto& entry : given) submit[entry.first] = entry.second;
    submit["operations"] = YAML::Node(YAML::NodeType::Sequence);
    return submit["operations"];
  }
  Operation read(const YAML::Node& node, Collective kind, std::size_t number) const {
    const MapReader map(node, collective_op_spec(), entry_name("operation", node, "id"), file_);
    for (const Collective other : kKinds) {
      if (other != kind && map.has(collective_name(other))) map.fail(collective_name(other), "an operation is one");
    }
    Operation op;
    op.kind = kind;
    op.name = fmt::format("{}_{}", collective_name(kind), number);
    op.bytes = map.number<std::uint64_t>(collective_name(kind), {Unit::bytes, 1, kMaxScenarioBytes});
    if (map.has("algorithm")) op.in_switch = map.choice("algorithm") == "switch";
    if (map.has("ctas")) op.ctas = map.number<std::uint32_t>("ctas", {Unit::count, 1, 1024});
    if (map.has("threads")) op.threads = map.number<std::uint32_t>("threads", {Unit::count, 32, 1024});
    if (map.has("type")) op.type = map.choice("type");
    for (const YAML::Node& item : map.items("streams")) {
      if (!item.IsScalar()) map.fail("streams", item, "a name is expected");
      const auto stream = streams_.find(item.Scalar());
      if (stream == streams_.end()) {
        map.fail("streams", item, fmt::format("there is no stream {} in `streams`", item.Scalar()));
      }
      op.streams.push_back(item.Scalar());
      op.gpus.push_back(gpu_of(stream->second));
      if (std::count(op.gpus.begin(), op.gpus.end(), op.gpus.back()) > 1) {
        map.fail("streams", item, fmt::format("two of them are of gpu{}", op.gpus.back()));
      }
    }
    for (const YAML::Node& item : map.items("buffers")) {
      if (!item.IsScalar()) map.fail("buffers", item, "a name is expected");
      const auto region = regions_.find(item.Scalar());
      if (region == regions_.end()) map.fail("buffers", item, fmt::format("there is no memory {}", item.Scalar()));
      const std::size_t rank = op.buffers.size();
      op.buffers.push_back(item.Scalar());
      if (rank >= op.gpus.size() || gpu_of(region->second) != op.gpus[rank]) {
        map.fail("buffers", item, "they are of the GPUs of the streams, in the same order");
      }
    }
    if (op.ranks() < 2 || op.buffers.size() != op.streams.size()) {
      map.fail("buffers", "there are at least two streams, and a buffer for each");
    }
    if (op.bytes % (std::uint64_t{kVector} * op.ranks()) != 0) {
      map.fail(collective_name(kind),
               fmt::format("not a multiple of {} bytes for each of {} GPUs", kVector, op.ranks()));
    }
    if (op.in_switch && op.ranks() != gpus()) {
      map.fail("streams", "the switch sends to all GPUs of the scenario, and they are not of all");
    }
    check_sizes(map, op);
    return op;
  }

  void check_sizes(const MapReader& map, const Operation& op) const {
    for (const std::string& buffer : op.buffers) {
      const YAML::Node& node = regions_.at(buffer);
      if (!node["shared"].IsDefined() || node["shared"].Scalar() != "true") {
        map.fail("buffers", fmt::format("memory {} is not `shared: true`, and other GPUs do not reach it", buffer));
      }
      if (!node["bytes"].IsDefined()) continue;  // that of a file
      const auto bytes = parse_quantity<std::uint64_t>(
          node["bytes"].Scalar(), Limits<std::uint64_t>{Unit::bytes, 1, kMaxScenarioBytes}, BareNumber::in_own_unit);
      if (bytes < op.bytes) map.fail("buffers", fmt::format("memory {} has {} bytes only", buffer, bytes));
    }
  }

  // Those of the same streams follow each other, and can use the same memory.
  void join(Operation& op) {
    const auto key = std::make_pair(op.in_switch, op.streams);
    const auto [found, fresh] = communicators_.emplace(key, Communicator{});
    Communicator& its = found->second;
    if (fresh) {
      its.first = op;
      its.first.shared = fmt::format("collective_{}", communicators_.size() - 1);
    }
    op.shared = its.first.shared;
    its.ctas = std::max(its.ctas, op.ctas);
    if (op.needs_scratch()) its.scratch = std::max(its.scratch, op.bytes);
    if (op.in_switch) alike_.push_back(op.buffers);
  }

  void add_memory(const Communicator& its, YAML::Node& memory) {
    const std::uint64_t bytes = std::uint64_t{4} * its.first.flag_count() * its.ctas;
    std::vector<std::string> flags;
    for (std::uint32_t rank = 0; rank < its.first.ranks(); ++rank) {
      flags.push_back(its.first.flags(rank));
      memory.push_back(region(flags.back(), its.first.gpus[rank], bytes));
      if (its.scratch > 0) memory.push_back(region(its.first.scratch(rank), its.first.gpus[rank], its.scratch));
    }
    if (its.first.in_switch) alike_.push_back(flags);
  }

  static void add(const Operation& op, const YAML::Node& node, YAML::Node& kernels, YAML::Node& submit) {
    for (std::uint32_t rank = 0; rank < op.ranks(); ++rank) {
      const std::string name = fmt::format("{}_{}", op.name, rank);
      YAML::Node kernel(YAML::NodeType::Map);
      kernel["name"] = name;
      kernel["grid"] = op.ctas;
      kernel["block"] = op.threads;
      kernel["program"] = YAML::Load(Steps(op, rank).text());
      kernels.push_back(kernel);
      YAML::Node launch(YAML::NodeType::Map);
      submit.push_back(launch);
      launch["kernel"] = name;
      launch["stream"] = op.streams[rank];
      if (node["id"].IsDefined()) launch["id"] = fmt::format("{}.{}", node["id"].Scalar(), rank);
      for (const char* key : {"at", "after"}) {
        if (node[key].IsDefined()) launch[key] = node[key];
      }
    }
  }

  static YAML::Node region(const std::string& name, std::size_t gpu, std::uint64_t bytes) {
    YAML::Node region(YAML::NodeType::Map);
    region["name"] = name;
    region["gpu"] = gpu;
    region["bytes"] = bytes;
    region["shared"] = true;
    return region;
  }

  const YAML::Node& root_;
  const std::string& file_;
  YAML::Node result_{YAML::NodeType::Map};
  AlikeRegions& alike_;
  Places streams_;
  Places regions_;
  std::map<std::pair<bool, std::vector<std::string>>, Communicator>
      communicators_;  // by the switch or not, and streams
};

}  // namespace

const char* collective_name(Collective kind) {
  constexpr const char* kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast"};
  return kNames[static_cast<std::size_t>(kind)];
}

double bytes_carried(Collective kind, std::size_t gpus, bool in_switch) {
  const auto n = static_cast<double>(gpus);
  switch (kind) {
    case Collective::all_reduce:
      return in_switch ? (n + 1) / n : 2 * (n - 1) / n;
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return in_switch ? 1 : (n - 1) / n;
    case Collective::broadcast:
      break;
  }
  return 1;
}

YAML::Node expand_collectives(const YAML::Node& root, const std::string& file, AlikeRegions& alike) {
  const YAML::Node submit = Expander::operations_of(root);
  if (!submit.IsDefined() || !submit.IsSequence()) return root;
  const bool any = std::any_of(submit.begin(), submit.end(),
                               [](const YAML::Node& node) { return Expander::kind_of(node).has_value(); });
  return any ? Expander(root, file, alike).expand() : root;
}

}  // namespace heddle::scenario
