// What a call asks of a stream, and graphs of that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/cudart/loaded_code.h"

namespace heddle::cuda {

struct HostWork {
  enum class Kind : std::uint8_t { kernel, copy, fill, empty, call };
  Kind kind = Kind::empty;
  // kernel
  CodeFunction* function = nullptr;
  arch::KernelShape shape;
  bool programmatic = false;
  std::vector<std::uint8_t> arguments;  // as the device has them
  // copy and fill: addresses as the process has them, in rows
  std::uint64_t to = 0;
  std::uint64_t from = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t rows = 1;
  std::uint64_t to_pitch = 0;  // bytes from one row to the next
  std::uint64_t from_pitch = 0;
  std::uint32_t value = 0;        // of each element
  std::uint32_t value_bytes = 1;  // 1, 2 or 4
  // call
  std::function<void()> call;
};

struct WorkNode {
  HostWork work;
  std::vector<WorkNode*> after;
};

// A copy has nodes of its own, in the same order.
class WorkGraph {
 public:
  WorkGraph() = default;
  WorkGraph(const WorkGraph& other);
  WorkGraph& operator=(const WorkGraph&) = delete;
  ~WorkGraph() = default;

  WorkNode& add(HostWork work, std::vector<WorkNode*> after);
  bool has(const WorkNode* node) const { return index_of(node) < nodes_.size(); }
  std::size_t index_of(const WorkNode* node) const;
  std::size_t size() const { return nodes_.size(); }
  WorkNode& node(std::size_t index) const { return *nodes_[index]; }
  // By index, each behind what it waits for. Fewer than size(): some wait for each other.
  std::vector<std::size_t> order() const;
  std::vector<std::size_t> before(std::size_t index) const;
  // Every node is one of these, or is waited for by one of them.
  bool joined_by(const std::vector<WorkNode*>& ends) const;

 private:
  std::vector<std::unique_ptr<WorkNode>> nodes_;
};

}  // namespace heddle::cuda
