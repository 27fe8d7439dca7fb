// The arguments of a recorded operator, as its work is counted from them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "demand/operator_work.h"
#include "workload/operators.h"

namespace heddle::demand {

using Extents = std::vector<std::int64_t>;

double count(const Extents& extents);

class Arguments {
 public:
  explicit Arguments(const std::vector<workload::OperatorArgument>& arguments) : arguments_(arguments) {}

  std::size_t size() const { return arguments_.size(); }
  // A tensor of a known type with a recorded shape, or one of no extents; of no more than any machine could hold.
  bool tensor(std::size_t at) const;
  const Extents& extents(std::size_t at) const { return arguments_[at].extents; }
  std::uint32_t element(std::size_t at) const { return element_bytes(arguments_[at].type); }
  // Of a list of tensors.
  Arguments elements(std::size_t at) const { return Arguments(arguments_[at].elements); }
  bool list(std::size_t at) const { return at < size() && !arguments_[at].elements.empty(); }
  // Numbers of an argument that is no tensor ("[1, 1]", "-1"); empty: none are recorded, or one is beyond 2^20.
  Extents numbers(std::size_t at) const;
  bool is_true(std::size_t at) const { return at < size() && arguments_[at].value == "True"; }
  std::vector<std::size_t> tensors() const;  // that have elements

  // What reading the tensor takes for a result of these extents, along which it may be broadcast.
  Operand read(std::size_t at, const Extents& result) const;
  Operand read(std::size_t at) const { return read(at, extents(at)); }

 private:
  const std::vector<workload::OperatorArgument>& arguments_;
};

// A result of these extents.
Operand result_of(const Extents& extents, std::uint32_t element_bytes);

}  // namespace heddle::demand
