#include "scenario/collectives.h"

#include <algorithm>
#include <cstdint>
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
  std::string name;  // of its kernels and memory
  std::uint64_t bytes = 0;
  bool in_switch = false;
  std::uint32_t ctas = 16;
  std::uint32_t threads = 512;
  std::string type = "f32";
  std::vector<std::size_t> gpus;
  std::vector<std::string> streams;
  std::vector<std::string> buffers;

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(gpus.size()); }
  // What a rank owns; of a broadcast, what is passed on before the next part.
  std::uint64_t chunk() const { return bytes / ranks(); }
  std::string flags(std::uint32_t rank) const { return fmt::format("{}_flags_{}", name, rank); }
  std::string scratch(std::uint32_t rank) const { return fmt::format("{}_scratch_{}", name, rank); }
  // Flags of a CTA: one says that the successor may be written to, the others what has come.
  std::uint32_t flag_count() const { return 2 * ranks() + 1; }
  bool needs_scratch() const {
    return !in_switch && (kind == Collective::all_reduce || kind == Collective::reduce_scatter);
  }
};

// The steps of one rank's kernel, as text. A CTA takes the same vectors of every chunk, so that CTAs of different GPUs
// go on without regard to the others of theirs.
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
  // The chunk with that number, counted from the rank on, in some buffer.
  std::string chunk_of(const std::string& base, std::int64_t number) const {
    const auto ranks = static_cast<std::int64_t>(op_.ranks());
    const std::int64_t chunk = ((static_cast<std::int64_t>(rank_) + number) % ranks + ranks) % ranks;
    return fmt::format("{} + {}", base, static_cast<std::uint64_t>(chunk) * op_.chunk());
  }
  const std::string& own() const { return op_.buffers[rank_]; }
  const std::string& theirs() const { return op_.buffers[next()]; }

  void add(const std::string& line) { text_ += line + "\n"; }
  // All that the CTA has stored has come before the flag does.
  void tell(const std::string& flag) {
    add("- barrier");
    add(fmt::format(
        "- if: {{cond: thread == 0, then: [{{store: {{value: 1, type: u32, at: '{}', order: release, scope: gpu}}}}]}}",
        flag));
  }
  std::string flag(const std::string& base, std::uint32_t number) const {
    return fmt::format("{} + 4 * ({} + cta)", base, number * op_.ctas);
  }
  void wait(std::uint32_t number) {
    const std::string seen = fmt::format("seen{}", waits_++);
    add(
        fmt::format("- if: {{cond: thread == 0, then: [{{set: {{{0}: 0, type: u32}}}}, {{while: {{cond: {0} == 0, do: "
                    "[{{load: {{to: {0}, type: u32, at: '{1}', order: acquire, scope: gpu}}}}]}}}}]}}",
                    seen, flag(op_.flags(rank_), number)));
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

  // Flag 0: the successor takes part, and its memory may be written. Flags from 1 on: what has come from before.
  void by_ring() {
    const std::uint32_t ranks = op_.ranks();
    tell(flag(op_.flags(before()), 0));
    wait(0);
    if (op_.kind == Collective::broadcast) return pass_on();
    std::uint32_t sent = 1;
    std::uint32_t seen = 1;
    const auto last = static_cast<std::int64_t>(ranks) - 1;
    if (op_.kind != Collective::all_gather) {
      const auto slot = [&](std::uint32_t rank, std::int64_t step) {
        return fmt::format("{} + {}", op_.scratch(rank), static_cast<std::uint64_t>(step) * op_.chunk());
      };
      for (std::int64_t step = 0; step < last; ++step) {
        if (step > 0) wait(seen++);
        Move what{chunk_of(own(), -1 - step), "", {slot(next(), step)}, false};
        if (step > 0) what.added = slot(rank_, step - 1);
        move(what, op_.chunk());
        tell(flag(op_.flags(next()), sent++));
      }
      wait(seen++);
      Move end{chunk_of(own(), 0), slot(rank_, last - 1), {chunk_of(own(), 0)}, false};
      if (op_.kind == Collective::all_reduce) end.to.push_back(chunk_of(theirs(), 0));
      move(end, op_.chunk());
      if (op_.kind == Collective::reduce_scatter) return;
    } else {
      move({chunk_of(own(), 0), "", {chunk_of(theirs(), 0)}, false}, op_.chunk());
    }
    tell(flag(op_.flags(next()), sent++));
    for (std::int64_t step = 1; step < last; ++step) {
      wait(seen++);
      move({chunk_of(own(), -step), "", {chunk_of(theirs(), -step)}, false}, op_.chunk());
      tell(flag(op_.flags(next()), sent++));
    }
    wait(seen);
  }
  // From rank 0 on, part by part.
  void pass_on() {
    for (std::uint32_t part = 0; part < op_.ranks(); ++part) {
      if (rank_ > 0) wait(1 + part);
      if (next() == 0) continue;
      const std::uint64_t at = part * op_.chunk();
      move({fmt::format("{} + {}", own(), at), "", {fmt::format("{} + {}", theirs(), at)}, false}, op_.chunk());
      tell(flag(op_.flags(next()), 1 + part));
    }
  }
  // Flags of all ranks are written at once: those up to the number of ranks say that they take part, the others that
  // they have written their part.
  void by_switch() {
    const std::string group = own() + ".group";
    const std::string flags = op_.flags(rank_) + ".group";
    const std::uint32_t ranks = op_.ranks();
    tell(flag(flags, rank_));
    for (std::uint32_t rank = 0; rank < ranks; ++rank) wait(rank);
    const std::string mine = chunk_of("", 0);
    if (op_.kind == Collective::broadcast) {
      if (rank_ == 0) move({own(), "", {group}, false}, op_.bytes);
      if (rank_ == 0) tell(flag(flags, ranks));
      return wait(ranks);
    }
    const bool reduces = op_.kind != Collective::all_gather;
    const bool gathers = op_.kind != Collective::reduce_scatter;
    move({(reduces ? group : own()) + mine, "", {(gathers ? group : own()) + mine}, reduces}, op_.chunk());
    tell(flag(flags, ranks + rank_));
    for (std::uint32_t rank = 0; rank < ranks; ++rank) wait(ranks + rank);
  }

  const Operation& op_;
  const std::uint32_t rank_;
  std::uint32_t waits_ = 0;
  std::uint32_t moves_ = 0;
  std::string text_;
};

