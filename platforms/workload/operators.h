// What a framework's profiler tells of the operators that launched the kernels of a recording. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::workload {

// An argument of an operator. Tensors have extents, lists of tensors have elements; others have at most a value.
struct OperatorArgument {
  std::string type;                   // as the recorder calls it: "c10::BFloat16", "float", "Scalar", "ScalarList"
  std::vector<std::int64_t> extents;  // outermost first; of no tensor: empty
  std::vector<std::int64_t> strides;  // elements, as many as extents; empty where they are not recorded
  std::string value;                  // of no tensor: as the recorder writes it, "[1, 1]", "-1"; empty: not recorded
  std::vector<OperatorArgument> elements;  // of a list of tensors ("TensorList"), in its order; their types where known
};

struct Operator {
  std::string name;  // "aten::addmm"
  std::vector<OperatorArgument> arguments;
  std::optional<std::size_t> caller;  // the operator within which it ran: index into Workload::operators
};

}  // namespace heddle::workload
