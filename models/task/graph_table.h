// Graphs of kernels that have been launched: a kernel is ready once it has been taken up and all that it waits for in
// its graph have ended. In its stream a launch is one operation, known by the number of its last kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/waits.h"
#include "protocol/host_task.h"

namespace heddle::task {

class GraphTable {
 public:
  using Cycle = std::uint64_t;
  using Operation = std::uint32_t;

  struct Node {
    protocol::SubmitPacket packet;
    Cycle submitted = 0;
    Cycle released = 0;  // the last end that it waited for, or when its launch was taken up
  };

  // A kernel of the launch that is being submitted to its stream, or an edge to one that follows, from one of the same
  // launch.
  void submit(const protocol::SubmitPacket& packet, Cycle now);
  // The launch is the next operation of its stream: its kernels, in the order of their submission. Each is to be taken
  // up.
  std::vector<Operation> begin(Operation launch, Cycle now);
  // The launch of that kernel has begun.
  bool begun(Operation operation) const { return launches_.at(nodes_.at(operation).launch).begun; }
  // Nothing but others of its graph keeps the kernel. True: not even those do.
  bool taken(Operation operation);
  // Kernels that are ready by its end, in the order of their submission.
  std::vector<Operation> ended(Operation operation, Cycle end);
  // The launch of a kernel, if all of its kernels have ended: it is gone after that.
  std::optional<Operation> take_over(Operation operation);

  bool has(Operation operation) const { return nodes_.count(operation) != 0; }
  const Node& node(Operation operation) const { return nodes_.at(operation).node; }
  // Kernels that have not ended.
  std::size_t open() const { return open_; }

  // Who waits for whom, for the watchdog. `name` gives the text for an operation id.
  template <class Name>
  void collect_waits(WaitGraph& graph, const Name& name) const;
  void reset();

 private:
  struct State {
    Node node;
    Operation launch = 0;
    std::uint32_t waits = 1;  // for so many ends, and for being taken up
    bool ended = false;
    std::vector<Operation> next;  // that wait for its end
  };
  struct Launch {
    std::vector<Operation> nodes;
    std::size_t left = 0;  // that have not ended
    bool begun = false;
  };

  std::map<Operation, State> nodes_;
  std::map<Operation, Launch> launches_;
  std::unordered_map<std::uint32_t, Launch> coming_;                    // by stream; looked up only
  std::unordered_map<Operation, std::vector<Operation>> coming_edges_;  // by who waits; looked up only
  std::size_t open_ = 0;
};

template <class Name>
void GraphTable::collect_waits(WaitGraph& graph, const Name& name) const {
  for (const auto& [launch, its] : launches_) {
    for (const Operation operation : its.nodes) {
      const State& state = nodes_.at(operation);
      if (state.ended) continue;
      if (operation != launch) graph.add(name(launch), "for the end of its graph, of which there is", name(operation));
      for (const Operation next : state.next) {
        graph.add(name(next), "in its graph for the end of", name(operation));
      }
    }
  }
}

}  // namespace heddle::task
