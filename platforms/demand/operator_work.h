// The work of an operator of a framework, as its name and the shapes of its arguments tell it: what any machine has to
// compute and to move, however it does it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/demand.h"
#include "workload/operators.h"

namespace heddle::demand {

enum class Kind : std::uint8_t {
  matmul,
  convolution,
  attention,
  elementwise,
  reduction,
  normalisation,
  embedding,
  copy,
};
constexpr std::size_t kKinds = 8;
const char* kind_name(Kind kind);

// A tensor that is read or written.
struct Operand {
  double bytes = 0;         // of its elements, each once
  double fetched = 0;       // by all threads together, where SMs keep nothing for each other: of broadcast ones more
  bool weight = false;      // a parameter of the model: no other operator made it
  std::uint64_t shape = 0;  // tells tensors of different extents or types from each other
};

// Of a matrix multiply, or of a convolution as one.
struct MatmulShape {
  double batch = 1;
  double m = 0;
  double n = 0;
  double k = 0;
  double element_bytes = 0;  // of the operands
};

// Of an attention.
struct AttentionShape {
  double heads = 0;  // of all sequences together
  double queries = 0;
  double keys = 0;
  double head = 0;  // extent
  double element_bytes = 0;
};

struct Work {
  Kind kind = Kind::elementwise;
  arch::DemandUnit unit = arch::DemandUnit::fp32;  // of `flops`: a tensor core's, or a vector unit
  double flops = 0;
  double fp32 = 0;  // operations of a lane beside those
  double sfu = 0;   // operations
  std::vector<Operand> reads;
  std::vector<Operand> writes;
  std::optional<MatmulShape> matmul;
  std::optional<AttentionShape> attention;

  double bytes() const;  // read and written, each element once
};

// Bytes of an element of a type as PyTorch's profiler calls it ("c10::BFloat16", "float", "long int"); 0: no such type.
std::uint32_t element_bytes(std::string_view type);

// What `kernel`, one of those that the operator launches, has to do. Of operators that launch several the kernel's name
// tells which part of it (layout changes of convolutions). None: the operator is not known, or its shapes are not
// recorded. Operators are those of PyTorch's ATen, by its documentation and declarations (native_functions.yaml).
std::optional<Work> work_of(const workload::Operator& op, std::string_view kernel);

}  // namespace heddle::demand