class Expander {
 public:
  Expander(const YAML::Node& root, const std::string& file, AlikeRegions& alike)
      : root_(root), file_(file), alike_(alike) {
    for (const auto& entry : root) result_[entry.first] = entry.second;
  }

  YAML::Node expand() {
    YAML::Node submit(YAML::NodeType::Sequence);
    std::size_t number = 0;
    for (const auto& node : root_["submit"]) {
      const std::optional<Collective> kind = kind_of(node);
      if (!kind) {
        submit.push_back(node);
        continue;
      }
      add(read(node, *kind, number++), node, submit);
    }
    // What the switch sends to comes first, so that it lies at one address everywhere.
    YAML::Node memory(YAML::NodeType::Sequence);
    YAML::Node kernels(YAML::NodeType::Sequence);
    for (const auto& node : first_) memory.push_back(node);
    for (const auto& node : root_["memory"]) memory.push_back(node);
    for (const auto& node : behind_) memory.push_back(node);
    for (const auto& node : root_["kernels"]) kernels.push_back(node);
    for (const auto& node : kernels_) kernels.push_back(node);
    result_["memory"] = memory;
    result_["kernels"] = kernels;
    result_["submit"] = submit;
    return result_;
  }

  static std::optional<Collective> kind_of(const YAML::Node& node) {
    for (const Collective kind : kKinds) {
      if (node.IsMap() && node[collective_name(kind)].IsDefined()) return kind;
    }
    return std::nullopt;
  }

