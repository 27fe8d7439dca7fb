#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "import/dependencies.h"

namespace heddle::import {

using namespace workload;
namespace {

class GraphFormer {
 public:
  GraphFormer(Workload& workload, const std::vector<std::uint64_t>& launch_of)
      : ops_(workload.ops),
        launch_of_(launch_of),
        tolerance_(std::max(workload.timings.resolution, kRecordedRounding)),
        plain_(workload.streams.size(), false) {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (launch_of_[i] == 0) {
        plain_[ops_[i].stream] = true;
      } else {
        launches_[launch_of_[i]].push_back(i);
      }
    }
  }

  // In the order of their begins: a launch that has become one operation is seen as such by those behind it.
  void run() {
    std::vector<std::pair<std::size_t, std::uint64_t>> order;
    for (const auto& [launch, members] : launches_) {
      if (members.size() > 1) order.emplace_back(members.front(), launch);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [first, launch] : order) {
      const Members& members = launches_.at(launch);
      std::vector<GraphUse> nodes;
      if (is_whole(launch, members)) nodes = connected(members);
      if (!nodes.empty()) {
        for (std::size_t k = 0; k < members.size(); ++k) {
          ops_[members[k]].graph = std::move(nodes[k]);
          ops_[members[k]].stream = ops_[members.front()].stream;
        }
        ++formed_;
        nodes_ += members.size();
      } else {
        for (const std::size_t i : members) plain_[ops_[i].stream] = true;
        ++split_;
      }
    }
  }

  void note(std::vector<std::string>& notes) const {
    if (formed_ > 0) {
      notes.push_back(fmt::format(
          "{} launches of graphs, with {} operations, are one operation of their stream each; which of their "
          "nodes waits for which is inferred from recorded times.",
          formed_, nodes_));
    }
    if (split_ > 0) {
      notes.push_back(
          fmt::format("{} launches of graphs stay single operations of their streams, because others lie among them in "
                      "the recording, or parts of them are missing there.",
                      split_));
    }
  }

 private:
  using Members = std::vector<std::size_t>;
  using Ends = std::vector<std::pair<Nanoseconds, std::size_t>>;  // of operations, in order

  Nanoseconds end_of(std::size_t i) const { return ops_[i].recorded->start + ops_[i].recorded->duration; }

  bool is_whole(std::uint64_t launch, const Members& members) const {
    const std::size_t home = ops_[members.front()].stream;
    std::set<std::size_t> streams;
    for (const std::size_t i : members) streams.insert(ops_[i].stream);
    for (const std::size_t stream : streams) {
      if (stream != home && plain_[stream]) return false;
    }
    for (std::size_t i = members.front(); i < members.back(); ++i) {
      if (launch_of_[i] != launch && streams.count(ops_[i].stream) > 0) return false;
    }
    return true;
  }

  // By member; none if one of them starts too late for what is recorded.
  std::vector<GraphUse> connected(const Members& members) const {
    std::vector<GraphUse> nodes;
    std::map<std::size_t, Ends> so_far;  // by recorded stream
    for (const std::size_t i : members) {
      GraphUse use;
      const std::optional<std::size_t> before = last_ended(so_far[ops_[i].stream], i);
      if (before) use.after.push_back(*before);
      std::optional<std::size_t> other;
      for (const auto& [stream, ends] : so_far) {
        const std::optional<std::size_t> last = stream == ops_[i].stream ? std::nullopt : last_ended(ends, i);
        if (last && (!other || end_of(*last) > end_of(*other))) other = last;
      }
      if (other && (!before || end_of(*other) > end_of(*before))) use.after.push_back(*other);
      Nanoseconds due = ops_[members.front()].recorded->start;
      for (const std::size_t node : use.after) due = std::max(due, end_of(node));
      if (ops_[i].recorded->start > due + kUnexplained) return {};
      nodes.push_back(std::move(use));
      Ends& own = so_far[ops_[i].stream];
      const std::pair<Nanoseconds, std::size_t> end{end_of(i), i};
      own.insert(std::upper_bound(own.begin(), own.end(), end), end);
    }
    nodes.back().last = true;
    return nodes;
  }

  std::optional<std::size_t> last_ended(const Ends& ends, std::size_t i) const {
    const std::pair<Nanoseconds, std::size_t> latest{ops_[i].recorded->start + tolerance_, i};
    const auto behind = std::upper_bound(ends.begin(), ends.end(), latest);
    return behind == ends.begin() ? std::nullopt : std::optional(std::prev(behind)->second);
  }

  std::vector<Op>& ops_;
  const std::vector<std::uint64_t>& launch_of_;
  Nanoseconds tolerance_;
  std::vector<bool> plain_;  // by stream: it has operations that no graph launched
  std::map<std::uint64_t, Members> launches_;
  std::size_t formed_ = 0;
  std::size_t nodes_ = 0;
  std::size_t split_ = 0;
};

}  // namespace

void form_graphs(Workload& workload, const std::vector<std::uint64_t>& launch_of) {
  GraphFormer former(workload, launch_of);
  former.run();
  former.note(workload.warnings);
}

}  // namespace heddle::import
