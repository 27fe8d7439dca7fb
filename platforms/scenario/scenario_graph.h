// The graphs of a scenario: kernels that are launched together, each once those that it waits for have ended.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <yaml-cpp/yaml.h>

#include "program/map_reader.h"
#include "scenario/scenario_kernels.h"

namespace heddle::scenario {

struct GraphNode {
  std::string name;
  arch::KernelRecord kernel;
  std::vector<std::size_t> after;  // places in the list
};
// Each behind all that it waits for; among those that could come next the first of the file does.
using Graph = std::vector<GraphNode>;

class GraphList {
 public:
  // Throws InputError with file and line: for names that are not there or there twice, and for a circle. `list` may be
  // null.
  void read(const YAML::Node& list, const std::string& file, KernelTable& kernels);
  // The one that the key `graph` names; it is in use from now on. Throws InputError.
  const Graph& find(const MapReader& map);
  // Sentences about graphs that no operation launches.
  std::vector<std::string> unused(const std::string& file) const;

 private:
  struct Entry {
    Graph graph;
    bool used = false;
  };
  std::map<std::string, Entry> graphs_;
};

// An order in which each comes behind all that it waits for: places in `after`, the smallest that can come next first.
// Those that it leaves out wait in a circle, or for one.
std::vector<std::size_t> order_of(const std::vector<std::vector<std::size_t>>& after);
// A circle among them: each waits for the next, and the last for the first. There is one.
std::vector<std::size_t> circle_of(const std::vector<std::vector<std::size_t>>& after);

}  // namespace heddle::scenario