 private:
  std::size_t gpus() const { return root_["gpus"].IsDefined() ? root_["gpus"].size() : 1; }
  static std::size_t gpu_of(const YAML::Node& list, const std::string& name, bool& found) {
    for (const auto& node : list) {
      if (!node.IsMap() || !node["name"].IsDefined() || node["name"].Scalar() != name) continue;
      found = true;
      return node["gpu"].IsDefined() ? node["gpu"].as<std::size_t>(0) : 0;
    }
    return 0;
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
      op.streams.push_back(item.Scalar());
      bool found = false;
      op.gpus.push_back(gpu_of(root_["streams"], item.Scalar(), found));
      if (!found) map.fail("streams", item, fmt::format("there is no stream {} in `streams`", item.Scalar()));
      if (std::count(op.gpus.begin(), op.gpus.end(), op.gpus.back()) > 1) {
        map.fail("streams", item, fmt::format("two of them are of gpu{}", op.gpus.back()));
      }
    }
    for (const YAML::Node& item : map.items("buffers")) {
      op.buffers.push_back(item.Scalar());
      bool found = false;
      const std::size_t gpu = gpu_of(root_["memory"], item.Scalar(), found);
      if (!found) map.fail("buffers", item, fmt::format("there is no memory {}", item.Scalar()));
      const std::size_t rank = op.buffers.size() - 1;
      if (rank >= op.gpus.size() || gpu != op.gpus[rank]) {
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
      for (const auto& node : root_["memory"]) {
        if (!node.IsMap() || !node["name"].IsDefined() || node["name"].Scalar() != buffer) continue;
        if (!node["shared"].IsDefined() || node["shared"].Scalar() != "true") {
          map.fail("buffers", fmt::format("memory {} is not `shared: true`, and other GPUs do not reach it", buffer));
        }
        if (!node["bytes"].IsDefined()) continue;  // that of a file
        const auto bytes = parse_quantity<std::uint64_t>(
            node["bytes"].Scalar(), Limits<std::uint64_t>{Unit::bytes, 1, kMaxScenarioBytes}, BareNumber::in_own_unit);
        if (bytes < op.bytes) map.fail("buffers", fmt::format("memory {} has {} bytes only", buffer, bytes));
      }
    }
  }

  void add(const Operation& op, const YAML::Node& node, YAML::Node& submit) {
    for (std::uint32_t rank = 0; rank < op.ranks(); ++rank) {
      (op.in_switch ? first_ : behind_)
          .push_back(region(op.flags(rank), op.gpus[rank], std::uint64_t{4} * op.flag_count() * op.ctas));
      if (op.needs_scratch()) behind_.push_back(region(op.scratch(rank), op.gpus[rank], op.bytes));
    }
    if (op.in_switch) {
      std::vector<std::string> flags;
      for (std::uint32_t rank = 0; rank < op.ranks(); ++rank) flags.push_back(op.flags(rank));
      alike_.push_back(flags);
      alike_.push_back(op.buffers);
    }
    for (std::uint32_t rank = 0; rank < op.ranks(); ++rank) {
      const std::string name = fmt::format("{}_{}", op.name, rank);
      YAML::Node kernel(YAML::NodeType::Map);
      kernel["name"] = name;
      kernel["grid"] = op.ctas;
      kernel["block"] = op.threads;
      kernel["program"] = YAML::Load(Steps(op, rank).text());
      kernels_.push_back(kernel);
      YAML::Node launch(YAML::NodeType::Map);
      launch["kernel"] = name;
      launch["stream"] = op.streams[rank];
      if (node["id"].IsDefined()) launch["id"] = fmt::format("{}.{}", node["id"].Scalar(), rank);
      for (const char* key : {"at", "after"}) {
        if (node[key].IsDefined()) launch[key] = node[key];
      }
      submit.push_back(launch);
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
  std::vector<YAML::Node> first_;   // memory
  std::vector<YAML::Node> behind_;  // the same
  std::vector<YAML::Node> kernels_;
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
  if (!root.IsMap() || !root["submit"].IsDefined() || !root["submit"].IsSequence()) return root;
  const YAML::Node& submit = root["submit"];
  const bool any = std::any_of(submit.begin(), submit.end(),
                               [](const YAML::Node& node) { return Expander::kind_of(node).has_value(); });
  return any ? Expander(root, file, alike).expand() : root;
}

}  // namespace heddle::scenario
